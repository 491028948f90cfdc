--- A plan from DeepSpeed's configuration (docs/_pages/config-json.md, deepspeed/runtime/zero/config.py). Sequence and
--- parallel degrees are not in it.
local dtype_bytes = require("ett.base.schema").dtype_bytes

--- Two of the three numbers of a batch and the replicas give the rest.
local function set_batches(p, config, given)
  p.micro_batch = given.micro_batch or config("", "train_micro_batch_size_per_gpu")
  p.micro_batches = given.micro_batches or config("", "gradient_accumulation_steps")
  local whole = given.global_batch or config("", "train_batch_size")
  local each = (p.micro_batch or 1) * (p.micro_batches or 1)
  p.dp = given.dp or whole and p.micro_batch and whole % each == 0 and whole // each or nil
  if whole and not given.micro_batches and (given.global_batch or not p.micro_batches or given.dp) then
    p.global_batch, p.micro_batches = whole, nil
  end
end

local function offloaded(config, name, note)
  local given = config("zero_optimization", name, {})
  if (given.device or "none") == "none" then return nil end
  if given.device ~= "cpu" then note("%s to %s is modelled as to the host's memory", name, tostring(given.device)) end
  return tonumber(given.ratio) or 1
end

---@param config fun(section: string, name: string, default: any?): any
return function(config, given, _, note)
  local p = { zero = config("zero_optimization", "stage", 0), clip_gradients = config("", "gradient_clipping", 0) > 0 }
  p.dtype = config("fp16", "enabled", false) and "fp16" or config("bf16", "enabled", false) and "bf16" or "fp32"
  p.gradient_dtype = config("data_types", "grad_accum_dtype", p.dtype)
  set_batches(p, config, given)
  local overlaps = config("zero_optimization", "overlap_comm", p.zero == 3)
  p.overlap_gradients = overlaps
  if p.zero == 3 then p.overlap_parameters = overlaps end
  p.bucket_bytes = config("zero_optimization", "reduce_bucket_size", 500000000) * (dtype_bytes[p.gradient_dtype] or 2)
  if p.zero > 0 then p.offload_optimizer = offloaded(config, "offload_optimizer", note) end
  if p.zero == 3 then p.offload_weights = offloaded(config, "offload_param", note) end
  if not given.stack then
    note "the file does not name the training program; stack=transformers or stack=megatron_deepspeed adds its costs"
  end
  return p
end
