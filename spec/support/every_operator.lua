--- A campaign of every bundled operator with a kernel, at one small shape that fp8 products can take too.
return [[
local configuration = { tp = 1, cp = 1, ep = 1, micro_batch = 2, seq = 64, hidden = 512, heads = 4, kv_heads = 2,
  head_dim = 32, ffn = 512, moe_ffn = 256, vocab = 1024, experts = 4, top_k = 2, layers = 2, gated_mlp = true,
  causal = true, dtype = "bf16", kv_lora_rank = 64, q_lora_rank = 64, qk_rope_head_dim = 16, qk_nope_head_dim = 32,
  v_head_dim = 32, linear_key_heads = 2, linear_value_heads = 8, patch_size = 4, index_heads = 16,
  index_head_dim = 16, index_top_k = 8, moe_latent = 16, conv_in = 16, conv_out = 16, conv_outputs = 64, conv_size = 9 }
local samples = {}
for _, op in ipairs(require("ett.operator").list()) do
  local shapes = {}
  for name, value in pairs(op.shape(configuration)) do shapes[name] = { value } end
  if op.kernel then samples[#samples + 1] = { operator = op.name, shapes = shapes } end
end
return { name = "every", backend = "cuda", precision = "bf16", seed = 3, min_repeats = 3, max_repeats = 5,
  samples = samples }
]]
