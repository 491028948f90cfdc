--- Llama 3 8B
return {
  source = "arXiv 2407.21783; meta-llama/Meta-Llama-3-8B (from memory)",
  architecture = "llama", parameters = 8030261248,
  hyper = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 128256 },
}
