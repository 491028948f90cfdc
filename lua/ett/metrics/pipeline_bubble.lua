--- Idle time of a pipeline stage caused by the schedule.
local pipeline = require "ett.trace.pipeline"

return {
  name = "pipeline_bubble",
  summary = "share of the step that a pipeline stage waits because of the schedule, and how it was found",
  definition = [[From the best available source. Micro-batch timings (pp_rank_*.json): bubble = total - the sum of
forward, backward and weight-gradient units, as a share of the iteration (bubble_ratio) and of the stage's window
from its first unit to its last (..._vs_window), means over ranks and iterations after the first. Stage markers: the
device time of a rank outside its forward and backward ranges (a range that holds both is none). Send/recv: time in
point-to-point kernels without compute, when the card says pp > 1. Idle time of the device is in
device_time.idle_us. The bubble of `ett predict` differs: each stage counts from the first pass
of any stage to the last pass of any. That excludes the update, and messages are not bubble.]],
  needs = "micro-batch timings, stage markers, or send/recv kernels of a run with pp > 1",
  units = { bubble_ratio = "share", bubble_time_ms = "ms", total_time_ms = "ms", method = "text" },
  args = require("ett.trace.collective").args,
  differs = "the public tool counts every gap between kernels as bubble; that is idle time",
  compute = function(view, options)
    local timings = view:cached("pipeline", function()
      return pipeline.read(view.path) or false
    end)
    if timings and options.window then
      view:missing("timings are by iteration, not by time: give --step instead of --window")
    end
    if timings then return pipeline.from_timings(timings, view, options.step) end
    view:events_needed()
    local found = pipeline.from_markers(view)
    if found then return found end
    if (tonumber(view:card().pp) or 1) > 1 then found = pipeline.from_send_recv(view) end
    if found then return found end
    view:missing("needs pp_rank_*.json timings, stage markers (forward_step, backward_step …), or a card with pp > 1 "
      .. "and send/recv kernels; device_time.idle_us has the idle time")
  end,
}
