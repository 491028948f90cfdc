--- Kernel models of a device without a table: its own analytic times, times the geometric mean of its neighbours'
--- trees.
--
-- Two devices of equal energy per FLOP can have different power limits relative to their peak rates. The device with
-- less power is slower by the ratio of the rates that their power allows. Chips of different generations sustain
-- different shares of their peak rates: products of MI300X reach 51 %, products of H200 80 %. If both rates are
-- measured, the arithmetic share of a time is scaled by the ratio of these shares, else by the ratio of the power
-- limits.
--
-- A power limit slows only products that need more power. On a device with less power than its neighbour, a product
-- takes the smooth maximum of two times: its time without a limit, and the energy of its FLOPs over the watts.
--
-- The part of a time above the analytic time is spent neither in tensor cores nor on memory. Within a generation it
-- does not follow their rates; it follows the square root of the instruction rate. The exponent 0.5 had a smaller error
-- on left-out devices than 0 and 1.
local transfer = {}

local abs, exp, log, max, min, sqrt = math.abs, math.exp, math.log, math.max, math.min, math.sqrt

-- Half-widths that a transfer adds to the 90 % interval of the logarithm of the time. In this order: from a device
-- whose multiprocessors have the same rate; from any other device; for fp8_block, whose kernels are written for one
-- architecture; from another vendor. If devices are left out in turn, 90 % of their rows are inside (`ett bench
-- kernels`). Fitted without one device at a time, the first three are 0.09 to 0.10, 0.28 to 0.29 and 0.42 to 0.55. The
-- last is fitted to MI355X alone.
local chip_spread, other_spread, block_spread, vendor_spread = 0.1, 0.3, 0.6, 0.6

-- The same for TPUs with a measured rate of the data type. 23 of 25 published products are inside; the other two
-- have 64 columns. Fifteen are of v7x from ultrons/jax-gpt, and five from accelerator-microbenchmarks at the default
-- clock. Four are of v6e, one is of v5e.
local tpu_spread = 0.2

-- Largest factor between the prediction and each end of its interval, because trees give no bound far from all rows.
local widest = 3.0

--- The predicted ratio of the trees, and the bounds of its interval.
---@param wider number? exponent of the factor between the ratio and each bound
function transfer.bounded(answer, wider)
  local value, low, high = answer.value, answer.low, answer.high
  if wider then low, high = value * (low / value) ^ wider, value * (high / value) ^ wider end
  return value, max(low, value / widest), min(high, value * widest)
end

-- Seconds of a kernel at x, and the bounds of the interval. If the model names two inputs beside x, the times lie on
-- the line between theirs.
local function between(kernel, x)
  local lower, upper, place
  if kernel.model.between then lower, upper, place = kernel.model.between(kernel.device, x) end
  if not lower then return kernel:at(x) end
  local seconds, low, high = kernel:at(lower)
  local seconds_above, low_above, high_above = kernel:at(upper)
  return seconds + place * (seconds_above - seconds), low + place * (low_above - low),
    high + place * (high_above - high)
end

--- Seconds of one run, and the bounds of the 90 % interval. The model may name larger inputs whose kernels can compute
--- x; the least time counts. A library may not use these kernels, so the upper bound is that of x.
---@param kernel table with model, device, dtype and at
function transfer.predict(kernel, x)
  local seconds, low, high = between(kernel, x)
  local padded = kernel.model.padded
  for _, larger in ipairs(padded and padded(kernel.device, kernel.dtype, x) or {}) do
    local other, other_low = between(kernel, larger)
    if other < seconds then seconds, low = other, min(low, other_low) end
  end
  return seconds, low, high
end

local Transferred = { __name = "ett.kernel" }
Transferred.__index = Transferred

--- Share of the peak rate that the power limit allows, or nil if the device file states no energy.
function transfer.allowed(device, dtype)
  local joules = (dtype == "bf16" or dtype == "fp16") and device.product_joules
  return joules and device.power_watts and min(1.0, device.power_watts / (joules * device:peak(dtype))) or nil
end

-- Share of the peak rate that large products of a data type sustain, or nil if it was not measured.
local function sustained(device, dtype)
  local measured = (device.measured_flops or {})[dtype]
  return measured and measured / device:peak(dtype) or nil
end

-- The share of `other` divided by the share of `device`; nil if one of them is unknown.
local function ratio_of(share, device, other, dtype)
  local here, there = share(device, dtype), share(other, dtype)
  return here and there and there / here
end

-- Products of each generation sustain a share of the peak rate. The ratio of two such shares, for the data type, else
-- for bf16.
local function measured_ratio(device, other, dtype)
  if device.generation == other.generation then return nil end
  return ratio_of(sustained, device, other, dtype) or ratio_of(sustained, device, other, "bf16")
end

-- Logarithm of the time of arithmetic on `device` over its time on `other`. It follows from the shares of the peak
-- rates that products of both devices sustain, else from the shares that the power limits allow. Within a generation it
-- always follows from the power limits.
local function slower(device, other, dtype)
  return log(measured_ratio(device, other, dtype) or ratio_of(transfer.allowed, device, other, dtype) or 1.0)
end

