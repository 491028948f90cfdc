--- GPT-3 6.7B
return {
  source = "arXiv 2005.14165, tables 2.1 and D.1 (from memory)",
  architecture = "gpt", parameters = 6.66e9,
  hyper = { layers = 32, hidden = 4096, heads = 32, vocab = 50257, max_positions = 2048 },
}
