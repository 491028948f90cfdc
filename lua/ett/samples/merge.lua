--- Joins the tables of a campaign's parts into one table each.
local error_module = require "ett.base.error"
local lfs = require "lfs"

local sample_merge = {}

--- DEVICE_NAME_PRECISION of a table, whichever part it is: A_gelu_fp16_4_2.csv is part 2 of 4.
--- A collective's table ends in its topology, so parts are told by two more numbers only.
local function whole_name(path, is_collective)
  local name = path:match("([^/]+)%.csv$")
  if not name then error_module.raise("usage", "samples merge: '%s' is no .csv table", path) end
  local front = name:match("^(.-_%a[%w]*)_%d+_%d+$")
  if is_collective then front = name:match("^(.-_%d+_%d+)_%d+_%d+$") or name end
  return front or name
end

local function tables_in(paths)
  local list = {}
  for _, path in ipairs(paths) do
    if lfs.attributes(path, "mode") == "directory" then
      local names = {}
      for name in lfs.dir(path) do
        local whole = path .. "/" .. name
        if name:match("%.csv$") and name:sub(1, 1) ~= "." and lfs.attributes(whole, "mode") ~= "directory" then
          names[#names + 1] = whole
        end
      end
      table.sort(names)
      table.move(names, 1, #names, #list + 1, list)
    else
      list[#list + 1] = path
    end
  end
  return list
end

--- Those of the marks that are of a row.
local function own_marks(marks, line)
  local own = { disturbed = false }
  for _, mark in ipairs(marks) do
    local kind, shape = mark:match("^#~ (%a+): ([^:]*):")
    if shape and line:sub(1, #shape + 1) == shape .. "," then
      own[#own + 1] = mark
      own.disturbed = own.disturbed or kind == "disturbed"
    end
  end
  return own
end

local last_counts = { campaign = true, ["operator file"] = true }

--- Header lines, columns, rows (with the marks before them) and failures of a table. Marks without their row (the
--- machine stopped between the two) are left out, and so is a last line that a full disk or a kill cut: of what ett
--- writes every line ends.
local function read(path)
  local file, why = io.open(path, "r")
  if not file then error_module.raise("io", "cannot read '%s': %s", path, tostring(why)) end
  local t = { path = path, header = {}, rows = {}, failed = {} }
  local marks, number = {}, 0
  for whole in file:lines("L") do
    number = number + 1
    local line = whole:gsub("\r?\n$", "")
    if t.ett and whole:sub(-1) ~= "\n" then break end
    if line:match("^#! failed: ") then
      t.failed[#t.failed + 1] = line
    elseif line:match("^#~ ") then
      marks[#marks + 1] = line
    elseif line:sub(1, 1) == "#" then
      t.header[#t.header + 1] = line
      local name, value = line:match("^# ([%w ]+): (.*)$")
      -- What was edited and continued says so by a second line: the last is what a campaign's parts share.
      if name then t[name] = not last_counts[name] and t[name] or value end
    elseif not t.columns then
      t.columns = line
    elseif line ~= "" then
      local _, commas = line:gsub(",", "")
      local _, wanted = t.columns:gsub(",", "")
      if commas ~= wanted then
        error_module.raise("format", "%s:%d: %d columns wanted, got %d", path, number, wanted + 1, commas + 1)
      end
      for field in (line .. ","):gmatch("([^,]*),") do
        if not tonumber(field) then
          error_module.raise("format", "%s:%d: '%s' is not a number", path, number, field)
        end
      end
      t.rows[#t.rows + 1] = { line = line, marks = own_marks(marks, line) }
      marks = {}
    end
  end
  file:close()
  if not t.columns then error_module.raise("format", "%s: no header line of columns", path) end
  local shape = 0
  for name in t.columns:gmatch("[^,]+") do
    if not name:match("dur%(us%)") then shape = shape + 1 end
  end
  t.dimensions = shape
  return t
end

local function same_file(a, b)
  local one, other = lfs.attributes(a), lfs.attributes(b)
  return a == b or one ~= nil and other ~= nil and one.ino == other.ino and one.dev == other.dev
end

local function key_of(line, dimensions)
  local fields = {}
  for field in line:gmatch("[^,]+") do
    fields[#fields + 1] = tonumber(field)
    if #fields == dimensions then break end
  end
  return fields
end

local function before(a, b)
  for i = 1, #a do
    if a[i] ~= b[i] then return (a[i] or 0) < (b[i] or 0) end
  end
  return false
end

--- Joins tables (or folders of them) into FOLDER: one table an operator, precision, device and
--- topology. Refuses parts whose columns, campaign or device differ; of a shape measured twice
--- the undisturbed row is kept, else the first.
---@return table[] { path, rows, tables, duplicates, failed }
function sample_merge.merge(paths, folder)
  if not folder then error_module.raise("usage", "samples merge: give --output FOLDER") end
  local files = tables_in(paths)
  if #files == 0 then error_module.raise("usage", "samples merge: give tables or folders") end
  local groups, order = {}, {}
  for _, path in ipairs(files) do
    local t = read(path)
    local name = whole_name(path, t.collective ~= nil or t.columns:find("GPUsPerNode", 1, true) ~= nil)
    if not groups[name] then
      groups[name] = {}
      order[#order + 1] = name
    end
    table.insert(groups[name], t)
  end
  require("ett.base.folder").make(folder)
  local reports = {}
  for _, name in ipairs(order) do
    local group = groups[name]
    local first = group[1]
    local seen, list, duplicates, failed, failed_seen = {}, {}, 0, {}, {}
    for _, t in ipairs(group) do
      for _, field in ipairs { "columns", "campaign", "operator file", "backend", "device", "precision" } do
        local older = field == "operator file" and not (t[field] and first[field])
        if t[field] ~= first[field] and not older then
          error_module.raise("format", "%s and %s differ in %s: '%s' and '%s'", first.path, t.path, field,
            tostring(first[field]), tostring(t[field]))
        end
      end
      for _, row in ipairs(t.rows) do
        row.key = key_of(row.line, t.dimensions)
        local text = table.concat(row.key, ",")
        if seen[text] then
          duplicates = duplicates + 1
          if seen[text].marks.disturbed and not row.marks.disturbed then
            seen[text].line, seen[text].marks = row.line, row.marks
          end
        else
          seen[text] = row
          list[#list + 1] = row
        end
      end
    end
    for _, t in ipairs(group) do
      for _, line in ipairs(t.failed) do
        local text = line:match("^#! failed: ([^:]*):")
        if not seen[text] and not failed_seen[text] then
          failed_seen[text] = true
          failed[#failed + 1] = line
        end
      end
    end
    table.sort(list, function(a, b) return before(a.key, b.key) end)
    local lines = table.move(first.header, 1, #first.header, 1, {})
    lines[#lines + 1] = ("# merged: %d tables"):format(#group)
    lines[#lines + 1] = first.columns
    for _, row in ipairs(list) do
      table.move(row.marks, 1, #row.marks, #lines + 1, lines)
      lines[#lines + 1] = row.line
    end
    table.move(failed, 1, #failed, #lines + 1, lines)
    local path = ("%s/%s.csv"):format(folder, name)
    for _, t in ipairs(group) do
      if same_file(t.path, path) then error_module.raise("usage", "samples merge: '%s' would be overwritten", path) end
    end
    require("ett.base.folder").write(path, table.concat(lines, "\n") .. "\n")
    reports[#reports + 1] = { path = path, rows = #list, tables = #group, duplicates = duplicates, failed = #failed }
  end
  return reports
end

return sample_merge
