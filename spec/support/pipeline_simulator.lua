--- Pipelines in plain Lua, without runtime/step: the units of a schedule file run on stages with clocks and links. Also
-- random pipelines, and published bubbles.
local find = require "ett.base.find"

local simulator = {}

--- A schedule file's placement and units under a plan { pp, vp, micro_batches }.
function simulator.schedule(name, plan)
  local file = find.load("lua/schedules", name)
  local ways = file.ways or 1
  local s = { name = name, stages = plan.pp, chunks = plan.vp * ways, ways = ways, slices = plan.pp * plan.vp,
    micro_batches = plan.micro_batches, slice = {}, orders = {}, file = file, split = false }
  for stage = 1, plan.pp do
    s.slice[stage] = {}
    for chunk = 1, s.chunks do
      s.slice[stage][chunk] = file.slice and file.slice(stage, chunk, plan) or (chunk - 1) * plan.pp + stage
    end
    s.orders[stage] = file.order and file.order(stage, plan) or {}
    s.split = s.split or not file.order
    for _, unit in ipairs(s.orders[stage]) do s.split = s.split or unit[1] == "W" end
  end
  return s
end

--- Gives a schedule without an order the order that the core plans for these times. Returns the core's result.
function simulator.planned(s, times)
  local given = simulator.given(s, times, { pp = s.stages, vp = 1, micro_batches = s.micro_batches })
  given.keep_units = true
  local run = require("ett.step").pipeline(given)
  for stage, units in ipairs(run.units) do
    for i, unit in ipairs(units) do s.orders[stage][i] = { unit[1], unit[2], unit[3] } end
  end
  return run
end

--- Index of a chunk of a stage in lists of seconds.
function simulator.slot(s, stage, chunk) return (chunk - 1) * s.stages + stage end

-- The slot of a slice, on the way of a chunk.
local function holder(s, chunk, slice)
  if slice < 1 or slice > s.slices then return nil end
  local each = s.chunks // s.ways
  local first = (chunk - 1) // each * each + 1
  for c = first, first + each - 1 do
    for stage = 1, s.stages do if s.slice[stage][c] == slice then return stage, c end end
  end
end

