--- LongCat-Flash: two blocks in each layer, 512 experts, and 256 that return their input.
return {
  name = "longcat-flash", summary = "LongCat-Flash (560B-A27B): experts beside two dense blocks in each layer",
  source = "meituan-longcat/LongCat-Flash-Chat: config.json; 560B by arXiv 2509.01322", architecture = "longcat",
  parameters = 560e9,
  hyper = { layers = 28, hidden = 6144, heads = 64, ffn = 12288, vocab = 131072, experts = 512, zero_experts = 256,
    top_k = 12, moe_ffn = 2048, q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64,
    v_head_dim = 128 },
}
