--- The smallest possible error of a physical prediction. Some rows were measured faster than the device or the link
-- allows; a physical prediction errs at least by the difference.
---   floor.of(file, tested, pass) = mean of max(0, least / measured - 1) over the tested rows
local physics = require "ett.profile.physics"
local schema = require "ett.base.schema"

local floor = {}

--- Line rates in bytes/s: into a node over all its cards, and into a device inside a node.
floor.rates = {
  P = { node = 4 * 25e9, device = 300e9 }, -- 4 x Slingshot-11 of 200 Gb/s; 12 NVLink 3 of 25 GB/s each way
  V = { node = 50e9 },                     -- one NDR InfiniBand of 400 Gb/s; one device a node
}

--- The least seconds of a collective over ranks on `nodes` nodes. Sizes count the whole buffer. The all-gather files
-- probably count one rank's share, which would take `ranks` times as long; this is the weaker bound.
---@param bytes number of the whole buffer
---@param rates table { node=, device= } bytes/s
function floor.collective(kind, bytes, nodes, gpus, rates)
  local parts = nodes > 1 and nodes or gpus
  -- Bytes that a node (or a device, in one node) must receive: the part that it does not hold.
  local moved = kind == "send_recv" and bytes or bytes * (parts - 1) / parts
  return moved / (nodes > 1 and rates.node or rates.device)
end

local function least_of(file, pass)
  local entry, rates = file.entry, floor.rates[file.cluster]
  if not entry.collective then
    return physics.least_seconds { gpu = entry.gpu, family = file.family, dims = file.dims, rows = file.rows,
      seconds = file.by_pass[pass], pass = pass, entry = entry }
  end
  local least = {}
  for i = 1, file.count do
    local nodes, gpus = entry.nodes, entry.gpus
    if file.group then nodes, gpus = file.group[i]:match "^(%d+)_(%d+)$" end
    least[i] = floor.collective(entry.collective, file.rows[i] * schema.dtype_bytes[entry.dtype], tonumber(nodes),
      tonumber(gpus), rates)
  end
  return least
end

--- The floor of a file's tested rows; 0 if no row violates a physical bound, or if no bound is known.
---@param file table from ett.holdout, of a cluster that `rates` names
---@param tested boolean[] by row
---@param pass string
---@return number error, integer faster, integer rows
function floor.of(file, tested, pass)
  local least, seconds, total, faster, n = least_of(file, pass), file.by_pass[pass], 0.0, 0, 0
  for i = 1, file.count do
    if tested[i] then
      n = n + 1
      if least and least[i] > seconds[i] then
        faster, total = faster + 1, total + least[i] / seconds[i] - 1
      end
    end
  end
  return n > 0 and total / n or 0.0, faster, n
end

return floor
