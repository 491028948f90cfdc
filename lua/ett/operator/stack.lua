--- Stacks: the software that runs a step, one file each in lua/stacks, found by name.
--
--   local stack = require("ett.operator.stack").get "megatron"
--   local graphed = require("ett.operator.stack").get "megatron:graphs:attention=flash2" -- with fields of its own
--
-- A stack names the kernels of attention, norms and loss, the overlaps, and the host time of launches.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local options = require "ett.base.options"
local schema = require "ett.base.schema"

local stack_module = {}

--- The kernels that a stack may name for attention, norms and cross entropy.
stack_module.attention = { "cudnn", "flash4", "flash3", "flash2", "flash1", "flash1_triton" }
stack_module.norm = { "fused", "fused_fp32", "cudnn", "compiled", "torch", "composite" }
stack_module.cross_entropy = { "fused", "compiled", "native", "torch", "composer", "megatron" }
stack_module.merge = { "te", "torch" }
--- Functions of Mamba layers: one for the convolution and one for the scan, one for both, or one that also spans the
--- norm and the output projection.
stack_module.mamba = { "separate", "joint", "whole" }
--- Where quantised weights stay allocated: nowhere, beside the 16-bit weights, in their place, or in their place
--- without transposed copies.
stack_module.quantised_weights = { "none", "beside", "only", "single" }
--- Which products run in a quantised type: all, those outside experts, or those of experts.
stack_module.quantised_products = { "all", "dense", "experts" }

local fields = {
  name = "string", summary = "string", source = "string",
  base = { "string", optional = true, help = "the stack whose fields this file changes" },
  assumed = { "boolean", default = false,
    help = "no measured step of this software was compared: intervals are those of a plan without a stack" },
  attention = { "string", default = "cudnn", one_of = stack_module.attention },
  attention_dtype = { "string", default = "bf16", one_of = { "bf16", "fp8" },
    help = "data type of attention's products" },
  grouped = { "string", default = "kernel", one_of = { "streams", "kernel" },
    help = "products of local experts: one product each on streams, or one grouped kernel" },
  grouped_tile = { "natural", default = 0, most = 1 << 20,
    help = "rows of a grouped kernel's tile, which several experts share; 0: not shared" },
  norm = { "string", default = "fused", one_of = stack_module.norm },
  cross_entropy = { "string", default = "fused", one_of = stack_module.cross_entropy },
  merge = { "string", default = "te", one_of = stack_module.merge,
    help = "kernels that merge attention to the blocks of other context-parallel ranks" },
  mamba = { "string", default = "whole", one_of = stack_module.mamba,
    help = "functions of Mamba layers: convolution and scan separate or joint, or the whole layer in one" },
  graphs = { "boolean", default = false, help = "the step is one CUDA graph: launches cost no time" },
  blocking = { "boolean", default = false, help = "the host waits for each kernel (CUDA_LAUNCH_BLOCKING=1)" },
  moe_launches = { "nonnegative", default = 0, most = 1e3,
    help = "additional launches of routing, for each product of experts" },
  batch_launches = { "positive", default = 1.0, most = 1e3, least = 1,
    help = "factor on the host time of layers with all-to-alls beside another micro-batch" },
  expert_seconds = { "nonnegative", default = 0, most = 1,
    help = "host seconds for each local expert's product in 16 bits" },
  expert_bias = { "positive", default = 1.0, most = 1e3,
    help = "factor on the bytes of adding the biases of experts' outputs" },
  clamped_mlp = { "positive", default = 1.0, most = 1e3,
    help = "factor on the forward bytes of an activation that clamps its inputs" },
  clamped_mlp_backward = { "positive", default = 1.0, most = 1e3,
    help = "the same factor of the backward pass" },
  rope = { "positive", default = 1.0, most = 1e3, help = "factor on the bytes of rotations" },
  gated_mlp = { "positive", default = 1.0, most = 1e3, help = "factor on the bytes of gated activations" },
  scaled_rope = { "positive", default = 1.0, most = 1e3,
    help = "factor on the bytes of rotations that also scale (YaRN)" },
  exchange_share = { "fraction", default = 0.0,
    help = "fraction of the node's links that the dispatcher's own kernels reach; 0: all-to-alls of NCCL" },
  exchange = { "nonnegative", default = 1.0, most = 1e3, help = "factor on the bytes of routing and permuting tokens" },
  quantised_gathers = { "boolean", default = false,
    help = "tensor-parallel ranks gather operands of quantised products in the products' data type" },
  zero_stages = { "string", default = "0 1 2 3", one_of = { "0 1", "3", "0 2 3", "0 1 2 3" },
    help = "the ZeRO stages of the software; a search tries these unless the plan states zero" },
  sharding_stack = { "string", optional = true, help = "the stack of this software with its other ZeRO stages" },
  overlap_gradients = { "boolean", default = false, help = "overlap_gradients of plans that do not state it" },
  overlap_parameters = { "boolean", default = false, help = "overlap_parameters of plans that do not state it" },
  overlap_sends = { "boolean", default = false,
    help = "overlap_sends of plans that do not state it, with the interleaved schedule" },
  overlaps_tensor = { "boolean", default = true,
    help = "supports overlap_tensor: chunked tensor-parallel gathers and scatters overlap products" },
  hides_sums = { "boolean", default = false,
    help = "all-reduces of input gradients over tensor ranks overlap weight-gradient products" },
  stops_early = { "boolean", default = false,
    help = "recomputation omits the last product of a dense layer (PyTorch's early_stop, XLA)" },
  sharded = { "boolean", default = false,
    help = "weights are gathered during computing (FSDP): kernels slow down by the factors of in_step.sharded" },
  slowdown = { "positive", default = 1.0, most = 1e3, least = 1,
    help = "factor on kernel times, for multiprocessors and memory bandwidth used by communication" },
  communication_share = { "fraction", default = 0.0, most = 0.99,
    help = "fraction of the device's rate that overlapped communication takes from computing" },
  exchange_communication_share = { "fraction", optional = true, most = 0.99,
    help = "the same for experts' all-to-alls; default: communication_share" },
  fused_accumulation = { "boolean", default = false,
    help = "weight-gradient products add to the gradients, unless the plan states accumulate_gradients" },
  cached_gradients = { "boolean", default = false,
    help = "one weight gradient of each shape stays allocated if products add to the main gradients" },
  fused_bias_gradients = { "boolean", default = false,
    help = "weight-gradient products also sum bias gradients; otherwise a separate kernel does" },
  gradient_copy_bytes = { "nonnegative", default = 0, most = 1e3,
    help = "bytes per parameter moved by gradient copies between products, reduction and update" },
  keeps_gradients = { "boolean", default = false,
    help = "16-bit gradients stay allocated beside the fp32 gradients that they are added to" },
  keeps_inputs = { "boolean", default = false,
    help = "quantised products store their inputs in 16 bits and quantise them again in the backward pass" },
  quantised_weights = { "string", default = "none", one_of = stack_module.quantised_weights,
    help = "quantised weights stay allocated: none, beside the 16-bit weights, only these, or a single copy of these" },
  quantised_products = { "string", default = "all", one_of = stack_module.quantised_products,
    help = "products that run in the plan's type of fewer than 16 bits: all, dense (outside experts) or experts" },
  weighs_activations = { "boolean", default = false,
    help = "experts' activations are weighted by the router, so the experts' outputs are not stored" },
  half_products = { "boolean", default = false,
    help = "recompute = half repeats all but attention, every second product and reduce-scatters (else half of all)" },
  master_shards = { "boolean", default = false,
    help = "ZeRO-3 shards the optimizer's fp32 weights, and casts them for each gather" },
  whole_stages = { "boolean", default = false,
    help = "with pipeline stages, ZeRO-2 and 3 keep whole weights and gradients until the last backward pass" },
  keeps_outputs = { "boolean", default = false,
    help = "the output of a pipeline stage stays allocated until its gradient arrives" },
  workspace_bytes = { "nonnegative", default = 33.6e6, most = 1e12, help = "workspaces of libraries" },
  context_bytes = { "nonnegative", default = 0.64e9, most = 1e12, help = "the driver's context and modules" },
  communicator_bytes = { "nonnegative", default = 0.25e9, most = 1e12, help = "buffers of one communicator" },
  allocator_share = { "fraction", default = 0.08,
    help = "fraction of activations and temporaries lost to allocator rounding and fragmentation" },
  launch_seconds = { "nonnegative", default = 0.0, most = 1, help = "host seconds for each operator and pass" },
}

