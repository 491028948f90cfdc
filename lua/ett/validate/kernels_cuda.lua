--- The training step of `ett validate` on a GPU: the operators' own CUDA code on the model's tensors, recorded once
--- and run as one CUDA graph. The interface is that of ett.validate.model; one device, no collectives.
--
-- An operator's kernel(k, s, pass) asks for its tensors one after the other; here it gets those of the model, so that
-- a step launches what the campaign timed. Master weights, moments and gradients are fp32; weights and activations
-- have the precision of the run. A layer's gradients are added to those of the step when they are whole
-- (gradient_accumulation), which is how ett.lower counts them.
local buffers = require "ett.validate.buffers"
local error_module = require "ett.base.error"
local must = error_module.must
local operator = require "ett.operator"
local optimizer = require "ett.operator.optimizer"

local validate_kernels_cuda = {}
local Kernels = {}
Kernels.__index = Kernels

-- Parameters begin at multiples of this: 256 bytes in 16 bits, what cuBLASLt supposes of its operands.
local ALIGNED = 128

-- Wider models learn at a rate that falls with their width (Yang et al. 2021): there is no warm-up.
local WIDTH_AT_RATE = 512

local source = [[
// The first micro-batch of a step finds nothing to add to.
extern "C" __global__ void gradient_accumulation(const T *gradient, float *kept, long long first, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    kept[i] = first ? load(gradient, i) : kept[i] + load(gradient, i);
}

extern "C" __global__ void zero_gradients(float *kept, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    kept[i] = 0.0f;
}
]]

--- The model's tensors in the order in which each operator's kernel() asks for its own.
local bindings = {
  embedding = { forward = { "ids", "table", "out" }, backward = { "ids", "dtable", "dy" } },
  layer_norm = { forward = { "gain", "x", "mean", "inverse", "bias", "y" },
    backward = { "gain", "x", "mean", "inverse", "dy", "dx", "dgain", "dbias" } },
  linear = { forward = { "x", "w", "y" }, backward = { "x", "w", "dy", "dx", "dw" } },
  rope = { forward = { "table", "q", "q", "k", "k" }, backward = { "table", "q", "q", "k", "k" } },
  flash_attention = { forward = { "q", "k", "v", "out", "stats" },
    backward = { "q", "k", "v", "out", "stats", "dout", "dq", "dk", "dv" } },
  residual_add = { forward = { "a", "b", "sum" }, backward = { "a", "b", "sum" } },
  gelu = { forward = { "x", "y" }, backward = { "x", "dy", "dx" } },
  cross_entropy = { forward = { "target", "probability", "loss", "logits" },
    backward = { "target", "probability", "dloss", "dlogits" } },
  optimizer = { update = { "gradients", "master", "first", "second", "weights", "correction" } },
}
for _, name in ipairs { "linear_qkv", "linear_proj", "linear_up", "linear_down", "lm_head" } do
  bindings[name] = bindings.linear
end

---@param device userdata of ett.cuda; it must outlive the kernels
---@param precision string of weights and activations
---@param time_limit_seconds number after which a step counts as one that never ends
function validate_kernels_cuda.new(device, precision, time_limit_seconds)
  return setmetatable({ work = must(device:work(precision)), precision = precision, limit = time_limit_seconds,
    backend = require("ett.base.find").load("samplers", "cuda"),
    parts = {}, ends = {}, slices = {}, micro_batches = {} },
    Kernels)
end

--- A tensor of the model: its number in the work list, elements and element type.
function Kernels:tensor(count, kind)
  local dtype = kind or self.precision
  return { number = must(self.work:tensor { count, dtype = dtype, fill = "zero" }), count = count, dtype = dtype }
end

local function view(self, tensor, first, count)
  return { number = must(self.work:view(tensor.number, first, count)), count = count, dtype = tensor.dtype }
end

