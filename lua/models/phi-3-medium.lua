--- Phi-3 medium 14B
return {
  source = "arXiv 2404.14219; microsoft/Phi-3-medium-4k-instruct (from memory)",
  architecture = "llama", parameters = 13960238080,
  hyper = { layers = 40, hidden = 5120, heads = 40, kv_heads = 10, ffn = 17920, vocab = 32064,
    window = 2047 },
}
