--- Predicts one training step from a model, a plan and a cluster.
local error_module = require "ett.base.error"
local options = require "ett.base.options"
local schema = require "ett.base.schema"

--- NAME=VALUE words as a table; lists are split at commas.
local function words_of(words)
  local given = {}
  for name, text in pairs(options.words(words, "predict", "; `ett predict --help` says more")) do
    if name == "split" then
      local list = {}
      for item in (text .. ","):gmatch("(.-),") do list[#list + 1] = options.value(item) end
      given[name] = list
    else
      given[name] = options.value(text)
    end
  end
  return given
end

local function print_json(value)
  io.write(require("ett.json").encode(value, { indent = 2 }))
end

--- The composition of the reference over its own configuration file.
local function reference(opts, given)
  if not opts.config then
    error_module.raise("usage", "predict: --composition reference needs --config FILE.yml")
  end
  if next(given) then
    error_module.raise("usage", "predict: --composition reference takes all from --config, got '%s='", next(given))
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
  if opts.json then
    print_json(result)
  elseif opts.quiet then
    print(("%.17g"):format(result.total_us / 1e6))
  else
    print(require("ett.report").reference(result))
  end
  return 0
end

--- Splits words into plan fields and hyper-parameters.
local function sort_words(given, with_hyper)
  local plan_schema = require("ett.plan").schema
  local hyper_schema = require("ett.model.architecture").hyper_schema
  local plan, hyper = {}, {}
  local known = schema.keys(plan_schema)
  if with_hyper then table.move(schema.keys(hyper_schema), 1, #schema.keys(hyper_schema), #known + 1, known) end
  for _, name in ipairs(schema.keys(given)) do
    if plan_schema[name] then
      plan[name] = given[name]
    elseif with_hyper and hyper_schema[name] then
      hyper[name] = given[name]
    else
      error_module.raise("usage", "predict: unknown field '%s'%s", name, error_module.suggestion(name, known))
    end
  end
  return plan, hyper
end

local function subject(opts, given)
  local model_module = require "ett.model"
  if opts.config then
    local module = require "ett.import.estimate_train_time"
    local config = module.check(module.read(opts.config), opts.config)
    local plan = sort_words(given, false)
    local reference_source = require "ett.import.estimate_train_time.source"
    return error_module.wrap(opts.config, reference_source.subject, config, opts.config, plan,
      opts.cluster)
  end
  if not opts.model then
    error_module.raise("usage",
      "predict: needs --config FILE.yml, or --model NAME or config.json; `ett predict --help` says more")
  end
  local is_file = model_module.is_file(opts.model)
  local plan, hyper = sort_words(given, not is_file)
  local model
  if is_file then
    model = model_module.huggingface(opts.model)
  else
    model = model_module.new(opts.model, hyper)
  end
  return { model = model, plan = plan, cluster = opts.cluster or "perlmutter" }
end

local function help_fields()
  local plan = require "ett.plan"
  local lines = {}
  for _, name in ipairs(schema.keys(plan.schema)) do
    local rule = plan.schema[name]
    local default = type(rule) == "table" and rule.default
    lines[#lines + 1] = ("  %-20s %s%s"):format(name, plan.help[name] or "",
      default ~= nil and default ~= false and (" (default %s)"):format(tostring(default)) or "")
  end
  return table.concat(lines, "\n")
end

return {
  name = "predict",
  summary = "predict one training step",
  usage = "predict --config FILE.yml | --model NAME|config.json [--cluster NAME|FILE.lua] [NAME=VALUE ...]",
  description = "Fields of the plan are words NAME=VALUE; hyper-parameters too, with --model NAME:\n\n"
    .. help_fields(),
  options = {
    { "config", "FILE", "a configuration of estimate-train-time (YAML)" },
    { "model", "NAME", "an architecture by name, or a Hugging Face config.json" },
    { "cluster", "NAME", "a cluster by name or file (default perlmutter, or what --config names)" },
    { "composition", "NAME", "default, or reference: estimate-train-time's own, quirks included", default = "default" },
    { "timings", "FILE", "recorded model calls (JSON) in place of a profile, for --composition reference" },
    { "tokens", "N", "also say how long a run over N tokens takes, and costs", kind = "positive" },
    { "chrome-trace", "FILE", "also write the step's pipeline as a Chrome trace" },
    { "json", "print JSON" },
    { "quiet", "print the step's seconds only" },
  },
  run = function(opts, words)
    local given = words_of(words)
    if opts.config and opts.model then
      error_module.raise("usage", "predict: --config names the model: --model %s is one too many", opts.model)
    end
    if opts.composition == "reference" then
      for _, name in ipairs { "tokens", "chrome_trace" } do
        if opts[name] then
          error_module.raise("usage", "predict: --%s goes with --composition default", (name:gsub("_", "-")))
        end
      end
      return reference(opts, given)
    end
    if opts.composition ~= "default" then
      error_module.raise("usage", "predict: unknown composition '%s'%s; known are default, reference",
        opts.composition, error_module.suggestion(opts.composition, { "default", "reference" }))
    end
    if opts.timings then
      error_module.raise("usage", "predict: --timings goes with --composition reference")
    end
    local what = subject(opts, given)
    what.units = opts.chrome_trace ~= nil
    what.tokens = opts.tokens
    local new = require("ett.step.estimate").new
    local file = opts.config or require("ett.model").is_file(opts.model) and opts.model
    local e = file and error_module.wrap(file, new, what) or new(what)
    if opts.chrome_trace then require("ett.report").write_chrome_trace(e, opts.chrome_trace) end
    e.units = nil
    if opts.json then
      print_json(getmetatable(e).__json(e))
    elseif opts.quiet then
      print(("%.17g"):format(e.step_seconds))
    else
      print(tostring(e))
    end
    return 0
  end,
}
