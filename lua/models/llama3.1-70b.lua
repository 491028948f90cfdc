--- Llama 3.1 and 3.3 70B
return {
  source = "arXiv 2407.21783; meta-llama/Llama-3.1-70B (from memory)",
  aliases = { "llama3.3-70b" },
  architecture = "llama", parameters = 70553706496,
  hyper = { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672, vocab = 128256 },
}
