--- Tiers of a cluster: blocks of neighbouring devices (a node, a rack, a spine) and the links that join them.
--
--   tiers = { { name = "node", size = 8, bandwidth = 450e9, source = "…" },
--     { name = "leaf", size = 256, bandwidth = 50e9, rails = 8, source = "…" },
--     { name = "spine", bandwidth = 50e9, oversubscription = 2, source = "…" } }
--
-- A tier joins units of the tier before it; the first tier joins devices. clusters/README.md lists the fields. `links`
-- with `intra` and `inter` is the short form of two tiers.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local in_step = require "ett.profile.in_step"
local names = require "ett.base.collective"
local protocols = require "ett.profile.network.protocols"
local schema = require "ett.base.schema"

local tiers = {}

--- Latencies of NCCL's "Simple" protocol for one step, from its tuner
--- (NVIDIA/nccl src/graph/tuning.cc: hwLat NVLink ring 3.4 us, PCI ring 5.7 us, network ring 14 us, base 8.4 us).
---
--- On a torus a hop takes 1 us. A small gather over three hops of TPU v5e takes 8 us (jax-ml/scaling-book,
--- sharding.md), so its start takes 5 us.
tiers.default_latency = { intra = 3.4e-6, pcie = 5.7e-6, inter = protocols.network, base = 8.4e-6, torus = 1e-6,
  torus_base = 5e-6 }

-- Seconds of a step inside a node whose cluster states none.
local function default_intra(bandwidth, torus)
  local slow = bandwidth and bandwidth <= protocols.pcie
  return tiers.default_latency[torus and "torus" or slow and "pcie" or "intra"]
end

--- Largest number of tiers of a cluster (ETT_TIERS_MOST of runtime/comm/placement.h).
tiers.most = 8

-- Plausible ranges: they catch values in wrong units. A curve has low rates at small sizes.
local least_rate, most_rate, least_of_curve = 1e6, 1e17, 1e3
local rate = { "positive", least = least_rate, most = most_rate, unit = "bytes/s" }
local maybe_rate = { "positive", optional = true, least = least_rate, most = most_rate, unit = "bytes/s" }
local latency = { "nonnegative", optional = true, most = 0.5, unit = "seconds" }
local share = { "positive", optional = true, least = 0.01, most = 1 }
local axes_field = { "count", optional = true, most = 8 }

tiers.link_fields = {
  intra = { "table", optional = true, fields = { bandwidth = rate, latency = latency,
    send_bandwidth = maybe_rate, ring_bandwidth = maybe_rate, mesh = "boolean?", torus = "list?",
    whole_rings = "boolean?", blocking_reductions = share,
    curves = { "text_or_table", optional = true }, name = "string?", source = "string" } },
  inter = { "table", optional = true, fields = { bandwidth_per_gpu = rate, bandwidth_per_node = rate,
    latency = latency, send_bandwidth = maybe_rate, send_bandwidth_per_node = maybe_rate, axes = axes_field,
    hierarchical = "boolean?", name = "string?", source = "string" } },
}

--- The fields of a tier.
tiers.fields = {
  name = "string", source = "string", size = { "count", optional = true, most = 1 << 40 },
  bandwidth = { "any", optional = true },
  unit_bandwidth = maybe_rate, rails = { "count", optional = true, most = 1 << 20 },
  oversubscription = { "positive", default = 1, least = 1, most = 1e4 }, latency = latency, message_latency = latency,
  send_bandwidth = maybe_rate, ring_bandwidth = maybe_rate, unit_send_bandwidth = maybe_rate,
  hierarchical = "boolean?", reduces = "boolean?",
  through = "boolean?", mesh = "boolean?", torus = "list?", whole_rings = "boolean?",
  blocking_reductions = share, axes = axes_field, curves = { "text_or_table", optional = true },
}

--- The given curves, or the innermost tier's curves of the cluster whose name is given.
function tiers.curves(curves, where)
  if type(curves) ~= "string" then return curves end
  local other = error_module.wrap(where .. ": curves", find.load, "clusters", curves)
  local first = type(other) == "table" and (other.tiers and other.tiers[1] or other.links and other.links.intra)
  if not first or type(first.curves) ~= "table" then
    error_module.raise("model", "%s: curves: cluster '%s' has no curves of its own", where, curves)
  end
  return first.curves
end

