--- Mistral Small 3 24B
return {
  source = "mistralai/Mistral-Small-24B-Base-2501 (from memory)",
  architecture = "llama", parameters = 23572403200,
  hyper = { layers = 40, hidden = 5120, heads = 32, kv_heads = 8, head_dim = 128, ffn = 32768,
    vocab = 131072 },
}
