--- Time to first token.
local serving = require "ett.trace.serving"
local stats = require "ett.trace.stats"

return {
  name = "ttft",
  summary = "time of a prefill step, from its start to the end of its last kernel",
  definition = [[For every prefill step of the engine: end of the last kernel that it launched - start of its range. A
trace does not contain the queueing before the step, so this is only a part of the time to first token. p50 is value
floor(n / 2) of the n sorted times, counted from 0.]],
  needs = "the engine's prefill ranges on the host",
  units = { mean_ttft_ms = "ms", p50_ttft_ms = "ms", max_ttft_ms = "ms" },
  differs = "public tools read the serving benchmark's log, which includes queueing; a trace does not",
  compute = function(view)
    local times, tokens = {}, 0
    for _, list in pairs(serving.steps(view)) do
      for _, step in ipairs(list) do
        if step.prefill > 0 then
          times[#times + 1] = view:ms(step.to - step.from)
          tokens = tokens + (step.prefill_tokens or 0)
        end
      end
    end
    if #times == 0 then view:missing("needs prefill steps; the trace has decode steps only") end
    local sorted = stats.sorted(times)
    return { mean_ttft_ms = stats.mean(times), p50_ttft_ms = stats.percentile(sorted, 0.5),
      max_ttft_ms = sorted[#sorted], prefill_steps = #times, prefill_tokens = tokens }
  end,
}
