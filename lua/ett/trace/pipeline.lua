--- Per-micro-batch timings of a pipeline: pp_rank_N.json files beside a config.json.
--
-- Each file maps an iteration to { total, fwd_start[], fwd_end[], bwd_start[], bwd_end[] }, and
-- wgrad_start / wgrad_end where weight gradients are separate units. Times are milliseconds from
-- the start of the iteration on that rank.
local comm = require "ett.trace.comm"
local error_module = require "ett.base.error"
local json = require "ett.json"
local schema = require "ett.base.schema"
local stats = require "ett.trace.stats"

local pipeline = {}

local units = { "fwd", "bwd", "wgrad" }

local function sorted_numbers(t)
  local list = {}
  for key in pairs(t) do
    local number = math.tointeger(tonumber(key))
    if number then list[#list + 1] = number end
  end
  table.sort(list)
  return list
end

local function unit_times(record)
  local busy, first, last, counts = 0.0, math.huge, -math.huge, {}
  for _, unit in ipairs(units) do
    local from, to = record[unit .. "_start"], record[unit .. "_end"]
    if type(from) == "table" and type(to) == "table" then
      counts[unit] = math.min(#from, #to)
      for i = 1, counts[unit] do
        busy = busy + (to[i] - from[i])
        first, last = math.min(first, from[i]), math.max(last, to[i])
      end
    end
  end
  return busy, last - first, counts
end

local function rest(busy, whole) return whole ~= stats.null and whole > 0 and 1 - busy / whole or stats.null end

--- Timings of one rank in one iteration. Without units the window is null; so is a bubble of no time.
---@return table { total_ms, busy_ms, window_ms, bubble_vs_total, bubble_vs_window, n_fwd, n_bwd }
function pipeline.iteration(record)
  local busy, window, counts = unit_times(record)
  if window < 0 then window = stats.null end
  return {
    total_ms = record.total, busy_ms = busy, window_ms = window,
    bubble_vs_total = rest(busy, record.total), bubble_vs_window = rest(busy, window),
    n_fwd = counts.fwd or 0, n_bwd = counts.bwd or 0,
  }
end

--- An error if a list of times of an iteration holds something else than numbers.
local function fault_of(record, number, path)
  for _, unit in ipairs(units) do
    for _, field in ipairs { unit .. "_start", unit .. "_end" } do
      for place, time in pairs(type(record[field]) == "table" and record[field] or {}) do
        if type(time) ~= "number" or math.type(place) ~= "integer" then
          return error_module.new("format", "%s: iteration %d: %s: value %s must be a number of a list, got %s", path,
            number, field, tostring(place), schema.describe(time))
        end
      end
    end
  end
end

--- Reads a folder of timings; nil if the folder has none, with the error if one of its files is damaged.
---@return table? { ranks = { {rank=, iterations = {number…}, timings and records = by number} }, config = table }
---@return ett.Error?
function pipeline.read(path)
  local lfs = require "lfs"
  if lfs.attributes(path, "mode") ~= "directory" then return nil end
  local ranks = {}
  for entry in lfs.dir(path) do
    local rank = entry:match("^pp_rank_(%d+)%.json$")
    if rank then
      local file = path .. "/" .. entry
      local data, why = json.read(file)
      if type(data) ~= "table" then return nil, why end
      local each = { rank = math.tointeger(tonumber(rank)), iterations = sorted_numbers(data), timings = {},
        records = {} }
      for _, number in ipairs(each.iterations) do
        local record = data[tostring(number)]
        if type(record) ~= "table" or type(record.total) ~= "number" or type(record.fwd_start) ~= "table" then
          return nil
        end
        local fault = fault_of(record, number, file)
        if fault then return nil, fault end
        each.timings[number], each.records[number] = pipeline.iteration(record), record
      end
      ranks[#ranks + 1] = each
    end
  end
  if #ranks == 0 then return nil end
  table.sort(ranks, function(a, b) return a.rank < b.rank end)
  local config = json.read(path .. "/config.json")
  return { ranks = ranks, config = type(config) == "table" and config or {} }
end

-- The bubble by source ----------------------------------------------------------------

--- From per-micro-batch timings (ett.trace.pipeline).
function pipeline.from_timings(timings, view, only)
  local ranks, totals, windows, bubbles, lengths = {}, {}, {}, {}, {}
  for _, rank in ipairs(timings.ranks) do
    local last
    for i, number in ipairs(rank.iterations) do
      local each = rank.timings[number]
      if only and number == only or not only and i > 1 then -- the first iteration includes start-up
        if each.bubble_vs_total ~= stats.null then totals[#totals + 1] = each.bubble_vs_total end
        if each.bubble_vs_window ~= stats.null then windows[#windows + 1] = each.bubble_vs_window end
        bubbles[#bubbles + 1], lengths[#lengths + 1] = each.total_ms - each.busy_ms, each.total_ms
      end
      if not only or number == only then last = each end
    end
    ranks[tostring(rank.rank)] = last
  end
  if #lengths == 0 then
    view:missing(only and "the timings have no iteration %s" or "the timings have one iteration only", only)
  end
  local iterations = {}
  for i, number in ipairs(timings.ranks[1].iterations) do iterations[i] = tostring(number) end
  return {
    bubble_ratio = stats.mean(totals), bubble_time_ms = stats.mean(bubbles), total_time_ms = stats.mean(lengths),
    method = "micro-batch timings", mean_bubble_vs_total_excl_first = stats.mean(totals),
    mean_bubble_vs_window_excl_first = stats.mean(windows), per_rank_last_iter = ranks, iterations = iterations,
    config = timings.config,
  }
end

local marker_patterns = { "forward_step", "backward_step", "forward_backward_step", "stage_forward", "stage_backward",
  "Forward_MB", "Backward_MB", "forward_one_chunk", "backward_one_chunk", "pipeline_stage", "fwd_microbatch",
  "bwd_microbatch", "F%d+_mb%d+", "B%d+_mb%d+", "Stage%s*%d+%s*[FBW]" }

local function is_marker(name) return comm.any_found(name, marker_patterns) end

local function pass_of(name)
  local forward = comm.any_found(name, { "[fF]orward", "^fwd", "^F%d", "%d%s*F" })
  local backward = comm.any_found(name, { "[bB]ackward", "^bwd", "^B%d", "%d%s*[BW]" })
  if forward ~= backward then return forward and "forward" or "backward" end
end

--- Marked ranges without those of a whole schedule, which hold forward and backward units. A backward range may hold
--- both, too: it is a unit that computes a forward pass again.
local function units_of(view, rows)
  local ordered, parent = rows:nested(0)
  local names, held, whole = (ordered:columns{ "name" }), {}, {}
  for n, name in ipairs(names) do
    local pass, p = pass_of(name), parent[n]
    while pass and p > 0 do
      held[p] = held[p] or {}
      held[p][pass] = true
      if held[p].forward and held[p].backward and not pass_of(names[p]) then whole[names[p]] = true end
      p = parent[p]
    end
  end
  if next(whole) == nil then return rows end
  return rows:where{ except_names = view.trace:name_set(function(name) return whole[name] == true end) }
end

local function summary(view, method, list, extra)
  local bubble, total, ranks = 0, 0, {}
  for _, each in ipairs(list) do
    bubble, total = bubble + each.bubble, total + each.total
    ranks[each.key] = { bubble_time_ms = view:ms(each.bubble), total_time_ms = view:ms(each.total),
      bubble_ratio = stats.ratio(each.bubble, each.total) }
  end
  return require "ett.base.merged"({
    bubble_ratio = stats.ratio(bubble, total), bubble_time_ms = view:ms(bubble) / #list,
    total_time_ms = view:ms(total) / #list, method = method, ranks = ranks,
  }, extra)
end

--- Stage markers: the device's copies of the ranges, else the kernels launched inside the host's.
function pipeline.from_markers(view)
  local on_device = units_of(view, view:named_rows("device_markers", { "device_annotation" }, is_marker))
  local on_host = units_of(view, view:named_rows("host_markers", { "annotation", "cpu_op" }, is_marker))
  if #on_device + #on_host == 0 then return nil end
  local list = {}
  for _, lane in ipairs(view:lanes()) do
    local rows = on_device:where{ file = lane.process.files, device = lane.device }
    local work
    if #rows > 0 then
      work = rows:intervals()
      if lane.from then work = work:clip(lane.from, lane.to) end
    else
      local launching
      work, launching = lane:launched_in(on_host:where{ file = lane.process.files })
      if launching == 0 then return nil end
    end
    local bubble = work:gaps(lane:span())
    list[#list + 1] = { key = lane.key, bubble = (lane:recorded() and bubble & lane:recorded() or bubble):measure(),
      total = lane:span_ticks() }
  end
  return summary(view, "stage markers", list)
end

--- Send/receive kernels between stages: the bubble is their time without compute.
function pipeline.from_send_recv(view)
  local list, found = {}, 0
  for _, lane in ipairs(view:lanes()) do
    local all, waits = lane:collectives(), {}
    for n, each in ipairs(all.sorts) do
      waits[n] = comm.between_two[each.kind] or false
    end
    found = found + select(2, all.sequence:sum(waits))
    local waiting = all.sequence:intervals(waits)
    if lane.from then waiting = waiting:clip(lane.from, lane.to) end
    list[#list + 1] = { key = lane.key, bubble = (waiting - lane:compute()):measure(), total = lane:span_ticks() }
  end
  if found == 0 then return nil end
  return summary(view, "send/recv kernels", list, { send_recv_kernels = found })
end

return pipeline
