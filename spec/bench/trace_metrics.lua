--- CPU time of the metrics on a large trace, against the time to read it.
local bench = { summary = "all metrics, 400 MB of hta_trace_diff" }

local repeats = 3

-- These follow every host call: a graph of all that waits, a tree of operators. README.md gives their times apart.
local by_call = { "critical_path", "operator_table" }

--- CPU seconds to read a trace for some metrics, and to compute them; the last result.
local function cpu_seconds(path, names)
  local metrics = require "ett.trace.metrics"
  local before, result = os.clock(), nil
  local list = metrics.load_all(names)
  local view = assert(require("ett.trace.view").open(path, { args = metrics.args(list) }))
  local opened = os.clock()
  for _, metric in ipairs(list) do result = metrics.compute(metric, view) or result end
  local calls = #view:class_rows "cpu_op"
  local computed = os.clock()
  view:close()
  collectgarbage()
  return opened - before, computed - opened, result, calls
end

local function others()
  local names, apart = {}, {}
  for _, name in ipairs(by_call) do apart[name] = true end
  for _, name in ipairs(require("ett.trace.metrics").names()) do
    if not apart[name] then names[#names + 1] = name end
  end
  return names
end

local function rows_of(path)
  local names, one, reading, computing = others(), math.huge, math.huge, math.huge
  for _ = 1, repeats do -- in turn, and the least of each: another process may hold a core
    one = math.min(one, (cpu_seconds(path, { "comm_comp_overlap" })))
    local opened, computed = cpu_seconds(path, names)
    reading, computing = math.min(reading, opened), math.min(computing, computed)
  end
  local ratio = (reading + computing) / reading
  local rows = {
    { measure = "reading for comm_comp_overlap alone, CPU s", value = ("%.3f"):format(one), target = "-" },
    { measure = ("reading for %d metrics, CPU s"):format(#names), value = ("%.3f"):format(reading), target = "-" },
    { measure = "these metrics, CPU s", value = ("%.3f"):format(computing), target = "-" },
    { measure = "reading and metrics against reading", value = ("%.2f"):format(ratio), target = "<= 2.5",
      pass = ratio <= 2.5 },
  }
  for _, name in ipairs(by_call) do
    local _, seconds, result, calls = cpu_seconds(path, { name })
    local events = result and result.events or calls
    rows[#rows + 1] = { measure = ("%s, CPU us %s"):format(name, result and result.events and "an event"
      or "an operator of the host"), value = ("%.2f"):format(seconds * 1e6 / events), target = "-" }
  end
  return rows
end

function bench.run()
  local folder = require("reference_traces").folder()
  if not folder then return { { measure = "reference traces", value = "not at hand (ETT_REFERENCE)" } } end
  local path = os.tmpname()
  require("replicate_trace").write(folder .. "/hta_trace_diff/control/control.json.gz", path, 400 * 1000 * 1000)
  local rows = rows_of(path)
  os.remove(path)
  return rows
end

return bench
