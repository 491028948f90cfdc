--- Clusters: devices with their datasheet facts, nodes, links, and a profile.
--
--   local cluster = require("ett.profile.cluster").get "perlmutter"   -- or a file name, or a table
--   cluster.device.peak_flops.bf16                            -- FLOP/s, dense
--   require("ett.profile.cluster").collective(cluster, "all_reduce", 1e8, { nodes = 2, gpus_per_node = 8 })
local collective_names = require "ett.base.collective"
local comm = require "ett.comm"
local devices = require "ett.profile.device"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local schema = require "ett.base.schema"

local cluster_module = {}

-- Limits that no machine comes near: they catch wrong units.
local rate = { "positive", least = 1e3, most = 1e17 }
local maybe_rate = { "positive", optional = true, least = 1e3, most = 1e17 }
local latency = { "nonnegative", optional = true, most = 10 }

local fields = {
  name = "string", summary = "string", source = "string", gpus_per_node = { "count", most = 1 << 20 },
  nodes = { "count", optional = true, most = 1 << 24 },
  price_per_gpu_hour = { "nonnegative", optional = true, most = 1e6 }, note = "string?",
  device = { "text_or_table", fields = devices.fields },
  links = { "table", fields = {
    intra = { "table", optional = true, fields = { bandwidth = rate, latency = latency,
      send_bandwidth = maybe_rate, curves = "table?", name = "string?", source = "string" } },
    inter = { "table", optional = true, fields = { bandwidth_per_gpu = rate, bandwidth_per_node = rate,
      latency = latency, send_bandwidth = maybe_rate, send_bandwidth_per_node = maybe_rate,
      hierarchical = "boolean?", name = "string?",
      source = "string" } },
  } },
  profile = { "text_or_table", optional = true,
    fields = { folder = "string?", base = "string?", borrow = "string?", accept_device = "boolean?" } },
}

--- NCCL's own latencies of a step, "Simple" protocol, from its tuner
--- (NVIDIA/nccl src/graph/tuning.cc: hwLat NVLink ring 3.4 us, network ring 14 us, base 8.4 us).
cluster_module.default_latency = { intra = 3.4e-6, inter = 14e-6, base = 8.4e-6 }

--- A curve is a flat list of pairs, message sizes ascending.
local function check_curves(curves, label, gpus_per_node)
  for ranks, curve in pairs(curves) do
    local where = ("%s: links: intra: curves[%s]"):format(label, tostring(ranks))
    if not math.tointeger(ranks) or ranks < 2 then
      error_module.raise("model", "%s: the key must be a number of ranks of at least 2", where)
    end
    if ranks > gpus_per_node then
      error_module.raise("model", "%s: the key must be at most gpus_per_node = %d", where, gpus_per_node)
    end
    local count = type(curve) == "table" and #curve or 1
    if count == 0 or count % 2 ~= 0 then
      error_module.raise("model", "%s: must be a list { bytes, bytes/s, bytes, bytes/s, … }, got %s", where,
        type(curve) == "table" and count .. " numbers" or schema.describe(curve))
    end
    for i, value in ipairs(curve) do
      if type(value) ~= "number" or not (value > 0 and value <= 1e17) then
        error_module.raise("model", "%s: number %d must be positive and at most 1e17, got %s", where, i,
          schema.describe(value))
      elseif i > 2 and i % 2 == 1 and value <= curve[i - 2] then
        error_module.raise("model", "%s: sizes must ascend, got %s bytes behind %s", where, schema.describe(value),
          schema.describe(curve[i - 2]))
      end
    end
  end
end

--- Checks what a cluster file returned.
function cluster_module.check(given, label)
  if type(given) ~= "table" then
    error_module.raise("model", "%s: a cluster file must return a table, got %s", label, schema.describe(given))
  end
  local clean = schema.check(given, fields, label)
  if type(clean.device) == "string" then
    clean.device = error_module.wrap(label .. ": device", devices.get, clean.device)
  end
  local intra = clean.links.intra
  if not intra and clean.gpus_per_node > 1 then
    error_module.raise("model", "%s: links: missing field 'intra' (gpus_per_node is %d)", label, clean.gpus_per_node)
  end
  if intra and intra.curves then check_curves(intra.curves, label, clean.gpus_per_node) end
  devices.check_rates(clean.device, label .. ": device")
  local profile = clean.profile
  if type(profile) == "table" and not (profile.folder or profile.base or profile.borrow) then
    error_module.raise("model", "%s: field 'profile' must have 'folder', 'base' or 'borrow'", label)
  end
  return clean
end

