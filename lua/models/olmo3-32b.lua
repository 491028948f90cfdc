--- OLMo 3 32B: a window of 4096 in three of four layers
return {
  source = "allenai/Olmo-3-1125-32B: widths and windows by a fine-tuned model; heads and count (from memory)",
  architecture = "llama", parameters = 32e9,
  hyper = { layers = 64, hidden = 5120, heads = 40, kv_heads = 8, ffn = 27648, vocab = 100278, qk_norm = true,
    qk_norm_whole = true, window = 4096, window_every = 4 },
}
