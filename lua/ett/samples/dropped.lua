--- Messages about the rows that the outlier filter dropped, by file, reason and line.
local line = require("ett.base.pretty").line

local dropped = {}

--- Formats ascending numbers as "2, 5-9, 12".
local function ranges(lines)
  local out, i = {}, 1
  while i <= #lines do
    local last = i
    while lines[last + 1] == lines[last] + 1 do last = last + 1 end
    out[#out + 1] = last > i and ("%d-%d"):format(lines[i], lines[last]) or tostring(lines[i])
    i = last + 1
  end
  return table.concat(out, ", ")
end

--- One sentence per model, file and reason, in a fixed order, without control characters. Row 0 is the whole file.
---@param rows table[] { row=, path=, line=, reason=, model= } from Profile:report or ett.coefficients
---@return string[]
function dropped.lines(rows)
  local groups, order = {}, {}
  for _, row in ipairs(rows) do
    local key = ("%s\0%s\0%s"):format(row.path, row.model, row.reason)
    if not groups[key] then
      groups[key] = { path = row.path, model = row.model, reason = row.reason, lines = {}, void = row.void }
      order[#order + 1] = key
    end
    table.insert(groups[key].lines, row.line)
  end
  table.sort(order)
  local out = {}
  for _, key in ipairs(order) do
    local g = groups[key]
    table.sort(g.lines)
    if #g.lines == 0 then
      out[#out + 1] = line(("%s: %s: %s; %s"):format(g.path, g.model, g.reason,
        g.void and "the pass is void, none of its rows is used" or "the rows are kept"))
    else
      local s = #g.lines > 1 and "s" or ""
      out[#out + 1] = line(("%s: %s: %d row%s %s: line%s %s"):format(g.path, g.model, #g.lines, s, g.reason, s,
        ranges(g.lines)))
    end
  end
  return out
end

return dropped
