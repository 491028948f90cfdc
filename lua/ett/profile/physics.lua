--- Lower bounds on the time of each row of a sample table, and the check for void passes.
--
-- A row faster than the device's peak, its memory or the links is wrong: the fit drops it. A pass is void if most of
-- its rows are faster: the measurement missed a kernel, or its timer failed. No model is fitted to a void pass.
local device_module = require "ett.profile.device"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local schema = require "ett.base.schema"

local physics = {}

--- Default for a device of unknown name: the count of an A100.
physics.assumed_multiprocessors = 108

-- Streaming multiprocessors of devices without a file.
local multiprocessors = { MI250 = 208 }

local function normalised(name) return (name:upper():gsub("[^%w]", "")) end

local devices, generation -- plain name -> facts, for one set of folders

-- Whether a name contains another name. The name must not continue with digits, except a memory size: "L40-48GB"
-- contains L40, but not L4.
local function names_device(gpu, name)
  local _, last = gpu:find(name, 1, true)
  return last and (gpu:find("^%D", last + 1) or last == #gpu or gpu:find("^[1-9]%d*GB", last + 1))
end

--- The device whose name is the longest match within a name such as "NVIDIAA100-SXM4-80GB", or nil. Only letters and
--- digits count.
function physics.device_of(gpu)
  if generation ~= find.generation then
    local list = {}
    for _, key in ipairs(device_module.names()) do
      local device = device_module.get(key)
      for _, name in ipairs { key, device.name, table.unpack(device.aliases or {}) } do
        list[normalised(name)] = device
      end
    end
    devices, generation = list, find.generation
  end
  gpu = normalised(gpu)
  local best
  for name in pairs(devices) do
    if names_device(gpu, name) and (not best or #name > #best) then best = name end
  end
  return best and devices[best]
end

local device_of = physics.device_of

--- Whether samples of the device `gpu` (the name in their file names) belong to a cluster's device.
---@param device ett.Device
function physics.same_device(gpu, device)
  local a, b = normalised(gpu), normalised(device.name)
  if a == b or #a > 2 and names_device(b, a) or #b > 2 and names_device(a, b) then return true end
  local known = device_of(gpu)
  return known ~= nil and known == device_of(device.name)
end

--- Raises an error if samples belong to another device than the cluster's.
---@param label string the folder or file of the samples, for the message
---@param accepted boolean? the user gave --accept-device
function physics.check_device(gpu, cluster, label, accepted)
  if accepted or physics.same_device(gpu, cluster.device) then return end
  error_module.raise("model", "%s: samples of '%s' are not of the device '%s' of cluster %s; predict, sweep and "
    .. "calibrate use them with --accept-device", label, gpu, cluster.device.name, cluster.name)
end

--- Number of streaming multiprocessors of a device by its name, for sample folders without a cluster.
function physics.multiprocessors(gpu)
  local device = device_of(gpu)
  if device and device.multiprocessors then return device.multiprocessors end
  for name, count in pairs(multiprocessors) do if gpu:find(name, 1, true) then return count end end
  return physics.assumed_multiprocessors
end

--- Dense FLOP/s bound; types of 16 and more bits at the 16-bit rate.
local function peak_of(gpu, dtype)
  local device = device_of(gpu)
  return device and device:peak((schema.dtype_bytes[dtype] or 2) < 2 and dtype or "bf16")
end

-- Bytes/s into one device that no interconnect exceeds (NVLink 5: 0.9e12).
local fastest_link = 1e12

--- A row is wrong if its rate is above that of the cluster's links by this factor. Links may be stated with a margin.
physics.over_links = 2.0

-- The least bytes that enter a device, or a node with `inside` of the group's ranks, for each byte of a row, with any
-- algorithm.
local function received(kind, ranks, inside)
  if kind == "all_gather" then return math.max(1, ranks - inside) end -- rows count the share of one rank
  if kind == "reduce_scatter" then return inside / ranks end
  if kind == "all_to_all" then return inside * (ranks - inside) / ranks end
  return 1
end

-- Bytes/s of the network into a node with `inside` of the group's ranks.
local function into_node(network, kind, inside)
  local card, node = network.bandwidth_per_gpu, network.bandwidth_per_node
  if kind == "send_recv" then card, node = network.send_bandwidth or card, network.send_bandwidth_per_node or node end
  return math.min(inside * card, node)
end

local function of_collective(rows, entry, group, network)
  local nodes, gpus = (group or ("%d_%d"):format(entry.nodes or 1, entry.gpus or 1)):match("^(%d+)_(%d+)$")
  nodes, gpus = tonumber(nodes), tonumber(gpus)
  local over, bytes = nodes > 1 and network, schema.dtype_bytes[entry.dtype] or 2
  local rate = over and physics.over_links * into_node(network, entry.collective, gpus) or fastest_link
  -- Inside a node a device receives at least its buffer, whatever the kind.
  local kind = (over or entry.collective == "all_gather") and entry.collective
  local moved, least = bytes * received(kind, nodes * gpus, over and gpus or 1), {}
  for i, elements in ipairs(rows) do least[i] = elements * moved / rate end
  return least, over and ("%g times the cluster's network"):format(physics.over_links) or "any link carries"
end

local function of_products(family, d, rows, pass, count, peak)
  local least = {}
  for i = 1, count do
    local at = (i - 1) * d
    local flops
    if family == "gemm" then -- backward: two products
      flops = 2.0 * rows[at + 1] * rows[at + 2] * rows[at + 3] * rows[at + 4] * (pass == "backward" and 2 or 1)
    else -- two products over half of the scores; five in the backward pass, because it recomputes one
      flops = 2.0 * rows[at + 1] * rows[at + 2] * rows[at + 4] * rows[at + 5] * rows[at + 6]
        * (rows[at + 7] ~= 0 and 1 or 2) * (pass == "backward" and 2.5 or 1)
    end
    least[i] = flops / peak
  end
  return least
end

-- Time to move the bytes that do not fit in the cache, at the memory bandwidth; 0 for rows that fit. For larger rows,
-- the cache may hold as many bytes as its size from the run before.
local function of_memory(data, device)
  local op, dtype, least = data.entry.operator, data.entry.dtype, {}
  for i, shape in ipairs(data.shapes) do
    local bytes = (op.least_bytes or op.bytes)(shape, dtype, data.pass)
    local cache = device.l2_bytes or 0
    least[i] = bytes > 2 * cache and (bytes - cache) / device.memory_bandwidth or 0.0
  end
  return least
end

--- The lower bound of each row, seconds, and the limit that sets it; nil if the device is unknown.
---@param data table { gpu=, family=, dims=, rows= (flat), seconds=, pass=, entry= (of its file), group=? "nodes_gpus",
---  shapes=? (of each row, for operators that are neither products nor attention), network=? (links.inter of the
---  cluster, for collectives over nodes) }
---@return number[]|nil seconds
---@return string|nil bound
function physics.least_seconds(data)
  local entry = data.entry
  if entry and entry.collective then return of_collective(data.rows, entry, data.group, data.network) end
  if data.family == "gemm" or data.family == "attention" then
    local peak = peak_of(data.gpu, entry and entry.dtype or "fp16")
    return peak and of_products(data.family, data.dims, data.rows, data.pass, #data.seconds, peak), "the device's peak"
  end
  local device = data.shapes and device_of(data.gpu)
  return device and of_memory(data, device), "the device's memory"
end

--- The reason why a pass is void (most of its rows are faster than the device), or nil.
---@param data table as of least_seconds
---@return string|nil reason
function physics.void(data)
  local least, bound = physics.least_seconds(data)
  if not least then return nil end
  local fast, n = 0, #data.seconds
  for i, seconds in ipairs(data.seconds) do if seconds < least[i] then fast = fast + 1 end end
  if fast <= n / 2 then return nil end
  return ("%d of %d rows (%.0f %%) are faster than %s"):format(fast, n, 100 * fast / n, bound)
end

return physics
