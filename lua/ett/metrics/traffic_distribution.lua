--- Bytes and time of communication by dimension of the parallel layout.
local collective = require "ett.trace.collective"
local parallel = require "ett.trace.parallel"
local stats = require "ett.trace.stats"

return {
  name = "traffic_distribution",
  summary = "bytes and time of communication by data, tensor, pipeline, expert, context parallelism and embeddings",
  definition = [[Message bytes (nccl-tests' S, from the arguments) and device time of the collectives, summed over
all devices by dimension (lua/ett/trace/parallel.lua defines how the dimension is found). Fractions are of all
bytes, unknown dimensions included. unknown_*: collectives without a known dimension. calls_without_bytes:
collectives without known bytes. mode: the sources of the dimensions.]],
  needs = "device rows; process-group arguments, host ranges or a workload card to find the dimensions",
  units = { dp_bytes = "bytes", tp_bytes = "bytes", pp_bytes = "bytes", ep_bytes = "bytes", fractions = "share" },
  args = collective.args,
  differs = "the public tool guesses the dimension from the kind of kernel alone",
  compute = function(view)
    local bytes, time, calls, modes, without, total = {}, {}, {}, {}, 0, 0.0
    local names = table.move(parallel.dimensions, 1, #parallel.dimensions, 1, {})
    names[#names + 1] = "unknown"
    for _, name in ipairs(names) do bytes[name], time[name], calls[name] = 0.0, 0, 0 end
    for _, lane in ipairs(view:lanes()) do
      local found = lane:dimensions()
      local counts, _, ticks = found.sequence:totals()
      for c, case in ipairs(found.cases) do
        local dimension, moved = case.dimension or "unknown", case.each.bytes
        calls[dimension] = calls[dimension] + counts[c]
        time[dimension] = time[dimension] + ticks[c]
        if moved then
          bytes[dimension] = bytes[dimension] + moved * counts[c]
          total = total + moved * counts[c]
        else
          without = without + counts[c]
        end
        if case.how then stats.count(modes, case.how, counts[c]) end
      end
    end
    local any = 0
    for _, name in ipairs(names) do any = any + calls[name] end
    if any == 0 then view:missing_communication() end
    local out = { fractions = {}, calls = calls, calls_without_bytes = without, told_by = modes }
    for _, name in ipairs(names) do
      out[name .. "_bytes"] = (calls[name] > 0 and total == 0) and stats.null or bytes[name]
      out[name .. "_time_ms"] = view:ms(time[name])
      out.fractions[name] = stats.ratio(bytes[name], total)
    end
    local told = stats.keys(modes)
    out.mode = #told == 0 and "none" or table.concat(told, ", ")
    return out
  end,
}
