--- OLMo 2 32B
return {
  source = "arXiv 2501.00656; config.json of allenai/OLMo-2-0325-32B; its count (from memory)",
  architecture = "llama", parameters = 32.2e9,
  hyper = { layers = 64, hidden = 5120, heads = 40, kv_heads = 8, ffn = 27648, vocab = 100352, qk_norm = true,
    qk_norm_whole = true },
}
