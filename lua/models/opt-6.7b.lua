--- OPT 6.7B
return {
  source = "arXiv 2205.01068; facebook/opt-6.7b (from memory)",
  architecture = "gpt", parameters = 6658473984,
  hyper = { layers = 32, hidden = 4096, heads = 32, vocab = 50272, max_positions = 2050 },
}
