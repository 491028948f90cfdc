--- The training step of `ett validate` on the CPU back end: tensors of the host, the compiled kinds that samplers/cpu
--- measures, processor time. The interface is that of ett.validate.model.
local buffers = require "ett.validate.buffers"
local find = require "ett.base.find"
local cpu = find.load("samplers", "cpu").core()
local operator = require "ett.operator"
local optimizer = require "ett.operator.optimizer"
local sample = require "ett.sample"
local thread_seconds = sample.thread_seconds

local validate_kernels_cpu = {}
local Kernels = {}
Kernels.__index = Kernels

--- Operands of each compiled kind in the order in which it takes them (samplers/cpu).
local orders = {
  embedding = { forward = { "ids", "table", "out" }, backward = { "ids", "dy", "dtable" } },
  layer_norm = { forward = { "x", "gain", "bias", "y", "mean", "inverse" },
    backward = { "x", "gain", "dy", "mean", "inverse", "dx", "dgain", "dbias" } },
  linear = { forward = { "x", "w", "y" }, backward = { "x", "w", "dy", "dx", "dw" } },
  rope = { forward = { "x", "table" }, backward = { "x", "table" } },
  attention = { forward = { "qkv", "out", "kept" }, backward = { "qkv", "out", "dout", "dqkv", "kept" } },
  add = { forward = { "a", "b", "sum" }, backward = { "a", "b", "sum" } },
  gelu = { forward = { "x", "y" }, backward = { "x", "dy", "dx" } },
  cross_entropy = { forward = { "logits", "target", "loss", "kept" },
    backward = { "logits", "target", "kept", "dlogits" } },
  adam = { update = { "weights", "gradients", "first", "second" } },
}

function validate_kernels_cpu.new()
  return setmetatable({ calls = { forward = {}, backward = {}, update = {} } }, Kernels)
end

function Kernels.tensor(_, count) return sample.tensor(count) end

--- Weights, gradients and moments in flat buffers: the optimizer is one call and the gradient reduction one message.
function Kernels.hold(_, t, list)
  local count = 0
  for _, entry in ipairs(list) do count = count + entry.count end
  t.parameter_count = count
  t.weights, t.gradients = sample.tensor(count), sample.tensor(count)
  t.optimizer_state = { weights = t.weights, gradients = t.gradients, first = sample.tensor(count),
    second = sample.tensor(count) }
  local at = 1
  for _, entry in ipairs(list) do
    entry.w, entry.g = t.weights:view(at, entry.count), t.gradients:view(at, entry.count)
    at = at + entry.count
    if entry.deviation then entry.w:normal(entry.seed, entry.deviation) else entry.w:fill(entry.value) end
  end
end

--- Probabilities are computed again: scratch that all layers share.
function Kernels:attention_state(t)
  self.scratch = self.scratch or sample.tensor(2 * t.plan.seq * t.plan.seq)
  return self.scratch
end

--- The logarithm of each token's sum of exponentials.
function Kernels.entropy_state(_, t) return sample.tensor(t.z.tokens) end

--- Cosines of every position and pair, then sines.
function Kernels.rotation(_, t)
  local seq, half = t.plan.seq, t.z.head_dim // 2
  local table = sample.tensor(2 * seq * (half + 1))
  for position = 0, seq - 1 do
    for i = 0, half - 1 do
      local angle = buffers.angle(position, i, t.z.head_dim)
      table:set(position * half + i + 1, math.cos(angle))
      table:set((seq + position) * half + i + 1, math.sin(angle))
    end
  end
  return table
end

function Kernels.inputs(_, t, a)
  a.ids, a.targets = sample.tensor(t.z.tokens), sample.tensor(t.z.tokens)
  a.loss = t.last and sample.tensor(t.z.tokens) or nil
end

function Kernels.feed(_, t, a, micro_batch)
  local ids, targets = t:tokens(micro_batch)
  if t.first then a.ids:integers(ids) end
  if t.last then a.targets:integers(targets) end
end

--- The products add to the gradients they find.
function Kernels.end_group() end

function Kernels.book_loss(_, t, a) t.loss = t.loss + a.loss:sum() / t.z.tokens end

--- What samplers/cpu would run of an operator, with the order of its operands.
local function call_of(t, name, shape, pass)
  local call = find.load("samplers", "cpu").calls(operator.get(name), shape, pass)[1]
  if call.kind == "embedding" then call.vocab = call.vocab + t.foreign end
  call.order = orders[call.kind][pass]
  return call
