--- Stacks: the software that runs a step, one file each in lua/stacks, found by name.
--
--   local stack = require("ett.operator.stack").get "megatron"
--   local graphed = require("ett.operator.stack").get "megatron:graphs:attention=flash2" -- with fields of its own
--
-- A stack names the kernels of attention, norms and loss, the overlaps, and the host time of launches.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local io_module = require "ett.io"
local merged = require "ett.base.merged"
local options = require "ett.base.options"
local schema = require "ett.base.schema"

local stack_module = {}

local flag, factor = { "boolean", default = false }, { "positive", default = 1.0, most = 1e3 }

local attention_kernels = { "cudnn", "sdpa", "flash4", "flash3", "flash2", "flash1", "flash1_triton", "efficient",
  "splash", "tokamax", "pallas_flash" }

--- The fields of a stack. lua/stacks/README.md states their values, defaults and meanings.
stack_module.fields = {
  name = "string", summary = "string", source = "string",
  base = "string?", compared = { "string", default = "none" },
  attention = { "string", default = "cudnn", one_of = attention_kernels }, other_attention = "string?",
  attention_dtype = { "string", default = "bf16", one_of = { "bf16", "fp8" } },
  grouped = { "string", default = "kernel", one_of = { "streams", "kernel", "loop" } },
  grouped_tile = { "natural", default = 0, most = 1 << 20 },
  norm = { "string", default = "fused",
    one_of = { "fused", "te", "fused_fp32", "cudnn", "compiled", "torch", "composite" } },
  cross_entropy = { "string", default = "fused",
    one_of = { "fused", "compiled", "native", "torch", "shifted", "composer", "megatron", "linear",
      "recomputed" } },
  kept_logits = { "nonnegative", default = 0, most = 4 },
  tensor_core_heads = { "string", default = "all", one_of = { "all", "aligned" } },
  cp_method = { "string", default = "all_gather", one_of = { "all_gather", "ring", "ulysses" } },
  context_parallel = { "string", default = "te", one_of = { "te", "torch" } },
  repeated_keys = flag, overlaps_context = { "boolean", default = true },
  mamba = { "string", default = "whole", one_of = { "separate", "joint", "whole" } },
  graphs = flag, graphed = "string?", other_graphs = "string?", blocking = flag,
  moe_launches = { "nonnegative", default = 0, most = 1e3 },
  reads_counts = { "string", default = "none",
    one_of = { "none", "before_permute", "beside_permute", "before_exchange" } },
  batch_launches = { "positive", default = 1.0, most = 1e3, least = 1 },
  tensor_launches = { "positive", default = 1.0, most = 1e3, least = 1 },
  expert_seconds = { "nonnegative", default = 0, most = 1 }, gather_seconds = { "nonnegative", default = 0, most = 1 },
  expert_bias = factor, clamped_mlp = factor, clamped_mlp_backward = factor, rope = factor, gated_mlp = factor,
  scaled_rope = factor, adaptive_norm = factor,
  exchange_share = { "fraction", default = 0.0 }, deduplicate_tokens = flag,
  routing_factor = { "nonnegative", default = 1.0, most = 1e3 },
  quantised_gathers = { "string", default = "none", one_of = { "none", "fp8", "all" } },
  copies_sequence = flag, overlaps_direct = flag,
  zero_stages = { "string", default = "0 1 2 3", one_of = { "0", "0 1", "3", "0 3", "0 1 2 3" } },
  overlapped_gathers = { "string", default = "1 2 3", one_of = { "1 2 3", "3" } },
  gathers_need_reductions = flag,
  overlapped_sends = { "string", default = "all", one_of = { "all", "interleaved" } },
  pipeline_zero_stages = { "string", default = "0 1 2 3", one_of = { "0 1", "0 1 2 3" } },
  serial_sends = flag, scatter_sends = flag,
  pipeline_schedules = { "string", default = "1f1b interleaved gpipe" },
  sharding_stack = "string?",
  overlap_gradients = flag, overlap_parameters = flag, overlap_sends = flag,
  overlaps_tensor = { "boolean", default = true }, overlaps_pipelines = { "boolean", default = true },
  runs_on_tpus = flag,
  splits_stream = flag, gathers_once = flag,
  discards_attention = flag, hides_sums = flag, stops_early = flag, gathers_slow = flag,
  slowdown = { "positive", default = 1.0, most = 1e3, least = 1 },
  communication_share = { "fraction", default = 0.0, most = 0.99 },
  exchange_communication_share = { "fraction", optional = true, most = 0.99 },
  registered_buffers = flag,
  fused_accumulation = flag, cached_gradients = flag, fused_bias_gradients = flag,
  owned_tensors = { "natural", default = 0, most = 1e6 },
  gradient_copy_bytes = { "nonnegative", default = 0, most = 1e3 },
  keeps_gradients = flag, keeps_inputs = flag, keeps_head_input = flag,
  quantised_weights = { "string", default = "none", one_of = { "none", "beside", "only", "single" } },
  gathers_mxfp8 = flag,
  quantised_products = { "string", default = "all", one_of = { "all", "dense", "experts" } },
  gathers_biases = flag, joins_heads = flag, one_hot_embedding = flag, repeats_tokens = flag,
  pads_copies = flag, combine = { "string", default = "fused", one_of = { "fused", "scatter_add", "bmm" } },
  separate_gates = flag, separate_projections = flag,
  one_hot_experts = { "string", default = "none", one_of = { "none", "sequence", "micro_batch" } },
  weighs_activations = flag, operator_policy = flag, repeats_exchanges = flag, keeps_outputs = flag,
  gathers_layers = flag, gathers_tensors = flag, whole_ends = flag, master_shards = flag, whole_stages = flag,
  copies_gradients = flag, defers_gradients = flag, frees_gradients = flag, autocast = flag, fp32_norms = flag,
  fp32_adapters = flag, quantised_inputs = { "natural", default = 0, most = 2 },
  update = { "string", default = "fused", one_of = { "fused", "foreach" } },
  workspace_bytes = { "nonnegative", default = 33.6e6, most = 1e12 },
  context_bytes = { "nonnegative", default = 0.64e9, most = 1e12 },
  communicator_bytes = { "nonnegative", default = 0.25e9, most = 1e12 },
  allocator_share = { "fraction", default = 0.08 },
  launch_seconds = { "nonnegative", default = 0.0, most = 1 },
}
local fields = stack_module.fields

