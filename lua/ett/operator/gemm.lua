--- The family of matrix products: every linear layer.
--
-- gemm.define(op) completes an operator whose shape has tokens, in_features and out_features. Optional: bias (1), batch
-- (number of independent products), stored_tokens (tokens stored for the backward pass, if sharded over tp), padded
-- (1: products of experts of a fixed capacity, in one batched product), separate (sums of input gradients of products
-- that read one input) and summed (the same of a frozen product, whose forward pass computes an input gradient).
-- Forward: C[m,n] = A[m,k] B[k,n]. Backward: dA = dC B' and dB = A' dC, hence twice the FLOPs.
--
-- gemm.linear(op, layer) also makes the shape, from the layer's declaration:
--   place           "enter": the layer opens a tensor-parallel region; "inside": its inputs are in one; "outside"
--   inputs, outputs the widths on one rank: a field of the configuration, or a function of it
--   bias            names for shapes.bias, a function of the configuration, or 1; nil: no biases
--   needs           fields that the configuration must have
-- Under `separate_projections` of the stack, a layer whose operator has several `parts` has a product for each.
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"
local dtype_bytes = schema.dtype_bytes

local gemm = {}

gemm.schema = { tokens = "count", in_features = "count", out_features = "count",
  bias = "natural?", stored_tokens = "count?", batch = "count?", padded = "natural?", separate = "natural?",
  summed = "natural?" }

-- Bytes of a result element: FP8 training keeps results in bf16; operands take 1 byte (Transformer Engine).
local result_bytes = schema.wide_bytes

function gemm.flops(s, pass)
  local one = 2.0 * (s.batch or 1) * s.tokens * s.in_features * s.out_features
  return pass == "backward" and 2.0 * one or one
end

function gemm.bytes(s, dtype, pass)
  local b = dtype_bytes[dtype]
  local batch, m, n, k = (s.batch or 1) + 0.0, s.tokens + 0.0, s.out_features + 0.0, s.in_features + 0.0
  if pass == "backward" then
    return batch * (b * 2.0 * (m * n + m * k / 2 + k * n / 2) + result_bytes(dtype) * (m * k + k * n))
  end
  return batch * (b * (m * k + k * n) + result_bytes(dtype) * m * n)
end

function gemm.parameters(s)
  return (s.batch or 1) * (s.in_features * s.out_features + (s.bias or 0) * s.out_features)
end

--- Bytes of the input, which is stored for the weight gradient.
function gemm.activation_bytes(s, dtype)
  return ((s.batch or 1) + 0.0) * (s.stored_tokens or s.tokens) * s.in_features * dtype_bytes[dtype]
end

--- Bytes of the output, if an activation or attention stores it.
function gemm.output_bytes(s, dtype)
  return ((s.batch or 1) + 0.0) * s.tokens * s.out_features * result_bytes(dtype)
end

--- Bytes of the gradients of output and input, and of the gathered input if the stored input is sharded.
function gemm.working_bytes(s, dtype)
  local batch, m = (s.batch or 1) + 0.0, s.tokens + 0.0
  local gathered = s.stored_tokens and s.stored_tokens < s.tokens and dtype_bytes[dtype] * m * s.in_features or 0.0
  return batch * m * (s.in_features + s.out_features) * result_bytes(dtype) + gathered
end

function gemm.kernel_shape(s)
  return { m = s.tokens, n = s.out_features, k = s.in_features, batch = s.batch or 1 }
end

--- A small shape for checks of outputs (ett.sampling.check): multiples of 16, as fp8 products require.
function gemm.small(s)
  local small = merged(s)
  for name, most in pairs { tokens = 32, in_features = 48, out_features = 64, batch = 2, stored_tokens = 32 } do
    small[name] = small[name] and math.min(small[name], most)
  end
  return small
end

--- The product that a sampler runs, of input x[m,k] and weight w[n,k] in PyTorch's layout.
function gemm.kernel(k, s, pass)
  local batch, m, n, depth = s.batch or 1, s.tokens, s.out_features, s.in_features
  local x, w, y = k.tensor { batch, m, depth }, k.tensor { batch, n, depth }, k.tensor { batch, m, n }
  if pass == "backward" then
    local dx, dw = k.tensor { batch, m, depth }, k.tensor { batch, n, depth }
    k.gemm { a = y, b = w, c = dx, m = m, n = depth, k = n, batch = batch }
    k.gemm { a = y, b = x, c = dw, m = n, n = depth, k = m, batch = batch, trans_a = true }
  else
    k.gemm { a = x, b = w, c = y, m = m, n = n, k = depth, batch = batch, trans_b = true }
  end
