--- Time between the traffic of one dimension and that of the next.
local collective = require "ett.trace.collective"
local stats = require "ett.trace.stats"

return {
  name = "traffic_window",
  summary = "time between the end of one dimension's traffic and the start of the next one's",
  definition = [[Per device and recording, collectives in order of start. Where the dimension changes (dp, tp, pp, ep,
cp, unknown), window = start of the later - end of the earlier; it is negative if they overlap. Windows are listed
by pair of dimensions over all devices; percentile p is the value at position floor(p n).]],
  needs = "device rows with communication of at least two dimensions",
  units = { mean_window_us = "us", p50_us = "us", max_us = "us" },
  args = collective.args,
  differs = "only planned in the public set; the definition is ett's own",
  compute = function(view)
    local pairs_of, all = {}, {}
    local seen, number = {}, {}
    for _, lane in ipairs(view:lanes()) do
      local found, kinds, homes = lane:dimensions(), {}, {}
      local _, recordings = view:recordings()
      for c, case in ipairs(found.cases) do
        local dimension = case.dimension or "unknown"
        if not seen[dimension] then
          number[#number + 1] = dimension
          seen[dimension] = #number
        end
        kinds[c], homes[c] = seen[dimension], case.each.recording or 1
      end
      for _, list in ipairs(found.sequence:split(homes, recordings)) do
        local from, to, gaps = list:changes(kinds)
        for i, gap in ipairs(gaps) do
          local name, window = ("%s -> %s"):format(number[from[i]], number[to[i]]), view:us(gap)
          pairs_of[name] = pairs_of[name] or {}
          table.insert(pairs_of[name], window)
          all[#all + 1] = window
        end
      end
    end
    if #all == 0 then
      local names = stats.keys(seen)
      view:missing("needs traffic of at least two dimensions; the trace has %s",
        #names == 0 and "no communication" or table.concat(names, ", ") .. " only")
    end
    local rows = {}
    for _, name in ipairs(stats.keys(pairs_of)) do
      local sorted = stats.sorted(pairs_of[name])
      rows[#rows + 1] = { pair = name, count = #sorted, mean_us = stats.mean(sorted), min_us = sorted[1],
        p50_us = stats.percentile(sorted, 0.5), p95_us = stats.percentile(sorted, 0.95), max_us = sorted[#sorted] }
    end
    return { mean_window_us = stats.mean(all), windows = #all, pairs = rows }
  end,
}
