--- A trainer on processors: no driver context, no buffers of NCCL, no workspaces of GPU libraries. Times are those of
--- `plain`. `ett cluster init` names it in clusters of processors.
return {
  name = "cpu",
  summary = "a trainer on processors: no context of a driver, no buffers of NCCL",
  source = "assumed",
  attention = "cudnn", norm = "fused", cross_entropy = "fused", mamba = "separate", graphs = true, launch_seconds = 0.0,
  context_bytes = 0, communicator_bytes = 0, workspace_bytes = 0,
}
