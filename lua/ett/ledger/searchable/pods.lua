--- The notebook's budget on pods, searched; see ett.ledger.pods for the model.
local ledger = require "ett.ledger"
local pods = require "ett.ledger.pods"

local searchable = { parameters = pods.parameters, bandwidth = "device_network",
  -- Quantities and factors of the sensitivities.
  sensitivities = { { "device_network", 1.1 }, { "device_memory", 1.1 }, { "device_flops", 1.1 },
    { "batch_scale", 2 }, { "devices", 1.1 } } }

function searchable.describe(_, o)
  local r = pods.describe(o)
  r.limits = { ledger.le(o.pp, o.microbatches), ledger.le(o.pp, r.shape.L), ledger.le(r.used, o.devices * (1 + 1e-9)) }
  return r
end

--- options.real: fractions allowed (the notebook's relaxation, with tp_residual 1).
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