local function is_text(field) return field and (type(field) == "table" and field[1] or field):find "^string" ~= nil end

-- Splits "megatron:graphs:attention=flash2" into the name of a file and the values of fields; a field alone is true.
local function parts(text)
  local name, rest = text:match "^([^:]*):?(.*)$"
  local own = {}
  for field in rest:gmatch "[^:]+" do
    local key, value = field:match "^([^=]*)=(.*)$"
    if key then own[key] = is_text(fields[key]) and value or options.value(value) else own[field] = true end
  end
  return name, own
end

--- Sets the fields that follow from `graphs`. In a CUDA graph the host cannot read the numbers of tokens per expert, so
--- the experts' products are one grouped kernel, with fused biases and clamps.
function stack_module.capture(stack)
  stack.graphs, stack.grouped, stack.expert_bias = true, "kernel", 1.0
  stack.clamped_mlp, stack.clamped_mlp_backward = 1.0, 1.0
end

--- Whether gates and up projections of experts are products of their own. Experts in a loop are modules like others.
function stack_module.separates_gates(stack)
  return stack.separate_gates or stack.grouped == "loop" and stack.separate_projections
end

-- Megatron-LM's modules of --cuda-graph-scope whose graphs ett models, and their shares of a layer's launches. Six of
-- twelve operators are attention with its norm and residual. Five are a dense MLP with its own; in layers with experts
-- two are the norm and the router. The preparation of permutations has none of its own.
local shares = { attn = { dense = 1 / 2, experts = 1 / 2 }, mlp = { dense = 5 / 12, experts = 0 },
  moe_router = { dense = 0, experts = 1 / 6 }, moe_preprocess = { dense = 0, experts = 0 } }
stack_module.graph_parts = schema.keys(shares)

-- The set of a field's names, joined by other characters. Raises for a name that is not in the list `known`.
local function names_of(field, what, text, known)
  local names = {}
  for name in text:gmatch "[%w_]+" do
    local at = 1
    while known[at] and known[at] ~= name do at = at + 1 end
    if not known[at] then error_module.raise("plan", "%s: %s", field, error_module.unknown(what, name, known)) end
    names[name] = true
  end
  return names
end

-- The modules with CUDA graphs of their own: the set of `graphed`.
local function graphed_parts(stack)
  return names_of("graphed", "part", stack.graphed or "", stack_module.graph_parts)
end

