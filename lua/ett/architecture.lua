--- Architectures: from hyper-parameters to layers, and from layers to what one device runs.
--
--   local model = architecture.new("llama", { layers = 32, hidden = 4096, heads = 32, vocab = 32000 })
--   local c = architecture.configuration(model.hyper, { tp = 2, micro_batch = 4, seq = 4096, dtype = "bf16" })
--   for _, layer in ipairs(model.layers) do architecture.operations(layer, c) end
--
-- A layer is { name, count, place = "first" | "middle" | "last", ops = { … } }; an entry of ops is
-- an operator's name, { op = name, times =, selective =, with = { fields of c } }, or
-- { collective = name, … } as ett.collective knows them.
local collective = require "ett.collective"
local error_module = require "ett.error"
local find = require "ett.find"
local operator = require "ett.operator"
local schema = require "ett.schema"

local architecture = {}

--- Fields that hyper-parameters may have, whatever the architecture.
architecture.hyper_schema = {
  layers = "count", hidden = "count", heads = "count", vocab = "count",
  kv_heads = "count?", head_dim = "count?", ffn = "count?", vocab_multiple = "count?",
  gated_mlp = "boolean?", bias = "boolean?", qkv_bias = "boolean?", causal = "boolean?", window = "count?",
  norm = { "string", optional = true, one_of = { "layer_norm", "rms_norm" } },
  activation = { "string", optional = true, one_of = { "gelu", "swiglu", "geglu" } },
  attention = { "string", optional = true,
    one_of = { "flash", "fused_softmax", "unfused" } },
  position = { "string", optional = true, one_of = { "rope", "learned", "none" } },
  rotary_fraction = "fraction?", parallel_block = "boolean?", tied_embeddings = "boolean?",
  dropout = "boolean?", max_positions = "count?", qk_norm = "boolean?",
  experts = "count?", top_k = "count?", moe_ffn = "count?", shared_experts = "natural?",
  first_dense_layers = "natural?", moe_every = "count?", encoder_function_list = "list?",
}

--- Fields of an architecture's own, declared by its file, join the common ones.
local function check_hyper(hyper, own, label)
  local fields = {}
  for name, rule in pairs(architecture.hyper_schema) do fields[name] = rule end
  for name, rule in pairs(own or {}) do fields[name] = rule end
  return schema.check(hyper, fields, label)
end

local places = { first = 1, middle = 2, last = 3 }

local function check_entry(entry, label)
  if type(entry) == "string" then entry = { op = entry } end
  if type(entry) ~= "table" then
    error_module.raise("model", "%s: an entry must be an operator's name or a table, got %s", label,
      schema.describe(entry))
  end
  if entry.op ~= nil then
    schema.check(entry, { op = "string", times = "count?", selective = "boolean?", with = "table?" }, label)
    operator.get(entry.op)
  elseif entry.collective ~= nil then
    collective.check_entry(entry, label)
  else
    error_module.raise("model", "%s: an entry needs the field 'op' or 'collective'", label)
  end
  return entry
end

--- Checks layers and makes every entry a table.
local function check_layers(layers, label)
  if type(layers) ~= "table" or #layers == 0 then
    error_module.raise("model", "%s: must return a table with a non-empty list 'layers'", label)
  end
  local checked, last_place = {}, 1
  for i, layer in ipairs(layers) do
    local where = ("%s: layer %d"):format(label, i)
    local clean = schema.check(layer, { name = "string", count = { "count", default = 1 },
      place = { "string", default = "middle", one_of = { "first", "middle", "last" } }, ops = "list" }, where)
    if places[clean.place] < last_place then
      error_module.raise("model", "%s: place '%s' stands behind a later one", where, clean.place)
    end
    last_place = places[clean.place]
    local ops = {}
    for k, entry in ipairs(clean.ops) do
      ops[k] = error_module.wrap(("%s (%s): entry %d"):format(where, clean.name, k), check_entry, entry, "entry")
    end
    clean.ops = ops
    checked[i] = clean
  end
  return checked
end

