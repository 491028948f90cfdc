--- FLOPs and bytes of recorded operations, from ett's own operator files.
local operator = require "ett.operator"
local schema = require "ett.base.schema"

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

--- Kernels that the operator files do not describe, by host operator: tensors read and written, forward and backward,
--- and the operator files that count the FLOPs. `only`: the type of such inputs.
local own_kernels = {
  -- PyTorch's log_softmax reads logits and writes as many values (aten/src/ATen/native/cuda/SoftMax.cu). Backward,
  -- nll_loss fills a gradient with zeros (Loss.cu); log_softmax reads it and its output, and writes a gradient.
  ["aten::cross_entropy_loss"] = { forward = 2, backward = 4, flops = { "cross_entropy" } },
  -- Megatron's loss counted as in operators/cross_entropy.lua, without the casts from and to 16 bits.
  ["_VocabParallelCrossEntropy"] = { forward = 8, backward = 2, flops = { "cross_entropy" }, only = "fp32" },
  -- vLLM's fused_add_rms_norm_kernel (csrc/layernorm_kernels.cu) reads input and residual. It writes their sum into the
  -- residual, and its norm into the input.
  ["_C::fused_add_rms_norm"] = { forward = 4, flops = { "rms_norm", "residual_add" } },
}

--- FLOPs and bytes of an operation with its own kernels; nil in a pass without them.
local function of_kernels(kernels, o, dtype, pass)
  if not kernels[pass] then return nil end
  local shape, flops = { tokens = o.rows, hidden = o.cols, vocab = o.cols }, 0.0
  for _, name in ipairs(kernels.flops) do flops = flops + operator.get(name).flops(shape, pass) end
  return flops, kernels[pass] * schema.wide_bytes(dtype) * (o.rows + 0.0) * o.cols
end

--- Rates of a row of operators.by_shape over its seconds: { tflops_per_s, gb_per_s, flops, bytes }, or empty.
function roofline.rates(row, seconds)
  local op, shape = roofline.operator(row.operation)
  local pass, dtype = row.pass == "backward" and "backward" or "forward", row.dtype or "fp32"
  local kernels = row.operation and own_kernels[row.name]
  if kernels and kernels.only and kernels.only ~= dtype then kernels = nil end
  if not (op or kernels) or seconds <= 0 then return {} end
  local flops, bytes
  if kernels then
    flops, bytes = of_kernels(kernels, row.operation, dtype, pass)
    if not flops then return {} end
  else
    flops, bytes = op.flops(shape, pass), op.bytes(shape, dtype, pass)
  end
  flops, bytes = row.count * flops, row.count * bytes
  return { tflops_per_s = flops / seconds / 1e12, gb_per_s = bytes / seconds / 1e9, flops = flops, bytes = bytes }
end

return roofline
