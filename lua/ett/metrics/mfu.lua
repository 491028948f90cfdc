--- Model FLOP utilisation.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

--- FLOPs of the recorded work of one device, seconds they took, how both were found.
local function work(view, options)
  local flops, seconds, n = 0.0, 0.0, 0
  for _, lane in ipairs(view:lanes()) do
    local each = lane:model_flops()
    if each then flops, seconds, n = flops + each, seconds + view:s(lane:span_ticks()), n + 1 end
  end
  if n > 0 then return flops / n, seconds / n, "model_flops of the rows over the span" end
  local card = view:card()
  local params = options.model_params or tonumber(card.num_params)
  local batch, seq = options.batch_size or tonumber(card.batch_size), options.seq_len or tonumber(card.seq_len)
  local steps = view:iterations()
  local lacking = not params and "num_params (--model-params)" or not batch and "batch_size (--batch-size)"
    or not seq and "seq_len (--seq-len)" or #steps == 0 and "ProfilerStep# markers" or nil
  if lacking then
    view:missing("needs model_flops on the rows, or %s from the card or the options", lacking)
  end
  local ticks = 0
  for _, step in ipairs(steps) do ticks = ticks + step.ticks end
  local world = tonumber(card.devices) or view:processes()[1].world_size or #view:lanes()
  local factor = (card.phase == "inference" or card.phase == "serving") and 2.0 or 6.0
  return factor * params * batch * seq * #steps / world, view:s(ticks),
    ("%d x parameters x tokens on %d devices over the steps"):format(factor, world)
end

--- Peak FLOP/s of a device and where it was found.
local function peak_of(view, options)
  local card = view:card()
  if options.peak_flops then return options.peak_flops, "--peak-flops" end
  if not options.cluster then
    if card.peak_flops then return card.peak_flops, "card" end
    view:missing("needs the device's peak: --peak-flops, or --cluster NAME (or peak_flops in the card)")
  end
  local cluster = require("ett.profile.cluster").get(options.cluster)
  local dtype = type(card.precision) == "string" and card.precision:lower() or "bf16"
  local peak = cluster.device.peak_flops[dtype]
  if not peak then
    view:missing("cluster '%s': its device has no peak for %s, only for %s", cluster.name, dtype,
      table.concat(stats.keys(cluster.device.peak_flops), ", "))
  end
  return peak, ("%s of %s, cluster %s"):format(dtype, cluster.device.name, cluster.name)
end

return {
  name = "mfu",
  summary = "model FLOPs a second of a device over its peak",
  definition = [[(model FLOPs of a device / time) / peak. FLOPs: the rows' model_flops where the trace has them,
else 6 x parameters x tokens (2 x for inference) shared evenly over the devices; time: the span, or the steps.
Peak: as given, else that of the cluster's device for the card's precision (bf16 where it says none).]],
  needs = "--peak-flops, --cluster or the card's peak_flops; model_flops on rows or parameters, batch, length, steps",
  units = { mfu = "share", achieved_flops_per_s = "flop/s" },
  args = totals.args,
  options = { "peak_flops", "cluster", "model_params", "batch_size", "seq_len" },
  differs = "public tools take FLOPs of attention and of the embedding in or leave them out; here they are out (6 N)",
  compute = function(view, options)
    view:events_needed()
    local peak, source = peak_of(view, options)
    local flops, seconds, how = work(view, options)
    local achieved = stats.ratio(flops, seconds)
    return { mfu = achieved ~= stats.null and achieved / peak or stats.null, achieved_flops_per_s = achieved,
      peak_flops_per_s = peak, peak_from = source, how = how }
  end,
}
