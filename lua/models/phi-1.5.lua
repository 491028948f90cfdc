--- Phi-1.5 1.3B
return {
  source = "arXiv 2309.05463; microsoft/phi-1_5 (from memory)",
  architecture = "gpt", parameters = 1418270720,
  hyper = { layers = 24, hidden = 2048, heads = 32, ffn = 8192, vocab = 51200, rotary_fraction = 0.5,
    position = "rope", parallel_block = true, shared_norm = true, tied_embeddings = false,
    head_bias = true },
}
