--- MosaicML's llm-foundry: FSDP through Composer.
return {
  name = "llm_foundry",
  summary = "MosaicML's llm-foundry: FSDP through Composer",
  source = "assumed",
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 30e-6, slowdown = 1.1,
}
