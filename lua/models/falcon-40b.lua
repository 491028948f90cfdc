--- Falcon 40B
return {
  source = "arXiv 2311.16867; tiiuae/falcon-40b (from memory)",
  architecture = "gpt", parameters = 41303293952,
  hyper = { layers = 60, hidden = 8192, heads = 128, kv_heads = 8, vocab = 65024, position = "rope",
    parallel_block = true, bias = false },
}
