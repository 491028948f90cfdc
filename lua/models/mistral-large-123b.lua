--- Mistral Large 2 (July 2024)
return {
  source = "mistralai/Mistral-Large-Instruct-2407 (from memory)",
  architecture = "llama", parameters = 122610069504,
  hyper = { layers = 88, hidden = 12288, heads = 96, kv_heads = 8, ffn = 28672, vocab = 32768 },
}
