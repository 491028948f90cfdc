--- OPT 66B
return {
  source = "arXiv 2205.01068; facebook/opt-66b (from memory)",
  architecture = "gpt", parameters = 65.7e9,
  hyper = { layers = 64, hidden = 9216, heads = 72, vocab = 50272, max_positions = 2050 },
}
