--- Step-3: multi-matrix factorization attention, 48 experts; without its vision encoder.
return {
  name = "step3", summary = "Step-3 (321B-A38B), text: multi-matrix factorization attention, 48 experts",
  source = "stepfun-ai/step3, config.json; 316B without vision (from memory)", architecture = "mixtral",
  parameters = 316e9,
  hyper = { layers = 61, hidden = 7168, heads = 64, kv_heads = 1, head_dim = 256, ffn = 18432, vocab = 128815,
    q_lora_rank = 2048, experts = 48, top_k = 3, moe_ffn = 5120, shared_ffn = 5120,
    dense_layers = { 1, 2, 3, 4, 61 } },
}
