--- `ett validate` on one GPU (the interface is in ett.validate).
--
-- A step is one CUDA graph that runs the operators' CUDA code on the model's tensors. Launch costs are measured on the
-- same device, in the same minute:
--   alone      events around a graph of one empty kernel, L2 overwritten before: the overhead of a sample
--   chained    the time that one more empty kernel adds to a graph
--   marked     an empty kernel between two events, when a list is launched kernel by kernel
--   launch     wall time of a graph of one empty kernel, minus the kernel
-- An operator adds its sample minus (alone - chained) to a step; a step adds `launch` once. Samples read their operands
-- from memory, not from L2: an operator whose input is still in L2 is faster than predicted.
--
-- Master weights, moments and gradients are fp32; weights and activations have the precision of the run. A layer's
-- gradients are added to the step's gradients when they are complete, as ett.step.lower models it.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local operator = require "ett.operator"
local optimizer = require "ett.operator.optimizer"
local sample = require "ett.sample"
local campaigns = require "ett.validate.campaign"
local model = require "ett.validate.model"
local changed = require("ett.validate.view").changed

local must = error_module.must
local back_end = find.load("samplers", "cuda")
local validate_cuda = {}

--- Supported precisions: fp16 would need loss scaling, fp8 scaled operands.
validate_cuda.precisions = { "bf16", "fp32" }

local TIME_LIMIT_SECONDS = back_end.time_limit_seconds
local WARM_STEPS, PARTED_STEPS = 3, 3

-- The step's kernels: the back end of ett.validate.model.

local Kernels = {}
Kernels.__index = Kernels

-- Parameters start at multiples of this: 256 bytes of 16-bit elements, the alignment that cuBLASLt assumes.
local ALIGNED = 128

-- Above this width the learning rate falls with the width (Yang et al. 2021), because there is no warm-up.
local WIDTH_AT_RATE = 512

local source = [[
// The first micro-batch of a step overwrites.
extern "C" __global__ void gradient_accumulation(const T *gradient, float *kept, long long first, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    kept[i] = first ? load(gradient, i) : kept[i] + load(gradient, i);
}

extern "C" __global__ void zero_gradients(float *kept, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    kept[i] = 0.0f;
}
]]

--- The model's tensors in the order in which each operator's kernel() requests them.
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
function validate_cuda.kernels(device, precision)
  return setmetatable({ work = must(device:work(precision)), precision = precision, parts = {}, ends = {}, slices = {},
    micro_batches = {} }, Kernels)
end

--- A tensor of the model: its number in the work list, elements and element type.
function Kernels:tensor(count, kind)
  local dtype = kind or self.precision
  return { number = must(self.work:tensor { count, dtype = dtype, fill = "zero" }), count = count, dtype = dtype }
end

local function part_of(self, tensor, first, count)
  return { number = must(self.work:view(tensor.number, first, count)), count = count, dtype = tensor.dtype }
end

--- Parameters are in flat buffers, norms first. Norms accumulate their gradients in place. Products and the embedding
--- write gradients to a buffer that all layers share; end_group adds the buffer to the step's gradients.
function Kernels:hold(t, list)
  local norms, weights, total = {}, {}, 0
  for _, entry in ipairs(list) do table.insert(entry.value and norms or weights, entry) end
  local function place(entry)
    local g = entry.group
    g.parameters = (g.parameters or 0) + entry.count
    entry.at = total + 1
    total = total + (entry.count + ALIGNED - 1) // ALIGNED * ALIGNED
  end
  for _, entry in ipairs(norms) do place(entry) end
  self.norm_count = total
  local largest = 0
  for _, entry in ipairs(weights) do
    local g = entry.group
    place(entry)
    g.first, g.last = g.first or entry.at, total
    largest = math.max(largest, g.last - g.first + 1)
  end
  t.parameter_count = total
  local function flat() return self:tensor(total, "fp32") end
  local state = { gradients = flat(), master = flat(), first = flat(), second = flat(), weights = self:tensor(total),
    correction = self:tensor(2, "fp32") }
  local shared = self:tensor(largest)
  for _, entry in ipairs(list) do
    entry.master = part_of(self, state.master, entry.at, entry.count)
    entry.w = part_of(self, state.weights, entry.at, entry.count)
    entry.g = entry.value and part_of(self, state.gradients, entry.at, entry.count)
      or part_of(self, shared, entry.at - entry.group.first + 1, entry.count)
  end
  t.optimizer_state, self.state, self.shared, self.parameters = state, state, shared, list
