--- Phi-3.5-MoE (6.6B active)
return {
  source = "arXiv 2404.14219; microsoft/Phi-3.5-MoE-instruct (from memory)",
  architecture = "mixtral", parameters = 41873153344,
  hyper = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 6400, vocab = 32064,
    norm = "layer_norm", attention_bias = true, head_bias = true, experts = 16, top_k = 2 },
}
