--- Three views of one training step, from one model, plan and cluster: the ledger of `ett transformer`, the simple
--- model of `ett simple-transformer` with its corrections, and `ett predict`.
local error_module = require "ett.base.error"
local ledger = require "ett.ledger"
local links = require "ett.ledger.links"
local merged = require "ett.base.merged"
local simple = require "ett.ledger.simple_transformer"
local operator = require "ett.operator"
local timing = require "ett.ledger.timing"
local transformer = require "ett.ledger.transformer"
local violations = require "ett.ledger.violations"

local views_module = {}

--- Products that the ledger and the simple model contain: those of a decoder's attention and MLPs.
local shared = { linear_qkv = true, linear_proj = true, linear_up = true, linear_down = true, lm_head = true,
  flash_attention = true, bmm_qk = true, bmm_pv = true, expert_linear1 = true, expert_linear2 = true,
  linear_q_down = true, linear_q_up = true, linear_kv_down = true, linear_kv_up = true }

local function is_product(name)
  local op = operator.find(name)
  return op and operator.products[op.family] or false
end

--- Refuses models with other products, such as scans and encoders, because the ledger and the simple model would
--- describe another model.
local function check_model(model)
  if model.hyper.layer_fields then
    error_module.raise("model", "compare: the ledger and the simple model describe only layers of equal widths; "
      .. "those of %s differ (layer_fields)", model.name)
  end
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.ops) do
      if entry.op and not shared[entry.op] and is_product(entry.op) then
        error_module.raise("model", "compare: the ledger and the simple model describe only decoders of attention "
          .. "and MLPs; %s also has the product '%s'", model.name, entry.op)
      end
    end
  end
end

--- Sizes used by the ledger and the simple model, from the model's hyper-parameters.
local function shapes(hyper)
  local s = { layers = hyper.layers, d = hyper.hidden, heads = hyper.heads, vocab = hyper.vocab }
  s.head_dim = hyper.head_dim or hyper.hidden // hyper.heads
  s.kv_heads = hyper.kv_heads or hyper.heads
  s.ffn = hyper.ffn or 4 * hyper.hidden
  s.gated = hyper.gated_mlp or hyper.activation == "swiglu" or hyper.activation == "geglu" or false
  s.experts, s.top_k = hyper.experts or 1, hyper.experts and hyper.top_k or 1
  if hyper.experts and hyper.moe_ffn then s.ffn = hyper.moe_ffn end
  local attention = 2 * s.d * s.heads * s.head_dim + 2 * s.d * s.kv_heads * s.head_dim
  s.layer_parameters = attention + s.top_k * (s.gated and 3 or 2) * s.d * s.ffn
  return s
end

--- Key/value heads of grouped queries in the ledger; if there are fewer than tensor ranks, each rank holds one. Nil
--- without grouped queries, or if the groups do not divide evenly.
local function key_heads(s, p)
  local kv = math.max(s.kv_heads, p.tp)
  if s.kv_heads > 1 and kv < s.heads and s.heads % kv == 0 and kv % p.tp == 0 then return kv end
end

