--- Jamba v0.1 52B (12B active): Mamba, an eighth of attention, experts
return {
  source = "arXiv 2403.19887; ai21labs/Jamba-v0.1 (from memory)",
  architecture = "mixtral", parameters = 51570323328,
  hyper = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 65536, experts = 16,
    top_k = 2, moe_every = 2, position = "none", ssm_dt_rank = 256, ssm_norms = true,
    layer_types = { "mamba", "mamba", "mamba", "mamba", "full_attention", "mamba", "mamba", "mamba" } },
}