--- Parameters in flat buffers, those of norms first. The gradients of norms are kept where they are summed; those of
--- products and the embedding go to a buffer that the layers share, each adding its own to the kept ones.
function Kernels:hold(t, list)
  local norms, weights, total = {}, {}, 0
  for _, entry in ipairs(list) do table.insert(entry.value and norms or weights, entry) end
  local function place(entries)
    for _, entry in ipairs(entries) do
      entry.at = total + 1
      total = total + (entry.count + ALIGNED - 1) // ALIGNED * ALIGNED
    end
  end
  place(norms)
  self.norm_count = total
  place(weights)
  t.parameter_count = total
  for _, entry in ipairs(list) do
    local g = entry.group
    g.parameters = (g.parameters or 0) + entry.count
    if not entry.value then
      g.first, g.last = g.first or entry.at, entry.at + (entry.count + ALIGNED - 1) // ALIGNED * ALIGNED - 1
    end
  end
  local largest = 0
  for _, entry in ipairs(weights) do largest = math.max(largest, entry.group.last - entry.group.first + 1) end
  local function flat() return self:tensor(total, "fp32") end
  local state = { gradients = flat(), master = flat(), first = flat(), second = flat(), weights = self:tensor(total),
    correction = self:tensor(2, "fp32") }
  local shared = self:tensor(largest)
  for _, entry in ipairs(list) do
    entry.master, entry.w = view(self, state.master, entry.at, entry.count), view(self, state.weights, entry.at,
      entry.count)
    entry.g = entry.value and view(self, state.gradients, entry.at, entry.count)
      or view(self, shared, entry.at - entry.group.first + 1, entry.count)
  end
  t.optimizer_state, self.state, self.shared, self.parameters = state, state, shared, list
end

--- The logarithm of each query's sum of exponentials.
function Kernels:attention_state(t) return self:tensor(t.plan.micro_batch * t.z.heads * t.plan.seq, "fp32") end

function Kernels:entropy_state(t) return self:tensor(t.z.tokens * t.z.vocab, "fp32") end

