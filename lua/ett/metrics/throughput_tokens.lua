--- Tokens a second.
local stats = require "ett.trace.stats"

return {
  name = "throughput_tokens",
  summary = "tokens a second of the recorded steps",
  definition = [[tokens = batch_size x seq_len x iterations measured; duration = the sum of the iterations'
times (each the longest of its ranks). batch_size is the global batch: the card's, or --batch-size and --seq-
len. Without step markers the duration is the longest device span and the iterations are the card's.]],
  needs = "workload_card*.yaml with batch_size and seq_len (or --batch-size, --seq-len); step markers or iterations",
  units = { throughput_tokens_per_s = "tokens/s", total_tokens = "tokens", measured_duration_s = "s" },
  options = { "batch_size", "seq_len" },
  differs = "the public tool multiplies by the card's iterations even when the trace holds fewer",
  compute = function(view, options)
    view:events_needed()
    local card = view:card()
    local batch, seq = options.batch_size or card.batch_size, options.seq_len or card.seq_len
    if not (tonumber(batch) and tonumber(seq)) then
      view:missing("needs %s: give a workload_card*.yaml or --batch-size and --seq-len",
        not tonumber(batch) and "batch_size" or "seq_len")
    end
    local steps = view:iterations()
    local iterations, seconds, source
    if #steps > 0 then
      local ticks = 0
      for _, step in ipairs(steps) do ticks = ticks + step.ticks end
      iterations, seconds, source = #steps, view:s(ticks), "step markers"
    else
      iterations = tonumber(card.iterations)
      if not iterations then view:missing("needs ProfilerStep# markers or the card's iterations; there is neither") end
      local longest = 0
      for _, lane in ipairs(view:lanes()) do longest = math.max(longest, lane:span_ticks()) end
      seconds, source = view:s(longest), "device span, iterations of the card"
    end
    local tokens = batch * (seq + 0.0) * iterations
    return {
      throughput_tokens_per_s = stats.ratio(tokens, seconds), total_tokens = tokens, measured_duration_s = seconds,
      batch_size = batch, seq_len = seq, iterations = iterations, source = source,
    }
  end,
}