-- Checks one curve: a flat list of pairs, sizes ascending.
local function check_curve(curve, at)
  local count = type(curve) == "table" and #curve or 1
  if count == 0 or count % 2 ~= 0 then
    error_module.raise("model", "%s: must be a list { bytes, bytes/s, bytes, bytes/s, … }, got %s", at,
      type(curve) == "table" and count .. " numbers" or schema.describe(curve))
  end
  for i = 1, count do
    local value = curve[i]
    local least = i % 2 == 1 and 1 or least_of_curve
    if type(value) ~= "number" or not (value >= least and value <= most_rate) then
      error_module.raise("model", "%s: number %d (%s) must be between %g and 1e17, got %s", at, i,
        i % 2 == 1 and "bytes" or "bytes/s", least, schema.describe(value))
    elseif i > 2 and i % 2 == 1 and value <= curve[i - 2] then
      error_module.raise("model", "%s: sizes must ascend, got %s bytes after %s", at, schema.describe(value),
        schema.describe(curve[i - 2]))
    end
  end
end

--- Checks curves by number of ranks. A key may also be the name of a collective; its value has curves by number of
--- ranks.
function tiers.check_curves(curves, where, size, what)
  for key, curve in pairs(curves) do
    local at = ("%s: curves[%s]"):format(where, tostring(key))
    if names.aliases[key] == key and type(curve) == "table" then
      for ranks in pairs(curve) do
        if math.type(ranks) ~= "integer" then
          error_module.raise("model", "%s: the key must be a number of ranks of at least 2, got %s", at,
            schema.describe(ranks))
        end
      end
      tiers.check_curves(curve, ("%s: curves: %s"):format(where, key), size, what)
    elseif math.type(key) ~= "integer" or key < 2 then
      error_module.raise("model", "%s: the key must be a number of ranks of at least 2, or a collective's name", at)
    elseif key > size then
      error_module.raise("model", "%s: the key must be at most %s = %d", at, what, size)
    else
      check_curve(curve, at)
    end
  end
end

