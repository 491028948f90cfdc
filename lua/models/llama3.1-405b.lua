--- Llama 3.1 405B
return {
  source = "arXiv 2407.21783; meta-llama/Llama-3.1-405B (from memory)",
  aliases = { "llama3-405b" },
  architecture = "llama", parameters = 405853388800,
  hyper = { layers = 126, hidden = 16384, heads = 128, kv_heads = 8, ffn = 53248, vocab = 128256 },
}
