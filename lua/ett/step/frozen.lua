--- Frozen weights: LoRA adapters beside frozen products, frozen first layers, and layers that a model freezes.
--
-- A model's layer may state `frozen`: "layer", without a backward pass (a teacher, a reference, an encoder), or
-- "weights", which the gradient passes. Frozen weights below all trained layers need no backward pass either.
--
-- A frozen weight has no gradient, no reduction and no optimizer state. Under LoRA the gradient still passes through
-- every layer; a frozen product computes only the gradient of its input. Frozen first layers have no backward pass.
-- Later operators that read the table of a frozen embedding (`tied` of their shapes) are frozen, too.
local architecture = require "ett.model.architecture"
local fields = require "ett.plan.fields"
local merged = require "ett.base.merged"
local operator = require "ett.operator"
local quantised = require "ett.operator.quantised"
local width = require("ett.operator.memory").width

local frozen = {}

--- The layers of a model, each with `frozen`: nil, "weights" (LoRA) or "layer" (no backward pass), and frozen_table:
--- whether the embedding is frozen. A kind that is only partly frozen is split into two kinds.
function frozen.layers(layers, p)
  local stated = false
  for _, layer in ipairs(layers) do stated = stated or layer.frozen ~= nil end
  if not (stated or p.lora_rank) and p.frozen_layers == 0 then return layers end
  local list, left, owner, frozen_table = {}, p.frozen_layers, architecture.table_layer(layers), false
  local trains = p.lora_rank ~= nil -- whether a layer before has trained weights
  for i, layer in ipairs(layers) do
    local still = p.frozen_layers > 0 and (layer.place == "first" and layer.count
      or layer.place == "middle" and math.min(left, layer.count)) or 0
    if layer.place == "middle" then left = left - still end
    if i == owner then frozen_table = p.lora_rank ~= nil or still > 0 or layer.frozen ~= nil end
    if still > 0 then
      list[#list + 1] = merged(layer, { count = still, frozen = "layer", name = layer.name .. " (frozen)" })
    end
    if still < layer.count then
      local how = layer.frozen
      if how == "weights" and not trains then how = "layer" end
      trains = trains or how == nil
      list[#list + 1] = merged(layer, { count = layer.count - still, frozen = how or p.lora_rank and "weights" or nil })
    end
  end
  for _, layer in ipairs(list) do layer.frozen_table = frozen_table end
  return list
end

--- Adds an adapter of some outputs of a product: two products and a sum. For a column-parallel product, each tensor
--- rank computes a part of the low rank and gathers it. For a row-parallel product, the ranks all-reduce (Megatron's
--- ParallelLinearAdapter). Dropout is a kernel of its own with a mask of bytes; the first product stores its result.
---@param outputs integer
---@param same_input boolean whether another adapter reads this input
local function add_adapter(list, item, p, outputs, same_input)
  local s, times = item.shape, item.times
  local enters = item.operator.region == "enter"
  local own = enters and math.max(1, p.lora_rank // p.tp) or p.lora_rank
  local function of(name, shape)
    return { kind = "operator", name = name, operator = operator.get(name), shape = shape, times = times,
      module = "", role = item.role, adapter = true }
  end
  local dropped = (p.lora_dropout or 0) > 0
  if dropped then
    list[#list + 1] = of("dropout", { rows = s.stored_tokens or s.tokens, cols = s.in_features, mask = 1 })
  end
  local first = of("lora_a", { tokens = s.tokens, in_features = s.in_features, out_features = own,
    stored_tokens = s.stored_tokens })
  first.same_input = same_input and not dropped or nil
  list[#list + 1] = first
  if p.tp > 1 and item.operator.region then
    local bytes = width(p.dtype) * (s.tokens + 0.0) * p.lora_rank
    for _, pass in ipairs { "forward", "backward" } do
      local kind = not enters and "all_reduce" or pass == "forward" and "all_gather" or "reduce_scatter"
      if enters or pass == "forward" then
        list[#list + 1] = { kind = "collective", name = kind, group = "tp", degree = p.tp, bytes = bytes, pass = pass,
          times = times, overlapped = false, role = "alone" }
      end
    end
  end
  list[#list + 1] = of("lora_b", { tokens = s.tokens, in_features = p.lora_rank, out_features = outputs })
  list[#list + 1] = of("residual_add", { tokens = s.tokens, hidden = outputs, multiplied = 1 })
end

--- Adds the adapters of a product: one, or one for each of its parts (queries, keys and values; gate and up).
---@param parts integer[]? widths of the parts
local function add_adapters(list, item, p, parts)
  local sum, seen = 0, false
  for _, width_of_part in ipairs(parts or {}) do sum = sum + width_of_part end
  if sum == 0 then parts, sum = { 1 }, 1 end
  for _, width_of_part in ipairs(parts) do
    if width_of_part > 0 then
      add_adapter(list, item, p, item.shape.out_features * width_of_part // sum, seen)
      seen = true
    end
  end
end

local number_of_format = {}
for i, format in ipairs(quantised.formats) do number_of_format[format] = i end

--- The format of the frozen weights of a product, if they have fewer bits than the plan's dtype. PEFT and Transformers
--- quantise products except the head (integrations/bitsandbytes.py).
---@param item table with `frozen`
---@return string|nil
function frozen.format(item, p)
  local op = item.operator
  return item.frozen == "weights" and op.family == "gemm" and not op.unquantised and quantised.format_of(p) or nil
end

--- The conversions around a product of frozen weights with fewer bits.
local function conversions(item, format)
  local s = item.shape
  return { kind = "operator", name = "dequantise", operator = operator.get "dequantise", times = item.times,
    module = item.module, role = item.role, adapter = true, frozen = "weights", shape = { tokens = s.tokens,
      in_features = s.in_features, out_features = s.out_features, batch = s.batch,
      format = number_of_format[format] } }
end

--- Whether a collective of the backward pass serves only a weight gradient that is not computed: the second gather of
--- the input under sequence parallelism, before a frozen product without an adapter.
---@param of_following string|nil whether the next item is frozen
local function serves_frozen_weight(item, following, of_following, adapted)
  if not (item.overlapped and item.name == "all_gather" and of_following) then return false end
  return not (following and following.kind == "operator" and adapted[following.name])
end

--- The items that a device runs in a layer with frozen weights. Operators have `frozen` ("weights" or "layer").
---@param items table of ett.model.architecture.operations
---@param how string|nil the layer's `frozen`
---@param frozen_table boolean|nil of frozen.layers
---@param c table the configuration
---@param stack table the software
function frozen.items(items, how, p, frozen_table, c, stack)
  if not (how or frozen_table) then return items end
  local adapted, list = {}, {}
  local copies = quantised.casts_adapters(p, stack) -- adapters store copies of their inputs
  local targets = how == "weights" and p.lora_rank and (p.lora_targets or fields.lora_targets)
  for _, name in ipairs(targets or {}) do adapted[name] = true end
  local function how_of(item)
    return how or frozen_table and item and item.kind == "operator" and item.shape.tied and "weights" or nil
  end
  local before -- family of the operator before
  for i, item in ipairs(items) do
    local backward = item.kind == "collective" and item.pass == "backward"
    if item.kind == "operator" then
      local own = how_of(item)
      local stored = adapted[item.name] and (p.lora_dropout or 0) == 0 and not copies -- by its adapter
      local kept = own and merged(item, { frozen = own,
        attended = own == "weights" and before == "attention" and not stored or nil }) or item
      local format = frozen.format(kept, p)
      if format then list[#list + 1] = conversions(kept, format) end
      if format and format ~= "int8" and stack.quantised_inputs > 0 then
        kept.inputs = stack.quantised_inputs - (stored and 1 or 0)
      end
      list[#list + 1] = kept
      before = item.operator.family
      if adapted[item.name] then
        add_adapters(list, item, p, stack.separate_projections and item.operator.parts and item.operator.parts(c))
      end
    elseif not (backward and (how == "layer"
      or serves_frozen_weight(item, items[i + 1], how_of(items[i + 1]), adapted))) then
      list[#list + 1] = item
    end
  end
  return list
end

--- The shape of the product that computes the input gradient of another product from its output gradient.
function frozen.input_gradient_shape(s)
  local turned = merged(s, { in_features = s.out_features, out_features = s.in_features })
  turned.bias, turned.stored_tokens, turned.separate, turned.summed = nil, nil, nil, s.separate
  return turned
end

local has_backward = setmetatable({}, { __mode = "k" }) -- operator -> whether its `passes` name it

--- Whether an item has no backward pass: it is in a frozen layer, or its operator's `passes` lack it.
local function only_forward(item)
  local op = item.operator
  local has = has_backward[op]
  if has == nil then
    has = table.concat(op.passes, " "):find("backward", 1, true) ~= nil
    has_backward[op] = has
  end
  return not has or item.frozen == "layer"
end

--- Launches of a backward pass in which the forward pass runs again.
frozen.launches_with_forward = 3

--- The backward pass of an item with frozen weights.
---@param stack table the software
---@return table|nil answer of ett.step.times; nil: no backward pass
---@return integer launches of kernels; 1 for a frozen product
function frozen.backward(times, item, p, key, stack)
  local op, s = item.operator, item.shape
  if only_forward(item) or item.frozen and op.family == "embedding" then return nil, 0 end
  if item.frozen and op.family == "gemm" then
    return times:operator(op, frozen.input_gradient_shape(s), p.dtype, "forward"), 1
  end
  local backward = times:operator(op, s, p.dtype, "backward", key)
  if not (op.repeats and op.repeats(s, stack)) then return backward, 2 end
  local again, both = times:operator(op, s, p.dtype, "forward", key), { source = backward }
  for _, name in ipairs { "seconds", "low_seconds", "high_seconds" } do both[name] = backward[name] + again[name] end
  return both, frozen.launches_with_forward
end

--- Model FLOPs of an item as a multiple of its forward pass: 1, plus 1 if it has an input gradient, plus 1 if it has a
--- weight gradient.
function frozen.flops(item)
  if only_forward(item) then return 1.0 end
  return item.frozen and item.operator.family == "gemm" and 2.0 or 3.0
end

--- Whether an item stores activations for its backward pass. The input of a frozen product is stored only for its
--- adapter, if any, and for fused attention whose output it is (`attended`).
function frozen.keeps(item)
  if only_forward(item) then return false end
  return not item.frozen or item.operator.family ~= "gemm" or item.attended or false
end

return frozen
