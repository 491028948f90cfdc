--- Nemotron 3 Nano 30B-A3B: Mamba-2, experts and six layers of attention
return {
  source = "config.json of HebArabNlpProject/Hebatron, which continues nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16; "
    .. "count: the page of basecompute/NVIDIA-Nemotron-3-Nano-30B-A3B",
  architecture = "hybrid", parameters = 31.6e9,
  hyper = { layers = 52, hidden = 2688, heads = 32, kv_heads = 2, head_dim = 128, ffn = 1856, vocab = 131072,
    experts = 128, top_k = 6, moe_ffn = 1856, shared_ffn = 3712, ssm_heads = 64, ssm_head_dim = 64, ssm_state = 128,
    ssm_groups = 8, conv_kernel = 4, scan_chunk = 128,
    layer_types = { "mamba2", "moe", "mamba2", "moe", "mamba2", "full_attention", "moe", "mamba2", "moe", "mamba2",
      "moe", "mamba2", "full_attention", "moe", "mamba2", "moe", "mamba2", "moe", "mamba2", "full_attention", "moe",
      "mamba2", "moe", "mamba2", "moe", "mamba2", "full_attention", "moe", "mamba2", "moe", "mamba2", "moe",
      "mamba2", "full_attention", "moe", "mamba2", "moe", "mamba2", "moe", "mamba2", "moe", "mamba2",
      "full_attention", "moe", "mamba2", "moe", "mamba2", "moe", "mamba2", "moe", "mamba2", "moe" } },
}
