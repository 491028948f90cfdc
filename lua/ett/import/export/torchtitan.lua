--- Exports a plan as torchtitan's configuration (TOML). The user must choose the model's name and flavor; its
--- hyper-parameters are written as comments.
local pretty = require "ett.base.pretty"

local function toml(value)
  if type(value) == "string" then return ('"%s"'):format(value) end
  if type(value) == "number" then return tostring(math.tointeger(value) or value) end
  return tostring(value)
end

local function section(lines, name, fields)
  lines[#lines + 1] = ("[%s]"):format(name)
  for _, field in ipairs(fields) do
    local value = field[2]
    if value ~= nil then lines[#lines + 1] = ("%s = %s"):format(field[1], field.plain and value or toml(value)) end
  end
  lines[#lines + 1] = ""
end

local torchtitan = {}

--- Schedules of torch.distributed.pipelining by ett's names.
torchtitan.schedules = { gpipe = "GPipe", ["1f1b"] = "1F1B", interleaved = "Interleaved1F1B", zb_v = "ZBVZeroBubble",
  breadth_first = "LoopedBFS", interleaved_zb = "InterleavedZeroBubble", dualpipe_v = "DualPipeV" }

--- Ways to exchange keys and values between context-parallel ranks, by ett's names.
torchtitan.methods = { all_gather = "allgather", ring = "alltoall" }

--- Mode and option of checkpointing. torchtitan has no recomputation of attention's core alone.
local function checkpointing(p, leave_out)
  local mode = p.recompute
  if mode == "selective" then
    leave_out "recompute = 'selective': torchtitan's selective mode is recompute = 'policy', which repeats more"
  end
  if p.recompute_layers and p.recompute_method == "every" then
    return { { "mode", "selective" }, { "selective_ac_option", tostring(p.recompute_layers) } }
  elseif p.recompute_layers then
    leave_out("recompute_method = '%s': torchtitan repeats each N-th layer; exported as full", p.recompute_method)
  elseif p.recompute_layer_ids then
    leave_out "recompute_layer_ids: torchtitan repeats each N-th layer; exported as full"
  end
  local layers = mode == "policy" and not require("ett.operator.stack").get(p.stack).operator_policy
  return { { "mode", mode == "policy" and "selective" or mode },
    { "selective_ac_option", (mode == "policy" or mode == "selective") and (layers and "2" or "op") or nil } }
end

--- The converters of products: nn.Linear and the experts' grouped products have one each.
local function converters(lines, p, has_experts, leave_out)
  local kind = p.dtype == "mxfp8" and "mx" or p.dtype:find "^fp8" and "float8"
  if not kind then return end
  local stack, names = require("ett.operator.stack").get(p.stack), {}
  local which = stack.quantised_products
  if which ~= "experts" then names[1] = ('"quantize.linear.%s"'):format(kind) end
  local grouped = has_experts and which ~= "dense"
  if grouped then names[#names + 1] = ('"quantize.grouped_mm.%s"'):format(kind) end
  section(lines, "model", { { "converters", "[" .. table.concat(names, ", ") .. "]", plain = true } })
  local rows = stack.name:find "^torchtitan" and stack.quantised_gathers == "none"
  if rows and p.dtype == "fp8" and which ~= "experts" then
    section(lines, "quantize.linear.float8", { { "recipe_name", "rowwise" } })
  end
  if not grouped then return end
  section(lines, "quantize.grouped_mm." .. kind, { { "fqns", '["experts"]', plain = true } })
  if kind == "float8" and (p.pp > 1 or p.cp > 1) then -- components/quantization/float8.py: Float8GroupedMMConverter
    leave_out("dtype = '%s': torchtitan's float8 products of experts need pp = 1 and cp = 1", p.dtype)
  end
end

--- Layers and loss are compiled apart: compile.components, by default both. The loss of another software's stack is
--- taken as its layers are.
local function compilation(stack)
  local layers, loss = stack.norm ~= "torch", stack.cross_entropy ~= "torch"
  local apart = layers ~= loss and stack.name:find "^torchtitan" ~= nil
  return { { "enable", layers or apart },
    { "components", apart and (layers and '["model"]' or '["loss"]') or nil, plain = true } }
end

torchtitan.states = "overlap_tensor recompute_layer_ids recompute_layers recompute_method reshard shard split vp"

-- The exchange of context-parallel ranks, or nil without them.
local function context_method(p)
  return p.cp > 1 and require("ett.plan.fields").context_method(p, require("ett.operator.stack").get(p.stack)) or nil
end

-- Whether weights and optimizer states have 16 bits (training.dtype); without FSDP the weights are counted apart.
local function has_narrow_states(p) return p.optimizer_bytes == (p.zero > 0 and 6 or 4) end

-- A pipeline splits the batch of a replica into micro-batches; without a pipeline, gradients are accumulated.
local function training(p)
  local local_batch = p.pp > 1 and p.micro_batch * p.micro_batches or p.micro_batch
  local weights = p.dtype == "fp16" and "float16" or p.dtype == "fp32" and "float32" or "bfloat16"
  return { { "local_batch_size", local_batch }, { "global_batch_size", p.global_batch }, { "seq_len", p.seq },
    { "dtype", has_narrow_states(p) and "bfloat16" or nil },
    { "max_norm", p.clip_gradients and "1.0" or "inf", plain = true },
    { "mixed_precision_param", weights },
    { "mixed_precision_reduce", p.gradient_dtype == "bf16" and "bfloat16" or "float32" } }
end

local function parallelism(p, h)
  local pipelined, sharded = p.pp > 1, p.zero > 0
  local shards = sharded and (p.shard or p.dp * p.cp) or 1 -- including the context-parallel ranks
  return {
    { "data_parallel_replicate_degree", sharded and p.dp * p.cp // shards or p.dp },
    { "data_parallel_shard_degree", sharded and shards // p.cp or 1 },
    { "fsdp_reshard_after_forward", sharded and (p.zero == 3 and p.reshard and "always" or "never") or nil },
    { "tensor_parallel_degree", p.tp }, { "enable_async_tensor_parallel", p.overlap_tensor },
    { "pipeline_parallel_degree", p.pp },
    { "pipeline_parallel_schedule", pipelined and torchtitan.schedules[p.schedule] or nil },
    { "pipeline_parallel_microbatch_size", pipelined and p.micro_batch or nil },
    { "pipeline_parallel_layers_per_stage", p.vp > 1 and h.layers // (p.pp * p.vp) or nil },
    -- By default torchtitan's first and last stage hold a layer less.
    { "pipeline_parallel_first_stage_less_layers", pipelined and 0 or nil },
    { "pipeline_parallel_last_stage_less_layers", pipelined and 0 or nil },
    { "context_parallel_degree", p.cp },
    { "context_parallel_rotate_method", torchtitan.methods[context_method(p)] },
    { "expert_parallel_degree", p.ep },
    { "expert_tensor_parallel_degree", h.experts and (p.etp or p.tp) or nil } }
end

-- Types of weights, gradients and optimizer states that torchtitan lacks.
local function leave_out_types(p, leave_out)
  local usual = p.dtype == "fp32" and 8 or 12 -- two moments, and a master weight
  if not has_narrow_states(p) and p.optimizer_bytes ~= usual then
    leave_out("optimizer_bytes = %g: torchtitan's Adam has %d", p.optimizer_bytes, usual)
  end
  if p.cp > 1 or p.zero > 0 and (p.shard or p.dp) > 1 then return end -- FSDP
  local split = p.tp > 1 or p.pp > 1
  if p.dp > 1 and split then -- parallelize.py: apply_ddp
    leave_out("zero = %d with dp = %d: torchtitan refuses DDP beside tp or pp; zero = 3 shards", p.zero, p.dp)
  end
  local training_dtype = has_narrow_states(p) and "bf16" or "fp32"
  local dtype = p.dtype:find "fp8" and "bf16" or p.dtype -- before the converters of products
  if split and (dtype ~= training_dtype or p.gradient_dtype ~= training_dtype) then
    leave_out("dtype = '%s', gradient_dtype = '%s': torchtitan without FSDP has no mixed precision under tp and pp",
      p.dtype, p.gradient_dtype)
  elseif p.gradient_dtype ~= training_dtype then
    leave_out("gradient_dtype = '%s': torchtitan without FSDP has gradients of training.dtype", p.gradient_dtype)
  end
end

-- Fields of the layout that torchtitan lacks.
local function leave_out_layout(p, leave_out)
  if p.pp > 1 and not torchtitan.schedules[p.schedule] then leave_out("schedule = '%s'", p.schedule) end
  local method = context_method(p)
  if method and not torchtitan.methods[method] then leave_out("cp_method = '%s'", method) end
  if p.dtype == "fp8_block" then leave_out "dtype = 'fp8_block': torchtitan's float8 has no blocks" end
  if p.tp > 1 and not p.sequence_parallel then
    leave_out "sequence_parallel = false: torchtitan's tensor parallelism always has it"
  end
  if p.zero == 0 and p.cp > 1 then leave_out "zero = 0: torchtitan shards the weights over cp ranks" end
  if p.shard and p.shard % p.cp > 0 then leave_out("shard = %d: torchtitan's is a multiple of cp", p.shard) end
  if p.zero == 1 or p.zero == 2 then
    leave_out("zero = %d: torchtitan also shards the weights%s", p.zero,
      p.pp == 1 and ", and gathers them for each micro-batch" or "")
  end
  if p.zero == 3 and not (p.overlap_gradients == (p.pp == 1) and p.overlap_parameters) then
    leave_out("overlap_gradients or overlap_parameters: FSDP overlaps %s",
      p.pp > 1 and "weights, and no gradients of stages" or "both")
  end
  if p.split then leave_out "split" end
end

function torchtitan.write(model, p, leave_out)
  local h, stack = model.hyper, require("ett.operator.stack").get(p.stack)
  local name = pretty.plain(model.name):gsub("\n", " ") -- one line of comment
  local lines = { ("# %s: %d layers, width %d, %d heads (%d of keys and values), MLP %d, vocabulary %d"):format(name,
    h.layers, h.hidden, h.heads, h.kv_heads, h.ffn or 4 * h.hidden, h.vocab) }
  section(lines, "training", training(p))
  leave_out_types(p, leave_out)
  section(lines, "parallelism", parallelism(p, h))
  section(lines, "activation_checkpoint", checkpointing(p, leave_out))
  section(lines, "compile", compilation(stack))
  if stack.update == "foreach" then section(lines, "optimizer", { { "implementation", "foreach" } }) end
  converters(lines, p, h.experts ~= nil, leave_out)
  leave_out_layout(p, leave_out)
  return lines
end

return torchtitan
