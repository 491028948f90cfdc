--- `ett compare`: ledger, simple model and `ett predict` side by side; also two plans, clusters or stacks.
local error_module = require "ett.base.error"
local fields = require "ett.cli.fields"
local json = require "ett.json"
local merged = require "ett.base.merged"
local options = require "ett.base.options"
local print_value = require "ett.cli.print_value"
local tables = require "ett.report.table"
local trainer_files = require "ett.cli.trainer_files"

local megatron_option, plan_option = trainer_files.options(true)
local default_utilization = require("ett.ledger.simple_transformer").parameters.base_utilization

local rows = {
  { "FLOP of the step", "flop", "%.4g" }, { "matmul time (s)", "compute_seconds", "%.5f" },
  { "other operators (s)", "other_seconds", "%.5f" }, { "tensor traffic (s)", "tensor_seconds", "%.5f" },
  { "pipeline traffic (s)", "pipeline_seconds", "%.5f" }, { "data traffic (s)", "data_seconds", "%.5f" },
  { "other traffic (s)", "other_traffic_seconds", "%.5f" },
  { "optimizer (s)", "optimizer_seconds", "%.5f" }, { "bubble, waiting (s)", "bubble_seconds", "%.5f" },
  { "step (s)", "step_seconds", "%.5f" }, { "MFU (%)", "mfu_percent", "%.2f" },
  { "memory per device (GB)", "memory_bytes", "%.3f", 1e-9 }, { "bound by", "bound_by", "%s" },
}

local function print_table(result)
  local lines = { { "" } }
  for i, view in ipairs(result.views) do lines[1][i + 1] = view.view end
  local fit = tables.fit
  print(fit(("# %d devices, cluster %s; utilization %.2f and overlap %.2f in the ledger and the simple model"):format(
    result.devices, require("ett.base.pretty").plain(result.cluster), result.settings.utilization,
    result.settings.overlap)))
  for r, row in ipairs(rows) do
    lines[r + 1] = { row[1] }
    for i, view in ipairs(result.views) do
      local value = view[row[2]]
      lines[r + 1][i + 1] = value == nil and "-" or row[3]:format(row[4] and value * row[4] or value)
    end
  end
  print(tables.text(lines, "lrrr"))
  print("\nwhere they differ, and why")
  for _, reason in ipairs(result.reasons) do
    print(fit(("  %s%s"):format(reason.text, reason.seconds and (" [%.5f s]"):format(reason.seconds) or "")))
  end
  for _, text in ipairs(result.warnings) do print(fit("warning: " .. text)) end
  for _, text in ipairs(result.notes) do print(fit("note: " .. text)) end
end

--- The words that name a side, and the others. A side is a cluster, a stack, several fields in one word, or a field of
--- the plan that is given more than once.
local function sides_of(words)
  local sides, rest, given = {}, {}, {}
  local known = require("ett.plan").schema
  local function name_of(word)
    local name = word:match "^([^%s=]+)="
    return (name == "cluster" or known[name or ""]) and name or ""
  end
  for _, word in ipairs(words) do given[name_of(word)] = (given[name_of(word)] or 0) + 1 end
  for _, word in ipairs(words) do
    local is_side = not word:find("=", 1, true) or word:find "%s" or name_of(word) ~= "" and given[name_of(word)] > 1
    table.insert(is_side and sides or rest, word)
  end
  return sides, rest
end

