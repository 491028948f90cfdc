--- Architectures: build layers from hyper-parameters, and the operations of one device from layers.
--
--   local model = architecture.new("llama", { layers = 32, hidden = 4096, heads = 32, vocab = 32000 })
--   local c = architecture.configuration(model.hyper, { tp = 2, micro_batch = 4, seq = 4096, dtype = "bf16" })
--   for _, layer in ipairs(model.layers) do architecture.operations(layer, c) end
--
-- A layer is { name, count, place = "first" | "middle" | "prediction" | "last", ops = { … } }.
-- lua/architectures/README.md describes the entries of ops.
local collective = require "ett.operator.collective"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local hyper_parameters = require "ett.model.hyper"
local layers_of_list = require "ett.model.list"
local merged = require "ett.base.merged"
local modules = require "ett.operator.modules"
local operator = require "ett.operator"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"

operator.configuration.model = hyper_parameters.fields

local architecture = {}

local products = operator.products

local places = { first = 1, middle = 2, prediction = 3, last = 4 }

local entry_fields = { op = "string", times = { "count", optional = true, most = 1 << 16 }, selective = "boolean?",
  with = "any?", when = "function?", same_input = "boolean?", reused = "boolean?",
  module = { "string", optional = true, one_of = modules.names },
  tensor = { "string", optional = true, one_of = schema.keys(modules.tensors) },
  beside = { "string", optional = true, one_of = { "dispatch", "combine" } } }

local plan_counts = {} -- fields of the plan that `with` may change
for _, name in ipairs { "seq", "micro_batch", "tp", "cp", "ep", "etp", "pp", "dp" } do plan_counts[name] = "count" end

local function is_optional(rule)
  if type(rule) == "string" then return rule:sub(-1) == "?" end
  return rule.optional or rule.default ~= nil
end

local declare = "A field of your own needs an entry in the architecture's schema"

-- The known field that an unknown one probably means: its name in other software, or a misspelt one. Else nil.
local function meant(key, rules, known)
  return schema.meant(key, rules) or error_module.misspelt(tostring(key), known)
end

