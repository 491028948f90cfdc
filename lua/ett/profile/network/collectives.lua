--- Models of communication: one file of lua/collectives each, found by name. The fastest applicable model counts.
--
--   local answer = collectives.time(cluster, "all_reduce", 1e8, topology)
--   answer.seconds, answer.model
local comm = require "ett.comm"
local devices = require "ett.profile.device"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local kernel_curves = require "ett.profile.kernels.collectives"
local kernels = require "ett.profile.kernels"
local names = require "ett.base.collective"
local protocols = require "ett.profile.network.protocols"
local schema = require "ett.base.schema"
local table_at = require "ett.base.table_at"
local tiers_module = require "ett.profile.network.tiers"

local huge, math_type = math.huge, math.type

local collectives = {}

local folder = "lua/collectives"
local fields = { name = "string", summary = "string", source = "string?", kinds = "list", seconds = "function?",
  timer = "function?" }

--- Models that are tried if the cluster names none.
collectives.default = {
  all_reduce = { "ring", "tree", "in_switch", "all_pairs" }, broadcast = { "ring", "tree", "in_switch" },
  all_gather = { "ring", "in_switch" }, reduce_scatter = { "ring", "in_switch" },
  all_to_all = { "pairwise" }, send_recv = { "send" },
}

local loaded, generation = {}, nil

--- Loads and checks a model's description; adds `place` (file and line of its function).
function collectives.load(name)
  if generation ~= find.generation then loaded, generation = {}, find.generation end
  local known = loaded[name]
  if known then return known end
  local path, label
  known, path, label = find.described(folder, name, fields)
  if (known.seconds == nil) == (known.timer == nil) then
    error_module.raise("model", "%s: give either 'seconds' or 'timer'", label)
  end
  if #known.kinds == 0 then error_module.raise("model", "%s: field 'kinds' is empty", label) end
  local serves = {}
  for _, kind in ipairs(known.kinds) do
    if not names.find(kind) then
      error_module.raise("model", "%s: kinds: unknown collective '%s'%s", label, tostring(kind),
        error_module.suggestion(tostring(kind), names.kinds))
    end
    serves[names.find(kind)] = true
  end
  known.serves, known.place = serves, schema.place(known.seconds or known.timer, path)
  known.installed = find.is_installed(path)
  loaded[name] = known
  return known
end

--- Checks the models that a cluster names: one name, or names by kind. Returns kind -> list of names.
---@param given string|table
function collectives.check(given, label)
  local by_kind = {}
  if type(given) == "string" then
    for kind in pairs(error_module.wrap(label, collectives.load, given).serves) do by_kind[kind] = { given } end
    return by_kind
  end
  for _, kind in ipairs(schema.keys(given)) do
    local list = type(given[kind]) == "string" and { given[kind] } or given[kind]
    if not names.find(kind) then
      error_module.raise("model", "%s: collectives: unknown collective '%s'%s", label, kind,
        error_module.suggestion(kind, names.kinds))
    elseif type(list) ~= "table" or #list == 0 then
      error_module.raise("model", "%s: collectives: %s must name a model or a list of them, got %s", label, kind,
        schema.describe(list))
    end
    for _, name in ipairs(list) do
      local model = error_module.wrap(("%s: collectives: %s"):format(label, kind), collectives.load, name)
      if not model.serves[names.find(kind)] then
        error_module.raise("model", "%s: collectives: the model '%s' does not support %s, only %s", label, name, kind,
          table.concat(model.kinds, ", "))
      end
    end
    by_kind[names.find(kind)] = list
  end
  return by_kind
end

-- Kinds that may use a curve without a kind: rings of all these kinds use the links in the same way.
local rings = { all_reduce = true, all_gather = true, reduce_scatter = true, broadcast = true }

local risen = setmetatable({}, { __mode = "k" }) -- curve -> the same without times that fall