end

--- Log-sum-exp of each query.
function Kernels:attention_state(t) return self:tensor(t.plan.micro_batch * t.z.heads * t.plan.seq, "fp32") end

function Kernels:entropy_state(t) return self:tensor(t.z.tokens * t.z.vocab, "fp32") end

function Kernels:rotation(t)
  self.angles = self:tensor(t.plan.seq * (t.z.head_dim // 2), "fp32")
  return self.angles
end

--- Each micro-batch has separate inputs: a step is one graph, and all tokens are loaded before it.
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

function Kernels.add_loss() end

--- Queries, keys and values in a packed projection [tokens, 3 width].
local function slices(self, t, packed)
  local list = self.slices[packed.number]
  if not list then
    list = {}
    local width = t.z.width
    for i = 0, 2 do
      list[i + 1] = part_of(self, packed, i * width + 1, packed.count - i * width)
      list[i + 1].row = 3 * width
    end
    self.slices[packed.number] = list
  end
  return table.unpack(list)
end

--- Operands that exist only in this back end, or in several parts.
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

--- A sink for backend.record of samplers/cuda that supplies the model's tensors.
local function sink(self, name, pass, given)
  local work, order, at = self.work, bindings[name][pass], 0
  local s = {}
  function s.tensor(_, spec)
    at = at + 1
    local tensor, count = given[order[at]], 1
    for _, dimension in ipairs(spec) do count = count * dimension end
    if not tensor or tensor.dtype ~= spec.dtype or tensor.count < count
      or not tensor.row and tensor.count ~= count then
      error_module.raise("internal", "%s %s needs %d elements of %s as tensor %d; the model's %s has %s of %s", name,
        pass, count, spec.dtype, at, tostring(order[at]), tensor and tensor.count, tensor and tensor.dtype)
    end
    return tensor.number, tensor.row
  end
  function s.kernel(_, launch) return work:kernel(launch) end
  function s.gemm(_, g) return work:gemm(g) end
  function s.attention(_, a) return work:attention(a) end
  return s, function() return at == #order end
end

--- Adds the launches since the last call of this function to a record, as one call.
local function add_call(self, record)
  record.calls = record.calls + 1
  self.parts[#self.parts + 1], self.ends[#self.ends + 1] = record, self.work:launches()
end

--- Records one pass of an operator.
function Kernels:run(t, name, shape, pass, given)
  if expand[name] then expand[name](self, t, given) end
  local tensors, complete = sink(self, name, pass, given)
  back_end.record(tensors, operator.get(name), shape, pass, self.precision)
  if not complete() then error_module.raise("internal", "%s %s did not use all of the model's tensors", name, pass) end
  local record = t:record(name, pass, 0)
  record.shape = shape
  add_call(self, record)
end

local function elementwise(self, name, count, args)
  args[#args + 1] = count
  must(self.work:kernel { source = source, name = name, label = "validate/cuda.lua",
    grid = math.min((count + 255) // 256, 1 << 20), block = 256, args = args })
end

--- Adds a layer's gradients to the step's. The prediction is that of ett.step.lower: a residual addition that moves as
--- many bytes.
function Kernels:end_group(t, group)
  local count = group.last - group.first + 1
  elementwise(self, "gradient_accumulation", count, { { tensor = part_of(self, self.shared, 1, count).number },
    { tensor = part_of(self, self.state.gradients, group.first, count).number }, self.micro_batch == 1 and 1 or 0 })
  local width, hidden = self.precision == "fp32" and 4 or 2, t.z.hidden
  local elements = group.parameters * (width + 8) / (3 * width)
  local record = t:record(("gradient_accumulation %d"):format(group.parameters), "backward", 0)
  record.name, record.operator = "gradient_accumulation", "residual_add"
  record.shape = { tokens = math.max(1, math.floor(elements / hidden + 0.5)), hidden = hidden }
  add_call(self, record)
end

--- Sets the initial parameters.
---@param values number[][]? for checks: the values of each entry of self.parameters
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

--- Records the step as a graph. work:ready runs it twice, on zeros, so the parameters are set after it.
local function record_step(self, t)
  elementwise(self, "zero_gradients", self.norm_count, { { tensor = self.state.gradients.number } })
  add_call(self, t:record("zero_gradients", "update", 0))
  t:walk()
  must(self.work:ready { graph = true, time_limit_seconds = TIME_LIMIT_SECONDS })
  local angles, share, half = {}, {}, t.z.head_dim // 2
  for position = 0, t.plan.seq - 1 do
    for i = 0, half - 1 do angles[position * half + i + 1] = model.angle(position, i, t.z.head_dim) end
  end
  for i = 1, t.z.tokens do share[i] = t:token_share() end
  must(self.work:write(self.angles.number, angles))
  must(self.work:write(self.dloss.number, share))
  self:initialise(self.initial)
  self.recorded = true
end

--- Copies the tokens of a step and the optimizer's corrections to the device before the step, as a data loader does.
local function load_inputs(self, t)
  if not self.recorded then record_step(self, t) end
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

--- Runs one step as one graph. self.wall_seconds: from its launch until the device has finished.
function Kernels:step(t)
  load_inputs(self, t)
  self.wall_seconds = must(self.work:run(TIME_LIMIT_SECONDS))
  return loss_of(self, t)
end

--- Runs one step launch by launch, with events between the operators.
---@return number[] seconds of every call, in the order of self.parts
---@return number loss
function Kernels:timed_step(t)
  t.step_number = t.step_number + 1
  load_inputs(self, t)
  local seconds = must(self.work:time_parts(self.ends, TIME_LIMIT_SECONDS))
  return seconds, loss_of(self, t)
end

function Kernels:close() self.work:close() end

-- The back end.

local Backend = {}
Backend.__index = Backend

--- true, or nil and why no GPU can be used.
function validate_cuda.available() return back_end.available() end

--- bf16 if the device supports it and cuDNN is installed for its attention, else fp32.
local function usual_precision(info)
  return info.capability >= 80 and require("ett.cuda").versions():find "cuDNN" and "bf16" or "fp32"
end

---@param options table out, layouts (list of { name, ranks, cases }), sizes, scale, steps, check (the operators'
--- results, before they are sampled), device (ordinal; default 0), precision (default: the device's), on_stage
function validate_cuda.open(options)
  local ok, why = validate_cuda.available()
  if not ok then error_module.raise("missing", "%s; ett validate --backend cpu needs none", why) end
  for _, layout in ipairs(options.layouts) do
    if layout.ranks > 1 then
      error_module.raise("usage", "validate: layout %s needs the back end cpu; the back end cuda has only 1x1",
        layout.name)
    end
  end
  local known = options.precision == nil
  for _, name in ipairs(validate_cuda.precisions) do known = known or name == options.precision end
  if not known then
    error_module.raise("usage", "validate: the back end cuda trains in %s, not in '%s'",
      table.concat(validate_cuda.precisions, " or "), options.precision)
  end
  local ordinal = options.device or 0
  local device = must(require("ett.cuda").open(ordinal))
  local info = device:info()
  local precision = options.precision or usual_precision(info)
  if precision == "bf16" and info.capability < 80 then
    device:close()
    error_module.raise("missing", "device %d (%s) has compute capability %d.%d, bf16 needs 8.0; choose fp32", ordinal,
      info.name, info.capability // 10, info.capability % 10)
  end
  return setmetatable({ options = options, handle = device, ordinal = ordinal, precision = precision,
    named = ("device %d (%s)"):format(ordinal, info.name),
    device = { name = info.name, peak_flops = 1e14, memory_bytes = info.memory_bytes + 0.0, memory_bandwidth = 1e12 } },
    Backend)
end

local empty = 'extern "C" __global__ void nothing(float *x) {}\n'

local function empty_list(device, count)
  return (back_end.filled(must(device:work "fp32"), function(work)
    local x = must(work:tensor { 1, dtype = "fp32", fill = "zero" })
    for _ = 1, count do
      must(work:kernel { source = empty, name = "nothing", label = "launch costs", grid = 1, block = 32,
        args = { { tensor = x } } })
    end
    must(work:ready { time_limit_seconds = TIME_LIMIT_SECONDS })
  end))
end

--- Launch costs of a device: { alone_seconds, chained_seconds, marked_seconds, launch_seconds }.
function validate_cuda.launch_costs(device)
  local many = 129
  local one <close> = empty_list(device, 1)
  local list <close> = empty_list(device, many)
  local function median(work)
    return sample.stats(must(work:time { repeats = 21, time_limit_seconds = TIME_LIMIT_SECONDS })).median
  end
  local alone = median(one)
  local chained = math.max(0.0, (median(list) - alone) / (many - 1))
  local walls, marked, ends = {}, {}, {}
  for i = 1, 21 do walls[i] = must(one:run(TIME_LIMIT_SECONDS)) end
  for i = 1, many do ends[i] = i end
  for _ = 1, 5 do
    local parts = must(list:time_parts(ends, TIME_LIMIT_SECONDS))
    table.move(parts, 2, many, #marked + 1, marked) -- the first follows the work that keeps the device busy
  end
  return { alone_seconds = alone, chained_seconds = chained, marked_seconds = sample.stats(marked).median,
    launch_seconds = math.max(0.0, sample.stats(walls).median - chained) }
end

--- The profile for the steps of this back end.
local View = { share = 1, collectives = {} }
View.__index = View

function View:alone(name, shape, dtype, pass)
  local answer = self.profile:operator(name, shape, dtype, pass)
  local least, beside = self.costs.chained_seconds, self.costs.alone_seconds - self.costs.chained_seconds
  return answer and changed(answer, function(seconds) return math.max(seconds - beside, least) end)
end

View.operator = View.alone
function View.collective() end
function View.added() end
function View.expect() end

--- A view of a profile of samples. costs: of validate_cuda.launch_costs.
function validate_cuda.view(profile, costs, precision)
  return setmetatable({ profile = profile, costs = costs, launch_seconds = costs.launch_seconds, stretch = {},
    plan = { dtype = precision, fused_accumulation = false } }, View)
end

--- Samples the operators and returns their profile.
local function sample_operators(self)
  local options = self.options
  local folder = ("%s/gpu_%s"):format(options.out, self.precision)
  folders.make(folder)
  local file = campaigns.write(folder .. "/operators.lua", "cuda", options.sizes, options.scale, self.precision)
  campaigns.run(file, self.named, self.precision, { out = folder, device = self.ordinal, check = options.check })
  return require("ett.profile").from_samples({ folder }, { cache = false })
end

function Backend:view()
  self.options.on_stage(("sampling operators on %s in %s"):format(self.named, self.precision))
  local profile = sample_operators(self)
  self.costs = validate_cuda.launch_costs(self.handle)
  return validate_cuda.view(profile, self.costs, self.precision), { collectives = {}, crowded = false,
    ranks_per_processor = 1, host = self.costs }
end

--- Recorded lines: median time of each call over some steps, minus the cost of the events, in the order of first calls.
local function lines(parts, steps, costs)
  local list, by_record = {}, {}
  for i, record in ipairs(parts) do
    local line = by_record[record]
    if not line then
      line = { name = record.name, operator = record.operator, pass = record.pass, shape = record.shape, calls = 0,
        seconds = 0.0 }
      by_record[record], list[#list + 1] = line, line
    end
    local times = {}
    for k, step in ipairs(steps) do times[k] = step[i] end
    line.calls = line.calls + 1
    line.seconds = line.seconds + math.max(0.0, sample.stats(times).median
      - (costs.marked_seconds - costs.chained_seconds))
  end
  return list
end

--- Trains a case. The step time is the median wall time of `steps` graphs; the operators' times are from a few more
--- steps, launched kernel by kernel.
local function train(self, case)
  local own = validate_cuda.kernels(self.handle, self.precision)
  local ok, result = xpcall(function()
    local trainer = model.new { hyper = case.hyper, plan = case.plan, backend = own }
    local walls, steps, first_loss, last_loss = {}, self.options.steps, nil, nil
    for i = 1, WARM_STEPS + steps do
      last_loss = trainer:step()
      first_loss = first_loss or last_loss
      if i > WARM_STEPS then walls[#walls + 1] = own.wall_seconds end
    end
    local parted = {}
    for i = 1, PARTED_STEPS do parted[i] = own:timed_step(trainer) end
    local wall = sample.stats(walls).median
    return { step_seconds = wall, wall_seconds = wall, steps = steps, disturbed = false, first_loss = first_loss,
      last_loss = last_loss, records = lines(own.parts, parted, self.costs) }
  end, error_module.from)
  own:close()
  if ok then return result end
  if not result.message:find(self.named, 1, true) then error_module.label(result, self.named) end
  error(result, 0)
end

--- Configurations are ordered by size: if one does not fit, the smaller ones before it have already run.
function Backend:trainer(layout)
  local cases = layout.cases
  self.options.on_stage(("layout %s: training %d configurations on %s"):format(layout.name, #cases, self.named))
  return function(i)
    local ok, result = pcall(train, self, cases[i])
    if ok then return result end
    if result.kind == "memory" and i > 1 then
      result.message = ("%s; --configurations %d leaves it out"):format(result.message, i - 1)
    end
    error(result, 0)
  end
end

function Backend:close() self.handle:close() end

return validate_cuda
