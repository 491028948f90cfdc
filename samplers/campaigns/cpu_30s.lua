--- Every operator of a dense decoder on the CPU in half a minute: low-discrepancy designs over the shapes of small
--- models, each timed unit takes less than about 20 ms.
local function log(from, to, multiple) return { from = from, to = to, scale = "log", multiple = multiple or 1 } end

--- At most `most` operations, so that a unit ends within the scheduler's time slice.
local function below(most, count) return function(s) return count(s) <= most end end

local product = function(s) return 2.0 * s.tokens * s.in_features * s.out_features end
local tokens = log(32, 2048, 16)
local rows = { tokens = tokens, hidden = log(64, 2048, 16) }
local wide = { tokens = tokens, width = log(64, 4096, 16) }
local small = below(2 ^ 21, function(s) return s.tokens * (s.hidden or s.width) end)

return {
  name = "cpu_30s", summary = "the operators of a dense decoder on the CPU, half a minute",
  backend = "cpu", precision = "fp32", seed = 7, budget_seconds = 0.016, target = 0.01,
  visits = 8, block = 128, interleave = true, seconds = 30, min_repeats = 1,
  samples = {
    { operator = "linear_qkv", design = "halton", count = 110, where = below(5e8, product),
      shapes = { tokens = tokens, in_features = log(64, 2048, 16), out_features = log(64, 4096, 16) } },
    { operator = "layer_norm", design = "halton", count = 40, shapes = rows, where = small },
    { operator = "rms_norm", design = "halton", count = 40, shapes = rows, where = small },
    { operator = "residual_add", design = "halton", count = 40, shapes = rows, where = small },
    { operator = "gelu", design = "halton", count = 40, shapes = wide, where = small },
    { operator = "swiglu", design = "halton", count = 40, shapes = wide, where = small },
    { operator = "rope", design = "halton", count = 50,
      shapes = { batch = { 1, 2, 4 }, seq = log(32, 512, 16), heads = { 2, 4, 8, 16 }, kv_heads = 1,
        head_dim = { 16, 32, 64, 128 }, rotary_dim = 1 },
      with = function(s) s.kv_heads, s.rotary_dim = s.heads, s.head_dim end,
      where = below(2 ^ 21, function(s) return s.batch * s.seq * s.heads * s.head_dim end) },
    { operator = "flash_attention", design = "halton", count = 80,
      shapes = { batch = { 1, 2, 4 }, heads = { 1, 2, 4, 8 }, kv_heads = 1, seq_q = log(32, 512, 16), seq_k = 1,
        head_dim = { 16, 32, 64, 128 }, causal = 1 },
      with = function(s) s.kv_heads, s.seq_k = s.heads, s.seq_q end,
      where = below(4e8, function(s) return 4.0 * s.batch * s.heads * s.seq_q * s.seq_q * s.head_dim end) },
    { operator = "embedding", design = "halton", count = 40,
      shapes = { tokens = tokens, vocab = log(256, 8192, 64), hidden = log(64, 1024, 16) },
      where = below(2 ^ 21, function(s) return s.tokens * s.hidden end) },
    { operator = "cross_entropy", design = "halton", count = 40,
      shapes = { tokens = tokens, vocab = log(128, 8192, 64) },
      where = below(2 ^ 21, function(s) return s.tokens * s.vocab end) },
    { operator = "optimizer", design = "halton", count = 24, shapes = { params = log(10000, 4000000) } },
  },
}
