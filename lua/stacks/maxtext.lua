--- MaxText and paxml: XLA compiles the whole step.
return {
  name = "maxtext",
  summary = "MaxText and paxml: XLA compiles the whole step",
  source = "assumed",
  attention = "cudnn", norm = "compiled", cross_entropy = "compiled", graphs = true, launch_seconds = 0.0,
}
