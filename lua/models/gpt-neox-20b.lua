--- GPT-NeoX-20B
return {
  source = "arXiv 2204.06745; EleutherAI/gpt-neox-20b (from memory)",
  architecture = "gpt", parameters = 20554567680,
  hyper = { layers = 44, hidden = 6144, heads = 64, ffn = 24576, vocab = 50432, position = "rope",
    rotary_fraction = 0.25, parallel_block = true, tied_embeddings = false },
}
