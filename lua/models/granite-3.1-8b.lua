--- Granite 3.0, 3.1 and 3.2 8B
return {
  source = "config.json and sizes of the files of ibm-granite/granite-3.1-8b-instruct",
  architecture = "llama", parameters = 8.17e9,
  hyper = { layers = 40, hidden = 4096, heads = 32, kv_heads = 8, ffn = 12800, vocab = 49155,
    tied_embeddings = true },
}
