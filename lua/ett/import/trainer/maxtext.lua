--- A plan from MaxText's fields. Defaults are those of src/MaxText/configs/base.yml (003b416).
local check_product = require "ett.import.trainer.product"
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"
local meaning = require "ett.import.trainer.meaning"
local remat = require "ett.import.trainer.remat"

-- Axes of the mesh, and the plan's field that counts their ranks. Expert ranks also split the batch and the weights
-- outside experts (expert_shard_attention_option: fsdp).
local axes = { data = "dp", fsdp = "dp", fsdp_transpose = "dp", expert = "dp", tensor = "tp", tensor_transpose = "tp",
  tensor_sequence = "tp", context = "cp", sequence = "cp", pipeline = "pp" }

--- Ranks of each axis in all slices. -1 takes what is left: dp, tp or cp must be given for it, and one slice is assumed
--- for that of dcn.
local function mesh(config, given)
  local size, open, counted, all = {}, nil, { dp = 1, tp = 1, cp = 1, pp = 1 }, {}
  for _, axis in ipairs(schema.keys(axes)) do
    size[axis] = 1
    for _, net in ipairs { "ici", "dcn" } do
      local name = ("%s_%s_parallelism"):format(net, axis)
      local value = config("", name, 0)
      if value == 0 then value = (name == "ici_fsdp_parallelism" or name == "dcn_data_parallelism") and -1 or 1 end
      if value > 0 then
        all[name] = value
        size[axis] = size[axis] * value
      elseif net == "ici" then
        if open then
          error_module.raise("format", "%s = -1: %s is -1 already, and only one axis of ici may be -1", name, open.name)
        end
        open = { axis = axis, name = name }
      end
    end
    counted[axes[axis]] = counted[axes[axis]] * size[axis]
  end
  check_product(all)
  if not open then return size end
  local field = axes[open.axis]
  local ranks = given[field]
  if not ranks then
    error_module.raise("format", "%s = -1 takes the devices that are left; give %s=N%s", open.name, field,
      field == "dp" and ", or --devices N to `ett search`" or "")
  elseif ranks % counted[field] ~= 0 then
    error_module.raise("format", "%s = %d must be a multiple of the other axes' %d", field, ranks, counted[field])
  end
  size[open.axis] = size[open.axis] * (ranks // counted[field])
  return size
end

local types = { bfloat16 = "bf16", float32 = "fp32", float16 = "fp16" }
local quantised = { fp8 = "fp8", fp8_full = "fp8", nanoo_fp8 = "fp8", te_fp8_delayedscaling = "fp8",
  te_fp8_currentscaling = "fp8", te_mxfp8 = "mxfp8" }

--- Names the sizes, the precision and the slices that the file leaves to MaxText's defaults.
local function add_missing(config, given, assume)
  local function is_absent(name, default) return select(3, config("", name, default)) end
  if not given.seq and is_absent "max_target_length" then assume "max_target_length (2048)" end
  if not given.micro_batch and is_absent("per_device_batch_size", 12.0) then assume "per_device_batch_size (12)" end
  if not given.dtype and is_absent("dtype", "") and config("", "quantization", "") == "" then
    assume "dtype (bfloat16)"
  end
  if not given.dp and config("", "dcn_data_parallelism", -1) < 0 then assume "dcn_data_parallelism (one slice)" end
end

local function stack_of(config)
  return "maxtext" .. (config("", "use_tokamax_splash", false) and ":attention=tokamax" or "")
    .. (config("", "use_iota_embed", false) and ":one_hot_embedding" or "") -- layers/embeddings.py
end

return function(config, given, model, note, assume)
  local size = mesh(config, given)
  if size.pipeline > 1 then
    error_module.raise("format", "MaxText's pipelines are not modelled: ici_pipeline_parallelism and "
      .. "dcn_pipeline_parallelism must be 1, their product is %d", size.pipeline)
  end
  local p = { seq = config("", "max_target_length", 2048), pp = 1, ep = size.expert,
    stack = stack_of(config),
    tp = size.tensor * size.tensor_transpose * size.tensor_sequence, cp = size.context * size.sequence,
    dp = given.dp or size.data * size.fsdp * size.fsdp_transpose * size.expert,
    micro_batches = config("", "gradient_accumulation_steps", 1) }
  if model.hyper.experts then p.etp = p.tp end -- splits experts as it splits dense products
  local batch = config("", "per_device_batch_size", 12.0) * (given.tp or p.tp) * (given.cp or p.cp)
  p.micro_batch = given.micro_batch or math.tointeger(batch)
  if not p.micro_batch then
    error_module.raise("format", "per_device_batch_size: each of the %d replicas gets %g sequences, not a whole "
      .. "number; give micro_batch=N", p.dp, batch)
  end
  local shards = size.fsdp * size.fsdp_transpose * size.expert * p.cp
  p.zero = shards > 1 and 3 or 0
  if p.zero == 3 then
    p.overlap_parameters, p.gradient_dtype = true, "bf16" -- of the weights that the step casts
    if shards < p.dp * p.cp then p.shard = shards end
  end
  p.overlap_gradients = p.dp > 1
  local quantization = config("", "quantization", "")
  p.dtype = meaning("dtype", types, config("", "dtype", "bfloat16"))
  if quantization ~= "" then p.dtype = meaning("quantization", quantised, quantization) end
  if meaning("weight_dtype", types, config("", "weight_dtype", "float32")) ~= "fp32" then
    p.optimizer_bytes = p.zero == 3 and 6 or 4 -- a shard of the weight, and two moments
  end
  local optimizer = config("", "opt_type", "adamw")
  if not optimizer:find "^adam" then note("opt_type = %s is modelled as adamw", optimizer) end
  if config("", "optimizer_memory_host_offload", false) then p.offload_optimizer = 1 end
  local capacity, sparse = config("", "capacity_factor", -1.0), config("", "sparse_matmul", true)
  local dense = model.hyper.experts and not sparse -- layers/moe.py, dense_matmul
  if model.hyper.experts and capacity > 0 then
    p.capacity_factor, p.pad_to_capacity = capacity, dense or nil
  elseif dense then
    note("sparse_matmul = False without capacity_factor is modelled as True; MaxText computes every expert for each "
      .. "token")
  end
  add_missing(config, given, assume)
  remat.set(p, config, model.hyper, note, given.recompute ~= nil)
  return p
end