--- A side's own fields of the plan, and its cluster.
local function side_of(word, cluster)
  local own, place = {}, cluster
  if word:find("=", 1, true) then
    local list = {}
    for part in word:gmatch "%S+" do list[#list + 1] = part end
    for name, text in pairs(options.words(list, "compare")) do
      if name == "cluster" then place = text else own[name] = fields.value(name, text) end
    end
  elseif require("ett.operator.stack").exists(word) then
    own.stack = word
  else
    place = word
  end
  fields.one_cluster("compare", place)
  return own, place
end

--- Returns a function that makes a model and a plan. Its arguments are a file (nil: none), further fields of the plan
--- and a cluster. It raises if the plan of a file breaks a rule.
local function subjects(opts, words)
  if not (opts.megatron_args or opts.plan) then
    local texts, model = fields.subject("compare", opts, words)
    return function(_, own) return model, merged(fields.values(texts), own) end
  end
  local texts, hyper = trainer_files.sort("compare", opts, options.words(words, "compare"))
  local plan, values = fields.values(texts), fields.values(hyper)
  return function(file, own, cluster)
    local model, given, stated = trainer_files.read(file, merged(plan, own), values)
    trainer_files.wrap(file, stated, require("ett.plan").new, given, model, require("ett.profile.cluster").get(cluster))
    return model, given
  end
end

--- The two sides, of the words and of the files: each a model, a plan and a cluster.
local function two_sides(opts, sides, files, words)
  local each, list = #files > 1 and files or sides, {}
  if #files > 1 and #sides > 0 then
    error_module.raise("usage", "compare: the two files are the two sides already: omit '%s'", sides[1])
  elseif #each ~= 2 then
    error_module.raise("usage", "compare: give two sides, such as dgx_h100 dgx_b200, 'tp=8 dp=64' 'tp=4 dp=128' or "
      .. "two launch scripts, got %d", #each)
  end
  local subject = subjects(opts, words)
  for i = 1, 2 do
    local own, place = nil, opts.cluster
    if #files < 2 then own, place = side_of(sides[i], opts.cluster) end
    local model, plan
    if #files > 1 then
      model, plan = subject(files[i], own, place)
    else
      model, plan = error_module.wrap(i == 1 and "side A" or "side B", subject, files[1], own, place)
    end
    list[i] = { model = model, plan = plan, cluster = place }
  end
  return table.unpack(list)
end

--- Compares two plans, clusters or stacks line by line.
local function compare_sides(opts, sides, files, words)
  require "ett.cli.refuse"(opts, { "utilization", "overlap" },
    "compare: --%s applies to the ledger and the simple model only: give no sides")
  local compare = require "ett.search.compare"
  local c = compare.new(two_sides(opts, sides, files, words))
  local value = { fields = json.array(c.fields), totals = c.totals, lines = c.lines, memory = c.memory,
    fits = { a = c.a.fits, b = c.b.fits }, wide_because = json.array(c.wide_because), notes = json.array(c.notes) }
  if print_value(opts, value) then return end
  if not opts.quiet then return print(require("ett.base.pretty").plain(compare.text(c))) end
  for _, e in ipairs { c.a, c.b } do print(("%.17g"):format(e.step_seconds)) end
end

return {
  name = "compare",
  finds = true,
  sandbox = true,
  models = true, -- `--help NAME` describes a model
  offers = fields.offers,
  summary = "compare two plans, clusters or stacks; or compare the ledger, the simple model and ett predict",
  usage = "compare --model NAME|config.json --cluster NAME [A B] [NAME=VALUE ...]\n"
    .. "       ett compare --megatron-args FILE [--megatron-args FILE] [A B] [NAME=VALUE ...]",
  description = "Plan fields and hyper-parameters are words NAME=VALUE, as for `ett predict`.\n"
    .. "With two sides A and B, prints both estimates line by line, with the differences and their causes.\n"
    .. "Without sides, prints three views of one step: the ledger, the simple model and ett predict.\n"
    .. "A side is a cluster, a stack, or fields in one quoted word: 'tp=8 dp=64' 'tp=4 dp=128 cluster=dgx_b200'.\n"
    .. "A field of the plan given twice makes two sides: tp=4 tp=8.\n"
    .. "Two launch scripts or trainers' files are two sides. One file is the plan that the words and sides change.",
  hints = fields.hints(),
  options = {
    fields.model_option, megatron_option, plan_option,
    { "cluster", "NAME", "a cluster by name or file", default = fields.default_cluster },
    { "utilization", "U", "in the ledger and the simple model: fraction of the peak FLOP/s that products reach "
      .. ("(default %g)"):format(default_utilization), kind = "number", least = 1e-6, most = 1 },
    { "overlap", "F", "in the ledger and the simple model: fraction of the traffic that may overlap computing "
      .. "(default 1)", kind = "number", least = 0, most = 1 },
    { "json", "print JSON" },
    { "quiet", "print only the step time of each side or view, in seconds" },
  },
  run = function(opts, words)
    fields.one_cluster("compare", opts.cluster)
    local sides, others = sides_of(words)
    local files = trainer_files.list("compare", opts)
    if #sides > 0 or #files > 1 then return compare_sides(opts, sides, files, others) end
    local model, plan = subjects(opts, words)(files[1], nil, opts.cluster)
    local result = require("ett.search.views").new { model = model, plan = plan,
      cluster = opts.cluster, utilization = opts.utilization or default_utilization,
      overlap = opts.overlap or 1 }
    local value = { views = json.array(result.views), reasons = json.array(result.reasons), devices = result.devices,
      notes = json.array(result.notes), warnings = json.array(result.warnings) }
    if print_value(opts, value) then return end
    if opts.quiet then
      for _, view in ipairs(result.views) do print(("%.17g"):format(view.step_seconds)) end
    else
      print_table(result)
    end
  end,
}