--- Checks `mesh`, `torus`, `whole_rings` and `blocking_reductions` of links between devices. size: number of devices;
--- falsy for links between other units.
function tiers.check_wires(given, size, where)
  local axes, product, texts = given.torus or {}, 1, {}
  for i, length in ipairs(axes) do
    product = math.type(length) == "integer" and length > 0 and product * length or 0
    texts[i] = schema.describe(length)
  end
  if given.whole_rings and not given.torus then
    error_module.raise("model", "%s: 'whole_rings' needs the lengths of the axes, 'torus'", where)
  elseif given.mesh and given.torus then
    error_module.raise("model", "%s: give either 'mesh' or 'torus'", where)
  elseif (given.mesh or given.torus) and (not size or size < 2) then
    error_module.raise("model", "%s: only links inside the innermost tier, of at least two devices, can be a mesh or "
      .. "a torus", where)
  elseif given.blocking_reductions and not size then
    error_module.raise("model", "%s: only links inside the innermost tier can have 'blocking_reductions'", where)
  elseif given.torus and product ~= size then
    error_module.raise("model", "%s: torus: the lengths of its axes must multiply to %d devices, got %s", where, size,
      #axes > 0 and table.concat(texts, " x ") or "none")
  end
end

-- Send and receive bandwidth of a device or card, from a number or { send =, receive = }.
local function directions(value, label)
  if type(value) == "table" then
    local both = schema.check(value, { send = rate, receive = rate }, label .. ": bandwidth")
    return both.send, both.receive
  end
  local clean = schema.check({ bandwidth = value }, { bandwidth = rate }, label)
  return clean.bandwidth, clean.bandwidth
end

-- Checks that a tier holds whole units of the tier below, and that each of its cards serves the same number of devices.
local function check_size(tier, below, last, label)
  if not tier.size then
    if not last then error_module.raise("model", "%s: missing field 'size' (only the last tier joins all)", label) end
  elseif tier.size % below ~= 0 or below > 1 and tier.size == below then
    error_module.raise("model", "%s: size must be a larger multiple of the inner tier's %d devices, got %d", label,
      below, tier.size)
  end
  if tier.rails and below % tier.rails ~= 0 and tier.rails % below ~= 0 then
    error_module.raise("model", "%s: rails = %d do not divide the %d devices of an inner unit", label, tier.rails,
      below)
  end
end

--- Checks a list of tiers. Returns them with `send` and `receive` of a card, `unit_send` and `unit_receive` of a unit
--- inside, and `card`, the number of devices that share a card. Raises on wrong fields.
---@param given table list of tiers, the innermost first
---@param label string the cluster's, for messages
---@param node integer? devices of a node (default: the size of the first tier)
function tiers.check(given, label, node)
  local fault = schema.list_fault(given)
  if fault or #given == 0 or #given > tiers.most then
    error_module.raise("model", "%s: tiers: must be a list of 1 to %d tiers%s", label, tiers.most,
      fault and ": " .. fault or ", got " .. #given)
  end
  local list, below, seen, cards_below = {}, 1, {}, nil
  for k, entry in ipairs(given) do
    local at = ("%s: tiers[%d]"):format(label, k)
    local tier = schema.check(entry, tiers.fields, at)
    if seen[tier.name] then error_module.raise("model", "%s: two tiers are named '%s'", at, tier.name) end
    seen[tier.name] = true
    check_size(tier, below, k == #given, at)
    if entry.oversubscription and entry.unit_bandwidth then
      error_module.raise("model", "%s: give either 'oversubscription' or 'unit_bandwidth'", at)
    end
    tier.send, tier.receive = directions(tier.bandwidth, at)
    local rails = tier.rails or cards_below or below
    tier.card = math.max(1, below // rails)
    -- With more cards than devices, each device has several.
    local cards = rails > below and rails // below or 1
    tier.send, tier.receive = cards * tier.send, cards * tier.receive
    local all = (below // tier.card) / tier.oversubscription
    tier.unit_send = tier.unit_bandwidth or all * tier.send
    tier.unit_receive = tier.unit_bandwidth or all * tier.receive
    tiers.check_wires(tier, k == 1 and tier.size, at)
    if tier.axes and k == 1 then
      error_module.raise("model", "%s: 'axes' is for links between units; those between devices have 'torus'", at)
    end
    tier.curves = tiers.curves(tier.curves, at)
    if tier.curves then tiers.check_curves(tier.curves, at, tier.size or math.maxinteger, "size") end
    -- Messages to outer tiers leave by the same network cards.
    local passed = k > 1 and below >= (node or list[1].size) and tier.through ~= false
    cards_below = passed and tier.size and rails * (tier.size // below) or nil
    list[k], below = tier, tier.size or math.maxinteger
  end
  return list
end

--- The index of the tier whose units are nodes; nil if there is none.
function tiers.node(list, gpus_per_node)
  for k, tier in ipairs(list) do if tier.size == gpus_per_node then return k end end
end

-- Bytes/s of two cards of 800 Gbit/s: no device has faster ones.
local fastest_cards = 200e9

-- Largest plausible bandwidth of a card, and of a curve, divided by the bandwidth of the links in a node. In-switch
-- reduction moves half of the bytes of a ring, so a curve may reach twice this bandwidth.
local most_of_card, most_of_curve = 1.25, 2.0

-- Names of the links in a node, of the bandwidth of a card, and of that of a node: in `links` or in `tiers`.
local function names_of(cluster)
  local node = cluster.node_tier
  if not node then return "links.intra", "links.inter.bandwidth_per_gpu", "links.inter.bandwidth_per_node" end
  local outer = ("tiers[%d]"):format(node + 1)
  return ("tiers[%d]"):format(node), outer .. ".bandwidth", "the bandwidth of an inner unit of " .. outer
end

--- Sentences about links whose numbers contradict each other: they may be in other units.
---@param outside boolean whether the network is used
function tiers.contradictions(cluster, outside)
  local found, intra, inter = {}, (cluster.links or {}).intra, outside and (cluster.links or {}).inter
  local function add(format, ...)
    found[#found + 1] = ("cluster '%s': "):format(cluster.name) .. format:format(...)
  end
  local card, inside, of_card, of_node = inter and inter.bandwidth_per_gpu, names_of(cluster)
  if card and intra and card > most_of_card * intra.bandwidth and cluster.gpus_per_node > 1 then
    add("%s = %g is above %s.bandwidth = %g; both are bytes/s, and the first may be in bits/s", of_card, card, inside,
      intra.bandwidth)
  elseif card and card >= fastest_cards and not (intra and intra.torus) then
    add("%s = %g is more than network cards carry; it is bytes/s one way, and may be in bits/s", of_card, card)
  end
  if intra and (intra.ring_bandwidth or 0) > intra.bandwidth then
    add("%s.ring_bandwidth = %g is above %s.bandwidth = %g", inside, intra.ring_bandwidth, inside, intra.bandwidth)
  end
  if card and inter.bandwidth_per_node < card then
    add("%s = %g is below %s = %g: one device has more than its node", of_node, inter.bandwidth_per_node,
      of_card:match "[^.]*$", card)
  end
  for key, curve in pairs(intra and intra.curves or {}) do
    for n, own in pairs(math.type(key) == "integer" and { [key] = curve } or curve) do
      local most = 0.0
      for i = 2, #own, 2 do most = math.max(most, own[i]) end
      if most > most_of_curve * intra.bandwidth then
        add("%s.curves[%d] reaches %g bytes/s, and %s.bandwidth is %g", inside, n, most, inside, intra.bandwidth)
      end
    end
  end
  table.sort(found)
  return found
end

-- The two tiers of the short form: the links inside a node, and the network.
local function short_form(cluster)
  local links = cluster.links or {}
  local intra, inter, default = links.intra or {}, links.inter or {}, tiers.default_latency
  return {
    { name = "node", size = cluster.gpus_per_node, send = intra.bandwidth, receive = intra.bandwidth,
      unit_send = intra.bandwidth, unit_receive = intra.bandwidth, send_bandwidth = intra.send_bandwidth,
      ring_bandwidth = intra.ring_bandwidth,
      latency = intra.latency or default_intra(intra.bandwidth, intra.torus),
      unit_send_bandwidth = intra.send_bandwidth, mesh = intra.mesh, torus = intra.torus, curves = intra.curves,
      whole_rings = intra.whole_rings, blocking_reductions = intra.blocking_reductions,
      card = 1, through = false },
    { name = "network", send = inter.bandwidth_per_gpu, receive = inter.bandwidth_per_gpu,
      unit_send = inter.bandwidth_per_node, unit_receive = inter.bandwidth_per_node,
      send_bandwidth = inter.send_bandwidth,
      unit_send_bandwidth = inter.send_bandwidth_per_node, hierarchical = inter.hierarchical, axes = inter.axes,
      latency = inter.latency or default.inter, card = 1, through = true },
  }, 1
end

-- Adapts the tiers to another number of devices per node; each larger unit keeps its number of nodes.
local function resized(list, from, to)
  local copy = {}
  for k, tier in ipairs(list) do
    local own = setmetatable({}, { __index = tier })
    if tier.size and tier.size >= from then own.size = tier.size // from * to end
    copy[k] = own
  end
  return copy
end

--- The tiers of a cluster, and the index of the tier of its nodes.
---@param cluster table from ett.cluster
---@return table[] tiers, integer node
function tiers.of(cluster)
  local list = cluster.tiers
  if not list then return short_form(cluster) end
  local node = cluster.node_tier
  if list[node].size ~= cluster.gpus_per_node then
    list = resized(list, list[node].size, cluster.gpus_per_node)
  end
  for k, tier in ipairs(list) do
    tier.latency = tier.latency or k > node and tiers.default_latency.inter or default_intra(tier.send, tier.torus)
    if tier.through == nil then tier.through = k > node end
  end
  return list, node
end

--- A list of tiers reduced to `links`: the node's tier and the next.
function tiers.links(list, node)
  local intra, inter = list[node], list[node + 1]
  return {
    intra = { name = intra.name, bandwidth = math.min(intra.send, intra.receive), latency = intra.latency,
      send_bandwidth = intra.send_bandwidth, ring_bandwidth = intra.ring_bandwidth, curves = intra.curves,
      blocking_reductions = intra.blocking_reductions, source = intra.source },
    inter = inter and { name = inter.name, bandwidth_per_gpu = math.min(inter.send, inter.receive),
      bandwidth_per_node = math.min(inter.unit_send, inter.unit_receive), latency = inter.latency,
      send_bandwidth = inter.send_bandwidth,
      send_bandwidth_per_node = inter.unit_send_bandwidth, hierarchical = inter.hierarchical,
      source = inter.source } or nil,
  }
end

--- A device's share of its host's memory bandwidth, if unknown: 16 channels of DDR4-3200 for eight devices; assumed.
tiers.host_memory_bandwidth = 50e9

--- Bytes/s that a device's share of its host moves in an update; 0.0 without a host.
function tiers.host_rate(cluster)
  local host = cluster.host
  return host and in_step.host_memory_share * (host.memory_bandwidth or tiers.host_memory_bandwidth) or 0.0
end

--- Sizes, cards and rates of the tiers in the form of the C plan. Two tiers need no rates: each is one lane.
function tiers.placement(cluster)
  local flat, rates, list = {}, {}, tiers.of(cluster)
  for _, tier in ipairs(list) do
    flat[#flat + 1] = tier.size or math.maxinteger
    flat[#flat + 1] = tier.card
    if #list > 2 then
      local card, unit = math.min(tier.send, tier.receive), math.min(tier.unit_send, tier.unit_receive)
      local n = #rates
      rates[n + 1], rates[n + 2] = card, unit
      rates[n + 3], rates[n + 4] = tier.send_bandwidth or card, tier.unit_send_bandwidth or unit
      rates[n + 5] = tier.through and 1 or 0
    end
  end
  return { gpus_per_node = cluster.gpus_per_node, tiers = flat, torus = list[1].torus,
    rates = #list > 2 and rates or nil,
    host_bandwidth = cluster.host and cluster.host.bandwidth or 0.0, host_rate = tiers.host_rate(cluster) }
end

local uses = { all_to_all = "exchange", send_recv = "send" }
local two_lanes = { "node", "network" }

local function lane_name(tier) return "links of " .. tier.name end

--- The names of a cluster's lanes (runtime/comm/placement.h): "node" and "network", or "links of" each of more tiers.
function tiers.lanes(cluster)
  local list, lanes = tiers.of(cluster), {}
  if #list <= 2 then return two_lanes end
  for k, tier in ipairs(list) do lanes[k] = lane_name(tier) end
  return lanes
end

--- The lanes of a kind of collective: the name of the outermost one, and the share of each that a message occupies.
---@param topology table of ett.step
function tiers.lane(cluster, kind, topology)
  local lanes = topology.lanes
  if not lanes then
    local name = two_lanes[topology.nodes > 1 and 2 or 1]
    return name, name
  end
  return lane_name(cluster.tiers[lanes.outermost]), lanes[uses[kind] or "ring"]
end

--- The name of the outermost lane of a group, on a cluster of more than two tiers.
function tiers.outermost(cluster, topology)
  local found
  if #(cluster.tiers or {}) <= 2 then return nil end
  for k, place in ipairs(topology.tiers) do found = place.groups > 0 and k or found end
  return found and lane_name(cluster.tiers[found])
end

-- Placement of a group of `ranks` on each of `nodes` neighbouring nodes, from these numbers alone.
local function counted(list, node, topology, gpus_per_node)
  local nodes, inside = topology.nodes, topology.gpus_per_node
  local ranks = topology.ranks or nodes * inside
  local groups = topology.groups_per_node or math.max(1, gpus_per_node // inside)
  local places = {}
  for k, tier in ipairs(list) do
    local below = k > 1 and list[k - 1].size or 1
    local in_unit = k <= node and math.max(1, inside * below // gpus_per_node)
      or inside * math.min(nodes, below // gpus_per_node)
    local leaves = in_unit < ranks and (k > node and nodes > 1 or k <= node and inside > 1)
    local cards = math.min(in_unit, math.max(1, below // tier.card))
    places[k] = { members = in_unit, most = in_unit, inside = math.min(in_unit, ranks), cards = cards,
      groups = k > node and groups or 1, sharing = k > node and math.max(1, groups * cards * tier.card // below) or 1,
      units = not tier.size and 1 or k >= node and math.ceil(nodes * gpus_per_node / tier.size)
        or nodes * math.min(inside, gpus_per_node // tier.size) }
    if not leaves then places[k].groups = 0 end
  end
  return places
end

--- Placement of a group: one entry per tier, as `place` of ett.step.
---@param topology table of ett.step, or { nodes=, gpus_per_node=, groups_per_node=, ranks= }
function tiers.places(cluster, topology)
  if topology.tiers then return topology.tiers end
  local list, node = tiers.of(cluster)
  return counted(list, node, topology, cluster.gpus_per_node)
end

return tiers
