--- The notebook's budget on pods as a searchable model; see ett.ledger.pods.
local ledger = require "ett.ledger"
local pods = require "ett.ledger.pods"

local searchable = { parameters = pods.parameters, bandwidth = "device_network",
  price = "device_dollars_per_hour",
  kinds = { utilization = { "positive", most = 1 }, device_dollars_per_hour = "nonnegative" },
  -- Quantities and factors of the sensitivities.
  sensitivities = { { "device_network", 1.1 }, { "device_memory", 1.1 }, { "device_flops", 1.1 },
    { "batch_scale", 2 }, { "devices", 1.1 } } }

--- The unit that the model counts as a device. The content of a pod is unknown if its rates are given.
function searchable.unit(fixed)
  for _, name in ipairs { "device_flops", "device_memory" } do
    if fixed[name] and fixed[name] ~= pods.parameters[name] then return { name = "pods" } end
  end
  return { name = "pods", devices = pods.devices, device = pods.device }
end

--- A lower bound of a batch's seconds times devices: its phases, multiplied out. Each degree then appears once per
--- term, or nearly always in the same direction. If one resource limits all phases, pp nearly cancels. This makes
--- interval bounds of the dollars tight.
local function device_seconds(o, shape)
  local L, d, B, n, max = shape.L, shape.d, shape.B, o.microbatches, ledger.max
  local layer = o.hidden_factor * d * d * o.bytes
  local flop = 6 * layer * B / (o.utilization * o.device_flops)
  local memory = 2 * layer / (o.utilization * o.device_memory) * (o.dp - 1) -- of gradients
  local net = 2 * layer / o.device_network * (o.dp - 1)
  local weights = 4 * layer / (o.utilization * o.device_memory) * o.dp
  local words = 2 * d * (o.hidden_factor * (o.tp_residual - 1) + (o.tp_hidden - 1)) * B * o.bytes / o.device_network
  local phases = o.pp * max(flop / n, max(weights + memory, words / n + net))
    + (2 * L - o.pp) * max(flop, max(n * weights + memory, words + net))
    + o.pp * (n + 2 * o.pp - 3) * max(flop / n, max(weights, words / n))
  return max(phases, max(flop, words) * (2 * L + 2 * o.pp * (o.pp - 1) / n)) * (1 - 1e-9)
end

function searchable.describe(_, o)
  local r = pods.describe(o)
  local least = device_seconds(o, r.shape) * r.shape.D / r.shape.B
  r.dollars = ledger.max(r.dollars, least / 3600 * o.device_dollars_per_hour)
  r.days = ledger.max(r.days, least / 86400 / o.devices)
  r.limits = { ledger.le(o.pp, o.microbatches), ledger.le(o.pp, r.shape.L), ledger.le(r.used, o.devices * (1 + 1e-9)) }
  return r
end

--- options.real: allows fractions (the notebook's relaxation, with tp_residual 1).
function searchable.variables(o, options)
  local layers = ledger.value(pods.shape(o).L)
  local real = options and options.real or false
  local function degree(high)
    return { low = 1, high = math.max(1, math.min(high, o.devices)), factor = true, real = real }
  end
  return {
    pp = degree(layers), dp = degree(o.devices), tp_hidden = degree(256), tp_residual = degree(real and 1 or 256),
    microbatches = { low = 1, high = 2 ^ 20, real = real },
  }
end

return searchable
