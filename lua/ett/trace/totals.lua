--- Totals of each lane that the throughput-oriented metrics share, and how they are given.
--
-- On TPU the profiler rounds ts and dur; device_duration_ps is the chip's own count. Where
-- rows of a lane do not overlap, communication time is the sum of device_duration_ps.
local interval = require "ett.interval"
local stats = require "ett.trace.stats"
local trace_view = require "ett.trace.view"

local totals = {}

--- Args of the TPU rows that the totals read.
totals.args = { "hlo_category", "long_name", "device_duration_ps", "model_flops", "shape_with_layout" }

local Lane = trace_view.Lane

--- Communication time in ticks (float on TPU) of the collectives that pass keep(), united.
function Lane:comm_ticks(keep)
  local all, kept, sum, device_sum = self:collectives(), {}, 0, 0.0
  for _, each in ipairs(all) do
    if not keep or keep(each) then
      kept[#kept + 1] = each
      sum = sum + each.dur
      device_sum = device_sum + (each.device_ticks or each.dur)
    end
  end
  if #kept == 0 then return 0 end
  local set
  if #kept == #all then
    set = self:comm()
  else
    local list = {}
    for i, each in ipairs(kept) do list[i] = { each.ts, each.stop } end
    set = interval.new(list)
    if self.from then set = set:clip(self.from, self.to) end
  end
  local united = set:measure()
  if self.tpu and united == sum then return device_sum end
  return united
end

--- FLOPs that the rows say they did (TPU model_flops), or nil when no row says.
function Lane:model_flops()
  return self:cached("model_flops", function()
    local sum, count = self:rows("all"):sum("model_flops")
    return count > 0 and sum or false
  end) or nil
end

--- Device seconds of the rows that state FLOPs.
function Lane:flops_seconds()
  local rows = self:rows("all"):where{ has_arg = "model_flops" }
  local sum, seconds = 0.0, 0.0
  for _, group in ipairs(rows:stats{ by = { "arg:model_flops" } }) do
    local flops = tonumber(group.model_flops) or 0
    if flops > 0 then
      sum = sum + flops * group.count
      seconds = seconds + self.view:s(group.total)
    end
  end
  return sum, seconds
end

--- Result of a metric that is one number per lane: {[name] = mean or sum, per_device = {...}}.
---@param fold string "mean" or "sum" over the lanes
function totals.per_device(view, name, fold, value)
  local map, list = {}, {}
  for _, lane in ipairs(view:lanes()) do
    local each = value(lane)
    map[lane.key] = stats.known(each)
    if each ~= nil and each ~= stats.null then list[#list + 1] = each end
  end
  local total
  if #list == 0 then total = stats.null
  elseif fold == "mean" then total = stats.mean(list)
  else
    total = list[1]
    for i = 2, #list do total = total + list[i] end
  end
  return { [name] = total, per_device = map, over_devices = fold }
end

--- Mean bandwidth in bytes a second of a lane's collectives whose bytes and time are known.
function totals.bandwidth(lane)
  local bytes, ticks, n = 0.0, 0.0, 0
  for _, each in ipairs(lane:collectives()) do
    if each.bytes and each.dur > 0 then
      bytes, ticks, n = bytes + each.bytes, ticks + (each.device_ticks or each.dur), n + 1
    end
  end
  if n == 0 then return nil, 0 end
  return bytes / lane.view:s(ticks), n
end

return totals
