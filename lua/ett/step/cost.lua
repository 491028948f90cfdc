--- Money of a step and of a run.
local cost = {}

--- Adds the cost of a step to an estimate and, where the tokens of a run are given, its length.
---@param tokens number? of the run
function cost.add(e, cluster, tokens)
  local price = cluster.price_per_gpu_hour
  if price then
    e.price_per_device_hour = price
    e.price_per_step = price * e.devices * e.step_seconds / 3600
    e.price_per_billion_tokens = e.price_per_step / e.tokens_per_step * 1e9
  end
  if not tokens then return end
  e.run_tokens, e.run_steps = tokens, math.ceil(tokens / e.tokens_per_step)
  e.run_seconds = e.run_steps * e.step_seconds
  if price then e.run_price = e.run_steps * e.price_per_step end
end

return cost
