--- OPT 1.3B
return {
  source = "arXiv 2205.01068; facebook/opt-1.3b (from memory)",
  architecture = "gpt", parameters = 1315758080,
  hyper = { layers = 24, hidden = 2048, heads = 32, vocab = 50272, max_positions = 2050 },
}
