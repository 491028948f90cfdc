--- Estimates a configuration of estimate-train-time as that tool does: `ett predict --composition reference`.
--
-- composition.lua holds the arithmetic. This module reads the configuration and lists the operators and collectives to
-- time. The times come from recorded model calls (`--timings`) or from a profile (source.lua).
local error_module = require "ett.base.error"
local composition = require "ett.import.estimate_train_time.composition"
local json = require "ett.json"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"

local reference = {}

local stages = { "head", "middle", "tail" }
local optimizers = { "firstStage_optimizer", "middleStage_optimizer", "lastStage_optimizer" }
local training_fields = { "pp", "mp", "dp", "b", "h", "l", "dim", "steps_per_update", "gpus_per_node" }

-- Converts to a number, also strings left by a YAML 1.1 reader ("1.26e9").
local function to_number(value)
  if type(value) == "string" then value = tonumber(value) or value end
  if math.type(value) == "float" and value == math.floor(value) and math.abs(value) < 2 ^ 53 then
    return math.tointeger(value)
  end
  return value
end

reference.schema = {
  gpu_name = "string",
  operator_data_folder = "string",
  nccl_data_folder = "string",
  training_config = "list",
  comm_bucket = "count",
  encoders = "count",
  function_list = "list",
  encoder_function_list = "list",
  layernorm_name = "string",
  fwd_syncs = "natural",
  bwd_syncs = "natural",
}

--- Limits of size fields and of the number of encoders; they keep products below 2^63.
local size_limit, encoder_limit = 10000000, 1000

local function check_names(config, key, found)
  for i, name in ipairs(config[key] or {}) do
    if type(name) ~= "string" then
      found[#found + 1] = ("field '%s[%d]' must be the name of an operator, got %s"):format(key, i,
        schema.describe(name))
    end
  end
end

