--- Rules of a plan: between its fields, with the model, and with the cluster; and the nearest valid plans.
local architecture = require "ett.model.architecture"
local by = require "ett.base.by"
local error_module = require "ett.base.error"
local fields = require "ett.plan.fields"
local layer_kinds = require "ett.model.layer_kinds"
local merged = require "ett.base.merged"
local modules = require "ett.operator.modules"
local operator = require "ett.operator"
local quantised = require "ett.operator.quantised"
local ranks = require "ett.plan.ranks"
local remembered = require "ett.base.remembered"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"

local rules = {}

local divisors = remembered(function(n) return require "ett.base.divisors"(n, 4096) end)

--- "nearest are 2 and 4" from sorted candidates; "nearest tp are 2 and 4" if they are values of another field.
---@param field string? their field, if it is not the one that the message begins with
local function nearest(value, candidates, field)
  local what = field and "nearest " .. field or "nearest"
  local below, above
  for _, c in ipairs(candidates) do
    if c <= value then below = c end
    if c > value and not above then above = c end
  end
  if below and above then return ("; %s are %d and %d"):format(what, below, above) end
  return (below or above) and ("; %s is %d"):format(what, below or above) or ""
end

local function layers_at(model, place)
  local count = 0
  for _, layer in ipairs(model.layers) do
    if (layer.place or "middle") == place then count = count + layer.count end
  end
  return count
end

--- Number of layers that are distributed over stages.
rules.middle_layers = remembered(function(model) return layers_at(model, "middle") end)

--- Number of layers of multi-token prediction.
rules.prediction_layers = remembered(function(model) return layers_at(model, "prediction") end)

--- Names of the products in a model's repeated layers that can have an adapter.
function rules.adaptable(model)
  local names = {}
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.place == "middle" and layer.ops or {}) do
      local op = entry.op and operator.get(entry.op)
      if op and op.family == "gemm" and not op.experts then names[op.name] = true end
    end
  end
  return names
end

--- Whether a layer entry of a model may run beside an all-to-all (field `beside`).
rules.has_shared_experts = remembered(function(model)
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.ops) do if entry.beside then return true end end
  end
  return false
end)

local function has_scans(hyper)
  for _, name in ipairs(hyper.layer_types or {}) do
    local kind = layer_kinds[name] -- an architecture may have kinds of its own
    if kind and kind.fields.mixer then return true end
  end
  return hyper.mixer ~= nil or hyper.parallel_mixer ~= nil
end

-- Each rule is function(p, add, context): add(format, …) reports a violation. The context holds `model` and `cluster`
-- if given, `hyper` (of the model, or empty), `layers` (number of middle layers) and `schedules`, a memo. A rule reads
-- a field only if its answer depends on it, because a sweep repeats a rule when such a field changes
-- (ett.plan.follows).

--- Reports a value that does not divide another.
local function divides(add, name, value, what, whole)
  if whole and whole % value ~= 0 then
    add("%s = %d must divide %s = %d%s", name, value, what, whole, nearest(value, divisors(whole)))
  end
end

