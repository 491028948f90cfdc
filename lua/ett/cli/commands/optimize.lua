--- `ett optimize`: the proven optimal layout for a budget and a number of devices; also inverse questions, sweeps,
--- Pareto fronts and figures. The search is ett.ledger.optimize.
local error_module = require "ett.base.error"
local figures = require "ett.ledger.figures"
local optimize = require "ett.ledger.optimize"
local options_module = require "ett.base.options"
local tables = require "ett.report.table"

local function number_list(text, what)
  local list = {}
  for word in text:gmatch("[^,]+") do
    local value = options_module.number(word)
    if not value or value < 1 or not math.tointeger(value) then
      error_module.raise("usage", "optimize: %s must be whole numbers separated by commas, got '%s'", what, word)
    end
    list[#list + 1] = math.tointeger(value)
  end
  if #list == 0 then
    error_module.raise("usage", "optimize: %s must be whole numbers separated by commas, got '%s'", what, text)
  end
  return list
end

-- The largest number of devices, as in `ett search`. A search with 2^31 pods, and its sensitivities, took 10 s.
local most_devices = 1 << 24

--- Parses `low:high`, `low:high:per_octave` or a list.
local function counts_of(text)
  local low, high, per = text:match("^([^:,]+):([^:,]+):?([^:,]*)$")
  if not low then return number_list(text, "--devices") end
  low, high = options_module.number(low), options_module.number(high)
  per = per == "" and 2 or options_module.number(per)
  if not low or not high or not per or low < 1 or high < low or per <= 0 then
    error_module.raise("usage", "optimize: --devices must be N, N,M,... or LOW:HIGH[:PER_OCTAVE], got '%s'", text)
  end
  if per > 1000 then
    error_module.raise("usage", "optimize: --devices takes at most 1000 numbers per octave, got '%s'", text)
  end
  return optimize.counts(low, math.min(high, 2 * most_devices), per)
end

local function device_counts(text)
  local counts = counts_of(text)
  for _, count in ipairs(counts) do
    if count > most_devices then
      error_module.raise("usage", "optimize: --devices must be at most %d, got '%s'", most_devices, text)
    end
  end
  return counts
end

local function assignments(positional)
  local fixed = {}
  for name, text in pairs(options_module.words(positional, "optimize")) do
    fixed[name] = options_module.number(text)
    if not fixed[name] then
      error_module.raise("usage", "optimize: '%s=%s' must be parameter=number", name, text)
    end
  end
  return fixed
end

local order = { "pp", "pipeline_interleaving", "dp", "tp", "tp2", "tp_hidden", "tp_residual", "microbatch_size",
  "microbatches", "recompute" }

local function layout_text(layout)
  local words = {}
  for _, name in ipairs(order) do
    if layout[name] then
      words[#words + 1] = ("%s=%s"):format(name, math.type(layout[name]) == "integer" and layout[name]
        or ("%.3g"):format(layout[name]))
    end
  end
  return table.concat(words, " ")
end

local function bound_by(result)
  local best
  for _, name in ipairs(figures.phase_names(result.phases)) do
    local phase = result.phases[name]
    if not best or phase.seconds > best.seconds then best = phase end
  end
  return best and best.bound_by or "-"
end

local function print_sensitivities(list, unit)
  local rows = { { "SENSITIVITIES, new searches", "days", "util", "dollars", "layout" } }
  for i, row in ipairs(list) do
    rows[i + 1] = { ("%s x %g"):format(row.name == "devices" and unit.name or row.name, row.factor), "-", "-", "-",
      "no layout" }
    if row.found then
      for k, name in ipairs { "days", "utilization", "dollars" } do
        rows[i + 1][k + 1] = ("%+.2f %%"):format(row[name] * 100)
      end
      rows[i + 1][5] = layout_text(row.layout)
    end
  end
  print("\n" .. tables.text(rows, "lrrrl"))
end

-- Layouts below this fraction of the peak are warned of.
local low_utilization = 0.05

--- "below 5 % of the peak: 98787 pods (0.71 %)"; nil if no layout is.
local function too_many(results, unit)
  local words = {}
  for _, r in ipairs(results) do
    if r.utilization < low_utilization then
      words[#words + 1] = ("%.8g %s (%.2g %%)"):format(r.devices_used, unit.name, 100 * r.utilization)
    end
  end
  return #words > 0 and ("below %g %% of the peak: %s"):format(100 * low_utilization, table.concat(words, ", ")) or nil
end

local function print_table(results, unit, price)
  local rows = { { unit.name, "used", "days", "util", "dollars", "bound by", "layout" } }
  if unit.devices then table.insert(rows[1], 3, unit.device) end
  for i, r in ipairs(results) do
    rows[i + 1] = { ("%d"):format(r.devices), ("%.6g"):format(r.devices_used), ("%.2f"):format(r.days),
      ("%.4f"):format(r.utilization), ("%.4g"):format(r.dollars), bound_by(r),
      layout_text(r.layout) .. (r.gap > 1e-12 and ("  (gap %.3g)"):format(r.gap) or "") }
    if unit.devices then table.insert(rows[i + 1], 3, ("%.8g"):format(r.devices_used * unit.devices)) end
  end
  print(tables.text(rows, unit.devices and "rrrrrrll" or "rrrrrll"))
  print(("price: %s = %g (%s)"):format(price.parameter, price.dollars, price.source))
  local warning = too_many(results, unit)
  if warning then print("warning: " .. warning) end
  for _, r in ipairs(results) do
    if r.sensitivities then print_sensitivities(r.sensitivities, unit) end
  end
end

-- Fields of a run, named as in `ett predict`.
local of_run = { days = "run_days", dollars = "run_dollars" }

--- A result for JSON: finite numbers, units in the field names.
local function for_json(result, price)
  local doc = { bound_by = bound_by(result), price_per_device_hour = price.dollars, price_source = price.source }
  for name, value in pairs(result) do
    if value ~= math.huge and value ~= -math.huge then doc[of_run[name] or name] = value end
  end
  doc.phases = {}
  for name, p in pairs(result.phases) do
    doc.phases[name] = { seconds = p.seconds, fraction = p.fraction, bound_by = p.bound_by,
      compute_seconds = p.compute, memory_seconds = p.memory, network_seconds = p.network }
  end
  if result.sensitivities then
    doc.sensitivities = {}
    for i, row in ipairs(result.sensitivities) do
      doc.sensitivities[i] = { name = row.name, factor = row.factor, found = row.found, layout = row.layout,
        run_days_change = row.days, utilization_change = row.utilization, run_dollars_change = row.dollars }
    end
  end
  return doc
end

--- Shows results.
---@param price table { parameter, dollars, source }
local function show(opts, results, unit, price)
  if opts.json then
    local docs = {}
    for i, result in ipairs(results) do docs[i] = for_json(result, price) end
    require "ett.cli.print_value"(opts, { rows = docs }, "rows")
  elseif opts.quiet then
    for _, r in ipairs(results) do print(layout_text(r.layout)) end
  else
    print_table(results, unit, price)
  end
end

local function none(opts, search, devices)
  error_module.raise("limit", "optimize: no layout of %s %s meets the limits of model '%s'%s",
    opts.exact_devices and "exactly" or "at most", search:counted(devices), opts.model,
    opts.max_days and (" and %g days"):format(opts.max_days) or "")
end

local front_fields = { days = "days", dollars = "dollars", devices = "devices_used" }

--- The two fields of `--pareto FIELD[,FIELD]`; the default of the second is devices.
local function front_of(text)
  local words = {}
  for word in text:gmatch("[^,]+") do words[#words + 1] = word end
  if #words == 1 then table.insert(words, 1, "devices") end
  if #words == 0 then words[1] = text end -- no field
  for i, word in ipairs(words) do
    if #words ~= 2 or not front_fields[word] or words[1] == words[2] then
      error_module.raise("usage", "optimize: --pareto must be one or two of days, dollars, devices, got '%s'%s", text,
        error_module.suggestion(word, optimize.objectives))
    end
    words[i] = front_fields[word] and word
  end
  return front_fields[words[1]], front_fields[words[2]]
end

--- Sets parameters of the simple model from a cluster's device, links and price, unless given. A given latency is also
--- that of a node, as in ett simple-transformer.
---@return table fixed
---@return string source of the price
local function on_cluster(opts, fixed)
  local given = fixed[optimize.model(opts.model).price] and "given"
  if opts.model == "simple" and fixed.node_latency_seconds == nil then
    fixed.node_latency_seconds = fixed.latency_seconds
  end
  if not opts.cluster then return fixed, given or "default" end
  if opts.model ~= "simple" then
    error_module.raise("usage", "optimize: --cluster needs --model simple")
  end
  local chip = require "ett.cli.named"(require("ett.ledger.links").chip, opts.cluster)
  local facts = { chip_flops = chip.flops, chip_memory = chip.memory, chip_capacity = chip.capacity,
    chip_network = chip.network, node_network = chip.node_network, node_chips = chip.node_chips,
    latency_seconds = chip.latency_seconds, node_latency_seconds = chip.node_latency_seconds,
    chip_dollars_per_hour = chip.dollars_per_hour }
  for name, value in pairs(facts) do if fixed[name] == nil then fixed[name] = value end end
  return fixed, given or chip.dollars_per_hour and (chip.price_source or "of the cluster")
    or ("assumed: the cluster '%s' has no price"):format(chip.cluster)
end

--- Search options with a progress line, and a function that ends the line and returns its arguments.
local function watched(settings, quiet)
  local line = require("ett.cli.progress").line(quiet)
  function settings.progress(searches, boxes, best, bound)
    line("search %d, %d boxes: %sat least %.6g", searches, boxes,
      best < math.huge and ("the best %.6g, "):format(best) or "", bound)
  end
  return settings, function(...)
    line()
    return ...
  end
end

-- The default gap of --real, and the smallest allowed one: with 1e-6, sensitivities took 9 s, with 1e-300 17 s.
local real_gap, least_real_gap = 0.005, 1e-4

local function gap_of(opts)
  if not opts.real then return opts.gap end
  if opts.gap > 0 and opts.gap < least_real_gap then
    error_module.raise("usage", "optimize: --gap must be at least %g with --real, got %g", least_real_gap, opts.gap)
  end
  return opts.gap > 0 and opts.gap or real_gap
end

local default_devices = "1024"

--- "budget_flop=4e+26", … of a model, each with its default.
local function parameter_words(name)
  local model, words = optimize.model(name), {}
  for i, parameter in ipairs(optimize.settable(model)) do
    words[i] = ("%s=%.6g"):format(parameter, model.parameters[parameter])
  end
  return words
end

local function description(opts)
  local parts = { [[
Searches all whole-number layouts by branch and bound. The result is the optimum of the model, unless a gap is printed.
The model pods has a budget of FLOP, and its devices are pods of 32 H100. The model simple is the corrected
model of `ett simple-transformer`, with a limit of memory.
The price is device_dollars_per_hour of a pod (pods, default 96), or chip_dollars_per_hour of a device (simple,
default the cluster's, else 3).]] }
  for _, name in ipairs(opts.model and { opts.model } or optimize.models) do
    parts[#parts + 1] = ("\nparameters of %s with their defaults:"):format(name)
    local most = math.min(require("ett.host").columns or 100, 100) - 2
    for _, line in ipairs(tables.words_within(table.concat(parameter_words(name), " "), most)) do
      parts[#parts + 1] = "  " .. line
    end
  end
  return table.concat(parts, "\n")
end

local function run(opts, positional)
  local front_x, front_y
  if opts.pareto then front_x, front_y = front_of(opts.pareto) end
  local fixed, source = on_cluster(opts, assignments(positional))
  -- --days finds the number of devices first, --exact-devices gives it. The fastest layout on that number is shown.
  local devices_known = opts.days or opts.exact_devices
  local objective = devices_known and opts.objective == "devices" and "days" or opts.objective
  local search = optimize.new { model = opts.model, objective = objective, fixed = fixed,
    limits = { days = opts.max_days, dollars = opts.max_dollars } }
  local parameter = search.model.price
  local price = { parameter = parameter, source = source, dollars = fixed[parameter]
    or search.model.parameters[parameter] }
  local settings, done = watched({ gap = gap_of(opts), exact_devices = opts.exact_devices, real = opts.real },
    opts.quiet)
  if opts.days then
    local most = opts.devices and device_counts(opts.devices)
    local found, best = done(search:fewest_devices(opts.days, most and most[#most] or 100000, settings))
    if not found then
      local layout = objective == "days" and "fastest layout" or "cheapest layout"
      error_module.raise("limit", "optimize: %g days cannot be reached with at most %s%s", opts.days,
        search:counted(most and most[#most] or 100000),
        best.found and ("; the %s takes %.2f days"):format(layout, best.days) or "")
    end
    if not found.found then none(opts, search, found.devices) end
    show(opts, { found }, search.unit, price)
    return 0
  end
  local counts = device_counts(opts.devices or default_devices)
  if opts.utilization then
    local bandwidth, best = done(search:least_bandwidth(opts.utilization, counts[1], settings))
    if not best.found then none(opts, search, counts[1]) end
    if not bandwidth then
      error_module.raise("limit", "optimize: no bandwidth gives %s %g of their peak; the best is %.4f",
        search:counted(counts[1]), opts.utilization, best.utilization_of_all)
    end
    if not (opts.json or opts.quiet) then
      print(("least bandwidth: %.6g bytes/s, for %.4g of the peak of %s; util is that of the devices used"):format(
        bandwidth, best.utilization_of_all, search:counted(counts[1])))
    end
    best.bandwidth_bytes_per_second = bandwidth
    show(opts, { best }, search.unit, price)
    return 0
  end
  local results = done(search:sweep(counts, settings))
  if #results == 0 then none(opts, search, counts[#counts]) end
  if front_x then results = optimize.pareto(results, front_x, front_y) end
  if opts.sensitivities then
    for _, result in ipairs(results) do
      result.sensitivities = done(search:sensitivities(result.devices, settings, result))
    end
  end
  show(opts, results, search.unit, price)
  if opts.svg then require "ett.cli.wrote"(opts, table.unpack(figures.write(opts.svg, results, opts.model))) end
end

return {
  name = "optimize",
  finds = true,
  sandbox = true,
  summary = "find the best layout for a budget of FLOP and a number of devices, with proof",
  usage = "optimize [--model pods|simple] [--devices N | N,M | LOW:HIGH[:PER_OCTAVE]] [parameter=number ...]",
  description = description,
  options = {
    { "model", "NAME", "model to search", choices = optimize.models, default = "pods" },
    { "cluster", "NAME", "cluster whose device, links and price the simple model takes" },
    { "devices", "N", ("at most N devices or pods; N,M and LOW:HIGH are sweeps, LOW:HIGH with 2 numbers or "
      .. "PER_OCTAVE numbers per doubling (default %s)"):format(default_devices) },
    { "objective", "WHAT", "quantity to minimise", choices = optimize.objectives, default = "days" },
    { "max-days", "D", "allow only layouts that take at most D days", kind = "positive" },
    { "max-dollars", "D", "allow only layouts that cost at most D dollars", kind = "positive" },
    { "days", "D", "find the fewest devices or pods that finish in D days", kind = "positive" },
    { "utilization", "U", "find the least network bandwidth with which all devices reach this fraction of their peak",
      kind = "positive", most = 1 },
    { "exact-devices", "use exactly the given number of devices, not fewer" },
    { "real", "with pods: allow degrees that are not whole; no whole layout is better than the result" },
    { "gap", "G", "stop when no layout can be better by more than this fraction (with --real, 0 means 0.005)",
      kind = "number", least = 0, most = 1, default = 0 },
    { "pareto", "FIELD", "print only Pareto-optimal rows of a sweep; fields: days, dollars, devices (default)" },
    { "sensitivities", "print the effect of more bandwidth, memory, FLOP/s, batch and devices; each is a new search" },
    { "svg", "PREFIX", "write figures of a sweep: PREFIX-degrees.svg, -phases.svg and -resources.svg", writes = true },
    { "json", "print JSON" },
    { "quiet", "print the layouts only" },
  },
  run = run,
}