--- Runs a schedule. times: forward, backward, weight, joined (by which a whole backward is shorter than its parts),
--- send_forward, send_backward, forward_hidden, backward_hidden (per slot), start (per stage), blocking_sends,
--- blocking_receives. Returns the makespan, and of each stage the end and the seconds of computing.
function simulator.run(s, times)
  local clock, links, arrived, position, left, busy = {}, {}, {}, {}, 0, {}
  for stage = 1, s.stages do
    clock[stage] = times.start and times.start[stage] or 0
    links[stage], position[stage], busy[stage] = { F = 0, B = 0 }, 1, 0
    left = left + #s.orders[stage]
  end
  local finish = {}
  local function key(kind, i, slice, chunk)
    return ("%s %d %d %d"):format(kind, i, slice, (chunk - 1) // (s.chunks // s.ways))
  end
  -- The arrival time of a unit's input (nil: not yet), and the seconds that the stage needs to receive it.
  local function input(stage, unit)
    local kind, i, chunk = unit[1], unit[2], unit[3] or 1
    local slice = s.slice[stage][chunk]
    if kind == "W" then return finish[key("B", i, slice, chunk)], 0 end
    if kind == "F" then
      if slice == 1 then return 0, 0 end
      local from, c = holder(s, chunk, slice - 1)
      local message = times.send_forward[simulator.slot(s, from, c)]
      return arrived[key("F", i, slice, chunk)], times.blocking_receives and message or 0
    end
    if slice == s.slices then return finish[key("F", i, slice, chunk)], 0 end
    local own = times.send_backward[simulator.slot(s, stage, chunk)]
    return arrived[key("B", i, slice, chunk)], times.blocking_receives and own or 0
  end
  local function seconds(stage, unit)
    local at = simulator.slot(s, stage, unit[3] or 1)
    if unit[1] == "F" then return times.forward[at] end
    if unit[1] == "W" then return times.weight[at] end
    return times.backward[at] + (unit[1] == "BW" and times.weight[at] - (times.joined and times.joined[at] or 0) or 0)
  end
  -- Sends the output of a unit that ended at `ended`.
  local function leave(stage, unit, ended)
    local kind, i, chunk = unit[1], unit[2], unit[3] or 1
    local slice = s.slice[stage][chunk]
    finish[key(kind == "BW" and "B" or kind, i, slice, chunk)] = ended
    if kind == "W" then return end
    local to = kind == "F" and slice + 1 or slice - 1
    local receiver, c = holder(s, chunk, to)
    if not receiver then return end
    local at = kind == "F" and simulator.slot(s, stage, chunk) or simulator.slot(s, receiver, c)
    local message = kind == "F" and times.send_forward[at] or times.send_backward[at]
    local pass, here = kind == "F" and "F" or "B"
    if times.blocking_sends then
      here = times.blocking_receives and clock[stage] or clock[stage] + message
      clock[stage] = clock[stage] + message
    else
      here = math.max(ended, links[stage][pass]) + message
      links[stage][pass] = here
    end
    arrived[key(pass, i, to, chunk)] = here
  end
  while left > 0 do
    local before = left
    for stage = 1, s.stages do
      local unit = s.orders[stage][position[stage]]
      while unit do
        local units = type(unit[1]) == "table" and unit or { unit }
        local start, total = clock[stage], 0
        for _, u in ipairs(units) do
          local there = input(stage, u)
          start = there and start and math.max(start, there)
        end
        if not start then break end
        for _, u in ipairs(units) do
          local _, receive = input(stage, u)
          start, total = start + receive, total + seconds(stage, u)
        end
        if #units == 2 and times.forward_hidden then
          local a = simulator.slot(s, stage, units[1][3] or 1)
          local b = simulator.slot(s, stage, units[2][3] or 1)
          total = total - math.min(times.forward_hidden[a], times.forward_hidden[b])
            - math.min(times.backward_hidden[a], times.backward_hidden[b])
        end
        local ended = start + total
        clock[stage], busy[stage] = ended, busy[stage] + total
        for _, u in ipairs(units) do leave(stage, u, ended) end
        position[stage], left = position[stage] + 1, left - 1
        unit = s.orders[stage][position[stage]]
      end
    end
    if left == before then error(s.name .. " waits for itself", 0) end
  end
  local makespan, ends = 0, {}
  for stage = 1, s.stages do
    ends[stage] = math.max(clock[stage], links[stage].F, links[stage].B)
    makespan = math.max(makespan, ends[stage])
  end
  return makespan, ends, busy
end

--- The same pipeline as arguments of ett.step.
function simulator.given(s, times, plan)
  local given = { stages = s.stages, chunks = s.chunks, micro_batches = s.micro_batches, group = 1, keep_units = false }
  for name, value in pairs(times) do given[name] = value end
  if not s.split then given.weight, given.joined = nil, nil end
  given.schedule = "custom"
  given.orders = not s.file.order and #s.orders[1] > 0 and require("step_core").orders(s.orders)
    or require("ett.plan.schedules").orders { schedule = s.name, pp = plan.pp, vp = plan.vp,
      micro_batches = plan.micro_batches }
  if require("ett.plan.schedules").built_in[s.name] then
    given.schedule, given.orders = s.name, nil
    given.group = require("ett.plan.schedules").interleave_group(plan.pp, plan.micro_batches)
  end
  return given
end

--- A random plan that a schedule accepts.
function simulator.random_plan(name, random)
  local file = find.load("lua/schedules", name)
  while true do
    local plan = { pp = 1 + random(6), vp = file.chunks or 1 + random(4), micro_batches = 1 + random(20) }
    local built_in = name == "interleaved" and (plan.pp < 2 or plan.vp < 2 or plan.micro_batches < plan.pp)
    if name == "1f1b" or name == "gpipe" then plan.vp = 1 end
    if not built_in and not (file.refuse and file.refuse(plan)) then return plan end
  end
end

--- Random seconds of every unit and message of a schedule.
function simulator.random_times(s, random)
  local times = { blocking_sends = random(3) > 0 }
  times.blocking_receives = times.blocking_sends and random(2) == 0
  local function list(scale)
    local t = {}
    for i = 1, s.stages * s.chunks do t[i] = (1 + random(1000)) / 1000 * scale end
    return t
  end
  times.forward, times.backward, times.weight, times.joined = list(1), list(1.2), list(0.8), {}
  for i, weight in ipairs(times.weight) do times.joined[i] = weight * (0.37 * i % 1) end
  times.send_forward, times.send_backward = list(0.3), list(0.3)
  if s.file.pairs then
    times.forward_hidden, times.backward_hidden = {}, {}
    for i = 1, #times.forward do
      local most = math.min(times.forward[i], times.backward[i])
      times.forward_hidden[i], times.backward_hidden[i] = most * random(50) / 100, most * random(50) / 100
    end
  end
  if not s.file.order then simulator.planned(s, times) end
  return times
end

--- Published bubbles for p stages and chunks with units of f, b (input gradient) and w (weight gradient).
--- vp: chunks; weight = 0: the paper's backward is one unit as long as a forward; steady: between consecutive steps,
--- where no stage waits for the others' end.
simulator.papers = {
  { name = "interleaved", vp = 2, bubble = function(p, f, b, w) return (p - 1) * (f + b + w) end,
    source = "Narayanan et al. 2021, section 2.2.2" },
  { name = "zb_h1", vp = 1, bubble = function(p, f, b, w) return (p - 1) * (f + b - w) end,
    source = "Qi et al. 2023, table 2" },
  { name = "zb_h2", vp = 1, steady = true, bubble = function(p, f, b, w) return (p - 1) * (f + b - 2 * w) end,
    source = "Qi et al. 2023, table 2" },
  { name = "zb_v", vp = 2, steady = true, bubble = function() return 0 end, source = "Qi et al. 2023, section 6" },
  { name = "chimera", vp = 1, weight = 0, bubble = function(p, f, b) return (p / 2 - 1) * (f + b) end,
    source = "Li and Hoefler 2021, section 3.1" },
  { name = "dualpipe", vp = 1, bubble = function(p, f, b, w) return (p / 2 - 1) * (f + b + w + b + w - 3 * w) end,
    source = "DeepSeek-AI 2024, table 2" },
  { name = "dualpipe_v", vp = 2, bubble = function(p, f, b, w) return (p - 1) * (f + b + w + b + w - 3 * w) end,
    source = "github.com/deepseek-ai/DualPipe, twice the stages" },
}

--- One of them on p stages with 4 p micro-batches and units of 1 second: the paper's bubble and that of `run`, which is
--- called with a pipeline as ett.step takes it and returns its makespan and the end of each stage.
function simulator.bubbles(entry, p, run)
  local plan = { pp = p, vp = entry.vp, micro_batches = 4 * p }
  local s, w = simulator.schedule(entry.name, plan), entry.weight or 1
  local function list(x)
    local t = {}
    for i = 1, s.stages * s.chunks do t[i] = x end
    return t
  end
  local given = simulator.given(s, { forward = list(1), backward = list(s.split and 1 or 1 + w), weight = list(w),
    send_forward = list(0), send_backward = list(0), blocking_sends = true, blocking_receives = false }, plan)
  local work = plan.micro_batches * plan.vp * (2 + w)
  local makespan, ends = run(given)
  if entry.steady then
    local before
    for _ = 1, 3 do
      before, given.start = makespan, ends
      makespan, ends = run(given)
    end
    makespan = makespan - before
  end
  return entry.bubble(p, 1, 1, w), makespan - work
end

return simulator
