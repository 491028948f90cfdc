--- Mistral NeMo 12B
return {
  source = "mistralai/Mistral-Nemo-Base-2407 (from memory)",
  architecture = "llama", parameters = 12247782400,
  hyper = { layers = 40, hidden = 5120, heads = 32, kv_heads = 8, head_dim = 128, ffn = 14336,
    vocab = 131072 },
}