--- View 1: the ledger of `ett transformer`, timed on the cluster's links.
local function of_ledger(s, p, chip, settings)
  local L = ledger.new()
  local kv = key_heads(s, p)
  local m = { kv_heads = kv and kv + 0.0,
    batch_size = p.global_batch, num_experts = 1.0, seq_len = p.seq, dataset_size = p.global_batch * p.seq,
    num_layers = s.layers, d_model = s.d, d_ffn = s.ffn * s.top_k, num_heads = s.heads, d_head = s.head_dim,
    p_data = p.dp, p_pipe = p.pp, p_exp = 1.0, p_seq = p.cp, p_tensor_int = p.tp, p_tensor_ext = 1.0,
    use_glu = s.gated, no_multi_query_attn = s.kv_heads > 1, activation_checkpointing = p.recompute == "full",
    consecutive_attn_and_ffn = true }
  for name, value in pairs(m) do m[name] = math.type(value) == "integer" and value + 0.0 or value end
  local run = transformer.describe(L, m)
  local broken = violations.list(L)
  if #broken > 0 then error_module.raise("limit", "ledger: %s", violations.message(broken)) end
  local costs = transformer.costs(L, m)
  local t = timing.of(L, { flops = chip.flops / 2, utilization = settings.utilization, bytes = 2, memory = chip.memory,
    links = { intra = chip.intra, inter = chip.inter }, node_chips = chip.node_chips, overlap = settings.overlap,
    checkpointing = m.activation_checkpointing,
    operations = { weights = s.layers / p.pp, tokens = s.layers / p.pp * p.micro_batches } })
  local by_axis = {}
  for _, phase in ipairs(t.phases) do
    for _, line in ipairs(phase.axes) do by_axis[line.axis] = (by_axis[line.axis] or 0) + line.seconds end
  end
  local other = (by_axis.SEQ or 0) + (by_axis.EXP or 0) + (by_axis.TENSOR_EXT or 0)
  return { view = "ledger", flop = costs.FLOP.total, compute_seconds = t.compute_seconds,
    other_traffic_seconds = other,
    tensor_seconds = by_axis.TENSOR_INT or 0, pipeline_seconds = by_axis.PIPE or 0, data_seconds = by_axis.DATA or 0,
    bubble_seconds = 0, step_seconds = t.seconds, bound_by = t.bound_by,
    memory_bytes = transformer.memory(m, run, { bytes = 2, gradient_bytes = p.gradient_dtype == "fp32" and 4 or 2,
      optimizer_bytes = p.optimizer_bytes, samples = p.micro_batch, gpipe = p.schedule == "gpipe" }).total }
end

--- View 2: the corrected simple model, with an inner width that holds a layer's parameters.
local function of_simple_model(s, p, chip, settings)
  local L = ledger.new()
  local o = {}
  for _, set in ipairs { simple.parameters, simple.corrections } do
    for name, value in pairs(set) do o[name] = value + 0.0 end
  end
  o.precision_bits, o.n_layers, o.d_model = 16, s.layers, s.d
  o.d_internal_ratio = s.layer_parameters / (2 * s.d * s.d)
  o.batch_size, o.microbatch_size, o.seq_len = p.global_batch, p.dp * p.micro_batch, p.seq
  o.dataset_size = p.global_batch * p.seq
  o.base_utilization, o.overlap = settings.utilization, settings.overlap
  o.pp, o.pipeline_interleaving, o.dp, o.tp, o.tp2 = p.pp, p.vp, p.dp * p.cp, p.tp, 1
  o.chip_flops, o.chip_memory, o.chip_capacity = chip.flops, chip.memory, chip.capacity
  o.chip_network, o.node_network, o.node_chips = chip.network, chip.node_network, chip.node_chips
  o.latency_seconds, o.node_latency_seconds = chip.latency_seconds, chip.node_latency_seconds
  o.zero, o.recompute = p.zero, p.recompute == "full" and 1 or 0
  o.optimizer_bytes = p.optimizer_bytes
  o.gradient_bytes = p.gradient_dtype == "fp32" and 4 or 2
  local r = simple.describe(L, o, "corrected")
  local broken = violations.list(L)
  if #broken > 0 then error_module.raise("limit", "simple model: %s", violations.message(broken)) end
  local steady = r.phases.full
  local passes = p.recompute == "full" and 3 or 2
  local crossings = p.pp > 1 and 2 * r.steps / r.interval or 0
  return { view = "simple model", flop = r.flop_batch, compute_seconds = steady.compute,
    tensor_seconds = r.steps * passes * (r.internal + r.external), pipeline_seconds = crossings * r.cross,
    data_seconds = r.phases.gradient.network, bubble_seconds = r.phases.bubble.seconds,
    optimizer_seconds = r.phases.optimizer.seconds, step_seconds = r.batch, memory_bytes = r.memory.total,
    bound_by = simple.binding(steady) }
