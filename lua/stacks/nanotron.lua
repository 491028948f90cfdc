--- nanotron without compilation: eager PyTorch with its own pipeline stages and ZeRO-1.
return {
  name = "nanotron", base = "fsdp_eager",
  summary = "nanotron",
  source = "as fsdp_eager; models/llama.py, optim and parallel of nanotron",
  zero_stages = "0 1", pipeline_schedules = "1f1b gpipe", -- optim/zero.py; pipeline_parallel/engine.py
  overlap_parameters = false, overlapped_gathers = "3", -- optim/zero.py, step: all_gather_params follows the update
  master_shards = false, whole_stages = false,
  -- models/llama.py: TritonRMSNorm and flash-attn's rotation; GLUActivation and sharded_cross_entropy consist of
  -- single operators.
  norm = "fused", rope = 1.0, separate_projections = false, -- qkv_proj, gate_up_proj
  keeps_outputs = false, -- pipeline_parallel/functional.py: SendTensorToPipelineBuffer saves no tensor
  -- optim/gradient_accumulator.py: FP32GradientAccumulator adds 16-bit gradients to those in fp32 after the backward
  -- pass; under ZeRO-0 they also stay in buckets of DistributedDataParallel.
  keeps_gradients = true,
}
