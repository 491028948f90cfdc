--- Compares predicted with executed training steps of small transformers on this machine (`ett validate`).
--
-- Predictions use samples of this machine, never a measured step. A back end samples and trains: ett.validate.cpu
-- (ranks over MPI), ett.validate.cuda (one GPU) or ett.validate.torch (PyTorch on the host). Its functions:
--   open(options)      returns the back end, or raises an error that names the missing part
--   view(layout)       samples for a layout: the profile for its ranks, and fields of the report
--   trainer(layout)    returns a function that trains case i and returns its measurements
--   device             the device of the estimate's cluster; nil: a processor
--   close()
-- A view answers operator and collective as a profile does. expect(case) sets the case to predict. alone: seconds of
-- one pass of an operator alone. added: seconds that a collective adds to a step. plan: fields of the plan that the
-- back end sets. launch_seconds: once per step.
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"
local median = require "ett.base.median"
local merged = require "ett.base.merged"

local validate = {}

--- { layers, hidden, heads, vocab, micro_batch, micro_batches, seq } of the twelve configurations of each back end.
--- A step takes milliseconds to tenths of a second on CPUs. On a GPU the products fill the device; smaller models
--- first.
validate.sizes = {
  cuda = {
    { 2, 768, 12, 8192, 4, 1, 1024 }, { 4, 1024, 16, 16384, 4, 1, 1024 }, { 2, 1024, 8, 32768, 4, 1, 1024 },
    { 6, 768, 12, 8192, 8, 1, 1024 }, { 8, 1024, 16, 8192, 8, 1, 512 }, { 2, 2048, 16, 8192, 2, 2, 2048 },
    { 4, 1536, 12, 16384, 2, 1, 2048 }, { 2, 1280, 20, 50304, 4, 2, 1024 }, { 4, 2048, 32, 16384, 4, 1, 1024 },
    { 3, 2560, 20, 8192, 1, 2, 2048 }, { 2, 3072, 24, 8192, 2, 1, 2048 }, { 4, 2048, 16, 8192, 1, 1, 8192 },
  },
}
validate.sizes.cpu = {
  { 2, 64, 4, 512, 4, 1, 64 }, { 4, 128, 4, 512, 2, 2, 64 }, { 2, 256, 4, 1024, 1, 2, 128 },
  { 4, 256, 8, 512, 2, 1, 128 }, { 2, 384, 6, 1024, 2, 1, 64 }, { 6, 192, 6, 768, 2, 1, 128 },
  { 3, 320, 5, 1280, 1, 2, 96 }, { 2, 512, 8, 1024, 1, 1, 128 }, { 4, 384, 6, 512, 1, 2, 64 },
  { 2, 256, 8, 2048, 4, 1, 64 }, { 8, 128, 4, 256, 2, 1, 256 }, { 3, 512, 8, 512, 2, 1, 64 },
}

validate.sizes.torch = {
  { 2, 128, 4, 1024, 4, 1, 64 }, { 4, 128, 4, 1024, 2, 1, 128 }, { 2, 256, 4, 2048, 2, 1, 128 },
  { 3, 192, 6, 1024, 4, 1, 64 }, { 2, 320, 5, 2048, 2, 1, 96 }, { 6, 128, 8, 512, 2, 1, 96 },
  { 2, 384, 6, 1024, 2, 1, 128 }, { 4, 256, 8, 1024, 1, 1, 192 }, { 3, 320, 4, 512, 4, 1, 64 },
  { 2, 512, 8, 1024, 2, 1, 64 }, { 5, 192, 4, 2048, 1, 1, 160 }, { 2, 448, 7, 1536, 1, 1, 128 },
}

--- Layouts as { dp, tp, pp }.
validate.layouts = { ["1x1"] = { 1, 1, 1 }, ["2x1"] = { 2, 1, 1 }, ["1x2"] = { 1, 2, 1 }, ["2x2"] = { 2, 2, 1 },
  ["pp2"] = { 1, 1, 2 } }

