--- Fits the constants of ett.profile.kernels.streaming to tables of static quantisation, of all devices or without one.
--
--   ett run spec/bench/support/fit_streaming.lua     -- prints the constants
--
-- `ett bench kernels` prints the errors of devices left out. Least mean of |log(estimated / measured)| on a grid.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local csv, devices = require "ett.csv", require "ett.profile.device"
local kernel_tables = require "kernel_tables"
local streaming = require "ett.profile.kernels.streaming"

local fit_streaming = {}

-- As in ett.profile.device_times and ett.profile.in_step, not fitted here.
local start, share = 2e-6, require("ett.profile.in_step").stream_share

--- Rows of all devices: { device, bytes, seconds }. bf16 is read and fp8 written.
function fit_streaming.rows(folder)
  local rows = {}
  for _, key in ipairs(kernel_tables.nvidia) do
    local device = devices.get(key)
    local file = csv.read(("%s/%s/quantize.csv"):format(folder, device.tables or key))
    local operation = file and file:strings "operation"
    local m, k, us = nil, nil, nil
    if file then m, k, us = file:numbers "m", file:numbers "k", file:numbers "time_us" end
    for i = 1, us and #us or 0 do
      if operation[i] == "quantize_static" then
        rows[#rows + 1] = { device = device, bytes = 3.0 * m[i] * k[i], seconds = us[i] * 1e-6 }
      end
    end
  end
  return rows
end

--- Mean of |estimated / measured - 1|. constants nil: all bytes from memory.
function fit_streaming.error(rows, constants)
  local sum = 0.0
  for _, row in ipairs(rows) do
    local seconds = constants and streaming.seconds(row.device, row.bytes, share, constants)
      or row.bytes / (row.device.memory_bandwidth * share)
    sum = sum + math.abs((start + seconds) / row.seconds - 1)
  end
  return sum / #rows
end

local function loss(rows, constants)
  local sum = 0.0
  for _, row in ipairs(rows) do
    local seconds = start + streaming.seconds(row.device, row.bytes, share, constants)
    sum = sum + math.abs(math.log(seconds / row.seconds))
  end
  return sum / #rows
end

--- Constants with the least loss.
function fit_streaming.fit(rows)
  local least, best = math.huge, nil
  for bytes_per_cycle = 12, 28 do
    for from = 60, 100, 5 do
      for _, width in ipairs { 5, 15, 25, 35 } do
        local constants = { bytes_per_cycle = bytes_per_cycle, from = from / 100, to = (from + width) / 100 }
        local own = loss(rows, constants)
        if own < least then least, best = own, constants end
      end
    end
  end
  return best
end

--- Errors of each device with constants of the others, in order of the devices: { key, count, error, memory (the error
--- without the cache), constants }.
function fit_streaming.left_out(rows)
  local found = {}
  for _, key in ipairs(kernel_tables.nvidia) do
    local own, others = {}, {}
    for i, row in ipairs(rows) do
      if row.device.key == key then own[#own + 1] = row
      elseif i % 5 == 0 then others[#others + 1] = row end -- a fifth suffices for three constants
    end
    if own[1] then
      local constants = fit_streaming.fit(others)
      found[#found + 1] = { key = key, count = #own, error = fit_streaming.error(own, constants),
        memory = fit_streaming.error(own), constants = constants }
    end
  end
  return found
end

if ... == "fit_streaming" then return fit_streaming end

local rows = fit_streaming.rows(assert(kernel_tables.folder()))
for name, value in pairs(fit_streaming.fit(rows)) do print(name, value) end
for _, row in ipairs(fit_streaming.left_out(rows)) do
  print(("%s %d rows: %.1f %%, %.1f %% without the cache (%g bytes a cycle, %g to %g)"):format(row.key, row.count,
    100 * row.error, 100 * row.memory, row.constants.bytes_per_cycle, row.constants.from, row.constants.to))
end