end

gemm.torch = [[
sizes = (s.batch, s.tokens, s.in_features) if s.batch else (s.tokens, s.in_features)
x = tensor(*sizes)
if s.batch:
    w = tensor(s.batch, s.in_features, s.out_features)
    return lambda: torch.bmm(x, w)
w = tensor(s.out_features, s.in_features)
bias = tensor(s.out_features) if s.bias else None
return lambda: F.linear(x, w, bias)
]]

--- Bytes of the input of a product that runs in 16 bits.
local function wide_activation_bytes(s, dtype) return gemm.activation_bytes(s, schema.wide(dtype)) end

function gemm.define(op)
  op.family = op.family or "gemm"
  op.activation_bytes = op.activation_bytes or op.unquantised and wide_activation_bytes
  op.schema = op.schema or gemm.schema
  for _, name in ipairs { "flops", "bytes", "parameters", "activation_bytes", "output_bytes", "working_bytes",
    "kernel_shape", "kernel", "small", "torch" } do
    op[name] = op[name] or gemm[name]
  end
  return op
end

-- Sums of the input gradients of the products into which software divides a layer, or nil.
local function separate(c, op)
  if not (c.separate_projections and op.parts) then return nil end
  local sums = -1
  for _, outputs in ipairs(op.parts(c)) do sums = sums + (outputs > 0 and 1 or 0) end
  return sums > 0 and sums or nil
end

local function value_of(c, given) return type(given) == "function" and given(c) or c[given] end

local function bias_of(c, given)
  if type(given) == "table" then return shapes.bias(c, table.unpack(given)) end
  return type(given) == "function" and given(c) or tonumber(given)
end

--- Model FLOPs of a product that every tensor rank computes whole: only one rank's count, unless ranks split the
--- tokens.
function gemm.replicated_flops(s, c) return gemm.flops(s, "forward") / (c.sequence_parallel and 1 or c.tp) end

-- Model FLOPs of a product inside a tensor-parallel region: only one rank's count if no rank splits its widths.
local function shared_flops(layer)
  return function(s, c)
    local flops = gemm.flops(s, "forward")
    if c.tp == 1 then return flops end
    local alone = setmetatable({ tp = 1 }, { __index = c })
    local whole = value_of(alone, layer.inputs) == s.in_features and value_of(alone, layer.outputs) == s.out_features
    return whole and flops / c.tp or flops
  end
end

local places = { "enter", "inside", "outside" }
local layer_fields = { place = { "string", one_of = places }, inputs = "any", outputs = "any", bias = "any?",
  needs = "list?" }

-- Raises if a field of a linear layer has a wrong name or value.
local function check_layer(op, layer)
  local where = ("gemm.linear: operator '%s'"):format(tostring(op.name))
  layer = schema.check(layer, layer_fields, where)
  for _, name in ipairs { "inputs", "outputs" } do
    if type(layer[name]) ~= "string" and type(layer[name]) ~= "function" then
      error_module.raise("model", "%s: field '%s' must be the name of a field of the configuration, or a function of "
        .. "the configuration, got %s", where, name, schema.describe(layer[name]))
    end
  end
  local bias = layer.bias
  if not (bias == nil or bias == 1 or type(bias) == "function" or type(bias) == "table") then
    error_module.raise("model", "%s: field 'bias' must be 1, a function, or a list of fields, got %s", where,
      schema.describe(bias))
  end
  return layer
end

--- Completes a linear layer; the comment above lists the fields of `layer`.
function gemm.linear(op, layer)
  layer = check_layer(op, layer)
  local tokens, needs = layer.place == "outside" and shapes.norm_tokens or shapes.tokens, layer.needs
  op.model_flops = op.model_flops or layer.place == "outside" and gemm.replicated_flops or shared_flops(layer)
  function op.shape(c)
    if needs then shapes.need(c, op.name, table.unpack(needs)) end
    return { tokens = tokens(c), in_features = value_of(c, layer.inputs), out_features = value_of(c, layer.outputs),
      bias = bias_of(c, layer.bias), separate = separate(c, op),
      stored_tokens = layer.place == "enter" and c.sequence_parallel and shapes.norm_tokens(c) or nil }
  end
  return gemm.define(op)
end

return gemm
