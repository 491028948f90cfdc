--- Falcon 180B
return {
  source = "arXiv 2311.16867; tiiuae/falcon-180B stores 179,522,565,120, the tied head once more (from memory)",
  architecture = "gpt", parameters = 178557088768,
  hyper = { layers = 80, hidden = 14848, heads = 232, kv_heads = 8, vocab = 65024, position = "rope",
    parallel_block = true, bias = false },
}
