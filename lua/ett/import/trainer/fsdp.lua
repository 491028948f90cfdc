--- PyTorch FSDP in the files of Accelerate, Transformers and Axolotl (accelerate/utils/dataclasses.py:
--- FullyShardedDataParallelPlugin).
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

-- Sharding strategies by name and by number; the values are those of zero, reshard and whether nodes are replicas.
local strategies = { FULL_SHARD = { 3, true, false }, SHARD_GRAD_OP = { 3, false, false },
  NO_SHARD = { 0, true, false }, HYBRID_SHARD = { 3, true, true }, HYBRID_SHARD_ZERO2 = { 3, false, true } }
local numbers = { "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2" }

--- Sets the fields of a plan.
---@param option fun(name: string, default: any, other: string?): any reads a field without the prefix fsdp_
---@param given table plan fields that override the file
---@param node integer? devices of a node
return function(p, option, given, node, note)
  local two = option("version", 1) == 2
  local name = tostring(option("sharding_strategy", "FULL_SHARD", "number")):upper()
  name = numbers[tonumber(name)] or name
  local reshard = option("reshard_after_forward", true, "string")
  if type(reshard) == "string" then -- FSDP 1 has names of strategies here, too
    if strategies[reshard:upper()] then name = reshard:upper() end
    reshard = reshard:lower() ~= "false"
  end
  local strategy = strategies[name]
  if not strategy then
    error_module.raise("format", "fsdp_sharding_strategy: %s",
      error_module.unknown("value", name, schema.keys(strategies)))
  end
  p.zero, p.reshard = strategy[1], strategy[2]
  if two then p.reshard = reshard end
  if given.zero then p.zero = given.zero end
  if strategy[3] and not given.shard then
    p.shard = node
    if not node then note("%s shards inside a node: give shard=N, the devices of one", name) end
  end
  if p.zero == 3 and option("offload_params", false) then
    p.offload_gradients, p.offload_optimizer, p.offload_weights = 1, 1, 1
  end
  if option("activation_checkpointing", false) and not given.recompute then p.recompute = "full" end
  local prefetch, policy = option("backward_prefetch", "BACKWARD_PRE"), option("auto_wrap_policy",
    "TRANSFORMER_BASED_WRAP")
  if prefetch ~= "BACKWARD_PRE" and not two then
    note("fsdp_backward_prefetch = %s is modelled as BACKWARD_PRE", prefetch)
  end
  if policy == "NO_WRAP" or policy == "SIZE_BASED_WRAP" then
    note("fsdp_auto_wrap_policy = %s is modelled as TRANSFORMER_BASED_WRAP: one message for each layer", policy)
  end
  p.overlap_gradients = true
  if p.zero == 3 then p.overlap_parameters = true end
  if p.zero > 0 and (p.dtype == "bf16" or p.dtype == "fp16") then p.gradient_dtype = p.dtype end -- of messages
  p.stack = "transformers_fsdp" .. (p.zero == 0 and ":copies_gradients=false" or "") -- no DDP
end
