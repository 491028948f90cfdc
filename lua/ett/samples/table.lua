--- The tables of campaigns: CSV files in the form of estimate-train-time under a `#` header. Beside its rows a
-- table holds two kinds of marks, comments to every reader:
--   #! failed: SHAPE: KIND: REASON      not tried again unless asked; SHAPE all: none of the table's shapes
--   #~ …                                what else is known of the row after it (ett.samples.marks)
-- Rows are appended one by one and synced; what is in the table is done, so that a campaign killed at any
-- moment goes on where it was.
local campaign = require "ett.sampling.campaign"
local error_module = require "ett.base.error"
local lfs = require "lfs"
local sample = require "ett.sample"
local marks = require "ett.samples.marks"
local sample_header = require "ett.samples.header"
local sample_visits = require "ett.samples.visits"

local sample_table = {}

local pass_columns = { forward = "F_dur(us)", backward = "B_dur(us)", update = "dur(us)" }
local pass_order = { "forward", "backward", "update" }

--- The name of a table: DEVICE_NAME_PRECISION[_NODES_RANKS][_PARTS_PART].csv.
function sample_table.name(device, target, precision, topology, parts, part)
  local name = ("%s_%s_%s"):format(device, target.name, precision)
  if topology then name = ("%s_%d_%d"):format(name, topology.nodes, topology.ranks_per_node) end
  if parts > 1 then name = ("%s_%d_%d"):format(name, parts, part) end
  return name .. ".csv"
end

