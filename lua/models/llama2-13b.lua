--- Llama 2 13B
return {
  source = "arXiv 2307.09288; meta-llama/Llama-2-13b-hf (from memory)",
  architecture = "llama", parameters = 13015864320,
  hyper = { layers = 40, hidden = 5120, heads = 40, ffn = 13824, vocab = 32000 },
}
