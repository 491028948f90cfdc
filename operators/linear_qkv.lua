--- QKV projection, column-parallel over tensor ranks; grouped queries shrink keys and values.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_qkv", aliases = { "linear1" }, summary = "QKV projection, column-parallel",
  region = "enter" }

local function columns(c)
  -- The reference's sample files hold 3 * dim / mp columns and no head count.
  if c.reference then return 3 * c.hidden // c.tp end
  return (shapes.local_heads(c) + 2 * shapes.local_kv_heads(c)) * shapes.head_dim(c)
end

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = columns(c),
    bias = shapes.bias(c, "qkv_bias", "attention_bias"),
    stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

gemm.define(op)
op.reference = shapes.reference(op, { "mp", "b", "l", "dim" }, { "linear1" })

return op
