--- Kineto traces of a GPT's training step with a given plan and given kernel times, as PyTorch records it with shapes.
--
--   local gpt = trace_gpt.new { hidden = 64, heads = 4, layers = 3, seq = 32, batch = 2, vocab = 512, tp = 2 }
--   gpt:recording { rank = 0, world = 2 }        -- of trace_maker
--
-- options.times(name, pass, layer) gives a kernel's microseconds; kernel(name, pass) its name; type the operands' type,
-- type_of(name) that of an operator; max_positions a table of positions. Every operator is a host operator with Input
-- Dims and a sequence number; its backward nodes run on a second thread in reverse order.
local json = require "ett.json"
local maker = require "trace_maker"

local trace_gpt = {}
trace_gpt.__index = trace_gpt

function trace_gpt.new(options)
  local self = setmetatable({}, trace_gpt)
  for name, value in pairs(options) do self[name] = value end
  self.tp, self.micro_batches, self.ffn = self.tp or 1, self.micro_batches or 1, self.ffn or 4 * self.hidden
  self.times = self.times or function() return 10 end
  self.kernel = self.kernel or function(name, pass) return name .. "_" .. pass end
  self.type = self.type or "c10::BFloat16"
  return self
end

--- The operators of a forward pass: { name, host operator, dims, backward node, layer }.
function trace_gpt:operators()
  local h, b, s, tp = self.hidden, self.batch, self.seq, self.tp
  local x, dim = { s, b, h }, self.hidden // self.heads
  local local_heads, list = self.heads // tp, {}
  local function add(name, host, dims, node, layer)
    list[#list + 1] = { name = name, host = host, dims = dims, node = node, layer = layer }
  end
  local function linear(name, rows, n, k, layer) add(name, "aten::linear", { rows, { n, k }, {} }, "MmBackward0",
    layer) end
  local function reduce(layer) list[#list + 1] = { name = "all_reduce", layer = layer, collective = true } end
  add("embedding", "aten::embedding", { { self.vocab // tp, h }, { b, s } }, "EmbeddingBackward0", 0)
  if self.max_positions then
    add("positions", "aten::embedding", { { self.max_positions, h }, { b, s } }, "EmbeddingBackward0", 0)
    add("residual_add", "aten::add", { x, x, {} }, "AddBackward0", 0)
  end
  for layer = 1, self.layers do
    add("layer_norm", "aten::layer_norm", { x, {}, { h }, { h } }, "NativeLayerNormBackward0", layer)
    linear("linear_qkv", x, 3 * h // tp, h, layer)
    add("flash_attention", "aten::scaled_dot_product_attention", { { b, local_heads, s, dim }, { b, local_heads, s,
      dim },
      { b, local_heads, s, dim } }, "ScaledDotProductFlashAttentionBackward0", layer)
    linear("linear_proj", { s, b, h // tp }, h, h // tp, layer)
    if tp > 1 then reduce(layer) end
    add("residual_add", "aten::add", { x, x, {} }, "AddBackward0", layer)
    add("layer_norm", "aten::layer_norm", { x, {}, { h }, { h } }, "NativeLayerNormBackward0", layer)
    linear("linear_up", x, self.ffn // tp, h, layer)
    add("gelu", "aten::gelu", { { s, b, self.ffn // tp } }, "GeluBackward0", layer)
    linear("linear_down", { s, b, self.ffn // tp }, h, self.ffn // tp, layer)
    if tp > 1 then reduce(layer) end
    add("residual_add", "aten::add", { x, x, {} }, "AddBackward0", layer)
  end
  add("layer_norm", "aten::layer_norm", { x, {}, { h }, { h } }, "NativeLayerNormBackward0", self.layers + 1)
  linear("lm_head", x, self.vocab // tp, h, self.layers + 1)
  add("cross_entropy", "aten::cross_entropy_loss", { { s * b, self.vocab // tp }, { s * b } }, "NllLossBackward0",
    self.layers + 1)
  return list
end

local function types_of(dims, name)
  local list = {}
  for i = 1, #dims do list[i] = #dims[i] > 0 and name or "" end
  return list
end

local function text_of(dims)
  local words = {}
  for i, shape in ipairs(dims) do words[i] = "[" .. table.concat(shape, ", ") .. "]" end
  return "[" .. table.concat(words, ", ") .. "]"
end

--- One rank's recording. given: rank, world; late(name, layer): microseconds that the host of this rank waits before an
--- operator; at(rank) of collectives: transfers begin when the last rank arrives, by `starts` (shared by all ranks);
-- recompute: "full" runs each layer again.
function trace_gpt:recording(given)
  local r = maker.new { rank = given.rank, world = given.world }
  local host, device, number, names = 100, 200, 1, 0
  local began = host
  local function launch(op, pass, tid, sequence)
    host = host + (given.late and given.late(op.name, op.layer, pass) or 0)
    if op.collective then
      local at = math.max(device, host + 4)
      names = names + 1
      local stop = given.transfer and given.transfer(names, at) or at + self.times("all_reduce", pass, op.layer)
      r:host("user_annotation", "nccl:all_reduce", host, 5, { tid = tid })
      r:kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at, stop - at, { launch = { ts = host + 1, dur = 2,
        tid = tid },
        stream = 20, args = { ["Collective name"] = "allreduce", ["In msg nelems"] =
          self.seq * self.batch * self.hidden,
          ["Out msg nelems"] = self.seq * self.batch * self.hidden, dtype = "BFloat16", ["Group size"] = self.tp,
          ["Process Group Name"] = "tp", ["Process Group Description"] = "TENSOR_MODEL_PARALLEL_GROUP" } })
      device = stop
    else
      local time = self.times(op.name, pass, op.layer)
      local name = pass == "backward" and "autograd::engine::evaluate_function: " .. op.node or op.host
      local args = { ["Sequence number"] = sequence }
      if pass ~= "backward" then args["Input Dims"], args["Input type"] = text_of(op.dims),
        json.encode(types_of(op.dims, self.type_of and self.type_of(op.name) or self.type)) end
      r:host("cpu_op", name, host, 6, { tid = tid, args = args })
      local at = math.max(device, host + 4)
      r:kernel(self.kernel(op.name, pass), at, time, { launch = { ts = host + 2, dur = 2, tid = tid } })
      device = at + time
    end
    host = host + (self.host_microseconds or 8)
  end
  for _ = 1, self.micro_batches do
    local list, sequences = self:operators(), {}
    for i, op in ipairs(list) do
      number = number + 1
      sequences[i] = number
      launch(op, "forward", 1, number)
    end
    for i = #list, 1, -1 do
      local op = list[i]
      if not op.collective and not self.forward_only then launch(op, "backward", 2, sequences[i]) end
    end
  end
  r:step(1, began - 5, math.max(host, device) - began + 10)
  return r
end

--- Recordings of all ranks of one tensor-parallel group: a transfer begins when the last rank arrives. given:
-- late(rank, name, layer, pass): microseconds that a rank's host waits before an operator.
function trace_gpt:recordings(given)
  local world, ranks, starts, done = self.tp, {}, {}, {}
  given = given or {}
  for rank = 0, world - 1 do
    ranks[rank + 1] = coroutine.create(function()
      return self:recording { rank = rank, world = world, transfer = function(_, at) return coroutine.yield(at) end,
        late = given.late and function(...) return given.late(rank, ...) end }
    end)
  end
  local stop
  repeat
    local finished = 0
    for r, each in ipairs(ranks) do
      local ok, value = coroutine.resume(each, stop)
      assert(ok, value)
      if coroutine.status(each) == "dead" then
        done[r], finished = value, finished + 1
      else
        starts[r] = value
      end
    end
    stop = finished == 0 and math.max(table.unpack(starts)) + self.times("all_reduce", "forward") or nil
  until finished > 0
  return done
end

return trace_gpt
