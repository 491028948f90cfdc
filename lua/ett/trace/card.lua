--- The workload card beside a trace: workload_card*.yaml, or the one given with --card.
--
-- Cards nest differently from one project to the next, so each value is looked for under
-- every name it is known by, at any depth; the shallowest, then first in sorted order wins.
local error_module = require "ett.error"

local card = {}

local names = {
  batch_size = { "batch_size", "global_batch_size", "batch" },
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
  device_model = { "xpu_model" },
  peak_flops = { "peak_flops" },
  phase = { "phase" },
  precision = { "precision" },
}

local function depth_first(tree, wanted, depth, best)
  if type(tree) ~= "table" or depth > 12 then return best end
  local keys = {}
  for key in pairs(tree) do
    if type(key) == "string" then keys[#keys + 1] = key end
  end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local rank = wanted[key:lower()]
    local value = tree[key]
    if rank and (type(value) == "number" or type(value) == "string") and (not best or depth < best.depth) then
      best = { value = value, depth = depth }
    end
  end
  for _, key in ipairs(keys) do best = depth_first(tree[key], wanted, depth + 1, best) end
  for _, value in ipairs(tree) do best = depth_first(value, wanted, depth + 1, best) end
  return best
end

--- Reads a value of a card by any of its names.
local function lookup(tree, list)
  for rank, name in ipairs(list) do
    local found = depth_first(tree, { [name] = rank }, 0)
    if found then return found.value end
  end
  return nil
end

--- Flattens a parsed card: {batch_size=, seq_len=, tp=, …}; unknown values are nil.
function card.values(tree)
  local out = {}
  for field, list in pairs(names) do
    local value = lookup(tree, list)
    if type(value) == "string" then value = tonumber(value:match("^%s*([%d%.eE+]+)%s*$")) or value end
    out[field] = value
  end
  if not out.dp and (out.dp_replicate or out.dp_shard) then
    out.dp = (out.dp_replicate or 1) * (out.dp_shard or 1)
  end
  local xpu = lookup(tree, { "xpu_spec" })
  if type(tree.workload) == "table" and type(tree.workload.hardware) == "table" then
    xpu = tree.workload.hardware.xpu_spec
  end
  if type(xpu) == "table" and type(xpu.model) == "string" then out.device_model = xpu.model end
  return out
end

--- Cards of a folder: sorted paths of workload_card*.yaml / .yml in it or in its parent.
function card.find(path)
  local lfs = require "lfs"
  local found = {}
  local folder = lfs.attributes(path, "mode") == "directory" and path or (path:match("^(.*)/[^/]*$") or ".")
  for _, place in ipairs{ folder, folder .. "/.." } do
    if #found == 0 and lfs.attributes(place, "mode") == "directory" then
      for entry in lfs.dir(place) do
        if entry:match("^workload_card.*%.ya?ml$") then found[#found + 1] = place .. "/" .. entry end
      end
    end
  end
  table.sort(found)
  return found
end

--- The card's values for a trace (empty when there is none); options.card names a file.
function card.read(path, options)
  local file = options and options.card
  if not file then
    if path == "" then return {} end
    file = card.find(path)[1]
    if not file then return {} end
  end
  local tree, why = require("ett.yaml").read(file)
  if not tree then error_module.raise("io", "%s", tostring(why)) end
  if type(tree) ~= "table" then error_module.raise("format", "%s: a workload card must be a table of fields", file) end
  local values = card.values(tree)
  values.file = file
  return values
end

return card
