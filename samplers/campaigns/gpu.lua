--- Every operator of a decoder with dense and expert layers on one GPU, at the sizes of models of 1 to 100 billion
--- parameters: low-discrepancy designs. A unit takes at most about 20 ms on a device of 1e15 FLOP/s and 3e12 bytes/s.
local function log(from, to, multiple) return { from = from, to = to, scale = "log", multiple = multiple or 1 } end

--- At most `most` operations or elements.
local function below(most, count) return function(s) return count(s) <= most end end

local product = function(s) return 2.0 * (s.batch or 1) * s.tokens * s.in_features * s.out_features end
local heads = { 8, 16, 32, 64 }
local tokens = log(128, 65536, 16)
local rows = { tokens = tokens, hidden = log(1024, 16384, 64) }
local wide = { tokens = tokens, width = log(1024, 32768, 64) }
local routed = { tokens = log(128, 16384, 16), hidden = log(1024, 8192, 64), top_k = { 1, 2, 4, 8 } }
local elements = below(2 ^ 30, function(s) return s.tokens * (s.hidden or s.width or s.vocab) * (s.top_k or 1) end)

--- Queries of one head for each head of keys, or of eight (GQA).
local function keys_of(s) s.kv_heads, s.seq_k = s.heads // s.kv_heads, s.seq_q end

return {
  name = "gpu", summary = "the operators of a decoder on a GPU",
  backend = "cuda", precision = "bf16", seed = 7, budget_seconds = 0.02, target = 0.01, min_repeats = 5,
  samples = {
    { operator = "linear_qkv", design = "halton", count = 500, where = below(1e13, product),
      shapes = { tokens = log(16, 65536, 16), in_features = log(512, 16384, 64),
        out_features = log(512, 32768, 64) } },
    { operator = "expert_linear1", design = "halton", count = 100, where = below(1e13, product),
      shapes = { batch = { 2, 4, 8, 16, 32 }, tokens = log(64, 65536, 64), in_features = log(1024, 8192, 64),
        out_features = log(512, 16384, 64) } },
    { operator = "flash_attention", design = "halton", count = 160,
      shapes = { batch = { 1, 2, 4, 8 }, heads = heads, kv_heads = { 1, 8 }, seq_q = log(256, 32768, 128), seq_k = 1,
        head_dim = { 64, 128 }, causal = { 0, 1 } },
      with = keys_of,
      where = below(5e12, function(s) return 4.0 * s.batch * s.heads * s.seq_q * s.seq_q * s.head_dim end) },
    { operator = "layer_norm", design = "halton", count = 60, shapes = rows, where = elements },
    { operator = "rms_norm", design = "halton", count = 60, shapes = rows, where = elements },
    { operator = "residual_add", design = "halton", count = 40, shapes = rows, where = elements },
    { operator = "bias_dropout_add", design = "halton", count = 40, shapes = rows, where = elements },
    { operator = "gelu", design = "halton", count = 40, shapes = wide, where = elements },
    { operator = "swiglu", design = "halton", count = 40, shapes = wide, where = elements },
    { operator = "rope", design = "halton", count = 60,
      shapes = { batch = { 1, 2, 4, 8 }, seq = log(256, 32768, 128), heads = heads, kv_heads = { 1, 8 },
        head_dim = { 64, 128 }, rotary_dim = 1 },
      with = function(s) s.kv_heads, s.rotary_dim = s.heads // s.kv_heads, s.head_dim end,
      where = below(2 ^ 30, function(s) return s.batch * s.seq * s.heads * s.head_dim end) },
    { operator = "embedding", design = "halton", count = 40, where = elements,
      shapes = { tokens = tokens, vocab = log(8192, 262144, 64), hidden = log(1024, 16384, 64) } },
    { operator = "cross_entropy", design = "halton", count = 40, where = elements,
      shapes = { tokens = tokens, vocab = log(8192, 262144, 64) } },
    { operator = "moe_router", design = "halton", count = 60, where = elements,
      shapes = { tokens = tokens, hidden = log(1024, 8192, 64), experts = { 8, 16, 64, 128, 256 },
        top_k = { 1, 2, 4, 8 } } },
    { operator = "moe_permute", design = "halton", count = 40, where = elements, shapes = routed },
    { operator = "moe_unpermute", design = "halton", count = 40, where = elements, shapes = routed },
    { operator = "optimizer", design = "halton", count = 30, shapes = { params = log(1000000, 2000000000) } },
  },
}
