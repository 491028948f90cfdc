--- One batch of a feed-forward-only transformer in time: `ett simple-transformer`.
--
-- L layers of two matrices d x d_int, e experts of which k take each token, b samples of l
-- tokens a batch, m a microbatch over all replicas, q bits, v pipeline passes (interleaving);
-- degrees pp, dp, tp (over d_int), tp2 (over d), and e for the experts: p chips.
-- Three versions of the model:
--   "readme", "head"  the two public versions, exactly
--   "corrected"       traffic and memory traffic take their time in every phase, at their
--                     precision, with ring factors, latency, overlap and a link per axis;
--                     optimizer and memory per chip included
-- Everything is an expression, so that a run can be compiled and searched.
local ledger = require "ett.ledger"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"
local timing = require "ett.ledger.timing"
local max, floor, select, lt, eq = ledger.max, ledger.floor, ledger.select, ledger.lt, ledger.eq

local simple = {}

--- Chips: 8-bit FLOP/s, memory and network bytes/s, memory bytes. Source of the rates: the public ml_par_sim programs;
--- memory sizes: vendors' datasheets. A "pod" is 64 chips used as one; the two versions differ in its network rate.
local chips = {
  { name = "H100", flops = 1979e12, memory = 3.35e12, network = 900e9, capacity = 80e9 },
  { name = "A100_40GB", flops = 624e12, memory = 1555e9, network = 600e9, capacity = 40e9 },
  { name = "H100_x64_pod", flops = 64 * 1979e12, memory = 64 * 3.35e12, network = 1e9, capacity = 64 * 80e9,
    readme_network = 12.5e9 },
  { name = "RTX4090", flops = 165.16e12, memory = 1008e9, network = 10e9, capacity = 24e9, head_only = true },
}
local h100 = chips[1]

simple.parameters = {
  precision_bits = 8, n_layers = 96, d_model = 12288, d_internal_ratio = 5, n_experts = 1, n_routed_experts = 1,
  batch_size = 2048, microbatch_size = 1, seq_len = 2048, base_utilization = 0.6,
  pp = 1, pipeline_interleaving = 1, dp = 1, tp = 1, tp2 = 1,
  chip_flops = h100.flops, chip_memory = h100.memory, chip_network = h100.network, chip_capacity = h100.capacity,
}
--- Parameters of the corrected version only.
simple.corrections = { overlap = 1, latency_seconds = 0, node_chips = 1, node_network = h100.network,
  node_latency_seconds = 0, gradient_bytes = 2, optimizer_bytes = 12, zero = 0, recompute = 0, gpipe = 0,
  memory_reserve = 0.1 }

--- Records the rules of a run as checks of ledger L.
local function check(L, o)
  local function divides(left_name, left, right_name, right)
    L:check("divides", left_name, left, right_name, right)
  end
  for _, name in ipairs { "batch_size", "microbatch_size", "seq_len", "n_routed_experts", "pp", "dp", "tp", "tp2",
    "pipeline_interleaving", "precision_bits", "n_layers", "d_model" } do L:check("at_least", name, o[name], "1", 1) end
  divides("n_experts", o.n_experts, "n_routed_experts", o.n_routed_experts)
  divides("batch_size", o.batch_size, "microbatch_size", o.microbatch_size)
  divides("microbatch_size x seq_len x n_routed_experts", o.microbatch_size * o.seq_len * o.n_routed_experts,
    "dp x n_experts", o.dp * o.n_experts)
  divides("n_layers", o.n_layers, "pp x pipeline_interleaving", o.pp * o.pipeline_interleaving)
  L:check("at_least", "pp (an interleaved pipeline needs two stages)", o.pp, "2 when pipeline_interleaving > 1",
    select(lt(1, o.pipeline_interleaving), 2, 0))
  L:check("at_least", "d_internal_ratio x d_model", o.d_internal_ratio * o.d_model, "1", 1)
  divides("d_internal_ratio x d_model", o.d_internal_ratio * o.d_model, "tp", o.tp)
  divides("d_model", o.d_model, "tp2", o.tp2)
end

