--- Money, energy and days of a step and of a run.
local cost = {}

--- Adds the cost of a step to an estimate. With the tokens of a run, also adds the cost of the run: steps, time (the
--- mean if devices vary), and days with failures, checkpoints and restarts.
---@param tokens number? of the run
function cost.add(e, cluster, tokens)
  local price = e.plan.price_per_device_hour or cluster.price_per_gpu_hour
  local step = e.varied_mean_seconds or e.step_seconds
  if price then
    e.price_per_device_hour = price
    e.price_source = e.plan.price_per_device_hour and "given" or cluster.price_source
    e.price_per_step = price * e.devices * step / 3600
    e.price_per_billion_tokens = e.price_per_step / e.tokens_per_step * 1e9
  end
  e.price_source = e.price_source or cluster.price_source
  tokens = tokens or e.plan.tokens
  if not tokens then return end
  local useful = e.goodput_percent and e.goodput_percent / 100 or 1
  e.run_tokens, e.run_steps = tokens, math.ceil(tokens / e.tokens_per_step)
  e.run_seconds = e.run_steps * step / useful
  if price then e.run_price = e.run_steps * e.price_per_step / useful end
  if e.kwh_per_step then
    e.run_kwh, e.run_co2_kg = e.run_steps * e.kwh_per_step / useful, e.run_steps * e.co2_kg_per_step / useful
  end
end

return cost
