--- FLOP/s that the rows of a TPU trace state.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

return {
  name = "achieved_flops_from_trace_json",
  summary = "model FLOPs per second, while the rows that state them run, and over the whole span",
  definition = [[Per core: model_flops of the rows that state any, over the sum of those rows' durations
(achieved_flops_from_trace_json), and over the core's span (flops_per_s_over_span); means over cores.]],
  needs = "device rows with model_flops (TPU traces)",
  units = { achieved_flops_from_trace_json = "flop/s", flops_per_s_over_span = "flop/s" },
  args = totals.args,
  differs = "the public tool divides the sums over all chips; equal where chips do equal work",
  compute = function(view)
    local out = totals.per_device(view, "achieved_flops_from_trace_json", "mean", function(lane)
      local flops, seconds = lane:flops_seconds()
      return seconds > 0 and flops / seconds or nil
    end)
    if out.achieved_flops_from_trace_json == stats.null then view:missing("%s", totals.no_flops) end
    local span = totals.per_device(view, "flops_per_s_over_span", "mean", function(lane)
      local flops = lane:model_flops()
      return flops and stats.ratio(flops, view:s(lane:span_ticks()))
    end)
    out.flops_per_s_over_span, out.over_span_per_device = span.flops_per_s_over_span, span.per_device
    return out
  end,
}
