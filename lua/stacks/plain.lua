--- Ett's default: fused kernels, no launch cost.
return {
  name = "plain",
  summary = "ett's default: fused kernels, no launch cost",
  source = "assumed",
  attention = "cudnn", norm = "fused", cross_entropy = "fused", graphs = true, launch_seconds = 0.0,
  runs_on_tpus = true,
}