local function key_heads(add, tp, kv, where)
  if kv >= tp then
    divides(add, "tp", tp, where .. "kv_heads", kv)
  elseif tp % kv ~= 0 then
    add("%skv_heads = %d must divide tp = %d%s", where, kv, tp,
      nearest(tp, { tp // kv * kv, (tp // kv + 1) * kv }, "tp"))
  end
end

-- The model's value of a field, or nil if no operator reads it: a model without attention, or each layer has its own.
local function value_of_model(context, name)
  local model = context.model
  return model and architecture.reads(model)[name] and context.hyper[name] or nil
end

--- Tensor parallelism and the model's widths, also those of single layers.
local function tensor(p, add, context)
  local hyper, tp, seen = context.hyper, p.tp, {}
  divides(add, "tp", tp, "heads", value_of_model(context, "heads"))
  local kv_heads = value_of_model(context, "kv_heads")
  if kv_heads and kv_heads ~= hyper.heads then key_heads(add, tp, kv_heads, "") end
  divides(add, "tp", tp, "ffn", value_of_model(context, "ffn"))
  for i, own in ipairs(hyper.layer_fields or {}) do
    for _, name in ipairs { "heads", "kv_heads", "ffn" } do
      local value, where = own and own[name], ("layer %d: "):format(i)
      if value and not seen[name .. value] then
        seen[name .. value] = true
        if name == "kv_heads" then key_heads(add, tp, value, where)
        else divides(add, "tp", tp, where .. name, value) end
      end
    end
  end
end

--- Context parallelism and the sequence.
local function context_ranks(p, add, context)
  local hyper, cp = context.hyper, p.cp
  if cp == 1 then return end
  local method = fields.context_method(p, stacks.get(p.stack))
  divides(add, "cp", cp, "seq", p.seq)
  if p.cp_balanced and method ~= "ulysses" and hyper.causal ~= false and p.seq % cp == 0
    and p.seq % (2 * cp) ~= 0 then
    add("2 * cp = %d must divide seq = %d: a rank holds two chunks (cp_balanced = false: one)", 2 * cp, p.seq)
  end
  if has_scans(hyper) then
    add("cp = %d: ett has no context parallelism for state-space and linear-attention layers; the nearest is 1", cp)
  end
  if method == "ulysses" and hyper.heads and hyper.heads % p.tp == 0 then
    divides(add, "cp", cp, "heads / tp under cp_method = 'ulysses'", hyper.heads // p.tp)
  end
  if p.cp_ulysses == 1 then return end
  divides(add, "cp_ulysses", p.cp_ulysses, "cp", cp)
  if hyper.heads and hyper.heads % p.tp == 0 then
    divides(add, "cp_ulysses", p.cp_ulysses, "heads / tp", hyper.heads // p.tp)
  end
  if method ~= "ring" then add("cp_ulysses = %d needs cp_method = 'ring'", p.cp_ulysses) end
end

--- Expert parallelism and the model's experts.
local function expert_ranks(p, add, context)
  local hyper = context.hyper
  if hyper.experts then
    divides(add, "ep", p.ep, "experts", hyper.experts)
    divides(add, p.etp and "etp" or "tp", p.etp or p.tp, "moe_ffn", hyper.moe_ffn or hyper.ffn)
    divides(add, "tp", p.tp, "shared_ffn", hyper.shared_ffn)
  elseif p.ep > 1 then
    add("ep = %d needs a model with experts; the nearest is 1", p.ep)
  end
end

--- Expert parallelism within the data-parallel ranks.
local function expert_groups(p, add)
  if p.etp and p.etp ~= p.tp then
    if p.tp % p.etp ~= 0 and not (p.sequence_parallel and p.etp % p.tp == 0) then
      add("etp = %d must divide tp = %d%s", p.etp, p.tp, nearest(p.etp, divisors(p.tp)))
    end
    divides(add, "ep * etp", p.ep * p.etp, "dp * cp * tp", p.dp * p.cp * p.tp)
  elseif p.ep > 1 then
    divides(add, "ep", p.ep, "dp * cp", p.dp * p.cp)
  end
end

--- Tokens of a micro-batch split over tensor ranks.
local function sequence_pieces(p, add)
  if not p.sequence_parallel or p.seq % p.cp ~= 0 then return end
  local tokens = p.micro_batch * p.seq // p.cp
  if tokens % p.tp ~= 0 then
    add("tp = %d must divide the tokens of a micro-batch = %d under sequence_parallel%s", p.tp, tokens,
      nearest(p.tp, divisors(tokens)))
  end
end

--- Rank placement: pp before dp if experts have fewer data ranks; maps with a wrong number of ranks.
local function placement(p, add)
  local world = p.rank_map and p.pp * p.tp * p.cp * p.dp
  if world and #p.rank_map ~= world then
    add("rank_map must place pp * tp * cp * dp = %d ranks, got %d", world, #p.rank_map)
  end
  if p.rank_order == ranks.default or p.pp == 1 or p.rank_order:sub(-2) == "pp" then return end
  if p.tp * p.cp * p.dp % ((p.etp or p.tp) * p.ep) ~= 0 then return end -- expert_groups reports it
  local ok, raised = pcall(ranks.stride, p, "pp")
  local why = not ok and error_module.from(raised)
  if why and why.kind ~= "argument" then error(raised, 0) end
  if why then add("rank_order = %s: %s", p.rank_order, why.message) end
end

--- Distribution of tokens over experts.
local function experts(p, add, context)
  if not context.model then return end
  local hyper, shares = context.hyper, p.expert_shares
  for _, name in ipairs { "expert_shares", "capacity_factor" } do
    if p[name] and not hyper.experts then add("%s needs a model with experts", name) end
  end
  if p.pad_to_capacity and not p.capacity_factor then add("pad_to_capacity needs a capacity_factor") end
  if p.expert_skew > 0 and not hyper.experts then add("expert_skew needs a model with experts") end
  if not (shares and hyper.experts) then return end
  if p.expert_skew > 0 then add("expert_skew and expert_shares exclude each other") end
  if #shares ~= hyper.experts then
    return add("expert_shares must have one share for each of the %d experts, got %d", hyper.experts, #shares)
  end
  local sum = 0.0
  for i, share in ipairs(shares) do
    if type(share) ~= "number" or not (share >= 0 and share <= 1 / hyper.top_k + 1e-9) then
      return add("expert_shares: number %d must be from 0 to 1 / top_k = %g, got %s", i, 1 / hyper.top_k,
        schema.describe(share))
    end
    sum = sum + share
  end
  if math.abs(sum - 1) > 1e-6 then add("expert_shares must add up to 1, got %g", sum) end
end

--- Performance variation of devices.
local function variation(p, add)
  local list = p.rank_slowdown
  if not list then return end
  local world = p.pp * p.tp * p.cp * p.dp
  if #list ~= world then
    return add("rank_slowdown must have one factor for each of the %d ranks, got %d", world, #list)
  end
  for i, factor in ipairs(list) do
    if type(factor) ~= "number" or not (factor > 0 and factor <= 1e3) then
      return add("rank_slowdown: number %d must be above 0 and at most 1000, got %s", i, schema.describe(factor))
    end
  end
  if p.jitter > 0 or p.slow_share > 0 then add("rank_slowdown excludes jitter and slow_share") end
end

--- Number of micro-batches of a step, if given.
local function micro_batches_of(p)
  return p.micro_batches or p.global_batch and math.max(1, p.global_batch // (p.dp * p.micro_batch))
end

--- The global batches next to that of a plan that its replicas divide.
local function divided_batches(p)
  local unit = p.dp * p.micro_batch
  local below = p.global_batch // unit * unit
  return below > 0 and { below, below + unit } or { unit }
end

local function batches(p, add)
  if not p.global_batch then return end
  local unit = p.dp * p.micro_batch
  if p.global_batch % unit ~= 0 then
    add("dp * micro_batch = %d must divide global_batch = %d%s", unit, p.global_batch,
      nearest(p.global_batch, divided_batches(p), "global_batch"))
  elseif p.micro_batches and p.micro_batches ~= p.global_batch // unit then
    add("micro_batches = %d contradicts global_batch = %d, which gives %d; give only one of them", p.micro_batches,
      p.global_batch, p.global_batch // unit)
  end
end

--- overlap_all_to_all: Megatron-Core's rules of moe_shared_expert_overlap and overlap_moe_expert_parallel_comm.
local function overlap(p, add, context)
  local how, model = p.overlap_all_to_all, context.model
  if how == "none" then return end
  local text = ("overlap_all_to_all = '%s'"):format(how)
  if p.ep < 2 then add("%s needs ep of at least 2, got %d; with ep = 1 there is no all-to-all", text, p.ep) end
  if how == "shared_experts" then
    if model and not rules.has_shared_experts(model) then
      add("%s needs a model with shared experts (shared_experts or shared_ffn)", text)
    end
    return
  end
  if not context.schedules:properties(p.schedule).pairs then
    add("%s needs schedule = '1f1b' or 'interleaved', or one with pairs, got '%s'", text, p.schedule)
  end
  if p.recompute == "full" or p.recompute == "policy" then
    add("%s needs recompute = 'none' or 'selective', got '%s'", text, p.recompute)
  end
  for _, module in ipairs(p.recompute_modules or {}) do
    if module == "moe" then add("%s: the module moe of recompute_modules cannot be repeated", text) end
  end
  if p.zero == 3 then add("%s needs zero of at most 2, got 3", text) end
end

-- A boolean field of the plan's stack; true without a stack or with an unknown one.
local function stack_allows(p, name)
  return not (p.stack and stacks.exists(p.stack)) or stacks.value(p.stack, name)
end

--- Whether the plan's stack supports overlap_tensor.
function rules.overlaps_tensor(p) return stack_allows(p, "overlaps_tensor") end

--- Whether the plan's stack supports overlap_gradients and overlap_sends with several pipeline stages.
function rules.overlaps_pipelines(p) return stack_allows(p, "overlaps_pipelines") end

--- Whether the plan's stack supports overlap_sends with its schedule. Files of schedules are other software's.
function rules.overlaps_sends(p)
  return (p.schedule ~= "1f1b" and p.schedule ~= "gpipe") or stack_allows(p, "overlapped_sends") ~= "interleaved"
end

--- Whether a plan's stack states costs of kernel launches.
function rules.launches(p)
  if not (p.stack and stacks.exists(p.stack)) then return false end
  return stacks.value(p.stack, "launch_seconds") > 0 and not stacks.value(p.stack, "graphs")
end

local function tensor_overlap(p, add)
  if p.overlap_tensor and not rules.overlaps_tensor(p) then
    add("overlap_tensor is not supported by the stack '%s'", p.stack)
  end
end

local function gradient_overlap(p, add)
  if p.overlap_gradients and p.pp > 1 and not rules.overlaps_pipelines(p) then
    add("overlap_gradients needs pp = 1, got %d: pipelines of the stack '%s' reduce gradients after the last backward "
      .. "pass", p.pp, p.stack)
  end
  local serial = p.serial_sends == nil and fields.sends_of(p, "serial_sends")
  if p.overlap_sends and p.pp > 1 and (serial or not rules.overlaps_pipelines(p)) then
    add("overlap_sends is not supported by the stack '%s': its pipelines compute nothing while they send", p.stack)
  elseif p.overlap_sends and p.pp > 1 and not rules.overlaps_sends(p) then
    add("overlap_sends needs schedule = 'interleaved' with the stack '%s', got '%s'", p.stack, p.schedule)
  end
end

local function parameter_overlap(p, add)
  if p.overlap_parameters and (p.zero == 1 or p.zero == 2) and stack_allows(p, "overlapped_gathers") == "3" then
    add("overlap_parameters needs zero = 3, got %d: the stack '%s' gathers weights after the update at stages 1 and 2",
      p.zero, p.stack)
  end
end

--- The schedule: rules of its fields, and the refusals of its file.
local function schedule(p, add, context)
  if p.serial_sends and p.overlap_sends then add("serial_sends and overlap_sends exclude each other") end
  local own = context.schedules:properties(p.schedule)
  if own.exact_chunks and p.vp ~= own.chunks then
    add("schedule = '%s' needs vp = %d, got %d", p.schedule, own.chunks, p.vp)
  elseif p.vp > (own.chunks or p.vp) then
    add("vp = %d needs a schedule of several chunks, such as 'interleaved'; '%s' has %d", p.vp, p.schedule,
      own.chunks)
  end
  local micro_batches = (own.refuse or p.schedule == "interleaved") and micro_batches_of(p)
  if own.refuse and micro_batches then
    local why = own.refuse(setmetatable({ micro_batches = micro_batches }, { __index = p }))
    if why and type(why) ~= "string" then
      error_module.raise("model", "%s: 'refuse' must return a string or nil, got %s", schema.place(own.refuse),
        schema.describe(why))
    end
    if why then add("schedule = '%s' %s", p.schedule, why) end
  end
  if p.schedule ~= "interleaved" then
    if p.interleave_group then add("interleave_group needs schedule = 'interleaved', got '%s'", p.schedule) end
    return
  end
  if p.pp < 2 then add("schedule = 'interleaved' needs pp of at least 2, got %d", p.pp) end
  if p.vp < 2 then add("schedule = 'interleaved' needs vp of at least 2, got %d", p.vp) end
  if micro_batches and micro_batches < p.pp then
    add("schedule = 'interleaved' needs at least pp = %d micro-batches, got %d", p.pp, micro_batches)
  end
  local group = p.interleave_group
  if group and group < p.pp then
    add("interleave_group must be at least pp = %d, got %d", p.pp, group)
  elseif group and micro_batches and micro_batches % group > 0 and micro_batches % group < p.pp then
    add("interleave_group = %d leaves a last group of %d micro-batches; it must have at least pp = %d, or none", group,
      micro_batches % group, p.pp)
  end
end

--- Distribution of layers over stages.
local function split(p, add, context)
  if not context.model then return end
  local layers = context.layers
  if p.split then
    local sum = 0
    for _, n in ipairs(p.split) do sum = sum + (math.type(n) == "integer" and n or 0) end
    if #p.split ~= p.pp * p.vp then
      add("split must hold pp * vp = %d numbers of layers, got %d", p.pp * p.vp, #p.split)
    elseif sum ~= layers then
      add("split must add up to the model's %d layers, got %d", layers, sum)
    end
  elseif p.pp * p.vp > layers + 2 then -- the first and the last stage may hold only embedding and head
    add("pp * vp = %d must not exceed the model's %d layers, embedding and head; the nearest pp is %d", p.pp * p.vp,
      layers, math.max(1, (layers + 2) // p.vp))
  end
end

--- The slice of the layers of multi-token prediction, which need the output of all repeated layers.
local function predictions(p, add)
  local slice, slices, behind = p.mtp_slice, p.pp * p.vp, 0
  if not slice or slice == slices then return end
  if slice > slices then
    return add("mtp_slice must be at most pp * vp = %d, the last slice, got %d", slices, slice)
  end
  for i = slice + 1, #(p.split or {}) do
    behind = behind + (math.type(p.split[i]) == "integer" and p.split[i] or 0)
  end
  if not p.split then
    add("mtp_slice = %d needs a split without layers behind that slice", slice)
  elseif behind > 0 then
    add("mtp_slice = %d: split must have no layers behind that slice, got %d", slice, behind)
  end
  if schedules.ways(p.schedule) > 1 then
    add("mtp_slice = %d: schedule = '%s' is bidirectional; its layers of multi-token prediction are on slice %d", slice,
      p.schedule, slices)
  end
end

--- Refuses a value that a list has twice.
local function once(p, name, add)
  local seen = {}
  for _, value in ipairs(p[name] or {}) do
    value = tostring(value)
    if seen[value] then return add("%s has the value %s twice", name, value) end
    seen[value] = true
  end
end

--- The operators whose outputs are stored.
local function kept_outputs(p, add)
  if not p.recompute_keeps then return end
  -- A search sets p.recompute later, to "policy".
  if (p.recompute or "policy") ~= "policy" then
    add("recompute_keeps needs recompute = 'policy', got '%s'", p.recompute)
  end
  once(p, "recompute_keeps", add)
  for _, name in ipairs(p.recompute_keeps) do
    local op = operator.find(tostring(name))
    if not op and not modules.tensors[name] then
      add("recompute_keeps: unknown operator '%s'; `ett list operators` names them all", tostring(name))
    elseif op and not op.output_bytes and op.family ~= "attention" then
      add("recompute_keeps: ett does not know the bytes of the output of %s", op.name)
    end
  end
end

--- The layers that full recomputation repeats.
local function listed_layers(p, add, context)
  if p.recompute_layers then add("recompute_layers and recompute_layer_ids exclude each other") end
  local predicted = context.model and rules.prediction_layers(context.model) or 0
  if #p.recompute_layer_ids == 0 then add("recompute_layer_ids must name at least one layer") end
  once(p, "recompute_layer_ids", add)
  for _, id in ipairs(p.recompute_layer_ids) do
    if math.type(id) ~= "integer" or id < 0 then
      add("recompute_layer_ids must be layers, counted from 0, got %s", schema.describe(id))
    elseif context.model and id >= context.layers + predicted then
      add("recompute_layer_ids must be at most %d, the last of the model's %d layers%s, got %d",
        context.layers + predicted - 1, context.layers + predicted,
        predicted > 0 and ", multi-token prediction included" or "", id)
    end
  end
end

--- The layers of full recomputation and the modules of selective recomputation.
local function recomputation(p, add, context)
  kept_outputs(p, add)
  for _, name in ipairs { "recompute_layers", "recompute_layer_ids" } do
    -- A search sets p.recompute later, to "full".
    if p[name] and (p.recompute or "full") ~= "full" then
      add("%s needs recompute = 'full', got '%s'", name, p.recompute)
    end
  end
  if p.recompute_layer_ids then listed_layers(p, add, context) end
  if not p.recompute_modules then return end
  -- A search sets p.recompute later, to "selective".
  if (p.recompute or "selective") ~= "selective" then
    add("recompute_modules needs recompute = 'selective', got '%s'", p.recompute)
  end
  once(p, "recompute_modules", add)
  local known = {}
  for _, name in ipairs(modules.names) do known[name] = true end
  for _, name in ipairs(p.recompute_modules) do
    if not known[name] then
      add("recompute_modules: %s", error_module.unknown("module", name, modules.names))
    end
  end
end

--- Frozen weights of 4 or 8 bits. FSDP shards only types of floating point. bitsandbytes stores 4-bit weights in such
--- a type (docs/source/fsdp_qlora.mdx, quant_storage), but not int8 weights.
local function quantised_weights(p, add)
  local format = p.frozen_weights
  if not p.lora_rank then add("frozen_weights = '%s' needs lora_rank", format) end
  if schema.dtype_bytes[p.dtype] < 2 then
    add("frozen_weights = '%s' needs a dtype of at least 16 bits, such as bf16, got '%s'", format, p.dtype)
  end
  for _, name in ipairs { "tp", "ep" } do
    if p[name] > 1 then
      add("frozen_weights = '%s' needs %s = 1, got %d: bitsandbytes does not split quantised weights", format, name,
        p[name])
    end
  end
  if format == "int8" and p.zero == 3 then
    add("frozen_weights = 'int8' needs zero of at most 2, got 3: only nf4 and nf4_double can be sharded")
  end
end

local function freezing(p, add, context)
  local model = context.model
  if p.lora_targets and not p.lora_rank then add("lora_targets needs lora_rank") end
  once(p, "lora_targets", add)
  if p.lora_rank and p.frozen_layers > 0 then add("lora_rank and frozen_layers exclude each other") end
  if quantised.format_of(p) then quantised_weights(p, add) end
  if not model then return end
  local layers = context.layers
  if p.frozen_layers > layers then
    add("frozen_layers = %d must be at most the model's %d layers", p.frozen_layers, layers)
  end
  if not p.lora_rank then return end
  local products = rules.adaptable(model)
  local known = schema.keys(products)
  if #known == 0 then return add("lora_rank needs a model with products outside experts") end
  local usual = false
  for _, name in ipairs(fields.lora_targets) do usual = usual or products[name] end
  if not (p.lora_targets or usual) then
    add("lora_rank needs lora_targets: the model has none of %s; known are %s",
      table.concat(fields.lora_targets, ", "), table.concat(known, ", "))
  end
  for _, name in ipairs(p.lora_targets or {}) do
    if not products[name] then
      add("lora_targets: the model's layers have no product '%s' outside experts%s; known are %s", tostring(name),
        error_module.suggestion(tostring(name), known), table.concat(known, ", "))
    end
  end
end

--- A stack with autocast has whole fp32 weights in every replica. Gradients have their type; products run in 16 bits.
local function autocast(p, add)
  if not (p.stack and stacks.exists(p.stack) and stacks.value(p.stack, "autocast")) then return end
  if (p.zero or 0) > 0 then
    add("autocast of the stack '%s' needs zero = 0, got %d; stack=transformers_fsdp is FSDP's mixed precision", p.stack,
      p.zero)
  end
  for _, name in ipairs { "offload_optimizer", "offload_weights" } do
    if (p[name] or 0) > 0 then
      add("autocast of the stack '%s' needs %s = 0, got %g: the passes read the optimizer's fp32 weights", p.stack,
        name, p[name])
    end
  end
  if p.dtype ~= "bf16" and p.dtype ~= "fp16" then
    add("autocast of the stack '%s' needs dtype = 'bf16' or 'fp16', got '%s'", p.stack, p.dtype)
  end
  if (p.gradient_dtype or "fp32") ~= "fp32" then
    add("autocast of the stack '%s' needs gradient_dtype = 'fp32', got '%s'; reduce_dtype is the type of messages",
      p.stack, p.gradient_dtype)
  end
end

local function shards(p, add)
  if not p.shard then return end
  local data = p.dp * p.cp
  -- One rank is a shard of its own under every stage: a search drops the stage of such layouts.
  if p.zero == 0 and fields.replicated(p) then add("shard needs zero of at least 1, got 0") end
  if data % p.shard ~= 0 then
    return add("shard = %d must divide dp * cp = %d%s", p.shard, data, nearest(p.shard, divisors(data)))
  end
  local replicas, expert_data = data // p.shard, data * p.tp // (p.ep * (p.etp or p.tp))
  if p.ep > 1 and expert_data % replicas ~= 0 then
    add("shard = %d makes %d replicas; their number must divide the %d ranks that share experts", p.shard, replicas,
      expert_data)
  end
end

-- The data types of a device, as a set.
local dtypes_of = remembered(function(device)
  local set = {}
  for _, dtype in ipairs(device.dtypes and device:dtypes() or schema.keys(device.peak_flops)) do set[dtype] = true end
  return set
end)

--- The cluster: rates for the dtype, and host links.
local function cluster_parts(p, add, context)
  local cluster = context.cluster
  if not cluster then return end
  for _, part in ipairs(cluster.parts or { cluster }) do
    local known = part.device and part.device.peak_flops and dtypes_of(part.device)
    if known and not known[p.dtype] then
      add("dtype = '%s' needs a rate in the device's peak_flops; %s has only %s", p.dtype,
        tostring(part.device.name), table.concat(schema.keys(known), ", "))
    end
    for _, name in ipairs { "offload_activations", "offload_gradients", "offload_optimizer", "offload_weights" } do
      if p[name] > 0 and not part.host then
        add("%s needs a link to the host; %s has none (field 'host')", name, tostring(part.name))
      end
    end
  end
end

local function cluster_size(p, add, context)
  local cluster = context.cluster
  if not cluster then return end
  local last = cluster.tiers and cluster.tiers[#cluster.tiers].size or math.maxinteger
  local has = math.min(last, cluster.nodes and cluster.gpus_per_node and cluster.nodes * cluster.gpus_per_node or last)
  if has == math.maxinteger then return end
  local needed = p.pp * p.tp * p.cp * p.dp
  if needed > has then add("the plan needs %d devices, %s has %d", needed, tostring(cluster.name), has) end
end

--- A cluster with parts: tensor, context and expert groups need devices of one kind.
local function parts(p, add, context)
  local cluster = context.cluster
  if not (cluster and cluster.parts) then return end
  if cluster.nodes * cluster.gpus_per_node < p.pp * p.tp * p.cp * p.dp then return end
  local flat, devices = {}, 0
  for i, part in ipairs(cluster.parts) do
    devices = devices + part.nodes * part.gpus_per_node
    table.move({ devices, 0, 0, 0 }, 1, 4, 4 * i - 3, flat)
  end
  local _, why = require("ett.step").parts { pp = p.pp, tp = p.tp, cp = p.cp, ep = p.ep, dp = p.dp,
    etp = p.etp or p.tp, rank_order = ranks.code(p.rank_order), rank_map = ranks.map(p.rank_map), parts = flat,
    gpus_per_node = cluster.gpus_per_node }
  if why then add("%s", why) end
end

local all = { tensor, context_ranks, expert_ranks, expert_groups, sequence_pieces, placement, experts, variation,
  shards, autocast, recomputation, freezing, batches, schedule, overlap, tensor_overlap, gradient_overlap,
  parameter_overlap, split, predictions, cluster_parts, cluster_size }
local of_passing = parts -- checked only if all other rules pass

local function context_of(model, cluster, known)
  return { model = model, hyper = model and model.hyper or {}, layers = model and rules.middle_layers(model),
    cluster = cluster, schedules = known or schedules.memo() }
end

--- All violated rules of a plan as messages. For sweeps; plan.violations also checks single fields.
---@param p table a clean plan (schema.check)
---@param known table? schedules.memo, if many plans are checked
function rules.broken(p, model, cluster, known)
  local found, context = {}, context_of(model, cluster, known)
  local function add(format, ...) found[#found + 1] = format:format(...) end
  for _, rule in ipairs(all) do rule(p, add, context) end
  if #found == 0 then of_passing(p, add, context) end
  return found
end

--- The same rules in the same order, each as a function of a plan that returns its first message, or nil.
function rules.functions(model, cluster, known)
  local context, list = context_of(model, cluster, known), {}
  local function add(rule)
    list[#list + 1] = function(p)
      local first
      rule(p, function(format, ...) first = first or format:format(...) end, context)
      return first
    end
  end
  for _, rule in ipairs(all) do add(rule) end
  add(of_passing)
  return list
end

local layout_fields = { "pp", "tp", "dp", "cp", "ep", "vp" }

local function describe(p, base)
  local words = {}
  for _, name in ipairs(layout_fields) do
    if p[name] ~= 1 or base[name] ~= 1 then words[#words + 1] = ("%s=%d"):format(name, p[name]) end
  end
  if base.split and not p.split then words[#words + 1] = "without split" end
  return table.concat(words, " ")
end

-- "global_batch=248" for each next global batch with which the plan passes.
local function with_batch(p, model, cluster, known)
  local words, batch_breaks = {}, p.global_batch and p.global_batch % (p.dp * p.micro_batch) ~= 0
  for _, batch in ipairs(batch_breaks and divided_batches(p) or {}) do
    local q = setmetatable({ global_batch = batch }, { __index = p })
    if #rules.broken(q, model, cluster, known) == 0 then words[#words + 1] = ("global_batch=%d"):format(batch) end
  end
  return words
end

-- The divisions of `devices` into tensor, pipeline, context and data ranks. A plan without context ranks gets none.
local function divisions(p, devices)
  local list = {}
  for _, tp in ipairs(divisors(devices)) do
    for _, pp in ipairs(divisors(devices // tp)) do
      local rest = devices // tp // pp
      for _, cp in ipairs(p.cp == 1 and { 1 } or divisors(rest)) do
        list[#list + 1] = { tp = tp, pp = pp, cp = cp, dp = rest // cp }
      end
    end
  end
  return list
end

-- Whether a plan breaks no rule, if need be without its `split` and mtp_slice, which belong to pp and vp.
local function passes(q, model, cluster, known)
  if #rules.broken(q, model, cluster, known) == 0 then return true end
  if not q.split then return false end
  q.split, q.mtp_slice = false, false
  return #rules.broken(q, model, cluster, known) == 0
end

-- The valid plans with other degrees on as many devices.
local function with_degrees(p, model, cluster, known)
  local list, plan = {}, { __index = p }
  for _, division in ipairs(divisions(p, p.pp * p.tp * p.cp * p.dp)) do
    for _, ep in ipairs(p.ep == 1 and { 1 } or divisors(p.ep)) do
      for _, vp in ipairs(p.vp == 1 and { 1 } or { p.vp, 2 }) do
        local q = setmetatable(merged(division, { ep = ep, vp = vp }), plan)
        if passes(q, model, cluster, known) then list[#list + 1] = q end
      end
    end
  end
  return list
end

-- Sum of |log2| of the changes of the degrees.
local function distance(p, q)
  local sum = 0
  for _, name in ipairs(layout_fields) do sum = sum + math.abs(math.log(q[name] / p[name], 2)) end
  return sum
end

--- Valid plans on the same number of devices. If another global batch is enough, those with the next batches. Else at
--- most three with other degrees, nearest first.
function rules.nearest(p, model, cluster)
  local known = schedules.memo()
  local other_batches = with_batch(p, model, cluster, known)
  if #other_batches > 0 then return other_batches end
  local list = {}
  for i, q in ipairs(with_degrees(p, model, cluster, known)) do
    list[i] = { text = describe(q, p), distance = distance(p, q) }
  end
  table.sort(list, by("distance", "text"))
  local words, seen = {}, {}
  for _, entry in ipairs(list) do
    if not seen[entry.text] and #words < 3 then
      seen[entry.text] = true
      words[#words + 1] = entry.text == "" and "all degrees 1" or entry.text
    end
  end
  return words
end

return rules
