--- Scripts that resist: endless coroutines, catastrophic patterns, hooks that raise, bytecode.
local command = require "command"
local host = require "ett.host"

local folder
-- Seconds, status and output of a script; SIGTERM after half a second, SIGKILL after ten.
local function run(text, arguments)
  command.write(folder, "s.lua", text)
  local output, status = command.shell(("cd '%s'; export TIMEFORMAT='seconds %%R'; bash -c \"time timeout -k 10 0.5 "
    .. "'%s/bin/ett' %s\""):format(folder, host.prefix, arguments or "run s.lua --quiet"))
  return tonumber(output:match("real%s+%d+m([%d.]+)s") or output:match("seconds ([%d.]+)")), status, output
end

describe("SIGTERM", function()
  local most -- seconds: half a second until the signal, two to end, and what a slow machine adds
  setup(function()
    folder = command.folder()
    most = 0.5 + 2 + math.max(1, 5 * run "return nil")
  end)
  teardown(function() command.remove(folder) end)

  for what, text in pairs {
    ["an endless loop"] = "while true do end",
    ["a loop that catches every error"] = "while true do pcall(function() while true do end end) end",
    ["endless coroutines"] = "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    ["a catastrophic pattern"] = "return (('a'):rep(100000)):find(('a*'):rep(50) .. 'b')",
    ["a pattern in a coroutine"] =
      "return coroutine.wrap(function() return (('a'):rep(100000)):find(('a*'):rep(50) .. 'b') end)()",
    ["a hook that catches"] = "debug.sethook(function() while true do end end, '', 1) while true do end",
  } do
    it("ends " .. what .. " within two seconds", function()
      local seconds, status, output = run(text)
      assert.equal(124, status, output) -- 137: it took SIGKILL
      assert.is_true(seconds < most, output)
    end)
  end

  it("ends a kernel's Lua and a campaign's", function()
    if not pcall(require, "ett.sample") then return end
    command.write(folder, "own.lua", [[return { name = "own", summary = "x", schema = { n = "count" },
      shape = function() while true do end end, flops = function() while true do end end,
      bytes = function() return 1.0 end, kernel = function() while true do end end }]])
    for _, campaign in ipairs { "while true do end",
      "return { name = 'c', visits = 1, samples = { { operator = 'own', shapes = { n = 8 } } } }" } do
      local seconds, status, output = run(campaign, "sample s.lua --backend cpu --quiet")
      assert.equal(124, status, output)
      assert.is_true(seconds < most, output)
    end
  end)
end)

describe("a script", function()
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  it("cannot abort the host with a hook", function()
    for text, sentence in pairs {
      ["debug.sethook(function() error 'x' end, '', 1) while true do end"] = "ett: s.lua:1: x\n",
      ["debug.sethook(function() error 'x' end, 'crl', 1) error 'y'"] = "ett: s.lua:1: x\n",
      ["debug.sethook(function() error 'x' end, 'r')"] = "ett: s.lua:1: x\n",
    } do
      command.write(folder, "s.lua", text)
      local output, status = command.ett(folder, "run s.lua --quiet")
      assert.equal(1, status, output)
      assert.equal(sentence, output)
    end
  end)

  it("cannot load bytecode, from a text, a function or a file", function()
    command.write(folder, "code.luac", string.dump(function() return 1 end))
    command.write(folder, "s.lua", [[
      local code = string.dump(function() return 1 end)
      local once = { code }
      local function pieces() return table.remove(once) end
      local function reason(_, why) return why end
      print(reason(load(code)), reason(load(code, "x", "b")), reason(load(pieces, "x", "bt", {})))
      print(reason(loadfile "code.luac"), reason(loadfile("code.luac", "b")), reason(pcall(dofile, "code.luac")))
      print(load("return 7")(), load("return x", "name", nil, { x = 8 })(), load("return x", "name", "t", { x = 9 })(),
        select(2, load("return +", "=name")))
    ]])
    local output, status = command.ett(folder, "run s.lua --quiet")
    assert.equal(0, status, output)
    local refused, good = output:match("^(.*)\n(7\t8\t9\tname:1: [^\n]*)\n$")
    assert.is_truthy(good, output)
    local _, count = refused:gsub("attempt to load a binary chunk %(mode is 't'%)", "")
    assert.equal(6, count, output)
  end)
end)
