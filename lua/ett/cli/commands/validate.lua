--- `ett validate`: measured training steps against their prediction from this machine's samples.
local error_module = require "ett.base.error"

local function describe(case)
  local h, p = case.hyper, case.plan
  return ("%d x %-3d heads %d vocab %-4d batch %dx%d seq %-3d"):format(h.layers, h.hidden, h.heads, h.vocab,
    p.micro_batch, p.micro_batches, p.seq)
end

local function print_lines(row)
  print(("    %-22s %-10s %8s %12s %12s %8s"):format("operator, collective", "pass", "calls", "predicted ms",
    "measured ms", "error %"))
  for _, record in ipairs(row.records) do
    local predicted = record.predicted_seconds
    print(("    %-22s %-10s %8.1f %12s %12.4f %8s"):format(record.name, record.pass, record.calls,
      predicted and ("%.4f"):format(predicted * 1e3) or "-", record.seconds * 1e3,
      predicted and ("%+.1f"):format(100 * (predicted / record.seconds - 1)) or "-"))
  end
end

local function print_row(row)
  local error_percent = 100 * (row.predicted_seconds / row.measured_seconds - 1)
  local others = row.foreign_percent
    and ("  others %4.1f %%%s"):format(row.foreign_percent, row.disturbed and " ~" or "")
  print(("%-4s %s  predicted %9.3f ms  measured %9.3f ms  error %+6.1f %%%s  loss %.3f -> %.3f"):format(row.layout,
    describe(row.case), row.predicted_seconds * 1e3, row.measured_seconds * 1e3, error_percent, others or "",
    row.first_loss, row.last_loss))
end