-- Exponent of a smooth maximum: of the time, and of energy divided by watts. Of 2, 3, 4 and 6, this value had the
-- smallest error for L40S, transferred from RTX PRO 6000. It was tested with five published products of L4
-- (torch-performance-test-data#120), which no table contains; one of them gives L4's energy per FLOP.
local edge = 3

-- Shares of the peak rates that both power limits allow. nil unless the device has the smaller share and no ratio of
-- measured rates replaces it (`slower`).
local function limited(device, other, dtype)
  local here, there = transfer.allowed(device, dtype), transfer.allowed(other, dtype)
  if not (here and there and here < there) or measured_ratio(device, other, dtype) then return nil end
  return { here = here, there = there, other = other }
end

-- Seconds in which a device computes FLOPs at its power limit.
local function at_limit(device, flops) return flops * device.product_joules / device.power_watts end

-- Factor on a ratio to the analytic time, from the power limits of both devices. Without its power limit, the neighbour
-- would take at least the share `there` of its time.
local function slowed(device, limit, model, dtype, x, analytic, ratio, scaled_ratio)
  local flops, other = model.flops(x), limit.other
  local there = at_limit(other, flops) / (model.analyse(other, dtype, x))
  local free = max(max(0.0, 1 - (there / ratio) ^ edge) ^ (1 / edge), limit.there)
  local without = free * scaled_ratio
  local here = (without ^ edge + (at_limit(device, flops) / analytic) ^ edge) ^ (1 / edge)
  return min(here, without / limit.here) / scaled_ratio
end

-- Whether multiprocessors of both devices have the same rate for a data type, apart from their clocks (30 %).
local function same_rate(device, other, dtype)
  local function rate(of) return (of:peak(dtype) or 0.0) / (of.multiprocessors or 1) end
  local here, there = rate(device), rate(other)
  return device.generation == other.generation and (here == there or abs(log(here / there)) < log(1.3))
end

--- Whether two devices have the same chip, with other clocks, memory or number of multiprocessors. B200 and B300 do
--- not: B300 computes nvfp4 faster.
function transfer.same_chip(device, other)
  return same_rate(device, other, "bf16") and same_rate(device, other, "fp8") and same_rate(device, other, "nvfp4")
end

local function spread(device, other, dtype)
  if same_rate(device, other, dtype) then return chip_spread end
  if device.generation == "tpu" and sustained(device, dtype) and not (device.measured_source or ""):find "^assumed" then
    return tpu_spread
  end
  return device.vendor ~= other.vendor and vendor_spread or dtype == "fp8_block" and block_spread or other_spread
end

-- Logarithms of two factors, for arithmetic and for memory: they turn a ratio of analytic times into the ratio of the
-- parts of a time above the analytic time.
local function beyond(device, other, dtype)
  local issued = 0.5 * log(other:cycles() / device:cycles())
  return { log(device:peak(dtype) / other:peak(dtype)) + issued,
    log(device.memory_bandwidth / other.memory_bandwidth) + issued }
end

-- The ratio of a time to the analytic time, with the part above 1 scaled.
local function scaled(ratio, factor) return ratio > 1 and 1 + (ratio - 1) * factor or ratio end

--- The kernel of a device, transferred from kernels of other devices.
---@param device ett.Device
---@param kernels table[] at least one ett.Kernel, of one model and data type
---@return table kernel { model, device, dtype, from, sustained (whether its times follow from the rate that products of
---  this device sustain), predict }
function transfer.new(device, kernels)
  local parts, names, added, dtype = {}, {}, 0.0, kernels[1].dtype
  for i, kernel in ipairs(kernels) do
    local other = kernel.device
    parts[i] = { trees = kernel.trees, wider = kernel.wider, slower = slower(device, other, dtype),
      limit = kernel.model.arithmetic_share and limited(device, other, dtype),
      beyond = device.generation == other.generation and beyond(device, other, dtype) }
    names[i], added = other.key, max(added, spread(device, other, dtype))
  end
  return setmetatable({ model = kernels[1].model, device = device, dtype = dtype, parts = parts,
    from = table.concat(names, ", "), added = added, about = kernels[1].about,
    sustained = measured_ratio(device, kernels[1].device, dtype) ~= nil }, Transferred)
end

--- Seconds of one run, and the bounds of the 90 % interval.
---@param x table the model's inputs
---@return number seconds, number low, number high
function Transferred:predict(x) return transfer.predict(self, x) end

function Transferred:at(x)
  local model, parts = self.model, self.parts
  local analytic, features = model.analyse(self.device, self.dtype, x)
  local share = model.arithmetic_share and model.arithmetic_share(analytic, features) or 0.0
  local computing = 1 / (1 + exp(-features[model.balance]))
  local value, low, high = 0.0, 0.0, 0.0
  for _, part in ipairs(parts) do
    local ratio, least, most = transfer.bounded(part.trees:predict(features), part.wider)
    local factor = part.beyond and exp(computing * part.beyond[1] + (1 - computing) * part.beyond[2]) or 1.0
    local own = scaled(ratio, factor)
    local later = part.limit and log(slowed(self.device, part.limit, model, self.dtype, x, analytic, ratio, own))
      or part.slower * share
    -- Without the neighbour's power limit, a product still takes its analytic time.
    if later < 0 and part.beyond then later = max(later, min(0.0, -log(own))) end
    value = value + log(own) + later
    low, high = low + log(scaled(least, factor)) + later, high + log(scaled(most, factor)) + later
  end
  local count = #parts
  value, low, high = value / count, low / count, high / count
  return analytic * exp(value), analytic * exp(value - sqrt((value - low) ^ 2 + self.added ^ 2)),
    analytic * exp(value + sqrt((high - value) ^ 2 + self.added ^ 2))
end

return transfer
