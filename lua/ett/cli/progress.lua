--- A line on the terminal while a command works, at most twice a second.
--
--   local show = progress.line(opts.quiet)
--   show("3 of 10 tables")       -- replaces the previous line; show() clears it
local host = require "ett.host"
local sample = require "ett.sample"

local progress = {}

local function nothing() end

--- A function that shows a text; it does nothing if standard error is not a terminal.
---@return fun(text: string?, ...: any)
function progress.line(quiet)
  if quiet or not host.error_terminal then return nothing end
  local last, shown = 0, false
  return function(text, ...)
    if not text then
      if shown then io.stderr:write "\r\27[K" end
      shown = false
    elseif not shown or sample.now() - last >= 0.5 then
      last, shown = sample.now(), true
      local line = require("ett.base.pretty").plain(text:format(...))
      io.stderr:write("\r\27[K", host.columns and line:sub(1, host.columns - 1) or line) -- a longer one would wrap
    end
  end
end

return progress
