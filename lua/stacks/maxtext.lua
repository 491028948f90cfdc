--- MaxText and paxml: XLA compiles the whole step.
return {
  name = "maxtext",
  summary = "MaxText and paxml: XLA compiles the whole step",
  source = "assumed",
  compared = "tpu", -- on A100 and H100, JAX-Toolbox's steps are 9 to 11 % too fast
  attention = "splash", norm = "compiled", cross_entropy = "compiled", graphs = true, launch_seconds = 0.0,
  runs_on_tpus = true,
  -- MaxText's pipelines are loops in which all stages compute at once, bubbles included (layers/pipeline.py); their
  -- backward pass reverses the loop. No schedule here is alike.
  pipeline_schedules = "none",
  overlap_gradients = true, overlap_parameters = true, -- XLA's latency-hiding scheduler
  communication_share = 0.329, -- on GPUs: XLA runs NCCL's kernels, as the other stacks
  grouped_tile = 512, -- Megablox: tiles_m + num_groups - 1 tiles; MaxText's wi_tile_fwd_batch_seq and similar options
  separate_gates = true, -- layers/moe.py, sparse_matmul: layer_w0 and layer_w1
  repeats_tokens = true, -- layers/moe.py, permute; AI-Hypercomputer/maxtext#4913
  joins_heads = true, -- layers/attention_mla.py: split and concatenate
  gathers_biases = true, -- layers/moe.py, transform_bias
  one_hot_experts = "sequence", -- layers/moe.py, dense_matmul with a capacity_factor: einsums with masks BSEC
  splits_stream = true, -- configs/base.yml, logical_axis_rules: activation_embed over tensor (000e935, 003b416)
  discards_attention = true, -- JAX's policies store what they name, and recompute all else
  stops_early = true, -- XLA removes the unused operations of a recomputed layer
  master_shards = true, -- weight_dtype: float32
  gathers_tensors = true, -- XLA: an all-gather and a reduce-scatter of each weight
  -- Assumed: XLA plans a program's memory; no CUDA context, and collective buffers are part of the temporaries.
  context_bytes = 0, communicator_bytes = 0, workspace_bytes = 0, allocator_share = 0.02,
}
