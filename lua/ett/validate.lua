--- The proof: samples this machine, predicts training steps from the samples alone, executes
--- the same steps for real, and sets the two against each other.
--
-- On one rank the truth is the thread's processor time, which other programs on the machine
-- hardly move. Ranks of an MPI layout wait for each other: the truth is the wall time, as long
-- as nothing else ran. When something did (the step's wall time is over 5 % above its parts),
-- the truth is the sum of the parts, the operators' processor time and the low mean of each
-- collective's times, and the row says so. The profile is then sampled by as many ranks at
-- once as will compute: they share caches and memory.
local campaign = require "ett.campaign"
local error_module = require "ett.error"
local folders = require "ett.folder"
local find = require "ett.find"
local host = require "ett.host"
local json = require "ett.json"
local sample = require "ett.sample"

local validate = {}

--- { layers, hidden, heads, vocab, micro_batch, micro_batches, seq } of the twelve configurations.
validate.configurations = {
  { 2, 64, 4, 512, 4, 1, 64 }, { 4, 128, 4, 512, 2, 2, 64 }, { 2, 256, 4, 1024, 1, 2, 128 },
  { 4, 256, 8, 512, 2, 1, 128 }, { 2, 384, 6, 1024, 2, 1, 64 }, { 6, 192, 6, 768, 2, 1, 128 },
  { 3, 320, 5, 1280, 1, 2, 96 }, { 2, 512, 8, 1024, 1, 1, 128 }, { 4, 384, 6, 512, 1, 2, 64 },
  { 2, 256, 8, 2048, 4, 1, 64 }, { 8, 128, 4, 256, 2, 1, 256 }, { 3, 512, 8, 512, 2, 1, 64 },
}

--- Layouts of several ranks, as dp, tp, pp.
validate.layouts = { ["2x1"] = { 2, 1, 1 }, ["1x2"] = { 1, 2, 1 }, ["pp2"] = { 1, 1, 2 }, ["2x2"] = { 2, 2, 1 } }

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
--- a configuration is asked for by name. Several ranks disturb each other in a step as they do
--- here, so their samples are typical times, not the best.
function validate.campaign(scale, ranks)
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
  local many = (ranks or 1) > 1
  if many then
    return { name = "validate", seed = 11, budget_seconds = 0.02, samples = list, passes = 1, statistic = "median" }
  end
  return { name = "validate", seed = 11, budget_seconds = 0.02, samples = list, passes = 8, block = 256,
    interleave = true, min_repeats = 1 }
end

--- Collectives between `ranks` ranks of this machine.
function validate.wires(ranks)
  local sizes = { shape = { from = 64, to = 12000000, scale = "log" } }
  local list = {}
  for _, kind in ipairs { "all_reduce", "all_gather", "send_recv" } do
    if kind ~= "send_recv" or ranks == 2 then
      local count = ranks > sample.processors() and 12 or 40
      list[#list + 1] = { collective = kind, design = "halton", count = count, in_place = kind == "all_reduce",
        ranks = ranks, nodes = 1, shapes = sizes }
    end
  end
  return { name = "validate_wires", backend = "mpi", seed = 11, budget_seconds = 0.05, min_repeats = 8, samples = list }
end

local quote = require("ett.shell").quote

--- Runs ett under mpirun; returns its output, or raises with it.
local function launch(ranks, arguments)
  local crowded = ranks > sample.processors() -- a rank that waits must not spin
  local pipe = io.popen(("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s mpirun --oversubscribe "
    .. "--bind-to %s -n %d %s %s 2>&1"):format(crowded and "OMPI_MCA_mpi_yield_when_idle=1" or "",
    crowded and "none" or "core", ranks,
    quote(host.prefix .. "/bin/ett"), arguments))
  local text = pipe:read("a")
  if not pipe:close() then
    error_module.raise("io", "mpirun -n %d failed: %s", ranks, text:sub(-600))
  end
  return text
end

--- A campaign file for ranks: they need a file, not a table.
local function write_campaign(path, call)
  return folders.write(path, ("return require(\"ett.validate\").%s\n"):format(call))
end

--- Samples the machine with `ranks` ranks and returns the profile.
function validate.profile(folder, ranks, scale, on_stage)
  local sampler = require "ett.sampler"
  folders.make(folder)
  local file = write_campaign(folder .. "/operators.lua", ("campaign(%.17g, %d)"):format(scale, ranks))
  on_stage(("sampling operators with %d rank(s)"):format(ranks))
  if ranks == 1 then
    sampler.run(campaign.load(file), { out = folder })
  else
    launch(ranks, ("sample %s --out %s --quiet"):format(quote(file), quote(folder)))
    on_stage(("sampling collectives between %d ranks"):format(ranks))
    local wires = write_campaign(folder .. "/wires.lua", ("wires(%d)"):format(ranks))
    launch(ranks, ("sample %s --out %s --quiet"):format(quote(wires), quote(folder)))
  end
  return require("ett.profile").from_samples({ folder }, { cache = false })
end

--- Executes a case on this rank: { step_seconds, wall_seconds, parts_seconds, first_loss, last_loss,
--- records, disturbed }.
function validate.measure(case, steps, job)
  local validate_model = require "ett.validate_model"
  local trainer = validate_model.new { hyper = case.hyper, plan = case.plan, job = job }
  local world = job and job.world
  local losses, walls, processors, warm = {}, {}, {}, 3
  for i = 1, steps + warm do
    if i == warm + 1 then trainer:reset() end
    if world then world:barrier() end
    local start, processor, waiting = sample.now(), sample.thread_seconds(), trainer.waiting
    local loss = trainer:step()
    local wall = sample.now() - start
    local computing = sample.thread_seconds() - processor - (trainer.waiting - waiting)
    if world then
      wall, computing = world:reduce(wall, "max"), world:reduce(computing, "max")
      loss = world:reduce(trainer.last and loss or 0, "sum") / (case.plan.dp * case.plan.tp)
    end
    if i > warm then walls[#walls + 1], processors[#processors + 1] = wall, computing end
    losses[i] = loss
  end
  local parts, records = sample.stats(processors).median, {}
  for i, key in ipairs(trainer.order) do
    local r = trainer.records[key]
    local each = r.each and sample.stats(r.each).low_mean
    if each then parts = parts + each * r.calls / steps end
    records[i] = { name = r.name, pass = r.pass, shape = r.shape, bytes = r.bytes, ranks = r.ranks,
      calls = r.calls / steps, seconds = each and each * r.calls / steps or r.seconds / steps }
  end
  local wall = sample.stats(walls).median
  -- Stages of a pipeline wait for each other: their parts do not add up to a step.
  local disturbed = world ~= nil and case.plan.pp == 1 and wall > 1.05 * parts
  return { step_seconds = world and not disturbed and wall or parts, wall_seconds = wall, parts_seconds = parts,
    disturbed = disturbed, first_loss = losses[1], last_loss = losses[#losses], records = records }
end

--- A cluster of this machine's processors; rates only matter where the profile is silent.
function validate.cluster(folder)
  local path = folders.write(folder .. "/this_machine.lua", ([[
return { name = "this_machine", summary = "the machine under validation", source = "ett validate",
  gpus_per_node = %d, nodes = 1, device = { name = "cpu", source = "ett validate", peak_flops = { fp32 = 1e11 },
  memory_bytes = 8e9, memory_bandwidth = 1e10 },
  links = { intra = { bandwidth = 5e9, latency = 1e-6, source = "ett validate" } } }
]]):format(math.max(4, sample.processors())))
  return require("ett.cluster").get(path)
end

--- Predicts a case from the profile alone, through the estimate that serves every plan.
function validate.predict(case, profile, cluster)
  local h, p = case.hyper, case.plan
  local model = require("ett.model").new("gpt", { layers = h.layers, hidden = h.hidden, heads = h.heads,
    vocab = h.vocab, position = "rope", tied_embeddings = false, bias = false, vocab_multiple = 1 })
  return require("ett.estimate").new { model = model, cluster = cluster, profile = profile, plan = {
    dp = p.dp, tp = p.tp, pp = p.pp, micro_batch = p.micro_batch, micro_batches = p.micro_batches, seq = p.seq,
    dtype = "fp32", gradient_dtype = "fp32", zero = 0, schedule = "1f1b", clip_gradients = false } }
end

--- Predicted seconds of one booked line of a step.
function validate.line(record, profile)
  if record.shape then
    local answer = profile:operator(record.name, record.shape, "fp32", record.pass)
    return answer and answer.seconds * record.calls
  end
  local answer = profile:collective(record.pass, record.bytes, { nodes = 1, gpus_per_node = record.ranks }, "fp32")
  return answer and answer.seconds * record.calls
end

--- The ranks' side of a measurement: reads cases, writes results (rank 0).
function validate.worker(path)
  find.load("samplers", "cpu").available()
  local request = assert(json.read(path))
  local job = require("ett.dist").open()
  require("ett.cpu").pin(job.local_rank % sample.processors())
  local results = {}
  for i, case in ipairs(request.cases) do results[i] = validate.measure(case, request.steps, job) end
  if job.rank == 0 then
    folders.write(path .. ".out", json.encode(results))
  end
  job.world:barrier()
end

--- Measures cases with `ranks` ranks.
function validate.measure_ranks(cases, ranks, steps, folder)
  local path = ("%s/cases_%d.json"):format(folder, ranks)
  folders.write(path, json.encode { cases = cases, steps = steps })
  launch(ranks, ("validate --worker %s"):format(quote(path)))
  return assert(json.read(path .. ".out"))
end

--- Absolute relative errors of rows, sorted, with their median.
function validate.errors(rows)
  local errors = {}
  for i, row in ipairs(rows) do errors[i] = math.abs(row.predicted_seconds / row.measured_seconds - 1) end
  table.sort(errors)
  local n = #errors
  return errors, n > 0 and 0.5 * (errors[(n + 1) // 2] + errors[n // 2 + 1]) or nil
end

--- Runs the whole proof.
---@param options table out, steps, scale (of the campaign), layouts (list of names), configurations (how many),
--- on_stage, on_row
function validate.run(options)
  local ok, why = find.load("samplers", "cpu").available()
  if not ok then error_module.raise("missing", "%s", why) end
  local steps, result = options.steps or 12, { groups = {} }
  local cluster
  require("ett.folder").make(options.out)
  cluster = validate.cluster(options.out)
  local function group(name, ranks, profile, layout, count, measured)
    local rows = {}
    for i = 1, count do
      local case = validate.case(validate.configurations[i], layout)
      local seen = measured and measured[i] or validate.measure(case, steps)
      local e = validate.predict(case, profile, cluster)
      rows[i] = { layout = name, case = case, predicted_seconds = e.step_seconds, measured_seconds = seen.step_seconds,
        wall_seconds = seen.wall_seconds, disturbed = seen.disturbed, first_loss = seen.first_loss,
        last_loss = seen.last_loss, records = seen.records }
      options.on_row(rows[i], profile)
    end
    local _, median = validate.errors(rows)
    result.groups[#result.groups + 1] = { layout = name, ranks = ranks, rows = rows, median_error = median,
      crowded = ranks > sample.processors() }
  end
  local profiles = {}
  for _, name in ipairs(options.layouts) do
    local layout = validate.layouts[name] or { 1, 1, 1 }
    local ranks = layout[1] * layout[2] * layout[3]
    if not profiles[ranks] then
      profiles[ranks] = validate.profile(("%s/ranks_%d"):format(options.out, ranks), ranks, options.scale or 1,
        options.on_stage)
    end
    options.on_stage(("training on %d rank(s), layout %s"):format(ranks, name))
    local count = math.min(options.configurations or 12, #validate.configurations)
    local measured
    if ranks > 1 then
      local cases = {}
      for i = 1, count do
        local case = validate.case(validate.configurations[i], layout)
        cases[#cases + 1] = case
      end
      measured = validate.measure_ranks(cases, ranks, steps, options.out)
    end
    group(name, ranks, profiles[ranks], layout, count, measured)
  end
  return result
end

return validate
