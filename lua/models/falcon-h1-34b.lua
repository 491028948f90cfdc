--- Falcon-H1 34B: attention and Mamba-2 side by side in each layer.
return {
  name = "falcon-h1-34b", summary = "Falcon-H1 34B: attention and Mamba-2 side by side",
  source = "tiiuae/Falcon-H1-34B-Base, config.json; 33.6B (from memory)", architecture = "llama", parameters = 33.6e9,
  hyper = { layers = 72, hidden = 5120, heads = 20, kv_heads = 4, head_dim = 128, ffn = 21504, vocab = 261120,
    parallel_mixer = "mamba2", ssm_inner = 4096, ssm_heads = 32, ssm_head_dim = 128, ssm_groups = 2, ssm_state = 256,
    ssm_output_norm = false, scan_chunk = 256 },
}
