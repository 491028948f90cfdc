--- Results of products and attention against ett.operator.doubles. check_spec.lua of spec/sampling compares its
--- gradients with finite differences, torch_values_slow_spec.lua its results with PyTorch.
local cuda_results = require "cuda_results"
local operator = require "ett.operator"

if not require("needs").gpu(cuda_results.missing(), "CUDA products and attention", _ENV) then return end

local right = cuda_results.right

describe("CUDA products and attention", function()
  -- The stand-in computes no fp16: its conversions are instructions of a GPU.
  for precision, tolerance in pairs { fp32 = 1e-5, bf16 = 1e-2, fp8 = 1e-2,
    fp16 = not os.getenv "ETT_GPU_EXECUTE" and 2e-3 or nil } do
    for _, turned in ipairs { { false, false }, { false, true }, { true, false }, { true, true } } do
      it(("products in %s, transposed %s and %s, are right"):format(precision, turned[1], turned[2]), function()
        local m, n, k, batch = 16, 32, 48, 2
        right({ name = "product", passes = { "forward" }, kernel = function(p)
          p.gemm { a = p.tensor(turned[1] and { batch, k, m } or { batch, m, k }), c = p.tensor { batch, m, n },
            b = p.tensor(turned[2] and { batch, n, k } or { batch, k, n }), m = m, n = n, k = k, batch = batch,
            trans_a = turned[1], trans_b = turned[2], accumulate = true }
        end }, {}, precision, tolerance)
      end)
    end
  end

  -- fp32: kernels of ett's own (lua/ett/operator/attention.lua); bf16: cuDNN.
  local function attention_right(precision, tolerance, batch, heads, kv_heads, seq_q, seq_k, head_dim, causal)
    local s = { batch = batch, heads = heads, kv_heads = kv_heads, seq_q = seq_q, seq_k = seq_k, head_dim = head_dim,
      causal = causal }
    it(("attention in %s of %d heads, %d x %d, causal %d, is right"):format(precision, heads, seq_q, seq_k, causal),
      function() right(operator.get "flash_attention", s, precision, tolerance) end)
  end
  for causal = 0, 1 do
    attention_right("fp32", 1e-5, 2, 4, 2, 6, 6, 8, causal)
    attention_right("bf16", 1e-2, 2, 4, 2, 6, 6, 8, causal)
  end
  -- More keys than a block has threads, fewer than a whole tile at the end, more dimensions than threads.
  attention_right("fp32", 1e-5, 1, 1, 1, 2, 260, 2, 0)
  attention_right("fp32", 1e-5, 1, 2, 1, 4, 4, 40, 1)
end)