--- Column names of a target's table.
function sample_table.columns(target)
  if target.row_columns then return target.row_columns end
  local columns = table.move(target.columns, 1, #target.columns, 1, {})
  if target.kind == "collective" then
    for _, name in ipairs { "nodes", "GPUsPerNode", "dur(us)" } do columns[#columns + 1] = name end
    return columns
  end
  local has = {}
  for _, pass in ipairs(target.operator.passes) do has[pass] = true end
  for _, pass in ipairs(pass_order) do
    if has[pass] then columns[#columns + 1] = pass_columns[pass] end
  end
  return columns
end

local function number(value)
  if math.type(value) == "integer" then return ("%d"):format(value) end
  return ("%.7g"):format(value)
end

--- The numbers of a row as texts. Raises where they are not as many as the columns, or no numbers: the shape would
--- count as measured.
local function fields_of(line, columns, path, at)
  local fields, numbers = {}, true
  for field in (line .. ","):gmatch("([^,]*),") do
    fields[#fields + 1] = field
    numbers = numbers and tonumber(field) ~= nil
  end
  local _, commas = columns:gsub(",", "")
  if #fields ~= commas + 1 or not numbers then
    error_module.raise("format", "'%s' line %d is damaged: %d numbers with commas are wanted; remove the line, and its "
      .. "shape is measured again", path, at, commas + 1)
  end
  return fields
end

--- What a table already holds: { done = { key = how many rows }, failed = { key = reason }, rows =, columns =,
--- fingerprint = of its campaign, operator = of its operator's file, backend =, checked = verdict, header = { name =
--- text } } or nil when there is none. Raises where a row is damaged.
function sample_table.read(path, dimensions)
  local kind = lfs.attributes(path, "mode")
  if kind and kind ~= "file" then
    error_module.raise("io", "'%s' is a %s, and a sample table is to be there; move it away", path, kind)
  end
  local file = io.open(path, "r")
  if not file then return nil end
  local held = { done = {}, failed = {}, rows = 0, header = {} }
  local at = 0
  for line in file:lines("L") do
    if line:sub(-1) ~= "\n" then break end -- an incomplete last line: opening cuts it off
    at = at + 1
    line = line:gsub("\r?\n$", "")
    local key, reason = line:match("^#! failed: ([^:]*): (.*)$")
    if key then
      held.failed[key] = reason
    elseif line:sub(1, 1) == "#" then
      held.fingerprint = line:match("^# campaign: .* (%x+)$") or held.fingerprint -- the last: --continue-changed
      held.checked = line:match("^#!? checked: (.*)$") or held.checked
      local file_print = line:match("^# operator file: (%x+)$")
      if held.operator and file_print then held.failed = {} end -- what failed by another file's lines
      held.operator = file_print or held.operator
      held.backend = line:match("^# backend: (.*)$") or held.backend
      local name, text = line:match("^# ([%w ]+): (.*)$")
      if name then held.header[name] = text end -- the last, as above
    elseif not held.columns then
      held.columns = line
    elseif line ~= "" then
      key = table.concat(fields_of(line, held.columns, path, at), ",", 1, dimensions)
      held.rows = held.rows + 1
      held.done[key] = (held.done[key] or 0) + 1
      held.failed[key], held.failed.all = nil, nil
    end
  end
  file:close()
  return held
end

--- A measured row as a CSV line.
function sample_table.row(target, values, results, topology)
  local fields = {}
  for i, value in ipairs(values) do fields[i] = number(value) end
  if target.kind == "collective" then
    fields[#fields + 1] = number(topology.nodes)
    fields[#fields + 1] = number(topology.ranks_per_node)
  end
  for _, entry in ipairs(marks.passes(results)) do fields[#fields + 1] = number(entry[2].seconds * 1e6) end
  return table.concat(fields, ",")
end

--- What names the campaign, and the operator's file where that is no bundled one: visits of others do not count.
function sample_table.title(target, run)
  return table.concat({ marks.one_line(run.campaign.name), run.campaign.fingerprint,
    campaign.operator_fingerprint(target.operator) }, " ")
end

--- Opens a target's table to append to, and begins it where there is none. Raises where another campaign, or another
--- version of this one, began it.
---@return userdata journal, table held as of read()
function sample_table.open(session, target, run, path)
  local columns = sample_table.columns(target)
  local file_print = target.kind == "operator" and campaign.operator_fingerprint(target.operator) or nil
  local held = sample_table.read(path, #target.columns)
  local advice = run.changed_advice or "give --continue-changed to go on, or --out for a new folder"
  local changed = held and held.fingerprint ~= run.campaign.fingerprint
  if changed and not held.fingerprint and held.rows > 0 and not run.continue_changed then
    error_module.raise("argument", "'%s' does not say which campaign began it (no line '# campaign: NAME HASH'); %s",
      path, advice)
  end
  if changed and held.fingerprint and not run.continue_changed then
    error_module.raise("argument", "'%s' was begun by another version of this campaign (%s, now %s); %s", path,
      held.fingerprint, run.campaign.fingerprint, advice)
  end
  local edited = held and held.operator and file_print and held.operator ~= file_print
  if edited and held.rows > 0 and not run.continue_changed then
    error_module.raise("argument", "'%s' was begun by another version of %s (%s, now %s); %s", path,
      target.operator.path, held.operator, file_print, advice)
  end
  local others = held and sample_header.changed(session, held.header) or {}
  if #others > 0 and held.rows > 0 and not run.continue_changed then
    error_module.raise("argument", "'%s' was begun with %s: %s, now %s; %s", path, others[1].name,
      others[1].was, others[1].is, advice)
  end
  if held and held.backend and held.backend ~= session.backend.name then
    error_module.raise("argument", "'%s' holds what the back end '%s' measured, not '%s'; give --out for a new folder",
      path, held.backend, session.backend.name)
  end
  if held and held.columns and held.columns ~= table.concat(columns, ",") then
    error_module.raise("format", "'%s' has columns %s, this campaign writes %s", path, held.columns,
      table.concat(columns, ","))
  end
  local header = sample_header.text(session, target, run, columns)
  local journal, err = sample.journal(path, header)
  if not journal then error(err, 0) end
  local appended = false
  local function append(text)
    local ok, failure = journal:append(text)
    if not ok then error(failure, 0) end
    appended = true
  end
  held = sample_table.read(path, #target.columns) -- again: now nobody else writes
  if not held.columns then -- cut before its first row, by whatever
    append((header:gsub("\n$", "")))
  else -- the rows below are of this one
    if changed then
      append(("# campaign: %s %s"):format(marks.one_line(run.campaign.name), run.campaign.fingerprint))
    end
    if edited then append("# operator file: " .. file_print) end
    for _, other in ipairs(others) do append(other.line) end
    if #others > 0 then sample_visits.drop(path) end
  end
  if appended then held = sample_table.read(path, #target.columns) end
  return journal, held
end

return sample_table
