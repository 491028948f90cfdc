--- Plans: the parallel layout of a training step.
--
--   local p = plan.new({ pp = 4, tp = 2, dp = 2, micro_batch = 4, micro_batches = 8, seq = 4096 }, model, cluster)
--
-- Every violation is found at once, each with the rule it breaks and the nearest values that
-- keep it, and the nearest passing plans on as many devices.
local error_module = require "ett.error"
local find = require "ett.find"
local schema = require "ett.schema"

local plan = {}

local recomputes = { "none", "selective", "full" }
local exchange_overlaps = { "none", "shared_experts", "batch" }
-- Files of these names say what the C core does; it is what runs.
local built_in = { ["gpipe"] = true, ["1f1b"] = true, ["interleaved"] = true }

-- Largest degrees and sizes: beyond anything built, and small enough that no count of devices,
-- tokens or bytes leaves 64 bits.
local most = { stages = 1 << 12, ranks = 1 << 14, replicas = 1 << 20, chunks = 1 << 10, sequences = 1 << 14,
  micro_batches = 1 << 24, tokens = 1 << 24 }

--- Fields of a plan. Sizes are per device group: a global batch is
--- dp * micro_batch * micro_batches sequences.
plan.schema = {
  pp = { "degree", default = 1, most = most.stages }, tp = { "degree", default = 1, most = most.ranks },
  dp = { "degree", default = 1, most = most.replicas }, cp = { "degree", default = 1, most = most.ranks },
  ep = { "degree", default = 1, most = most.replicas }, etp = { "degree", optional = true, most = most.ranks },
  vp = { "degree", default = 1, most = most.chunks },
  micro_batch = { "count", default = 1, most = most.sequences },
  micro_batches = { "count", optional = true, most = most.micro_batches },
  global_batch = { "count", optional = true, most = 1 << 58 }, seq = { "count", most = most.tokens },
  schedule = { "string", default = "1f1b" },
  recompute = { "string", default = "none", one_of = recomputes },
  zero = { "natural", default = 0, one_of = { 0, 1, 2, 3 } },
  dtype = { "dtype", default = "bf16" }, gradient_dtype = { "dtype", default = "fp32" },
  sequence_parallel = { "boolean", default = false },
  optimizer_bytes = { "nonnegative", default = 12, most = 1024 }, -- Adam: fp32 master weight and two moments
  bucket_bytes = { "positive", default = 500e6, least = 1 },
  gradient_all_reduce = { "boolean", default = false }, accumulate_gradients = { "boolean", default = true },
  overlap_gradients = { "boolean", default = false }, overlap_parameters = { "boolean", default = false },
  overlap_all_to_all = { "string", default = "none", one_of = exchange_overlaps },
  overlap_sends = { "boolean", default = false }, serial_sends = { "boolean", default = false },
  clip_gradients = { "boolean", default = true },
  scatter_sends = { "boolean", default = false }, split = "list?",
}

--- One sentence about each field, for help texts.
plan.help = {
  pp = "pipeline stages", tp = "tensor-parallel ranks", dp = "data-parallel replicas",
  cp = "context-parallel ranks",
  ep = "expert-parallel ranks, inside dp * cp",
  etp = "tensor-parallel ranks of experts (default tp)", vp = "model chunks a stage, for interleaved",
  micro_batch = "sequences of one micro-batch", micro_batches = "micro-batches a step (or give global_batch)",
  global_batch = "sequences a step over all replicas", seq = "tokens of a sequence",
  schedule = "gpipe, 1f1b, interleaved, or a file of schedules/",
  recompute = "what the backward pass runs again: none, selective, full",
  zero = "0: none, 1: optimizer sharded over dp, 2: gradients too, 3: weights too",
  dtype = "of weights and activations", gradient_dtype = "gradients are kept and reduced in",
  sequence_parallel = "norms and residuals split over tp (Korthikanti et al. 2022)",
  optimizer_bytes = "optimizer state of one parameter, master weight included",
  bucket_bytes = "bytes of one gradient or weight message",
  gradient_all_reduce = "ZeRO-1 that all-reduces instead of reduce-scattering (DeepSpeed pipelines)",
  accumulate_gradients = "a kernel adds each micro-batch's gradients (false: the products do)",
  overlap_gradients = "reduce buckets while the last backward runs",
  overlap_parameters = "gather weights behind the next forward",
  overlap_all_to_all = "none, shared_experts (beside those of the layer), batch (beside another micro-batch)",
  overlap_sends = "stages compute while they send",
  serial_sends = "receivers spend a message's time too, one after the other (DeepSpeed pipelines)",
  scatter_sends = "activations cross stages split over tp (DeepSpeed, Megatron scatter-gather)",
  clip_gradients = "all stages wait for one global gradient norm", split = "repeated layers of each pp * vp slice",
}

