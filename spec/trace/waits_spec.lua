-- Replays with recorded synchronisation events: equal to the run with the change, also where the rules are not.
local folders = require "ett.base.folder"
local maker = require "trace_maker"
local replay = require "ett.trace.replay"
local simulator = require "stream_simulator"

local function with_graph(recording, fn)
  local out
  local view <close> = maker.view({ recording }, { args = replay.args })
  out = fn(replay.graph(view), view)
  return out
end

local function span_of(recording)
  return with_graph(recording, function(g) return select(2, replay.recorded(g)) end)
end

local function replayed(recording, text)
  return with_graph(recording, function(g, view)
    replay.change(g, view, text, {})
    local run = replay.run(g)
    assert.equal(0, run.left_out)
    return run.span_ticks
  end)
end

--- Span in us after "first*0.5". Kernel `first` ends at 200 on stream 7; `second` starts then on stream 8.
--- options: wait = the ids that its event names; calls = false: no call that waits; graph: its call launched two rows;
--- launched = false: the launch of `first` was not recorded; idle: the event is of stream 11, which has no rows, so
--- Kineto omits its wait for `first`; sync = changes of the arguments of the synchronisation event.
local function second_after(options)
  local r = maker.new {}
  r:host("cuda_runtime", "cudaEventRecord", 80, 2, { args = { correlation = 49 } })
  r:kernel("first", 100, 100, { launch = options.launched ~= false and { ts = 90, dur = 3 } or nil })
  r:host("cuda_runtime", "cudaEventRecord", 95, 2, { args = { correlation = 50 } })
  r:kernel("late", 120, 300, { stream = 9, launch = { ts = 100, dur = 3 } })
  r:host("cuda_runtime", "cudaEventRecord", 104, 2, { args = { correlation = 51 } })
  if options.calls ~= false then
    r:host("cuda_runtime", "cudaStreamWaitEvent", 108, 2, { args = { correlation = 52 } })
  end
  if options.idle then
    r:host("cuda_runtime", "cudaStreamWaitEvent", 105, 1, { args = { correlation = 53 } })
    r:host("cuda_runtime", "cudaEventRecord", 106, 1, { args = { correlation = 54 } })
  end
  r:kernel("second", 200, 400, { stream = 8, launch = { ts = 112, dur = 3 } })
  if options.graph then
    r:kernel("third", 200, 10, { stream = 10, args = { correlation = r.next_correlation - 1 } })
  end
  local name, args = "Context Sync", { stream = -1, device = 0, correlation = 99 }
  if options.wait then
    name, args = "Stream Wait Event", { stream = 8, device = 0, correlation = 52, wait_on_stream = options.wait[1],
      wait_on_cuda_event_record_corr_id = options.wait[2] }
  end
  for key, value in pairs(options.sync or {}) do args[key] = value end
  r:add { cat = "cuda_sync", name = name, pid = 0, tid = 8, ts = options.at or 108, dur = 2, args = args }
  return replayed(r, "first*0.5") / 1000
end

describe("recorded synchronisation events", function()
  it("give the replay the dependencies of the run, on the device and on the host", function()
    local changes, inferred = { { "gemm", 0.5 }, { "gemm", 3 }, { "norm", 0.25 }, { "copy", 5 } }, 0
    for seed = 1, 40 do
      local name, factor = table.unpack(changes[seed % 4 + 1])
      local program, text = simulator.program(seed), ("%s*%g"):format(name, factor)
      local wanted = span_of(simulator.record(program, { [name] = factor }))
      assert.near(wanted, replayed(simulator.record(program, {}, { events = true }), text), 0.001 * wanted, seed)
      local without = replayed(simulator.record(program, {}), text)
      inferred = inferred + (math.abs(without / wanted - 1) > 0.001 and 1 or 0)
    end
    assert.is_true(inferred >= 10, inferred) -- without the events so many replays are wrong
  end)

  it("are read from an Nsight export, whose events name their records by order", function()
    for seed = 1, 12 do
      local program = simulator.program(seed)
      local wanted = span_of(simulator.record(program, { gemm = 3 }))
      folders.within(function(where)
        -- A program waits for one of the last three events, so three events that are recorded again serve it.
        local pipe = assert(io.popen(("sqlite3 %q"):format(where .. "/run.sqlite"), "w"))
        pipe:write("BEGIN;\n", simulator.sql(simulator.record(program, {}, { events = true }), 3), "\nCOMMIT;\n")
        if not pipe:close() then return pending("the sqlite3 shell is not installed") end
        local view <close> = assert(require("ett.trace.view").open(where, { args = replay.args }))
        local g = replay.graph(view)
        replay.change(g, view, "gemm*3", {})
        assert.near(wanted, replay.run(g).span_ticks, 0.001 * wanted, seed)
      end)
    end
  end)

  it("are counted by what-if", function()
    local what_if = require "ett.loop.what_if"
    for _, events in ipairs { true, false } do
      with_graph(simulator.record(simulator.program(1), {}, { events = events }), function(_, view)
        local text = table.concat(what_if.lines(what_if.run(view, { "gemm*2" })), "\n")
        assert.equal(events, text:find("\nwaits for other streams are recorded for 100 %% of the device rows\n") ~= nil)
      end)
    end
  end)

  it("replace the rule of the row that ended just before, but only if they are complete and possible", function()
    local known, free = 450, 500
    assert.equal(known, second_after { wait = { 7, 50 } })
    assert.equal(free, second_after { wait = { 7, 49 } }) -- recorded before the first row
    assert.equal(known, second_after { wait = { 7, 49 }, graph = true }) -- rows of a graph depend on each other
    assert.equal(known, second_after { wait = { -1, -1 } })
    assert.equal(known, second_after { wait = { 7, 50 }, launched = false })
    assert.equal(known, second_after { wait = { 9, 51 } }) -- ends after the row starts
    assert.equal(known, second_after {}) -- a wait that was not recorded
    assert.equal(free, second_after { calls = false })
    assert.equal(known, second_after { wait = { 11, 54 }, idle = true })
    assert.equal(known, second_after { wait = { 7, 49 }, sync = { stream = "none" } })
    assert.equal(known, second_after { wait = { 7, 50 }, sync = { correlation = "none" }, at = 112 }) -- like a launch
  end)
end)
