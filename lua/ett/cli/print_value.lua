--- Prints the value of a command as JSON or CSV if its options say so; returns whether they do.
---@param main string? the table that --csv prints without --table
return function(opts, value, main)
  if not (opts.json or opts.csv) then return false end
  io.write(require("ett.report.output").text(opts, value, main))
  return true
end
