--- Tokens per second.
local stats = require "ett.trace.stats"

return {
  name = "throughput_tokens",
  summary = "tokens per second in the recorded steps",
  definition = [[tokens = batch_size x seq_len x iterations measured; duration = the sum of the iterations' times
(each the longest of its ranks). batch_size is the global batch: the card's, or --batch-size. Without step
markers the duration is the longest device span, and the iterations are the card's. They are of the whole run, so a
window needs markers.]],
  needs = "workload_card*.yaml with batch_size and seq_len (or --batch-size, --seq-len); step markers or iterations",
  units = { throughput_tokens_per_s = "tokens/s", total_tokens = "tokens", measured_duration_s = "s" },
  options = { "batch_size", "seq_len" },
  differs = "the public tool multiplies by the card's iterations even when the trace holds fewer",
  compute = function(view)
    view:events_needed()
    local batch, seq = view:fact "batch_size", view:fact "seq_len"
    if not (batch and seq) then
      view:missing("needs %s: give a workload_card*.yaml or --batch-size and --seq-len",
        batch and "seq_len" or "batch_size")
    end
    local ticks, iterations = view:iteration_ticks()
    local source = "step markers"
    if iterations == 0 then
      if view.options.window or view.options.step then view:missing("needs %s", view:lacking_iterations()) end
      iterations, source = tonumber(view:card().iterations), "device span, iterations of the card"
      if not iterations then view:missing("needs ProfilerStep# markers or the card's iterations; there is neither") end
      for _, lane in ipairs(view:lanes()) do ticks = math.max(ticks, lane:span_ticks()) end
    end
    local tokens, seconds = batch * (seq + 0.0) * iterations, view:s(ticks)
    return {
      throughput_tokens_per_s = stats.ratio(tokens, seconds), total_tokens = tokens, measured_duration_s = seconds,
      batch_size = batch, seq_len = seq, iterations = iterations, source = source,
    }
  end,
}
