--- Tables as text: aligned columns for people, CSV for programs.
local plain = require("ett.base.pretty").plain

local tables = {}

local function width(cell) return utf8.len(cell) or #cell end

local function plain_rows(rows)
  local list = {}
  for r, row in ipairs(rows) do
    list[r] = {}
    for i, cell in ipairs(row) do list[r][i] = plain(cell) end
  end
  return list
end

local gap = 2
local least_text = 12 -- a last column of texts is wrapped if it keeps this width

--- The words of a text as lines of at most `most` characters.
---@return string[]
function tables.words_within(text, most)
  local lines, line = {}, nil
  for word in text:gmatch "%S+" do
    if line and width(line) + 1 + width(word) > most then lines[#lines + 1], line = line, nil end
    line = line and line .. " " .. word or word
  end
  lines[#lines + 1] = line or ""
  return lines
end

local function sum(widths, last)
  local total = (last - 1) * gap
  for i = 1, last do total = total + widths[i] end
  return total
end

local function line_of(row, widths, align, shown)
  local cells = {}
  for k, i in ipairs(shown) do
    local cell = row[i]
    if cell then
      local pad = (" "):rep(widths[i] - width(cell))
      cells[k] = align:sub(i, i) == "r" and pad .. cell or cell .. pad
    end
  end
  return table.concat(cells, "  "):match "^.*%S" or ""
end

local function up_to(most)
  local list = {}
  for i = 1, most do list[#list + 1] = i end
  return list
end

-- Wraps the last column, which holds texts, below itself.
local function wrapped(rows, widths, align, most)
  local last = #widths
  local before = sum(widths, last) - widths[last]
  local lines = {}
  for _, row in ipairs(rows) do
    local cut = table.move(row, 1, #row, 1, {})
    local text = row[last]
    local parts = text and width(text) > most - before and tables.words_within(text, most - before) or { text }
    cut[last] = parts[1]
    lines[#lines + 1] = line_of(cut, widths, align, up_to(#row))
    for k = 2, #parts do lines[#lines + 1] = (" "):rep(before) .. parts[k] end
  end
  return lines
end

-- Blocks of as many columns as fit; each block repeats the first column.
local function in_blocks(rows, widths, align, most)
  local lines, from = {}, 2
  while from <= #widths do
    local shown, used = { 1 }, widths[1]
    repeat
      shown[#shown + 1], used = from, used + gap + widths[from]
      from = from + 1
    until from > #widths or used + gap + widths[from] > most
    if #lines > 0 then lines[#lines + 1] = "" end
    for _, row in ipairs(rows) do lines[#lines + 1] = line_of(row, widths, align, shown) end
  end
  return lines
end

--- Rows of texts as lines with aligned columns. Control characters appear as \xNN, invisible ones as
--- \u{N}. Where the columns are wider than the terminal, a last column of texts is wrapped; other columns continue in
--- further blocks below.
---@param rows string[][] the first row may be a heading
---@param align string "l" or "r" for each column; columns without a letter are aligned left
---@param indent string? before each line
---@param columns number? width of a line (default: the terminal's; no limit without one)
---@return string[] lines
function tables.lines(rows, align, indent, columns)
  indent = indent or ""
  local most = (columns or require("ett.host").columns or math.huge) - #indent
  local widths = {}
  rows = plain_rows(rows)
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width(cell)) end
  end
  local last, lines = #widths, {}
  if last < 2 or sum(widths, last) <= most then
    for r, row in ipairs(rows) do lines[r] = line_of(row, widths, align, up_to(#row)) end
  elseif align:sub(last, last) ~= "r" and sum(widths, last) - widths[last] + least_text <= most then
    lines = wrapped(rows, widths, align, most)
  else
    lines = in_blocks(rows, widths, align, most)
  end
  for i, line in ipairs(lines) do lines[i] = line == "" and "" or indent .. line end
  return lines
end

--- A text whose sentences fit the terminal: longer lines continue on the next one, indented by two more. Lines with
--- two spaces after the indentation are rows of tables and remain as they are.
---@param text string
---@param columns number? default: the terminal's; without one the text remains as it is
---@return string
function tables.fit(text, columns)
  local most = columns or require("ett.host").columns
  if not most then return text end
  return (text:gsub("[^\n]+", function(line)
    local indent, words = line:match "^( *)(.*)$"
    if width(line) <= most or words:find("  ", 1, true) then return nil end
    local parts = tables.words_within(words, math.max(most - #indent - 2, least_text))
    return indent .. table.concat(parts, "\n" .. indent .. "  ")
  end))
end

function tables.text(rows, align, indent) return table.concat(tables.lines(rows, align, indent), "\n") end

--- A value of a field as text: a list as its values with commas.
function tables.value(value) return type(value) == "table" and table.concat(value, ",") or tostring(value) end

local function csv_cell(value)
  if math.type(value) == "float" then return ("%.17g"):format(value) end
  local text = plain(tostring(value))
  if text:find '[,"\n]' then text = '"' .. text:gsub('"', '""') .. '"' end
  return text
end

--- Rows of values as CSV (RFC 4180): floats with 17 digits, texts quoted where they must be. An empty cell is "".
---@return string text without a newline at its end
function tables.csv(rows)
  local lines = {}
  for r, row in ipairs(rows) do
    local cells = {}
    for i, value in ipairs(row) do cells[i] = csv_cell(value) end
    lines[r] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n")
end

return tables