end

local function scalars(t, name, pass)
  if name == "optimizer" then
    return { optimizer.rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.decay, t.step_number }
  end
  return name == "cross_entropy" and pass == "backward" and { t:token_share() } or nil
end

--- Runs one operator and books its processor time.
function Kernels:run(t, name, shape, pass, given)
  local call = self.calls[pass][name]
  if not call then
    call = call_of(t, name, shape, pass)
    self.calls[pass][name] = call
  end
  local operands, order = {}, call.order
  for i = 1, #order do operands[i] = given[order[i]] end
  local start = thread_seconds()
  cpu.run(call.kind, pass, call, operands, scalars(t, name, pass))
  local seconds = thread_seconds() - start
  local record = t:record(name, pass, 0)
  record.shape = shape
  record.seconds, record.calls = record.seconds + seconds, record.calls + 1
end

function Kernels.step(_, t)
  t.loss = 0
  t:walk()
  return t.loss / t.plan.micro_batches
end

--- Processor seconds beside the kernels: of an operator (its operands' names, the booking), of the call that is
--- booked as the operator's time (its dimensions, the way to the kernel), and by operator of what the host does for
--- each of its tokens: making them, and putting the log-sum-exp of a split vocabulary together. Measured between
--- products that drive the host's own data out of the caches, as those of a step do.
---@param rounds integer whose median counts
---@return table { operator_seconds=, call_seconds=, token_seconds = { embedding=, cross_entropy= } }
function validate_kernels_cpu.host_seconds(rounds)
  local model = require "ett.validate.model"
  local tensor = sample.tensor
  local z = { tokens = 128, hidden = 256, width = 256, ffn = 1024, heads = 4, head_dim = 64, vocab = 512 }
  local plan = { tp = 2, micro_batch = 2, seq = 64 }
  local t = setmetatable({ z = z, stage = 0, tp_rank = 0, dp_rank = 0, seed = 1, step_number = 0, first = true,
    last = true, foreign = 1, hyper = { vocab = 1024 }, plan = plan, shapes = model.shapes(z, plan),
    backend = validate_kernels_cpu.new() }, model.Trainer)
  local x, y, sum = tensor(z.tokens * z.hidden), tensor(z.tokens * 3 * z.hidden), tensor(z.tokens * z.hidden)
  t.s = { top = tensor(z.tokens), target = tensor(z.tokens), sum = tensor(z.tokens) }
  local a = { entropy = t.backend:entropy_state(t) }
  t.backend:inputs(t, a)
  local weights = {}
  for i = 1, 24 do weights[i] = tensor(3 * z.hidden * z.hidden):normal(i, 0.02) end
  local calls, inner, tokens, joins = {}, {}, {}, {}
  local nothing = { rows = 1, cols = 1 } -- a kernel of one number is the call alone
  for i = 1, rounds do
    t:reset()
    local start = thread_seconds()
    for k = 0, 3 do
      t:op("linear_qkv", "forward", { x = x, w = weights[(4 * i + k) % #weights + 1], y = y })
      t:op("residual_add", "forward", { a = x, b = sum, sum = sum })
    end
    local stop, booked = thread_seconds(), 0.0
    for _, record in ipairs(t.order) do booked = booked + record.seconds end
    calls[i] = (stop - start - booked) / 8
    inner[i] = 0.0
    for _, before in ipairs { "linear_qkv", "residual_add" } do -- of each, behind it, half of all calls
      t:op(before, "forward", before == "linear_qkv" and { x = x, w = weights[i % #weights + 1], y = y }
        or { a = x, b = sum, sum = sum })
      local called = thread_seconds()
      cpu.run("add", "forward", nothing, { x, sum, sum })
      inner[i] = inner[i] + 0.5 * (thread_seconds() - called)
    end
    local fed = thread_seconds()
    t.backend:feed(t, a, 1)
    local made = thread_seconds()
    t:join_vocabulary(a) -- without a group: no messages
    tokens[i], joins[i] = (made - fed) / z.tokens, (thread_seconds() - made) / z.tokens
  end
  return { operator_seconds = sample.stats(calls).median, call_seconds = sample.stats(inner).median,
    token_seconds = { embedding = sample.stats(tokens).median, cross_entropy = sample.stats(joins).median } }
end

return validate_kernels_cpu
