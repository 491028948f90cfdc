--- `ett predict`: one training step from a model, a plan and a cluster.
local error_module = require "ett.base.error"
local fields = require "ett.cli.fields"
local options = require "ett.base.options"
local print_value = require "ett.cli.print_value"
local trainer_files = require "ett.cli.trainer_files"
local wrote = require "ett.cli.wrote"

local megatron_option, plan_option = trainer_files.options()

--- `--composition reference`: the composition of estimate-train-time, from its configuration file.
local function reference(opts, given)
  if not opts.config then
    error_module.raise("usage", "predict: --composition reference needs --config FILE.yml")
  end
  if next(given) then
    error_module.raise("usage", "predict: --composition reference reads only --config, got '%s='", next(given))
  end
  local module = require "ett.import.estimate_train_time"
  local config = module.check(module.read(opts.config), opts.config)
  local source
  if opts.timings then
    source = module.timings(module.read_json(opts.timings), opts.timings)
  else
    local reference_source = require "ett.import.estimate_train_time.source"
    source = error_module.wrap(opts.config, reference_source.profile_source, config, opts.config,
      opts.cluster)
  end
  local result = error_module.wrap(opts.config, module.predict, config, source)
  if not print_value(opts, result) then
    print(opts.quiet and ("%.17g"):format(result.total_us / 1e6)
      or require "ett.import.estimate_train_time.text"(result))
  end
end

--- The model and the plan of a trainer's file, overridden by the words.
local function of_trainer(opts, given)
  local plan, hyper = trainer_files.sort("predict", opts, given)
  local model, own, stated = trainer_files.read(opts, fields.values(plan), fields.values(hyper))
  return { model = model, plan = own, cluster = opts.cluster or fields.default_cluster }, stated
end

local function need_model(opts, words)
  trainer_files.check("predict", opts)
  if opts.model or opts.config or opts.megatron_args then return end
  error_module.raise("usage", "predict: needs --model NAME or config.json, --config FILE.yml, or --megatron-args "
    .. "FILE%s", fields.model_hint("predict", words))
end

local function subject(opts, given)
  if opts.megatron_args or opts.plan then return of_trainer(opts, given) end
  if opts.config then
    local module = require "ett.import.estimate_train_time"
    local config = module.check(module.read(opts.config), opts.config)
    local plan = fields.values(fields.sort("predict", given))
    local reference_source = require "ett.import.estimate_train_time.source"
    return error_module.wrap(opts.config, reference_source.subject, config, opts.config, plan,
      opts.cluster)
  end
  local plan, hyper = fields.sort("predict", given, opts.model)
  return { model = fields.model(opts.model, hyper), plan = fields.values(plan),
    cluster = opts.cluster or fields.default_cluster }
end

--- Removes the warning about a default of a trainer, which the user did not give: one stage waits for no other.
local function without_default(warnings, given)
  for i = #warnings, 1, -1 do
    if not given.clip_gradients and warnings[i]:find "^clip_gradients has no effect" then table.remove(warnings, i) end
  end
end

--- Suggested changes of a plan that does not fit.
local function fit_advice(what)
  local cluster = what.cluster
  if type(cluster) == "string" then cluster = require("ett.profile.cluster").get(cluster) end
  return require("ett.search.fitting").sentence(what.model, cluster,
    what.times or require("ett.step.times").new(cluster, what.profile), what.plan)
end

