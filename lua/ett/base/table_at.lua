--- The table at a key of a table; makes an empty one if there is none.
return function(of, key)
  local found = of[key]
  if not found then
    found = {}
    of[key] = found
  end
  return found
end
