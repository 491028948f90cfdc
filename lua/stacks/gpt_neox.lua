--- GPT-NeoX with DeepSpeed.
return {
  name = "gpt_neox",
  summary = "GPT-NeoX with DeepSpeed",
  source = "assumed",
  assumed = true,
  overlaps_tensor = false,
  attention = "flash2", norm = "torch", cross_entropy = "torch", launch_seconds = 60e-6,
  keeps_outputs = true, workspace_bytes = 1.03e9, -- as in megatron_deepspeed.lua
}
