--- GPT-2 small
return {
  source = "Radford et al. 2019; openai-community/gpt2 (from memory)",
  architecture = "gpt", parameters = 124439808,
  hyper = { layers = 12, hidden = 768, heads = 12, vocab = 50257, max_positions = 1024 },
}