--- Sizes common to all versions.
local function sizes(o)
  local r = {}
  r.d_int = o.d_internal_ratio * o.d_model
  r.chips = o.pp * o.dp * o.tp * o.tp2 * o.n_experts
  r.N = o.n_routed_experts * 2 * o.n_layers * o.d_model * r.d_int
  r.P = o.n_experts * 2 * o.n_layers * o.d_model * r.d_int
  r.a, r.c = r.d_int / o.tp, o.d_model / o.tp2
  r.tokens = floor(o.microbatch_size * o.seq_len * o.n_routed_experts / (o.dp * o.n_experts))
  r.batches = floor((o.dataset_size or 20 * r.P) / (o.batch_size * o.seq_len))
  r.D = r.batches * o.batch_size * o.seq_len
  r.microbatches = o.batch_size / o.microbatch_size
  r.interval = o.n_layers / (o.pp * o.pipeline_interleaving)
  r.bubble_layers = (o.pp - 1) * r.interval
  r.steps = (o.n_layers / o.pp) * r.microbatches
  r.flop_batch = 6 * r.N * o.batch_size * o.seq_len
  r.peak = o.chip_flops * (8 / o.precision_bits)
  r.lone = eq(o.n_routed_experts * o.tp, 1) * lt(1, o.n_experts)
  r.flop = 6 * r.N * r.D
  return r
end

--- Words of each transfer of a layer and microbatch over all ranks, and the ranks that share it.
local function transfers(o, r)
  local ml = o.microbatch_size * o.seq_len
  return {
    internal = { words = ml * r.d_int * o.n_routed_experts, ranks = o.dp * o.tp * o.n_experts },
    external = { words = ml * o.d_model, ranks = floor(o.dp * o.tp2 * o.n_experts / o.n_routed_experts) },
    cross = { words = ml * o.d_model, ranks = o.dp * o.tp * o.tp2 * o.n_experts },
    gradient = { words = r.P, ranks = r.chips / o.dp },
  }
end

--- The two public versions.
local function published(o, r, version)
  local head = version == "head"
  local bytes = o.precision_bits / 8
  local moved = transfers(o, r)
  local function seconds(t) return 2 * (t.words / t.ranks * bytes) / o.chip_network end
  local internal = select(eq(o.tp2, 1), 0, seconds(moved.internal))
  local external = select(eq(o.n_routed_experts * o.tp, 1), 0, seconds(moved.external))
  local cross = seconds(moved.cross)
  local u = head and o.base_utilization or 1
  local matmul = max(2 * r.a * r.c * r.tokens / (u * o.chip_flops) * bytes,
    (r.a * r.c + r.c * r.tokens + r.a * r.tokens) / (u * o.chip_memory))
  local stage_crossings = o.pp - 1
  r.bubble = r.bubble_layers * (6 * matmul + 2 * internal + 2 * external) + stage_crossings * (head and 1 or 2) * cross
    + r.lone * (r.bubble_layers - stage_crossings) * 2 * ((o.n_experts - 1) / o.n_experts) * cross
  r.full_flop = r.steps * 6 * matmul
  r.full_net = r.steps * (2 * internal + 2 * external + select(r.lone, 1, 1 / r.interval) * 2 * cross)
  r.full = head and max(r.full_flop, r.full_net) or r.full_flop
  r.gradient = select(eq(o.dp, 1), 0, seconds(moved.gradient))
  r.batch = r.bubble + r.full + r.gradient
  return r
end

--- Seconds of a phase in which the fraction `overlap` of the traffic may hide behind computing.
local function phase(compute, memory, network, overlap)
  local busy = max(compute, memory)
  return { compute = compute, memory = memory, network = network,
    seconds = busy + (1 - overlap) * network + max(0, overlap * network - busy) }
end

--- Bytes/s of the link that covers `span` chips, and seconds of a hop on it. The rate of a link is the sum of both
--- directions, as in the public versions.
function simple.link(o, span)
  local outside = lt(o.node_chips, span)
  return select(outside, o.chip_network, o.node_network), select(outside, o.latency_seconds, o.node_latency_seconds)
end

--- Seconds in which each chip of a group sends and receives its `words` / `ranks`, `times` in all, and of the hops.
local function exchanged(o, t, bytes, group, span, times)
  local rate, latency = simple.link(o, span)
  return times * (t.words / t.ranks * bytes) * ((group - 1) / group) / rate + 2 * (group - 1) * latency
end

--- Seconds of an exchange: each chip sends its words to the others, and receives as many.
local function exchange(o, t, bytes, group, span) return exchanged(o, t, bytes, group, span, 2) end

--- Seconds of a ring's all-reduce: a reduce-scatter and an all-gather, each of which is an exchange.
local function all_reduce(o, t, bytes, group, span) return exchanged(o, t, bytes, group, span, 4) end

