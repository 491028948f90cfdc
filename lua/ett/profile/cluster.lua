--- Clusters: devices with their datasheet values, nodes, links, and a profile.
--
--   local cluster = require("ett.profile.cluster").get "perlmutter"   -- or a file name, or a table
--   cluster.device.peak_flops.bf16                            -- FLOP/s, dense
--   require("ett.profile.cluster").collective(cluster, "all_reduce", 1e8, { nodes = 2, gpus_per_node = 8 })
local collective_names = require "ett.base.collective"
local collectives = require "ett.profile.network.collectives"
local detail = require "ett.profile.detail"
local devices = require "ett.profile.device"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local merged = require "ett.base.merged"
local parts = require "ett.profile.network.parts"
local schema = require "ett.base.schema"
local tiers = require "ett.profile.network.tiers"

local cluster_module = {}

local fields = {
  name = "string", summary = "string", source = "string", gpus_per_node = { "count", optional = true, most = 1 << 20 },
  nodes = { "count", optional = true, most = 1 << 24 },
  price_per_gpu_hour = { "nonnegative", optional = true, most = 1e6 }, price_source = "string?", note = "string?",
  failures = { "table", optional = true, fields = { per_device_day = { "nonnegative", most = 1 },
    restart_seconds = { "nonnegative", optional = true, most = 1e7 }, source = "string" } },
  host = { "table", optional = true, fields = { bandwidth = { "positive", least = 1e6, most = 1e15, unit = "bytes/s" },
    memory_bandwidth = { "positive", optional = true, least = 1e6, most = 1e15, unit = "bytes/s" },
    memory_bytes = { "positive", optional = true, least = 1e6, most = 1e15, unit = "bytes" }, name = "string?",
    source = "string" } },
  power = { "table", optional = true, fields = { node_watts = { "nonnegative", optional = true, most = 1e7 },
    device_watts = { "positive", optional = true, least = 5, most = 1e6 },
    pue = { "positive", optional = true, least = 1, most = 10 },
    grams_co2_per_kwh = { "nonnegative", optional = true, most = 1e4 }, source = "string" } },
  device = { "text_or_table", optional = true, fields = devices.fields }, parts = { "list", optional = true },
  links = { "table", optional = true, fields = tiers.link_fields }, tiers = "table?",
  collectives = { "text_or_table", optional = true }, stack = "string?", allotment = "string?",
  profile = { "text_or_table", optional = true,
    fields = { folder = "string?", base = "string?", borrow = "string?", accept_device = "boolean?" } },
}

cluster_module.fields, cluster_module.default_latency = fields, tiers.default_latency

--- Sizes and network cards of the tiers, and the parts, in the form of the C plan.
function cluster_module.placement(cluster)
  local placement = tiers.placement(cluster)
  placement.parts = parts.placement(cluster)
  return placement
end

-- Checks `links`, the short form of a cluster with two tiers.
local function check_links(clean, label)
  if not clean.gpus_per_node then
    error_module.raise("model", "%s: missing field 'gpus_per_node' (a positive integer)", label)
  end
  local intra = clean.links.intra
  if not intra and clean.gpus_per_node > 1 then
    error_module.raise("model", "%s: links: missing field 'intra' (gpus_per_node is %d)", label, clean.gpus_per_node)
  end
  local where = label .. ": links: intra"
  if intra then tiers.check_wires(intra, clean.gpus_per_node, where) end
  if intra and intra.curves then
    intra.curves = tiers.curves(intra.curves, where)
    tiers.check_curves(intra.curves, where, clean.gpus_per_node, "gpus_per_node")
  end
end

-- Checks `tiers` and derives `links` and `gpus_per_node` from them.
local function check_tiers(clean, label)
  clean.tiers = tiers.check(clean.tiers, label, clean.gpus_per_node)
  clean.gpus_per_node = clean.gpus_per_node or clean.tiers[1].size or 1
  clean.node_tier = tiers.node(clean.tiers, clean.gpus_per_node)
  if not clean.node_tier then
    error_module.raise("model", "%s: gpus_per_node = %d must be the size of a tier", label, clean.gpus_per_node)
  end
  clean.links = tiers.links(clean.tiers, clean.node_tier)
