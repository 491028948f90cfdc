--- Faults of layers that can be built but give wrong times, as warnings of an estimate.
local architecture = require "ett.model.architecture"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local hyper_parameters = require "ett.model.hyper"
local merged = require "ett.base.merged"
local operator = require "ett.operator"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"

--- A warning if tokens go to experts and do not come back.
local function exchanges(ops, _, warn)
  local count = 0
  for _, entry in ipairs(ops) do count = count + (entry.collective == "expert_exchange" and 1 or 0) end
  if count % 2 == 1 then
    warn("%d expert_exchange: the number must be even, since tokens go to the experts and come back", count)
  end
end

--- The `region` of an entry's operator. If its file states none, the widths of a product tell: tensor ranks split those
--- of the output ("enter") or of the input ("leave").
local function region_of(op, entry, c)
  local own = architecture.overlay(c, entry.with)
  if op.region or op.family ~= "gemm" or op.experts or own.tp == 1 then return op.region end
  local ok, whole = pcall(op.shape, setmetatable({ tp = 1 }, { __index = own }))
  if not ok then return nil end
  local part = op.shape(own)
  if not (part.in_features and part.out_features) then return nil end
  local inputs, outputs = whole.in_features / part.in_features, whole.out_features / part.out_features
  return inputs == 1 and outputs == own.tp and "enter" or inputs == own.tp and outputs == 1 and "leave" or nil
end

-- Whether an operator may leave partial sums. What a user's operator leaves is known only from its region.
local function may_leave_sums(op, region)
  return region == "leave" or op.family == "embedding" or op.experts or not region and not find.is_installed(op.path)
end

--- Warnings of column-parallel products outside a tensor-parallel region, of regions that close twice, and of regions
--- whose ranks have nothing to add.
local function regions(ops, c, warn)
  local inside, closed, split, summed = false, false, nil, false
  for _, entry in ipairs(ops) do
    local op = entry.op and operator.get(entry.op)
    local region = op and region_of(op, entry, c)
    if entry.collective == "tensor_enter" or entry.collective and entry.group == "tp" then
      inside = true
    elseif entry.collective == "tensor_leave" then
      if closed then warn "tensor_leave follows tensor_leave without an operator between them: sums are added twice" end
      if split and not summed then
        warn("tensor_leave follows %s, but no product with partial sums is between them", split.name)
      end
      inside, split, summed = false, nil, false
    elseif op and not op.experts and region == "enter" and architecture.overlay(c, entry.with).tp > 1 then
      if not inside then
        warn("no tensor_enter precedes %s, so the gradient of its input is not added over tp ranks", op.name)
      end
      split = op
    end
    summed = summed or op and may_leave_sums(op, region) or false
    closed = entry.collective == "tensor_leave" or closed and not op
  end
end

-- Whether an entry adds up partial sums, or a residual stream. Before it, a norm reads the product before the norm.
local function ends_branch(entry, before, product)
  if not entry then return false end
  return entry.collective == "tensor_leave" or before == product and entry.op and operator.get(entry.op).residual
end

