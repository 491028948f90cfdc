--- T5 large, encoder and decoder
return {
  source = "arXiv 1910.10683; google-t5/t5-large (from memory)",
  architecture = "encoder_decoder", parameters = 737668096,
  hyper = { layers = 24, hidden = 1024, heads = 16, head_dim = 64, ffn = 4096, vocab = 32128 },
}
