--- Granite 3.0, 3.1 and 3.2 2B
return {
  source = "config.json and model card of ibm-granite/granite-3.0-2b-instruct",
  architecture = "llama", parameters = 2.5e9,
  hyper = { layers = 40, hidden = 2048, heads = 32, kv_heads = 8, ffn = 8192, vocab = 49155,
    tied_embeddings = true },
}
