--- Plans: the parallel layout of a training step.
--
--   local p = plan.new({ pp = 4, tp = 2, dp = 2, micro_batch = 4, micro_batches = 8, seq = 4096 }, model, cluster)
--
-- Every violation is found at once, each with the rule it breaks and the nearest values that
-- keep it, and the nearest passing plans on as many devices.
local error_module = require "ett.base.error"
local plan_rules = require "ett.plan.rules"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"

local plan = {}

local recomputes = { "none", "selective", "full" }
local exchange_overlaps = { "none", "shared_experts", "batch" }

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
  dtype = { "training_dtype", default = "bf16" }, gradient_dtype = { "training_dtype", default = "fp32" },
  sequence_parallel = { "boolean", default = false },
  optimizer_bytes = { "nonnegative", default = 12, most = 1024 }, -- Adam: fp32 master weight and two moments
  bucket_bytes = { "positive", default = 500e6, least = 1 },
  gradient_all_reduce = { "boolean", default = false }, accumulate_gradients = { "boolean", default = true },
  overlap_gradients = { "boolean", default = false }, overlap_parameters = { "boolean", default = false },
  overlap_all_to_all = { "string", default = "none", one_of = exchange_overlaps },
  overlap_sends = { "boolean", default = false }, serial_sends = { "boolean", default = false },
  clip_gradients = { "boolean", default = true },
  deduplicate_tokens = { "boolean", default = false },
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
  deduplicate_tokens = "a token goes once to a node with experts of it, not once to each of them (DeepEP)",
  scatter_sends = "activations cross stages split over tp (DeepSpeed, Megatron scatter-gather)",
  clip_gradients = "all stages wait for one global gradient norm", split = "repeated layers of each pp * vp slice",
}

--- Faults of single fields beyond their kinds: an unknown schedule, numbers of layers that are none.
--- Makes the numbers of a split integers.
local function check_fields(p, found)
  if not schedules.exists(p.schedule) then
    local known = schedules.names()
    found[#found + 1] = ("field 'schedule': unknown schedule '%s'%s; known are %s"):format(p.schedule,
      error_module.suggestion(p.schedule, known), table.concat(known, ", "))
  end
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

plan.check_fields = check_fields

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
  local before = #found
  if usable then check_fields(clean, found) end
  if not usable or #found > before then return found, clean end
  local broken = plan_rules.broken(clean, model, cluster)
  table.move(broken, 1, #broken, #found + 1, found)
  if #broken > 0 then
    local near = plan_rules.nearest(clean, model, cluster)
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

--- Devices of a clean plan.
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
  layers = schema.argument(layers, "count", "ett.plan.deepspeed_split", "layers")
  pp = schema.argument(pp, "count", "ett.plan.deepspeed_split", "pp")
  if pp > most.stages then
    error_module.raise("argument", "ett.plan.deepspeed_split: argument 'pp' must be at most %d, got %d",
      most.stages, pp)
  end
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

return plan
