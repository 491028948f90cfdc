--- The corrected simple transformer as a searchable model. Variables: pp, interleaving, dp, tp, tp2, microbatch size
--- and recompute. Limits: the rules of the model and the chip's memory.
local divisors = require "ett.base.divisors"
local error_module = require "ett.base.error"
local ledger = require "ett.ledger"
local merged = require "ett.base.merged"
local simple = require "ett.ledger.simple_transformer"

local searchable = {
  parameters = merged({ devices = 256, dataset_size = 0, chip_dollars_per_hour = 3 }, simple.parameters,
    simple.corrections),
  bandwidth = "chip_network", price = "chip_dollars_per_hour",
  kinds = { base_utilization = { "positive", most = 1 }, overlap = "fraction", memory_reserve = "fraction",
    zero = { "natural", most = 3 }, gpipe = { "natural", most = 1 }, optimizer_bytes = "nonnegative",
    chip_dollars_per_hour = "nonnegative" },
  -- Quantities and factors of the sensitivities. The batch must remain divisible.
  sensitivities = { { "chip_network", 1.1 }, { "node_network", 1.1 }, { "chip_memory", 1.1 }, { "chip_flops", 1.1 },
    { "batch_size", 2 }, { "devices", 2 } } }

--- Lower bounds of a batch's time (seconds times chips) and of a chip's memory (bytes). They are the corrected model's
--- terms, multiplied out, so that each degree appears once per term, or always in the same direction. This makes
--- interval bounds tight. Both omit the separate exchange of experts and all rounding-down, so both are at most the
--- model's values.
local function least(o, r)
  local max, select, lt = ledger.max, ledger.select, ledger.lt
  local bytes, experts, m = o.precision_bits / 8, o.n_experts, o.microbatch_size
  local layers, tokens = o.n_layers * o.batch_size, o.seq_len * o.n_routed_experts
  local matmuls, passes = 6 + select(o.recompute, 2, 0), 2 + select(o.recompute, 1, 0)
  local chips = o.pp * o.dp * o.tp * o.tp2 * experts
  local compute = (matmuls / 6) * r.flop_batch / (o.base_utilization * r.peak)
  local memory = matmuls * bytes / (o.base_utilization * o.chip_memory) * layers
    * (r.d_int * o.d_model * experts * o.dp / m + o.d_model * tokens * o.tp + r.d_int * tokens * o.tp2)
  local busy = max(compute, memory)
  -- layers x dp x tp x tp2 x experts / m: number of runs of a layer, times chips
  local rate_int, latency_int = simple.link(o, o.tp2)
  local rate_ext, latency_ext = simple.link(o, o.tp * o.tp2 * select(lt(1, o.n_routed_experts), experts, 1))
  local ext = o.tp * o.n_routed_experts -- chips that sum the outer activations
  local inner = passes * layers * (4 * bytes * (r.d_int * tokens * (o.tp2 - 1) / rate_int
    + o.d_model * o.seq_len * (ext - 1) / rate_ext)
    + 2 * (latency_int * (o.tp2 - 1) + latency_ext * (ext - 1)) * o.dp * o.tp * o.tp2 * experts / m)
  local rate_pp, latency_pp = simple.link(o, o.pp * o.tp * o.tp2 * experts)
  local crossing = select(lt(1, o.pp), 2 * o.batch_size * o.pipeline_interleaving
    * (2 * bytes * o.seq_len * o.d_model * o.pp / rate_pp + 2 * latency_pp * chips / m), 0)
  local waiting = (o.pp - 1) * m / (o.pipeline_interleaving * o.batch_size)
  local rate_dp, latency_dp = simple.link(o, chips)
  local gradient = select(lt(1, o.dp), max(2 * r.P * o.dp * o.gradient_bytes / o.chip_memory,
    4 * r.P * o.gradient_bytes * (o.dp - 1) / rate_dp + 2 * latency_dp * (o.dp - 1) * chips), 0)
  local optimizer = r.P * select(lt(0, o.zero), 1, o.dp)
    * (2 * o.optimizer_bytes + o.gradient_bytes + bytes) / o.chip_memory
  local kept = o.d_model + select(o.recompute, 0, 2 * r.d_int)
  local activations = o.n_layers * bytes * tokens / experts * kept * ledger.min(m, o.batch_size / o.pp)
    / (o.dp * o.tp * o.tp2)
  local held = r.P * (bytes / select(lt(2, o.zero), o.dp, 1) + o.gradient_bytes / select(lt(1, o.zero), o.dp, 1)
    + o.optimizer_bytes / select(lt(0, o.zero), o.dp, 1)) / (o.pp * o.tp * o.tp2 * experts)
  return (max(busy, inner + crossing) + waiting * max(busy, inner) + gradient + optimizer) * (1 - 1e-9),
    (held + activations) * (1 - 1e-9)
end

function searchable.describe(L, o)
  local given = merged(o)
  given.dataset_size = ledger.select(ledger.lt(0, o.dataset_size), o.dataset_size,
    20 * o.n_experts * 2 * o.n_layers * o.d_model * o.d_internal_ratio * o.d_model)
  local r = simple.describe(L, given, "corrected")
  r.used = r.chips
  -- The same value in a form with tight bounds over a box of layouts.
  local chip_seconds, memory = least(given, r)
  chip_seconds = chip_seconds * r.batches
  r.seconds = ledger.max(r.seconds, chip_seconds / ledger.min(r.chips, o.devices))
  r.days = r.seconds / 86400
  r.dollars = ledger.max(r.seconds * r.chips, chip_seconds) / 3600 * o.chip_dollars_per_hour
  r.memory_bytes = r.memory.total
  r.limits = { ledger.le(r.memory.total, r.memory_limit), ledger.le(r.chips, o.devices),
    ledger.le(memory, r.memory_limit), ledger.le(o.pp * o.pipeline_interleaving, o.n_layers),
    ledger.le(o.dp * o.n_experts, o.microbatch_size * o.seq_len * o.n_routed_experts) }
  for _, check in ipairs(L:checks()) do r.limits[#r.limits + 1] = check.ok end
  return r
end

--- Limit of the product of the degrees: each expert has its own chips.
function searchable.product(o) return o.devices / o.n_experts end

function searchable.choices() return { { recompute = 0 }, { recompute = 1 } } end

function searchable.variables(o)
  local devices = math.max(1, o.devices // o.n_experts)
  local function values(what, n, most)
    if not math.tointeger(n) or n < 1 or n > 1e15 then
      error_module.raise("argument", "optimize: %s must be a whole number from 1 to 1e15, got %g", what, n)
    end
    return divisors(n, most)
  end
  return {
    pp = { values = values("n_layers", o.n_layers, devices), factor = true },
    dp = { values = values("batch_size * seq_len", 1.0 * o.batch_size * o.seq_len, devices), factor = true },
    tp = { values = values("d_model * d_internal_ratio", 1.0 * o.d_model * o.d_internal_ratio, devices),
      factor = true },
    tp2 = { values = values("d_model", o.d_model, devices), factor = true },
    microbatch_size = { values = values("batch_size", o.batch_size) },
    pipeline_interleaving = { values = values("n_layers", o.n_layers) },
  }
end

return searchable
