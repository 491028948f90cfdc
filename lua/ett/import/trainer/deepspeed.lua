--- A plan from DeepSpeed's configuration (docs/_pages/config-json.md, deepspeed/runtime/zero/config.py, engine.py).
--- The length of sequences and the pipeline's degree are not in it.
local dtype_bytes = require("ett.base.schema").dtype_bytes
local error_module = require "ett.base.error"
local export = require "ett.import.export.deepspeed"

--- Two of the three numbers of a batch and the replicas give the rest. As in DeepSpeed, a missing number of steps is 1
--- where the others leave it open. "auto" is left to the program.
local function set_batches(p, config, given, assume)
  local micro, micro_open = config("", "train_micro_batch_size_per_gpu")
  local steps, steps_open = config("", "gradient_accumulation_steps")
  local stated, stated_open = config("", "train_batch_size")
  local whole = given.global_batch or stated
  micro, steps = given.micro_batch or micro, given.micro_batches or steps
  local each = 1.0 * (micro or 1) * (steps or 1)
  p.dp = given.dp or whole and micro and whole % each == 0 and math.tointeger(whole // each) or nil
  if not steps and not steps_open and (not whole or stated and not micro) and (micro or stated) then
    steps = 1
    assume "gradient_accumulation_steps (1)"
  end
  if stated and steps and not (micro or micro_open) then
    local parts = 1.0 * (p.dp or 1) * steps
    if whole % parts ~= 0 then
      error_module.raise("format", "a batch of %g sequences must be a multiple of gradient_accumulation_steps * dp "
        .. "= %g", whole, parts)
    end
    micro = math.tointeger(whole // parts)
  end
  p.micro_batch, p.micro_batches = micro, steps
  if not micro then assume("train_micro_batch_size_per_gpu (%s)", micro_open and "'auto': 1" or "1") end
  if not p.dp then assume "the number of devices (dp = 1: give dp=N)" end
  if whole and not given.micro_batches and (given.global_batch or not steps or given.dp) then
    p.global_batch, p.micro_batches = whole, nil
  end
  if not (p.micro_batches or p.global_batch) and (steps_open or stated_open) then
    error_module.raise("format", "%s is 'auto': give micro_batches=N or global_batch=N",
      steps_open and "gradient_accumulation_steps" or "train_batch_size")
  end
end

-- `share`: whether DeepSpeed reads the section's ratio. It does for the optimizer at stage 3 (zero/offload_config.py).
-- `older`: the switch of older releases (zero/config.py: cpu_offload is deprecated).
local function offloaded(config, name, older, note, share)
  local given = config("zero_optimization", name, {})
  if config("zero_optimization", older, false) and next(given) == nil then return 1 end
  if (given.device or "none") == "none" then return nil end
  if given.device ~= "cpu" then
    note("%s to %s is modelled as offloading to the host's memory", name, tostring(given.device))
  end
  return share and tonumber(given.ratio) or 1
end

--- Tensor ranks (AutoTP), ranks that share a sequence (Ulysses) and expert ranks (AutoEP,
--- module_inject/auto_ep_config.py). 0 and 1 switch them off.
local function set_degrees(p, config, given)
  local tensor, sequence = config("tensor_parallel", "autotp_size", 0), config("", "sequence_parallel_size", 0)
  if tensor ~= 0 then p.tp = given.tp or tensor end
  if sequence ~= 0 then p.cp = given.cp or sequence end
  local experts = config("expert_parallel", "autoep_size", 1)
  if config("expert_parallel", "enabled", false) then p.ep = given.ep or experts end
  if sequence ~= 0 and p.cp > 1 then p.cp_method = given.cp_method or "ulysses" end
end

-- Types of weights whose gradients have the same type.
local own_gradients = { fp16 = true, fp32 = true }

--- Types of weights, of summed gradients (engine.py: get_data_types) and of messages (communication_data_type; of ranks
--- that share a sequence, config.py: seq_parallel_communication_data_type).
local function set_precision(p, config, given, note, assume)
  local fp16, fp16_open, no_fp16 = config("fp16", "enabled", false)
  local older, older_open, no_older = config("bfloat16", "enabled", false)
  local bf16, bf16_open, no_bf16 = config("bf16", "enabled", older)
  p.dtype = given.dtype or fp16 and "fp16" or bf16 and "bf16" or "fp32"
  if not given.dtype and p.dtype == "fp32" and (fp16_open or bf16_open or older_open) then
    note "the program chooses the data type ('auto'): fp32 is assumed; dtype=bf16 replaces it"
  end
  if not given.dtype and no_fp16 and no_older and no_bf16 then
    assume "fp16 and bf16 (fp32; dtype=bf16 replaces it)"
  end
  local own = own_gradients[p.dtype] and p.dtype or "bf16"
  local sums = config("data_types", "grad_accum_dtype", own)
  p.gradient_dtype = given.gradient_dtype or sums
  local whole, split = config("", "communication_data_type", own),
    config("", "seq_parallel_communication_data_type", "fp32")
  local message = (given.cp or config("", "sequence_parallel_size", 0)) > 1 and split or whole
  if message ~= p.gradient_dtype then p.reduce_dtype = message end
end

--- Whether BF16_Optimizer shards the states of a run without ZeRO (engine.py: _do_optimizer_sanity_check). Pipelines
--- have it. Up to DeepSpeed#7515 all runs in bf16 had it, with sums in fp32.
local function shards_anyway(p, given, note)
  if p.zero ~= 0 or given.zero then return false end
  local own, pipelined = own_gradients[p.dtype] and p.dtype or "bf16", (given.pp or 1) > 1
  if own == "bf16" and p.gradient_dtype == "fp32" then
    note "without ZeRO, fp32 sums of bf16 come with sharded states (zero=1); DeepSpeed since #7790 (2026) refuses them"
    return true
  elseif own == "bf16" and pipelined then
    note "DeepSpeed's pipelines in bf16 shard the optimizer states without ZeRO, too (zero=1)"
    return true
  elseif own == "bf16" then
    note "DeepSpeed before #7515 (2025) shards these states, with fp32 sums: zero=1 gradient_dtype=fp32"
  elseif p.gradient_dtype ~= own then
    note("DeepSpeed without ZeRO refuses grad_accum_dtype = %s with weights in %s", p.gradient_dtype, own)
  end
  return false
end

--- Settings that change the rule of the stages: stage 3 all-reduces without reduce_scatter (stage3.py:
--- __reduce_and_partition_ipg_grads); stages 1 and 2 may reduce to each rank, but for BF16_Optimizer.
local function set_reduction(p, config, given, note)
  local scatters = config("zero_optimization", "reduce_scatter", true)
  local by_rank = not config("zero_optimization", "use_multi_rank_bucket_allreduce", true)
  local bf16_optimizer = shards_anyway(p, given, note)
  if bf16_optimizer then p.zero = 1 end
  bf16_optimizer = bf16_optimizer or p.zero == 1 and p.gradient_dtype == "fp32" and not own_gradients[p.dtype]
    and not p.offload_optimizer
  p.gradient_all_reduce = export.all_reduces(p.zero)
  if p.zero == 3 then
    p.gradient_all_reduce = not scatters and config("zero_optimization", "contiguous_gradients", true)
  elseif p.gradient_all_reduce and by_rank and scatters and not bf16_optimizer then
    p.gradient_all_reduce = false
    note "use_multi_rank_bucket_allreduce = false: a reduction to each rank is modelled as a reduce_scatter"
  end
end

--- Shards over fewer ranks than the data-parallel group, at stage 3 (engine.py, _configure_zero_optimizer).
local function set_shard(p, config, note)
  local shard = config("zero_optimization", "mics_shard_size", -1)
  local hierarchical = config("zero_optimization", "mics_hierarchical_params_gather", false)
  if shard <= 0 then return end
  if p.zero ~= 3 then return note("mics_shard_size = %s has no effect at stage %d", tostring(shard), p.zero) end
  p.shard = shard
  if hierarchical then note "mics_hierarchical_params_gather is modelled as a gather by the cluster's collectives" end
end

-- Optimizers with one state of fp32 beside the master weight; others have Adam's two.
local one_state = { adagrad = true, lion = true, sgd = true }

-- Optimizers that exchange signs of momenta after a warm-up, instead of gradients (deepspeed/runtime/fp16/onebit).
local compressed = { onebitadam = true, onebitlamb = true, zerooneadam = true }

local function set_states(p, config, note)
  local name = config("optimizer", "type", "Adam"):lower()
  if name == "muon" then
    p.optimizer = "muon"
  elseif not (one_state[name] or name:find "adam" or name:find "lamb") then
    note("optimizer.type = %s is modelled as Adam", name)
  elseif compressed[name] then
    note("optimizer.type = %s: its compressed messages are not modelled, gradients are reduced in full", name)
  end
  p.optimizer_bytes = export.master_bytes(p) + (one_state[name] and 4 or 8)
end

return function(config, given, _, note, assume)
  local stage = config("zero_optimization", "stage", 0)
  local clip, clip_open = config("", "gradient_clipping", 0) -- "auto": max_grad_norm of Transformers, by default 1
  local p = { zero = given.zero or stage, clip_gradients = clip > 0 or clip_open == true }
  set_precision(p, config, given, note, assume)
  set_states(p, config, note)
  set_degrees(p, config, given)
  set_shard(p, config, note)
  set_batches(p, config, given, assume)
  local overlaps = config("zero_optimization", "overlap_comm", p.zero == 3)
  -- A pipeline reduces gradients after its last backward pass (PipelineEngine: enable_backward_allreduce).
  local pipelined = (given.pp or 1) > 1
  if pipelined and overlaps then note "overlap_comm: DeepSpeed's pipelines do not overlap reductions" end
  p.overlap_gradients = overlaps and not pipelined
  if pipelined then export.set_sends(p, given) end
  if p.zero == 3 then p.overlap_parameters = overlaps end
  local bucket = config("zero_optimization", "reduce_bucket_size", export.bucket_numbers)
    * (dtype_bytes[p.reduce_dtype or p.gradient_dtype] or 2)
  if p.zero < 3 then p.bucket_bytes = bucket end -- the messages of stage 3 are those of layers
  if p.zero > 0 then p.offload_optimizer = offloaded(config, "offload_optimizer", "cpu_offload", note, p.zero == 3) end
  if p.zero > 1 then p.offload_gradients = p.offload_optimizer end -- stage_1_and_2.py, async_accumulate_grad_in_cpu_…
  if p.zero == 3 then p.offload_weights = offloaded(config, "offload_param", "cpu_offload_param", note) end
  set_reduction(p, config, given, note)
  local checkpoints = config("", "activation_checkpointing", {})
  if checkpoints.cpu_checkpointing == true and given.recompute == "full" then p.offload_activations = 1 end
  if not given.recompute and next(checkpoints) then
    note "the file does not state which layers are recomputed; add recompute=full or policy if the program does"
  end
  if not given.stack then
    note("the file does not name the training program; stack=transformers or stack=megatron_deepspeed adds its costs"
      .. (p.zero == 3 and ", most of the step if experts run in a loop" or ""))
  end
  return p
end