--- Their names, in the order in which they run.
validate.layout_names = { "1x1", "2x1", "1x2", "2x2", "pp2" }

--- One configuration under a layout: hyper-parameters and plan, changed so that the layout divides them.
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

--- A cluster of this machine's devices under a layout. Its tensor ranks are one node, so a group that spans nodes is
--- data or pipeline parallel. Device rates matter only for operators without samples.
---@param layout integer[]? dp, tp, pp; one rank when left out
---@param device table? name, peak_flops, memory_bytes, memory_bandwidth; left out: a processor
function validate.cluster(folder, layout, device)
  layout = layout or { 1, 1, 1 }
  device = device or { name = "cpu", peak_flops = 1e11, memory_bytes = 8e9, memory_bandwidth = 1e10 }
  local peak = device.peak_flops
  local path = folders.write(("%s/this_machine_%d_%d_%d.lua"):format(folder, table.unpack(layout)), ([[
return { name = "this_machine", summary = "the machine under validation", source = "ett validate",
  gpus_per_node = %d, nodes = %d, device = { name = %q, source = "ett validate",
  peak_flops = { fp32 = %.17g, fp16 = %.17g, bf16 = %.17g }, memory_bytes = %.17g, memory_bandwidth = %.17g },
  links = { intra = { bandwidth = 5e9, latency = 1e-6, source = "ett validate" },
    inter = { bandwidth_per_gpu = 5e9, bandwidth_per_node = 5e9, latency = 1e-6, source = "ett validate" } } }
]]):format(layout[2], layout[1] * layout[3], device.name, peak, peak, peak, device.memory_bytes,
    device.memory_bandwidth))
  return require("ett.profile.cluster").get(path)
end

local function estimate(case, view, cluster)
  local h, p = case.hyper, case.plan
  local hyper = merged({ layers = h.layers, hidden = h.hidden, heads = h.heads, vocab = h.vocab, position = "rope",
    tied_embeddings = false, bias = false, vocab_multiple = 1 }, view.hyper)
  local model = require("ett.model").new("gpt", hyper)
  local plan = { dp = p.dp, tp = p.tp, pp = p.pp, micro_batch = p.micro_batch, micro_batches = p.micro_batches,
    seq = p.seq, dtype = view.plan.dtype, gradient_dtype = "fp32", zero = 0, schedule = "1f1b",
    fused_accumulation = view.plan.fused_accumulation }
  if p.pp > 1 then plan.clip_gradients = false end -- has no effect on a single stage
  return require("ett.step.estimate").new { model = model, cluster = cluster, profile = view, plan = plan }
end

--- Predicts a case with ett.step.estimate: first without collectives, to find the computation before each of them, then
--- the whole step.
function validate.predict(case, view, cluster)
  local p = case.plan
  view:expect(case)
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
  view.stretch = { dp = alone, pp = alone / (2 * p.micro_batches), step = computing.step_seconds }
  if p.tp > 1 then -- the host's work on tokens is split evenly between the three reductions of the loss
    local tokens = p.micro_batch * p.seq
    view.stretch.tp = alone / p.micro_batches / (collectives - 3)
    view.stretch.loss, view.stretch.loss_bytes = view.host.token_seconds.cross_entropy * tokens / 3, 4 * tokens
  end
  return estimate(case, view, cluster)
end

--- Predicted seconds of one recorded line of a step: for an operator the time of one rank, for a collective the time
--- added to the step; nil if the estimate has no such line.
function validate.line(record, view)
  local answer
  if record.shape then
    answer = view:alone(record.operator or record.name, record.shape, view.plan.dtype, record.pass)
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
  return errors, median(errors, true)
end