--- The corrected version. Innermost axes first: tp2, tp, experts, then stages, replicas. An axis that spans at most
--- node_chips uses the node's links, others the network.
local function corrected(L, o, r)
  L:check("at_least", "overlap", o.overlap, "0", 0)
  L:check("at_most", "overlap", o.overlap, "1", 1)
  for _, name in ipairs { "latency_seconds", "node_latency_seconds", "gradient_bytes", "optimizer_bytes" } do
    L:check("at_least", name, o[name], "0", 0)
  end
  local bytes = o.precision_bits / 8
  local moved = transfers(o, r)
  local span_tp = o.tp2 * o.tp
  local span_experts = span_tp * o.n_experts
  local span_stages = span_experts * o.pp
  -- Inner activations are all-reduced over tp2, outer ones over tp (and the k chosen experts).
  r.internal = all_reduce(o, moved.internal, bytes, o.tp2, o.tp2)
  r.external = all_reduce(o, moved.external, bytes, o.tp * o.n_routed_experts,
    select(lt(1, o.n_routed_experts), span_experts, span_tp))
  local rate, latency = simple.link(o, span_stages)
  r.cross = 2 * (moved.cross.words / moved.cross.ranks * bytes) / rate + 2 * latency
  local expert_cross = r.lone * exchange(o, moved.cross, bytes, o.n_experts, span_experts)
  local passes = 2 + select(o.recompute, 1, 0) -- forward, backward, and recomputed forward
  local matmuls = 6 + select(o.recompute, 2, 0)
  local u = o.base_utilization
  local compute = matmuls * 2 * r.a * r.c * r.tokens / (u * r.peak)
  local memory = matmuls * (r.a * r.c + r.c * r.tokens + r.a * r.tokens) * bytes / (u * o.chip_memory)
  local layer_net = passes * (r.internal + r.external + expert_cross)
  local crossings = select(lt(1, o.pp), 1, 0) * 2 * r.cross
  r.phases = {}
  r.phases.bubble = phase(r.bubble_layers * compute, r.bubble_layers * memory,
    r.bubble_layers * layer_net + (o.pp - 1) * crossings, o.overlap)
  r.phases.full = phase(r.steps * compute, r.steps * memory, r.steps * (layer_net + crossings / r.interval), o.overlap)
  local held = r.P / (r.chips / o.dp) -- parameters per chip
  local shard = select(lt(0, o.zero), held / o.dp, held)
  local gradient = all_reduce(o, moved.gradient, o.gradient_bytes, o.dp, r.chips)
  r.phases.gradient = phase(0, select(lt(1, o.dp), 2 * held * o.gradient_bytes / o.chip_memory, 0), gradient, o.overlap)
  -- Reads and writes weights, gradients and the optimizer's state once.
  r.phases.optimizer = phase(0, shard * (2 * o.optimizer_bytes + o.gradient_bytes + bytes) / o.chip_memory, 0,
    o.overlap)
  r.batch = r.phases.bubble.seconds + r.phases.full.seconds + r.phases.gradient.seconds + r.phases.optimizer.seconds

  -- Memory of a chip. GPipe holds every microbatch's activations; 1F1B holds pp microbatches of the first stage's
  -- layers; interleaving holds (pp - 1) / v layers more. Recompute keeps only each layer's input.
  local kept = select(o.recompute, r.c / o.tp, r.c / o.tp + 2 * r.a / o.tp2)
  local in_flight = select(o.gpipe, r.microbatches, ledger.min(o.pp, r.microbatches)
    + select(lt(1, o.pipeline_interleaving), (o.pp - 1) / o.pipeline_interleaving, 0))
  local working = (r.c + 2 * r.a) * r.tokens * bytes -- of the current layer
  r.memory = {
    weights = held * bytes / select(lt(2, o.zero), o.dp, 1),
    gradients = held * o.gradient_bytes / select(lt(1, o.zero), o.dp, 1),
    optimizer = shard * o.optimizer_bytes,
    activations = in_flight * (o.n_layers / o.pp) * kept * r.tokens * bytes + working,
  }
  r.memory.total = r.memory.weights + r.memory.gradients + r.memory.optimizer + r.memory.activations
  r.memory_limit = o.chip_capacity * (1 - o.memory_reserve)
  r.bubble, r.full, r.gradient = r.phases.bubble.seconds, r.phases.full.seconds, r.phases.gradient.seconds
  return r
end

--- Describes a run on ledger L. `o`: parameters (numbers or expressions), with the fields of corrections for
--- "corrected". Returns sizes and times (seconds per batch) and, for "corrected", phases and memory (bytes per chip).
function simple.describe(L, o, version)
  check(L, o)
  local r = sizes(o)
  r = version == "corrected" and corrected(L, o, r) or published(o, r, version)
  r.utilization = r.flop_batch / (r.chips * r.peak * r.batch)
  r.seconds = r.batch * r.batches
  r.days = r.seconds / 86400
  return r
end

