--- Phi-3 mini 3.8B
return {
  source = "arXiv 2404.14219; microsoft/Phi-3-mini-4k-instruct (from memory)",
  architecture = "llama", parameters = 3821079552,
  hyper = { layers = 32, hidden = 3072, heads = 32, ffn = 8192, vocab = 32064, window = 2047 },
}
