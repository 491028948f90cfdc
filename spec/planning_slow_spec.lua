--- The pages of examples/planning: each command runs, and prints what its page shows.
local command = require "command"
local host = require "ett.host"

local folder = host.root .. "/examples/planning"

describe("the planning page", function()
  for name in require("lfs").dir(folder) do
    if name:match "%.md$" and name ~= "README.md" then
      it(name .. " shows what its command prints", function()
        local own = command.folder()
        local text = assert(command.read(folder, name))
        local block = assert(text:match "```\n(%$ ett.-)```", "a page has one block that begins with '$ ett'")
        command.write(own, "page.t", block)
        local output, status = command.shell(("'%s/bin/ett' transcript '%s/page.t'"):format(host.prefix, own))
        command.remove(own)
        assert.equal(0, status, output)
      end)
    end
  end
end)
