--- Device time by kernel.
local by = require "ett.base.by"
local stats = require "ett.trace.stats"

return {
  name = "kernel_breakdown",
  summary = "kernels by total time, with share and percentiles",
  definition = [[Device rows of all devices by name: count, total, share of the total of all kernels (without
copies), mean, p50, p95 (nearest rank), max. The first --top names (20), and the sum of the rest. On TPU also
by hlo_category.]],
  needs = "device rows",
  units = { total_ms = "ms", mean_us = "us", share = "share" },
  options = { "top" },
  compute = function(view, options)
    local compute, communication = view:lane_sum("compute"), view:lane_sum("comm")
    local copies, tpu = view:lane_sum("memory"), view:lanes()[1].tpu
    local total, count = compute:total() + communication:total(), #compute + #communication
    local rows, rest = stats.list(), { count = count, total = total, names = 0 }
    local top, all = options.top or stats.default_top, {}
    for kind, part in pairs{ compute = compute, communication = communication } do
      local list, names = part:stats{ by = { "name" }, percentiles = { 50, 95 }, order = "total", top = top }
      rest.names = rest.names + names
      for _, row in ipairs(list) do
        row.kind = kind
        all[#all + 1] = row
      end
    end
    table.sort(all, by("-total", "name", "kind"))
    for i, row in ipairs(all) do
      if i <= top then
        rest.count, rest.total, rest.names = rest.count - row.count, rest.total - row.total, rest.names - 1
        rows[i] = { name = row.name, count = row.count, total_ms = view:ms(row.total),
          share = stats.ratio(row.total, total), mean_us = view:us(row.mean), p50_us = view:us(row.p50),
          p95_us = view:us(row.p95), max_us = view:us(row.max),
          kind = row.kind }
      end
    end
    local out = {
      kernels = rows, total_ms = view:ms(total), count = count,
      top_kernel_share = rows[1] and rows[1].share or stats.null,
      rest = { names = rest.names, count = rest.count, total_ms = view:ms(rest.total),
        share = stats.ratio(rest.total, total) },
      copies = { count = #copies, total_ms = view:ms(copies:total()) },
    }
    local categories = {}
    local by_category = tpu and (compute + communication):stats{ by = { "arg:hlo_category" }, order = "total" } or {}
    for _, row in ipairs(by_category) do
      if row.hlo_category then
        categories[#categories + 1] = { hlo_category = row.hlo_category, count = row.count,
          total_ms = view:ms(row.total), share = stats.ratio(row.total, total) }
      end
    end
    if #categories > 0 then out.categories = categories end
    return out
  end,
}
