--- Clusters with several kinds of nodes: each part is a number of nodes of another cluster; `links` joins the parts.
--
--   parts = { { cluster = "dgx_h100", nodes = 2 }, { cluster = "dgx_a100", nodes = 2 } },
--   links = { inter = { bandwidth_per_gpu = 24e9, bandwidth_per_node = 192e9, source = "…" } }
--
-- Devices are numbered through the parts in order. After the check a part is the table of the cluster that it names,
-- with the part's number of nodes.
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"
local tiers = require "ett.profile.network.tiers"

local parts = {}

--- Largest number of parts of a cluster (ETT_PARTS_MOST of runtime/step/step.h).
parts.most = 8

local fields = { cluster = "text_or_table", nodes = { "count", most = 1 << 24 } }
local of_parts = { "device", "tiers", "profile", "nodes", "host", "price_per_gpu_hour", "failures", "power",
  "collectives" }

-- A part: nodes of one kind, with the links inside a node and between two nodes.
local function part_of(given, get, label)
  if type(given) ~= "table" then
    error_module.raise("model", "%s: must be a table { cluster =, nodes = }, got %s", label, schema.describe(given))
  end
  local clean = schema.check(given, fields, label)
  local whole = error_module.wrap(label, get, clean.cluster)
  if whole.parts then
    error_module.raise("model", "%s: cluster '%s' has parts; a part must be a cluster without parts", label, whole.name)
  end
  if whole.nodes and clean.nodes > whole.nodes then
    error_module.raise("model", "%s: %d nodes, but cluster '%s' has %d", label, clean.nodes, whole.name, whole.nodes)
  end
  local part = merged(whole)
  part.nodes, part.tiers, part.node_tier = clean.nodes, nil, nil -- `links` replaces the tiers
  return part
end

--- Checks the parts of a cluster and fills the derived fields.
---@param clean table the cluster's fields, their types already checked
---@param get function(cluster) returns the cluster of a name, file or table
function parts.check(clean, get, label)
  for _, name in ipairs(of_parts) do
    if clean[name] then
      error_module.raise("model", "%s: field '%s' belongs to the clusters of the parts", label, name)
    end
  end
  if not (clean.links and clean.links.inter) or clean.links.intra then
    error_module.raise("model", "%s: 'parts' need 'links' with 'inter' alone, the network that joins them", label)
  end
  if #clean.parts < 2 or #clean.parts > parts.most then
    error_module.raise("model", "%s: parts: a cluster has 2 to %d, got %d", label, parts.most, #clean.parts)
  end
  local list, nodes = {}, 0
  for i, given in ipairs(clean.parts) do
    local where = ("%s: parts[%d]"):format(label, i)
    local part = part_of(given, get, where)
    local per_node = clean.gpus_per_node or list[1] and list[1].gpus_per_node or part.gpus_per_node
    if part.gpus_per_node ~= per_node then
      error_module.raise("model", "%s: nodes of '%s' have %d devices, others of this cluster %d; all must have the "
        .. "same number", where, part.name, part.gpus_per_node, per_node)
    end
    list[i], nodes = part, nodes + part.nodes
  end
  clean.parts, clean.nodes, clean.gpus_per_node = list, nodes, list[1].gpus_per_node
  clean.device, clean.links.intra = list[1].device, list[1].links.intra
end

--- Ends, memory and host links of the parts in the form of the C plan; nil without parts.
function parts.placement(cluster)
  if not cluster.parts then return nil end
  local flat, devices = {}, 0
  for _, part in ipairs(cluster.parts) do
    devices = devices + part.nodes * part.gpus_per_node
    table.move({ devices, part.device.memory_bytes, part.host and part.host.bandwidth or 0.0, tiers.host_rate(part) },
      1, 4, #flat + 1, flat)
  end
  return flat
end

--- The number of devices of each part among the first `devices`.
---@return integer[]
function parts.counts(cluster, devices)
  local list, left = {}, devices
  for i, part in ipairs(cluster.parts) do
    list[i] = math.min(left, part.nodes * part.gpus_per_node)
    left = left - list[i]
  end
  return list
end

--- Raises an error for a cluster of parts, from code that supports one kind of nodes only.
---@param what string the feature, for the message
---@param instead string? another way, such as " or …"
function parts.refuse(cluster, what, instead)
  if cluster.parts then
    error_module.raise("model", "%s needs a cluster of one kind of nodes; '%s' has %d parts. Name the cluster of one "
      .. "part%s", what, cluster.name, #cluster.parts, instead or "")
  end
end

return parts
