--- Power of a device by its work, energy of a step, carbon dioxide.
--
-- A computing device draws idle_watts + compute_watts u + memory_watts v, at most its power limit. u is the used share
-- of its peak rate, v the used share of its memory bandwidth. It draws idle_watts while it waits or communicates. Each
-- device of a step counts with the work of the mean rank; a device with less work than the busiest waits for it.
local device_module = require "ett.profile.device"
local expert_spread = require "ett.step.expert_spread"
local frozen = require "ett.step.frozen"
local lower = require "ett.step.lower"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"

local energy = {}

--- Default coefficients as shares of the datasheet's power, from the H200 (clusters/devices/h200_sxm). A lower limit
--- does not change them: a kernel that the limit slows down draws the limit, and waiting draws no less.
energy.shares = { idle_watts = 0.253, compute_watts = 0.989, memory_watts = 0.481 }

--- Defaults for facilities and grids: power usage effectiveness 1.56 (Uptime Institute, Global Data Center Survey 2024,
--- mean); 480 g of carbon dioxide per kWh (Ember, Global Electricity Review 2024: world, 2023).
energy.pue, energy.grams_co2_per_kwh = 1.56, 480

--- Power of processors, cards, fans and switches as a share of the devices' limits. A node of eight H100 drew at most
--- 8.4 kW in training (Latif et al. 2024, arXiv 2412.08602), 5.6 kW of it in devices.
energy.overhead_share = 0.5

--- Error of a device's power at 90 %, as a share. The mean error of held-out shapes is 18 % on the H200 and 17 % on the
--- B200 (clusters/devices). The bound at 90 % of a normal distribution is 2.06 times its mean absolute error. Power of
--- other devices was not tested; the same error is assumed. No device draws more than its limit.
energy.power_error = 0.37

--- Coefficients of a device: { idle_watts, compute_watts, memory_watts, limit_watts, source }; nil if its power is
--- unknown.
function energy.of_device(device)
  local limit = device.power_limit_watts or device.power_watts
  if not limit then return nil end
  local given, power = device.power or {}, { limit_watts = limit, source = device.power and device.power.source
    or "shares of the H200's" }
  for name, share in pairs(energy.shares) do power[name] = given[name] or share * (device.power_watts or limit) end
  power.idle_watts = math.min(power.idle_watts, limit)
  return power
end

--- FLOPs and bytes of an operation's pass, and the data type in which it is timed.
local function work_of(o, dtype, pass)
  local op, shape = (o.timed_as or o).operator, o.timed_as and o.timed_as[pass] or o.shape
  dtype = op.family == "gemm" and o.dtype or schema.wide(dtype)
  if pass == "backward" and o.backward_launches == 1 then -- a frozen product computes one gradient
    shape, pass = frozen.input_gradient_shape(shape), "forward"
  end
  local flops, bytes = op.flops(shape, pass), op.bytes(shape, dtype, pass)
  if pass == "backward" and o.backward_launches == frozen.launches_with_forward then
    flops, bytes = flops + op.flops(shape, "forward"), bytes + op.bytes(shape, dtype, "forward")
  end
  return flops, bytes, dtype
end

local function watts_of(power, device, o, dtype, pass, seconds)
  local flops, bytes, own = work_of(o, dtype, pass)
  local peak = device_module.peak(device, own)
  local u, v = peak and flops / seconds / peak or 0, bytes / seconds / device.memory_bandwidth
  return math.min(power.limit_watts, power.idle_watts + power.compute_watts * math.min(1, u)
    + power.memory_watts * math.min(1, v))
end

-- The amount of work of an operator in a shape; only ratios between shapes of one operator are used.
local function size_of(op, shape, dtype)
  local flops = op.flops(shape, "forward")
  return flops > 0 and flops or op.bytes(shape, dtype, "forward")
end

--- The work of the mean rank, divided by that of the busiest rank, which sets the times: { [operation] = share };
--- missing operations have 1. Ranks have unequal work with skewed experts, or with the causal mask of contiguous chunks
--- of a sequence (cp_balanced = false).
---@param own table lowered model of one kind of devices
---@return table
function energy.mean_shares(model, p, own)
  local shares, c = {}, own.configuration
  local _, _, load = expert_spread.load(model.hyper, p)
  if load == c.expert_load and (p.cp == 1 or p.cp_balanced) then return shares end
  local mean = merged(c, { expert_load = load, cp_balanced = true })
  for k, layer in ipairs(lower.model_layers(model, p)) do
    for i, item in ipairs(lower.items(layer, mean, p, own.stack)) do
      local o = own.operations[own.kinds[k].order[i][1]]
      if o.operator and not shares[o] then
        shares[o] = size_of(o.operator, item.shape, p.dtype) / size_of(o.operator, o.shape, p.dtype)
      end
    end
  end
  return shares
end

--- Joules of one micro-batch through all stages, above idle power and without recomputation: a lower bound.
---@param lowered table from ett.step.lower
function energy.least_joules(lowered, device, model, p)
  local power, joules, shares = energy.of_device(device), 0.0, energy.mean_shares(model, p, lowered)
  for _, kind in ipairs(lowered.kinds) do
    for index, o in ipairs(lowered.operations) do
      local uses = kind.uses[index] or 0
      for _, pass in ipairs { "forward", "backward" } do
        local seconds = (o.operator or o.timed_as) and o[pass] and o[pass].seconds or 0
        if uses > 0 and seconds > 0 then
          joules = joules + kind.count * uses * (shares[o] or 1) * seconds
            * (watts_of(power, device, o, p.dtype, pass, seconds) - power.idle_watts)
        end
      end
    end
  end
  return joules
