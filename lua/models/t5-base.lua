--- T5 base, encoder and decoder
return {
  source = "arXiv 1910.10683; google-t5/t5-base (from memory)",
  architecture = "encoder_decoder", parameters = 222903552,
  hyper = { layers = 12, hidden = 768, heads = 12, head_dim = 64, ffn = 3072, vocab = 32128 },
}
