--- FLOPs and bytes of recorded operations, from ett's own operator files.
local operator = require "ett.operator"

local roofline = {}

local product = function(o)
  return { tokens = o.m, in_features = o.k, out_features = o.n, batch = o.batch > 1 and o.batch or nil }
end
local tokens_hidden = function(o) return { tokens = o.rows, hidden = o.cols } end
local tokens_width = function(o) return { tokens = o.rows, width = o.cols } end

-- family, or family and `what` -> the operator file that counts, and its shape
local files = {
  gemm = { "linear_up", product }, bmm = { "bmm_qk", function(o)
    return { batch = o.batch, tokens = o.m, in_features = o.k, out_features = o.n }
  end },
  attention = { "flash_attention", function(o)
    return { batch = o.batch, heads = o.heads, kv_heads = o.kv_heads, seq_q = o.seq_q, seq_k = o.seq_k,
      head_dim = o.head_dim, causal = o.causal == false and 0 or o.seq_q <= o.seq_k and 1 or 0 }
  end },
  ["norm layer_norm"] = { "layer_norm", tokens_hidden }, ["norm rms_norm"] = { "rms_norm", tokens_hidden },
  ["softmax softmax"] = { "softmax", function(o) return { batch = 1, heads = 1, seq_q = o.rows, seq_k = o.cols } end },
  ["softmax masked_softmax"] = { "masked_softmax",
    function(o) return { batch = 1, heads = 1, seq_q = o.rows, seq_k = o.cols } end },
  ["elementwise gelu"] = { "gelu", tokens_width }, ["elementwise swiglu"] = { "swiglu", tokens_width },
  ["elementwise add"] = { "residual_add", tokens_hidden },
  ["elementwise dropout"] = { "dropout", function(o) return { rows = o.rows, cols = o.cols } end },
  ["elementwise fill_mask"] = { "fill_mask",
    function(o) return { batch = 1, heads = 1, seq_q = o.rows, seq_k = o.cols } end },
  cross_entropy = { "cross_entropy", function(o) return { tokens = o.rows, vocab = o.cols } end },
  embedding = { "embedding", function(o) return { tokens = o.rows, vocab = o.vocab, hidden = o.cols } end },
}

--- The operator file of an operation, and its shape there; nil if there is none.
---@return table? op, table? shape
function roofline.operator(o)
  local entry = o and (files[o.family] or files[o.family .. " " .. tostring(o.what)])
  if not entry then return nil end
  return operator.get(entry[1]), entry[2](o)
end

--- Rates of a row of operators.by_shape over its seconds: { tflops_per_s, gb_per_s, flops, bytes }, or empty.
function roofline.rates(row, seconds)
  local op, shape = roofline.operator(row.operation)
  if not op or seconds <= 0 then return {} end
  local pass = row.pass == "backward" and "backward" or "forward"
  local flops = row.count * op.flops(shape, pass)
  local bytes = row.count * op.bytes(shape, row.dtype and row.dtype ~= "fp64" and row.dtype or "fp32", pass)
  return { tflops_per_s = flops / seconds / 1e12, gb_per_s = bytes / seconds / 1e9, flops = flops, bytes = bytes }
end

return roofline
