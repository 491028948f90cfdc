--- Names the files that a command has written, on standard error; not with --quiet.
---@param ... string? paths; nil for those that were not asked for
return function(opts, ...)
  if opts.quiet then return end
  for i = 1, select("#", ...) do
    local path = select(i, ...)
    if path then io.stderr:write(require("ett.base.pretty").plain("wrote " .. path), "\n") end
  end
end