-- Raises if a field of `with`, or of the hyper-parameters after `build`, has a wrong value, or probably means a known
-- one. False takes an optional field away. Other fields may belong to a user's operator.
local function check_with(with, rules, where)
  for key, value in pairs(with) do
    local rule = rules[key] or hyper_parameters.entry_fields[key] or plan_counts[key]
    if rule and not (value == false and is_optional(rule)) then
      schema.check_value(value, rule, ("%s: field '%s'"):format(where, key))
    elseif not rule and #tostring(key) > 3 then
      local known = schema.keys(rules)
      for field in pairs(hyper_parameters.entry_fields) do known[#known + 1] = field end
      local near = meant(key, rules, known)
      if near then
        error_module.raise("model", "%s: unknown field '%s'; did you mean '%s'? %s", where, tostring(key), near,
          declare)
      end
    end
  end
  return with
end

-- An entry with its `when` and `with` checked: a table now, the results of functions when they are called.
local function with_checked(entry, rules)
  if entry.when then
    entry = merged(entry, { when = schema.returning(entry.when, "boolean", ("%s: 'when'"):format(entry.op)) })
  end
  local with, name = entry.with, entry.op or entry.collective
  if type(with) == "table" then
    check_with(with, rules, "'with'")
  elseif type(with) == "function" then
    local where = ("%s: 'with'"):format(name)
    local call = schema.returning(with, "table", where)
    where = ("%s: %s"):format(schema.place(with), where)
    return merged(entry, { with = function(c) return check_with(call(c), rules, where) end })
  elseif with ~= nil then
    error_module.raise("model", "field 'with' must be a table or a function, got %s", schema.describe(with))
  end
  return entry
end

-- Raises for an unknown operator that lies beside the architecture's file.
local function check_beside(name, path)
  local folder = path and not find.is_installed(path) and path:match "^(.*)/[^/]*$"
  local beside = folder and type(name) == "string" and not operator.find(name)
    and find.beside("operators", name, folder)
  if beside then error_module.raise("missing", "unknown operator '%s'%s", name, beside) end
end

local function check_entry(entry, rules, path)
  if type(entry) == "string" then entry = { op = entry } end
  if type(entry) ~= "table" then
    error_module.raise("model", "must be an operator's name or a table, got %s", schema.describe(entry))
  end
  if entry.op == nil and entry.collective == nil then
    error_module.raise("model", "needs the field 'op' or 'collective'%s",
      entry[1] and "; ett.model.blocks.join makes one list of names, entries and lists" or "")
  end
  if entry.op ~= nil then
    schema.check(entry, entry_fields)
    check_beside(entry.op, path)
    if operator.get(entry.op).family == "optimizer" then
      error_module.raise("model", "'%s' updates weights and belongs to no layer; an estimate adds it", entry.op)
    end
  else
    collective.check_entry(entry)
  end
  return with_checked(entry, rules)
end

--- The entries of a layer, with the operators that move tokens to experts and back (`moves` of an operator file). If a
--- layer lists its router and neither of the two, both are added. The first follows the router. The other follows the
--- second all-to-all of experts, or the last operator of experts.
local function with_moves(entries)
  local named, routers = {}, 0
  for _, entry in ipairs(entries) do
    local op = entry.op and operator.get(entry.op)
    if op then named[op.name], routers = true, routers + (op.moves and 1 or 0) end
  end
  local list, back, exchanges, last = {}, nil, 0, nil
  local function close()
    if back then table.insert(list, last + 1, back) end
    back = nil
  end
  for _, entry in ipairs(routers > 0 and entries or {}) do
    local op = entry.op and operator.get(entry.op)
    list[#list + 1] = entry
    if op and op.moves and not (named[op.moves[1]] or named[op.moves[2]]) then
      close()
      list[#list + 1] = merged(entry, { op = op.moves[1] })
      back, exchanges, last = merged(entry, { op = op.moves[2] }), 0, #list
    elseif op and op.experts then
      last = #list
    elseif entry.collective == "expert_exchange" then
      exchanges, last = exchanges + 1, #list
      if exchanges == 2 then close() end
    end
  end
  close()
  return routers > 0 and list or entries
end

--- The entries of a layer. If the layer lists no exchange of keys and values over context-parallel ranks, one is added
--- before each operator that attends to all tokens (`attends` of an operator file).
local function with_exchange(entries)
  local list = {}
  for _, entry in ipairs(entries) do
    if entry.collective == "context_exchange" then return entries end
    if entry.op and operator.get(entry.op).attends then
      list[#list + 1] = { collective = "context_exchange", with = entry.with, times = entry.times }
    end
    list[#list + 1] = entry
  end
  return list
end

local layer_fields = { name = "string", count = { "count", default = 1 }, ops = "list", sends = "function?",
  reads = "function?", shares = "function?",
  frozen = { "string", optional = true, one_of = { "layer", "weights" } },
  place = { "string", default = "middle", one_of = { "first", "middle", "prediction", "last" } } }

--- Checks the result of a build function and makes every entry a table.
local function check_built(built, label, rules, path)
  if type(built) ~= "table" or type(built.layers) ~= "table" or #built.layers == 0 then
    error_module.raise("model", "%s: must return a table with a non-empty list 'layers'", label)
  end
  schema.check(built, { layers = "list" }, label)
  local checked, last_place, known = {}, 1, {} -- layers that share a list of entries share the checked one
  for i, layer in ipairs(built.layers) do
    local where = ("%s: layer %d"):format(label, i)
    local clean = schema.check(layer, layer_fields, where)
    if places[clean.place] < last_place then
      error_module.raise("model", "%s: place '%s' must not follow a later place", where, clean.place)
    end
    last_place = places[clean.place]
    if not known[layer.ops] then
      local ops = {}
      for k, entry in ipairs(clean.ops) do
        ops[k] = error_module.wrap(("%s (%s): entry %d"):format(where, clean.name, k), check_entry, entry, rules,
          path)
      end
      known[layer.ops] = with_exchange(with_moves(ops))
    end
    clean.ops = known[layer.ops]
    for _, field in ipairs { "sends", "reads", "shares" } do
      clean[field] = clean[field]
        and schema.returning(clean[field], "nonnegative", ("layer %d (%s): %s"):format(i, clean.name, field), path)
    end
    checked[i] = clean
  end
  return checked
end

local file_fields = { schema = "table?", build = "function", summary = "string?", source = "string?" }

--- Loads an architecture: { name, build, own = rules of its own fields, path }.
---@param source string|function a name, or a function of hyper-parameters
local function load_source(source)
  if type(source) == "function" then return { name = "architecture", build = source } end
  if type(source) ~= "string" then
    error_module.raise("argument", "an architecture must be a name (%s) or a function of hyper-parameters, got %s",
      table.concat(architecture.names(), ", "), schema.describe(source))
  end
  local value, path
  if source:match "%.lua$" then
    value, path, source = find.load_file(source), source, find.name_of(source)
  else
    value, path = find.load("lua/architectures", source)
  end
  if type(value) == "function" then return { name = source, build = value, path = path } end
  local label = find.label(path)
  if type(value) ~= "table" then
    error_module.raise("model", "%s: an architecture file must return a function of hyper-parameters, or "
      .. "{ schema =, build = }, got %s", label, schema.describe(value))
  end
  schema.check(value, file_fields, label)
  error_module.wrap(label .. ": schema", schema.check_rules, value.schema or {})
  return { name = source, build = value.build, own = value.schema, path = path }
end

--- Rules of every hyper-parameter of an architecture, and the rules that its file declares.
---@return table all, table own
function architecture.fields(source)
  local own = load_source(source).own or {}
  return hyper_parameters.fields_with(own), own
end

-- Whether a user's operator with a backward pass does not state its stored bytes.
local function stores_nothing(op)
  return not (op.activation_bytes or find.is_installed(op.path)) and #op.passes > 1
end

--- The notes that the layers' operators declare about their times, each note once, and notes of operators without
--- activation_bytes.
local function notes_of(layers)
  local notes, seen = {}, {}
  for _, layer in ipairs(layers) do
    for _, entry in ipairs(layer.ops) do
      local op = entry.op and not seen[entry.op] and operator.get(entry.op)
      if op and op.note then notes[#notes + 1] = ("%s: %s"):format(op.name, op.note) end
      if op and stores_nothing(op) then
        notes[#notes + 1] = ("%s: has no activation_bytes; its backward pass counts no stored bytes"):format(op.name)
      end
      seen[entry.op or 0] = true
    end
  end
  return notes
end

--- The layers that `build` makes of hyper-parameters. While it runs, reading an unknown field raises an error if it
--- probably means a known one. Otherwise the name would read as nil, and a default would replace it.
local function built_of(loaded, clean, rules)
  setmetatable(clean, { __index = function(_, key)
    if rules[key] or hyper_parameters.layer_fields[key] or type(key) ~= "string" or #key <= 3 then return nil end
    local near = meant(key, rules, schema.keys(rules))
    if near then
      error_module.raise("model", "%sreads the unknown hyper-parameter '%s'; did you mean '%s'? %s",
        error_module.line(2), key, near, declare)
    end
  end })
  local built = error_module.wrap(loaded.name, loaded.build, clean)
  setmetatable(clean, nil)
  return built
end

--- Builds a model of an architecture, found by name or given as a function. Raises on wrong hyper-parameters.
---@param source string|function
---@return table model { name, architecture, hyper, layers, notes }
function architecture.new(source, hyper)
  local loaded = load_source(source)
  local clean = hyper_parameters.check(hyper, loaded.own, loaded.name)
  local norm, gated, rules = clean.norm, clean.gated_mlp, hyper_parameters.fields_with(loaded.own)
  local built = built_of(loaded, clean, rules)
  local names = clean.encoder_function_list
  if names then -- in place of the repeated layers; the list says the norm and the gate where the caller does not
    local usual = clean.norm
    clean.norm, clean.gated_mlp = norm, gated
    built = error_module.wrap(loaded.name, layers_of_list, names, clean, usual)
  end
  local place = schema.place(loaded.build, loaded.path)
  check_with(clean, rules, place .. ": hyper-parameters after 'build'")
  local layers = check_built(built, place, rules, loaded.path)
  local notes = notes_of(layers)
  if clean.position == "learned" and not (clean.max_positions or names) then
    table.insert(notes, 1, "position: learned positions need max_positions; without it their table is not counted")
  end
  return { name = loaded.name, architecture = loaded.name, hyper = clean, layers = layers, notes = notes }
end

--- One layer's dimensions on one device of a plan: the `c` of operator files. It has every hyper-parameter.
---@param hyper table checked hyper-parameters
---@param plan table tp, cp, ep, etp, micro_batch, seq, sequence_parallel, dtype; whole_tokens: ett.step.lower
function architecture.configuration(hyper, plan)
  local c = merged(hyper)
  c.ffn = hyper.ffn or 4 * hyper.hidden
  c.tp, c.cp, c.ep, c.etp = plan.tp or 1, plan.cp or 1, plan.ep or 1, plan.etp
  c.cp_method, c.cp_balanced, c.cp_ulysses = plan.cp_method, plan.cp_balanced, plan.cp_ulysses
  c.micro_batch, c.seq, c.dtype = plan.micro_batch, plan.seq, plan.dtype or "bf16"
  c.sequence_parallel, c.whole_tokens = plan.sequence_parallel or false, plan.whole_tokens
  return c
end

--- The configuration with the fields of an entry's `with` laid over it.
function architecture.overlay(c, with)
  if not with then return c end
  return setmetatable(merged(type(with) == "function" and with(c) or with), { __index = c })
end

local read_by = setmetatable({}, { __mode = "k" })

--- The fields of the configuration that the operators of a model read, without those that `with` replaces: a set. If an
--- operator has no shape in a plain configuration, every field counts as read.
---@return table<string, boolean>
function architecture.reads(model)
  if read_by[model] then return read_by[model] end
  local c, read = architecture.configuration(model.hyper, { tp = 1, micro_batch = 1, seq = 4096 }), {}
  local watched = setmetatable({}, { __index = function(_, field)
    read[field] = true
    return c[field]
  end, __pairs = function()
    for field in pairs(c) do read[field] = true end
    return pairs(c)
  end })
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.ops) do
      local ok = not entry.op or pcall(function()
        return operator.get(entry.op).shape(architecture.overlay(watched, entry.with))
      end)
      if not ok then setmetatable(read, { __index = function() return true end }) end
    end
  end
  read_by[model] = read
  return read
end

--- Share of an operator's work that is its rank's own. If `with` sets tp or cp to less than the plan's, several ranks
--- compute the same. Context ranks do not if the entry still has the tokens of one rank (chunks of a sequence).
local function own_share(c, own)
  local function tokens(of) return (of.micro_batch or 1) * (of.seq or 1) / of.cp end
  local context = own.cp < c.cp and tokens(own) ~= tokens(c) and own.cp / c.cp or 1
  return own.tp < c.tp and context * own.tp / c.tp or context
end

--- Model FLOPs of an operator's forward pass on one rank, if they differ from its FLOPs.
local function model_flops(op, shape, c, own)
  local share = own == c and 1 or own_share(c, own)
  if share == 1 and not op.model_flops then return nil end
  local run = op.flops(shape, "forward")
  local flops = share * (op.model_flops and op.model_flops(shape, own) or run)
  return flops ~= run and flops or nil
end

-- The shape of an operator in a layer.
local function shape_of(op, own, layer)
  local ok, shape = xpcall(op.shape, error_module.traced, own)
  if not ok then error(error_module.label(shape, ("layer '%s': %s"):format(layer.name, op.name)), 0) end
  return shape
end

local reusing = setmetatable({}, { __mode = "k" }) -- operator -> the same, with weights of an earlier run

-- The operator of an entry. If the entry reuses weights, the operator has none of its own.
local function operator_of(entry)
  local op = operator.get(entry.op)
  if not entry.reused then return op end
  if not reusing[op] then
    local same = merged(op, { reused_parameters = op.parameters })
    same.parameters, reusing[op] = nil, same
  end
  return reusing[op]
end

-- The operation of an entry that names an operator. Raises if the operator refuses the plan.
---@param own table the configuration c with the entry's `with`
---@param shapes_of table<table, table> of operators in this layer, of entries without `with`
---@param flops_of table<table, number> model FLOPs of these operators
local function operation_of(entry, c, own, role, layer, shapes_of, flops_of)
  local op = operator_of(entry)
  local shape, flops = own == c and shapes_of[op], flops_of[op]
  if not shape then
    local why = op.refuse and op.refuse(own)
    if why then error_module.raise("plan", "layer '%s': %s: %s", layer.name, op.name, why) end
    shape = shape_of(op, own, layer)
    flops = products[op.family] and model_flops(op, shape, c, own) or nil
    if own == c then shapes_of[op], flops_of[op] = shape, flops end
  end
  local selective = entry.selective
  if selective == nil then selective = op.selective and not entry.module end
  return { kind = "operator", name = op.name, operator = op, times = entry.times or 1, shape = shape,
    model_flops = flops, copies = op.experts and own.top_k and shapes.copies(own),
    module = selective and "core_attn" or entry.module or "", same_input = entry.same_input, role = role,
    tensor = entry.tensor, configuration = own,
    key = nil } -- set later
end

--- The operations of one device for one layer, without entries whose `when` is false: a flat list of
---   { kind = "operator", name, operator, shape, times, module, tensor (name of the output), same_input, role, copies
---     (of tokens, for experts), model_flops (if other than the operator's), configuration (of the entry) }
---   { kind = "collective", name, group, degree, bytes, pass, times, overlapped, module, role }
--- role: the part in the all-to-alls of experts (ett_role of runtime/step/program.h). Operators between two entries
--- `expert_exchange` belong to the experts.
---@param layer table a layer of a model
---@param c table from architecture.configuration
function architecture.operations(layer, c)
  local list, among_experts, shapes_of, flops_of, ops = {}, false, {}, {}, layer.ops
  for i = 1, #ops do
    local entry = ops[i]
    local own = entry.with and architecture.overlay(c, entry.with) or c
    if entry.op then
      local role = entry.beside and "beside_" .. entry.beside or among_experts and "expert" or "outside"
      if not entry.when or entry.when(own) then
        list[#list + 1] = operation_of(entry, c, own, role, layer, shapes_of, flops_of)
      end
    else
      local exchange = entry.collective == "expert_exchange"
      if exchange then among_experts = not among_experts end
      local items, role = collective.expand(entry, own, exchange and not among_experts),
        exchange and "exchange" or "alone"
      for k = 1, #items do
        local item = items[k]
        item.role, item.module = role, entry.module or ""
        list[#list + 1] = item
      end
    end
  end
  return list
end

--- The index of the first layer whose lookup owns the table of the vocabulary; nil: there is none. Tables of positions
--- and types have a `vocab` of their own.
function architecture.table_layer(layers)
  for i, layer in ipairs(layers) do
    for _, entry in ipairs(layer.ops) do
      local own = type(entry.with) == "table" and entry.with.vocab
      if entry.op and not own and operator.get(entry.op).owns_table then return i end
    end
  end
end

--- Parameters of the whole model (no parallelism), as built: an integer if that is exact, else a float.
---@param seq integer? of the plan, if known: operators may divide a sequence into pieces
function architecture.parameters(model, seq)
  local c = architecture.configuration(model.hyper, { tp = 1, micro_batch = 1, seq = seq or 4096 })
  c.vocab_multiple = 1
  local total, rounded = 0, 0.0
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.ops) do
      local op = entry.op and operator_of(entry)
      if op and op.parameters then
        local runs = layer.count * (entry.times or 1)
        local own = op.parameters(shape_of(op, architecture.overlay(c, entry.with), layer))
        total, rounded = total + runs * own, rounded + (runs + 0.0) * own
      end
    end
  end
  return rounded < 2 ^ 53 and total or rounded
end

function architecture.names() return find.names("lua/architectures") end

return architecture
