--- Llama 2 7B
return {
  source = "arXiv 2307.09288; meta-llama/Llama-2-7b-hf (from memory)",
  architecture = "llama", parameters = 6738415616,
  hyper = { layers = 32, hidden = 4096, heads = 32, ffn = 11008, vocab = 32000 },
}