--- Warnings of products whose partial sums no tensor rank adds up. A layer may sum several products together (parallel
--- blocks). But no norm may read a residual stream with partial sums, or a product before their sum.
local function partial_sums(ops, c, warn)
  local open, added, before = {}, false, nil
  local function close(experts_only)
    for i = #open, 1, -1 do
      if open[i].experts or not experts_only then table.remove(open, i) end
    end
    added = added and #open > 0
  end
  local function report()
    for _, op in ipairs(open) do
      warn("no %s follows %s, so its partial sums over %s ranks are not added",
        op.experts and "expert_leave" or "tensor_leave", op.name, op.experts and "etp" or "tp")
    end
    close()
  end
  for i, entry in ipairs(ops) do
    local op = entry.op and operator.get(entry.op)
    if entry.collective == "tensor_leave" or entry.collective and entry.group == "tp" then
      close()
    elseif entry.collective == "expert_leave" then
      close(true)
    elseif op and region_of(op, entry, c) == "leave" then
      local own = architecture.overlay(c, entry.with)
      if (op.experts and own.etp or own.tp) > 1 then open[#open + 1] = op end
    elseif op and op.residual then
      added = #open > 0
    elseif op and op.family == "norm" and added then
      report()
    elseif op and op.family == "norm" and #open > 0 and ends_branch(ops[i + 1], before, open[#open]) then
      warn("%s reads the partial sums of %s: tensor_leave must precede it", op.name, open[#open].name)
    end
    before = op
  end
  report()
end

--- Whether an operator computes the dense MLP's width for every token, and not the experts' width for top_k copies.
local function is_dense(op, c, with)
  local own = architecture.overlay(c, with)
  local s, top_k = op.shape(own), own.top_k
  if not (s.tokens and s.width and top_k) then return false end
  local each = shapes.tokens(c) / c.tp
  return s.tokens * s.width == each * c.ffn and c.ffn ~= top_k * (own.moe_ffn or c.ffn)
end

--- Warnings of activations between two products of experts that have the dense width.
local function activations(ops, c, warn)
  local between = nil -- entries since a product of experts
  for _, entry in ipairs(ops) do
    local op = entry.op and operator.get(entry.op)
    if op and operator.products[op.family] then
      for _, inner in ipairs(op.experts and between or {}) do
        local activation = operator.get(inner.op)
        if is_dense(activation, c, inner.with) then
          warn("%s between products of experts has the width of the dense MLP; with = blocks.expert_width(hyper) gives "
            .. "the experts' width", activation.name)
        end
      end
      between = op.experts and {} or nil
    elseif op and op.family == "elementwise" and between then
      between[#between + 1] = entry
    end
  end
end

--- Warnings of operators that read more values of a token than the one before gives: in an MLP, perhaps only one
--- entry changes `ffn`. Fewer values are a part. The output width of a user's operator is unknown. A product outside
--- tensor-parallel regions may give one of the two inputs of a gated activation (the gate of per-layer inputs).
local function widths(ops, c, warn)
  local function shape_of(entry, family)
    local op = entry and entry.op and operator.get(entry.op)
    if not op or op.family ~= family or op.experts or not find.is_installed(op.path) then return {} end
    return op.shape(architecture.overlay(c, entry.with)), op
  end
  local function compare(giver, given, reader, read)
    if given and read and given < read then
      warn("%s gives %d values of a token on a tensor rank, but %s reads %d", giver, given, reader, read)
    end
  end
  for i, entry in ipairs(ops) do
    local s, op = shape_of(entry, "elementwise")
    if s.width then
      local before, first = shape_of(ops[i - 1], "gemm")
      local after, second = shape_of(ops[i + 1], "gemm")
      local inputs = op.gated and first and first.region and 2 or 1
      compare(first and first.name, before.out_features, op.name, s.width * inputs)
      compare(op.name, s.width, second and second.name, after.channels or after.in_features)
    end
  end
end

-- The fields of a configuration that an operator reads.
local function fields_read(op, own)
  local read = {}
  local watched = setmetatable({}, { __index = function(_, field)
    read[field] = true
    return own[field]
  end, __pairs = function()
    for field in pairs(own) do read[field] = true end
    return pairs(own)
  end })
  local shape = op.shape(watched)
  if op.model_flops then op.model_flops(shape, watched) end
  if op.refuse then op.refuse(watched) end
  return read
end

--- Warnings of products of gate and up before an activation that is not gated: their parameters and FLOPs are twice as
--- many as the layer needs.
local function gates(ops, c, warn)
  for i, entry in ipairs(ops) do
    local op, second = entry.op and operator.get(entry.op), ops[i + 1] and ops[i + 1].op
    if op and op.family == "gemm" and find.is_installed(op.path) and second then
      local own = architecture.overlay(c, entry.with)
      second = operator.get(second)
      if own.gated_mlp and second.family == "elementwise" and not second.gated and find.is_installed(second.path)
        and fields_read(op, own).gated_mlp then
        warn("%s gives gate and up, because gated_mlp is true, but %s is not gated; with = { gated_mlp = false } gives "
          .. "one of them", op.name, second.name)
      end
    end
  end
end

--- Warnings of unknown fields in an entry's table `with` that its operator does not read.
local function unread(ops, c, warn, known)
  for _, entry in ipairs(ops) do
    local op, read = entry.op and operator.get(entry.op), nil
    for _, field in ipairs(op and type(entry.with) == "table" and schema.keys(entry.with) or {}) do
      if not known[field] then
        read = read or fields_read(op, architecture.overlay(c, entry.with))
        if not read[field] then
          warn("%s does not read '%s', which its 'with' sets%s", op.name, field,
            error_module.suggestion(field, schema.keys(known)))
        end
      end
    end
  end
end

--- A warning of a layer whose stream has another size than the model's and that does not say what stages send.
local function unstated_stream(layer, c, warn)
  if layer.sends or layer.place ~= "middle" then return end
  local own
  for _, entry in ipairs(layer.ops) do
    if entry.op and operator.get(entry.op).residual then own = architecture.overlay(c, entry.with) end
  end
  if own and own.seq * own.micro_batch * own.hidden ~= c.seq * c.micro_batch * c.hidden then
    warn("'with' changes its stream (seq = %d, hidden = %d, micro_batch = %d), but it has no 'sends'. Set 'sends' to "
      .. "the number of tokens that a stage sends; recomputed layers store as many.", own.seq, own.hidden,
      own.micro_batch)
  end
end

--- A warning of operators with `reused` that no earlier entry runs with weights of its own.
---@param first table<table, boolean> operators that have run with weights of their own; the layer adds its own
local function without_first_run(layer, first, warn)
  local names, named = {}, {}
  for _, entry in ipairs(layer.ops) do
    local op = entry.op and operator.get(entry.op)
    if op and not entry.reused then
      first[op] = true
    elseif op and op.parameters and not (first[op] or named[op]) then
      names[#names + 1], named[op] = op.name, true
    end
  end
  if #names > 0 then
    warn("no earlier entry without 'reused' has the weights of %s, so they count as 0. Remove 'reused' from the first "
      .. "run.", table.concat(names, ", "))
  end
end

--- A warning of a window that no layer has: attention of a hybrid, or other mixers in place of attention.
local function idle_window(model, c)
  if not c.window then return nil end
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.ops) do
      if entry.op and operator.get(entry.op).attends and architecture.overlay(c, entry.with).window then return nil end
    end
  end
  return ("window = %d has no effect: no layer has it; in layer_types it is 'sliding_attention'"):format(c.window)
end

--- The warnings of a model's layers on one device of a plan.
---@param c table from architecture.configuration
---@return string[]
return function(model, c)
  local list, seen, first, known = {}, {}, {}, merged(c, hyper_parameters.entry_fields)
  for _, rules in pairs(operator.configuration) do known = merged(known, rules) end
  for _, layer in ipairs(model.layers) do
    local function warn(form, ...) list[#list + 1] = ("layer '%s': " .. form):format(layer.name, ...) end
    for _, check in ipairs(seen[layer.ops] and {} or { exchanges, regions, partial_sums, activations, widths,
      gates, unread }) do
      check(layer.ops, c, warn, known)
    end
    unstated_stream(layer, c, warn)
    without_first_run(layer, first, warn)
    seen[layer.ops] = true
  end
  list[#list + 1] = idle_window(model, c)
  return list
end
