--- Schedules against an independent simulator and the papers' bubbles; speed of the event engine and of large steps.
local schedules = require "ett.plan.schedules"
local simulator = require "pipeline_simulator"
local step_core = require "ett.step"
local generator = require("random").integers

local bench = { summary = "every bundled schedule against a simulator and papers; speed of the event engine" }

local function row(measure, value, target, pass)
  return { measure = measure, value = value, target = target, pass = pass }
end

--- Random pipelines whose makespan or end of a stage differs from the simulator's by 1e-9 of the makespan or more.
local function random_pipelines(count)
  local random, names, differ = generator(2026), schedules.names(), 0
  for trial = 1, count do
    local name = names[trial % #names + 1]
    local plan = simulator.random_plan(name, random)
    local s = simulator.schedule(name, plan)
    local times = simulator.random_times(s, random)
    if schedules.built_in[name] then times.forward_hidden, times.backward_hidden = nil, nil end
    local makespan, ends = simulator.run(s, times)
    local run = step_core.pipeline(simulator.given(s, times, plan))
    local worst = math.abs(run.makespan_seconds - makespan)
    for stage = 1, plan.pp do worst = math.max(worst, math.abs(run.end_seconds[stage] - ends[stage])) end
    if worst > 1e-9 * makespan then differ = differ + 1 end
  end
  return differ, #names
end

local function bubbles()
  local exact, names = 0, {}
  for _, entry in ipairs(simulator.papers) do
    local same = true
    for _, p in ipairs { 2, 4, 8, 16 } do
      local paper, own = simulator.bubbles(entry, p, function(given)
        local run = step_core.pipeline(given)
        return run.makespan_seconds, run.end_seconds
      end)
      same = same and math.abs(paper - own) <= 1e-9
    end
    if same then exact = exact + 1 else names[#names + 1] = entry.name end
  end
  return exact, names
end

local function best_of(count, fn)
  local best = math.huge
  for _ = 1, count do
    local start = os.clock()
    fn()
    best = math.min(best, os.clock() - start)
  end
  return best
end

--- Millions of events a second: one run of the engine, with the walk through the schedule.
local function engine_rate(name, plan)
  local s = simulator.schedule(name, plan)
  local ones, events = {}, 0
  for i = 1, s.stages * s.chunks do ones[i] = 1.0 end
  for _, units in ipairs(s.orders) do
    for _, unit in ipairs(units) do events = events + (type(unit[1]) == "table" and 2 or 1) end
  end
  local given = simulator.given(s, { forward = ones, backward = ones, weight = ones, send_forward = ones,
    send_backward = ones, blocking_sends = true, blocking_receives = false }, plan)
  return events / best_of(5, function() step_core.pipeline(given) end) / 1e6
end

--- Millions of events a second of whole estimates: model lowered, step timed, interval from many runs.
local function estimate_rate(schedule, vp, micro_batches)
  local ett = require "ett"
  local pp = 16
  local model = ett.model.new("gpt", { layers = 96, hidden = 12288, heads = 96, ffn = 49152, vocab = 51200 })
  local times = require("ett.step.times").new(ett.cluster.get "dgx_a100")
  local seconds = best_of(3, function()
    ett.estimate { model = model, cluster = "dgx_a100", times = times, plan = { seq = 2048, tp = 8, pp = pp, vp = vp,
      schedule = schedule, micro_batches = micro_batches, recompute = "full" } }
  end)
  return 2 * pp * vp * micro_batches / seconds / 1e6
end

function bench.run()
  local differ, names = random_pipelines(300)
  local exact, others = bubbles()
  local rows = {
    row(("random pipelines of %d schedules that differ from the simulator"):format(names), ("%d of 300"):format(differ),
      "0", differ == 0),
    row("bubbles at equal units against the papers" .. (#others > 0 and ", not: " .. table.concat(others, " ") or ""),
      ("%d of %d"):format(exact, #simulator.papers), "7 of 7", exact == 7),
  }
  for _, entry in ipairs { { "zb_v", 2 }, { "chimera", 1 }, { "dualpipe", 1 }, { "dualpipe_v", 2 } } do
    local rate = engine_rate(entry[1], { pp = 16, vp = entry[2], micro_batches = 1024 })
    rows[#rows + 1] = row("event engine, " .. entry[1], ("%.1f M/s"):format(rate), ">= 10 M/s", rate >= 10)
  end
  for _, entry in ipairs { { "1f1b", 1, 65536, 20 }, { "interleaved", 3, 16384, 15 } } do
    local rate = estimate_rate(entry[1], entry[2], entry[3])
    rows[#rows + 1] = row("events of whole estimates, " .. entry[1], ("%.1f M/s"):format(rate),
      (">= %d M/s"):format(entry[4]), rate >= entry[4])
  end
  return rows
end

return bench