-- A curve of bandwidths, smoothed so that no larger message takes less time.
local function rising(curve)
  if risen[curve] then return risen[curve] end
  local times, falls = {}, false
  for i = 1, #curve, 2 do
    times[i], times[i + 1] = curve[i], curve[i] / curve[i + 1]
    falls = falls or i > 1 and times[i + 1] < times[i - 1]
  end
  local found = falls and kernel_curves.rising(times) or curve
  for i = 1, falls and #found or 0, 2 do found[i + 1] = found[i] / found[i + 1] end
  risen[curve] = found
  return found
end

--- The measured curve for the nearest number of ranks, as flat pairs of bytes and bytes/s. At equal distance, curves of
--- the kind come before curves without a kind, then the larger number of ranks. Times rise with bytes.
---@param curves table?
---@param ranks integer
---@param kind string?
function collectives.curve(curves, ranks, kind)
  if not curves then return nil end
  local best, nearest, most
  local function try(list)
    for n, curve in pairs(list) do
      local d = math.type(n) == "integer" and math.abs(math.log(n / ranks))
      if d and (not best or d < nearest or d == nearest and most and n > most) then
        best, nearest, most = curve, d, n
      end
    end
    most = nil
  end
  try(kind and curves[kind] or {})
  if rings[kind or "all_reduce"] then try(curves) end
  return best and rising(best)
end

local device_curves = setmetatable({}, { __mode = "k" })

-- Whether a curve of the tier gives the rate of the kind's rings. A curve of all_reduce may include in-switch
-- reduction.
local function has_ring(tier, kind) return kind ~= "all_reduce" and tier.curves and tier.curves[kind] ~= nil end

-- The tables of a cluster's device, with what was made of them; nil without tables.
local function tables_of(cluster)
  local device = type(cluster.device) == "table" and cluster.device
  if not (device and devices.has_tables(device)) then return nil end
  if device_curves[device] == nil then
    local tables = kernels.collectives(device)
    device_curves[device] = tables and { tables = tables } or false
  end
  return device_curves[device] or nil
end

-- Bus bandwidths of a ring or an all_to_all over n devices inside a node, by the tables of the device; nil without
-- tables. The ring of an all_reduce is as fast as a gather's.
local function device_curve(cluster, tier, kind, n)
  local found = kind ~= "send_recv" and not has_ring(tier, kind) and tables_of(cluster)
  if not found then return nil end
  local of = (kind == "reduce_scatter" or kind == "all_to_all") and kind or "all_gather"
  local known = table_at(table_at(found, of), tier.ring_bandwidth or 0)
  if known[n] == nil then
    known[n] = kernel_curves.bandwidths(found.tables, of, n, { rings = tier.ring_bandwidth }) or false
  end
  return known[n] or nil
end

-- Bandwidth of the links in a node, divided by the highest rate in the device's tables, above which a warning is given.
-- Datasheets state up to 1.4 times the measured rate (A100: 300 and 216 GB/s).
local most_of_tables = 1.5

--- A warning if the device's tables make gathers inside a node much slower than the cluster's links; else nil.
function collectives.table_warning(cluster)
  if (cluster.gpus_per_node or 1) < 2 then return nil end
  local list, node = tiers_module.of(cluster)
  local tier = list[node]
  if not tier.send or tier.curves or tier.ring_bandwidth or tier.mesh or tier.torus then return nil end
  local most, curve = 0.0, device_curve(cluster, tier, "all_gather", cluster.gpus_per_node)
  for i = 2, curve and #curve or 0, 2 do most = math.max(most, curve[i]) end
  if most == 0 or tier.send <= most_of_tables * most then return nil end
  return ("cluster '%s': %s.bandwidth = %g is above the rate in the tables of '%s', %.3g, which limits gathers, "
    .. "reduce-scatters and all-to-alls; to replace it, add measured curves (`ett cluster add-curve`)"):format(
    cluster.name, cluster.node_tier and ("tiers[%d]"):format(node) or "links.intra", tier.send, cluster.device.name,
    most)
end

