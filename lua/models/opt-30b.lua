--- OPT 30B
return {
  source = "arXiv 2205.01068; facebook/opt-30b (from memory)",
  architecture = "gpt", parameters = 29974540288,
  hyper = { layers = 48, hidden = 7168, heads = 56, vocab = 50272, max_positions = 2050 },
}
