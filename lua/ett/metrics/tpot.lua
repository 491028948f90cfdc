--- Time per output token.
local serving = require "ett.trace.serving"
local stats = require "ett.trace.stats"

return {
  name = "tpot",
  summary = "time between the ends of successive decode steps",
  definition = [[A decode step gives every running request one token. So the time per output token is the time from
the end of one decode step to the end of the next on the same rank; a step ends with the last kernel it
launched. A recording with one decode step gives its duration. p50 is value floor(n / 2)
of the n sorted times, counted from 0.]],
  needs = "the engine's decode ranges on the host",
  units = { mean_tpot_ms = "ms", p50_tpot_ms = "ms", max_tpot_ms = "ms" },
  differs = "public tools read the serving benchmark's log and average over requests; this averages device steps",
  compute = function(view)
    local times, steps = {}, 0
    for _, list in pairs(serving.steps(view)) do
      local previous, alone -- alone: whether it has no neighbour in its recording
      local function close()
        if alone then times[#times + 1] = view:ms(previous.to - previous.from) end
      end
      for _, step in ipairs(list) do
        if step.decode > 0 then
          local follows = previous and previous.recording == step.recording
          if follows then times[#times + 1] = view:ms(step.to - previous.to) else close() end
          previous, alone, steps = step, not follows, steps + 1
        end
      end
      close()
    end
    if #times == 0 then view:missing("needs decode steps; the trace has prefill steps only") end
    local sorted = stats.sorted(times)
    return { mean_tpot_ms = stats.mean(times), p50_tpot_ms = stats.percentile(sorted, 0.5),
      max_tpot_ms = sorted[#sorted], decode_steps = steps }
  end,
}