end

-- Lowers the device's power limit to that of the cluster (`power.device_watts`).
local function limit_power(clean)
  local device, watts = clean.device, (clean.power or {}).device_watts
  local own = device.power_limit_watts or device.power_watts
  if watts and watts < (own or math.huge) then device.power_limit_watts = watts end
end

-- Fewer than 50 W of a node are taken for kilowatts; assumed.
local function check_node_watts(clean, label)
  local watts = (clean.power or {}).node_watts or 0
  if watts > 0 and watts < 50 then
    error_module.raise("model", "%s: power: 'node_watts' must be 0 or at least 50 W, got %g", label, watts)
  end
end

local checked = setmetatable({}, { __mode = "k" }) -- clusters whose device has its methods, and whose tiers have rates

--- Checks the table that a cluster file returned, and fills its defaults. Raises on wrong or unknown fields.
---@param path string? of the file
function cluster_module.check(given, label, path)
  local links = type(given) == "table" and type(given.links) == "table" and given.links or {}
  for _, name in ipairs(schema.keys(links)) do
    if error_module.suggestion(name, { "inter", "intra" }) == "" then
      error_module.raise("model", "%s: links: unknown field '%s'; networks of more levels state 'tiers'", label, name)
    end
  end
  local clean = schema.check(given, fields, label)
  check_node_watts(clean, label)
  if clean.stack then error_module.wrap(label .. ": stack", require("ett.operator.stack").get, clean.stack) end
  if clean.parts then
    if clean.power and clean.power.device_watts then
      error_module.raise("model", "%s: power: 'device_watts' belongs to the clusters of the parts", label)
    end
    parts.check(clean, function(part) return cluster_module.get(part, path) end, label)
    clean.price_source = clean.price_source or "mean of the parts"
    checked[clean] = true
    return clean
  elseif not clean.device then
    error_module.raise("model", "%s: missing field 'device' (a string or a table)", label)
  end
  if type(clean.device) == "string" then
    clean.device = error_module.wrap(label .. ": device", devices.get, clean.device)
  else
    devices.complete(clean.device, label .. ": device")
  end
  if (clean.links == nil) == (clean.tiers == nil) then
    error_module.raise("model", clean.links and "%s: give either 'links' or 'tiers'"
      or "%s: missing field 'links' (a table), or 'tiers' in its place", label)
  end
  if clean.tiers then check_tiers(clean, label) else check_links(clean, label) end
  if clean.collectives then clean.collectives = collectives.check(clean.collectives, label) end
  limit_power(clean)
  devices.check_rates(clean.device, label .. ": device")
  if not clean.price_per_gpu_hour then clean.price_source = clean.price_source or "unset: the cluster has no price" end
  local profile = clean.profile
  if type(profile) == "table" and not (profile.folder or profile.base or profile.borrow) then
    error_module.raise("model", "%s: field 'profile' must have 'folder', 'base' or 'borrow'", label)
  end
  checked[clean] = true
  return clean
end

--- A cluster by name, by path of a file ("mine.lua"), or as a table.
---@param source string|table
---@param from string? path of the cluster file that names it: other paths are relative to its folder
function cluster_module.get(source, from)
  schema.argument(source, "cluster", "ett.cluster.get", "source")
  if checked[source] then return source end
  if type(source) == "table" then return cluster_module.check(source, "cluster") end
  local value, path
  local lfs = require "lfs"
  if source:match("%.lua$") or source:match("/") then
    if from and source:sub(1, 1) ~= "/" then source = (from:match "^.*/" or "") .. source:gsub("^%./+", "") end
    if lfs.attributes(source, "mode") == "directory" then source = source:gsub("/+$", "") .. "/init.lua" end
    value, path = find.load_file(source), source
  else
    if not find.path("clusters", source) and lfs.attributes(source .. ".lua") then
      error_module.raise("missing", "unknown cluster '%s'; to name the file, write %s.lua", source, source)
    end
    value, path = find.load("clusters", source)
  end
  local clean = cluster_module.check(value, find.label(path), path)
  clean.path = path
  clean.folder = path:match("^(.*)/init%.lua$")
  checked[clean] = true
  return clean
