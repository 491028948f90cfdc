--- Architectures: from hyper-parameters to layers, and from layers to what one device runs.
--
--   local model = architecture.new("llama", { layers = 32, hidden = 4096, heads = 32, vocab = 32000 })
--   local c = architecture.configuration(model.hyper, { tp = 2, micro_batch = 4, seq = 4096, dtype = "bf16" })
--   for _, layer in ipairs(model.layers) do architecture.operations(layer, c) end
--
-- A layer is { name, count, place = "first" | "middle" | "last", ops = { … } }; an entry of ops is
-- an operator's name, { op = name, times =, selective =, beside = "dispatch" | "combine", with = { fields
-- of c } or a function of c that returns them }, or { collective = name, … } as ett.collective knows them.
-- beside: needs nothing of the experts and may run beside that all-to-all (shared experts).
local collective = require "ett.operator.collective"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local operator = require "ett.operator"
local schema = require "ett.base.schema"

local architecture = {}

--- Fields that hyper-parameters may have, whatever the architecture. Their largest values are ten
--- times and more what anybody has built; they keep every count of parameters within 64 bits.
architecture.hyper_schema = {
  layers = "count", hidden = "count", heads = "count", vocab = "count",
  kv_heads = "count?", head_dim = "count?", ffn = "count?", vocab_multiple = "count?",
  gated_mlp = "boolean?", bias = "boolean?", qkv_bias = "boolean?", attention_bias = "boolean?",
  mlp_bias = "boolean?", head_bias = "boolean?", norm_bias = "boolean?", causal = "boolean?",
  window = "count?", window_every = "count?",
  norm = { "string", optional = true, one_of = { "layer_norm", "rms_norm" } },
  activation = { "string", optional = true, one_of = { "gelu", "swiglu", "geglu" } },
  attention = { "string", optional = true,
    one_of = { "flash", "fused_softmax", "unfused" } },
  position = { "string", optional = true, one_of = { "rope", "learned", "alibi", "none" } },
  rotary_fraction = "fraction?", parallel_block = "boolean?", tied_embeddings = "boolean?",
  dropout = "boolean?", max_positions = "count?", qk_norm = "boolean?", qk_norm_whole = "boolean?",
  shared_norm = "boolean?", post_norms = "boolean?", embedding_norm = "boolean?",
  q_lora_rank = "count?", kv_lora_rank = "count?", qk_nope_head_dim = "count?", qk_rope_head_dim = "count?",
  v_head_dim = "count?",
  experts = "count?", top_k = "count?", moe_ffn = "count?", shared_experts = "natural?", shared_ffn = "count?",
  expert_groups = "count?", top_groups = "count?",
  first_dense_layers = "natural?", moe_every = "count?", encoder_function_list = "list?",
}
for field, most in pairs { layers = 1 << 16, hidden = 1 << 20, heads = 1 << 14, vocab = 1 << 26, kv_heads = 1 << 14,
  head_dim = 1 << 14, ffn = 1 << 22, vocab_multiple = 1 << 20, max_positions = 1 << 26, q_lora_rank = 1 << 20,
  kv_lora_rank = 1 << 20, qk_nope_head_dim = 1 << 14, qk_rope_head_dim = 1 << 14, v_head_dim = 1 << 14,
  experts = 1 << 16, top_k = 1 << 16, moe_ffn = 1 << 20, shared_experts = 1 << 10, shared_ffn = 1 << 22,
  expert_groups = 1 << 16, top_groups = 1 << 16, first_dense_layers = 1 << 16, moe_every = 1 << 16 } do
  local kind = architecture.hyper_schema[field]
  architecture.hyper_schema[field] = { (kind:gsub("%?$", "")), optional = kind:sub(-1) == "?", most = most }
