--- T5 3B, encoder and decoder
return {
  source = "arXiv 1910.10683; google-t5/t5-3b (from memory)",
  architecture = "encoder_decoder", parameters = 2851598336,
  hyper = { layers = 24, hidden = 1024, heads = 32, head_dim = 128, ffn = 16384, vocab = 32128 },
}
