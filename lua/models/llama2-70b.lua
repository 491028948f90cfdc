--- Llama 2 70B
return {
  source = "arXiv 2307.09288; meta-llama/Llama-2-70b-hf (from memory)",
  architecture = "llama", parameters = 68976648192,
  hyper = { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672, vocab = 32000 },
}