-- Seconds by which each step of a small message inside a node of n devices takes longer than LL's. A step takes the
-- time of the smallest all_reduce in the device's tables without LL's start of 6.6 us, divided by the number of steps.
-- The tables do not quite agree with this start: their steps depend on n. For two, four and eight devices they are
-- 1.69, 1.26 and 1.06 us on A100, 1.61, 1.41 and 1.33 on B200, and -0.29, 0.46 and 0.64 on H100. So two and four H100
-- take no longer than LL.
local function late_step(cluster, tier, n)
  local found, wire = tables_of(cluster), protocols.wire(cluster, tier, true)
  local ll = found and wire and protocols.of({ { wire = wire } }, cluster)[1]
  if not ll then return 0.0 end
  local starts = table_at(found, "starts")
  starts[n] = starts[n] or table.pack(kernel_curves.start(found.tables, "all_reduce", n))
  local start, measured = starts[n][1], starts[n][2]
  return start and math.max(0.0, (start - ll.ring.start) / (2 * (measured - 1)) - ll.ring[wire] * tier.latency) or 0.0
end

local function hops(units) return units > 1 and units or 0 end

-- Three figures of the part of a torus that a group fills, axis by axis: the number of links of a device that its rings
-- use; the largest load of a link in an all-to-all, in buffers of a rank; and the hops between its most distant ranks.
--   a full axis is a ring:      two links, a load of an eighth of its length, half of its length in hops
--   a part of an axis is a line: one link, a load of a quarter of its length, one hop less than its length
-- If optical switches close the rings of whole tori only (`whole_rings`), an axis of a slice is also a line. Links,
-- hops and slices are from jax-ml/scaling-book, sharding.md and tpus.md; the loads are those of uniform traffic.
--
-- Ranks `apart` steps from each other share the links of an axis with the groups between them, and pass as many hops.
-- A group that does not fill its box shares the links of its rings with the groups between its ranks (`along`, `apart`
-- and `placed` of runtime/comm/placement.h). If the place of a group is unknown, it fills the axes from the first.
local function on_torus(tier, ranks, place)
  local links, load, far, left, positions = 0, 0.0, 0, ranks, 1
  for j, length in ipairs(tier.torus) do
    local own, apart = math.min(length, left), 1
    if place.along then own, apart = place.along[j], place.apart[j] end
    if own > 1 then
      local whole = own * apart
      local ring = whole == length and length > 2 and not (tier.whole_rings and place.slice)
      links, load = links + (ring and 2 or 1) / apart, math.max(load, whole / (ring and 8 or 4))
      far = far + (ring and whole // 2 or whole - apart)
    end
    left, positions = (left + own - 1) // own, positions * own
  end
  return links / (positions / (place.placed or positions)), load, far
end

-- The box of n units with the smallest sum of lengths, on at most `axes` axes: the sum, the number of axes that it
-- fills, and the longest length.
local function box(axes, n)
  local sum, filled, longest = n, 1, n
  for a = 2, axes > 1 and math.floor(math.sqrt(n)) or 0 do
    local of_rest, more, length = 0, 0, 0
    if n % a == 0 then of_rest, more, length = box(axes - 1, n // a) end
    if more > 0 and a + of_rest <= sum then sum, filled, longest = a + of_rest, 1 + more, math.max(a, length) end
  end
  return sum, filled, longest
end

-- Shares of a unit's bandwidth that a group over n units of a torus reaches in rings or sends, and in all-to-alls.
-- Rings use the axes that the group fills: one, two and three of 2, 4 and 8 cubes (docs.cloud.google.com/tpu/docs/v5p,
-- configurations). A send uses one direction of an axis. In an all-to-all the longest axis has the load of on_torus.
local function over_axes(axes, n, kind)
  local _, filled, longest = box(axes, n)
  return (kind == "send_recv" and 0.5 or filled) / axes, 4 * (n - 1) / (n * longest) / axes
end

-- Shares of a device's bandwidth that a group reaches in rings or sends, and in all-to-alls. In a mesh every pair of
-- devices has links of its own. So a group uses the links between its members, and a send the links of one pair. A
-- group uses the links inside nodes if at least one of its nodes holds several ranks.
---@param alone boolean whether the group has no other ranks than these
local function reached(cluster, tier, kind, ranks, alone, place, branches)
  ranks = math.max(2, ranks)
  local of_reductions = kind == "reduce_scatter" and tier.blocking_reductions or 1
  if tier.axes and branches > 1 then return over_axes(tier.axes, branches, kind) end
  if tier.mesh then
    local of_rings, of_pairs = protocols.mesh_shares(cluster, tier.size, ranks, alone)
    return kind == "send_recv" and 1 / (tier.size - 1) or of_reductions * of_rings, of_pairs
  elseif tier.torus then
    local all = 2 * #tier.torus
    local links, load = on_torus(tier, ranks, place)
    return (kind == "send_recv" and 1 or of_reductions * links) / all, (1 - 1 / ranks) / load / all
  end
  return of_reductions, 1
end

--- Bandwidth of one device for a group of ranks inside a node, bytes/s; nil if the node's links are unknown.
function collectives.inside_node(cluster, kind, ranks)
  local list, node = tiers_module.of(cluster)
  local tier = list[node]
  local of_rings, of_pairs = reached(cluster, tier, kind, ranks, true, {})
  return tier.send and (kind == "all_to_all" and of_pairs or of_rings) * math.min(tier.send, tier.receive)
end

-- Bandwidth of a tier for one group, bytes/s: limited by its cards, and by its share of the unit below.
local function share(tier, place, kind, of_card, of_unit)
  if kind ~= "send_recv" then return math.min(place.cards * of_card / place.sharing, of_unit / place.groups) end
  local one = tier.send_bandwidth or of_card
  return math.min(one, math.max(one, of_card) / place.sharing,
    (tier.unit_send_bandwidth or of_unit) / place.groups)
end

-- Bandwidth of one rank while all ranks send at once: its share of a card, or of the unit with most ranks.
local function of_rank(tier, place)
  local card, unit = math.min(tier.send, tier.receive), math.min(tier.unit_send, tier.unit_receive)
  return math.min(place.cards * card / place.sharing / place.members, unit / place.groups / place.most)
end

local steady_of = setmetatable({}, { __mode = "k" }) -- curve -> the same without its start

-- The bandwidths of a curve without the start of its collectives, at most the peak of the curve. The line through the
-- two smallest sizes gives the start. A group over several units counts the start separately.
local function steady(curve)
  local found = steady_of[curve]
  if found then return found end
  local first, peak = curve[1] / curve[2], 0.0
  for i = 2, #curve, 2 do
    if curve[i] > peak then peak = curve[i] end
  end
  local slope = curve[4] and math.max(0, (curve[3] / curve[4] - first) / (curve[3] - curve[1])) or 0
  local start = first - math.min(slope, 1 / curve[2]) * curve[1]
  found = {}
  for i = 1, #curve, 2 do
    local bytes = curve[i]
    local seconds = bytes / curve[i + 1] - start
    local rate = seconds > 0 and bytes / seconds
    found[i], found[i + 1] = bytes, rate and rate < peak and rate or peak
  end
  steady_of[curve] = found
  return found
end

local peak_of = setmetatable({}, { __mode = "k" }) -- the highest rate of a steady curve

local function peak(curve)
  local found = peak_of[curve]
  if not found then
    found = 0.0
    for i = 2, #curve, 2 do
      if curve[i] > found then found = curve[i] end
    end
    peak_of[curve] = found
  end
  return found
end

-- The rate of a large ring on a tier: at most the peak of its curves.
local function ring_rate(t)
  local rate = math.min(t.bandwidth, t.ring_bandwidth or huge)
  for _, curve in ipairs(t.steady) do rate = math.min(rate, peak(curve)) end
  return rate
end

local function refuse_missing(k, node, cluster, topology)
  if cluster.tiers then
    error_module.raise("plan", "a group of %d ranks is larger than the last tier of cluster %s",
      topology.ranks or topology.nodes * topology.gpus_per_node, cluster.name)
  elseif k == node then
    error_module.raise("missing", "%d ranks in a node need the cluster's links.intra.bandwidth", topology.gpus_per_node)
  end
  error_module.raise("missing", "%d nodes need the cluster's links.inter, with 'bandwidth_per_gpu' and "
    .. "'bandwidth_per_node'", topology.nodes)
end

--- The tiers of a cluster, and the figures of NCCL's tuner for each: the same for all kinds and placements. The timers
--- of a profile share them.
---@return table links { cluster, list, node = number of the tier of nodes, tuned = { { wire, added, message } },
---  protocols, post, no_trees: fields of a request; models = by kind, filled by models_of; one_way = by topology: what
---  gathers and reduce-scatters between nodes share, filled by known_of; nil: they may differ }
function collectives.links(cluster)
  local list, node = tiers_module.of(cluster)
  local tuned, alike = {}, not cluster.collectives
  for k, tier in ipairs(list) do
    local in_node = k <= node
    tuned[k] = { wire = protocols.wire(cluster, tier, in_node), added = protocols.added(cluster, tier, in_node),
      message = tier.message_latency or protocols.message(cluster, tier, in_node) }
    alike = alike and (in_node or not (tier.curves or tier.blocking_reductions or tier.reduces))
  end
  local links = { cluster = cluster, list = list, node = node, tuned = tuned, models = {},
    protocols = protocols.of(tuned, cluster), post = 0.0, no_trees = 0,
    one_way = alike and setmetatable({}, { __mode = "k" }) or nil }
  for _, one in ipairs(links.protocols) do
    links.post, links.no_trees = one.post or links.post, one.no_trees or links.no_trees
  end
  return links
end

-- The fields of a tier that do not depend on rates.
---@param about table the request for this tier: { cluster, kind, topology, ranks, level, node, place, outer, below };
---  level, node: numbers of this tier and of the tier of nodes; outer: the place of the next tier; below: lower units
---@param tuned table of collectives.links
local function fields_of_tier(tier, about, tuned)
  local place, outer = about.place, about.outer
  local units = tier.size and place.units or 1
  local branches = place.branches or math.ceil(about.below / units)
  local inside = outer and outer.groups > 0 and outer.members or about.ranks
  return { name = tier.name, used = place.groups > 0 and (tier.through or branches > 1), below = about.below,
    units = units, branches = branches, steps = hops(about.below) - hops(units), members = place.members,
    inside = inside, most = outer and outer.inside or about.ranks, through = tier.through,
    wire = tuned.wire, latency = tier.latency, added = tuned.added, message_latency = tuned.message, late = 0.0,
    ring_bandwidth = not has_ring(tier, about.kind) and tier.ring_bandwidth or nil,
    hops = tier.torus and select(3, on_torus(tier, inside, place)) or nil,
    hierarchical = tier.hierarchical, reduces = tier.reduces, mesh = tier.mesh,
    whole_mesh = tier.mesh and inside == tier.size }
end

-- Adds the rates and curves of a tier in use.
local function add_rates(t, tier, about)
  local cluster, kind, place, inside = about.cluster, about.kind, about.place, t.inside
  if not tier.send then refuse_missing(about.level, about.node, cluster, about.topology) end
  local of_rings, of_pairs = reached(cluster, tier, kind, inside, inside == about.ranks, place, t.branches)
  t.send = share(tier, place, kind, of_rings * tier.send, of_rings * tier.unit_send)
  t.receive = share(tier, place, kind, of_rings * tier.receive, of_rings * tier.unit_receive)
  t.bandwidth = math.min(t.send, t.receive)
  t.rank_bandwidth = of_pairs * of_rank(tier, place)
  -- Curves are measured with one group alone.
  t.curve = inside > 1 and place.groups == 1 and collectives.curve(tier.curves, inside, kind) or nil
  if about.level == about.node and inside > 1 then
    local of_device = device_curve(cluster, tier, kind, inside)
    t.ring_curve = rings[kind] and of_device
    t.pair_curve = kind == "all_to_all" and of_device or nil
    t.late = rings[kind] and late_step(cluster, tier, inside) or 0.0
  end
  t.steady = {}
  for _, own in ipairs { t.curve or t.ring_curve, t.curve and t.ring_curve or nil } do
    t.steady[#t.steady + 1] = steady(own)
  end
  t.ring_rate = ring_rate(t)
end

-- The tiers of a request, and the curves of the tiers in use.
local function tiers_of(links, kind, topology)
  local cluster, list, node = links.cluster, links.list, links.node
  local places = tiers_module.places(cluster, topology)
  local ranks = topology.ranks or topology.nodes * topology.gpus_per_node
  local found = { list = {}, curves = {}, ends_measured = false }
  local below = ranks
  local about = { cluster = cluster, kind = kind, topology = topology, ranks = ranks, level = 0, node = node,
    place = nil, outer = nil, below = ranks } -- of one tier after the other
  for k, tier in ipairs(list) do
    about.level, about.place, about.outer, about.below = k, places[k], places[k + 1], below
    local t = fields_of_tier(tier, about, links.tuned[k])
    if t.used then
      add_rates(t, tier, about)
      found.curves[#found.curves + 1] = t.curve and { tier = t, curve = t.curve }
      found.ends_measured = t.curve ~= nil
    end
    found.list[k], below = t, t.units
  end
  if below > 1 then refuse_missing(#list + 1, node, cluster, topology) end
  return found
end

-- Seconds of starting a collective. A processor starts no kernel; the latency of its links includes the start.
local function base_latency(cluster, first_tier)
  if protocols.of_processors(cluster) then return 0.0 end
  local default = tiers_module.default_latency
  return first_tier.hops and default.torus_base or default.base
end

-- A request with zero bytes.
local function empty_request(links, kind, topology)
  local cluster = links.cluster
  local ranks = topology.ranks or topology.nodes * topology.gpus_per_node
  local tiers = tiers_of(links, kind, topology)
  local curves = tiers.curves
  -- A curve of the outermost tier in use includes the tiers inside.
  return { request = { kind = kind, ranks = ranks, factor = comm.factor(kind, ranks),
    base_latency = base_latency(cluster, tiers.list[1]), tiers = tiers.list,
    protocols = links.protocols, post = links.post, no_trees = links.no_trees, in_switch = protocols.in_switch,
    forwarded = topology.forwarded and topology.gpus_per_node,
    curve = tiers.ends_measured and curves[#curves].curve or nil }, curves = curves,
    ends_measured = tiers.ends_measured }
end

-- Sets the bytes of a request; lua/collectives/README.md lists the fields that models read.
local function fill(known, bytes)
  local r, measured = known.request, nil
  for i = 1, #known.curves do
    local one = known.curves[i]
    measured = comm.curve_at(one.curve, bytes)
    one.tier.measured = measured
  end
  r.bytes, r.measured = bytes, known.ends_measured and measured or nil
end

local function refuse(model, format, ...)
  error_module.raise("model", "%s: collective '%s': %s", model.place, model.name, format:format(...))
end

-- Raises an error of a model's function again, with the model's name.
local function fault(model, raised)
  local object = error_module.from(raised) -- a Lua error holds file and line
  if object.kind == "internal" then object.kind = "model" end
  error(error_module.label(object, ("collective '%s'"):format(model.name)), 0)
end

-- Ranges of plausible values. least_rate: in bytes/s, or a share of a curve.
local most_seconds, least_rate = 1e9, 1e-6

local law_fields = { start = { "nonnegative", optional = true, most = most_seconds } }
local stream_fields = { moved = { "nonnegative", optional = true, most = 1e9 }, bandwidth = "any?", curve = "list?" }

-- Raises if a law has an unknown or wrong field, or no stream. ett.comm checks the bandwidths; it ignores metatables.
local function check_law(model, law)
  if getmetatable(law) ~= nil then refuse(model, "law: must be a table without a metatable") end
  local own = {}
  for key, value in pairs(law) do if math_type(key) ~= "integer" then own[key] = value end end
  local found = schema.violations(own, law_fields)
  if #law == 0 then found[#found + 1] = "has no stream" end
  for i, stream in ipairs(law) do
    for _, sentence in ipairs((schema.violations(stream, stream_fields))) do
      found[#found + 1] = ("stream %d: %s"):format(i, sentence)
    end
    if type(stream) == "table" and getmetatable(stream) ~= nil then
      found[#found + 1] = ("stream %d: must be a table without a metatable"):format(i)
    elseif type(stream) == "table" and stream.bandwidth == nil and stream.curve == nil then
      found[#found + 1] = ("stream %d: missing field 'bandwidth' (bytes/s), or 'curve'"):format(i)
    end
    local rate = type(stream) == "table" and stream.bandwidth
    if math_type(rate) and rate > 0 and rate < least_rate then -- ett.comm refuses others
      found[#found + 1] = ("stream %d: field 'bandwidth' must be at least %g, got %s"):format(i, least_rate,
        schema.describe(rate))
    end
  end
  if #found > 0 then refuse(model, "law: %s", table.concat(found, "; ")) end
end

local curves_of = { curve = true, ring_curve = true, pair_curve = true, steady = true }

-- A view of a request, or of a table in it, that a user's model cannot change: other models read the same request. A
-- curve is passed as it is, for laws. own: the model's entry of known.foreign.
local function view_of(model, value, own)
  local tables = {}
  return setmetatable({}, { __metatable = false, __index = function(_, key)
    local field = value[key]
    if key == "curve" or key == "measured" then own.by_curve = true end
    if type(field) ~= "table" or curves_of[key] then return field end
    tables[key] = tables[key] or view_of(model, field, own)
    return tables[key]
  end, __newindex = function(_, key)
    error_module.raise("model", "%s: must not change the request; it sets '%s'", model.place, tostring(key))
  end,
  __len = function() return #value end, __pairs = function() return pairs(value) end })
end

-- The timers of a model for a request: functions that return seconds and bus bandwidth, or descriptions of laws of
-- ett.comm. Empty: the model does not apply.
local function timers_of(known, model)
  local request = known.request
  if not model.installed then
    local own = { by_curve = false }
    known.foreign[#known.foreign + 1] = own
    request = view_of(model, request, own)
  end
  if not model.timer then return { function() return model.seconds(request) end } end
  local found = table.pack(pcall(model.timer, request))
  if not found[1] then fault(model, found[2]) end
  for i = 2, found.n do
    local time = found[i]
    if type(time) == "table" then
      if not model.installed then check_law(model, time) end
    elseif time ~= nil and type(time) ~= "function" then
      refuse(model, "timer must return a function, a law, or nil, got %s", schema.describe(time))
    end
  end
  return { table.unpack(found, 2, found.n) }
end

local function models_of(links, kind)
  local models, named = links.models[kind], links.cluster.collectives
  if not models then
    models = {}
    for i, name in ipairs(named and named[kind] or collectives.default[kind]) do models[i] = collectives.load(name) end
    links.models[kind] = models
  end
  return models
end

-- The most laws that are evaluated together (ETT_COMM_LINES of runtime/comm/comm.h).
local most_laws = 8

-- The bus bandwidth of a law's slowest stream.
local function bus_of(request, bytes, seconds, moved, bandwidth)
  return moved == request.factor and bandwidth or seconds > 0 and bytes * request.factor / seconds or 0.0
end

-- The timer of a law, as a function.
local function function_of(model, time, request)
  local ok, law = pcall(comm.law, time)
  if not ok then refuse(model, "law: %s", error_module.from(law).message) end
  return function()
    local seconds, _, stream, moved, bandwidth = law:time(request.bytes)
    return seconds, bus_of(request, request.bytes, stream, moved, bandwidth)
  end
end

-- The request for a kind in one placement, and the models that serve it with their timers; `law` if all are laws. ett's
-- models time a gather like a reduce-scatter. Only curves, in-switch reductions, blocking reductions and tables of a
-- device differ.
local function known_of(links, kind, topology)
  local shared = (kind == "all_gather" or kind == "reduce_scatter") and topology.ranks == topology.nodes
    and links.one_way
  local known = shared and shared[topology]
  if known then return known end
  known = empty_request(links, kind, topology)
  local request, times, laws = known.request, {}, true
  known.models, known.times, known.foreign = {}, times, {}
  for _, model in ipairs(models_of(links, kind)) do
    for _, time in ipairs(timers_of(known, model)) do
      known.models[#times + 1], times[#times + 1] = model, time
      laws = laws and type(time) == "table"
    end
  end
  if laws and #times > 0 and #times <= most_laws then
    local ok, law = pcall(comm.law, table.unpack(times))
    known.law = ok and law
  end
  for i, time in ipairs(known.law and {} or times) do
    if type(time) == "table" then times[i] = function_of(known.models[i], time, request) end
  end
  for k = 1, shared and links.node or 0 do shared = shared and not request.tiers[k].used and shared end
  if shared and #known.foreign == 0 then shared[topology] = known end
  return known
end

local function is_amount(value) return math_type(value) and value >= 0 and value < huge end

local function check(model, seconds, bus)
  if not is_amount(seconds) then
    refuse(model, "seconds must return a number of at least 0, or nil, got %s", schema.describe(seconds))
  elseif seconds > most_seconds then
    refuse(model, "seconds must return at most %g, got %s", most_seconds, schema.describe(seconds))
  elseif bus ~= nil and not is_amount(bus) then
    refuse(model, "the second result of seconds, the bus bandwidth, must be at least 0 or nil, got %s",
      schema.describe(bus))
  end
end

-- Answer of the fastest model: seconds, bus bandwidth or nil, name.
local function ask(known)
  local models, times, best, bus, name = known.models, known.times, nil, nil, nil
  for i = 1, #times do
    local ok, seconds, own = pcall(times[i])
    if not ok then fault(models[i], seconds) end
    if seconds ~= nil then
      if own ~= nil or not (math_type(seconds) == "float" and seconds >= 0 and seconds <= most_seconds) then
        check(models[i], seconds, own)
      end
      if not best or seconds < best then best, bus, name = seconds, own, models[i].name end
    end
  end
  return best, bus, name
end

-- Whether the models read the cluster's curves, if it has some. A user's model may ignore them.
local function by_curves(known)
  for i = 1, #known.foreign do if not known.foreign[i].by_curve then return false end end
  return true
end

--- Timer of one kind of collective in one placement, for any number of bytes. Raises an error if no model supports the
--- group.
---@param kind string standard name
---@param topology table of ett.step, or { nodes=, gpus_per_node=, groups_per_node= }; it must not change afterwards
---@param links table? of collectives.links, if the caller has it
---@return function function(bytes of the whole buffer): seconds, bus bandwidth, name of the model, whether measured
---@return function function(): the law of ett.comm that gives these times; or nil
function collectives.timer(cluster, kind, topology, links)
  local alone = (topology.ranks or topology.nodes * topology.gpus_per_node) == 1
  local known
  local function find_known()
    known = known_of(links or collectives.links(cluster), kind, topology)
    return known
  end
  return function(bytes)
    if bytes == 0 or alone then return 0.0, 0.0, "none", nil end
    local own = known or find_known()
    local law, request = own.law, own.request
    if law then
      local seconds, line, stream, moved, bandwidth = law:time(bytes)
      return seconds, bus_of(request, bytes, stream, moved, bandwidth), own.models[line].name,
        request.curve ~= nil and by_curves(own)
    end
    fill(own, bytes)
    local best, bus, name = ask(own)
    if not best then
      error_module.raise("model", "cluster %s: no model of %s supports a group of %d ranks: %s", cluster.name,
        kind, request.ranks, table.concat(cluster.collectives and cluster.collectives[kind]
        or collectives.default[kind], ", "))
    end
    return best, bus or (best > 0 and bytes * request.factor / best or 0.0), name,
      request.measured ~= nil and by_curves(own)
  end, function()
    return not alone and (known or find_known()).law or nil
  end
end

--- Seconds of a collective over a cluster's tiers: { seconds, bus_bandwidth, model, measured }.
function collectives.time(cluster, kind, bytes, topology)
  local seconds, bus, model, measured = collectives.timer(cluster, kind, topology)(bytes)
  return { seconds = seconds, bus_bandwidth = bus, model = model, measured = measured }
end

return collectives
