--- A lane: one device (on TPU one core) of one rank, with its rows by kind, merged intervals, collectives and kernel
--- launches. ett.trace.view creates lanes and defines the terms.
local collective = require "ett.trace.collective"
local interval = require "ett.interval"
local parallel = require "ett.trace.parallel"
local stats = require "ett.trace.stats"
local xla = require "ett.trace.xla"

local Lane = {}
Lane.__index = Lane

--- Computes a value once and caches it under a name: lane:cached("steps", function() … end).
local function cached(self, name, make)
  local value = self.cache[name]
  if value == nil then
    value = make()
    self.cache[name] = value
  end
  return value
end
Lane.cached = cached

--- A method that computes its value once, for each argument.
local function once(name, make)
  return function(self, of)
    return cached(self, of == nil and name or name .. "_" .. of, function() return make(self, of) end)
  end
end
Lane.once = once

local function without(rows, others) return #others > 0 and rows - others or rows end

--- Rows of the lane that touch the window (whole trace without one).
Lane.touching = once("touching", function(self)
  return self.from and self.all:where{ window = { self.from, self.to } } or self.all
end)

--- Touching rows of a kind: "comm", "compute", "memory", "all".
Lane.touching_rows = once("touching", function(self, what)
  local rows = self:touching()
  if what == "all" then return rows end
  local parts = cached(self, "touching_parts", function()
    local names, moved = self.view:copy_names(), rows:where{ class = { "memcpy", "memset" } }
    local kernels = without(rows, moved)
    local copies = #names > 0 and kernels:where{ names = names } or kernels:slice(1, 0)
    return { memory = moved + copies, kernels = without(kernels, copies) }
  end)
  if what == "memory" then return parts.memory end
  local kernels = parts.kernels
  local communication = cached(self, "touching_comm", function()
    return self.tpu and xla.communication(kernels) or kernels:where{ names = self.view:communication_names() }
  end)
  if what == "comm" then return communication end
  return without(kernels, communication)
end)

--- The same device with another window.
function Lane:within(from, to)
  local lane = { cache = {}, from = from, to = to }
  for _, field in ipairs { "view", "process", "rank", "device", "key", "all", "tpu", "shared" } do
    lane[field] = self[field]
  end
  return setmetatable(lane, Lane)
end

--- Rows of a kind that start in the window.
Lane.rows = once("rows", function(self, what)
  local rows = self:touching_rows(what)
  return self.from and rows:where{ starts_in = { self.from, self.to } } or rows
end)

--- All rows that touch the window in order of start, and the launch call of each (a matched selection, with holes for
--- unrecorded calls). With `what`: rows of that kind that start in the window.
function Lane:launches(what)
  local found = cached(self, "launches_" .. tostring(what), function()
    local rows = (what and self:rows(what) or self:touching()):sort("ts")
    return { rows, rows:match(self.view:launch_calls(), "correlation") }
  end)
  return found[1], found[2]
end

--- The asynchronous collectives of the device, in any window (xla.pairs); nil except on TPU.
function Lane:asynchronous()
  if not self.tpu then return nil end
  self.shared.pairs = self.shared.pairs or xla.pairs(xla.communication(self.all))
  return self.shared.pairs
end

--- Merged intervals of the rows of a kind, clipped to the window. An asynchronous collective is one interval from the
--- start of its first row to the end of its last.
Lane.intervals = once("intervals", function(self, what)
  local set = self:touching_rows(what):intervals()
  if self.tpu and (what == "comm" or what == "all") then set = set | self:asynchronous().spans end
  return self.from and set:clip(self.from, self.to) or set
end)

function Lane:comm() return self:intervals("comm") end
function Lane:compute() return self:intervals("compute") end
function Lane:memory() return self:intervals("memory") end
function Lane:busy() return self:intervals("all") end

--- Start and end of the span: the window, else first start and last end of the rows.
function Lane:span()
  if self.from then return self.from, self.to end
  local from, to = self:busy():span()
  if from == nil then -- all rows have zero duration
    from, to = self:touching():span()
  end
  return from or 0, to or 0
end

