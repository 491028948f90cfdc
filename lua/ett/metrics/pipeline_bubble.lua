--- Time a pipeline stage has nothing to do because of the schedule.
local stats = require "ett.trace.stats"
local interval = require "ett.interval"

--- From per-micro-batch timings (ett.trace.pipeline).
local function from_timings(timings, view, only)
  local ranks, totals, windows, bubbles, lengths = {}, {}, {}, {}, {}
  for _, rank in ipairs(timings.ranks) do
    local last
    for i, number in ipairs(rank.iterations) do
      local each = rank.timings[number]
      if only and number == only or not only and i > 1 then -- the first iteration pays for start-up
        totals[#totals + 1], windows[#windows + 1] = each.bubble_vs_total, each.bubble_vs_window
        bubbles[#bubbles + 1], lengths[#lengths + 1] = each.total_ms - each.busy_ms, each.total_ms
      end
      if not only or number == only then last = each end
    end
    ranks[tostring(rank.rank)] = last
  end
  if #totals == 0 then
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

local function is_marker(name)
  for _, pattern in ipairs(marker_patterns) do
    if name:find(pattern) then return true end
  end
  return false
end

local function summary(view, method, list, extra)
  local bubble, total, ranks = 0, 0, {}
  for _, each in ipairs(list) do
    bubble, total = bubble + each.bubble, total + each.total
    ranks[each.key] = { bubble_time_ms = view:ms(each.bubble), total_time_ms = view:ms(each.total),
      bubble_ratio = stats.ratio(each.bubble, each.total) }
  end
  local out = {
    bubble_ratio = stats.ratio(bubble, total), bubble_time_ms = view:ms(bubble) / #list,
    total_time_ms = view:ms(total) / #list, method = method, ranks = ranks,
  }
  for key, value in pairs(extra or {}) do out[key] = value end
  return out
end

--- Stage markers: the device's copies of the ranges, else the kernels launched inside the host's.
local function from_markers(view)
  local on_device = view:named_rows("device_markers", { "device_annotation" }, is_marker)
  local on_host = view:named_rows("host_markers", { "annotation", "cpu_op" }, is_marker)
  if #on_device + #on_host == 0 then return nil end
  local list = {}
  for _, lane in ipairs(view:lanes()) do
    local rows = on_device:where{ file = lane.process.files, device = lane.device }
    local work
    if #rows > 0 then
      work = rows:intervals()
    else
      local host = on_host:where{ file = lane.process.files }
      if #host == 0 then return nil end
      local kernels = lane.all
      local inside = kernels:match(view:launch_calls(), "correlation"):enclosing(host)
      local spans = {}
      local columns = stats.columns(kernels, { "ts", "end" })
      local marker = stats.columns(inside, { "row" })
      for i = 1, #kernels do
        local row = marker.row[i]
        if row then
          local span = spans[row] or { columns.ts[i], columns["end"][i] }
          span[1], span[2] = math.min(span[1], columns.ts[i]), math.max(span[2], columns["end"][i])
          spans[row] = span
        end
      end
      local all = {}
      for _, span in pairs(spans) do all[#all + 1] = span end
      if #all == 0 then return nil end
      work = interval.new(all)
    end
    if lane.from then work = work:clip(lane.from, lane.to) end
    local from, to = lane:span()
    list[#list + 1] = { key = lane.key, bubble = work:gaps(from, to):measure(), total = to - from }
  end
  return summary(view, "stage markers", list)
end

--- Send/receive kernels between stages: the bubble is the time spent in them with no compute.
local function from_send_recv(view)
  local list, found = {}, 0
  for _, lane in ipairs(view:lanes()) do
    local waits = {}
    for _, each in ipairs(lane:collectives()) do
      if each.kind == "SendRecv" or each.kind == "Send" or each.kind == "Recv" then
        waits[#waits + 1] = { each.ts, each.stop }
      end
    end
    found = found + #waits
    list[#list + 1] = { key = lane.key, bubble = (interval.new(waits) - lane:compute()):measure(),
      total = lane:span_ticks() }
  end
  if found == 0 then return nil end
  return summary(view, "send/recv kernels", list, { send_recv_kernels = found })
end

return {
  name = "pipeline_bubble",
  summary = "share of the step a pipeline stage waits for the schedule, and how it was found",
  definition = [[From the best source there is. Micro-batch timings (pp_rank_*.json): bubble = total - the sum
of forward, backward and weight-gradient units, as a share of the iteration (bubble_ratio) and of the stage's
own window from its first unit to its last (..._vs_window), means over ranks and iterations after the first.
Stage markers: the device time of a rank outside its forward and backward ranges. Send/recv: time in point-to-
point kernels that no compute covers, when the card says pp > 1. GPU idle is another number:
device_time.idle_us.]],
  needs = "micro-batch timings, stage markers, or send/recv kernels of a run with pp > 1",
  units = { bubble_ratio = "share", bubble_time_ms = "ms", total_time_ms = "ms", method = "text" },
  args = require("ett.trace.collective").args,
  differs = "the public tool calls every gap between kernels a bubble; that is idle time",
  compute = function(view, options)
    local timings = view:cached("pipeline", function()
      return require("ett.trace.pipeline").read(view.path) or false
    end)
    if timings and options.window then
      view:missing("the timings are told apart by iteration, not by time: give --step instead of --window")
    end
    if timings then return from_timings(timings, view, options.step) end
    view:events_needed()
    local found = from_markers(view)
    if found then return found end
    local pp = tonumber(view:card().pp)
    if pp and pp > 1 then
      found = from_send_recv(view)
      if found then return found end
    end
    view:missing("needs pp_rank_*.json timings, stage markers (forward_step, backward_step …) or a card with pp > 1 "
      .. "and send/recv kernels; idle time is device_time.idle_us")
  end,
}