local function divisors(n)
  local list = {}
  for d = 1, math.min(n, 4096) do if n % d == 0 then list[#list + 1] = d end end
  return list
end

--- "nearest are 2 and 4" from sorted candidates.
local function nearest(value, candidates)
  local below, above
  for _, c in ipairs(candidates) do
    if c <= value then below = c end
    if c > value and not above then above = c end
  end
  if below and above then return ("; nearest are %d and %d"):format(below, above) end
  return (below or above) and ("; nearest is %d"):format(below or above) or ""
end

--- Repeated layers of a model: those that are spread over stages.
local function middle_layers(model)
  local count = 0
  for _, layer in ipairs(model.layers) do
    if (layer.place or "middle") == "middle" then count = count + layer.count end
  end
  return count
end

--- Whether a model's layers hold anything that may run beside an all-to-all (entry field `beside`).
local function has_shared_experts(model)
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.ops) do if entry.beside then return true end end
  end
  return false
end

--- What overlap_all_to_all asks of a plan: as Megatron-Core asks it of moe_shared_expert_overlap
--- and overlap_moe_expert_parallel_comm.
local function broken_overlap(p, model, add)
  local how = p.overlap_all_to_all
  if how == "none" then return end
  local text = ("overlap_all_to_all = '%s'"):format(how)
  if p.ep < 2 then add("%s needs ep of at least 2, got %d; without it nothing is exchanged", text, p.ep) end
  if how == "shared_experts" then
    if model and not has_shared_experts(model) then
      add("%s needs a model with shared experts (shared_experts or shared_ffn)", text)
    end
    return
  end
  if p.schedule ~= "1f1b" and p.schedule ~= "interleaved" then
    add("%s needs schedule = '1f1b' or 'interleaved', got '%s'", text, p.schedule)
  end
  if p.recompute == "full" then add("%s needs recompute = 'none' or 'selective', got 'full'", text) end
  if p.zero == 3 then add("%s needs zero of at most 2, got 3", text) end
end

