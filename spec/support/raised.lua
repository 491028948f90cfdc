--- raised(fn, ...): calls a function that must raise an error; returns the error's text.
return function(fn, ...)
  local ok, why = pcall(fn, ...)
  if ok then error("raised no error", 2) end
  return tostring(why)
end
