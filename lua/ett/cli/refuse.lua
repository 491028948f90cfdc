--- Raises for the first of the named options that is given: refuse(opts, { "raw" }, "sample: --%s needs …", …).
---@param format string of the message; its first %s is the option
return function(opts, names, format, ...)
  for _, name in ipairs(names) do
    if opts[name] then require("ett.base.error").raise("usage", format, (name:gsub("_", "-")), ...) end
  end
end