function simple.binding(p)
  return timing.bound_by(ledger.value(p.compute), ledger.value(p.memory), ledger.value(p.network))
end

--- A run compiled to a program. outputs: days, seconds, utilization, chips, memory_bytes,
--- phase seconds and their resources, feasible (all checks), fits (memory).
function simple.compile(version, fixed)
  local L = ledger.new()
  local o = merged(simple.parameters, version == "corrected" and simple.corrections or nil, fixed)
  for _, name in ipairs(schema.keys(o)) do o[name] = L:parameter(name, o[name]) end
  local r = simple.describe(L, o, version)
  local outputs = { days = r.days, seconds = r.seconds, utilization = r.utilization, chips = r.chips,
    batch_seconds = r.batch, bubble_seconds = r.bubble, full_seconds = r.full, gradient_seconds = r.gradient }
  if r.phases then
    outputs.memory_bytes = r.memory.total
    outputs.fits = ledger.le(r.memory.total, r.memory_limit)
    for name, p in pairs(r.phases) do
      for field, value in pairs(p) do
        outputs[name .. "_" .. (field == "seconds" and field or field .. "_seconds")] = value
      end
    end
  end
  outputs.feasible = 1
  for _, c in ipairs(L:checks()) do outputs.feasible = outputs.feasible * c.ok end
  return L:compile(outputs), L, outputs
end

function simple.chip_names(version)
  local names = {}
  for _, chip in ipairs(chips) do
    if version ~= "readme" or not chip.head_only then names[#names + 1] = chip.name end
  end
  return names
end

--- The parameters of a run, and its chip, from the options of `ett simple-transformer`.
function simple.of(o, version)
  local chip
  for _, candidate in ipairs(chips) do
    if candidate.name == o.chip_type then chip = candidate end
  end
  if not chip then
    require("ett.base.error").raise("limit", "simple-transformer: the default chip 'h100' of the readme version is "
      .. "not among its chips; give --chip_type: %s", table.concat(simple.chip_names(version), ", "))
  end
  local m = {}
  for name in pairs(simple.parameters) do m[name] = o[name] and o[name] + 0.0 end
  m.dataset_size = o.dataset_size
  m.chip_flops, m.chip_memory, m.chip_capacity = chip.flops, chip.memory, chip.capacity
  m.chip_network = o.network_bandwidth or version == "readme" and chip.readme_network or chip.network
  m.base_utilization = o.base_utilization or 1
  if version ~= "corrected" then return m, chip end
  for name in pairs(simple.corrections) do m[name] = o[name] end
  m.node_chips, m.latency_seconds = m.node_chips or 1, m.latency_seconds or 0
  m.node_latency_seconds = m.latency_seconds
  m.recompute, m.gpipe, m.zero = o.recompute and 1 or 0, o.schedule == "gpipe" and 1 or 0, tonumber(o.zero)
  m.memory_reserve = simple.corrections.memory_reserve
  if o.cluster then
    chip = require("ett.ledger.links").chip(o.cluster)
    m.chip_flops, m.chip_memory, m.chip_capacity = chip.flops, chip.memory, chip.capacity
    m.chip_network = o.network_bandwidth or chip.network
    m.node_chips = o.node_chips or chip.node_chips
    m.node_network = o.node_bandwidth or chip.node_network
    m.latency_seconds = o.latency_seconds or chip.latency_seconds
    m.node_latency_seconds = o.latency_seconds or chip.node_latency_seconds
  end
  m.node_network = m.node_network or o.node_bandwidth or m.chip_network
  m.chip_capacity = o.memory_bytes or m.chip_capacity
  return m, chip
end

--- Effect of a 10 % increase of each quantity: { name, factor, run_time_change, utilization_change (fractions) }.
function simple.sensitivities(m)
  local program = simple.compile("corrected", m)
  local base, rows = program:evaluate {}, {}
  local function add(name, factor, changes)
    local changed = program:evaluate(changes)
    if changed.feasible == 1 then
      rows[#rows + 1] = { name = name, factor = factor, run_time_change = changed.days / base.days - 1,
        utilization_change = changed.utilization / base.utilization - 1 }
    end
  end
  for _, name in ipairs { "chip_flops", "chip_memory", "chip_network", "node_network", "base_utilization",
    "overlap" } do
    add(name, 1.1, { [name] = math.min(m[name] * 1.1, name == "overlap" and 1 or math.huge) })
  end
  add("batch_size", 2, { batch_size = m.batch_size * 2 }) -- doubled: these must remain integers
  add("dp", 2, { dp = m.dp * 2, microbatch_size = m.microbatch_size * 2 })
  return rows
end

return simple
