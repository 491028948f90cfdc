--- Exact search of layouts: branch and bound over a compiled model.
--
-- A searchable model is a file lua/ett/ledger/searchable/NAME.lua: { parameters =, describe(L, o) -> r,
-- variables(o) }: r has days, dollars, used (devices), limits (list of 1-or-0 expressions). Its optional unit(fixed)
-- says what a device is: { name = "pods", devices = 32, device = "H100" }. Its price names
-- the parameter with the dollars per device and hour.
-- A layout uses at most `devices` devices; with gap 0 the result is the optimum.
local by = require "ett.base.by"
local divisors = require "ett.base.divisors"
local error_module = require "ett.base.error"
local ledger = require "ett.ledger"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"
local timing = require "ett.ledger.timing"

local optimize = {}

optimize.models = { "pods", "simple" }
optimize.objectives = { "days", "dollars", "devices" }

function optimize.model(name)
  for _, known in ipairs(optimize.models) do
    if known == name then return require("ett.ledger.searchable." .. name) end
  end
  error_module.raise("missing", "unknown model '%s'%s; models: %s", tostring(name),
    error_module.suggestion(tostring(name), optimize.models), table.concat(optimize.models, ", "))
end

--- Sorted names of the parameters that a caller may set: neither the number of devices nor variables of the search.
---@param model table
function optimize.settable(model)
  local rest = merged(model.parameters, { devices = false })
  for _, group in ipairs { model.variables(model.parameters), table.unpack(model.choices and model.choices() or {}) } do
    for name in pairs(group) do rest[name] = false end
  end
  local names = {}
  for _, name in ipairs(schema.keys(rest)) do names[#names + 1] = rest[name] and name or nil end
  return names
end

local function check_settable(model, name)
  local known = optimize.settable(model)
  for _, other in ipairs(known) do if other == name then return end end
  if model.parameters[name] then
    error_module.raise("usage", "parameter '%s' cannot be set: the search chooses it%s", name,
      name == "devices" and ", at most the number of devices given" or "")
  end
  local near = error_module.suggestion(name, known)
  error_module.raise("usage", "unknown parameter '%s'%s", name,
    near ~= "" and near or "; parameters: " .. table.concat(known, ", "))
end

-- Raises if a given parameter has a value without meaning. Rates and sizes must be above 0. The model's `kinds` may
-- say otherwise, and a parameter whose default is 0 may be 0.
local function check_values(model, fixed)
  local rules, kinds = {}, model.kinds or {}
  for name in pairs(fixed) do
    rules[name] = kinds[name] or model.parameters[name] == 0 and "nonnegative" or "positive"
  end
  local faults = schema.violations(fixed, rules)
  if #faults > 0 then error_module.raise("usage", "optimize: %s",
    (table.concat(faults, "; "):gsub("field", "parameter"))) end
end

--- Compiles a model for one objective and its limits. The object can run many searches.
--
-- spec: model (name or table), objective ("days", "dollars", "devices"), limits
-- ({ days =, dollars = } upper bounds), fixed (parameters).
function optimize.new(spec)
  local model = type(spec.model) == "table" and spec.model or optimize.model(spec.model or "pods")
  local L = ledger.new()
  local o, fixed = {}, spec.fixed or {}
  for _, name in ipairs(schema.keys(fixed)) do check_settable(model, name) end
  check_values(model, fixed)
  for _, name in ipairs(schema.keys(model.parameters)) do
    o[name] = L:parameter(name, fixed[name] or model.parameters[name])
  end
  -- Limits on time and money are parameters, so that one program serves all limits.
  local most = {}
  for _, name in ipairs { "days", "dollars" } do
    most[name] = L:parameter("most_" .. name, spec.limits and spec.limits[name] or 1e300)
  end
  local r = model.describe(L, o)
  local objective = spec.objective or "days"
  local value = ({ days = r.days, dollars = r.dollars, devices = r.used })[objective]
  if not value then
    error_module.raise("argument", "objective must be one of %s, got '%s'", table.concat(optimize.objectives, ", "),
      tostring(objective))
  end
  local search = { ["1 objective"] = value, ["3 days"] = ledger.le(r.days, most.days),
    ["3 dollars"] = ledger.le(r.dollars, most.dollars) }
  for i, limit in ipairs(r.limits) do search["2 limit " .. i] = limit end
  local report = { days = r.days, dollars = r.dollars, devices_used = r.used, utilization = r.utilization,
    memory_bytes = r.memory_bytes }
  for name, phase in pairs(r.phases) do
    for field, seconds in pairs(phase) do
      report["phase/" .. name .. "/" .. (field == "seconds" and "total" or field)] = seconds
    end
  end
  return setmetatable({ model = model, fixed = fixed, objective = objective,
    unit = model.unit and model.unit(fixed) or { name = "devices" }, searcher = L:compile(search),
    most_days = spec.limits and spec.limits.days or math.huge, reporter = L:compile(report) }, { __index = optimize })
end