end

--- A copy of a checked cluster with other fields, which are not checked.
function cluster_module.changed(cluster, changes)
  local copy = merged(cluster, changes)
  checked[copy] = true
  return copy
end

--- A copy of the cluster that accepts samples of another device (`--accept-device`).
---@param source string|table
function cluster_module.accepting(source)
  local given = cluster_module.get(source)
  local profile = given.profile
  if type(profile) == "string" then profile = { folder = profile } end
  return cluster_module.changed(given, { profile = profile and merged(profile, { accept_device = true }) })
end

--- Assumed bytes/s of a streaming kernel: the probed bandwidth, or 80 % of the datasheet's bandwidth.
function cluster_module.stream_bandwidth(device) return device.memory_bandwidth * (device.probed and 1 or 0.8) end

function cluster_module.names() return find.names("clusters") end

-- Relative half-width of the 90 % interval of a collective timed from links alone: assumed, not fitted.
local assumed_spread = { calibrated = 0.15, assumed = 0.30 }

-- Raises an error if an argument of cluster_module.collective is wrong.
local function check_request(cluster, bytes, topology)
  local where = "ett.cluster.collective"
  schema.argument(cluster, "table", where, "cluster")
  schema.argument(cluster.gpus_per_node, "count", where, "cluster.gpus_per_node")
  schema.argument(cluster.links, "table", where, "cluster.links")
  schema.argument(bytes, "nonnegative", where, "bytes")
  schema.argument(topology, "table", where, "topology")
  if schema.argument(topology.nodes, "count", where, "topology.nodes") > fields.nodes.most then
    error_module.raise("plan", "a cluster has at most %d nodes, got %d", fields.nodes.most, topology.nodes)
  end
  local ranks = schema.argument(topology.gpus_per_node, "count", where, "topology.gpus_per_node")
  if ranks > cluster.gpus_per_node then
    error_module.raise("plan", "%d ranks per node on %s, whose nodes have %d", ranks, cluster.name,
      cluster.gpus_per_node)
  end
end

--- Timer of one kind of collective in one group, from the cluster's links alone. Provenance: "calibrated" if a
--- measured curve covers that number of ranks, else "assumed".
---@param kind string a collective or alias
---@param topology table of ett.step, or { nodes=, gpus_per_node=, groups_per_node= }; by default groups fill the node
---@param links table? of ett.profile.network.collectives, if the caller has it
---@return function function(bytes of the whole buffer): an answer (ett.profile.detail)
---@return function function(bytes): seconds
---@return function function(): the law of ett.comm; nil: the times follow no law
function cluster_module.collective_timer(cluster, kind, topology, links)
  if not topology.tiers then check_request(cluster, 0, topology) end -- else a placement of ett.step
  local time, law = collectives.timer(cluster, collective_names.kind(kind), topology, links)
  return function(bytes)
    local seconds, bus, model, measured = time(bytes)
    local provenance = measured and "calibrated" or "assumed"
    local spread = assumed_spread[provenance]
    return { seconds = seconds, low_seconds = seconds * (1 - spread), high_seconds = seconds * (1 + spread),
      provenance = provenance, detail = { "%s over the cluster's links, %.1f GB/s", model, bus / 1e9 }, model = model,
      sharing = "placed" }
  end, time, law
end

--- The answer of collective_timer for one message.
---@param bytes number whole buffer
function cluster_module.collective(cluster, kind, bytes, topology)
  check_request(cluster, bytes, topology)
  return detail.as_text((cluster_module.collective_timer(cluster, kind, topology))(bytes))
end

return cluster_module
