--- The line that shows a command's progress.
local host = require "ett.host"
local progress = require "ett.cli.progress"

it("a progress line is cut at the terminal's width, because a line that wraps cannot be cleared", function()
  local terminal, columns, stream, text = host.error_terminal, host.columns, io.stderr, ""
  finally(function()
    host.error_terminal, host.columns = terminal, columns
    rawset(io, "stderr", stream)
  end)
  host.error_terminal, host.columns = true, 20
  rawset(io, "stderr", { write = function(_, ...) text = text .. table.concat { ... } end })
  local show = progress.line()
  show("%d of %d programs, %d layouts a second", 3, 10, 5000)
  show()
  assert.equal("\r\27[K3 of 10 programs, 5\r\27[K", text)
end)