local function print_group(group, scale)
  local disturbed = 0
  for i, row in ipairs(group.rows) do
    disturbed = disturbed + (row.disturbed and 1 or 0)
    if row.changed then print(("# %s: configuration %d has %s"):format(group.layout, i, row.changed)) end
  end
  for _, text in ipairs(group.warnings) do print(("# %s: %s"):format(group.layout, text)) end
  if group.fields_read then
    print(("# %s: %d of %d fields of the sampled models and plans were inferred correctly from the traces"):format(
      group.layout, group.fields_right, group.fields_read))
  end
  if disturbed > 0 then
    print(("# %s: ~ other programs disturbed nearly all steps of %d configuration%s, so their times are less "
      .. "certain, and the samples may be too slow. Run it again on an idle machine%s"):format(group.layout, disturbed,
      disturbed > 1 and "s" or "", scale < 1 and ", or with `--scale 1`, which repeats samples more often" or ""))
  end
  local words = {}
  for _, c in ipairs(group.collectives) do
    words[#words + 1] = ("%s %.1f %% of %d"):format(c.name, 100 * c.median, c.points)
  end
  if #words > 0 then
    print(("# %s: held-out error of the collectives' samples: %s; %d of %d disturbed"):format(
      group.layout, table.concat(words, ", "), group.disturbed_collective_samples, group.collective_samples))
  end
  print(("# %s: median error of the step %.1f %% over %d configuration%s%s"):format(group.layout,
    100 * group.median_error, #group.rows, #group.rows > 1 and "s" or "",
    group.crowded and ("; %d ranks share a processor"):format(group.ranks_per_processor) or ""))
end

local function layouts_of(opts, backend)
  local validate = require "ett.validate"
  if not opts.layouts then
    if backend == "cuda" then return { "1x1" } end
    if backend == "torch" then return { "1x1", "2x1" } end
    local ok, why = require("ett.sampling.mpirun").available()
    return not ok and { "1x1" } or opts.thorough and validate.layout_names or { "1x1", "2x1" }, not ok and why or nil
  end
  for _, word in ipairs(opts.layouts) do
    if not validate.layouts[word] then
      error_module.raise("usage", "validate: unknown layout '%s'; known are %s", word,
        table.concat(validate.layout_names, ", "))
    end
    if backend == "torch" and word ~= "1x1" and word ~= "2x1" then
      error_module.raise("usage", "validate: the back end torch has the layouts 1x1 and 2x1, got '%s'", word)
    end
  end
  return opts.layouts
end

--- The selected back end. Default: the GPU, if there is one and no layout has several ranks.
local function backend_of(opts)
  local name = opts.backend
  if not name then
    local alone = not opts.layouts or #opts.layouts == 1 and opts.layouts[1] == "1x1"
    local gpu = alone and require("ett.validate.cuda").available()
    return gpu and "cuda" or "cpu"
  end
  return name
end

local function check(opts, backend)
  local most = #require("ett.validate").sizes[backend]
  if opts.configurations > most then
    error_module.raise("usage", "validate: --configurations must be at most %d, got %d", most, opts.configurations)
  end
  if opts.device and backend ~= "cuda" then
    error_module.raise("usage", "validate: --device needs the back end cuda, not %s", backend)
  end
  if opts.thorough and backend ~= "cpu" then
    error_module.raise("usage", "validate: --thorough is for the back end cpu; %s always runs all", backend)
  end
  if opts.precision and backend ~= "cuda" and opts.precision ~= "fp32" then
    error_module.raise("usage", "validate: the back end %s trains in fp32, not in '%s'", backend, opts.precision)
  end
end

local function run(opts, out)
  local validate, sample = require "ett.validate", require "ett.sample"
  local backend = backend_of(opts)
  check(opts, backend)
  local layouts, missing = layouts_of(opts, backend)
  if missing and not opts.quiet then io.stderr:write(("# one rank only: %s\n"):format(missing)) end
  local began = sample.now()
  local thorough = opts.thorough or backend ~= "cpu"
  local scale = opts.scale or thorough and 1 or 0.2
  local result = validate.run { backend = backend, out = out, layouts = layouts, configurations = opts.configurations,
    steps = opts.steps or thorough and 12 or 6, scale = scale, device = opts.device,
    precision = opts.precision, check = not opts.no_check,
    on_stage = function(text)
      if not opts.quiet then io.stderr:write(("# %.0f s: %s\n"):format(sample.now() - began, text)) end
    end,
    on_row = function(row)
      if opts.json or opts.quiet then return end
      print_row(row)
      if opts.lines then print_lines(row) end
    end }
  if not require "ett.cli.print_value"(opts, result) and not opts.quiet then
    if result.backend == "cuda" then
      print(("# %s, %s; a step is one CUDA graph, whose launch takes %.1f us"):format(result.device, result.precision,
        result.groups[1].host.launch_seconds * 1e6))
    end
    for _, group in ipairs(result.groups) do print_group(group, scale) end
  end
end

return {
  name = "validate",
  starts = true,
  summary = "train small transformers on this machine and compare their steps with predictions",
  usage = "validate [--backend NAME] [--layouts LIST] [--out DIR] [option ...]",
  description = "Samples operators and collectives, predicts training steps from the samples, runs them, and\n"
    .. "prints both times. A layout is data x tensor parallel ranks; pp2 is a pipeline of two stages.\n"
    .. "On CPUs, samples and steps alternate. If there are more ranks than processors, ranks share them. All\n"
    .. "layouts need 6 GB of memory.\n"
    .. "The column 'others' is the share of processor time that other programs used during the steps.\n"
    .. "With torch, a plain PyTorch GPT is trained by one process and by two with\n"
    .. "DistributedDataParallel, alternating with models of other sizes. These are recorded; the predictions\n"
    .. "use samples that ett takes from their traces.\n"
    .. "With cuda, a step is one CUDA graph on one GPU. Operators are timed by events in a few more steps.",
  options = {
    { "backend", "NAME", "back end of the training (default: cuda if there is a GPU and no layout of several ranks)",
      choices = { "cpu", "cuda", "torch" } },
    { "layouts", "LIST", "list of 1x1, 2x1, 1x2, 2x2 and pp2 (default: 1x1 and 2x1; without MPI, and with cuda, 1x1)",
      kind = "list" },
    { "thorough", "on CPUs: all layouts, twice the steps, and the whole sampling campaign" },
    { "device", "K", "with cuda: the GPU to use", kind = "integer", least = 0 },
    { "precision", "NAME", "with cuda: bf16 or fp32 (default: bf16 if GPU and cuDNN support it); others have fp32" },
    { "no-check", "skip the check of each operator's outputs against double precision" },
    { "out", "DIR", "folder for the samples (default: a temporary one)" },
    { "configurations", "N", "number of model configurations, at most twelve", kind = "count", default = 12 },
    { "steps", "N", "steps of a configuration (default: 12; on CPUs without --thorough 6; pp2 repeats disturbed ones)",
      kind = "count", most = 10000 },
    { "scale", "X", "relative size of the sampling campaign (default: 1; on CPUs without --thorough 0.2)",
      kind = "positive", most = 100 },
    { "lines", "print every operator and collective of each configuration" },
    { "worker", "FILE", "internal: run as a rank of a layout" },
    { "json", "print JSON" },
    { "quiet", "print nothing" },
  },
  run = function(opts, positional)
    if #positional > 0 then
      error_module.raise("usage", "validate: unexpected '%s': it takes options only", positional[1])
    end
    if opts.worker then
      require("ett.validate.cpu").work(opts.worker)
      return 0
    end
    if opts.out then run(opts, opts.out) else require("ett.base.folder").within(function(out) run(opts, out) end) end
  end,
}