--- "776 pods of 32 H100 (24832 H100)", or "776 devices".
function optimize:counted(devices)
  local text = ("%d %s"):format(devices, self:unit_text())
  local unit = self.unit
  return unit.devices and ("%s (%d %s)"):format(text, devices * unit.devices, unit.device) or text
end

--- "pods of 32 H100", or "devices".
function optimize:unit_text()
  local unit = self.unit
  return unit.devices and ("%s of %d %s"):format(unit.name, unit.devices, unit.device) or unit.name
end

--- Time of each phase of a layout: { seconds=, compute=, memory=, network=, bound_by=, fraction= }.
local function phases_of(values)
  local phases, total = {}, 0
  for key, seconds in pairs(values) do
    local name, field = key:match("^phase/([^/]+)/(%w+)$")
    if name then
      phases[name] = phases[name] or {}
      phases[name][field == "total" and "seconds" or field] = seconds
      if field == "total" then total = total + seconds end
    end
  end
  for _, phase in pairs(phases) do
    phase.fraction = total > 0 and phase.seconds / total or 0
    phase.bound_by = timing.bound_by(phase.compute, phase.memory, phase.network)
  end
  return phases
end

--- Evaluates the model for one layout (a table of variables) on at most `devices` devices.
function optimize:evaluate(layout, devices, fixed)
  local values = merged(fixed, layout, { devices = devices })
  values.most_days, values.most_dollars = nil, nil
  local r = self.reporter:evaluate(values)
  return { days = r.days, dollars = r.dollars, devices_used = math.tointeger(r.devices_used) or r.devices_used,
    utilization = r.utilization, utilization_of_all = r.utilization * r.devices_used / devices,
    memory_bytes = r.memory_bytes, phases = phases_of(r), unit = self:unit_text(), unit_devices = self.unit.devices }
end