--- The differences between a case and its configuration, as text; nil if there are none.
function validate.changes(configuration, case)
  local list = {}
  local function compare(what, now, before)
    if now ~= before then list[#list + 1] = ("%d %s instead of %d"):format(now, what, before) end
  end
  compare("heads", case.hyper.heads, configuration[3])
  compare("layers", case.hyper.layers, configuration[1])
  compare("micro-batches", case.plan.micro_batches, configuration[6])
  return #list > 0 and table.concat(list, ", ") or nil
end

--- A layout by name, with its cases: { name, ranks, dp, tp, pp, cases }.
function validate.layout(name, sizes)
  local degrees, cases = validate.layouts[name], {}
  for i, configuration in ipairs(sizes) do cases[i] = validate.case(configuration, degrees) end
  local dp, tp, pp = table.unpack(degrees)
  return { name = name, ranks = dp * tp * pp, dp = dp, tp = tp, pp = pp, cases = cases }
end

--- One row of the report: the prediction of a case and the measurement.
local function row_of(name, configuration, case, predicted, measured, view)
  view.stretch = predicted.stretch
  view:expect(case)
  for _, record in ipairs(measured.records) do record.predicted_seconds = validate.line(record, view) end
  local row = { layout = name, case = case, changed = validate.changes(configuration, case),
    predicted_seconds = predicted.step_seconds, measured_seconds = measured.step_seconds }
  for key, value in pairs(measured) do row[key] = row[key] or value end
  return row
end

local function prove(backend, layout, sizes, options)
  local predictions, seen = {}, {}
  local view, group = backend:view(layout)
  group.warnings = {}
  local cluster = validate.cluster(options.out, validate.layouts[layout.name], backend.device)
  for i, case in ipairs(layout.cases) do
    local e = validate.predict(case, view, cluster)
    predictions[i] = { step_seconds = e.step_seconds + view.launch_seconds, stretch = view.stretch }
    for _, text in ipairs(e.warnings) do
      if not seen[text] then group.warnings[#group.warnings + 1] = text end
      seen[text] = true
    end
  end
  local train = backend:trainer(layout)
  group.layout, group.ranks, group.rows = layout.name, layout.ranks, {}
  for i, case in ipairs(layout.cases) do
    local measured = error_module.wrap(("configuration %d"):format(i), train, i)
    group.rows[i] = row_of(layout.name, sizes[i], case, predictions[i], measured, view)
    options.on_row(group.rows[i])
  end
  local _
  _, group.median_error = validate.errors(group.rows)
  return group
end

--- Samples, predicts and trains, layout by layout.
---@param options table backend ("cpu" or "cuda"), out (folder), layouts (list of names), steps (default 12), scale (of
--- the campaign; default 1), configurations (how many), sizes (replaces validate.sizes), check (default true), device
--- and precision (cuda), on_stage, on_row, on_group (optional: called with a layout's rows and median error)
function validate.run(options)
  local name = options.backend or "cpu"
  local sizes = options.sizes or validate.sizes[name]
  sizes = table.move(sizes, 1, math.min(options.configurations or #sizes, #sizes), 1, {})
  folders.make(options.out)
  local layouts = {}
  for i, layout in ipairs(options.layouts) do layouts[i] = validate.layout(layout, sizes) end
  local backend = require("ett.validate." .. name).open { out = options.out, layouts = layouts, sizes = sizes,
    scale = options.scale or 1, steps = options.steps or 12, check = options.check ~= false,
    device = options.device, precision = options.precision, on_stage = options.on_stage,
    cluster = validate.cluster(options.out) }
  local result = { backend = name, precision = backend.precision, device = backend.named, groups = {} }
  local ok, raised = xpcall(function()
    for i, layout in ipairs(layouts) do
      result.groups[i] = prove(backend, layout, sizes, options)
      if options.on_group then options.on_group(result.groups[i]) end
    end
  end, error_module.from)
  backend:close()
  if not ok then error(raised, 0) end
  return result
end

return validate
