--- OPT 175B
return {
  source = "arXiv 2205.01068, table 1 (from memory)",
  architecture = "gpt", parameters = 175e9,
  hyper = { layers = 96, hidden = 12288, heads = 96, vocab = 50272, max_positions = 2050 },
}
