--- Speed and memory of reading traces: the whole process, files in the page cache.
--
-- Wall times are the least of several runs, since other work on the machine can only add
-- to them; CPU seconds (user and system, all threads) stand beside them because they hardly
-- move with the load. "On one core" pins the process to one core. What is compared runs in
-- turns, and the ratio is that of the medians: the least times of both may come from
-- different speeds of the machine.
local bench = { summary = "reading 1 GB of hta_trace_diff (events repeated, times shifted), and 87 MB cold" }

local median = require "ett.base.median"

local repeats = 5

--- Wall and CPU seconds of one run of a command.
local function once(command)
  local pipe = assert(io.popen(("bash -c 'TIMEFORMAT=\"%%R %%U %%S\"; time { %s; } >/dev/null' 2>&1"):format(command)))
  local text = pipe:read("a")
  local ok = pipe:close()
  local real, user, system = text:match("([%d.]+) ([%d.]+) ([%d.]+)%s*$")
  assert(ok and real, "bench: " .. command .. ": " .. text)
  return tonumber(real), tonumber(user) + tonumber(system)
end

--- Least wall and CPU seconds of a command.
local function timed(command)
  local wall, cpu = math.huge, math.huge
  for _ = 1, repeats do
    local own_wall, own_cpu = once(command)
    wall, cpu = math.min(wall, own_wall), math.min(cpu, own_cpu)
  end
  return wall, cpu
end

--- Median wall seconds of commands that run in turns.
local function in_turns(commands)
  local walls, medians = {}, {}
  for round = 1, 2 * repeats + 1 do
    for i, command in ipairs(commands) do
      walls[i] = walls[i] or {}
      walls[i][round] = once(command)
    end
  end
  for i, list in ipairs(walls) do medians[i] = median(list) end
  return medians
end

local function size_of(path)
  local file = assert(io.open(path, "rb"))
  local size = file:seek("end")
  file:close()
  return size
end

local function run_quietly(command) assert(os.execute(command), "bench: " .. command) end

function bench.run(opts)
  local host = require "ett.host"
  local folder = require("reference_traces").folder()
  if not folder then return { { measure = "reference traces", value = "not at hand (ETT_REFERENCE)" } } end
  local ett = ("%s/bin/ett"):format(host.prefix)
  local place = os.tmpname()
  os.remove(place)
  run_quietly("mkdir -p " .. place .. "/half")
  local big = place .. "/big.json"
  local _, bytes = require("replicate_trace").write(folder .. "/hta_trace_diff/control/control.json.gz", big,
    opts.bytes or 1000 * 1000 * 1000)
  for i = 0, 1 do
    require("replicate_trace").write(folder .. "/hta_trace_diff/control/control.json.gz",
      ("%s/half/rank%d.json"):format(place, i), bytes // 2)
  end
  run_quietly(("gzip -6 -k %s"):format(big))
  local rows = {}
  local function row(measure, value, target, pass)
    rows[#rows + 1] = { measure = measure, value = value, target = target or "-", pass = pass }
  end
  local function metric(path, threads, core)
    return ("%s%s trace %s --metric comm_comp_overlap --quiet --threads %d"):format(
      core and ("taskset -c %d "):format(core) or "", ett, path, threads)
  end
  local function rate(seconds) return bytes / seconds / 1e9 end

  local wall, cpu = timed(metric(big, 1, 0))
  row("1 GB JSON, one core, GB/s", ("%.2f"):format(rate(wall)), ">= 1.3", rate(wall) >= 1.3)
  row("  by its CPU seconds, GB/s", ("%.2f"):format(rate(cpu)))
  local first, second = metric(big, 1, 0), metric(big, 1, 1)
  local medians = in_turns { first, metric(big, 2), second, metric(place .. "/half", 2), ("%s & %s; wait"):format(first,
    second) }
  local one, two, files, pair = (medians[1] + medians[3]) / 2, medians[2], medians[4], medians[5]
  row("1 GB JSON, two cores against one", ("%.2f"):format(one / two), ">= 1.7", one / two >= 1.7)
  row("two files of 0.5 GB, two cores against one", ("%.2f"):format(one / files), ">= 1.7", one / files >= 1.7)
  row("two readers beside each other on a core each: this machine's limit", ("%.2f"):format(2 * one / pair))
  local zipped, zipped_cpu = timed(metric(big .. ".gz", 2))
  row("the same from .gz, GB/s of JSON", ("%.2f"):format(rate(zipped)), ">= 1.2", rate(zipped) >= 1.2)
  row("  by its CPU seconds (one core), GB/s", ("%.2f"):format(rate(zipped_cpu)))

  local pipe = assert(io.popen(("ETT_BENCH_TRACE=%s %s run %s/spec/bench/support/trace_peak.lua"):format(big, ett,
    host.root)))
  local peak, events, held = pipe:read("n", "n", "n")
  pipe:close()
  row("peak memory, bytes a byte of trace", ("%.3f"):format(peak / bytes), "<= 0.25", peak / bytes <= 0.25)
  row("columns, args and strings, bytes an event", ("%.1f"):format(held / events))

  local mtia = place .. "/mtia_rank_0.json"
  run_quietly(("gzip -dc %s/hta_mtia_trace_single_rank/mtia_rank_0.json.gz > %s"):format(folder, mtia))
  local small, small_cpu = timed(("%s trace %s --metric step_table --quiet || true"):format(ett, mtia))
  row(("%.0f MB with 456 k events, s"):format(size_of(mtia) / 1e6), ("%.3f"):format(small), "<= 0.15", small <= 0.15)
  row("  its CPU seconds", ("%.3f"):format(small_cpu))
  run_quietly("rm -rf " .. place)
  return rows
end

return bench