return {
  name = "predict",
  finds = true,
  sandbox = true,
  models = true, -- `--help NAME` describes a model
  offers = fields.offers,
  summary = "predict one training step",
  usage = "predict --model NAME|config.json | --config FILE.yml | --megatron-args FILE "
    .. "[--cluster NAME|FILE.lua] [NAME=VALUE ...]",
  description = fields.help,
  hints = fields.hints {
    devices = "a plan has pp x tp x cp x dp devices; `ett search --devices N` finds the best plan of N, "
      .. "`ett search --vary devices=8,16 --each` those of several numbers" },
  options = {
    { "config", "FILE", "read model, plan and cluster from a configuration of estimate-train-time (YAML)" },
    fields.model_option,
    megatron_option, plan_option,
    { "cluster", "NAME", ("a cluster by name or file (default %s; with --config, the one that the file names)"):format(
      fields.default_cluster) },
    { "accept-device", "accept samples of a device other than the cluster's" },
    { "composition", "NAME", "reference: compose the times of the step as estimate-train-time does, with its errors",
      default = "default" },
    { "timings", "FILE", "with --composition reference: take times from recorded model calls (JSON), not from a "
      .. "profile" },
    { "tokens", "N", "also print the time and cost of a run over N tokens", kind = "positive" },
    { "chrome-trace", "FILE", "also write the step as a Chrome trace; FOLDER/ also gets its workload card",
      writes = true },
    { "chakra", "FOLDER", "also write Chakra execution traces for ASTRA-sim, one file per rank", writes = true },
    { "html", "FILE", "also write a self-contained page: pipeline, breakdown, memory, most effective changes; missing "
      .. "folders are made, also for the other files",
      writes = true },
    fields.export_option,
    { "require-fit", "exit 1 when the fullest device has too little memory" },
    { "json", "print JSON" },
    { "quiet", "print only the seconds of the step" },
  },
  run = function(opts, words)
    if opts.composition == "default" then need_model(opts, words) end
    fields.one_cluster("predict", opts.cluster)
    local given = options.words(words, "predict", "; see `ett predict --help`")
    if opts.config and opts.model then
      error_module.raise("usage", "predict: give --config or --model %s, not both", opts.model)
    elseif opts.megatron_args and opts.config then
      error_module.raise("usage", "predict: give --megatron-args or --config, not both")
    end
    if opts.composition == "reference" then
      require "ett.cli.refuse"(opts, { "tokens", "plan", "chrome_trace", "html", "chakra", "require_fit" },
        "predict: --%s needs --composition default")
      return reference(opts, given)
    end
    if opts.composition ~= "default" then
      error_module.raise("usage", "predict: %s",
        error_module.unknown("composition", opts.composition, { "default", "reference" }))
    end
    if opts.timings then
      error_module.raise("usage", "predict: --timings needs --composition reference")
    end
    local what, stated = subject(opts, given)
    if opts.accept_device then what.cluster = require("ett.profile.cluster").accepting(what.cluster) end
    what.units = opts.chrome_trace ~= nil or opts.html ~= nil or opts.chakra ~= nil
    what.tokens = opts.tokens and require("ett.step.cost").tokens("predict", opts.tokens, what.plan)
    local new = require("ett.step.estimate").new
    local file = opts.config or require("ett.model").is_file(opts.model) and opts.model
    local e = stated and trainer_files.wrap(opts, stated, new, what)
      or file and error_module.wrap(file, new, what) or new(what)
    if opts.plan or opts.megatron_args then without_default(e.warnings, given) end
    if not (opts.cluster or opts.config) then table.insert(e.left_open, 1, "cluster " .. e.cluster) end
    if opts.chrome_trace then require("ett.step.chrome_trace").write(e, opts.chrome_trace) end
    if opts.chakra then require("ett.step.chakra").write(e, opts.chakra) end
    if opts.html then require("ett.step.page").new(e, what):write(opts.html) end
    wrote(opts, opts.chrome_trace, opts.chakra, opts.html)
    if not e.fits then e.fit_advice = fit_advice(what) end
    if opts.export then return fields.write_plan(opts.export, what.model, e.plan) end
    if not print_value(opts, e) then print(opts.quiet and ("%.17g"):format(e.step_seconds) or tostring(e)) end
    if opts.require_fit and not e.fits then
      error_module.raise("limit", "predict: the plan needs %.2f GB on its fullest device, which has %.2f GB; %s",
        e.memory_bytes / 1e9, e.memory_limit_bytes / 1e9, e.fit_advice)
    end
  end,
}