--- Rules of a plan that its own degrees and the model decide; sentences of those broken. For
--- sweeps, where only these can change; everybody else wants plan.violations.
--- p: a clean plan (schema.check done).
local function broken(p, model, cluster)
  local found = {}
  local function add(format, ...) found[#found + 1] = format:format(...) end
  local function divides(name, value, what, whole)
    if whole and whole % value ~= 0 then
      add("%s = %d must divide %s = %d%s", name, value, what, whole, nearest(value, divisors(whole)))
    end
  end
  local hyper = model and model.hyper or {}
  divides("tp", p.tp, "heads", hyper.heads)
  local kv = hyper.kv_heads
  if kv and kv ~= hyper.heads then
    if kv >= p.tp then
      divides("tp", p.tp, "kv_heads", kv)
    elseif p.tp % kv ~= 0 then
      add("kv_heads = %d must divide tp = %d%s", kv, p.tp, nearest(p.tp, { p.tp // kv * kv, (p.tp // kv + 1) * kv }))
    end
  end
  local dense = not hyper.experts or (hyper.first_dense_layers or 0) > 0 or (hyper.moe_every or 1) > 1
  divides("tp", p.tp, "ffn", dense and hyper.ffn or nil)
  divides("cp", p.cp, "seq", p.seq)
  if hyper.experts then
    divides("ep", p.ep, "experts", hyper.experts)
    divides(p.etp and "etp" or "tp", p.etp or p.tp, "moe_ffn", hyper.moe_ffn or hyper.ffn)
    divides("tp", p.tp, "shared_ffn", hyper.shared_ffn)
  elseif p.ep > 1 then
    add("ep = %d needs a model with experts; the nearest is 1", p.ep)
  end
  if p.etp and p.etp ~= p.tp then
    local ranks, experts = p.dp * p.cp * p.tp, p.ep * p.etp
    if ranks % experts ~= 0 then
      add("ep * etp = %d must divide dp * cp * tp = %d%s", experts, ranks, nearest(experts, divisors(ranks)))
    end
  else
    divides("ep", p.ep, "dp * cp", p.dp * p.cp)
  end
  if p.sequence_parallel and p.seq % p.cp == 0 and (p.micro_batch * p.seq // p.cp) % p.tp ~= 0 then
    add("tp = %d must divide the tokens of a micro-batch = %d under sequence_parallel%s", p.tp,
      p.micro_batch * p.seq // p.cp, nearest(p.tp, divisors(p.micro_batch * p.seq // p.cp)))
  end
  if p.global_batch then
    local unit = p.dp * p.micro_batch
    if p.global_batch % unit ~= 0 then
      add("dp * micro_batch = %d must divide global_batch = %d; nearest are %d and %d", unit, p.global_batch,
        math.max(1, p.global_batch // unit) * unit, (p.global_batch // unit + 1) * unit)
    elseif p.micro_batches and p.micro_batches ~= p.global_batch // unit then
      add("micro_batches = %d contradicts global_batch = %d, which makes %d; give one of them", p.micro_batches,
        p.global_batch, p.global_batch // unit)
    end
  end
  local m = p.micro_batches or p.global_batch and math.max(1, p.global_batch // (p.dp * p.micro_batch))
  if p.vp > 1 and p.schedule ~= "interleaved" and built_in[p.schedule] then
    add("vp = %d needs schedule = 'interleaved', got '%s'", p.vp, p.schedule)
  end
  broken_overlap(p, model, add)
  if p.serial_sends and p.overlap_sends then add("serial_sends and overlap_sends exclude each other") end
  if p.schedule == "interleaved" then
    if p.pp < 2 then add("schedule = 'interleaved' needs pp of at least 2, got %d", p.pp) end
    if p.vp < 2 then add("schedule = 'interleaved' needs vp of at least 2, got %d", p.vp) end
    if m and m % p.pp ~= 0 then
      add("pp = %d must divide micro_batches = %d under interleaved; nearest are %d and %d micro-batches", p.pp, m,
        math.max(1, m // p.pp) * p.pp, (m // p.pp + 1) * p.pp)
    end
  end
  if model then
    local layers = middle_layers(model)
    if p.split then
      local sum = 0
      for _, n in ipairs(p.split) do sum = sum + (math.type(n) == "integer" and n or 0) end
      if #p.split ~= p.pp * p.vp then
        add("split must hold pp * vp = %d numbers of layers, got %d", p.pp * p.vp, #p.split)
      elseif sum ~= layers then
        add("split must add up to the model's %d layers, got %d", layers, sum)
      end
    elseif p.pp * p.vp > layers + 2 then -- the first and the last may hold embedding and head alone
      add("pp * vp = %d must not exceed the model's %d layers, embedding and head; the nearest pp is %d", p.pp * p.vp,
        layers, math.max(1, (layers + 2) // p.vp))
    end
  end
  local devices = p.pp * p.tp * p.cp * p.dp
  if cluster and cluster.nodes and cluster.gpus_per_node and devices > cluster.nodes * cluster.gpus_per_node then
    add("the plan needs %d devices, %s has %d", devices, tostring(cluster.name), cluster.nodes * cluster.gpus_per_node)
  end
  return found
end

plan.broken = broken

local layout_fields = { "pp", "tp", "dp", "cp", "ep", "vp" }

local function describe(p, base)
  local words = {}
  for _, name in ipairs(layout_fields) do
    if p[name] ~= 1 or base[name] ~= 1 then words[#words + 1] = ("%s=%d"):format(name, p[name]) end
  end
  return table.concat(words, " ")
end

--- Passing plans on the same number of devices, nearest first (sum of |log2| of the changes);
--- at most `limit` of them.
function plan.nearest(p, model, cluster, limit)
  local devices, passing = p.pp * p.tp * p.cp * p.dp, {}
  local function distance(q)
    local sum = 0
    for _, name in ipairs(layout_fields) do sum = sum + math.abs(math.log(q[name] / p[name], 2)) end
    return sum
  end
  for _, tp in ipairs(divisors(devices)) do
    for _, pp in ipairs(divisors(devices // tp)) do
      for _, cp in ipairs(p.cp == 1 and { 1 } or divisors(devices // tp // pp)) do
        for _, ep in ipairs(p.ep == 1 and { 1 } or divisors(p.ep)) do
          for _, vp in ipairs(p.vp == 1 and { 1 } or { p.vp, 2 }) do
            local q = setmetatable({ tp = tp, pp = pp, cp = cp, ep = ep, vp = vp, dp = devices // tp // pp // cp },
              { __index = p })
            if #broken(q, model, cluster) == 0 then passing[#passing + 1] = { q, distance(q) } end
          end
        end
      end
    end
  end
  table.sort(passing, function(a, b)
    if a[2] ~= b[2] then return a[2] < b[2] end
    return describe(a[1], p) < describe(b[1], p)
  end)
  local words, seen = {}, {}
  for _, entry in ipairs(passing) do
    local text = describe(entry[1], p)
    if not seen[text] and #words < (limit or 3) then
      seen[text] = true
      words[#words + 1] = text == "" and "all degrees 1" or text
    end
  end
  return words
end

local function check_split(p, found)
  if type(p.split) ~= "table" then return end
  for i, n in ipairs(p.split) do
    local whole = math.tointeger(n)
    if not whole or whole < 0 then
      found[#found + 1] = ("field 'split[%d]' must be an integer of at least 0, got %s"):format(i, schema.describe(n))
    else
      p.split[i] = whole
    end
  end
end

--- Every violation of a plan: a list of sentences (empty: it passes), and the clean plan.
---@param given table
---@param model table? from ett.model
---@param cluster table? from ett.cluster
function plan.violations(given, model, cluster)
  local found, clean = schema.violations(given, plan.schema)
  local usable = #found == 0 -- kinds are right: the rules can be tried
  if usable and not clean.micro_batches and not clean.global_batch then
    found[#found + 1] = "missing field 'micro_batches' (a positive integer), or 'global_batch' in its place"
  end
  if usable and not built_in[clean.schedule] and not find.path("lua/schedules", clean.schedule) then
    local known = plan.schedules()
    found[#found + 1] = ("field 'schedule': unknown schedule '%s'%s; known are %s"):format(clean.schedule,
      error_module.suggestion(clean.schedule, known), table.concat(known, ", "))
  end
  local before = #found
  check_split(clean, found)
  if not usable or #found > before then return found, clean end
  local rules = broken(clean, model, cluster)
  table.move(rules, 1, #rules, #found + 1, found)
  if #rules > 0 then
    local near = plan.nearest(clean, model, cluster)
    if #near > 0 then
      found[#found + 1] = ("nearest passing plans on %d devices: %s"):format(
        clean.pp * clean.tp * clean.cp * clean.dp, table.concat(near, ", or "))
    end
  end
  if #found > 0 then return found, clean end
  if not clean.micro_batches then clean.micro_batches = clean.global_batch // (clean.dp * clean.micro_batch) end
  clean.global_batch = clean.dp * clean.micro_batch * clean.micro_batches
  return found, clean
end

--- A clean plan, or an error object that lists every violation.
function plan.new(given, model, cluster)
  local found, clean = plan.violations(given, model, cluster)
  if #found > 0 then
    local object = error_module.new("plan", "%s", table.concat(found, "; "))
    object.violations = found
    error(error_module.label(object, "plan"), 0)
  end
  return clean
end

--- Devices of a plan.
function plan.devices(p) return p.pp * p.tp * p.cp * p.dp end

--- Tokens of one step over all replicas.
function plan.tokens(p)
  local exact = (p.dp + 0.0) * p.micro_batch * p.micro_batches * p.seq
  return exact < 2 ^ 53 and p.dp * p.micro_batch * p.micro_batches * p.seq or exact
end

--- Layers of each stage as DeepSpeed cuts a GPT-NeoX model: evenly over the list of its modules,
--- of which two stand before the layers (embedding, a cast) and three behind (a cast, the norm,
--- the head); what is left over goes to the first stages.
---@param layers integer
---@param pp integer
---@return integer[] split
function plan.deepspeed_split(layers, pp)
  if pp == 1 then return { layers } end
  local slots, split = layers + 5, {}
  for stage = 1, pp do split[stage] = slots // pp + (stage <= slots % pp and 1 or 0) end
  split[1], split[pp] = split[1] - 2, split[pp] - 3
  if split[1] < 0 or split[pp] < 0 then
    error_module.raise("plan", "pp = %d cuts %d layers into stages without room for embedding or head; at most pp = %d",
      pp, layers, math.max(1, slots // 3))
  end
  return split
end

--- Names of every schedule.
function plan.schedules() return find.names("lua/schedules") end

--- The plan as ett.schedule's C side reads it. orders: of a schedule from a file, else nil.
function plan.to_c(p, gpus_per_node, orders)
  local bytes = schema.dtype_bytes
  return {
    schedule = orders and "custom" or p.schedule, orders = orders, recompute = p.recompute,
    pp = p.pp, vp = p.vp, tp = p.tp, cp = p.cp, ep = p.ep, etp = p.etp, dp = p.dp, gpus_per_node = gpus_per_node,
    micro_batches = p.micro_batches, zero = p.zero, split = p.split,
    gradient_all_reduce = p.gradient_all_reduce, overlap_gradients = p.overlap_gradients,
    overlap_parameters = p.overlap_parameters, overlap_all_to_all = p.overlap_all_to_all,
    overlap_sends = p.overlap_sends, serial_sends = p.serial_sends, clip_gradients = p.clip_gradients,
    gradient_bytes = bytes[p.gradient_dtype], weight_bytes = math.max(bytes[p.dtype], 2),
    optimizer_bytes = p.optimizer_bytes, bucket_bytes = p.bucket_bytes,
  }
end

--- Orders of a schedule file: order(stage, plan) yields {"F"|"B"|"W", micro_batch, chunk} units.
function plan.orders(p)
  if built_in[p.schedule] then return nil end
  local schedule, path = find.load("lua/schedules", p.schedule)
  local label = path:match("([^/]+)$")
  if type(schedule) ~= "table" or type(schedule.order) ~= "function" then
    error_module.raise("model", "%s: a schedule file must return a table with the function 'order'", label)
  end
  local stages = {}
  for stage = 1, p.pp do stages[stage] = error_module.wrap(label, schedule.order, stage, p) end
  return require("ett.schedule").orders(stages)
end

return plan