--- Variables for layouts whose factors, whole numbers, multiply to `product`: each factor divides it. With all numbers
--- as values, a search visits millions of boxes that hold no such layout. nil: no layout has that product.
local function exact(variables, product)
  product = math.tointeger(product)
  if not product then return nil end
  local own = {}
  for name, v in pairs(variables) do
    own[name] = v
    if v.factor and not v.real then
      local list = {}
      if v.values then
        for _, value in ipairs(v.values) do if product % value == 0 then list[#list + 1] = value end end
      else
        list = divisors(product, v.high)
      end
      if #list == 0 then return nil end
      own[name] = { values = list, factor = true }
    end
  end
  return own
end

--- The best layout on at most `devices` devices. options: exact_devices (use all devices), gap, boxes, fixed, real
--- (fractional degrees: a bound for all layouts), progress = function(number of searches by this object, boxes, best,
--- bound). Returns { found=, proven=, best=, bound=, gap=, layout=, days=, ... } with the fields of evaluate.
function optimize:best(devices, options)
  options = options or {}
  local fixed, o = merged({ devices = devices }, options.fixed), {}
  for name, value in pairs(self.model.parameters) do o[name] = fixed[name] or self.fixed[name] or value end
  local found = { found = false, proven = true, best = math.huge, bound = math.huge, boxes = 0, evaluations = 0 }
  self.searches = (self.searches or 0) + 1
  local tell = options.progress and function(boxes, best, bound)
    options.progress(self.searches, found.boxes + boxes, math.min(best, found.best), math.min(bound, found.bound))
  end
  local product = self.model.product and self.model.product(o) or devices
  local variables = self.model.variables(o, options)
  if options.exact_devices then variables = exact(variables, product) end
  for _, choice in ipairs(variables and (self.model.choices and self.model.choices(o) or { {} }) or {}) do
    local s = self.searcher:search { variables = variables, fixed = merged(fixed, choice), product_limit = product,
      product_equal = options.exact_devices or false, gap = options.gap or 0,
      boxes = options.boxes or 2000000, tolerance = 1e-6, cutoff = found.best, progress = tell }
    found.boxes, found.evaluations = found.boxes + s.boxes, found.evaluations + s.evaluations
    found.proven = found.proven and s.proven
    found.bound = math.min(found.bound, s.bound)
    if s.found and s.best < found.best then
      found.found, found.best, found.layout = true, s.best, merged(s.point, choice)
    end
  end
  if tell then tell(0, found.best, found.bound) end
  found.devices = devices
  if not found.found then return found end
  found.gap = found.best == 0 and 0.0 or (found.best - found.bound) / math.abs(found.best) -- 0: without a price
  return merged(found, self:evaluate(found.layout, devices, fixed))
end

--- Best layouts for many device counts: the results of best() that found a layout.
function optimize:sweep(counts, options)
  local results = {}
  for _, devices in ipairs(counts) do
    local best = self:best(devices, options)
    if best.found then results[#results + 1] = best end
  end
  return results
end

--- Effect of each quantity of the model's `sensitivities` on the optimum: a new search with the quantity multiplied by
--- `factor`. A list of { name, factor, days, utilization, dollars (changes as fractions), layout }; found = false if no
--- layout remains.
---@param base table? result of best() for these devices
function optimize:sensitivities(devices, options, base)
  local list = {}
  base = base or self:best(devices, options)
  if not base.found then return list, base end
  for i, change in ipairs(self.model.sensitivities or {}) do
    local name, factor = change[1], change[2]
    local value = (options and options.fixed or {})[name] or self.fixed[name] or self.model.parameters[name]
    local there
    if name == "devices" then
      there = self:best(math.floor(devices * factor + 0.5), options)
    else
      local fixed = merged(options and options.fixed, { [name] = value * factor })
      there = self:best(devices, merged(options, { fixed = fixed }))
    end
    list[i] = { name = name, factor = factor, found = there.found, layout = there.layout }
    if there.found then
      for _, field in ipairs { "days", "utilization", "dollars" } do
        list[i][field] = base[field] == 0 and 0.0 or there[field] / base[field] - 1
      end
    end
  end
  return list, base
end

--- The Pareto-optimal results in the fields `x` and `y`; both are minimised.
function optimize.pareto(results, x, y)
  x, y = x or "devices_used", y or "days"
  local order = table.move(results, 1, #results, 1, {})
  table.sort(order, by(x, y))
  local front, least = {}, math.huge
  for _, result in ipairs(order) do
    if result[y] < least then front[#front + 1], least = result, result[y] end
  end
  return front
end

--- Fixed values of a search that allows at most `days`, or at most the days of the object's own limit.
local function in_days(self, days, options, fixed)
  local all = merged(options and options.fixed, fixed)
  all.most_days = math.min(days, self.most_days)
  return all
end

--- Whether some layout of at most `devices` devices takes at most `days`. A gap of nearly 1 stops the search at
--- the first such layout.
local function within(self, devices, days, options, fixed)
  local all = in_days(self, days, options, fixed)
  return self:best(devices, merged(options, { fixed = all, gap = 1 - 1e-9 })).found
end

-- Boxes of a short search. It mostly finds a layout within some tens of boxes. It does not prove that there is none:
-- the proof takes most of the time of a full search.
local few_boxes = 1000

--- The minimum number of devices that finish within `days`; nil and the best result on `most` devices if none suffices.
--- exact_devices does not change the number: a layout that uses fewer devices than allowed is found at its own number.
function optimize:fewest_devices(days, most, options)
  options = merged(options, { exact_devices = false })
  local short = merged(options, { boxes = few_boxes })
  local low, high = 1, 1 -- the number is at least low, if the short searches missed nothing, and at most high
  while high < most and not within(self, high, days, short) do
    low, high = high + 1, math.min(2 * high, most)
  end
  if high == most and not within(self, most, days, options) then return nil, self:best(most, options) end
  -- More devices allowed never make the best time longer, so bisection finds the number.
  local function bisect(from, searching)
    while from < high do
      local middle = (from + high) // 2
      if within(self, middle, days, searching) then high = middle else from = middle + 1 end
    end
  end
  bisect(low, short)
  -- One full search with a device less proves the number for all below. If it finds a layout, the short ones missed it.
  if high > 1 and within(self, high - 1, days, options) then
    high = high - 1
    bisect(1, options)
  end
  return self:best(high, merged(options, { fixed = in_days(self, days, options) }))
end

--- The minimum network bandwidth (bytes/s, to the gap or 1e-6) at which `devices` devices can reach `utilization` of
--- their peak; nil and the result at a bandwidth of 1e18 if they cannot.
function optimize:least_bandwidth(utilization, devices, options)
  local key = self.model.bandwidth
  -- Days times utilization is constant, so any layout gives the product.
  local any = self:evaluate({}, devices)
  local days = any.days * any.utilization_of_all / utilization
  local low, high, apart = 1e3, 1e18, math.max(1e-6, options and options.gap or 0)
  if not within(self, devices, days, options, { [key] = high }) then
    local fixed = merged(options and options.fixed, { [key] = high })
    return nil, self:best(devices, merged(options, { fixed = fixed, gap = 1e-3 }))
  end
  if within(self, devices, days, options, { [key] = low }) then
    error_module.raise("limit", "optimize: %g bytes/s, the least bandwidth searched, gives %s more than %g of their "
      .. "peak", low, self:counted(devices), utilization)
  end
  while high > low * (1 + apart) do
    local middle = math.sqrt(low * high)
    if within(self, devices, days, options, { [key] = middle }) then high = middle else low = middle end
  end
  return high, self:best(devices, merged(options, { fixed = in_days(self, days, options, { [key] = high }) }))
end

--- Integer device counts from low to high, `per_octave` per doubling.
function optimize.counts(low, high, per_octave)
  local counts, last = {}, 0
  for i = 0, math.huge do
    local n = math.floor(low * 2 ^ (i / (per_octave or 2)) + 0.5)
    if n > high then break end
    if n > last then counts[#counts + 1], last = n, n end
  end
  return counts
end

return optimize
