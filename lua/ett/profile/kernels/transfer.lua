--- Kernel models of a device without a table: its own analytic times, times the geometric mean of its neighbours'
--- trees.
--
-- Two devices of equal energy per FLOP can have different power limits relative to their peak rates. The device with
-- less power is slower by the ratio of the rates that their power allows. Chips of different generations sustain
-- different shares of their peak rates: products of MI300X reach 51 %, of H200 80 %. Where both rates are measured, the
-- arithmetic share of a time is scaled by the ratio of these shares, else by that of the power limits.
local transfer = {}

local exp, log, min = math.exp, math.log, math.min

-- Factors that widen the interval: neighbours of the same generation, and of others. With these factors the interval
-- covers 90 % of the rows of held-out devices (`ett bench kernels`).
local wider_within, wider_across = 1.07, 1.24

-- Largest factor between the prediction and each end of its interval: far from all rows the trees give no bound.
local widest = 3.0

--- The predicted ratio of the trees, and the bounds of its interval.
function transfer.bounded(answer)
  local value = answer.value
  return value, math.max(answer.low, value / widest), min(answer.high, value * widest)
end

local Transferred = { __name = "ett.kernel" }
Transferred.__index = Transferred

-- Share of the peak rate that the power limit allows, or nil if the device file states no energy.
local function allowed(device, dtype)
  local joules = (dtype == "bf16" or dtype == "fp16") and device.product_joules
  return joules and device.power_watts and min(1.0, device.power_watts / (joules * device:peak(dtype))) or nil
end

-- Share of the peak rate that large products sustain: of the data type, else of bf16; nil if it was not measured.
local function sustained(device, dtype)
  local measured = device.measured_flops or {}
  local of = measured[dtype] and dtype or "bf16"
  return measured[of] and measured[of] / device:peak(of) or nil
end

-- Logarithm of the time of arithmetic on `device` over its time on `other`, by the shares of their peak rates: those
-- that products of both sustain, else those that the power limits of both allow. Within a generation the power limits
-- decide.
local function slower(device, other, dtype)
  local function ratio(share)
    local here, there = share(device, dtype), share(other, dtype)
    return here and there and log(there / here)
  end
  return device.generation ~= other.generation and ratio(sustained) or ratio(allowed) or 0.0
end

--- The kernel of a device, transferred from kernels of other devices.
---@param device ett.Device
---@param kernels table[] at least one ett.Kernel, of one model and data type
---@return table kernel { model, device, dtype, from, predict }
function transfer.new(device, kernels)
  local parts, names, wider = {}, {}, wider_within
  for i, kernel in ipairs(kernels) do
    parts[i] = { trees = kernel.trees, slower = slower(device, kernel.device, kernel.dtype) }
    names[i] = kernel.device.key
    if kernel.device.generation ~= device.generation then wider = wider_across end
  end
  return setmetatable({ model = kernels[1].model, device = device, dtype = kernels[1].dtype, parts = parts,
    from = table.concat(names, ", "), wider = wider, about = kernels[1].about }, Transferred)
end

--- Seconds of one run, and the bounds of the 90 % interval.
---@param x table the model's inputs
---@return number seconds, number low, number high
function Transferred:predict(x)
  local model, parts = self.model, self.parts
  local analytic, features = model.analyse(self.device, self.dtype, x)
  local share = model.arithmetic_share and model.arithmetic_share(analytic, features) or 0.0
  local value, low, high = 0.0, 0.0, 0.0
  for _, part in ipairs(parts) do
    local ratio, least, most = transfer.bounded(part.trees:predict(features))
    local later = part.slower * share
    value, low, high = value + log(ratio) + later, low + log(least) + later, high + log(most) + later
  end
  local count = #parts
  return analytic * exp(value / count), analytic * exp(low / count) / self.wider,
    analytic * exp(high / count) * self.wider
end

return transfer
