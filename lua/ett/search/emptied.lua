--- Explains why a search found no plan, and finds the nearest valid ones.
local explain = require "ett.search.explain"
local merged = require "ett.base.merged"
local objective = require "ett.search.objective"
local searched = require "ett.search.searched"
local space_module = require "ett.search.space"
local text = require "ett.search.text"

local emptied = {}

local function changed(own, changes) return merged(own, { keep = 1, journal = false, each = false }, changes) end

--- The best plan of a space under other arguments: as words, with its row and setting; nil: none.
local function best_of(self, own, space)
  local row = self.settle(space, own)[1]
  if not row then return nil end
  local setting = space.settings[row.setting]
  objective.prepare(setting, own)
  local words = text.plan(explain.plan(row, setting))
  if #own.devices > 1 or #own.clusters > 1 then
    words = ("%s, on %d x %s"):format(words, setting.devices, setting.cluster.name)
  end
  return words, row, setting
end

--- The fastest plan of a space built with changed arguments, as words; nil: none.
local function relaxed(self, changes)
  local own = changed(self.own, merged(changes, { objectives = { "step_seconds" } }))
  own.where = own.where or nil
  return (best_of(self, own, space_module.new(own)))
end

local function without(given, names)
  local left = merged(given)
  for _, name in ipairs(names) do left[name] = nil end
  return left
end

--- The multiples of a product that are nearest to a number of devices, as text; "" if that number is a multiple.
local function nearest_numbers(devices, product)
  local below = devices[1] // product * product
  if #devices > 1 or devices[1] == below then return "" end
  return below == 0 and ("; the nearest number is %d"):format(product)
    or ("; the nearest numbers are %d and %d"):format(below, below + product)
end

