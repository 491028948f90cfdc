--- T5 11B, encoder and decoder
return {
  source = "arXiv 1910.10683; google-t5/t5-11b (from memory)",
  architecture = "encoder_decoder", parameters = 11307321344,
  hyper = { layers = 24, hidden = 1024, heads = 128, head_dim = 128, ffn = 65536, vocab = 32128 },
}
