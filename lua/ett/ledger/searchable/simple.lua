--- The corrected simple transformer, searched: pp, interleaving, dp, tp, tp2, microbatch size,
--- and the choice of recompute, under the rules of the model and the chip's memory.
local ledger = require "ett.ledger"
local simple = require "ett.ledger.simple_transformer"

local searchable = { parameters = { devices = 256, dataset_size = 0, chip_dollars_per_hour = 3 },
  bandwidth = "chip_network",
  -- What a sensitivity multiplies, and by how much: a batch must stay divisible.
  sensitivities = { { "chip_network", 1.1 }, { "node_network", 1.1 }, { "chip_memory", 1.1 }, { "chip_flops", 1.1 },
    { "batch_size", 2 }, { "devices", 2 } } }
for _, set in ipairs { simple.parameters, simple.corrections } do
  for name, value in pairs(set) do searchable.parameters[name] = value end
end

function searchable.describe(L, o)
  local given = {}
  for name, value in pairs(o) do given[name] = value end
  given.dataset_size = ledger.select(ledger.lt(0, o.dataset_size), o.dataset_size,
    20 * o.n_experts * 2 * o.n_layers * o.d_model * o.d_internal_ratio * o.d_model)
  local r = simple.describe(L, given, "corrected")
  r.used = r.chips
  -- No layout beats all devices at full matmul speed. Said once for the whole box, this makes
  -- interval bounds tight where degrees trade against each other; it changes no value.
  local matmuls = 1 + ledger.select(o.recompute, 1 / 3, 0)
  local least = matmuls * r.flop * (1 - 1e-9) / (o.devices * r.peak * o.base_utilization)
  r.seconds = ledger.max(r.seconds, least)
  r.days = r.seconds / 86400
  r.dollars = r.seconds / 3600 * r.chips * o.chip_dollars_per_hour
  r.memory_bytes = r.memory.total
  r.limits = { ledger.le(r.memory.total, r.memory_limit), ledger.le(r.chips, o.devices) }
  for _, check in ipairs(L:checks()) do r.limits[#r.limits + 1] = check.ok end
  return r
end

local function divisors(n, most)
  local list = {}
  n = math.tointeger(n)
  for k = 1, math.min(n, most) do
    if n % k == 0 then list[#list + 1] = k end
  end
  return list
end

function searchable.choices()
  return { { recompute = 0 }, { recompute = 1 } }
end

function searchable.variables(o)
  local devices = math.max(1, o.devices // o.n_experts)
  local inner = math.tointeger(o.d_model * o.d_internal_ratio)
  return {
    pp = { values = divisors(o.n_layers, devices), factor = true },
    dp = { values = divisors(o.batch_size * o.seq_len, devices), factor = true },
    tp = { values = divisors(inner, devices), factor = true },
    tp2 = { values = divisors(o.d_model, devices), factor = true },
    microbatch_size = { values = divisors(o.batch_size, o.batch_size) },
    pipeline_interleaving = { values = divisors(o.n_layers, o.n_layers) },
  }
end

return searchable
