--- Time of each TPU core by HLO category and collective.
local stats = require "ett.trace.stats"
local collective = require "ett.trace.collective"

local function device_ps(events)
  local sum, count = events:sum("device_duration_ps")
  return count > 0 and sum or nil
end

local function core(view, lane)
  local rows = lane:rows("all")
  local span, comm = lane:span_ticks(), lane:comm_ticks()
  local categories, groups = {}, {}
  for _, group in ipairs(rows:group{ "arg:hlo_category" }) do
    local ps = device_ps(group.events)
    local ms = ps and ps / 1e9 or view:ms(group.events:total())
    categories[tostring(group.hlo_category or "unknown")] = { #group.events, ms }
  end
  local all = lane:collectives()
  local counts, _, _, ticks = all.sequence:totals()
  for n, each in ipairs(all.sorts) do
    local key = ("%s|%s"):format(each.kernel_type, each.result_bytes and ("%.0f"):format(each.result_bytes) or "?")
    local group = groups[key] or { n = 0, ticks = 0.0, bytes = each.result_bytes }
    groups[key] = group
    group.n, group.ticks = group.n + counts[n], group.ticks + ticks[n]
  end
  local out = {}
  for key, group in pairs(groups) do
    local seconds = view:s(group.ticks)
    out[key] = { n = group.n, ms = seconds * 1e3, avg_us = seconds * 1e6 / group.n, bytes = stats.known(group.bytes),
      algbw_GBps = group.bytes and stats.ratio(group.bytes * group.n / 1e9, seconds) or stats.null }
  end
  local sum = device_ps(rows)
  local flops = lane:model_flops()
  return {
    ops = #rows, span_ms = view:ms(span), sum_device_ms = sum and sum / 1e9 or view:ms(rows:total()),
    comm_ms = view:ms(comm), comm_fraction_of_span = stats.ratio(comm, span), collectives = out,
    model_flops = stats.known(flops), flops_per_s_over_span = flops and stats.ratio(flops, view:s(span)) or stats.null,
    by_hlo_category_ms = categories,
  }
end

return {
  name = "tpu_device_time",
  summary = "span, communication, FLOPs, collectives and HLO categories of each TPU core",
  definition = [[Per core, of its XLA Ops rows: span = last end - first start; times are sums of
device_duration_ps where the rows have it; collectives by opcode and bytes of the result, algbw = n x bytes /
time; by_hlo_category_ms gives the number of ops and their time.]],
  needs = "a TPU trace (Torch-XLA or JAX trace.json, or xplane.pb)",
  units = { span_ms = "ms", comm_ms = "ms", model_flops = "flop", flops_per_s_over_span = "flop/s" },
  args = { "model_flops", table.unpack(collective.args) },
  compute = function(view)
    local cores, any = {}, false
    for _, lane in ipairs(view:lanes()) do
      if lane.tpu then cores[lane.key], any = core(view, lane), true end
    end
    if not any then view:missing("needs a TPU trace; no file here is one") end
    return { cores = cores }
  end,
}
