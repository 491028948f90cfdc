--- Falcon 7B
return {
  source = "arXiv 2311.16867; tiiuae/falcon-7b (from memory)",
  architecture = "gpt", parameters = 6921720704,
  hyper = { layers = 32, hidden = 4544, heads = 71, kv_heads = 1, vocab = 65024, shared_norm = true,
    position = "rope", parallel_block = true, bias = false },
}
