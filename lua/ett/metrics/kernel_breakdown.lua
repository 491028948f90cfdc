--- Which kernels the device time went to.
local comm = require "ett.trace_comm"
local stats = require "ett.trace_stats"

return {
  name = "kernel_breakdown",
  summary = "kernels by total time, with share and percentiles",
  definition = [[Device rows of all devices by name: count, total, share of the total of all kernels (copies
left out), mean, p50, p95 (nearest rank), max. The first --top names (20); the rest is summed up. On TPU also by
hlo_category.]],
  needs = "device rows",
  units = { total_ms = "ms", mean_us = "us", share = "share" },
  args = { "hlo_category", "long_name" },
  options = { "top" },
  compute = function(view, options)
    local kernels, copies
    for _, lane in ipairs(view:lanes()) do
      local mine = lane:rows("compute") + lane:rows("comm")
      kernels = kernels and kernels + mine or mine
      copies = copies and copies + lane:rows("memory") or lane:rows("memory")
    end
    local total = kernels:total()
    local rows, rest = {}, { count = 0, total = 0, names = 0 }
    local top = options.top or 20
    for i, row in ipairs(kernels:stats{ by = { "name" }, percentiles = { 50, 95 }, order = "total" }) do
      if i <= top then
        rows[i] = { name = row.name, count = row.count, total_ms = view:ms(row.total),
          share = stats.ratio(row.total, total), mean_us = view:us(row.mean), p50_us = view:us(row.p50),
          p95_us = view:us(row.p95), max_us = view:us(row.max),
          kind = comm.library_of(row.name) and "communication" or "compute" }
      else
        rest.count, rest.total, rest.names = rest.count + row.count, rest.total + row.total, rest.names + 1
      end
    end
    local out = {
      kernels = rows, total_ms = view:ms(total), count = #kernels,
      top_kernel_share = rows[1] and rows[1].share or stats.null,
      rest = { names = rest.names, count = rest.count, total_ms = view:ms(rest.total),
        share = stats.ratio(rest.total, total) },
      copies = { count = #copies, total_ms = view:ms(copies:total()) },
    }
    local categories = {}
    for _, row in ipairs(kernels:stats{ by = { "arg:hlo_category" }, order = "total" }) do
      if row.hlo_category then
        categories[#categories + 1] = { hlo_category = row.hlo_category, count = row.count,
          total_ms = view:ms(row.total), share = stats.ratio(row.total, total) }
      end
    end
    if #categories > 0 then out.categories = categories end
    return out
  end,
}