end

--- View 3: `ett predict`.
local function predicted(e)
  local v = { view = "ett predict", flop = e.model_flops_per_step, compute_seconds = 0, other_seconds = 0,
    tensor_seconds = 0, pipeline_seconds = 0, data_seconds = 0, other_traffic_seconds = 0,
    step_seconds = e.step_seconds }
  for _, line in ipairs(e.operators) do
    if line.name == "optimizer" or line.name == "newton_schulz" then
      v.optimizer_seconds = (v.optimizer_seconds or 0) + line.seconds
    elseif is_product(line.name) then
      v.compute_seconds = v.compute_seconds + line.seconds
      if line.name == "lm_head" then v.vocabulary_seconds = line.seconds end
    else
      v.other_seconds = v.other_seconds + line.seconds
    end
  end
  local groups = { tp = "tensor_seconds", pp = "pipeline_seconds", dp = "data_seconds" }
  groups["dp momenta"] = "data_seconds"
  for _, line in ipairs(e.collectives) do
    local field = groups[line.group] or "other_traffic_seconds"
    v[field] = v[field] + line.seconds
  end
  v.bubble_seconds = e.idle_seconds
  for _, stage in ipairs(e.stages) do v.memory_bytes = math.max(v.memory_bytes or 0, stage.memory_bytes) end
  local busy = v.compute_seconds + v.other_seconds
  v.bound_by = v.tensor_seconds + v.pipeline_seconds + v.data_seconds + v.other_traffic_seconds > busy and "network"
    or v.other_seconds > v.compute_seconds and "memory" or "compute"
  return v
end

