--- Cluster, profile and plan for an estimate-train-time configuration.
local composition = require "ett.import.estimate_train_time.composition"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local merged = require "ett.base.merged"

local reference_source = {}

-- Resolves a folder in a configuration: beside the configuration, one folder up (as in the tool's examples), or in the
-- working folder.
local function resolve(folder, config_path)
  local lfs = require "lfs"
  local beside = config_path:match("^(.*)/[^/]*$") or "."
  local tried = { beside .. "/" .. folder, beside .. "/../" .. folder, folder }
  if folder:sub(1, 1) == "/" then tried = { folder } end
  for _, path in ipairs(tried) do
    if lfs.attributes(path, "mode") == "directory" then return path end
  end
  return nil
end

--- The sample folders of a configuration: operators, collectives. Raises if one is missing.
function reference_source.folders(config, config_path)
  local folders, found = {}, {}
  for _, key in ipairs { "operator_data_folder", "nccl_data_folder" } do
    folders[#folders + 1] = resolve(config[key], config_path)
    if #folders + #found < (key == "nccl_data_folder" and 2 or 1) then
      found[#found + 1] = ("field '%s': no such folder '%s', beside %s or above it"):format(key, config[key],
        config_path)
    end
  end
  if #found > 0 then
    error_module.raise("missing", "%s; or name a cluster with --cluster", table.concat(found, "; "))
  end
  return folders[1], folders[2]
end

local function device_matches(device, name)
  if device.name == name then return true end
  for _, alias in ipairs(device.aliases or {}) do if alias == name then return true end end
  return false
end

-- Name and aliases of a device. A file of ett is not checked here, which takes longer than to load it.
local function names_of(key)
  local path = find.path("clusters/devices", key)
  if path and find.is_installed(path) then return find.load_file(path) end
  return require("ett.profile.device").get(key)
end

-- The cluster with the configuration's device, preferably with nodes of that size; else nil and the names of all
-- devices. Clusters of other devices are not checked.
local function cluster_of_device(gpu_name, gpus_per_node)
  local module = require "ett.profile.cluster"
  local known, other, by_name = {}, nil, {}
  for _, name in ipairs(module.names()) do
    local given = find.load("clusters", name)
    local key = type(given) == "table" and given.device
    local device
    if type(key) == "string" then
      by_name[key] = by_name[key] or names_of(key)
      device = by_name[key]
    else
      device = module.get(name).device
    end
    if device and device_matches(device, gpu_name) then
      local cluster = module.get(name)
      if cluster.gpus_per_node == gpus_per_node then return cluster end
      other = other or cluster
    end
    known[#known + 1] = device and device.name -- a cluster of parts has none
  end
  table.sort(known)
  return other, known
end

-- The cluster with the configuration's node size, which must not exceed the real one.
local function with_nodes_of(cluster, gpus_per_node)
  if gpus_per_node > cluster.gpus_per_node then
    error_module.raise("model", "field 'training_config[9]' (gpus_per_node) = %d: nodes of %s have %d; give at most "
      .. "%d, or another cluster with --cluster", gpus_per_node, cluster.name, cluster.gpus_per_node,
      cluster.gpus_per_node)
  end
  return merged(cluster, { gpus_per_node = gpus_per_node })
end

-- Devices named in the file names of a folder.
local function devices_of(folder)
  local seen = {}
  for entry in require("lfs").dir(folder) do
    local device = entry:match("^([^_]+)_.*%.csv$") or entry:match("^([^_]+)%.csv$")
    if device then seen[device] = true end
  end
  return require("ett.base.schema").keys(seen)
end

--- Cluster and profile of a configuration: those of --cluster, else its sample folders with the cluster of its device.
---@return table cluster, table profile, table? own the profile of the folders, without the cluster's corrections
function reference_source.source(config, config_path, cluster_name)
  if cluster_name then
    local cluster = with_nodes_of(require("ett.profile.cluster").get(cluster_name), config.plan.gpus_per_node)
    return cluster, require("ett.profile.of_cluster").open(cluster)
  end
  local operators, collectives = reference_source.folders(config, config_path)
  for i, folder in ipairs { operators, collectives } do
    local key = i == 1 and "operator_data_folder" or "nccl_data_folder"
    local devices, known = devices_of(folder), false
    for _, device in ipairs(devices) do known = known or device == config.gpu_name end
    if not known then
      error_module.raise("missing", "field 'gpu_name': %s (%s) holds no samples of '%s'; it holds %s", key, config[key],
        config.gpu_name, #devices > 0 and table.concat(devices, ", ") or "none")
    end
  end
  local cluster, known = cluster_of_device(config.gpu_name, config.plan.gpus_per_node)
  if not cluster then
    error_module.raise("missing", "field 'gpu_name': no cluster has the device '%s'%s; known are %s; name a cluster "
      .. "with --cluster", config.gpu_name, error_module.suggestion(config.gpu_name, known), table.concat(known, ", "))
  end
  local own = require("ett.profile").open({ operators, collectives },
    { multiprocessors = cluster.device.multiprocessors, network = cluster.links.inter, gpu = config.gpu_name })
  cluster = with_nodes_of(cluster, config.plan.gpus_per_node)
  return cluster, require("ett.profile.of_cluster").open(cluster, own), own
end

--- A source of times for reference.predict from a profile: the tool's shapes, in microseconds.
function reference_source.profile_source(config, config_path, cluster_name)
  local operator = require "ett.operator"
  local lower_times = require "ett.step.times"
  local cluster, profile, own = reference_source.source(config, config_path, cluster_name)
  -- The tool also uses damaged samples; so does this composition.
  local times = lower_times.new(cluster, own and own:as_sampled() or profile)
  local plan = config.plan
  local source = { outside = {} }
  local passes = { fwd = "forward", bwd = "backward", dur = "update" }
  local function note(answer, key)
    if answer.provenance == "extrapolated" or answer.provenance == "assumed" then source.outside[key] = true end
    return answer.seconds * 1e6
  end
  function source.operator(model, name, pass, layers)
    local op = operator.get(name)
    if not op.sample_row then
      error_module.raise("model", "field 'function_list': '%s' is not an operator of estimate-train-time, whose "
        .. "composition has no shape for it; use one of its own, or --composition default", name)
    end
    local shape = op.sample_row.shape { mp = plan.mp, b = plan.b, h = plan.h, l = plan.l, dim = plan.dim,
      encoders = layers and math.max(1, layers) }
    return note(times:operator(op, shape, "fp16", passes[pass]), model)
  end
  function source.collective(name, elements)
    local kind, nodes, gpus = name:match("^(.-)_fp16_(%d+)_(%d+)$")
    nodes, gpus = math.tointeger(nodes), math.tointeger(gpus)
    local standard = require("ett.operator.collective").kind(kind)
    -- For a gather, the tool counts the elements of one rank.
    local bytes = elements * 2.0 * (standard == "all_gather" and nodes * gpus or 1)
    return note(times:collective(standard, bytes, { nodes = nodes, gpus_per_node = gpus }, "fp16"), name)
  end
  return source
end

--- Inputs of ett's own composition: { model, plan, cluster, profile }. The tool's fixed choices become plan fields:
--- full recomputation, ZeRO-1 with fp16 gradients, DeepSpeed's split of layers, separate messages, activations
--- scattered over tensor ranks.
---@param overrides table plan fields given beside the configuration
function reference_source.subject(config, config_path, overrides, cluster_name)
  local plan_module = require "ett.plan"
  local p = config.plan
  local model = require("ett.model").list(config.encoder_function_list,
    { layers = config.encoders, hidden = p.dim, heads = p.h, ffn = 4 * p.dim, vocab = composition.vocabulary })
  model.name = config_path:match("([^/]+)$")
  local plan = { pp = p.pp, tp = p.mp, dp = p.dp, micro_batch = p.b, micro_batches = p.steps_per_update, seq = p.l,
    dtype = "fp16", gradient_dtype = "fp16", zero = 1, recompute = "full", scatter_sends = true, serial_sends = true,
    bucket_bytes = 2.0 * p.comm_bucket, stack = "gpt_neox" }
  for name, value in pairs(overrides) do plan[name] = value end
  if overrides.global_batch and not overrides.micro_batches then plan.micro_batches = nil end
  if not plan.split and (plan.vp or 1) == 1 and (config.encoders + 5) // plan.pp >= 3 then
    plan.split = plan_module.deepspeed_split(config.encoders, plan.pp)
  end
  local cluster, profile = reference_source.source(config, config_path, cluster_name)
  return { model = model, plan = plan, cluster = cluster, profile = profile }
end

return reference_source
