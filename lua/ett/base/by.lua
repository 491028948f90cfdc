--- A comparison of records for table.sort: by("-seconds", "name") sorts by descending seconds, then by name. A key may
--- also be a function of the record.
return function(...)
  local keys, signs = { ... }, {}
  for i, key in ipairs(keys) do
    local name = type(key) == "string" and key:gsub("^%-", "")
    signs[i] = not name or name == key
    keys[i] = name and function(record) return record[name] end or key
  end
  return function(a, b)
    for i, key in ipairs(keys) do
      local x, y = key(a), key(b)
      if x ~= y then return (x < y) == signs[i] end
    end
    return false
  end
end
