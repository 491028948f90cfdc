--- Mamba-2 2.7B
return {
  source = "arXiv 2405.21060; state-spaces/mamba2-2.7b (from memory)",
  architecture = "hybrid", parameters = 2702599680,
  hyper = { layers = 64, hidden = 2560, heads = 80, head_dim = 64, vocab = 50288, tied_embeddings = true,
    layer_types = { "mamba2" } },
}
