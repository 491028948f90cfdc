--- GPT-3 13B
return {
  source = "arXiv 2005.14165, tables 2.1 and D.1; width 5140 there is taken as 5120 (from memory)",
  architecture = "gpt", parameters = 12.85e9,
  hyper = { layers = 40, hidden = 5120, heads = 40, vocab = 50257, max_positions = 2048 },
}
