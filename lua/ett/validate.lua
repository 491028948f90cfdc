--- The proof: samples this machine, predicts training steps from the samples alone, executes
--- the same steps for real, and sets the two against each other.
--
-- The truth is the wall time of the step, the median of those in which no other program had a
-- processor (ett.validate_ranks). Operators are sampled by as many ranks at once as will compute: they
-- share caches and memory. What the ranks cost each other is sampled in place (ett.validate_wires),
-- and both come together in a view of the profile (ett.validate_view) that the estimate of
-- every plan reads.
local buffers = require "ett.validate_buffers"
local campaign = require "ett.campaign"
local error_module = require "ett.error"
local find = require "ett.find"
local folders = require "ett.folder"
local ranks = require "ett.validate_ranks"
local quote = require("ett.shell").quote
local view_module = require "ett.validate_view"
local wires = require "ett.validate_wires"

local validate = {}

--- { layers, hidden, heads, vocab, micro_batch, micro_batches, seq } of the twelve configurations.
validate.configurations = {
  { 2, 64, 4, 512, 4, 1, 64 }, { 4, 128, 4, 512, 2, 2, 64 }, { 2, 256, 4, 1024, 1, 2, 128 },
  { 4, 256, 8, 512, 2, 1, 128 }, { 2, 384, 6, 1024, 2, 1, 64 }, { 6, 192, 6, 768, 2, 1, 128 },
  { 3, 320, 5, 1280, 1, 2, 96 }, { 2, 512, 8, 1024, 1, 1, 128 }, { 4, 384, 6, 512, 1, 2, 64 },
  { 2, 256, 8, 2048, 4, 1, 64 }, { 8, 128, 4, 256, 2, 1, 256 }, { 3, 512, 8, 512, 2, 1, 64 },
}

--- Layouts as dp, tp, pp.
validate.layouts = { ["1x1"] = { 1, 1, 1 }, ["2x1"] = { 2, 1, 1 }, ["1x2"] = { 1, 2, 1 }, ["2x2"] = { 2, 2, 1 },
  ["pp2"] = { 1, 1, 2 } }

--- Their names, in the order they are run.
validate.layout_names = { "1x1", "2x1", "1x2", "2x2", "pp2" }

