--- Zero bubble with twice the memory of 1F1B, ordered by the times of the units. As for zb_h2, the gain needs
--- `post_validation=true`.
return { name = "zb_2p", chunks = 1, exact_chunks = true,
  summary = "zero bubble with twice the activations of 1F1B, ordered by the units' times (ZB-2p)",
  source = "Qi et al. 2023, section 3 (arXiv 2401.10241)",
  activations = function(_, p) return 2 * p.pp end }
