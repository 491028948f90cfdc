--- Compares two plans, clusters or stacks: differences of their steps, line by line.
--
--   local c = compare.new({ model = model, cluster = "dgx_h100", plan = plan },
--     { model = model, cluster = "dgx_b200", plan = plan })
--   c.lines[1].name, c.lines[1].difference_seconds
local by = require "ett.base.by"
local error_module = require "ett.base.error"
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local memory = require "ett.step.memory"
local plan_fields = require "ett.plan.fields"
local schema = require "ett.base.schema"
local tables = require "ett.report.table"

local compare = {}

--- Lines of an estimate by name: seconds per device, runs per micro-batch, micro-batches.
local function lines_of(e)
  local list = { ["bubble and waits"] = { seconds = e.idle_seconds } }
  for _, lines in ipairs { e.operators, e.collectives } do
    for _, line in ipairs(lines) do
      local name = line.name .. (line.group and (" (%s)"):format(line.group) or "")
      local known = list[name] or { seconds = 0.0, hidden = 0.0 }
      known.seconds = known.seconds + line.seconds
      known.hidden = known.hidden + (line.overlapped_seconds or 0.0)
      if line.runs_per_micro_batch then
        known.runs = (known.runs or 0.0) + line.runs_per_micro_batch * e.plan.micro_batches / e.plan.pp
      end
      list[name] = known
    end
  end
  return list
end

