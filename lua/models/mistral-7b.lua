--- Mistral 7B v0.1
return {
  source = "arXiv 2310.06825; mistralai/Mistral-7B-v0.1 (from memory)",
  architecture = "llama", parameters = 7241732096,
  hyper = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000,
    window = 4096 },
}
