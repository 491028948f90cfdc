--- Mamba 2.8B
return {
  source = "arXiv 2312.00752; state-spaces/mamba-2.8b-hf (from memory)",
  architecture = "hybrid", parameters = 2768345600,
  hyper = { layers = 64, hidden = 2560, heads = 5120, head_dim = 1, vocab = 50280, tied_embeddings = true,
    layer_types = { "mamba" } },
}
