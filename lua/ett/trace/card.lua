--- The workload card beside a trace: workload_card*.yaml, or the one given with --card.
--
-- Projects nest their cards differently. Each value is searched under its known names at any depth. The first name that
-- the card has is used, at its shallowest place; of several such places, the first in sorted order.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local card = {}

local names = {
  batch_size = { "global_batch_size", "batch_size", "batch" }, -- batch_size may be that of a rank
  seq_len = { "seq_len", "sequence_length", "seq_length", "seqlen" },
  iterations = { "iteration", "iterations", "num_iterations", "train_iters", "steps" },
  dp = { "dp", "dp_size", "data_parallel", "data_parallel_size" },
  dp_replicate = { "dp_replicate" }, dp_shard = { "dp_shard" },
  tp = { "tp", "tp_size", "tensor_parallel", "tensor_parallel_size" },
  pp = { "pp", "pp_size", "pipeline_parallel", "pipeline_parallel_size" },
  cp = { "cp", "cp_size", "context_parallel", "context_parallel_size" },
  ep = { "ep", "ep_size", "expert_parallel", "expert_parallel_size" },
  num_params = { "num_params", "model_params", "parameters", "params" },
  devices = { "total_count", "world_size", "num_devices", "n_chips" },
  peak_flops = { "peak_flops" },
  phase = { "phase" },
  precision = { "precision" },
}

--- Numeric fields and their minima; a degree of 0 means unused. All but peak_flops are integers.
local least = { batch_size = 1, seq_len = 1, iterations = 1, num_params = 1, devices = 1, peak_flops = 1, dp = 0,
  dp_replicate = 0, dp_shard = 0, tp = 0, pp = 0, cp = 0, ep = 0 }

local function depth_first(tree, wanted, depth, best)
  if type(tree) ~= "table" or depth > 12 then return best end
  local keys = schema.keys(tree)
  for _, key in ipairs(keys) do
    local value = tree[key]
    if key:lower() == wanted and (type(value) == "number" or type(value) == "string")
        and (not best or depth < best.depth) then
      best = { value = value, depth = depth, tree = tree, key = key }
    end
  end
  for _, key in ipairs(keys) do best = depth_first(tree[key], wanted, depth + 1, best) end
  for _, value in ipairs(tree) do best = depth_first(value, wanted, depth + 1, best) end
  return best
end

--- A value of a card by any of its names: {value=, tree=, key=}.
local function lookup(tree, list)
  for _, name in ipairs(list) do
    local found = depth_first(tree, name, 0)
    if found then return found end
  end
  return nil
end

--- Flattens a parsed card: {batch_size=, seq_len=, tp=, …}; missing values are nil. Raises if a numeric field is not a
--- number, with its line if `lines` (of ett.yaml) has it.
function card.values(tree, file, lines)
  local out, faults = {}, {}
  for field, list in pairs(names) do
    local found = lookup(tree, list)
    local value = found and found.value
    if type(value) == "string" then value = tonumber(value:match("^%s*([%d%.eE+]+)%s*$")) or value end
    local bound = least[field]
    local whole = bound and field ~= "peak_flops"
    if value and bound and not (type(value) == "number" and value >= bound and value < math.huge
        and (not whole or value % 1 == 0 and value < 2 ^ 53)) then
      local line = lines and lines[found.tree] and lines[found.tree][found.key]
      faults[field] = ("%s: %sfield '%s' must be a %s %s, got %s"):format(file or "workload card",
        line and ("line %d: "):format(line) or "", found.key, bound == 0 and "non-negative" or "positive",
        whole and "integer" or "number", type(value) == "string" and ("'%s'"):format(value) or tostring(value))
      value = nil
    end
    if not bound then value = type(value) == "string" and value:lower() or nil end
    out[field] = value
  end
  if not out.dp and not faults.dp and (out.dp_replicate or out.dp_shard) then
    out.dp = (out.dp_replicate or 1) * (out.dp_shard or 1)
  end
  return setmetatable(out, { __index = function(_, field)
    if faults[field] then error_module.raise("missing", "%s", faults[field]) end
  end })
end

--- Cards of a folder: sorted paths of workload_card*.yaml / .yml in it or in its parent.
function card.find(path)
  local folder = require("lfs").attributes(path, "mode") == "directory" and path or path:match("^(.*)/[^/]*$") or "."
  for _, place in ipairs { folder, folder .. "/.." } do
    local found = require("ett.base.folder").names(place, "^workload_card.*%.ya?ml$")
    for i, name in ipairs(found) do found[i] = place .. "/" .. name end
    if #found > 0 then return found end
  end
  return {}
end

--- The card's values for a trace (empty without a card); options.card names a file. If a card found by itself is
--- unreadable, raises "missing", so that only the metrics that need it fail. If a named card is unreadable, raises its
--- error.
function card.read(path, options)
  local file = options and options.card
  if not file then
    if path == "" then return {} end
    file = card.find(path)[1]
    if not file then return {} end
  end
  local tree, lines = require("ett.yaml").read(file)
  if not tree then
    if options and options.card then error(error_module.from(lines), 0) end
    error_module.raise("missing", "%s", error_module.from(lines).message)
  end
  if type(tree) ~= "table" then error_module.raise("format", "%s: a workload card must be a table of fields", file) end
  local values = card.values(tree, file, lines)
  values.file = file
  return values
end

--- Raises if a named file is no card: it cannot be read, has no known field, or a field has a wrong value.
function card.check(file)
  local values, any = card.read("", { card = file }), false
  for _, field in ipairs(schema.keys(names)) do any = values[field] ~= nil or any end
  if not any then
    error_module.raise("format", "%s: has no field of a workload card, such as batch_size, seq_len or num_params", file)
  end
end

return card
