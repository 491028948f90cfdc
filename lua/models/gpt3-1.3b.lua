--- GPT-3 1.3B
return {
  source = "arXiv 2005.14165, tables 2.1 and D.1; 24 heads there are taken as 16 (from memory)",
  architecture = "gpt", parameters = 1.32e9,
  hyper = { layers = 24, hidden = 2048, heads = 16, vocab = 50257, max_positions = 2048 },
}
