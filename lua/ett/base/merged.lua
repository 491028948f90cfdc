--- A new table with the fields of several tables. Later tables override earlier ones; nil is skipped.
---@param ... table?
---@return table
return function(...)
  local all = {}
  for i = 1, select("#", ...) do
    for name, value in pairs((select(i, ...)) or {}) do all[name] = value end
  end
  return all
end
