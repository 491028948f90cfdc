--- The median of a list of numbers.

--- The middle value, or the mean of the middle two. The list is not changed.
---@param values number[]
---@param sorted boolean? the list is in ascending order
---@return number? nil for an empty list
return function(values, sorted)
  local n = #values
  if n == 0 then return nil end
  if not sorted then
    values = table.move(values, 1, n, 1, {})
    table.sort(values)
  end
  if n % 2 == 1 then return values[n // 2 + 1] end
  return (values[n // 2] + values[n // 2 + 1]) / 2
end
