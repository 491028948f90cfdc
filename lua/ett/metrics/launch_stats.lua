--- Kernel launches: delay to the start of the kernel, and queue length.
local bulk = require "ett.bulk"
local stats = require "ett.trace.stats"

--- Mean length of the queue over the recorded time.
local function mean_queue(view, lane, rows, found)
  if not lane:recorded() then return found.queue_mean end
  local home, files, area, ticks = view:recordings(), {}, 0.0, 0.0
  for _, file in ipairs(lane.process.files) do
    local list = files[home[file]] or {}
    files[home[file]], list[#list + 1] = list, file
  end
  for _, list in pairs(files) do
    local part = rows:where{ file = list }
    local one = bulk.launches(part, part:match(view:launch_calls():where{ file = list }, "correlation"))
    if one.queue_mean then area, ticks = area + one.queue_mean * one.queue_ticks, ticks + one.queue_ticks end
  end
  return ticks > 0 and area / ticks or nil
end

return {
  name = "launch_stats",
  summary = "launch calls, delay from launch to start, and the length of the device's queue",
  definition = [[Per device, rows joined to their launch call by correlation. The rows of one call, as of a CUDA graph,
are one launch: it starts with the first and ends with the last. launched: launches; without_launch: rows without a
call. delay = start of the launch on the device - start of the call (value at position floor(p n)); launch_call_us is
the duration of the call on the host. Queue: launches that have not ended, maximum and mean over time; one that ends
before its call starts is not counted. short_rows: launches shorter than their call, so that the host is the limit.]],
  needs = "device rows and launch calls (cuda_runtime, hip_runtime …) with correlation ids",
  units = { mean_delay_us = "us", p50_delay_us = "us", p95_delay_us = "us", max_queue = "count", mean_queue = "count" },
  compute = function(view)
    local ranks, any = {}, 0
    for _, lane in ipairs(view:lanes()) do
      local rows, calls = lane:launches()
      if lane.from then
        rows = lane:rows("all")
        calls = rows:match(view:launch_calls(), "correlation")
      end
      local found = bulk.launches(rows, calls)
      local n = found.launched
      any = any + n
      local function us(ticks) return n > 0 and view:us(ticks) or stats.null end
      ranks[lane.key] = {
        rows = #rows, launched = n, without_launch = #rows - found.rows, short_rows = found.short_rows,
        mean_delay_us = n > 0 and view:us(found.delay_sum / n) or stats.null, p50_delay_us = us(found.delay_p50),
        p95_delay_us = us(found.delay_p95), max_delay_us = us(found.delay_max),
        mean_launch_call_us = n > 0 and view:us(found.call_sum / n) or stats.null,
        max_queue = n > 0 and found.queue_most or stats.null,
        mean_queue = stats.known(mean_queue(view, lane, rows, found)),
      }
    end
    if any == 0 then view:missing("needs launch calls with the correlation ids of device rows; no row has a launch") end
    return { ranks = ranks }
  end,
}
