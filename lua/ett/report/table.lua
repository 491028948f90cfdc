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

--- Rows of texts as lines with aligned columns. Control characters appear as \xNN.
---@param rows string[][] the first row may be a heading
---@param align string "l" or "r" for each column; columns without a letter are aligned left
---@param indent string? before each line
---@return string[] lines
function tables.lines(rows, align, indent)
  local widths = {}
  rows = plain_rows(rows)
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width(cell)) end
  end
  local lines = {}
  for r, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local pad = (" "):rep(widths[i] - width(cell))
      cells[i] = align:sub(i, i) == "r" and pad .. cell or cell .. pad
    end
    lines[r] = (indent or "") .. table.concat(cells, "  "):gsub("%s+$", "")
  end
  return lines
end

--- The same as one text.
function tables.text(rows, align, indent) return table.concat(tables.lines(rows, align, indent), "\n") end

local function csv_cell(value)
  if math.type(value) == "float" then return ("%.17g"):format(value) end
  local text = tostring(value)
  if text:find('[,"\r\n]') then text = '"' .. text:gsub('"', '""') .. '"' end
  return text
end

--- Rows of values as CSV (RFC 4180): floats with 17 digits, texts quoted where they must be. An empty cell is "".
---@param rows any[][]
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
