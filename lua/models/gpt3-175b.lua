--- GPT-3 175B
return {
  source = "arXiv 2005.14165, tables 2.1 and D.1 (from memory)",
  architecture = "gpt", parameters = 174.6e9,
  hyper = { layers = 96, hidden = 12288, heads = 96, vocab = 50257, max_positions = 2048 },
}
