--- One run of `ett transformer`: parameters from options, violated rules, costs, rates and time on a cluster.
local error_module = require "ett.base.error"
local ledger = require "ett.ledger"
local merged = require "ett.base.merged"
local transformer = require "ett.ledger.transformer"
local violations = require "ett.ledger.violations"

local run_module = {}

local function is_multiple(value, of) return of ~= 0 and value % of == 0 end

--- The ledger's parameters from the options, and the rules that they violate.
local function parameters(o)
  local broken, m = {}, {}
  local function refuse(...) broken[#broken + 1] = { text = select("#", ...) > 1 and string.format(...) or ... } end
  for name in pairs(transformer.parameters) do m[name] = o[name] and o[name] + 0.0 end
  for _, name in ipairs { "use_glu", "no_multi_query_attn", "consecutive_attn_and_ffn", "activation_checkpointing",
    "fwd_only" } do m[name] = o[name] end
  if o.d_ffn and o.d_ffn_ratio then refuse("d_ffn and d_ffn_ratio exclude each other; give one") end
  m.d_ffn = m.d_ffn or m.d_model * (o.d_ffn_ratio or 4)
  if o.num_heads and o.total_attn_width_ratio then
    refuse("num_heads and total_attn_width_ratio exclude each other; give one")
  elseif not o.num_heads then
    local width = m.d_model * (o.total_attn_width_ratio or 1)
    if not is_multiple(width, m.d_head) then
      local nearest = violations.nearest_divisors(width, m.d_head)
      refuse("d_model%s = %s must be divisible by d_head = %s%s", o.total_attn_width_ratio and
        " x total_attn_width_ratio" or "", violations.show(width), violations.show(m.d_head),
        #nearest > 0 and ("; nearest passing d_head: %s"):format(table.concat(nearest, " or "):gsub("%.0", "")) or "")
    end
  end
  m.num_heads = m.num_heads or m.d_model * (o.total_attn_width_ratio or 1) / m.d_head
  for _, name in ipairs { "batch_size", "seq_len", "num_experts", "num_layers" } do
    if m[name] < 1 then refuse("%s must be at least 1, got %s", name, violations.show(m[name])) end
  end
  return m, broken
end

--- Efficient microbatch sizes: those from run.least to run.most that divide the batch.
local function microbatch_sizes(m, run)
  local sizes = {}
  for size = run.least, run.most, m.p_data do
    if m.batch_size % size == 0 then sizes[#sizes + 1] = math.tointeger(size) end
  end
  return sizes
end

--- Time with traffic on a cluster's links, with one rank on each device. `samples`: of a replica's microbatch. `times`:
--- factors of the rates network, memory and flops.
local function timed(L, m, o, run, samples, times)
  times = times or {}
  local chip = require("ett.ledger.links").chip(o.cluster)
  local layers = run.batches * m.num_layers / m.p_pipe
  local function link(of) return merged(of, { bytes_per_second = of.bytes_per_second * (times.network or 1) }) end
  local seconds = require("ett.ledger.timing").of(L, {
    flops = (o.cluster_flop_rate or chip.flops / 2) * (times.flops or 1),
    utilization = o.cluster_flop_rate and 1 or o.utilization,
    bytes = o.net_precision_bytes, memory = chip.memory * (times.memory or 1),
    links = { intra = link(chip.intra or chip.inter), inter = link(chip.inter or chip.intra) },
    node_chips = chip.node_chips, overlap = o.overlap, forward_only = m.fwd_only,
    checkpointing = m.activation_checkpointing,
    operations = { weights = layers, tokens = layers * m.batch_size / (m.p_data * samples) } })
  seconds.memory_bytes = transformer.memory(m, run, { bytes = o.net_precision_bytes, gradient_bytes =
    o.net_precision_bytes, optimizer_bytes = o.optimizer_bytes, samples = samples, gpipe = o.schedule == "gpipe" })
  seconds.memory_microbatch_samples, seconds.memory_capacity_bytes = samples, chip.capacity
  return seconds
end

--- The effect of increasing each quantity on the time with traffic: a list of { name, factor, run_time_change }. `base`
--- is the unchanged time; run_time_change is a fraction. A replica's microbatch stays the same.
function run_module.sensitivities(m, o, base)
  local rows = {}
  for _, change in ipairs { { "network", 1.1 }, { "memory", 1.1 }, { "flops", 1.1 }, { "batch_size", 2 },
    { "p_data", 2 } } do
    local name, factor = change[1], change[2]
    local changed, L = setmetatable({}, { __index = m }), ledger.new()
    if m[name] then changed[name] = m[name] * factor end
    local run = transformer.describe(L, changed)
    if #violations.list(L) == 0 then
      local time = timed(L, changed, o, run, base.memory_microbatch_samples, { [name] = factor })
      rows[#rows + 1] = { name = name, factor = factor, run_time_change = time.seconds / base.seconds - 1 }
    end
  end
  return rows
end

--- Describes the run. Separates violated rules that prevent printing numbers from the others.
local function described(o)
  local m, broken = parameters(o)
  local L, late = ledger.new(), {}
  local run = transformer.describe(L, m, { efficiency = not o.skip_efficiency_check })
  local early_stages = { parameters = true, efficiency = true, dimensions = true, weights = true }
  for _, violation in ipairs(violations.list(L, #broken > 0)) do
    if violation.stage == "efficiency" then violation.text = violation.text .. transformer.nearest(violation, m) end
    table.insert(early_stages[violation.stage] and broken or late, violation)
  end
  local sizes
  if #broken == 0 and not o.skip_efficiency_check then
    sizes = microbatch_sizes(m, run)
    if #sizes == 0 then
      local nearest = transformer.nearest_batches(m, run.least)
      broken[1] = { text = ("no multiple of p_data = %d from %d to %d divides batch_size = %d: no efficient microbatch "
        .. "size%s"):format(m.p_data, run.least, run.most, m.batch_size, #nearest > 0 and
        "; nearest passing batch_size: " .. table.concat(nearest, " or ") or "") }
    end
  end
  if #broken > 0 then
    table.move(late, 1, #late, #broken + 1, broken)
    error_module.raise("limit", "transformer: %s", violations.message(broken))
  end
  return L, m, run, sizes, late
end

--- FLOP/s, bytes/s and seconds of the run at a rank's FLOP/s; nil without a rate or without FLOP.
local function rates_of(L, o, costs)
  local flop = o.cluster_flop_rate
  if not flop or costs.FLOP.total == 0 then return nil end
  local rates = { flop = flop, clusters = L:clusters(), seconds = costs.FLOP.total / (L:clusters() * flop) }
  if rates.seconds == math.huge then
    error_module.raise("limit", "transformer: at %g FLOP/s the run never ends; raise cluster_flop_rate", flop)
  end
  for _, name in ipairs { "net", "Tx", "Rx" } do
    rates[name] = o.net_precision_bytes * costs[name].total / costs.FLOP.total * flop
  end
  return rates
end

--- The run of options `o` (declared in cli/commands/transformer.lua). Raises if an input violates a rule.
---@return table { L, m (parameters), run, sizes (efficient microbatch sizes), late (rules violated while metering),
--- costs, rates (nil without cluster_flop_rate), time (nil without cluster) }
function run_module.new(o)
  local L, m, run, sizes, late = described(o)
  local costs = transformer.costs(L, m)
  for _, name in ipairs { "FLOP", "Tx", "Rx" } do
    local total = costs[name].total
    if total - total ~= 0 then
      error_module.raise("limit", "transformer: the count of %s is not finite (%g); lower dataset_size or sizes", name,
        total)
    end
  end
  return { L = L, m = m, run = run, sizes = sizes, late = late, costs = costs, rates = rates_of(L, o, costs),
    time = o.cluster and #late == 0 and timed(L, m, o, run, sizes and sizes[1] / m.p_data or 1) or nil }
end

return run_module