function Kernels:rotation(t)
  self.angles = self:tensor(t.plan.seq * (t.z.head_dim // 2), "fp32")
  return self.angles
end

--- Every micro-batch has its own: a step is launched as one graph, its tokens are there before.
function Kernels:inputs(t)
  for i = 1, t.plan.micro_batches do
    self.micro_batches[i] = { ids = self:tensor(t.z.tokens, "int64"), targets = self:tensor(t.z.tokens, "int64"),
      loss = self:tensor(t.z.tokens, "fp32") }
  end
  self.dloss = self:tensor(t.z.tokens, "fp32")
end

function Kernels:feed(_, a, i)
  local own = self.micro_batches[i]
  a.ids, a.targets, a.loss, self.micro_batch = own.ids, own.targets, own.loss, i
end

function Kernels.book_loss() end

--- Queries, keys and values in a packed projection [tokens, 3 width].
local function slices(self, t, packed)
  local list = self.slices[packed.number]
  if not list then
    list = {}
    local width = t.z.width
    for i = 0, 2 do
      list[i + 1] = view(self, packed, i * width + 1, packed.count - i * width)
      list[i + 1].row = 3 * width
    end
    self.slices[packed.number] = list
  end
  return table.unpack(list)
end

--- The operands that only this back end has, or has in parts.
local expand = {}
function expand.rope(self, t, given) given.q, given.k = slices(self, t, given.x) end
function expand.flash_attention(self, t, given)
  given.q, given.k, given.v = slices(self, t, given.qkv)
  given.stats, given.out = given.kept, setmetatable({ row = t.z.width }, { __index = given.out })
  if given.dqkv then
    given.dq, given.dk, given.dv = slices(self, t, given.dqkv)
    given.dout = setmetatable({ row = t.z.width }, { __index = given.dout })
  end
end
function expand.cross_entropy(self, _, given) given.probability, given.dloss = given.kept, self.dloss end

--- A sink of samplers/cuda whose tensors are the model's.
local function sink(self, name, pass, given)
  local work, order, at = self.work, bindings[name][pass], 0
  local s = {}
  function s.tensor(_, spec)
    at = at + 1
    local tensor, count = given[order[at]], 1
    for _, dimension in ipairs(spec) do count = count * dimension end
    if not tensor or tensor.dtype ~= spec.dtype or tensor.count < count
      or not tensor.row and tensor.count ~= count then
      error_module.raise("internal", "%s %s asks for %d elements of %s as tensor %d, the model's %s has %s of %s", name,
        pass, count, spec.dtype, at, tostring(order[at]), tensor and tensor.count, tensor and tensor.dtype)
    end
    return tensor.number, tensor.row
  end
  function s.kernel(_, launch) return work:kernel(launch) end
  function s.gemm(_, g) return work:gemm(g) end
  function s.attention(_, a) return work:attention(a) end
  return s, function() return at == #order end
end

--- What was recorded since the last call is one call of this record.
local function book(self, record)
  record.calls = record.calls + 1
  self.parts[#self.parts + 1], self.ends[#self.ends + 1] = record, self.work:launches()
end

--- Records one pass of an operator.
function Kernels:run(t, name, shape, pass, given)
  if expand[name] then expand[name](self, t, given) end
  local tensors, complete = sink(self, name, pass, given)
  self.backend.record(tensors, operator.get(name), shape, pass, self.precision)
  if not complete() then error_module.raise("internal", "%s %s left tensors of the model unused", name, pass) end
  local record = t:record(name, pass, 0)
  record.shape = shape
  book(self, record)
end

local function elementwise(self, name, count, args)
  args[#args + 1] = count
  must(self.work:kernel { source = source, name = name, label = "validate_kernels_cuda.lua",
    grid = math.min((count + 255) // 256, 1 << 20), block = 256, args = args })
end

--- Adds a layer's gradients to the kept ones. It is timed and predicted as ett.lower does: a residual addition that
--- moves as many bytes.
function Kernels:end_group(t, group)
  local count = group.last - group.first + 1
  elementwise(self, "gradient_accumulation", count, { { tensor = view(self, self.shared, 1, count).number },
    { tensor = view(self, self.state.gradients, group.first, count).number }, self.micro_batch == 1 and 1 or 0 })
  local width, hidden = self.precision == "fp32" and 4 or 2, t.z.hidden
  local elements = group.parameters * (width + 8) / (3 * width)
  local record = t:record(("gradient_accumulation %d"):format(group.parameters), "backward", 0)
  record.name, record.operator = "gradient_accumulation", "residual_add"
  record.shape = { tokens = math.max(1, math.floor(elements / hidden + 0.5)), hidden = hidden }
  book(self, record)
end

--- Sets the parameters to where training begins. values: a list of numbers by entry of self.parameters, for checks.
function Kernels:initialise(values)
  local work, state = self.work, self.state
  for i, entry in ipairs(self.parameters) do
    for _, tensor in ipairs { entry.master, entry.w } do
      local list = values and values[i]
      if not list and entry.value then
        list = {}
        for j = 1, entry.count do list[j] = entry.value end
      end
      if list then
        must(work:write(tensor.number, list))
      else
        must(work:fill(tensor.number, { fill = "normal", deviation = entry.deviation, seed = entry.seed }))
      end
    end
  end
  for _, name in ipairs { "first", "second" } do must(work:fill(state[name].number, { fill = "zero" })) end
end

--- Records the step and makes it a graph. To be ready, the list runs twice: on zeros, before the parameters are set.
local function record(self, t)
  elementwise(self, "zero_gradients", self.norm_count, { { tensor = self.state.gradients.number } })
  book(self, t:record("zero_gradients", "update", 0))
  t:walk()
  must(self.work:ready { graph = true, time_limit_seconds = self.limit })
  local angles, share, half = {}, {}, t.z.head_dim // 2
  for position = 0, t.plan.seq - 1 do
    for i = 0, half - 1 do angles[position * half + i + 1] = buffers.angle(position, i, t.z.head_dim) end
  end
  for i = 1, t.z.tokens do share[i] = t:token_share() end
  must(self.work:write(self.angles.number, angles))
  must(self.work:write(self.dloss.number, share))
  self:initialise(self.initial)
  self.recorded = true
end

--- Puts the tokens of a step and the optimizer's corrections on the device, as a data loader does, ahead of the step.
local function load_inputs(self, t)
  if not self.recorded then record(self, t) end
  for i, own in ipairs(self.micro_batches) do
    local ids, targets = t:tokens(i)
    must(self.work:write(own.ids.number, ids))
    must(self.work:write(own.targets.number, targets))
  end
  local corrections = optimizer.corrections(t.step_number)
  corrections[1] = corrections[1] * math.min(1, WIDTH_AT_RATE / t.z.hidden)
  must(self.work:write(self.state.correction.number, corrections))
end

local function loss_of(self, t)
  local sum = 0.0
  for _, own in ipairs(self.micro_batches) do
    for _, value in ipairs(must(self.work:read(own.loss.number))) do sum = sum + value end
  end
  return sum / (t.z.tokens * t.plan.micro_batches)
end

--- One step as one graph. self.wall_seconds: from its launch until the device had finished.
function Kernels:step(t)
  load_inputs(self, t)
  self.wall_seconds = must(self.work:run(self.limit))
  return loss_of(self, t)
end

--- One more step, launch by launch with events between the operators: seconds of every call, in the order of
--- self.parts, and the loss.
function Kernels:timed_step(t)
  t.step_number = t.step_number + 1
  load_inputs(self, t)
  local seconds = must(self.work:time_parts(self.ends, self.limit))
  return seconds, loss_of(self, t)
end

function Kernels:close() self.work:close() end

return validate_kernels_cuda