end

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
    schema.check(entry, { op = "string", times = "count?", selective = "boolean?", with = "any?",
      beside = { "string", optional = true, one_of = { "dispatch", "combine" } } }, label)
    if entry.with ~= nil and type(entry.with) ~= "table" and type(entry.with) ~= "function" then
      error_module.raise("model", "%s: field 'with' must be a table or a function, got %s", label,
        schema.describe(entry.with))
    end
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
  if type(source) ~= "string" and type(source) ~= "function" then
    error_module.raise("argument", "an architecture must be a name (%s) or a function of hyper-parameters, got %s",
      table.concat(architecture.names(), ", "), schema.describe(source))
  end
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
  if clean.activation then
    local gated = clean.activation ~= "gelu"
    if clean.gated_mlp ~= nil and clean.gated_mlp ~= gated then
      error_module.raise("model", "%s: activation = '%s' contradicts gated_mlp = %s; give one of them", tostring(name),
        clean.activation, tostring(clean.gated_mlp))
    end
    clean.gated_mlp = gated
  end
  local latent = {}
  for _, field in ipairs { "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim" } do
    if clean[field] == nil then latent[#latent + 1] = field end
  end
  if #latent > 0 and #latent < 4 then
    error_module.raise("model", "%s: multi-head latent attention also needs '%s'", tostring(name),
      table.concat(latent, "', '"))
  elseif #latent == 0 then
    clean.head_dim = clean.qk_nope_head_dim + clean.qk_rope_head_dim
  end
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
  local body = require "ett.model.list"
  return architecture.new(function(clean) return body(names, clean) end, hyper)
end

-- Hyper-parameters that operators see.
local configured = { "hidden", "heads", "kv_heads", "head_dim", "vocab", "vocab_multiple", "experts", "top_k",
  "moe_ffn", "layers", "gated_mlp", "bias", "qkv_bias", "attention_bias", "mlp_bias", "head_bias", "norm_bias",
  "causal", "window", "rotary_fraction", "tied_embeddings", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
  "qk_rope_head_dim", "v_head_dim", "expert_groups", "top_groups" }

--- What one device of a plan sees of a layer: the `c` of operator files.
---@param hyper table checked hyper-parameters
---@param plan table tp, cp, ep, etp, micro_batch, seq, sequence_parallel, dtype
function architecture.configuration(hyper, plan)
  local c = {}
  for _, key in ipairs(configured) do c[key] = hyper[key] end
  c.ffn = hyper.ffn or 4 * hyper.hidden
  c.tp, c.cp, c.ep, c.etp = plan.tp or 1, plan.cp or 1, plan.ep or 1, plan.etp
  c.micro_batch, c.seq, c.dtype = plan.micro_batch, plan.seq, plan.dtype or "bf16"
  c.sequence_parallel = plan.sequence_parallel or false
  return c
end

local function overlay(c, with)
  if not with then return c end
  if type(with) == "function" then with = with(c) end
  local own = {}
  for key, value in pairs(c) do own[key] = value end
  for key, value in pairs(with) do own[key] = value end
  return own
end

--- What one device runs for one layer: a flat list of
---   { kind = "operator", name, operator, shape, times, selective, role }
---   { kind = "collective", name, group, degree, bytes, pass, times, overlapped, role }
--- role: what it is to the all-to-alls of experts (ett_role of runtime/step/program.h). What stands
--- between a first expert_exchange and a second are experts.
---@param layer table a layer of a model
---@param c table from architecture.configuration
function architecture.operations(layer, c)
  local list, among_experts = {}, false
  for _, entry in ipairs(layer.ops) do
    if entry.op then
      local op = operator.get(entry.op)
      local s = error_module.wrap(op.name, op.shape, overlay(c, entry.with))
      list[#list + 1] = { kind = "operator", name = op.name, operator = op, shape = s,
        times = entry.times or 1, selective = entry.selective or false,
        role = entry.beside and "beside_" .. entry.beside or among_experts and "expert" or "outside" }
    else
      local exchange = entry.collective == "expert_exchange"
      if exchange then among_experts = not among_experts end
      for _, item in ipairs(collective.expand(entry, overlay(c, entry.with))) do
        item.role = exchange and "exchange" or "alone"
        list[#list + 1] = item
      end
    end
  end
  return list
end

--- Parameters of the whole model (no parallelism), as built: an integer while that is exact.
function architecture.parameters(model)
  local c = architecture.configuration(model.hyper, { tp = 1, micro_batch = 1, seq = 1 })
  c.vocab_multiple = 1
  local total, rounded = 0, 0.0
  for _, layer in ipairs(model.layers) do
    for _, item in ipairs(architecture.operations(layer, c)) do
      if item.kind == "operator" and item.operator.parameters then
        local own = item.operator.parameters(item.shape)
        total = total + layer.count * item.times * own
        rounded = rounded + (layer.count + 0.0) * item.times * own
      end
    end
  end
  return rounded < 2 ^ 53 and total or rounded
end

--- Names of every architecture found.
function architecture.names() return find.names("lua/architectures") end

return architecture
