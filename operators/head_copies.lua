--- Copies around unfused attention: biases of queries, keys and values, and transposes between heads and tokens.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "head_copies", family = "elementwise",
  summary = "biases of queries, keys and values, and transposes around unfused attention",
  joins = "linear_qkv" } -- whose host operator adds the bias

op.schema = { tokens = "count", width = "count", projected = "count", bias = "natural" }

function op.shape(c)
  local dim = shapes.head_dim(c)
  return { tokens = shapes.tokens(c), width = shapes.local_heads(c) * dim,
    projected = (shapes.local_heads(c) + 2 * shapes.local_kv_heads(c)) * dim,
    bias = shapes.bias(c, "qkv_bias", "attention_bias") or 0 }
end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.width, projected = s.projected } end

-- Elements read and written per token, as in Megatron-LM (megatron/core/tensor_parallel/layers.py,
-- megatron/model/transformer.py). Forward: the bias is added after the product; the output is transposed from heads to
-- tokens. Backward: the gradient is transposed back, and the gradients of queries, keys and values are concatenated.
-- The bias gradient belongs to the product.
local function moved(s, pass)
  if pass == "backward" then return 2 * s.width + 2 * s.projected end
  return 2 * s.width + 2 * s.bias * s.projected
end

function op.bytes(s, dtype, pass) return (s.tokens + 0.0) * moved(s, pass) * memory.width(dtype) end
return memory.define(op, { forward = { reads = 4, writes = 4, flops = 3 },
  backward = { reads = 4, writes = 4, flops = 0 } })