end

--- Joules of a device in a step, above idle power, averaged over pipeline stages.
---@param runs function(visit) calls visit(operation, forward runs, backward runs) for every operation
---@param update number seconds of optimizer kernels, averaged over all devices
---@param newton number seconds of Muon's products, which are large
local function joules_above_idle(power, device, e, runs, update, newton)
  local sums = { forward = 0.0, backward = 0.0 }
  runs(function(o, forward, backward)
    if not (o.operator or o.timed_as) then return end
    for i, pass in ipairs { "forward", "backward" } do -- fixed order: sums are equal in every process
      local count = i == 1 and forward or backward
      local seconds = o[pass] and o[pass].seconds or 0
      if count > 0 and seconds > 0 then
        sums[pass] = sums[pass]
          + count * seconds * (watts_of(power, device, o, e.plan.dtype, pass, seconds) - power.idle_watts)
      end
    end
  end)
  local most = power.limit_watts - power.idle_watts
  return sums.forward + sums.backward + update * math.min(power.memory_watts, most)
    + newton * math.min(power.compute_watts, most)
end

-- The lowest memory bandwidth of the devices of a stage, whose shares are given.
local function least_bandwidth(cluster, shares)
  local least = math.huge
  for k, share in ipairs(shares) do
    if share > 0 then least = math.min(least, cluster.parts[k].device.memory_bandwidth) end
  end
  return least
end

--- The share of the devices that are on a part, the seconds of their optimizer kernels, and those of Muon's products,
--- averaged over all devices. The kernels are memory-bound; the seconds of a stage are those of its slowest part.
---@param shares table? of ett.step.parts.shares
local function of_part(e, cluster, shares, k)
  local share, update, newton = 0.0, 0.0, 0.0
  for s, stage in ipairs(e.stages) do
    local own, ratio = shares and shares[s][k] or 1, 1
    if shares then ratio = least_bandwidth(cluster, shares[s]) / cluster.parts[k].device.memory_bandwidth end
    share, update = share + own / #e.stages, update + own * ratio * stage.optimizer_kernel_seconds / #e.stages
    newton = newton + own * stage.newton_seconds / #e.stages
  end
  return share, update, newton
end

--- The constants that the power of a device and its facility depends on; nil if the device's power is unknown.
---@param cluster table of one kind of nodes
---@return table? coefficients of energy.of_device
---@return number? watts of its node
---@return number? power usage effectiveness
---@return number? grams of carbon dioxide per kWh
function energy.setting(p, cluster)
  local power, own = energy.of_device(cluster.device), cluster.power or {}
  if not power then return nil end
  return power, own.node_watts and own.node_watts / cluster.gpus_per_node or energy.overhead_share * power.limit_watts,
    p.pue or own.pue or energy.pue, p.grams_co2_per_kwh or own.grams_co2_per_kwh or energy.grams_co2_per_kwh
end

--- Adds the range of the energy at the percentage of the step's interval. The errors of time and power are independent.
--- A longer step draws more idle power and power of nodes; the joules of its work stay the same.
---@param waiting number kWh of idle devices and nodes in a step, a part of e.kwh_per_step
---@param less number kWh by which devices may draw less power than estimated
---@param more number kWh by which they may draw more
local function add_range(e, waiting, less, more)
  if not e.low_seconds then return end
  local function away(seconds, power) return math.sqrt((waiting * (seconds / e.step_seconds - 1)) ^ 2 + power ^ 2) end
  e.low_kwh_per_step = math.max(0.0, e.kwh_per_step - away(e.low_seconds, less))
  e.high_kwh_per_step = e.kwh_per_step + away(e.high_seconds, more)
end

--- Adds power and energy to an estimate; does nothing for a device without power_watts. If devices vary, the figures
--- are those of the mean step: its additional seconds are waits. The PUE of parts is the mean over their energy.
---@param runs function(part) -> function as above
---@param shares table? of ett.step.parts.shares
function energy.add(e, cluster, runs, shares)
  local step, source, last_pue = e.varied_mean_seconds or e.step_seconds, nil, nil
  local watts, overhead, facility, grams, waiting, less, more = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
  for k, part in ipairs(cluster.parts or { cluster }) do
    local share, update, newton = of_part(e, cluster, shares, k)
    if share > 0 then
      local power, node_watts, pue, own_grams = energy.setting(e.plan, part)
      if not power then return end
      local own = share * power.idle_watts + joules_above_idle(power, part.device, e, runs(k), update, newton) / step
      watts, overhead = watts + own, overhead + share * node_watts
      local all = (own + share * node_watts) * pue
      facility, grams = facility + all, grams + all * own_grams
      waiting, less = waiting + share * (power.idle_watts + node_watts) * pue, less + energy.power_error * own * pue
      more = more + math.min(energy.power_error * own, math.max(0, share * power.limit_watts - own)) * pue
      source, last_pue = source or power.source, pue
    end
  end
  e.device_watts, e.overhead_watts, e.power_source = watts, overhead, source
  e.pue = shares and facility / (watts + overhead) or last_pue
  e.kwh_per_step = facility * e.devices * step / 3.6e6
  e.co2_kg_per_step = grams * e.devices * step / 3.6e9
  local to_kwh = e.devices * step / 3.6e6
  add_range(e, waiting * to_kwh, less * to_kwh, more * to_kwh)
end

return energy