--- Builds a model of an architecture found by name (or given as a function).
---@param source string|function
---@param hyper table
---@return table model { name, hyper, layers }
function architecture.new(source, hyper)
  local name, build = source, source
  if type(source) == "string" then
    build = find.load("lua/architectures", source)
  else
    name = "architecture"
  end
  local own
  if type(build) == "table" then own, build = build.schema, build.build end
  if type(build) ~= "function" then
    error_module.raise("model", "%s: an architecture file must return a function of hyper-parameters, or "
      .. "{ schema =, build = }", tostring(name))
  end
  local clean = check_hyper(hyper, own, tostring(name))
  clean.kv_heads = clean.kv_heads or clean.heads
  if not clean.head_dim then
    if clean.hidden % clean.heads ~= 0 then
      error_module.raise("model", "%s: heads = %d must divide hidden = %d, or give head_dim", tostring(name),
        clean.heads, clean.hidden)
    end
    clean.head_dim = clean.hidden // clean.heads
  end
  if clean.heads % clean.kv_heads ~= 0 then
    error_module.raise("model", "%s: kv_heads = %d must divide heads = %d", tostring(name), clean.kv_heads,
      clean.heads)
  end
  local built = error_module.wrap(tostring(name), build, clean)
  return { name = tostring(name), hyper = clean, layers = check_layers(built and built.layers, tostring(name)) }
end

--- A model from a list of plain operator names: the reference's encoder_function_list. Embedding,
--- final norm, head and loss are added; tensor-parallel collectives stand around each pair of a
--- column- and a row-parallel linear.
---@param names string[]
---@param hyper table
function architecture.from_list(names, hyper)
  local body = require "ett.architecture_list"
  return architecture.new(function(clean) return body(names, clean) end, hyper)
end

--- What one device of a plan sees of a layer: the `c` of operator files.
---@param hyper table checked hyper-parameters
---@param plan table tp, cp, ep, etp, micro_batch, seq, sequence_parallel, dtype
function architecture.configuration(hyper, plan)
  local c = {}
  for _, key in ipairs { "hidden", "heads", "kv_heads", "head_dim", "vocab", "vocab_multiple", "experts", "top_k",
    "moe_ffn", "layers", "gated_mlp", "bias", "qkv_bias", "causal", "window", "rotary_fraction", "tied_embeddings" } do
    c[key] = hyper[key]
  end
  c.ffn = hyper.ffn or 4 * hyper.hidden
  c.tp, c.cp, c.ep, c.etp = plan.tp or 1, plan.cp or 1, plan.ep or 1, plan.etp
  c.micro_batch, c.seq, c.dtype = plan.micro_batch, plan.seq, plan.dtype or "bf16"
  c.sequence_parallel = plan.sequence_parallel or false
  return c
end

local function overlay(c, with)
  if not with then return c end
  local own = {}
  for key, value in pairs(c) do own[key] = value end
  for key, value in pairs(with) do own[key] = value end
  return own
end

--- What one device runs for one layer: a flat list of
---   { kind = "operator", name, operator, shape, times, selective }
---   { kind = "collective", name, group, degree, bytes, pass, times, overlapped }
---@param layer table a layer of a model
---@param c table from architecture.configuration
function architecture.operations(layer, c)
  local list = {}
  for _, entry in ipairs(layer.ops) do
    if entry.op then
      local op = operator.get(entry.op)
      local s = error_module.wrap(op.name, op.shape, overlay(c, entry.with))
      list[#list + 1] = { kind = "operator", name = op.name, operator = op, shape = s,
        times = entry.times or 1, selective = entry.selective or false }
    else
      for _, item in ipairs(collective.expand(entry, overlay(c, entry.with))) do list[#list + 1] = item end
    end
  end
  return list
end

--- Parameters of the whole model (no parallelism), as built.
function architecture.parameters(model)
  local c = architecture.configuration(model.hyper, { tp = 1, micro_batch = 1, seq = 1 })
  c.vocab_multiple = 1
  local total = 0
  for _, layer in ipairs(model.layers) do
    for _, item in ipairs(architecture.operations(layer, c)) do
      if item.kind == "operator" and item.operator.parameters then
        total = total + layer.count * item.times * item.operator.parameters(item.shape)
      end
    end
  end
  return total
end

--- Names of every architecture found.
function architecture.names() return find.names("lua/architectures") end

return architecture