-- Splits "megatron:graphs:attention=flash2" into the name of a file and the texts of fields; a field alone is true.
local function parts(text)
  local name, rest = text:match "^([^:]*):?(.*)$"
  local own = {}
  for field in rest:gmatch "[^:]+" do
    local key, value = field:match "^([^=]*)=(.*)$"
    own[key or field] = not key or options.value(value)
  end
  return name, own
end

--- Sets `graphs` and its consequences: a captured step cannot split tensors by counts that the host reads, so the
--- experts' products are one grouped kernel, with fused biases and clamps.
function stack_module.capture(stack)
  stack.graphs, stack.grouped, stack.expert_bias = true, "kernel", 1.0
  stack.clamped_mlp, stack.clamped_mlp_backward = 1.0, 1.0
end

-- The fields of a stack's file over those of its bases. users: names of the stacks whose base led here.
local function with_base(name, users)
  local given, path = find.load("lua/stacks", name)
  schema.check(given, fields, find.label(path))
  if not given.base then return given end
  users[name] = true
  if users[given.base] then
    error_module.raise("model", "%s: its base '%s' leads back to it", find.label(path), given.base)
  end
  local all = {}
  for key, value in pairs(with_base(given.base, users)) do all[key] = value end
  for key, value in pairs(given) do all[key] = value end
  return all
end

--- The stack of a name, with the fields that follow the name. Raises an error with the nearest name if there is none.
---@param text string? nil: "plain"
function stack_module.get(text)
  local name, own = parts(text or "plain")
  local stack, _, label = find.described("lua/stacks", name, fields)
  if stack.base then stack = schema.check(with_base(name, {}), fields, label) end
  if next(own) == nil then return stack end
  if own.graphs and not stack.graphs then stack_module.capture(stack) end
  for key, value in pairs(own) do stack[key] = value end
  stack = schema.check(stack, fields, ("stack '%s'"):format(text), "plan")
  stack.name = text
  return stack
end

--- The data type in which an operator runs; products that stay out of quantisation run in 16 bits.
---@param stack table|nil the software
---@param dtype string of the plan
function stack_module.dtype_of(stack, op, dtype)
  local which = stack and stack.quantised_products or "all"
  local wide = op.unquantised
    or which ~= "all" and op.family == "gemm" and (which == "experts") ~= (op.experts or false)
  return wide and schema.wide(dtype) or dtype
end

--- Whether a stack's software has a ZeRO stage.
function stack_module.has_stage(stack, zero) return stack.zero_stages:find(tostring(zero), 1, true) ~= nil end

function stack_module.names() return find.names "lua/stacks" end

function stack_module.exists(text) return find.path("lua/stacks", (parts(text))) ~= nil end

return stack_module
