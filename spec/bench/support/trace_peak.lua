--- One metric of the trace named by ETT_BENCH_TRACE, then the process's peak memory in bytes.
local metrics = require "ett.trace.metrics"
local trace_view = require "ett.trace.view"

local list = metrics.load_all { "comm_comp_overlap" }
local view = assert(trace_view.open(os.getenv "ETT_BENCH_TRACE", { args = metrics.args(list), threads = 1 }))
metrics.compute(list[1], view)
local events, held = view.trace.event_count, view.trace.memory_bytes
view:close()
for line in io.lines("/proc/self/status") do
  local peak = line:match("^VmHWM:%s*(%d+) kB")
  if peak then print(tonumber(peak) * 1024 // 1, events, held) end
end