-- The words of `other_graphs`: modules, one graph of the step, or none.
local graph_words = table.move(stack_module.graph_parts, 1, #stack_module.graph_parts, 3, { "none", "step" })

--- CUDA graphs that the software may run in place of the stack's own, as the words that a stack's text adds, in order.
---@param text string? of a plan: if it states graphs, or a file of the stack a graph of the step, there are no others
function stack_module.other_graphs(stack, text)
  local list, own = {}, text and select(2, parts(text)) or {}
  for word in (stack.other_graphs or ""):gmatch "%S+" do
    names_of("other_graphs", "part", word, word:find("+", 1, true) and stack_module.graph_parts or graph_words)
    list[#list + 1] = word == "step" and ":graphs" or ":graphed=" .. (word == "none" and "" or word)
  end
  return text and not stack.graphs and own.graphs == nil and own.graphed == nil and list or {}
end

--- Attention kernels that the software may run in place of the stack's own, in order. FlashAttention 2 is none of them
--- on Blackwell. On its data-centre devices, cuDNN's kernel is three to four times as fast (ett.profile.in_step,
--- attention_rate). Transformer Engine prefers cuDNN's there, and torchtitan runs it (pytorch/torchtitan#1196). The
--- same is assumed of other devices of this generation (RTX PRO 6000).
---@param text string? of a plan: if it states the kernel, there is no other
---@param generation string? of the devices
function stack_module.other_attention(stack, text, generation)
  local names = names_of("other_attention", "kernel", stack.other_attention or "", attention_kernels)
  if generation == "blackwell" then names.flash2 = nil end
  return text and select(2, parts(text)).attention == nil and schema.keys(names) or {}
end

-- Largest head dimension of attention kernels in training. FlashAttention 1: Dao-AILab/flash-attention#67; 2 and 3:
-- #277 and its README.md. cuDNN: backward passes of its support matrix (docs.nvidia.com, cuDNN frontend, Attention).
-- On Blackwell, cuDNN has a backward pass for heads of 256 values from 9.23 on, only on data-centre devices
-- (NVIDIA/TransformerEngine#3056), and for 192 and 128 values of latent attention from 9.11 on (#1797).
local most_dim = { flash1 = 128, flash1_triton = 128, flash2 = 256, flash3 = 256, cudnn = 256, sdpa = 256 }
local cudnn_dim = { ada = 128, ampere = 128, blackwell = 128 }

--- The largest head dimension that the attention kernel of a stack can train on NVIDIA's devices; nil: unknown.
---@param generation string? of the devices
---@param s table shape of the attention: head_dim, value_dim?
function stack_module.most_head_dim(stack, generation, s)
  local most = stack.attention == "cudnn" and cudnn_dim[generation]
  if most and generation == "blackwell" and s.head_dim == 192 and s.value_dim == 128 then return 192 end
  return most or most_dim[stack.attention]
end

--- Generations of devices with steps that were compared with ett.
stack_module.generations = { "ampere", "blackwell", "cdna4", "hopper", "tpu" }

--- The generations of devices on which measured steps of a stack's own software were compared with ett.
---@param stack table? nil: the plan names no software
---@return table<string, boolean>
function stack_module.compared_on(stack)
  local text = stack and stack.compared or "none"
  return text == "none" and {} or names_of("compared", "generation", text, stack_module.generations)
end

--- Shares of a layer's launches, and of those of routing, that remain beside graphs of single modules. With a graph of
--- the router a quarter of routing's remains: beside each product of experts, one of two operators that move tokens.
---@param has_experts boolean of the layer
function stack_module.launches_left(stack, has_experts)
  local left, names = 1.0, graphed_parts(stack)
  for name in pairs(names) do left = left - shares[name][has_experts and "experts" or "dense"] end
  return left, has_experts and names.moe_router and 1 / 4 or 1
end

-- The fields of a stack's file, completed from its bases. users: names of the stacks whose base led to this one; files:
-- gets name -> path of each.
local function with_base(name, users, files)
  local given, path = find.load("lua/stacks", name)
  files[name] = path
  schema.check(given, fields, find.label(path))
  if not given.base then return given end
  users[name] = true
  if users[given.base] then
    error_module.raise("model", "%s: its base '%s' leads back to it", find.label(path), given.base)
  end
  local whole = merged(with_base(given.base, users, files), given)
  whole.compared = given.compared -- a stack with a base is other software, or another way of it
  return whole
end

-- A smaller exchange_share is taken for a wrong unit: 1 % of an H100's NVLink is less than a tenth of a network card.
local least_share = 0.01

-- Checks what the rules of single fields do not express.
local function check_values(stack, label)
  graphed_parts(stack)
  stack_module.compared_on(stack)
  stack_module.other_attention(stack)
  stack_module.other_graphs(stack)
  for _, field in ipairs { "fp32_norms", "fp32_adapters" } do
    if stack.autocast and stack[field] then
      error_module.raise("plan", "%s: fields 'autocast' and '%s' exclude each other", label, field)
    end
  end
  if stack.exchange_share > 0 and stack.exchange_share < least_share then
    error_module.raise("plan", "%s: field 'exchange_share' must be 0 (NCCL's all-to-alls) or at least %g, got %g",
      label, least_share, stack.exchange_share)
  end
end

local function read(text, files)
  local name, own = parts(text)
  local stack, path, label = find.described("lua/stacks", name, fields)
  files[name] = path
  if stack.base then stack = schema.check(with_base(name, {}, files), fields, label) end
  check_values(stack, label)
  if stack.autocast then stack.zero_stages = "0" end -- weights are whole and in fp32 (rules of ett.plan)
  if next(own) == nil then return stack end
  if own.graphs and not stack.graphs then stack_module.capture(stack) end
  for key, value in pairs(own) do stack[key] = value end
  if stack.autocast then stack.zero_stages = "0" end
  label = ("stack '%s'"):format(text)
  stack = schema.check(stack, fields, label, "plan")
  check_values(stack, label)
  stack.name = text
  return stack
end

local known = {} -- name of get -> { stack, files = { [name] = path }, texts = { [name] = content } }
local checked -- names whose files were checked since `hold`; nil: each call checks them

--- Until the returned value is closed, the files of a stack are checked at most once. An estimate asks for its stack
--- some 20 times.
function stack_module.hold()
  local before = checked
  checked = before or {}
  return setmetatable({}, { __close = function() checked = before end })
end

-- Whether the files of a known stack are still those that its names find, with the same content.
local function is_current(entry)
  for name, path in pairs(entry.files) do
    if find.path("lua/stacks", name) ~= path or io_module.read(path) ~= entry.texts[name] then return false end
  end
  return true
end

local function entry_of(text)
  local entry = known[text]
  if checked and checked[text] then return entry end
  if not (entry and is_current(entry)) then
    entry = { files = {}, texts = {} }
    entry.stack = read(text, entry.files)
    for name, path in pairs(entry.files) do entry.texts[name] = io_module.read(path) end
    known[text] = entry
  end
  if checked then checked[text] = true end
  return entry
end

--- The stack of a name, with the fields that follow the name; a table of the caller's own. Raises an error with the
--- nearest name if there is none. Its files are run and checked again only after a change: a search asks for each
--- layout.
---@param text string? nil: "plain"
function stack_module.get(text) return merged(entry_of(text or "plain").stack) end

--- The value of one field of the stack of a name.
function stack_module.value(text, field) return entry_of(text).stack[field] end

-- Multiprocessors of a gather or reduce-scatter over NVLink: 24 (pytorch/pytorch#136567), and 4 and 5 with registered
-- buffers (Megatron-LM, distributed_data_parallel_config.py, nccl_ub).
local registered_share = 4.5 / 24

--- Gathers of weights and reductions of gradients take a share of the device. This is the ratio of that share to the
--- share without registered buffers.
function stack_module.buffer_share(stack) return stack.registered_buffers and registered_share or 1 end

--- Share of a device that gathers of weights and reductions of gradients take from computing beside them.
function stack_module.gather_communication_share(stack)
  return stack.communication_share * stack_module.buffer_share(stack)
end

--- Share of a device that all-to-alls of experts take from computing beside them.
function stack_module.exchange_communication_share(stack)
  return stack.exchange_communication_share or stack.communication_share
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

--- Whether a stack's software supports a ZeRO stage.
---@param pp integer? pipeline stages (default 1)
function stack_module.has_stage(stack, zero, pp)
  local function lists(stages) return stages:find(tostring(zero), 1, true) ~= nil end
  return lists(stack.zero_stages) and ((pp or 1) == 1 or lists(stack.pipeline_zero_stages))
end

--- Whether a stack's software has a value of a plan's field, as far as the stack says: a ZeRO stage, an overlap or
--- none, weights that stay whole. ZeRO-3 without `reshard` takes the place of ZeRO-2: SHARD_GRAD_OP of PyTorch FSDP.
function stack_module.has(stack, name, value)
  if name == "zero" then return stack_module.has_stage(stack, value) end
  if name == "reshard" then
    return value or stack_module.has_stage(stack, 3) and not stack_module.has_stage(stack, 2)
  end
  if name == "overlap_gradients" or name == "overlap_parameters" then return value or not stack[name] end
  return true
end

function stack_module.names() return find.names "lua/stacks" end

function stack_module.exists(text) return find.path("lua/stacks", (parts(text))) ~= nil end

return stack_module
