--- Busy, idle, communication, compute and copy time of each device.
local stats = require "ett.trace.stats"
local comm = require "ett.trace.comm"

local function lane_figures(view, lane)
  local C, K, M, B = lane:comm(), lane:compute(), lane:memory(), lane:busy()
  local overlap = (C & K):measure()
  local comm_ticks, span, busy = C:measure(), lane:span_ticks(), B:measure()
  local comm_rows, comp_rows = lane:rows("comm"), lane:rows("compute")
  local by_type = {}
  for _, row in ipairs(comm_rows:stats{ by = { "name" } }) do
    stats.count(by_type, comm.kernel_type(row.name), row.count)
  end
  local kernels = comm_rows + comp_rows
  local top = kernels:stats{ by = { "name" }, order = "total", top = 1 }[1]
  return {
    gpu_span_us = view:us(span), busy_us = view:us(busy), idle_us = view:us(span - busy),
    kernels = #lane:rows("all"):where{ class = "kernel" }, device_ops = #lane:rows("all"),
    comm_kernels = #comm_rows, comp_kernels = #comp_rows, mem_ops = #lane:rows("memory"),
    comm_sum_us = view:us(lane:comm_sum()), comm_union_us = view:us(comm_ticks),
    comp_sum_us = view:us(comp_rows:total()), comp_union_us = view:us(K:measure()),
    mem_union_us = view:us(M:measure()),
    overlap_comm_comp_us = view:us(overlap), exposed_comm_us = view:us(comm_ticks - overlap),
    exposed_comm_vs_comp_or_mem_us = view:us((C - (K | M)):measure()),
    overlap_ratio_of_comm = stats.ratio(overlap, comm_ticks),
    comm_by_kernel_type = by_type, nccl_user_annotations = view:library_ranges(lane.process),
    top_kernel_share = top and stats.ratio(top.total, kernels:total()) or stats.null,
    gaps_gt_1ms_us = view:us(lane:gaps():longer(view.trace.ticks_per_second // 1000):measure()),
  }
end

return {
  name = "device_time",
  summary = "span, busy, idle, communication, compute, copies and their overlap for each device",
  definition = [[Per device, intervals united: communication C, compute K, copies M, busy = |C u K u M|, idle =
span - busy, overlap = |C n K|, exposed = |C| - |C n K|. *_sum_us add durations without uniting them.
kernels, comm_kernels, comm_by_kernel_type and device_ops count rows: an asynchronous collective on TPU has two.
top_kernel_share: largest total of one kernel name over the total of all kernels. bad and neg: numbers of
unreadable rows and of rows of negative duration. gaps_gt_1ms_us: idle time in gaps of more than 1 ms.]],
  needs = "device rows; a process without them is listed with kernels = 0",
  units = { gpu_span_us = "us", busy_us = "us", idle_us = "us", top_kernel_share = "share" },
  differs = "tools that classify by name also count host rows and annotations as device time",
  compute = function(view)
    local ranks, with_lane = {}, {}
    for _, lane in ipairs(view:lane_list()) do
      local figures = lane_figures(view, lane)
      figures.bad, figures.neg = view:damage(lane.process)
      ranks[lane.key], with_lane[lane.process] = figures, true
    end
    for _, process in ipairs(view:processes()) do
      if not with_lane[process] then
        local bad, negative = view:damage(process)
        ranks[process.key] = { kernels = 0, bad = bad, neg = negative }
      end
    end
    return { ranks = ranks }
  end,
}