--- Reason for a difference: number of runs, time per run, hidden time.
local function reason(a, b)
  if not a then return "only in B" end
  if not b then return "only in A" end
  local words = {}
  local function ratio(name, x, y)
    if x and y and x > 0 and y > 0 and math.abs(y / x - 1) > 0.005 then
      words[#words + 1] = ("%s x %.2f"):format(name, y / x)
    end
  end
  ratio("runs", a.runs, b.runs)
  if a.runs and b.runs and a.runs > 0 and b.runs > 0 then
    ratio("time per run", a.seconds / a.runs, b.seconds / b.runs)
  else
    ratio("time", a.seconds, b.seconds)
  end
  if math.abs((a.hidden or 0) - (b.hidden or 0)) > 1e-6 then
    words[#words + 1] = ("hidden %.1f ms, %.1f ms"):format(1e3 * (a.hidden or 0), 1e3 * (b.hidden or 0))
  end
  return table.concat(words, ", ")
end

--- A table as text, another value as it is.
local function plain(value)
  if type(value) ~= "table" then return value end
  local flat = value[1] ~= nil and type(value[1]) ~= "table"
  return flat and tables.value(value) or require("ett.base.pretty").inline(value)
end

-- Field, title and unit of each total.
local totals = { { "step_seconds", "step ms", 1e-3 }, { "low_seconds", "interval from ms", 1e-3 },
  { "high_seconds", "interval to ms", 1e-3 }, { "tokens_per_second_per_device", "tokens/s per device" },
  { "mfu_percent", "MFU %" }, { "bubble_percent", "bubble %" }, { "memory_bytes", "memory GB", 1e9 },
  { "devices", "devices" }, { "dollars_per_billion_tokens", "USD per billion tokens" },
  { "kwh_per_step", "kWh per step" }, { "goodput_percent", "goodput %" }, { "run_days", "days" },
  { "run_dollars", "USD" }, { "run_kwh", "MWh", 1e3 } }

--- Bytes by kind of the fullest stage of both estimates, sorted by their difference.
local function memory_of(x, y)
  local list, of_name = {}, {}
  for _, side in ipairs { { x, "a_bytes" }, { y, "b_bytes" } } do
    for _, line in ipairs(side[1].memory) do
      local own = of_name[line.name]
      if not own then
        own = { name = line.name, a_bytes = 0.0, b_bytes = 0.0 }
        of_name[line.name], list[#list + 1] = own, own
      end
      own[side[2]] = own[side[2]] + line.bytes
    end
  end
  for _, own in ipairs(list) do own.difference_bytes = own.b_bytes - own.a_bytes end
  table.sort(list, by(function(own) return -math.abs(own.difference_bytes) end, "name"))
  return list
end

--- A note if the run of one side contains failures and that of the other leaves them out; else nil.
local function unlike_runs(x, y)
  local function without(e) return not (e.goodput_percent or e.plan.failures_per_device_day) end
  if not (x.run_days and y.run_days) or without(x) == without(y) then return nil end
  local names = without(x) and { "B", "A" } or { "A", "B" }
  return ("the run of %s contains failures, checkpoints and restarts, that of %s leaves them out, because their rate "
    .. "is unknown; failures_per_device_day=N sets it"):format(table.unpack(names))
end

--- Adds the sentences of both sides; of one side alone, with its letter.
local function add_both(list, of_x, of_y)
  local whose = {}
  for _, text in ipairs(of_y) do whose[text] = "B: " end
  for _, text in ipairs(of_x) do
    list[#list + 1] = (whose[text] and "" or "A: ") .. text
    whose[text] = nil
  end
  for _, text in ipairs(of_y) do list[#list + 1] = whose[text] and whose[text] .. text end
end

--- The differing values of two tables, sorted by name.
local function differing(x, y)
  local names, list = {}, {}
  for _, own in ipairs { x, y } do for name in pairs(own) do names[name] = true end end
  for _, name in ipairs(schema.keys(names)) do
    local p, q = plain(x[name]), plain(y[name])
    if p ~= q then list[#list + 1] = { name = name, a = p, b = q } end
  end
  return list
end

--- The differing names and hyper-parameters of two models, and fields of two plans.
local function fields_of(x, y)
  local list = {}
  if x.cluster ~= y.cluster then list[1] = { name = "cluster", a = x.cluster, b = y.cluster } end
  for _, own in ipairs { differing({ model = x.model.name }, { model = y.model.name }),
    differing(x.model.hyper, y.model.hyper), differing(merged(x.plan, { stack = x.stack }),
      merged(y.plan, { stack = y.stack })) } do
    table.move(own, 1, #own, #list + 1, list)
  end
  return list
end

--- Compares two estimates.
---@param a table arguments of ett.estimate
---@return table { a, b = estimates, fields = differing hyper-parameters and plan fields, totals, lines and memory
--- sorted by difference, wide_because = reasons for wide intervals, notes }; a total that one side lacks has only the
--- other's value
function compare.new(a, b)
  local x = error_module.wrap("side A", estimate.new, a)
  local y = error_module.wrap("side B", estimate.new, b)
  local self = { a = x, b = y, fields = fields_of(x, y), totals = {}, lines = {}, wide_because = {} }
  for _, total in ipairs(totals) do
    local name = total[1]
    if x[name] or y[name] then
      self.totals[#self.totals + 1] = { name = name, a = x[name], b = y[name],
        percent = x[name] and y[name] and x[name] ~= 0 and 100 * (y[name] / x[name] - 1) or nil }
    end
  end
  local left, right, all = lines_of(x), lines_of(y), {}
  for _, lines in ipairs { left, right } do for name in pairs(lines) do all[name] = true end end
  for _, name in ipairs(schema.keys(all)) do
    local p, q = left[name], right[name]
    self.lines[#self.lines + 1] = { name = name, a_seconds = p and p.seconds or 0.0, b_seconds = q and q.seconds or 0.0,
      difference_seconds = (q and q.seconds or 0.0) - (p and p.seconds or 0.0), why = reason(p, q) }
  end
  self.memory = memory_of(x, y)
  self.notes = plan_fields.decimals({ x.plan.seq, y.plan.seq }, x.model.hyper)
  self.notes[#self.notes + 1] = unlike_runs(x, y)
  add_both(self.notes, a.model.notes or {}, b.model.notes or {})
  add_both(self.notes, estimate.cautions(x), estimate.cautions(y))
  add_both(self.wide_because, x.wide_because, y.wide_because)
  table.sort(self.lines, by(function(line) return -math.abs(line.difference_seconds) end, "name"))
  return self
end

local title_of = {}
for _, total in ipairs(totals) do title_of[total[1]] = { total[2], total[3] or 1 } end

function compare.text(c)
  local rows, lines = { { "", "A", "B", "B - A", "" } }, {}
  local function given(value) return value == nil and "-" or tostring(value) end
  for _, f in ipairs(c.fields) do rows[#rows + 1] = { f.name, given(f.a), given(f.b), "", "" } end
  for _, t in ipairs(c.totals) do
    local name, unit = table.unpack(title_of[t.name])
    local function value(own) return own and ("%.6g"):format(own / unit) or "-" end
    rows[#rows + 1] = { name, value(t.a), value(t.b), t.percent and ("%+.1f %%"):format(t.percent) or "", "" }
    if name == "memory GB" then
      local function answer(e) return memory.answer(e.fits, e.fit_percent / 100) end
      rows[#rows + 1] = { "fits", answer(c.a), answer(c.b), "", "" }
    end
  end
  rows[#rows + 1] = { "", "ms", "ms", "ms", "" }
  for _, line in ipairs(c.lines) do
    if line.a_seconds > 0 or line.b_seconds > 0 then
      rows[#rows + 1] = { line.name, ("%.3f"):format(1e3 * line.a_seconds), ("%.3f"):format(1e3 * line.b_seconds),
        ("%+.3f"):format(1e3 * line.difference_seconds), line.why }
    end
  end
  rows[#rows + 1] = { "", "GB", "GB", "GB", "" }
  for _, line in ipairs(c.memory) do
    rows[#rows + 1] = { line.name, ("%.2f"):format(line.a_bytes / 1e9), ("%.2f"):format(line.b_bytes / 1e9),
      ("%+.2f"):format(line.difference_bytes / 1e9), "" }
  end
  for _, line in ipairs(tables.lines(rows, "lrrrl")) do lines[#lines + 1] = line end
  for _, text in ipairs(c.wide_because) do lines[#lines + 1] = "wide: " .. text end
  for _, note in ipairs(c.notes) do lines[#lines + 1] = "note: " .. note end
  return tables.fit(table.concat(lines, "\n"))
end

return compare
