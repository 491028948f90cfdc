--- Hugging Face's Transformers under PyTorch FSDP through Accelerate.
return {
  name = "transformers_fsdp", base = "transformers",
  summary = "Hugging Face's Transformers under PyTorch FSDP through Accelerate",
  source = "as transformers; accelerator.py, accumulate and no_sync",
  zero_stages = "0 3",
  gather_seconds = 0, -- weights of a layer are one message
  overlap_gradients = true, overlap_parameters = true, overlapped_gathers = "1 2 3", -- as fsdp_eager
  master_shards = true, -- Accelerate casts trained weights to fp32 before it shards them (fsdp_utils.py)
  -- All micro-batches but the last run under no_sync, unless sync_each_batch (huggingface/accelerate#2531).
  defers_gradients = true,
  copies_gradients = false, -- NO_SHARD reduces the flat gradient in place (_runtime_utils.py, _reduce_grad_no_shard)
  frees_gradients = true, -- optimizer.py, zero_grad: set_to_none
  whole_ends = true, -- as fsdp_eager: the wrapped modules are layers
}
