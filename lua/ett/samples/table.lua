--- Sample tables: reader and writer. samplers/README.md lists the lines that begin with "#": the header, and the marks
--- and failures of rows.
--
-- A row and its marks are written by one call, so every row in a table has all of its marks.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"
local ett_io = require "ett.io"
local lfs = require "lfs"

local sample_table = {}

local pass_columns = { forward = "F_dur(us)", backward = "B_dur(us)", update = "dur(us)" }
local pass_order = { "forward", "backward", "update" }

--- The pass whose time a column holds, by the column's name; a collective's time is under "update".
sample_table.pass_of = { ["F_dur(us)"] = "forward", ["B_dur(us)"] = "backward", ["dur(us)"] = "update", dur = "update" }

--- A text without line breaks, for headers and marks.
function sample_table.one_line(text) return (tostring(text):gsub("%s+", " ")) end
local one_line = sample_table.one_line

--- The name of a table: DEVICE_NAME_PRECISION[_NODES_RANKS][_PARTS_PART].csv.
---@param name string of an operator or a collective
---@param numbers integer[]? nodes and ranks per node of a collective; parts and part of a campaign in parts
function sample_table.name(device, name, precision, numbers)
  return table.concat({ (device:gsub("_", "-")), name, precision, table.unpack(numbers or {}) }, "_") .. ".csv"
end

