--- Model FLOP utilisation.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

--- Ticks of a device's span together with its steps: a stage of a pipeline is idle at both ends of a step.
local function ticks_with_steps(lane)
  local ticks, from, to = lane:span_ticks(), lane:span()
  if lane.from then return ticks end -- a window
  local first, last = from, to
  for _, step in ipairs(lane:steps()) do first, last = math.min(first, step.from), math.max(last, step.to) end
  return ticks + from - first + last - to
end

--- FLOPs of the recorded work of one device, its seconds, and the source of both.
local function work(view)
  local flops, seconds, n = 0.0, 0.0, 0
  for _, lane in ipairs(view:lanes()) do
    local each = lane:model_flops()
    if each then flops, seconds, n = flops + each, seconds + view:s(ticks_with_steps(lane)), n + 1 end
  end
  if n > 0 then return flops / n, seconds / n, "model_flops of the rows over span and steps" end
  local params = view:fact("num_params", "model_params")
  local batch, seq = view:fact "batch_size", view:fact "seq_len"
  local ticks, steps = view:iteration_ticks()
  local lacking = not params and "num_params (--model-params)" or not batch and "batch_size (--batch-size)"
    or not seq and "seq_len (--seq-len)" or nil
  if lacking then view:missing("needs model_flops on the rows, or %s from the card or the options", lacking) end
  if steps == 0 then view:missing("needs model_flops on the rows, or %s", view:lacking_iterations()) end
  local world = tonumber(view:card().devices) or view:processes()[1].world_size or #view:lanes()
  local factor = totals.flops_per_parameter(view)
  return factor * params * batch * seq * steps / world, view:s(ticks),
    ("%d x parameters x tokens on %d devices over the steps"):format(factor, world)
end

--- Peak FLOP/s of a device, and its source.
local function peak_of(view, options)
  local card, cluster = view:card(), options.cluster
  if options.peak_flops then return options.peak_flops, "--peak-flops" end
  if not cluster then
    if card.peak_flops then return card.peak_flops, "card" end
    view:missing("needs the device's peak: --peak-flops, --cluster NAME, or peak_flops in the card")
  end
  if cluster.parts then
    view:missing("needs a cluster of one kind of nodes, or --peak-flops: '%s' has parts", cluster.name)
  end
  local dtype = card.precision or "bf16"
  local peak = cluster.device.peak_flops[dtype]
  if not peak then
    view:missing("cluster '%s': its device has no peak for %s, only for %s", cluster.name, dtype,
      table.concat(stats.keys(cluster.device.peak_flops), ", "))
  end
  return peak, ("%s of %s, cluster %s"):format(dtype, cluster.device.name, cluster.name)
end

return {
  name = "mfu",
  summary = "model FLOPs per second of a device, divided by its peak",
  definition = [[(model FLOPs of a device / time) / peak. FLOPs: the rows' model_flops where the trace has them,
else 6 x parameters x tokens, shared evenly over the devices; 2 x for inference, by the card's phase or by operators
on the host without a backward pass. Time: with model_flops the device's span and the steps around it, else the steps.
Peak: as given, else that of the cluster's device for the card's precision (bf16 if the card has none).]],
  needs = "--peak-flops, --cluster or the card's peak_flops; model_flops on rows or parameters, batch, length, steps",
  units = { mfu = "share", achieved_flops_per_s = "flop/s" },
  args = totals.args,
  options = { "peak_flops", "cluster", "model_params", "batch_size", "seq_len" },
  differs = "public tools may count FLOPs of attention and of the embedding; here they are excluded (6 N)",
  compute = function(view, options)
    view:events_needed()
    local peak, source = peak_of(view, options)
    local flops, seconds, how = work(view)
    local achieved = stats.ratio(flops, seconds)
    local mfu = achieved ~= stats.null and achieved / peak or stats.null
    return { mfu = mfu, achieved_flops_per_s = achieved, peak_flops_per_s = peak, peak_from = source, how = how,
      note = mfu ~= stats.null and mfu > 1 and "a share above 1: the peak, the precision, the parameters or the batch "
        .. "differ from those of the run" or nil }
  end,
}
