--- OPT 13B
return {
  source = "arXiv 2205.01068; facebook/opt-13b (from memory)",
  architecture = "gpt", parameters = 12853473280,
  hyper = { layers = 40, hidden = 5120, heads = 40, vocab = 50272, max_positions = 2050 },
}
