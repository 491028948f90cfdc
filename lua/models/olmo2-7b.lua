--- OLMo 2 7B
return {
  source = "arXiv 2501.00656; config.json of allenai/OLMo-2-1124-7B",
  architecture = "llama", parameters = 7.3e9,
  hyper = { layers = 32, hidden = 4096, heads = 32, ffn = 11008, vocab = 100352, qk_norm = true,
    qk_norm_whole = true },
}
