--- Formats a search as text.
local memory = require "ett.step.memory"
local sure = require "ett.search.sure"
local report = require "ett.report"
local tables = require "ett.report.table"
local searched = require "ett.search.searched"
local columns, time_text = tables.lines, report.time

local text = {}

local function count_text(n)
  local digits = ("%d"):format(n)
  repeat
    local more
    digits, more = digits:gsub("^(%d+)(%d%d%d)", "%1,%2")
  until more == 0
  return digits
end

text.count = count_text

local always = { tp = true, pp = true, dp = true, micro_batch = true }

--- The fields that differ between rows, in order; those of `always` are shown anyway.
local function shown_fields(rows, names)
  local list = {}
  for _, name in ipairs(names) do
    local differs = always[name]
    for _, row in ipairs(rows) do differs = differs or row[name] ~= rows[1][name] end
    if differs then list[#list + 1] = name end
  end
  return list
end

local short = searched.titles

-- Whether the days of a row leave out failures, because their rate is unknown.
local function without_failures(s, row)
  local plan = s.best and s.best.estimate.plan or {}
  return row.run_days and not (row.goodput_percent or row.failures_per_device_day or plan.failures_per_device_day)
end

--- Whether the days of some rows contain failures and those of others do not.
local function unlike_days(s, rows)
  local without = 0
  for _, row in ipairs(rows) do without = without + (without_failures(s, row) and 1 or 0) end
  return without > 0 and without < #rows
end

--- The chance that the memory of a row fits a device of its cluster.
local function fit_chance(row, s)
  return memory.chance(row.memory_bytes, s.clusters[row.cluster].device.memory_bytes)
end

-- Title and text of a column: a function of a row, the search and the shown rows.
local measures = {
  { "step", function(r) return time_text(r.step_seconds) end },
  { "days", function(r) return r.run_days and (r.run_days < 0.01 and "%.3g" or "%.2f"):format(r.run_days) end },
  { "failures", function(r, s, rows)
    return unlike_days(s, rows) and (without_failures(s, r) and "ignored" or "counted") or nil
  end },
  { "USD", function(r) return r.run_dollars and ("%.4g"):format(r.run_dollars) end },
  { "USD/h", function(r) -- of a device
    return r.run_dollars and ("%.2f"):format(r.run_dollars / (24 * r.run_days * r.devices))
  end },
  { "MWh", function(r) return r.run_kwh and ("%.4g"):format(r.run_kwh / 1e3) end },
  { "memory GB", function(r) return ("%.1f"):format(r.memory_bytes / 1e9) end },
  { "fits %", function(r, s, rows) -- if the fit of a shown row is uncertain
    for _, row in ipairs(rows) do
      if fit_chance(row, s) < 0.95 then return ("%.0f"):format(100 * fit_chance(r, s)) end
    end
  end },
  { "best in 100", function(r) return r.best_percent and ("%.0f"):format(r.best_percent) end },
}

local function cell(name, value)
  if name == "rank_order" then return (value:gsub("^tp%-cp%-ep%-", "")) end -- omit the default prefix
  if value == true then return "yes" end
  if value == false then return "-" end
  return value == nil and "" or tables.value(value)
end

--- The number of rows that differ if the k-th field is not shown.
local function distinct_without(rows, names, k)
  local seen, count = {}, 0
  for _, row in ipairs(rows) do
    local words = {}
    for i, name in ipairs(names) do words[i] = i == k and "" or tostring(row[name]) end
    local key = table.concat(words, " ")
    if not seen[key] then seen[key], count = true, count + 1 end
  end
  return count
end

--- The index of the field to drop: the last of those without which most rows differ. The first four remain, and those
--- of `always` as long as there are others.
local function expendable(rows, names)
  local best, most = #names, 0
  for k = #names, 5, -1 do
    local count = always[names[k]] and 0 or distinct_without(rows, names, k)
    if count > most then best, most = k, count end
  end
  return best
end

--- The rows as lines of at most `width` columns. If they do not fit, columns are dropped and named: overlaps first, but
--- last a column without which two rows are equal.
function text.rows(s, limit, width)
  local rows = {}
  for i = 1, math.min(limit, #s.rows) do rows[i] = s.rows[i] end
  local names, dropped = shown_fields(rows, s.fields), {}
  local all = { table.unpack(names) }
  while true do
    local header, used, lines = {}, {}, {}
    for i, name in ipairs(names) do header[i] = short[name] or name end
    for _, m in ipairs(measures) do
      if m[2](rows[1], s, rows) then
        used[#used + 1] = m
        header[#header + 1] = m[1]
      end
    end
    lines[1] = header
    for i, row in ipairs(rows) do
      lines[i + 1] = {}
      for k, name in ipairs(names) do lines[i + 1][k] = cell(name, row[name]) end
      for _, m in ipairs(used) do table.insert(lines[i + 1], m[2](row, s, rows) or "") end
    end
    local done = columns(lines, ("r"):rep(#header), "", math.huge)
    local widest = 0
    for _, line in ipairs(done) do widest = math.max(widest, #line) end
    if widest <= width or #names <= 4 then
      local titles = {}
      for _, name in ipairs(all) do if dropped[name] then titles[#titles + 1] = short[name] or name end end
      if #titles > 0 then done[#done + 1] = "not shown: " .. table.concat(titles, ", ") end
      return done
    end
    dropped[table.remove(names, expendable(rows, names))] = true
  end
end

--- A plan as words NAME=VALUE for `ett predict`; fields with default values are omitted.
function text.plan(plan)
  local words, plan_module = {}, require "ett.plan"
  for _, field in ipairs(require("ett.plan.fields").list) do
    local name, value = field[1], plan[field[1]]
    if value ~= nil and value ~= plan_module.default(plan, field) and name ~= "micro_batches"
      and not (name == "etp" and value == plan.tp) then
      words[#words + 1] = ("%s=%s"):format(name, tables.value(value))
    end
  end
  return table.concat(words, " ")
end

local part_names = { compute = "computing (products and attention)", memory = "moving memory (norms, updates, …)",
  node = "links inside nodes", network = "network between nodes", host = "host (launching kernels, offload)",
  bubble = "bubble and waits" }

--- The devices of the last node that a row does not use; nil if it is full or the only one.
local function unfilled(s, row)
  local node = s.clusters[row.cluster].gpus_per_node
  return row.devices > node and row.devices % node > 0 and node - row.devices % node or nil
end

local function has_cost(row) return row.run_dollars or row.run_kwh end

local function add_best(lines, s)
  local x = s.best
  local e, parts, order = x.estimate, x.part_seconds, require("ett.search.explain").part_order
  lines[#lines + 1] = ("best: %s on %d x %s (%s), stack %s"):format(time_text(e.step_seconds), e.devices,
    e.device, e.cluster, e.stack)
  lines[#lines + 1] = "  " .. text.plan(e.plan)
  lines[#lines + 1] = ("  90 %% interval %s to %s%s; %.1f of %.1f GB"):format(time_text(e.low_seconds),
    time_text(e.high_seconds), e.mfu_percent and (", MFU %.1f %%"):format(e.mfu_percent) or "", e.memory_bytes / 1e9,
    e.memory_limit_bytes / 1e9)
  if #(e.wide_because or {}) > 0 then lines[#lines + 1] = "  wide: " .. table.concat(e.wide_because, "; ") end
  for _, row in ipairs(report.run(e)) do lines[#lines + 1] = "  " .. row[2] end
  local row = s.rows[1]
  local others = unfilled(s, row)
  if others then
    local node = s.clusters[row.cluster].gpus_per_node
    lines[#lines + 1] = ("  the last node is not full: a node has %d devices%s. Compare with %d devices"):format(node,
      has_cost(row) and (". Dollars and energy leave out %d of them"):format(others) or "", row.devices + others - node)
  end
  if not e.plan.stack then
    lines[#lines + 1] = "  no stack is named: kernels are fused and launches take no time. Name the software that will "
      .. "run it: stack=NAME"
  end
  for _, caution in ipairs(require("ett.step.estimate").cautions(e)) do
    lines[#lines + 1] = "  warning: " .. caution
  end
  for _, note in ipairs(e.notes) do lines[#lines + 1] = "  note: " .. note end
  lines[#lines + 1] = ""
  lines[#lines + 1] = ("bottleneck: %s"):format(part_names[x.bottleneck])
  local rows = {}
  local gain = {}
  for _, g in ipairs(x.gains) do gain[g.part] = math.max(0, -g.percent) end
  for _, name in ipairs(order) do
    if parts[name] > 0 then
      rows[#rows + 1] = { "  " .. part_names[name], time_text(parts[name]),
        ("%.1f %%"):format(100 * parts[name] / e.step_seconds),
        gain[name] and ("10 %% faster: step %.1f %% shorter"):format(gain[name]) or "" }
    end
  end
  for _, line in ipairs(columns(rows, "lrrl")) do lines[#lines + 1] = line end
end

-- Neighbours that fit have no text.
local fit_text = { yes = "", no = ", does not fit" }

local function add_neighbours(lines, s, limit)
  local rows = {}
  for _, n in ipairs(s.best.neighbours) do
    if n.step_seconds and #rows < limit then
      rows[#rows + 1] = { "  " .. n.change, time_text(n.step_seconds), ("%+.1f %%"):format(n.percent),
        ("%.1f GB%s"):format(n.memory_bytes / 1e9, fit_text[memory.answer(n.fits, n.fit_percent / 100)]
          or (", fits with a chance of %.0f %%"):format(n.fit_percent)) }
    end
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "plans with one field changed:"
  for _, line in ipairs(columns(rows, "lrrl")) do lines[#lines + 1] = line end
end

--- The clusters among the shown rows whose days leave out failures, because their rate is unknown.
local function add_failures(lines, s, limit)
  local unknown = {}
  for i = 1, math.min(limit, #s.rows) do
    local row = s.rows[i]
    if without_failures(s, row) then unknown[row.cluster or s.best.estimate.cluster] = true end
  end
  local names = require("ett.base.schema").keys(unknown)
  if #names == 0 then return end
  lines[#lines + 1] = ("days without failures: %s; failures_per_device_day=N sets their rate"):format(
    table.concat(names, ", "))
end

--- The numbers of devices among the shown rows whose dollars and energy leave out the rest of the last node. add_best
--- says so for the number of the first row.
local function add_unfilled(lines, s, limit)
  local counts = {}
  local function put(row, value)
    local others = has_cost(row) and unfilled(s, row)
    if others then counts[("%d of %d"):format(row.devices, row.devices + others)] = value end
  end
  for i = 2, math.min(limit, #s.rows) do put(s.rows[i], true) end
  put(s.rows[1], nil)
  local names = require("ett.base.schema").keys(counts)
  if #names == 0 then return end
  lines[#lines + 1] = ("dollars and energy leave out the other devices of the last node: %s devices"):format(
    table.concat(names, ", "))
end

--- Counts of excluded and evaluated plans, as text. They depend on the order, and thus on the number of ranks.
function text.effort(s)
  local e = s.effort
  local line = ("searched %s layouts: %s need too much memory, %s are excluded by time bounds, %s evaluated"):format(
    count_text(e.plans), count_text(e.too_large), count_text(e.bounded), count_text(e.evaluated))
  if e.forbidden > 0 then line = ("%s, %s of the others fail --where"):format(line, count_text(e.forbidden)) end
  if e.refused > 0 then
    line = ("%s, %s refused%s"):format(line, count_text(e.refused), e.refusal and (" (such as: %s)"):format(e.refusal)
      or "")
  end
  return line
end

function text.result(s, options)
  options = options or {}
  local width, lines = options.width or 100, {}
  lines[1] = ("%s%s: %s layouts, by %s"):format(
    s.interrupted and "interrupted, the best so far: " or "",
    s.model, count_text(s.plans), table.concat(s.objectives, ", "))
  local rule, where, reasons = s.ruled_out.rule, s.ruled_out.where, {}
  if rule > 0 then
    reasons[1] = ("%s %s a rule (such as: %s)"):format(count_text(rule), rule == 1 and "violates" or "violate",
      s.first_rule)
  end
  if where > 0 then reasons[#reasons + 1] = count_text(where) .. " fail --where" end
  if #reasons > 0 then lines[2] = table.concat(reasons, "; ") end
  lines[#lines + 1] = ""
  if #s.rows == 0 then
    lines[#lines + 1] = s.nothing
    return table.concat(lines, "\n")
  end
  add_best(lines, s)
  lines[#lines + 1] = ""
  local limit = options.limit or 10
  for _, line in ipairs(text.rows(s, limit, width)) do lines[#lines + 1] = line end
  add_failures(lines, s, limit)
  add_unfilled(lines, s, limit)
  if s.sure then
    lines[#lines + 1] = ""
    for _, line in ipairs(sure.sentences(s.sure, "row")) do lines[#lines + 1] = line end
  end
  add_neighbours(lines, s, options.neighbours or 8)
  return tables.fit(table.concat(lines, "\n"), options.width)
end

return text