function sample_table.columns(target)
  if target.row_columns then return target.row_columns end
  local columns = table.move(target.columns, 1, #target.columns, 1, {})
  if target.kind == "collective" then
    return table.move({ "nodes", "GPUsPerNode", "dur(us)" }, 1, 3, #columns + 1, columns)
  end
  local has = {}
  for _, pass in ipairs(target.operator.passes) do has[pass] = true end
  for _, pass in ipairs(pass_order) do
    if has[pass] then columns[#columns + 1] = pass_columns[pass] end
  end
  return columns
end

--- An error if the path is a folder, a pipe or a device, else nil. Reading a named pipe would block.
function sample_table.no_file(path)
  local kind = lfs.attributes(path, "mode")
  if kind and kind ~= "file" then
    return error_module.new("io", "expected a sample table at '%s', found a %s; move it away", path,
      kind == "directory" and "folder" or kind)
  end
end

--- The marks of the row below them. Marks of other shapes lost their row in a crash.
local function own_marks(marks, line)
  local own = {}
  for _, mark in ipairs(marks) do
    local shape = mark:match("^#~ %a+: ([^:]*):")
    if shape and line:sub(1, #shape + 1) == shape .. "," then own[#own + 1] = mark end
  end
  return own[1] and own
end

--- Parses one comment line; returns the marks that belong to the next row.
local function comment(t, line, at, marks)
  local key, reason = line:match("^#! failed: ([^:]*): (.*)$")
  if key then
    t.failed[#t.failed + 1] = { key = key, reason = reason, text = line, at = at }
  elseif line:match("^#~ ") then
    marks = marks or {}
    marks[#marks + 1] = line
  else
    local name, text = line:match("^#!? ([%w ]+): (.*)$")
    t.header[#t.header + 1] = { name = name, text = line, at = at }
    if name then t.first[name], t.last[name] = t.first[name] or text, text end
  end
  return marks
end

local function names_of(line)
  local names = {}
  for name in line:gmatch("[^,]+") do names[#names + 1] = name end
  return names
end

-- A text without the byte-order mark that spreadsheets write.
local function unmarked(text) return text and text:sub(1, 3) == "\xEF\xBB\xBF" and text:sub(4) or text end

--- Reads a table. numbers() checks the rows.
---@return table|nil { path, text (of the file), ett (whether ett wrote it), header = { { name=, text=, at= }, … },
--- first, last (header name -> its first and its last text), columns, rows (lines), at (line number by row), marks
--- (lines of marks by row), failed = { { key=, reason=, text=, at= }, … }, cut (number of an unfinished last line: ett
--- ends every line, so such a line in its tables is not a row) }, ett.Error?
function sample_table.read(path)
  local text, err = nil, sample_table.no_file(path)
  if not err then text, err = ett_io.read(path) end
  if not text then return nil, err end
  text = unmarked(text)
  local t = { path = path, text = text, ett = text:sub(1, 6) == "# ett:", header = {}, first = {}, last = {}, rows = {},
    at = {}, marks = {}, failed = {} }
  local at, marks = 0, nil
  for line, ending in text:gmatch("([^\n]*)(\n?)") do
    at = at + 1
    if ending == "" then
      if line == "" then break end
      t.cut = at
      if t.ett then break end
    end
    if line:byte(-1) == 13 then line = line:sub(1, -2) end
    if line:byte() == 35 then -- '#'
      marks = comment(t, line, at, marks)
    elseif not t.columns then
      if ending ~= "" then t.columns = names_of(line) end
    elseif line ~= "" then
      local row = #t.rows + 1
      t.rows[row], t.at[row] = line, at
      if marks then t.marks[row], marks = own_marks(marks, line), nil end
    end
  end
  return t
end

--- The back end of `ett sample` that wrote a table, from its header; nil for other files.
---@return string|nil
function sample_table.back_end(path)
  local file = io.open(path, "r")
  local line = file and unmarked(file:read("l"))
  local found
  while line and line:sub(1, 1) == "#" do
    found = found or line:match("^# backend: (%a+)")
    line = file:read("l")
  end
  if file then file:close() end
  return found
end

--- Whether a table of ett has no row yet: it is new, or every shape failed.
function sample_table.is_begun(path)
  local file = io.open(path, "r")
  local line = file and unmarked(file:read("l"))
  local begun, lines = line and line:sub(1, 6) == "# ett:", 0 -- the names of the columns are one line
  while begun and line do
    if line ~= "" and line:sub(1, 1) ~= "#" then lines = lines + 1 end
    begun = lines < 2
    line = file:read("l")
  end
  if file then file:close() end
  return begun
end

--- The fields of a row, as texts and as numbers. Raises if the number of fields differs from that of columns, or if a
--- field is not a number: otherwise the shape would count as measured.
function sample_table.numbers(t, row)
  local line, texts, numbers, sound = t.rows[row], {}, {}, true
  for field in (line .. ","):gmatch("([^,]*),") do
    texts[#texts + 1] = field
    numbers[#texts] = math.tointeger(tonumber(field)) or tonumber(field)
    sound = sound and numbers[#texts] ~= nil
  end
  if #texts ~= #t.columns or not sound then
    error_module.raise("format", "'%s' line %d is damaged: expected %d numbers separated by commas, got '%s'; remove "
      .. "the line to measure its shape again", t.path, t.at[row], #t.columns, (line:sub(1, 80):gsub("%c", "?")))
  end
  return numbers, texts
end

--- The reason why a row is marked as disturbed, or nil.
function sample_table.disturbed(t, row)
  for _, mark in ipairs(t.marks[row] or {}) do
    local reason = mark:match("^#~ disturbed: [^:]*: (.*)$")
    if reason then return reason end
  end
end

--- { pass, result } of every pass that was measured, in the order of a table's columns; a collective is one pass.
function sample_table.passes(results)
  if results.seconds then return { { "collective", results } } end
  local list = {}
  for _, pass in ipairs(pass_order) do
    if type(results[pass]) == "table" then list[#list + 1] = { pass, results[pass] } end
  end
  return list
end

--- A number as it stands in a sample table.
function sample_table.number(value) return (math.type(value) == "integer" and "%d" or "%.7g"):format(value) end

local number = sample_table.number

function sample_table.row(target, values, results, topology)
  local fields = {}
  for i, value in ipairs(values) do fields[i] = number(value) end
  if target.kind == "collective" then
    fields[#fields + 1] = number(topology.nodes)
    fields[#fields + 1] = number(topology.ranks_per_node)
  end
  for _, entry in ipairs(sample_table.passes(results)) do fields[#fields + 1] = number(entry[2].seconds * 1e6) end
  return table.concat(fields, ",")
end

function sample_table.failure(key, reason) return ("#! failed: %s: %s"):format(key, one_line(reason)) end

--- Half-width over time above which a row is marked; assumed, as for slow memory (ett.sampling.sentinel).
local doubtful = 0.15

--- The reason why results count as disturbed, or nil. `known_to`: half-width over time, of back ends with one visit.
function sample_table.disturbance(results)
  local reasons = {}
  local function add(format, ...) reasons[#reasons + 1] = format:format(...) end
  for _, entry in ipairs(sample_table.passes(results)) do
    local pass, result = entry[1], entry[2]
    if result.preempted then
      add("%s: lost the processor in %d of %d repeats", pass, result.dropped, result.repeats)
    end
    if result.slow_clock then add("%s: clock %.0f %% slow", pass, 100 * (result.clock_ratio - 1)) end
    if result.slow_memory then
      add("%s: memory %.0f %% slow, %d of %d visits undisturbed", pass, 100 * (result.memory_ratio - 1),
        result.quiet_visits, #result.visits)
    end
    if (result.known_to or 0.0) > doubtful then add("%s: known to %.0f %% only", pass, 100 * result.known_to) end
  end
  return #reasons > 0 and table.concat(reasons, ", ") or nil
end

--- The mark lines of a row.
---@param key string the first columns of the row
---@param results table of a back end
---@param keep_raw boolean? include every repeat
---@return string[] lines, string? disturbed the reason, string? note
function sample_table.marks_of(key, results, keep_raw)
  local lines, why, notes = {}, sample_table.disturbance(results), { results.note }
  local function add(name, format, ...)
    lines[#lines + 1] = ("#~ %s: %s: %s"):format(name, key, one_line(format:format(...)))
  end
  if why then add("disturbed", "%s", why) end
  local measured = sample_table.passes(results)
  for _, entry in ipairs(measured) do
    local missing = entry[2].kernels_missing
    if missing then notes[#notes + 1] = ("no kernel times of the %s pass: %s"):format(entry[1], missing) end
  end
  for _, note in ipairs(notes) do add("note", "%s", note) end
  for _, entry in ipairs(measured) do
    local pass, result = entry[1], entry[2]
    for _, raw_seconds in ipairs(keep_raw and (result.raw_of_ranks or { result.raw_seconds }) or {}) do
      local times = {}
      for i, seconds in ipairs(raw_seconds) do times[i] = ("%.7g"):format(seconds * 1e6) end
      add("repeats", "%s: %s", pass, table.concat(times, " "))
    end
    for _, kernel in ipairs(result.kernels or {}) do
      add("kernel", "%s: %.7g: %s", pass, kernel.seconds * 1e6, kernel.name)
    end
  end
  return lines, why, #notes > 0 and table.concat(notes, "; ") or nil
end

--- The contents of a mark: { kind =, key =, pass =, seconds = { … } | number, name =, text = }; nil for all other
--- lines.
function sample_table.mark(line)
  local kind, key, rest = line:match("^#~ (%a+): ([^:]*): (.*)$")
  if not kind then return nil end
  local mark = { kind = kind, key = key, text = rest }
  if kind == "repeats" then
    local pass, times = rest:match("^(%a+): (.*)$")
    mark.pass, mark.seconds = pass, {}
    for word in (times or ""):gmatch("%S+") do mark.seconds[#mark.seconds + 1] = tonumber(word) * 1e-6 end
  elseif kind == "kernel" then
    local pass, microseconds, name = rest:match("^(%a+): (%S+): (.*)$")
    mark.pass, mark.seconds, mark.name = pass, tonumber(microseconds) and tonumber(microseconds) * 1e-6, name
  end
  return mark
end

--- A header: the lines of its entries, then the names of the columns.
---@param entries table[] { name, text }; an entry without text is left out
function sample_table.header(entries, columns)
  local lines = {}
  for _, entry in ipairs(entries) do
    if entry[2] then lines[#lines + 1] = ("# %s: %s"):format(entry[1], one_line(entry[2])) end
  end
  lines[#lines + 1] = table.concat(columns, ",")
  return table.concat(lines, "\n") .. "\n"
end

--- A table of an operator's shapes as text, rows sorted. Shape fields without a value in any row get no column.
---@param head table[] as of header
---@param rows table[] { shape, microseconds = by pass }
---@param passes string[]
function sample_table.of_shapes(head, op, rows, passes)
  local columns, lines = {}, {}
  for _, name in ipairs(op.columns or schema.keys(op.schema)) do
    local used = false
    for _, row in ipairs(rows) do used = used or row.shape[name] ~= nil end
    if used then columns[#columns + 1] = name end
  end
  for r, row in ipairs(rows) do
    local cells = {}
    for i, name in ipairs(columns) do cells[i] = number(row.shape[name] or 1) end
    for _, pass in ipairs(passes) do cells[#cells + 1] = number(row.microseconds[pass]) end
    lines[r] = table.concat(cells, ",")
  end
  table.sort(lines)
  for _, pass in ipairs(passes) do columns[#columns + 1] = pass_columns[pass] end
  return sample_table.header(head, columns) .. table.concat(lines, "\n") .. "\n"
end

--- A whole table as text: header, columns, each row after its marks, failures.
---@param t table header, columns, rows, marks, failed in the form of read()
function sample_table.encode(t)
  local lines = {}
  for _, entry in ipairs(t.header) do lines[#lines + 1] = entry.text end
  lines[#lines + 1] = table.concat(t.columns, ",")
  for row, line in ipairs(t.rows) do
    table.move(t.marks[row] or {}, 1, #(t.marks[row] or {}), #lines + 1, lines)
    lines[#lines + 1] = line
  end
  for _, failure in ipairs(t.failed) do lines[#lines + 1] = failure.text end
  return table.concat(lines, "\n") .. "\n"
end

return sample_table
