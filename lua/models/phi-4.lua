--- Phi-4 14B
return {
  source = "arXiv 2412.08905; microsoft/phi-4 (from memory)",
  architecture = "llama", parameters = 14659507200,
  hyper = { layers = 40, hidden = 5120, heads = 40, kv_heads = 10, ffn = 17920, vocab = 100352 },
}
