--- The operators that a model under a plan should run, in the terms of a recorded run: a forward pass in order, each
--- operator with the key of ett.trace.operators.kinds.
local architecture = require "ett.model.architecture"
local kinds = require "ett.trace.operators.kinds"
local merged = require "ett.base.merged"

local expected = {}

--- The recorded operation for an operator's shape; nil if no host operator has such a shape.
function expected.operation(op, shape)
  local s = op.kernel_shape(shape)
  local family = op.family
  if family == "gemm" or family == "bmm" then
    local batch = s.batch or 1
    return { family = batch > 1 and "bmm" or "gemm", batch = batch, m = s.m, n = s.n, k = s.k }
  elseif family == "attention" then
    return { family = family, batch = s.batch, heads = s.heads, kv_heads = s.kv_heads or s.heads, seq_q = s.seq_q,
      seq_k = s.seq_k, head_dim = s.head_dim }
  elseif family == "embedding" then
    return { family = family, rows = s.rows, cols = s.cols, vocab = s.vocab }
  elseif family == "cross_entropy" then
    return { family = family, rows = s.rows, cols = s.cols }
  elseif op.recorded then
    local r = op.recorded(shape)
    return { family = family, what = r.what, rows = r.rows or s.rows, cols = r.cols or s.cols }
  end
end

--- The key that matches expected with recorded operations. Key and value heads may be copied to all heads before the
--- kernel, so the key leaves out their number.
function expected.meet(o)
  if o.family == "attention" then
    return ("attention %d %d %d %d %d"):format(o.batch, o.heads, o.seq_q, o.seq_k, o.head_dim)
  end
  return kinds.key(o)
end

--- The products into which a fused product may be split, by the widths that its file declares; nil without them.
local function parts_of(item, c)
  local widths = item.operator.parts and item.operator.parts(c)
  if not widths or #widths == 0 then return nil end
  local list = {}
  for i, width in ipairs(widths) do list[i] = merged(item.shape, { out_features = width }) end
  return list
end

--- Adds an operator. A norm behind a residual addition takes the addition into itself (`beside`) if the trace has both
--- as one kernel of these dimensions.
local function add(list, item, layer, shape, present)
  local o, before = expected.operation(item.operator, shape), list[#list]
  local entry = { name = item.name, operator = item.operator, shape = shape, layer = layer.name,
    key = o and expected.meet(o), times = item.times }
  if item.operator.family == "norm" and o and before and before.operator.residual then
    o.what = "add_" .. o.what
    if present[expected.meet(o)] then entry.key, entry.beside, list[#list] = expected.meet(o), before, nil end
  end
  list[#list + 1] = entry
end

--- Adds an operator, or the parts of a fused product if the trace has the parts only.
local function add_operator(list, item, layer, c, present)
  local whole = expected.operation(item.operator, item.shape)
  local parts = whole and not present[expected.meet(whole)] and parts_of(item, c) or nil
  for _, part in ipairs(parts or {}) do
    if not present[expected.meet(expected.operation(item.operator, part))] then parts = nil end
  end
  for _, shape in ipairs(parts or { item.shape }) do add(list, item, layer, shape, present) end
end

--- The operators of a forward pass in order, two of each run of equal layers so that every neighbourhood occurs:
--- { { name, operator, shape, key, layer, times, beside } }.
---@param present table<string, boolean> keys of the recorded operations
function expected.sequence(model, plan, present)
  local c, list = architecture.configuration(model.hyper, plan), {}
  for _, layer in ipairs(model.layers) do
    local items = architecture.operations(layer, c)
    for _ = 1, math.min(layer.count, 2) do
      for _, item in ipairs(items) do
        if item.kind == "operator" then add_operator(list, item, layer, c, present) end
      end
    end
  end
  return list
end

return expected
