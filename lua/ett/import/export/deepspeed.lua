--- Exports a plan as DeepSpeed's configuration (JSON): batches, precision, ZeRO, clipping, checkpoints.
local json = require "ett.json"
local plan_fields = require "ett.plan.fields"

local deepspeed = {}

--- Bytes of a parameter's master weight. fp32 without ZeRO has none (engine.py: _do_optimizer_sanity_check). ZeRO
--- copies weights of any type (zero/stage_1_and_2.py: single_partition_of_fp32_groups).
function deepspeed.master_bytes(p) return p.dtype == "fp32" and p.zero == 0 and 0 or 4 end

--- Numbers of a message (zero/config.py: reduce_bucket_size).
deepspeed.bucket_numbers = 500000000

--- Whether gradients are all-reduced. Stages 1 and 2 all-reduce whole buckets, with reduce_scatter, too
--- (zero/stage_1_and_2.py: average_tensor; DeepSpeed#5758).
function deepspeed.all_reduces(zero) return zero == 1 or zero == 2 end

--- Sets the fields of a pipeline's sends: they block (pipe/p2p.py: send without async_op), and tensor ranks split
--- activations (pipe/engine.py: is_pipe_partitioned).
---@param given table fields that override those of the plan
function deepspeed.set_sends(p, given)
  p.serial_sends = true
  local tp, splits = given.tp or p.tp or 1, given.sequence_parallel
  if splits == nil then splits = p.sequence_parallel end
  if tp > 1 and not splits then p.scatter_sends = true end
end

deepspeed.states = "gradient_all_reduce offload_gradients offload_optimizer offload_weights reduce_dtype "
  .. "scatter_sends serial_sends shard"

-- Types of weights in DeepSpeed.
local own_types = { bf16 = true, fp16 = true, fp32 = true }

--- The type of summed gradients. Without ZeRO it is that of the weights (engine.py: _do_optimizer_sanity_check;
--- DeepSpeed#7515, #7790).
local function sum_type(p, leave_out)
  if p.zero > 0 or not own_types[p.dtype] then return p.gradient_dtype end
  if p.gradient_dtype ~= p.dtype then
    leave_out("gradient_dtype = '%s': without ZeRO, DeepSpeed adds up gradients in the type of the weights",
      p.gradient_dtype)
  end
  if p.dtype == "bf16" and p.pp > 1 then
    leave_out "zero = 0: DeepSpeed's pipelines shard the optimizer states of bf16"
  elseif p.dtype == "bf16" then
    leave_out "zero = 0 in bf16: DeepSpeed before #7515 (2025) refuses sums in bf16"
  end
  return p.dtype
end

function deepspeed.write(_, p, leave_out)
  local message = p.reduce_dtype or p.gradient_dtype
  local config = {
    train_batch_size = p.global_batch, train_micro_batch_size_per_gpu = p.micro_batch,
    gradient_accumulation_steps = p.micro_batches, gradient_clipping = p.clip_gradients and 1.0 or 0.0,
    bf16 = { enabled = p.dtype == "bf16" }, fp16 = { enabled = p.dtype == "fp16" },
    data_types = { grad_accum_dtype = sum_type(p, leave_out) },
    communication_data_type = p.cp == 1 and message ~= p.dtype and message or nil,
    seq_parallel_communication_data_type = p.cp > 1 and message ~= "fp32" and message or nil,
    zero_optimization = { stage = p.zero, overlap_comm = p.overlap_gradients and p.pp == 1,
      contiguous_gradients = true,
      reduce_scatter = not (p.zero == 3 and p.gradient_all_reduce),
      reduce_bucket_size = math.floor(p.bucket_bytes / (message == "fp32" and 4 or 2)),
      allgather_bucket_size = math.floor(p.bucket_bytes / 2) },
  }
  if p.recompute ~= "none" then
    config.activation_checkpointing = { partition_activations = false, contiguous_memory_optimization = false }
  end
  if p.shard and p.shard < p.dp * p.cp then
    if p.zero == 3 then
      config.zero_optimization.mics_shard_size = p.shard
    else
      leave_out("shard = %d: DeepSpeed's MiCS is for stage 3", p.shard)
    end
  end
  -- zero/offload_config.py: offload_param has no ratio, and that of the optimizer is for stage 3.
  if p.offload_optimizer > 0 then
    config.zero_optimization.offload_optimizer = { device = "cpu", ratio = p.zero == 3 and p.offload_optimizer or nil }
  end
  if deepspeed.all_reduces(p.zero) and not p.gradient_all_reduce then
    leave_out("gradient_all_reduce = false: DeepSpeed all-reduces gradients at stage %d", p.zero)
  end
  if p.zero < 3 and p.offload_optimizer % 1 > 0 then
    leave_out("offload_optimizer = %g: before stage 3 DeepSpeed moves all states or none", p.offload_optimizer)
  end
  if p.offload_weights > 0 then config.zero_optimization.offload_param = { device = "cpu" } end
  if p.offload_weights % 1 > 0 then
    leave_out("offload_weights = %g: DeepSpeed moves all weights or none", p.offload_weights)
  end
  if p.offload_gradients ~= (p.zero > 1 and p.offload_optimizer or 0) then
    leave_out("offload_gradients = %g: DeepSpeed moves gradients with the optimizer's states, from stage 2 on",
      p.offload_gradients)
  end
  if p.overlap_gradients and p.pp > 1 then -- PipelineEngine: enable_backward_allreduce
    leave_out "overlap_gradients: DeepSpeed's pipelines reduce gradients after the last backward pass"
  end
  if (p.zero == 3) ~= (p.overlap_parameters or false) and (p.zero < 3 or p.overlap_gradients) then
    leave_out("overlap_parameters = %s: DeepSpeed gathers weights during computing at stage 3 only",
      p.overlap_parameters)
  end
  local usual = deepspeed.master_bytes(p) + 8
  if p.optimizer_bytes ~= usual then
    leave_out("optimizer_bytes = %g: DeepSpeed's Adam has %d", p.optimizer_bytes, usual)
  end
  local degrees = {}
  for _, name in ipairs { "seq", "tp", "pp", "cp", "ep" } do
    if p[name] > 1 then degrees[#degrees + 1] = ("%s = %d"):format(name, p[name]) end
  end
  if #degrees > 0 then
    leave_out("%s: set by the training script, not by DeepSpeed's configuration", table.concat(degrees, ", "))
  end
  if p.pp > 1 and p.zero > 1 then
    leave_out("zero = %d with pp = %d: DeepSpeed's pipelines allow at most stage 1", p.zero, p.pp)
  end
  if p.pp > 1 and not plan_fields.sends_of(p, "serial_sends") then
    leave_out "serial_sends = false: DeepSpeed's stages compute nothing while they send"
  end
  if p.pp > 1 and p.schedule ~= "1f1b" then leave_out("schedule = '%s': DeepSpeed runs 1f1b", p.schedule) end
  if p.recompute ~= "none" then
    leave_out("recompute = '%s': the training script chooses the checkpointed layers", p.recompute)
  end
  if not own_types[p.dtype] then leave_out("dtype = '%s'", p.dtype) end
  return json.encode(config, { indent = 2 }) .. "\n"
end

return deepspeed
