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

it("the time left of a search follows from its last programs, because the first ones take longer", function()
  local sample, search, shown = require "ett.sample", require "ett.search.search", {}
  local line, now, new, at = progress.line, sample.now, search.new, 0
  finally(function() progress.line, sample.now, search.new = line, now, new end)
  function progress.line() return function(text, ...) shown[#shown + 1] = text and text:format(...) end end
  function sample.now() return at end
  function search.new(given)
    for k, seconds in ipairs { 10, 11, 12 } do
      at = seconds
      given.progress(10 * k, 100, nil, { plans = 100 * k })
    end
    error("done", 0)
  end
  local command = require("ett.base.find").load("lua/ett/cli/commands", "search")
  pcall(command.run, { model = "llama3-8b", devices = 8, global_batch = 8, seq = 1024, objective = {} }, {})
  assert.equal("30 of 100 programs, 25 layouts per second, about 23 s left", shown[3]) -- 28 s by all programs
end)
