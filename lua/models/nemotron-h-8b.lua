--- Nemotron-H 8B: Mamba-2, MLPs and four layers of attention
return {
  source = "arXiv 2504.03624; nvidia/Nemotron-H-8B-Base-8K (from memory)",
  architecture = "hybrid", parameters = 8.1e9,
  hyper = { layers = 52, hidden = 4096, heads = 32, kv_heads = 8, head_dim = 128, ffn = 21504,
    vocab = 131072, ssm_inner = 8192, ssm_heads = 128, ssm_groups = 8, scan_chunk = 128,
    layer_types = { "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "full_attention", "mlp",
      "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "full_attention", "mlp",
      "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "full_attention", "mlp",
      "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "full_attention", "mlp",
      "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp", "mamba2", "mlp" } },
}