--- A cluster by name, by path of a file ("mine.lua"), or as a table.
---@param source string|table
function cluster_module.get(source)
  schema.argument(source, "cluster", "ett.cluster.get", "source")
  if type(source) == "table" then return cluster_module.check(source, "cluster") end
  local value, path
  local lfs = require "lfs"
  if source:match("%.lua$") or source:match("/") then
    if lfs.attributes(source, "mode") == "directory" then source = source:gsub("/+$", "") .. "/init.lua" end
    local file, why = io.open(source, "r")
    if not file then error_module.raise("io", "cannot read cluster file %s", tostring(why)) end
    file:close()
    value, path = find.load_file(source), source
  else
    if not find.path("clusters", source) and lfs.attributes(source .. ".lua") then
      error_module.raise("missing", "unknown cluster '%s'; a file is named with its ending: %s.lua", source, source)
    end
    value, path = find.load("clusters", source)
  end
  local clean = cluster_module.check(value, find.label(path))
  clean.path = path
  clean.folder = path:match("^(.*)/init%.lua$")
  return clean
end

--- The cluster with samples of another device accepted (`--accept-device`).
---@param source string|table
function cluster_module.accepting(source)
  local cluster = cluster_module.get(source)
  if type(cluster.profile) == "string" then cluster.profile = { folder = cluster.profile } end
  if cluster.profile then cluster.profile.accept_device = true end
  return cluster
end

--- Bytes/s assumed of a kernel that streams memory: a probed bandwidth, or 80 % of a datasheet's.
function cluster_module.stream_bandwidth(device) return device.memory_bandwidth * (device.probed and 1 or 0.8) end

--- Names of every cluster found.
function cluster_module.names() return find.names("clusters") end

-- The measured curve for the nearest number of ranks, as flat pairs of bytes and bytes/s.
local function curve_for(intra, ranks)
  local best, distance
  for n in pairs(intra.curves or {}) do
    local d = math.abs(math.log(n / ranks))
    if not best or d < distance or (d == distance and n > best) then best, distance = n, d end
  end
  return best and intra.curves[best]
end

--- The links of a cluster as ett.comm reads them.
function cluster_module.links(cluster, ranks_per_node)
  local intra, inter = cluster.links.intra, cluster.links.inter
  local default = cluster_module.default_latency
  return {
    intra_bandwidth = intra and intra.bandwidth or 0.0, intra_send = intra and intra.send_bandwidth or 0.0,
    intra_latency = intra and intra.latency or default.intra,
    inter_per_gpu = inter and inter.bandwidth_per_gpu or 0.0,
    inter_per_node = inter and inter.bandwidth_per_node or 0.0,
    hierarchical = inter ~= nil and inter.hierarchical or false,
    inter_send = inter and inter.send_bandwidth or 0.0,
    inter_send_node = inter and inter.send_bandwidth_per_node or 0.0,
    inter_latency = inter and inter.latency or default.inter, base_latency = default.base,
    curve = intra and ranks_per_node > 1 and curve_for(intra, ranks_per_node) or nil,
  }
end

-- Half width of the 90 % interval of a collective from links, relative: assumed, not fitted.
local assumed_spread = { calibrated = 0.15, assumed = 0.30 }

--- Seconds of a collective from the cluster's links alone. Provenance: "calibrated" if a measured curve answers for
--- its number of ranks, else "assumed".
---@param kind string a collective or alias
---@param bytes number whole buffer
---@param topology table { nodes=, gpus_per_node=, groups_per_node= }; by default the groups fill the node
function cluster_module.collective(cluster, kind, bytes, topology)
  local where = "ett.cluster.collective"
  schema.argument(cluster, "table", where, "cluster")
  schema.argument(cluster.gpus_per_node, "count", where, "cluster.gpus_per_node")
  schema.argument(cluster.links, "table", where, "cluster.links")
  schema.argument(bytes, "nonnegative", where, "bytes")
  schema.argument(topology, "table", where, "topology")
  local nodes = schema.argument(topology.nodes, "count", where, "topology.nodes")
  local ranks = schema.argument(topology.gpus_per_node, "count", where, "topology.gpus_per_node")
  if ranks > cluster.gpus_per_node then
    error_module.raise("plan", "%d ranks per node on %s, whose nodes have %d", ranks, cluster.name,
      cluster.gpus_per_node)
  end
  local links = cluster_module.links(cluster, ranks)
  local time = comm.estimate { kind = collective_names.kind(kind), bytes = bytes, nodes = nodes,
    ranks_per_node = ranks, groups_per_node = topology.groups_per_node or math.max(1, cluster.gpus_per_node // ranks),
    links = links }
  local provenance = nodes == 1 and links.curve and "calibrated" or "assumed"
  local spread = assumed_spread[provenance]
  return { seconds = time.seconds, low_seconds = time.seconds * (1 - spread),
    high_seconds = time.seconds * (1 + spread), provenance = provenance,
    detail = ("%s over the cluster's links, %.1f GB/s"):format(time.algorithm, time.bus_bandwidth / 1e9) }
end

return cluster_module
