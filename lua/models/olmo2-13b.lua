--- OLMo 2 13B
return {
  source = "arXiv 2501.00656; config.json of allenai/OLMo-2-1124-13B; its count (from memory)",
  architecture = "llama", parameters = 13.7e9,
  hyper = { layers = 40, hidden = 5120, heads = 40, ffn = 13824, vocab = 100352, qk_norm = true,
    qk_norm_whole = true },
}
