--- Each step of each device: duration, communication, compute, idle.
local merged = require "ett.base.merged"
local stats = require "ett.trace.stats"
local trace_view = require "ett.trace.view"

--- Durations of the device track's copies of the lane's steps.
local function device_steps(view, lane, steps)
  local rows = view:named_rows("device_steps", { "device_annotation", "device_step" },
    trace_view.is_step):where{ file = lane.process.files, device = lane.device }:sort("ts")
  local list, wanted, recordings = {}, {}, view:recordings()
  local function key(name, recording) return name .. "|" .. recording end
  for _, step in ipairs(steps) do wanted[key(step.name, step.step.recording)] = true end
  for i = 1, #rows do
    if not lane.from or wanted[key(rows:get(i, "name"), recordings[rows:get(i, "file")])] then
      list[#list + 1] = view:ms(rows:get(i, "dur"))
    end
  end
  return list
end

return {
  name = "step_table",
  summary = "duration, communication, compute, busy and idle share of every step on every device",
  definition = [[A step is the host's ProfilerStep#N interval of the rank; device intervals are cut to it. A step
that starts in the window counts as a whole.
idle_frac = 1 - busy / duration. max_step_ms is that of the slowest rank. gpu_step_ms lists the device track's
copies of the step markers, which are shorter: from the first kernel of the step to its last.]],
  needs = "ProfilerStep# markers on the host track, device rows",
  units = { step_ms = "ms", comm_union_us = "us", comp_union_us = "us", busy_us = "us", idle_frac = "share" },
  --- As text: one line for each step and rank.
  table = function(result)
    local rows = {}
    for _, rank in ipairs(stats.keys(result.ranks)) do
      for _, step in ipairs(result.ranks[rank].per_step) do rows[#rows + 1] = merged({ rank = rank }, step) end
    end
    return { steps = rows }
  end,
  compute = function(view)
    if #view:steps() == 0 then view:missing("needs ProfilerStep# markers on the host track; the trace has none") end
    local by_step, out = {}, { ranks = {}, steps = stats.list() }
    for _, lane in ipairs(view:lanes()) do
      local steps, windows = lane:steps(), {}
      local stop = lane.to
      for i, step in ipairs(steps) do
        windows[i] = { step.from, step.to }
        stop = stop and math.max(stop, step.to)
      end
      local whole = stop == lane.to and lane or lane:within(lane.from, stop)
      local C, K = whole:comm(), whole:compute()
      local B, X = whole:busy():measure_in(windows), (C & K):measure_in(windows)
      C, K = C:measure_in(windows), K:measure_in(windows)
      local rank = { steps = stats.list(), step_ms = stats.list(), per_step = stats.list() }
      for i, step in ipairs(steps) do
        local length = step.to - step.from
        rank.steps[i], rank.step_ms[i] = step.name, view:ms(length)
        rank.per_step[i] = { step = step.name, step_ms = view:ms(length), comm_union_us = view:us(C[i]),
          comp_union_us = view:us(K[i]), overlap_us = view:us(X[i]), busy_us = view:us(B[i]),
          idle_frac = length > 0 and 1 - B[i] / length or stats.null }
        by_step[step.step] = math.max(by_step[step.step] or 0, length)
      end
      local device = device_steps(view, lane, steps)
      if #device > 0 then rank.gpu_step_ms = device end
      out.ranks[lane.key] = rank
    end
    for _, step in ipairs(view:steps()) do
      if by_step[step] then
        out.steps[#out.steps + 1] = { step = step.number, max_step_ms = view:ms(by_step[step]) }
      end
    end
    return out
  end,
}