--- Degrees whose product is not the number of devices.
local function of_degrees(self)
  local given, product, words = {}, 1, {}
  for _, name in ipairs(searched.dividing) do
    local value = self.space.fixed[name]
    if value or self.space.lists[name] then given[#given + 1] = name end
    if value then
      product = product * value
      words[#words + 1] = ("%s = %d"):format(name, value)
    end
  end
  local why = "no values of tp, cp, pp and dp"
  if #words > 0 then why = table.concat(words, ", ") end
  local plan = relaxed(self, { plan = without(self.own.plan, given), vary = without(self.own.vary, given) })
  return ("no layout: %s on %s devices: tp * cp * pp * dp must equal the number of devices%s%s"):format(why,
    table.concat(self.own.devices, ", "), nearest_numbers(self.own.devices, product),
    plan and ("; the fastest plan without " .. table.concat(given, ", ") .. ": " .. plan) or "")
end

--- Layouts that all break a rule: the plan of the first field that may take other values.
local function of_rules(self, rule)
  for _, name in ipairs(searched.given) do
    if self.own.plan[name] ~= nil or self.own.vary[name] then
      local plan = relaxed(self, { plan = without(self.own.plan, { name }), vary = without(self.own.vary, { name }) })
      if plan then rule = ("%s; the fastest plan without %s: %s"):format(rule, name, plan) break end
    end
  end
  return "no layout: each one violates a rule; the first violation: " .. rule
end

--- A limit as the user gave it, with the value of a row.
local function limit_text(name, row)
  local units = { days = "%.4g days", budget = "%.4g dollars", kwh = "%.4g kWh" }
  return units[name]:format(row["run_" .. objective.limits[name]])
end

--- Limits of the run: those that no plan satisfies alone, else the first pair that no plan satisfies together.
local function of_limits(self)
  local names, missed = {}, {}
  for _, name in ipairs { "days", "budget", "kwh" } do if self.own[name] then names[#names + 1] = name end end
  local last
  for _, name in ipairs(names) do
    local changes = { days = false, budget = false, kwh = false, objectives = { objective.limits[name] } }
    changes.wants_energy = name == "kwh"
    local plan, row = best_of(self, changed(self.own, changes), self.space)
    if not plan then return nil end
    if row["run_" .. objective.limits[name]] > self.own[name] then
      missed[#missed + 1] = ("no plan meets the limit of %s, %.4g; the least is %s: %s"):format(name, self.own[name],
        limit_text(name, row), plan)
    end
    last = name
  end
  if #missed > 0 then return table.concat(missed, "; ") end
  local plan, row = best_of(self, changed(self.own, { [last] = false, objectives = { objective.limits[last] },
    wants_energy = self.own.wants_energy }), self.space)
  if not plan then return ("no plan meets the limits of %s together"):format(table.concat(names, ", ")) end
  return ("each limit alone can be met, but not %s together; under the other limits the least of %s is %s: %s"):format(
    table.concat(names, ", "), last, limit_text(last, row), plan)
end

-- The largest number of devices that is tried, as a multiple of the least number that may suffice.
local most_devices = 4

--- The fastest plan that fits without the headroom, the condition, or the given fields, or on more devices, as text.
---@param share number bytes of the smallest plan over those of a device
local function that_fits(self, share)
  local own, given, tries = self.own, {}, {}
  for _, name in ipairs(searched.given) do
    if own.plan[name] ~= nil or own.vary[name] then given[#given + 1] = name end
  end
  table.sort(given)
  if own.headroom > 0 then tries[1] = { "without the headroom", { headroom = 0 } } end
  if own.where then tries[#tries + 1] = { ("without --where '%s'"):format(own.where.text), { where = false } } end
  if given[1] then
    tries[#tries + 1] = { "without " .. table.concat(given, ", "),
      { plan = without(own.plan, given), vary = without(own.vary, given) } }
  end
  local least = math.max(table.unpack(own.devices)) << math.max(1, math.ceil(math.log(share, 2)))
  for factor = 0, math.log(most_devices, 2) do
    local devices = least << math.tointeger(factor)
    tries[#tries + 1] = { ("on %d devices"):format(devices), { devices = { devices } } }
  end
  for _, try in ipairs(tries) do
    local plan = relaxed(self, merged(try[2], { days = false, budget = false, kwh = false }))
    if plan then return ("; the fastest plan %s: %s"):format(try[1], plan) end
  end
  return ""
end

--- Layouts that all fail the condition.
---@param count integer? of them, if known
local function of_where(self, count)
  local plan = relaxed(self, { where = false })
  return ("no layout: --where '%s' refuses all%s valid ones%s"):format(self.own.where.text,
    count and " " .. text.count(count) or "", plan and ("; the fastest plan without it: " .. plan) or "")
end

--- Plans that exceed the memory.
local function of_memory(self)
  local own = self.own
  local plan, row, setting = best_of(self, changed(own, { objectives = { "memory_bytes" }, budget = false, days = false,
    kwh = false, headroom = -1e6 }), self.space)
  if not plan and own.where then return of_where(self) end
  if not plan then return of_rules(self, self.refusal or "the plans are refused") end
  local limit = setting.cluster.device.memory_bytes * (1 - own.headroom)
  if row.memory_bytes <= limit then
    return ("a run of %.4g tokens never ends: on %d devices, failures come before the next checkpoint"):format(
      own.tokens, setting.devices)
  end
  return ("no estimate is within the %.1f GB of a device%s; the least is %.1f GB: %s%s"):format(limit / 1e9,
    own.headroom > 0 and (" less the headroom of %g %%"):format(100 * own.headroom) or "", row.memory_bytes / 1e9, plan,
    that_fits(self, row.memory_bytes / limit))
end

--- The message.
---@param space table ett.search.space
---@param result table of the search: plans, ruled_out, first_rule
---@param own table the checked arguments of the search
---@param settle function(space, own) rows
function emptied.sentence(space, result, own, settle)
  local self = { space = space, own = own, settle = settle, refusal = result.effort.refusal }
  local plans, broken, refused = result.plans, result.ruled_out.rule, result.ruled_out.where
  if plans == 0 then return of_degrees(self) end
  if plans == broken + refused and refused > 0 then return of_where(self, refused) end
  if plans == broken then return of_rules(self, result.first_rule) end
  return (own.days or own.budget or own.kwh) and of_limits(self) or of_memory(self)
end

return emptied
