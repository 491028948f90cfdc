--- Zero bubble with the memory of 1F1B, ordered by the times of the units; zb_h1 if no order is shorter.
return { name = "zb_1p", chunks = 1, exact_chunks = true,
  summary = "zero bubble with the activations of 1F1B, ordered by the units' times (ZB-1p)",
  source = "Qi et al. 2023, section 3 (arXiv 2401.10241)",
  activations = function(_, p) return p.pp end }