--- The recorded part of the span: an interval set, or nil if the whole span was recorded. A process with several
--- recordings has one interval per recording, from its first row to its last.
function Lane:recorded()
  return cached(self, "recorded", function()
    if #self.process.files < 2 then return false end
    local home, hulls = self.view:recordings(), {}
    for _, group in ipairs(self.all:group{ "file" }) do
      local from, to = group.events:span()
      local hull = hulls[home[group.file]] or { from, to }
      hulls[home[group.file]] = { math.min(from, hull[1]), math.max(to, hull[2]) }
    end
    local stretches = {}
    for _, hull in pairs(hulls) do stretches[#stretches + 1] = hull end
    return interval.new{ { self:span() } } - interval.new(stretches):gaps()
  end) or nil
end

--- Length of the span in ticks, without the time between recordings.
function Lane:span_ticks()
  local recorded = self:recorded()
  if recorded then return recorded:measure() end
  local from, to = self:span()
  return to - from
end

--- The gaps between the rows, without the time between recordings.
function Lane:gaps()
  local gaps, recorded = self:busy():gaps(), self:recorded()
  return recorded and gaps & recorded or gaps
end

--- Steps of the lane's process that start in its window, and with --step only that one:
--- {number=, name=, from=, to=, step= (of View:steps)}.
function Lane:steps()
  local list, only = {}, self.view.options.step
  for _, step in ipairs(self.view:steps()) do
    local span = step.spans[self.process.index]
    local inside = span and (not self.from or (span[1] >= self.from and span[1] < self.to))
    if inside and (not only or only == step.number) then
      list[#list + 1] = { number = step.number, name = step.name, from = span[1], to = span[2],
        step = step }
    end
  end
  return list
end

-- The host call of each device row.
local function calls_of(self)
  return cached(self, "calls", function() return self.all:match(self.view:launch_calls(), "correlation") end)
end

--- Device time of host ranges. For each range, the interval from the start of the first kernel launched in it
--- (innermost range) to the end of the last one; merged and clipped to the window. Also the number of ranges that
--- launched a kernel.
---@param ranges any a selection of host rows
function Lane:launched_in(ranges)
  local set, count = self.all:hulls(calls_of(self):enclosing(ranges))
  return self.from and set:clip(self.from, self.to) or set, count
end

--- launched_in for the ranges of each name apart: { [name] = { set, count } }, in one pass.
function Lane:launched_by_name(ranges)
  local found = self.all:named_hulls(calls_of(self), ranges)
  for _, each in pairs(self.from and found or {}) do each[1] = each[1]:clip(self.from, self.to) end
  return found
end

--- Columns that are a list of collectives, too: item i has ts, stop and dur beside the fields of its sort. An item is
--- made when it is read.
local function as_list(columns, sorts)
  local function item(_, i)
    if math.type(i) ~= "integer" or i < 1 or i > #columns.sequence then return nil end
    local from, to, sort = columns.sequence:at(i)
    local out = { ts = from, stop = to, dur = to - from }
    local each, kind = sorts[sort], getmetatable(sorts[sort]) -- a sort has the fields of its kind
    for name, value in pairs(kind and kind.__index or {}) do out[name] = value end
    for name, value in pairs(each) do out[name] = value end
    return out
  end
  return setmetatable(columns, { __index = item, __len = function() return #columns.sequence end })
end

--- Collectives that start in the window by kind and group, without sizes (ett.trace.collective).
Lane.kinds = once("kinds", function(self) return collective.kinds_of_lane(self) end)

--- Collectives that start in the window (ett.trace.collective).
function Lane:collectives()
  local found = cached(self, "collectives", function()
    local all = collective.of_lane(self)
    return as_list(all, all.sorts)
  end)
  if not self.tpu and not self.view.sized then
    self.view.sized = true -- set before computing the sizes, which need the collectives of all lanes
    local ok, why = pcall(collective.size_groups, self.view)
    if not ok then
      self.view.sized = nil -- computed again after an interrupt
      error(why, 0)
    end
  end
  return found
end

--- The dimension of the parallel layout of each collective, and how it was found (ett.trace.parallel).
Lane.dimensions = once("dimensions", function(self)
  local all = parallel.of_lane(self)
  return as_list(all, all.cases)
end)

--- Merged communication ticks of the collectives whose sort passes keep(). On TPU, where the rows of a lane do not
--- overlap, the sum of device_duration_ps (a float), because ts and dur are rounded. Asynchronous collectives may
--- overlap; then the merged ticks.
function Lane:comm_ticks(keep)
  local all, kept, every = self:collectives(), {}, true
  local list = all.sequence
  for n, each in ipairs(all.sorts) do
    kept[n] = not keep or keep(each)
    every = every and kept[n]
  end
  local device_ticks, count = list:sum(kept)
  if count == 0 then return 0 end
  local set = every and self:comm() or list:intervals(kept)
  if self.from and not every then set = set:clip(self.from, self.to) end
  local united, sum = set:measure(), 0
  if not self.tpu then return united end
  for _, n, from, to in list:iter() do sum = sum + (kept[n] and to - from or 0) end
  return united == sum and device_ticks or united
end

--- Sum of the durations of the collectives that start in the window, not united, and their number.
---@return integer ticks, integer count
function Lane:comm_sum()
  local rows, found = self:rows "comm", self:asynchronous()
  if not found then return rows:total(), #rows end
  local sum, count, columns = 0, 0, stats.columns(rows, { "row", "dur" })
  for i, row in ipairs(columns.row) do
    local place = found.place[row]
    local pair = found.at[place]
    if not found.inner[place] then sum, count = sum + (pair and pair.stop - pair.ts or columns.dur[i]), count + 1 end
  end
  return sum, count
end

--- FLOPs stated by the rows (TPU model_flops); nil if no row states any.
function Lane:model_flops()
  return self:cached("model_flops", function()
    local sum, count = self:rows("all"):sum("model_flops")
    return count > 0 and sum or false
  end) or nil
end

--- FLOPs and device seconds of the rows that state FLOPs.
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

return Lane
