--- The Lua files compiled at build time (runtime/host/compiled.h): served only for the same text, and never needed.
local command = require "command"
local folder = require "ett.base.folder"
local host = require "ett.host"

local tree
local function shell(...)
  local line = string.format(...)
  assert(os.execute(line), line)
end

local function read(path) return assert(require("ett.io").read(path)) end

local function run(arguments)
  local text, status = command.shell(("'%s/bin/ett' %s"):format(tree, arguments))
  return text, status == 0
end

describe("Lua files compiled at build time", function()
  local bundle = read(host.prefix .. "/lib/ett/compiled")

  setup(function()
    tree = os.tmpname()
    os.remove(tree)
    shell("mkdir -p '%s/bin' '%s/lib/ett' '%s/share/ett'", tree, tree, tree)
    shell("cp '%s/bin/ett' '%s/bin' && ln -s '%s/lib/ett/ett' '%s/lib/ett/ett'", host.prefix, tree, host.prefix, tree)
    shell("cp -r '%s/lua' '%s/operators' '%s/clusters' '%s/samplers' '%s/share/ett'", host.root, host.root, host.root,
      host.root, tree)
  end)
  teardown(function() shell("rm -rf '%s'", tree) end)
  before_each(function() folder.write(tree .. "/lib/ett/compiled", bundle) end)

  it("are there for the modules of this tree", function()
    assert.is_truthy(bundle and #bundle > 1e6)
    local source = debug.getinfo(folder.write, "S").source
    assert.equal("@" .. host.root .. "/lua/ett/base/folder.lua", source)
  end)

  it("do not hide an edited file", function()
    local path = tree .. "/share/ett/lua/ett/cli/main.lua"
    local text = read(path)
    folder.write(path, "error('edited', 0)\n" .. text)
    local answer, ok = run("list clusters")
    folder.write(path, text)
    assert.is_falsy(ok)
    assert.matches("edited", answer)
    answer, ok = run("list clusters")
    assert(ok, answer)
  end)

  it("are optional: a damaged, foreign or missing file gives the same results", function()
    local expected, ok = run("list clusters")
    assert(ok, expected)
    local other_lua = bundle:gsub("%$LuaVersion: Lua 5%.4%.%d+", "$LuaVersion: Lua 5.4.99", 1)
    assert.are_not.equal(bundle, other_lua)
    local damaged = { "", "ettlua1", bundle:sub(1, 100), bundle:sub(1, 136) .. ("\255"):rep(8) .. bundle:sub(145),
      ("x"):rep(5000), other_lua, bundle:sub(1, 40000) }
    for i, content in ipairs(damaged) do
      folder.write(tree .. "/lib/ett/compiled", content)
      assert.equal(expected, (run("list clusters")), "case " .. i)
    end
    os.remove(tree .. "/lib/ett/compiled")
    assert.equal(expected, (run("list clusters")))
  end)

  it("name the file and line of an error as the text does", function()
    local function message()
      return (run("predict --model llama hidden=1024 layers=4 heads=8 vocab=1000 seq=128 tp=0 --traceback"))
    end
    local compiled = message()
    os.remove(tree .. "/lib/ett/compiled")
    assert.equal(message(), compiled)
  end)
end)
