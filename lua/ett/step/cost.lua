--- Money, energy and days of a step and of a run.
local error_module = require "ett.base.error"

local cost = {}

--- Tokens of the run: the argument, or the plan's field. Raises if both are given and differ.
---@param label string for the message
---@param tokens number?
---@param p table a plan, checked or not
function cost.tokens(label, tokens, p)
  if tokens and type(p.tokens) == "number" and p.tokens ~= tokens then
    error_module.raise("usage", "%s: tokens = %.4g contradicts the plan's tokens = %.4g; give one of them", label,
      tokens, p.tokens)
  end
  return tokens or p.tokens
end

--- Dollars of a device and hour: the plan's price, else the cluster's; nil if there is none.
function cost.hourly(p, cluster) return p.price_per_device_hour or cluster.price_per_gpu_hour end

--- Dollars of the devices in some seconds.
---@param hourly number of cost.hourly
function cost.of_devices(hourly, devices, seconds) return hourly * devices * seconds / 3600 end

function cost.steps(tokens, tokens_per_step) return math.ceil(tokens / tokens_per_step) end

--- An amount of each step, such as its seconds, over a run with failures, checkpoints and restarts.
---@param goodput_percent number? nil: without failures
---@return number? nil: the run never ends
function cost.of_run(steps, amount, goodput_percent)
  local whole = steps * amount / (goodput_percent and goodput_percent / 100 or 1)
  return whole < math.huge and whole or nil
end

--- Adds the cost of a step to an estimate. With the tokens of a run, also adds the cost of the run: steps, time (the
--- mean if devices vary), and days with failures, checkpoints and restarts.
---@param tokens number? of the run
function cost.add(e, cluster, tokens)
  local price = cost.hourly(e.plan, cluster)
  local step = e.varied_mean_seconds or e.step_seconds
  if price then
    e.price_per_device_hour = price
    e.price_source = e.plan.price_per_device_hour and "given" or cluster.price_source
    e.dollars_per_step = cost.of_devices(price, e.devices, step)
    e.dollars_per_billion_tokens = e.dollars_per_step / e.tokens_per_step * 1e9
  end
  e.price_source = e.price_source or cluster.price_source
  if not tokens then return end
  e.run_tokens, e.run_steps = tokens, cost.steps(tokens, e.tokens_per_step)
  local function of_run(amount) return amount and cost.of_run(e.run_steps, amount, e.goodput_percent) end
  local seconds = of_run(step)
  e.run_days, e.run_dollars = seconds and seconds / 86400, of_run(e.dollars_per_step)
  e.run_kwh, e.run_co2_kg = of_run(e.kwh_per_step), of_run(e.co2_kg_per_step)
end

--- A note if the last of several nodes is not full: "price and energy are of 12 of the 16 devices of 2 nodes"; else
--- nil. A part of a single node gets no note, because it is often sold alone.
function cost.note(e, cluster)
  local node, price = cluster.gpus_per_node, e.dollars_per_step and "price"
  local nodes = math.ceil(e.devices / node)
  if nodes == 1 or e.devices == nodes * node or not (price or e.kwh_per_step) then return nil end
  local what = price and e.kwh_per_step and "price and energy are" or price and "the price is" or "the energy is"
  return ("%s of %d of the %d devices of %d nodes, which may be billed and powered whole"):format(what, e.devices,
    nodes * node, nodes)
end

return cost