--- One configuration under a layout: hyper-parameters and plan.
function validate.case(configuration, layout)
  local c, l = configuration, layout or { 1, 1, 1 }
  local heads = c[3]
  while heads % l[2] ~= 0 or c[2] % heads ~= 0 do heads = heads - 1 end
  return {
    hyper = { layers = c[1] // l[3] * l[3], hidden = c[2], heads = heads, vocab = c[4] },
    plan = { dp = l[1], tp = l[2], pp = l[3], micro_batch = c[5],
      micro_batches = l[3] > 1 and math.max(c[6], 4) or c[6], seq = c[7] },
  }
end

local function log(from, to, multiple) return { from = from, to = to, scale = "log", multiple = multiple or 1 } end
local function below(most, count) return function(s) return count(s) <= most end end

--- The campaign: random designs over the range of shapes that small models have. No shape of
--- a configuration is asked for by name. Typical times, not the best: a step runs its operators once.
function validate.campaign(scale, cold_bytes)
  local function n(count) return math.max(8, math.floor(count * scale)) end
  local tokens = log(64, 512, 16)
  local rows = { tokens = tokens, hidden = log(32, 512, 16) }
  local product = function(s) return 2.0 * s.tokens * s.in_features * s.out_features end
  local list = {
    { operator = "linear_qkv", design = "halton", count = n(160), where = below(5e8, product),
      shapes = { tokens = tokens, in_features = log(32, 2048, 16), out_features = log(48, 2048, 16) } },
    { operator = "layer_norm", design = "halton", count = n(32), shapes = rows },
    { operator = "residual_add", design = "halton", count = n(32), shapes = rows },
    { operator = "gelu", design = "halton", count = n(32), shapes = { tokens = tokens, width = log(128, 2048, 16) } },
    { operator = "rope", design = "halton", count = n(40), shapes = { batch = { 1, 2, 4 }, seq = log(64, 256, 16),
      heads = { 1, 2, 4, 8 }, kv_heads = 1, head_dim = { 16, 32, 64 }, rotary_dim = 1 },
      with = function(s) s.kv_heads, s.rotary_dim = s.heads, s.head_dim end,
      where = below(1024, function(s) return s.batch * s.seq end) },
    { operator = "flash_attention", design = "halton", count = n(60), shapes = { batch = { 1, 2, 4 },
      heads = { 1, 2, 4, 6, 8 }, kv_heads = 1, seq_q = log(48, 256, 16), seq_k = 1, head_dim = { 16, 32, 64 },
      causal = 1 }, with = function(s) s.kv_heads, s.seq_k = s.heads, s.seq_q end,
      where = below(1024, function(s) return s.batch * s.seq_q end) },
    { operator = "embedding", design = "halton", count = n(32), shapes = { tokens = tokens, vocab = log(128, 2048, 64),
      hidden = log(32, 512, 16) } },
    { operator = "cross_entropy", design = "halton", count = n(32), shapes = { tokens = tokens,
      vocab = log(128, 2048, 64) } },
    { operator = "optimizer", design = "halton", count = n(24), shapes = { params = log(40000, 12000000) } },
  }
  return { name = "validate", seed = 11, budget_seconds = 0.02, samples = list, passes = 1, statistic = "median",
    cold_bytes = cold_bytes }
end

--- A campaign file for ranks: they need a file, not a table.
local function write_campaign(path, call)
  return folders.write(path, ("return require(\"ett.validate\").%s\n"):format(call))
end

--- Samples the operators with `count` ranks at once, on operands that rotate through `cold_bytes`, and
--- returns the profile.
function validate.profile(folder, count, scale, cold_bytes)
  folders.make(folder)
  local file = write_campaign(folder .. "/operators.lua", ("campaign(%.17g, %d)"):format(scale, cold_bytes))
  if count == 1 then
    require("ett.sampler").run(campaign.load(file), { out = folder, device = 0 })
  else
    ranks.launch(count, ("sample %s --out %s --quiet"):format(quote(file), quote(folder)),
      "sampling operators")
  end
  return require("ett.profile").from_samples({ folder }, { cache = false })
end

local function profiles_of(folder, count, options)
  options.on_stage(("sampling operators with %d rank%s"):format(count, count > 1 and "s at once" or ""))
  local pair = {}
  for _, name in ipairs { "near", "far" } do
    pair[name] = validate.profile(("%s/ranks_%d_%s"):format(folder, count, name), count, options.scale or 1,
      view_module[name .. "_bytes"])
  end
  return pair
end

--- A cluster of this machine's processors under a layout: the tensor ranks are a node, so that what
--- spans nodes is data or pipeline parallel. Rates only matter where the profile is silent.
---@param layout integer[]? dp, tp, pp; one rank when left out
function validate.cluster(folder, layout)
  layout = layout or { 1, 1, 1 }
  local path = folders.write(("%s/this_machine_%d_%d_%d.lua"):format(folder, table.unpack(layout)), ([[
return { name = "this_machine", summary = "the machine under validation", source = "ett validate",
  gpus_per_node = %d, nodes = %d, device = { name = "cpu", source = "ett validate", peak_flops = { fp32 = 1e11 },
  memory_bytes = 8e9, memory_bandwidth = 1e10 },
  links = { intra = { bandwidth = 5e9, latency = 1e-6, source = "ett validate" },
    inter = { bandwidth_per_gpu = 5e9, bandwidth_per_node = 5e9, latency = 1e-6, source = "ett validate" } } }
]]):format(layout[2], layout[1] * layout[3]))
  return require("ett.cluster").get(path)
end

local function estimate(case, view, cluster)
  local h, p = case.hyper, case.plan
  local model = require("ett.model").new("gpt", { layers = h.layers, hidden = h.hidden, heads = h.heads,
    vocab = h.vocab, position = "rope", tied_embeddings = false, bias = false, vocab_multiple = 1 })
  return require("ett.estimate").new { model = model, cluster = cluster, profile = view, plan = {
    dp = p.dp, tp = p.tp, pp = p.pp, micro_batch = p.micro_batch, micro_batches = p.micro_batches, seq = p.seq,
    dtype = "fp32", gradient_dtype = "fp32", zero = 0, schedule = "1f1b", clip_gradients = false,
    accumulate_gradients = false } } -- the products add to the gradients they find
end

--- Predicts a case through the estimate that serves every plan: first the computing alone, which says how
--- much of it lies before each collective, then the step.
function validate.predict(case, view, cluster)
  local p = case.plan
  view:working(buffers.working_bytes(case.hyper, p))
  view.stretch, view.silent = {}, true
  local computing = estimate(case, view, cluster)
  view.silent = false
  local seconds, collectives = 0.0, 0
  for _, stage in ipairs(computing.stages) do
    seconds = seconds + (stage.forward_seconds + stage.backward_seconds) / p.pp
  end
  for _, line in ipairs(computing.collectives) do
    if line.group == "tp" then collectives = collectives + line.runs_per_micro_batch end
  end
  local alone = seconds / view.share -- of one rank
  view.stretch = { dp = alone, pp = alone / (2 * p.micro_batches),
    tp = collectives > 0 and alone / p.micro_batches / collectives or nil }
  return estimate(case, view, cluster)
end

--- Predicted seconds of one booked line of a step: of an operator the processor time of one rank, of a
--- collective what it adds to the step.
function validate.line(record, view)
  local answer
  if record.shape then
    answer = view:alone(record.name, record.shape, "fp32", record.pass)
  else
    answer = view:added(record.name, record.pass, record.bytes)
  end
  return answer and answer.seconds * record.calls
end

--- Absolute relative errors of rows, sorted, with their median.
function validate.errors(rows)
  local errors = {}
  for i, row in ipairs(rows) do errors[i] = math.abs(row.predicted_seconds / row.measured_seconds - 1) end
  table.sort(errors)
  local n = #errors
  return errors, n > 0 and 0.5 * (errors[(n + 1) // 2] + errors[n // 2 + 1]) or nil
end

--- What a case changes of its configuration so that the layout divides it, in words; nil: nothing.
function validate.changes(configuration, case)
  local list = {}
  if case.hyper.heads ~= configuration[3] then
    list[#list + 1] = ("%d heads instead of %d"):format(case.hyper.heads, configuration[3])
  end
  if case.hyper.layers ~= configuration[1] then
    list[#list + 1] = ("%d layers instead of %d"):format(case.hyper.layers, configuration[1])
  end
  if case.plan.micro_batches ~= configuration[6] then
    list[#list + 1] = ("%d micro-batches instead of %d"):format(case.plan.micro_batches, configuration[6])
  end
  return #list > 0 and table.concat(list, ", ") or nil
end

local function cases_of(layout, count)
  local cases = {}
  for i = 1, count do cases[i] = validate.case(validate.configurations[i], layout) end
  return cases
end

--- Runs the whole proof: per layout the samples, the predictions, and only then the steps.
---@param options table out, steps, scale (of the campaign), layouts (list of names), configurations (how many),
--- on_stage, on_row
function validate.run(options)
  local ok, why = find.load("samplers", "cpu").available()
  if not ok then error_module.raise("missing", "%s", why) end
  for _, name in ipairs(options.layouts) do
    if name ~= "1x1" then
      ok, why = ranks.available()
      if not ok then error_module.raise("missing", "layout %s needs several ranks: %s", name, why) end
    end
  end
  local steps, result, profiles = options.steps or 12, { groups = {} }, {}
  local all = math.min(options.configurations or 12, #validate.configurations)
  folders.make(options.out)
  for _, name in ipairs(options.layouts) do
    local layout = validate.layouts[name]
    local count = layout[1] * layout[2] * layout[3]
    if not profiles[count] then
      profiles[count] = profiles_of(options.out, count, options)
    end
    local seen
    if count > 1 then
      options.on_stage(("sampling the collectives of layout %s"):format(name))
      seen = ranks.wires({ dp = layout[1], tp = layout[2], pp = layout[3] }, count, options.out, name,
        options.scale)
    else
      require("ett.cpu").pin(0)
      seen = { host = require("ett.validate_kernels_cpu").host_seconds() }
    end
    seen.tp = layout[2]
    local view = view_module.new(profiles[count].near, profiles[count].far, seen)
    local cluster = validate.cluster(options.out, layout)
    local cases, predictions = cases_of(layout, all), {}
    for i, case in ipairs(cases) do
      predictions[i] = { step_seconds = validate.predict(case, view, cluster).step_seconds, stretch = view.stretch }
    end
    options.on_stage(("training %d configurations on %d rank%s, layout %s"):format(all, count, count > 1 and "s" or "",
      name))
    local measured = count > 1 and ranks.measure_all(cases, count, steps, options.out, name)
    local group = { layout = name, ranks = count, rows = {}, crowded = view.share > 1, ranks_per_processor = view.share,
      host = seen.host, collectives = view:held_out(),
      collective_samples = #(seen.rows or {}), disturbed_collective_samples = wires.disturbed(seen.rows or {}) }
    for i, case in ipairs(cases) do
      local m = measured and measured[i] or ranks.measure(case, steps)
      view.stretch = predictions[i].stretch
      view:working(buffers.working_bytes(case.hyper, case.plan))
      for _, record in ipairs(m.records) do record.predicted_seconds = validate.line(record, view) end
      local row = { layout = name, case = case, changed = validate.changes(validate.configurations[i], case),
        predicted_seconds = predictions[i].step_seconds, measured_seconds = m.step_seconds }
      for key, value in pairs(m) do row[key] = row[key] or value end
      group.rows[i] = row
      options.on_row(row)
    end
    local _
    _, group.median_error = validate.errors(group.rows)
    result.groups[#result.groups + 1] = group
  end
  return result
end

return validate