--- Differences between the views and their reasons, with sizes.
local function reasons(s, p, views, settings)
  local list = {}
  local function add(seconds, format, ...) list[#list + 1] = { seconds = seconds, text = format:format(...) } end
  local a, b, c = table.unpack(views)
  local tokens = p.global_batch * p.seq
  add(c.vocabulary_seconds, "embeddings and logits: %.3g FLOP per step, in ett predict only",
    6.0 * s.d * s.vocab * tokens)
  add(c.other_seconds, "norms, activations, residuals, rotary positions and loss: in ett predict only")
  local scores = 12.0 * s.layers * s.heads * s.head_dim * p.seq * tokens
  add(nil, "attention scores: %.3g FLOP in the ledger (whole square, no causal mask), none in the simple model",
    scores)
  if s.kv_heads > 1 and s.kv_heads < s.heads then
    add(nil, "grouped queries (%d of %d heads): the ledger counts %s; the simple model counts only the weights",
      s.kv_heads, s.heads, not key_heads(s, p) and "one key/value head per query head"
      or p.tp > s.kv_heads and ("one key/value head on each of %d tensor ranks"):format(p.tp)
      or ("%d key/value heads"):format(s.kv_heads))
  end
  if s.experts > 1 then
    add(nil, "experts: the ledger and the simple model count %d of %d experts as one wide feed-forward; routing and "
      .. "all-to-all are in ett predict only", s.top_k, s.experts)
  end
  if p.recompute == "full" then
    add(nil, "recompute: the FLOP of the ledger include the repeated forward pass, those of the other views do not")
    local some = p.recompute_layer_ids and "recompute_layer_ids"
      or p.recompute_layers and p.recompute_method ~= "uniform" and "recompute_layers"
    if some then
      add(nil, "recompute: the ledger and the simple model repeat every layer, ett predict those of %s", some)
    end
  end
  if p.cp > 1 then
    add(a.other_traffic_seconds - c.other_traffic_seconds, "context parallelism (%d): the ledger gathers keys and "
      .. "values over its sequence axis; the simple model has only more replicas", p.cp)
  end
  if p.pp > 1 then
    add(b.bubble_seconds, "pipeline bubble: the ledger counts work, not waiting; the simple model adds one idle "
      .. "phase, ett predict simulates the schedule")
  end
  add(nil, "matmul speed: the ledger and the simple model assume %.2f of peak; ett predict uses the cluster's profile "
    .. "(its matmuls take %.4f s against %.4f s)", settings.utilization, c.compute_seconds, a.compute_seconds)
  if p.tp > 1 then
    add(a.tensor_seconds - c.tensor_seconds, "tensor traffic: the ledger divides the bytes by the link's rate and "
      .. "hides up to %.0f %% behind compute; ett predict times each all-reduce by size and hides none",
      settings.overlap * 100)
  end
  if p.dp > 1 then
    add(a.data_seconds - c.data_seconds, "data-parallel traffic: the ledger gathers 16-bit weights and reduces their "
      .. "gradients once per batch (as ZeRO-1 does); ett predict reduces %s gradients, ZeRO %d",
      p.reduce_dtype or p.gradient_dtype, p.zero)
  end
  add(nil, "memory: embeddings and logits are in ett predict only; the ledger shards the optimizer's state "
    .. "over replicas (ZeRO 1), the others follow ZeRO %d", p.zero)
  if c.optimizer_seconds then add(c.optimizer_seconds, "optimizer: not in the ledger") end
  return list
end

--- The views of a model under a plan on a cluster. given: { model, plan, cluster, utilization = fraction of peak,
--- overlap = fraction of traffic (1), profile? }. Returns { views = list, reasons = list, notes = list, warnings = list
--- about the samples of ett predict, plan =, hyper = }.
function views_module.new(given)
  local estimate_module = require "ett.step.estimate"
  local estimate = estimate_module.new { model = given.model, plan = given.plan, cluster = given.cluster,
    profile = given.profile }
  check_model(given.model)
  local chip = links.chip(given.cluster)
  chip.intra, chip.inter = chip.intra or chip.inter, chip.inter or chip.intra
  local settings = { overlap = given.overlap or 1,
    utilization = given.utilization or simple.parameters.base_utilization }
  local hyper, p = estimate.model.hyper, merged(estimate.plan)
  p.micro_batches = p.micro_batches or p.global_batch // (p.dp * p.micro_batch)
  local s = shapes(hyper)
  local views = { of_ledger(s, p, chip, settings), of_simple_model(s, p, chip, settings), predicted(estimate) }
  -- Weights per rank of the experts beyond top_k; the wide layer of the ledger and the simple model omits them.
  local idle = s.layers / p.pp * (s.experts / p.ep - s.top_k) * (s.gated and 3 or 2) * s.d * s.ffn / p.tp
  if s.experts > 1 and idle > 0 then
    local gradient, replicas = p.gradient_dtype == "fp32" and 4 or 2, p.dp * p.cp / p.ep
    for i, zero in ipairs { 1, p.zero } do
      local function held(bytes, from) return zero >= from and bytes / replicas or bytes end
      views[i].memory_bytes = views[i].memory_bytes + idle * (held(2, i == 1 and 4 or 3)
        + held(gradient, i == 1 and 4 or 2) + held(p.optimizer_bytes, 1))
    end
  end
  local devices, notes = estimate.devices, require("ett.plan.fields").decimals({ p.seq }, hyper)
  table.move(given.model.notes or {}, 1, #(given.model.notes or {}), #notes + 1, notes)
  for _, v in ipairs(views) do
    v.mfu_percent = 100 * estimate.model_flops_per_step / (v.step_seconds * devices * (chip.flops / 2))
  end
  return { views = views, reasons = reasons(s, p, views, settings), devices = devices, plan = p, hyper = hyper,
    notes = notes, warnings = estimate_module.cautions(estimate),
    cluster = estimate.cluster, settings = settings }
end

return views_module
