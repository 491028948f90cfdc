--- Phi-2 2.7B
return {
  source = "microsoft/phi-2 (from memory)",
  architecture = "gpt", parameters = 2779683840,
  hyper = { layers = 32, hidden = 2560, heads = 32, ffn = 10240, vocab = 51200, rotary_fraction = 0.4,
    position = "rope", parallel_block = true, shared_norm = true, tied_embeddings = false,
    head_bias = true },
}
