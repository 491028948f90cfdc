--- What physics says of a table of samples: the least time that each row can take, and whether a pass is void.
--
-- A row faster than the device's peak is wrong and the fit drops it. When most rows of a pass are, not the rows
-- are wrong but the pass: a kernel is missing from it, or its clock stood still. Then no fit of it means anything,
-- and the profile serves none (ett.profile: void).
local schema = require "ett.base.schema"

local physics = {}

--- Streaming multiprocessors by device name, for folders without a cluster file.
local multiprocessors = { { "A100", 108 }, { "A800", 108 }, { "GH200", 132 }, { "H100", 132 }, { "H200", 132 },
  { "H800", 132 }, { "B200", 148 }, { "V100", 80 }, { "A40", 84 }, { "L40", 142 }, { "MI300", 304 }, { "MI250", 208 } }

function physics.multiprocessors(gpu)
  for _, pair in ipairs(multiprocessors) do if gpu:find(pair[1], 1, true) then return pair[2] end end
  return 108
end

-- Dense FLOP/s of the widest unit by device name: 16-bit, 8-bit (datasheets; clusters/*.lua name them).
local hopper, hopper_fp8 = 989.4e12, 1978.9e12
local peaks = { { "A100", 312e12 }, { "A800", 312e12 }, { "GH200", hopper, hopper_fp8 }, { "H100", hopper, hopper_fp8 },
  { "H200", hopper, hopper_fp8 }, { "B200", 2250e12, 4500e12 } }

local function peak_of(gpu, dtype)
  for _, row in ipairs(peaks) do
    if gpu:find(row[1], 1, true) then
      if dtype == "fp8" or dtype == "int8" then return row[3] end
      return row[2] -- wider types run no faster
    end
  end
end

-- No link carries more than a terabyte per second into one device (fifth NVLink: 0.9).
local fastest_link = 1e12

local function of_collective(rows, entry, group)
  local nodes, gpus = (group or ("%d_%d"):format(entry.nodes or 1, entry.gpus or 1)):match("^(%d+)_(%d+)$")
  local ranks = tonumber(nodes) * tonumber(gpus)
  local bytes = schema.dtype_bytes[entry.dtype] or 2
  -- A rank's share of an all-gather comes from every other; the rest move their buffer once.
  local moved = bytes * (entry.collective == "all_gather" and math.max(1, ranks - 1) or 1)
  local least = {}
  for i, elements in ipairs(rows) do least[i] = elements * moved / fastest_link end
  return least
end

local function of_products(family, d, rows, pass, count, peak)
  local least = {}
  for i = 1, count do
    local at = (i - 1) * d
    local flops
    if family == "gemm" then -- backward: two products
      flops = 2.0 * rows[at + 1] * rows[at + 2] * rows[at + 3] * rows[at + 4] * (pass == "backward" and 2 or 1)
    else -- two products over half of the scores; backward recomputes one: five
      flops = 2.0 * rows[at + 1] * rows[at + 2] * rows[at + 4] * rows[at + 5] * rows[at + 6]
        * (rows[at + 7] ~= 0 and 1 or 2) * (pass == "backward" and 2.5 or 1)
    end
    least[i] = flops / peak
  end
  return least
end

--- The least time of each row, of products and collectives; nil where that is not known.
---@param data table { gpu=, family=, dims=, rows= (flat), seconds=, pass=, entry= (of its file), group=? "nodes_gpus" }
---@return number[]|nil seconds
function physics.least_seconds(data)
  local entry = data.entry
  if entry and entry.collective then return of_collective(data.rows, entry, data.group) end
  if data.family ~= "gemm" and data.family ~= "attention" then return nil end
  local peak = peak_of(data.gpu, entry and entry.dtype or "fp16")
  return peak and of_products(data.family, data.dims, data.rows, data.pass, #data.seconds, peak)
end

--- Why a pass is void, or nil: most of its rows take less time than the device can.
---@param data table as of least_seconds
---@return string|nil reason
function physics.void(data)
  local least = physics.least_seconds(data)
  if not least then return nil end
  local fast, n = 0, #data.seconds
  for i, seconds in ipairs(data.seconds) do if seconds < least[i] then fast = fast + 1 end end
  if fast <= n / 2 then return nil end
  return ("%d of %d rows (%.0f %%) are faster than %s"):format(fast, n, 100 * fast / n,
    data.entry and data.entry.collective and "any link carries" or "the device's peak")
end

return physics
