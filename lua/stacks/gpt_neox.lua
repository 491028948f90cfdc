--- GPT-NeoX with DeepSpeed.
return {
  name = "gpt_neox",
  summary = "GPT-NeoX with DeepSpeed",
  source = "assumed",
  overlaps_tensor = false,
  overlaps_pipelines = false, overlapped_gathers = "3", -- this and the next line as in megatron_deepspeed.lua
  serial_sends = true, scatter_sends = true,
  pipeline_zero_stages = "0 1", pipeline_schedules = "1f1b",
  attention = "flash2", norm = "composite", cross_entropy = "torch", launch_seconds = 60e-6,
  -- rope: samples on Perlmutter's A100 take 7.6 times as long as one kernel (rotary_positional_embedding: products, a
  -- concatenation and sums). Its RMS norm also consists of single operators; it takes 12 % longer than `composite`.
  rope = 7.6,
  keeps_outputs = true, workspace_bytes = 1.03e9, -- as in megatron_deepspeed.lua
}
