--- The Lua library in a plain Lua interpreter: what ett.lua of the rock (ett-scm-1.rockspec) opens.
local command = require "command"
local host = require "ett.host"

local function plain(text)
  local folder = command.folder()
  command.write(folder, "script.lua", ("package.loaded.ett = assert(package.loadlib(%q, 'luaopen_ett'))()\n"):format(
    host.prefix .. "/lib/ett/libett.so") .. text)
  local output, status = command.shell(("cd '%s' && lua5.4 script.lua"):format(folder))
  command.remove(folder)
  return output, status
end

local function unless_missing()
  if select(2, command.shell("command -v lua5.4")) ~= 0 then pending "lua5.4 is not installed" end
  if not io.open(host.prefix .. "/lib/ett/libett.so") then pending "libett.so is not in this build" end
end

describe("require 'ett' in plain Lua", function()
  it("gives the library: the same step as the host's", function()
    unless_missing()
    local script = [[
local ett = require "ett"
local e = ett.estimate { cluster = "dgx_h100", plan = { tp = 2, seq = 512, micro_batches = 2 },
  model = ett.model.new("llama", { layers = 2, hidden = 512, heads = 8, vocab = 1000 }) }
print(("%.17g"):format(e.step_seconds))
local ok, why = pcall(ett.model.new, "llama", { layers = 2, hidden = 512, heads = 8, vocab = -1 })
print(tostring(why))
print(load == LOAD, package.path:sub(1, #PATH) == PATH, require("ett.profile.regressor").fitting() ~= nil)
]]
    local e = require("ett.step.estimate").new { cluster = "dgx_h100", plan = { tp = 2, seq = 512, micro_batches = 2 },
      model = require("ett.model").new("llama", { layers = 2, hidden = 512, heads = 8, vocab = 1000 }) }
    local output, status = plain("LOAD, PATH = load, package.path:match '^(.*);[^;]*;[^;]*$'\n" .. script)
    assert.equal(0, status, output)
    assert.same({ ("%.17g"):format(e.step_seconds), "llama: field 'vocab' must be a positive integer, got -1" },
      { output:match "^(%S+)\n([^\n]*)\n" })
    local fits = require("ett.profile.regressor").fitting() ~= nil -- a module of lib/ett
    assert.matches(("\ntrue\ttrue\t%s\n$"):format(fits), output)
  end)

  it("is what the rockspec installs", function()
    local rockspec = setmetatable({}, { __index = _G })
    assert(loadfile(host.root .. "/ett-scm-1.rockspec", "t", rockspec))()
    local package_file = assert(require("ett.io").read(host.root .. "/cmake/EttPackage.cmake"))
    for variable in pairs(rockspec.build.variables) do
      assert.is_truthy(variable:match "^CMAKE_" or package_file:find(variable, 1, true), variable)
    end
    assert.equal("$(LUADIR)", rockspec.build.variables.ETT_ROCK_LUA_FOLDER)
  end)
end)
