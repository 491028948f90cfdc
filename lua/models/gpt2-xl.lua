--- GPT-2 XL
return {
  source = "Radford et al. 2019; openai-community/gpt2-xl (from memory)",
  architecture = "gpt", parameters = 1557611200,
  hyper = { layers = 48, hidden = 1600, heads = 25, vocab = 50257, max_positions = 1024 },
}
