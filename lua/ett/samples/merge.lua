--- Merges the tables of a campaign's parts into one table each.
local error_module = require "ett.base.error"
local folder_module = require "ett.base.folder"
local lfs = require "lfs"
local sample_table = require "ett.samples.table"
local settings = require "ett.samples.settings"

local sample_merge = {}

--- DEVICE_NAME_PRECISION of a table, without the part: A_gelu_fp16_4_2.csv is part 2 of 4. The name of a collective's
--- table ends in its topology; two more numbers are the part.
local function whole_name(path, is_collective)
  local name = path:match("([^/]+)%.csv$")
  if not name then error_module.raise("usage", "samples merge: '%s' is not a .csv table", path) end
  local front = name:match("^(.-_%a[%w]*)_%d+_%d+$")
  if is_collective then front = name:match("^(.-_%d+_%d+)_%d+_%d+$") or name end
  return front or name
end

local function tables_in(paths)
  local list = {}
  for _, path in ipairs(paths) do
    if lfs.attributes(path, "mode") == "directory" then
      for _, name in ipairs(folder_module.names(path, "^[^.].*%.csv$")) do
        local whole = path .. "/" .. name
        if lfs.attributes(whole, "mode") ~= "directory" then list[#list + 1] = whole end
      end
    else
      list[#list + 1] = path
    end
  end
  return list
end

local function read(path)
  local t = error_module.must(sample_table.read(path))
  if not t.columns then
    error_module.raise("format", "%s: no line with the names of the columns, such as tokens,width,F_dur(us)", path)
  end
  t.dimensions, t.key_dimensions = 0, 0 -- the key of a failure has no topology
  for _, name in ipairs(t.columns) do
    if not name:match("dur%(us%)") then t.dimensions = t.dimensions + 1 end
    if not (name:match("dur%(us%)") or name == "nodes" or name == "GPUsPerNode") then
      t.key_dimensions = t.key_dimensions + 1
    end
  end
  return t
end

local function before(a, b)
  for i = 1, math.min(#a, #b) do if a[i] ~= b[i] then return a[i] < b[i] end end
  return #a < #b
end

local function same_file(a, b)
  local x, y = lfs.attributes(a), lfs.attributes(b)
  return x and y and x.dev == y.dev and x.ino == y.ino
end

--- A header fact of a table. For an edited campaign it is the last version. The devices of two parts may differ in
--- their number.
local function fact(t, field)
  if field == "columns" then return table.concat(t.columns, ",") end
  if field == "device" then return t.first.device and (t.first.device:gsub("^%d+, ", "")) end
  return (field == "campaign" and t.last or t.first)[field]
end

--- Raises an error if two tables are not parts of one campaign on one device, with the same settings. Tables
--- of bundled operators lack the file of the operator, and those of other programs the settings.
local function check_alike(first, t)
  local function compare(field, a, b)
    if a == b then return end
    error_module.raise("format", "%s and %s differ in %s: '%s' and '%s'", first.path, t.path, field, tostring(a),
      tostring(b))
  end
  for _, field in ipairs { "columns", "campaign", "backend", "device", "precision" } do
    compare(field, fact(first, field), fact(t, field))
  end
  for _, field in ipairs(settings.names) do
    local a, b = first.last[field], t.last[field]
    if a and b and settings.part(field, a) ~= settings.part(field, b) then compare(field, a, b) end
  end
end

--- The rows of some tables in order, each shape once: { key =, line =, marks =, disturbed = }; the keys of their
--- failures as a set; the number of dropped duplicates.
local function unique_rows(group)
  local seen, list, measured, duplicates = {}, {}, {}, 0
  for _, t in ipairs(group) do
    for r, line in ipairs(t.rows) do
      local numbers, texts = sample_table.numbers(t, r)
      local shape = table.concat(texts, ",", 1, t.dimensions)
      measured[table.concat(texts, ",", 1, t.key_dimensions)] = true
      local row = { line = line, marks = t.marks[r], disturbed = sample_table.disturbed(t, r),
        key = table.move(numbers, 1, t.dimensions, 1, {}) }
      local held = seen[shape]
      if held then
        duplicates = duplicates + 1
        if held.disturbed and not row.disturbed then
          held.line, held.marks, held.disturbed = row.line, row.marks, row.disturbed
        end
      else
        seen[shape], list[#list + 1] = row, row
      end
    end
  end
  table.sort(list, function(a, b) return before(a.key, b.key) end)
  return list, measured, duplicates
end

--- Failures of shapes without a row in any table, each shape once.
local function unique_failures(group, measured)
  local list, known = {}, {}
  for _, t in ipairs(group) do
    for _, failure in ipairs(t.failed) do
      if not measured[failure.key] and not known[failure.key] then
        known[failure.key], list[#list + 1] = true, failure
      end
    end
  end
  return list
end

local function counted(n, word) return ("%d %s%s"):format(n, word, n == 1 and "" or "s") end

--- Raises if a table at the place of the result has rows or failed shapes that the merged tables lack.
local function check_place(path, group, merged)
  if lfs.attributes(path, "mode") ~= "file" then return end
  local all = table.move(group, 1, #group, 2, { read(path) })
  local rows, measured = unique_rows(all)
  local lost = {}
  if #rows > #merged.rows then lost[1] = counted(#rows - #merged.rows, "row") end
  -- A row that only this table has may hide a failure, so the failures of the merged tables are counted with its rows.
  local failures = #unique_failures(all, measured) - #unique_failures(group, measured)
  if failures > 0 then lost[#lost + 1] = counted(failures, "failed shape") end
  if lost[1] then
    error_module.raise("usage", "samples merge: '%s' has %s that the tables to merge lack. Merge it, too, into "
      .. "another --output, or remove it", path, table.concat(lost, " and "))
  end
end

--- The merged table of a group, and its report. Raises if it must not be written to `path`.
local function merge_group(group, path)
  local first = group[1]
  for _, t in ipairs(group) do
    check_alike(first, t)
    if same_file(t.path, path) then
      error_module.raise("usage", "samples merge: would overwrite '%s', one of the tables to merge; give another "
        .. "--output", path)
    end
  end
  local list, measured, duplicates = unique_rows(group)
  local merged = { header = table.move(first.header, 1, #first.header, 1, {}), columns = first.columns, rows = {},
    marks = {}, failed = unique_failures(group, measured) }
  merged.header[#merged.header + 1] = { text = ("# merged: %d tables"):format(#group) }
  for r, row in ipairs(list) do merged.rows[r], merged.marks[r] = row.line, row.marks end
  check_place(path, group, merged)
  return merged, { path = path, rows = #list, tables = #group, duplicates = duplicates, failed = #merged.failed }
end

--- Merges tables (files or folders) into FOLDER: one table per operator, precision, device and topology. Raises if
--- parts differ in columns, campaign or device. For a shape measured twice, the undisturbed row is kept, else the
--- first.
---@return table[] { path, rows, tables, duplicates, failed }
function sample_merge.merge(paths, folder)
  if not folder then error_module.raise("usage", "samples merge: give --output FOLDER") end
  local files = tables_in(paths)
  if #files == 0 then error_module.raise("usage", "samples merge: give tables or folders") end
  local groups, order = {}, {}
  for _, path in ipairs(files) do
    local t = read(path)
    local topology = table.concat(t.columns, ","):find("GPUsPerNode", 1, true)
    local name = whole_name(path, topology or t.first.collective ~= nil)
    if not groups[name] then groups[name], order[#order + 1] = {}, name end
    table.insert(groups[name], t)
  end
  local merged, reports = {}, {}
  for i, name in ipairs(order) do
    merged[i], reports[i] = merge_group(groups[name], ("%s/%s.csv"):format(folder, name))
  end
  folder_module.make(folder) -- all groups were checked
  for i, report in ipairs(reports) do folder_module.write(report.path, sample_table.encode(merged[i])) end
  return reports
end

return sample_merge
