--- Collects garbage less often until the returned value is closed.
return function()
  local before = collectgarbage("setpause", 400)
  return setmetatable({}, { __close = function() collectgarbage("setpause", before) end })
end
