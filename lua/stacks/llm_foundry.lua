--- MosaicML's llm-foundry: FSDP through Composer.
return {
  name = "llm_foundry",
  summary = "MosaicML's llm-foundry: FSDP through Composer",
  source = "host costs fitted on published steps (ACCURACY.md), kernels assumed",
  overlaps_tensor = false,
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 4e-05,
  sharded = true, stops_early = true,
  communication_share = 0.319,
}