local function check_operator(name, i, found)
  local operator = require "ett.operator"
  local op = operator.find(name)
  if not op then
    local ok, raised = pcall(operator.get, name)
    found[#found + 1] = ("field 'function_list[%d]': %s"):format(i, ok and "unknown operator" or raised.message)
  elseif op.family == "optimizer" then
    found[#found + 1] = ("field 'function_list[%d]': '%s' is timed separately, once per step; remove it"):format(i,
        name)
  end
end

local function check_operators(config, found)
  for i, name in ipairs(config.function_list) do check_operator(name, i, found) end
  local has = {}
  for _, name in ipairs(config.function_list) do has[name] = true end
  local function want(name, who)
    if type(name) == "string" and not has[name] then
      has[name] = true
      found[#found + 1] = ("field 'function_list': lacks '%s', which %s needs; add it%s"):format(name, who,
        error_module.suggestion(name, config.function_list))
    end
  end
  for i, name in ipairs(config.encoder_function_list) do want(name, ("encoder_function_list[%d]"):format(i)) end
  want(config.layernorm_name, "layernorm_name")
  want("embedding", "the first stage")
  want("linear_final", "the last stage")
  want("parallel_cross_entropy_128", "the last stage")
end

local function decoded(reader, path)
  schema.argument(path, "string", "ett.reference", "path")
  local value, err = require(reader).read(path)
  if value == nil and err ~= nil then error(error_module.from(err), 0) end
  return value
end

function reference.read(path)
  local text = type(path) == "string" and require("ett.io").read(path, 1 << 20)
  if text then error_module.wrap(path, require("ett.import.formats").check, path, text, "--config") end
  return decoded("ett.yaml", path)
end

function reference.read_json(path) return decoded("ett.json", path) end

--- Checks a decoded configuration and reports all violations at once. Returns a copy whose `plan` holds the fields of
--- training_config.
---@param config table decoded YAML
---@param label string the file's name, for messages
function reference.check(config, label)
  if type(config) ~= "table" then
    error_module.raise("model", "%s: must hold a table of named fields, got %s", label, schema.describe(config))
  end
  local given = merged(config)
  for _, key in ipairs { "comm_bucket", "encoders", "fwd_syncs", "bwd_syncs" } do
    given[key] = to_number(given[key])
  end
  local found, clean = schema.violations(given, reference.schema)
  local plan = {}
  if type(given.training_config) == "table" then
    local list = given.training_config
    if #list ~= #training_fields then
      found[#found + 1] = ("field 'training_config' must hold %d numbers (%s), got %d%s"):format(#training_fields,
        table.concat(training_fields, ", "), #list,
        #list == #training_fields - 1 and "; add gpus_per_node, the GPUs of one node" or "")
    end
    for i, name in ipairs(training_fields) do
      local value = to_number(list[i])
      plan[name] = value
      if value ~= nil and not (math.type(value) == "integer" and value >= 1 and value <= size_limit) then
        found[#found + 1] = ("field 'training_config[%d]' (%s) must be an integer from 1 to %d, got %s"):format(i,
          name, size_limit, schema.describe(value))
      end
    end
  end
  if math.type(given.encoders) == "integer" and given.encoders > encoder_limit then
    found[#found + 1] = ("field 'encoders' must be at most %d, got %d"):format(encoder_limit, given.encoders)
  end
  if type(clean.function_list) == "table" and type(clean.encoder_function_list) == "table" then
    local before = #found
    check_names(clean, "function_list", found)
    check_names(clean, "encoder_function_list", found)
    if #found == before then check_operators(clean, found) end
  end
  if #found > 0 then
    local object = error_module.new("model", "%s", table.concat(found, "; "))
    object.violations = found
    error(error_module.label(object, label), 0)
  end
  for _, key in ipairs { "comm_bucket", "encoders", "fwd_syncs", "bwd_syncs" } do plan[key] = clean[key] end
  clean.plan = plan
  return clean
end

--- A source of times in microseconds from recorded model calls. Keys: `model` for operators; `requested` and the number
--- of elements for collectives.
---@param label string the file's name, for messages
function reference.timings(calls, label)
  if type(calls) ~= "table" or (next(calls) ~= nil and calls[1] == nil) then
    error_module.raise("format", "%s: must hold a JSON list of recorded model calls, got %s", label,
      schema.describe(calls))
  end
  local operators, collectives, outside, negative = {}, {}, {}, {}
  for i, call in ipairs(calls) do
    local where = ("%s: call %d"):format(label, i)
    if type(call) ~= "table" then
      error_module.raise("format", "%s: must be a JSON object, got %s", where, schema.describe(call))
    end
    local us = call.us
    if type(us) ~= "number" or us ~= us or us == math.huge or us == -math.huge then
      error_module.raise("format", "%s: field 'us' must be a finite time, got %s", where, schema.describe(us))
    end
    local key
    if call.kind == "operator" and type(call.model) == "string" then
      key, operators[call.model] = call.model, us
    elseif call.kind == "nccl" and type(call.requested) == "string" and type(call.input) == "table"
      and type(call.input[1]) == "number" then
      key = call.requested
      collectives[("%s %.0f"):format(key, call.input[1])] = us
    else
      error_module.raise("format",
        "%s: must be {kind: operator, model, us} or {kind: nccl, requested, input, us}", where)
    end
    if us < 0 then negative[key] = us end -- the tool's regressors give negative times: kept and reported
    if call.in_range == false then outside[key] = true end
  end
  local source = { outside = outside, negative = negative }
  function source.operator(model)
    local us = operators[model]
    if not us then error_module.raise("missing", "%s: has no call of operator '%s'", label, model) end
    return us
  end
  function source.collective(name, elements)
    local us = collectives[("%s %.0f"):format(name, elements)]
    if not us then
      error_module.raise("missing", "%s: has no call of '%s' with %d elements", label, name, elements)
    end
    return us
  end
  return source
end

local function operator_times(source, name)
  return { fwd = source.operator(name .. "_fp16_fwd", name, "fwd"),
    bwd = source.operator(name .. "_fp16_bwd", name, "bwd") }
end

local function message_times(source, name, pieces)
  local full, rest = 0, {}
  for i, piece in ipairs(pieces) do
    if piece.full > 0 then full = source.collective(name, piece.bucket) end
    rest[i] = piece.rest > 0 and source.collective(name, piece.rest) or 0
  end
  return full, rest
end

--- Composes one step, in microseconds. The result has the keys of the tool's recorded runs.
---@param config table from reference.check
---@param source table {operator = fn(model, name, pass), collective = fn(name, elements), outside = set}
function reference.predict(config, source)
  schema.argument(config, "table", "ett.reference.predict", "config")
  schema.argument(config.plan, "table", "ett.reference.predict", "config.plan")
  for _, name in ipairs { "pp", "mp", "dp", "b", "h", "l", "dim", "gpus_per_node", "comm_bucket", "encoders" } do
    schema.argument(config.plan[name], "count", "ett.reference.predict", "config.plan." .. name)
  end
  schema.argument(source, "table", "ett.reference.predict", "source")
  local plan = config.plan
  local layout = composition.layout(plan)
  local run_time, times = {}, { encoder = {} }
  local operator = {}
  for _, name in ipairs(config.function_list) do
    operator[name] = operator_times(source, name)
    run_time[name .. "_fwd"], run_time[name .. "_bwd"] = operator[name].fwd, operator[name].bwd
  end
  for i, name in ipairs(config.encoder_function_list) do times.encoder[i] = operator[name] end
  times.embedding, times.norm = operator.embedding, operator[config.layernorm_name]
  times.linear_final = operator.linear_final
  times.cross_entropy = operator.parallel_cross_entropy_128

  times.p2p = plan.pp > 1 and source.collective(("p2p_fp16_%d_%d"):format(layout.p2p_nodes, layout.p2p_gpus),
    layout.p2p_elements) or 0.0
  times.mp_all_reduce = plan.mp > 1 and source.collective(("allreduce_fp16_%d_%d"):format(layout.mp_nodes,
    layout.mp_gpus), layout.mp_elements) or 0.0
  local zeros = { 0.0, 0.0, 0.0 }
  times.all_reduce_rest, times.all_gather_rest, times.optimizer = zeros, zeros, zeros
  if plan.dp > 1 then
    for i = 1, #stages do
      layout.all_reduce[i].bucket, layout.all_gather[i].bucket = plan.comm_bucket, plan.comm_bucket
    end
    local suffix = ("large_fp16_%d_%d"):format(layout.dp_nodes, layout.dp_gpus)
    times.all_reduce_full, times.all_reduce_rest = message_times(source, "allreduce_" .. suffix, layout.all_reduce)
    times.all_gather_full, times.all_gather_rest = message_times(source, "allgather_" .. suffix, layout.all_gather)
    times.optimizer = {}
    for i, name in ipairs(optimizers) do
      times.optimizer[i] = source.operator(name .. "_fp16_dur", name, "dur", layout.layers[i])
    end
  end

  local r = composition.compose(plan, layout, times)
  run_time.pp_p2p, run_time.mp_allreduce = times.p2p, times.mp_all_reduce
  run_time.dp_allreduce, run_time.dp_allgather = r.all_reduce, r.all_gather
  run_time.optimizer, run_time.update = r.optimizer, r.update
  run_time.encoder_fwd, run_time.encoder_bwd = r.encoder_fwd, r.encoder_bwd
  run_time.fwd, run_time.bwd = r.fwd, r.bwd

  local result = {
    composition = "reference",
    total_us = r.total,
    run_time = run_time,
    parameters = {},
    layers_head_middle_tail = layout.layers,
    afab_stage_fwd_with_p2p = r.fwd_with_p2p,
    afab_stage_bwd_with_p2p = r.bwd_with_p2p,
    pipeline_us = r.pipeline,
    head_dp_allreduce_us = r.head_all_reduce,
    max_update_us = r.max_update,
    out_of_range_models = json.array(schema.keys(source.outside or {})),
    warnings = json.array {},
  }
  for _, name in ipairs(schema.keys(source.negative or {})) do
    table.insert(result.warnings, ("the time of '%s' is negative: %.6g us"):format(name, source.negative[name]))
  end
  local total_layers = layout.layers[1] + layout.layers[2] * math.max(plan.pp - 2, 0) + layout.layers[3]
  for i, name in ipairs(stages) do
    result.parameters[name] = layout.parameters[i]
    if layout.layers[i] < 0 then
      table.insert(result.warnings, ("the %s stage has %d layers"):format(name, layout.layers[i]))
    end
  end
  if total_layers ~= config.encoders or plan.pp == 1 then
    table.insert(result.warnings, ("this composition times %d layers for a model of %d"):format(
      plan.pp == 1 and math.max(table.unpack(layout.layers)) or total_layers, config.encoders))
  end
  return result
end

return reference
