--- MosaicML's llm-foundry: FSDP through Composer.
return {
  name = "llm_foundry",
  summary = "MosaicML's llm-foundry: FSDP through Composer",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  compared = "ampere hopper",
  overlaps_tensor = false, pipeline_schedules = "none", -- Composer: parallelism_config has fsdp and tp
  overlap_gradients = true, overlap_parameters = true, -- PyTorch FSDP
  zero_stages = "0 3", -- as in fsdp_eager.lua
  -- loss_fn: fused_crossentropy (llmfoundry/models/mpt/modeling_mpt.py).
  attention = "flash2", norm = "torch", cross_entropy = "composer", launch_seconds = 4e-05,
  gathers_slow = true, stops_early = true, master_shards = true,
  whole_ends = true, -- as fsdp_eager
  communication_share = 0.329,
}
