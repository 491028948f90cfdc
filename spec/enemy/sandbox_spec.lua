--- `--sandbox`: files of others that try to read, write, start programs, or never end.
local command = require "command"
local ended = command.ended

local model = "llama hidden=1024 layers=4 heads=8 vocab=1000 seq=128 micro_batches=4"

--- The real libraries, as a file can get them from ett's own modules: then only the kernel's limits hold.
local real = 'local host = require "ett.host" local real = require("ett.base.find").environment(host.root .. "/x") '

describe("a script in the sandbox", function()
  local folder = command.each_folder(_ENV)

  --- Runs a script for at most `seconds` of processor time.
  local function run(text, seconds, arguments)
    command.write(folder, "s.lua", text)
    return command.ett(folder, (arguments or "run s.lua") .. " --sandbox",
      ("ETT_SANDBOX_SECONDS=%d timeout 300"):format(seconds or 20))
  end

  --- What a terminal receives from a script, and the command's status. `keys`: commands that type on it.
  local function terminal(text, keys)
    command.write(folder, "s.lua", text)
    local output = command.shell(("cd %s && { %s; } | ETT_SANDBOX_SECONDS=20 timeout 300 script -qefc "
      .. "'trap : INT; %s/bin/ett run s.lua --sandbox; echo \"ended $?\"' /dev/null | tee shown"):format(folder,
      keys or "sleep 1", require("ett.host").prefix))
    local shown, status = output:gsub("\r\n", "\n"):match "^(.*)ended (%d+)\n"
    return shown, status and tonumber(status)
  end

  it("has no files, programs, C modules or bytecode in Lua", function()
    for text, sentence in pairs {
      ["io.open '/etc/passwd'"] = "ett: s.lua:1: io.open is not available in the sandbox\n",
      ["os.execute 'id'"] = "ett: s.lua:1: os.execute is not available in the sandbox\n",
      ["os.exit(3)"] = "ett: s.lua:1: os.exit is not available in the sandbox\n",
      ["os.setlocale 'C'"] = "ett: s.lua:1: os.setlocale is not available in the sandbox\n",
      ["os.getenv 'HOME'"] = "ett: s.lua:1: os.getenv is not available in the sandbox\n",
      ["debug.sethook()"] = "ett: s.lua:1: debug.sethook is not available in the sandbox\n",
      ["package.loadlib('x', 'y')"] = "ett: s.lua:1: package.loadlib is not available in the sandbox\n",
      ["load('io.popen \"id\"')()"] = "io.popen is not available in the sandbox\n",
      ["return _G.io.lines 'x'"] = "io.lines is not available in the sandbox\n",
      ["dofile '/etc/passwd'"] = "ett: s.lua:1: cannot open /etc/passwd",
      ["require 'lfs'"] = "require 'lfs': the sandbox has only modules of ett and those beside the script\n",
      ["assert(load(string.dump(function() end)))"] = "attempt to load a binary chunk (mode is 't')",
    } do
      local output, status = run(text)
      assert.is_true(status == 1 or status == 2, output)
      assert.is_truthy(output:find(sentence, 1, true), output)
    end
  end)

  it("predicts, and finds the files beside it", function()
    command.write(folder, "beside.lua", "return { layers = 2 }")
    local text = [[local ett = require "ett"
      local plan = { seq = 128, micro_batches = 2 }
      local e = ett.estimate { cluster = "dgx_h100", plan = plan, model = ett.model.new("llama", {
        layers = require("beside").layers, hidden = 512, heads = 8, vocab = 1000 }) }
      return e.step_seconds]]
    local inside = run(text)
    local output = ended(0, command.ett(folder, "run s.lua"))
    assert.equal(output, inside)
    command.write(folder, "beside.lua", "return { layers = io.open 'x' }")
    assert.matches("io.open is not available in the sandbox", (run(text)))
    local predict = "predict --cluster dgx_h100 --model " .. model
    local plain = command.ett(folder, predict)
    assert.equal(plain, (command.ett(folder, predict, "ETT_SANDBOX=1")))
  end)

  it("takes no file that the script has opened for ett's compiled files", function()
    command.write(folder, "big", ("x"):rep(8e6))
    ended(0, run(real .. [[local files = {}
      for i = 1, 9 do files[i] = real.io.open "big" end
      return require("ett.search.search") ~= nil]]))
  end)

  it("changes no library that ett uses", function()
    local output = ended(1, run [[
      string.format, table.concat, math.max = function() return "own" end, nil, nil
      print(getmetatable("").__index)
      return require("ett").estimate { cluster = "dgx_h100", plan = { seq = 128, micro_batches = 2 },
        model = require("ett").model.new("llama", { layers = 2, hidden = 512, heads = 8, vocab = 1000 }) } ]])
    assert.equal("ett: s.lua:2: attempt to index a boolean value\n", output)
    output = ended(0, run [[string.format, table.concat = function() return "own" end, nil
      return { ("%d"):format(7), string.format() }]])
    assert.matches('{ "7", "own" }', output, 1, true)
  end)

  it("reads, writes and starts nothing outside, though it has the real libraries", function()
    assert(require("lfs").link("/etc/passwd", folder .. "/link", true))
    local output, status = run(real .. [[
      for _, path in ipairs { "/etc/passwd", "link", "/proc/self/environ", "/root", "/home" } do
        local file = real.io.open(path)
        print(path, file and file:read(1))
      end
      print("own", real.io.open "s.lua" ~= nil)
      print("new", real.io.open("new", "w"))
      print("append", real.io.open("s.lua", "a"))
      print("removed", real.os.remove "s.lua")
      print("renamed", real.os.rename("s.lua", "t.lua"))
      print("executed", real.os.execute "touch ran")
      local ok, pipe = pcall(real.io.popen, "touch ran")
      print("piped", ok and pipe)
    ]])
    assert.equal(0, status, output)
    local function line(name) return output:match("\n?" .. name .. "\t([^\n]*)") end
    for _, name in ipairs { "/etc/passwd", "link", "/proc/self/environ", "/root", "/home" } do
      assert.equal("nil", line(name), output)
    end
    assert.equal("true", line "own")
    for _, name in ipairs { "new", "append", "removed", "renamed", "executed", "piped" } do
      assert.matches("^nil", line(name), output)
    end
    for _, name in ipairs { "new", "t.lua", "ran" } do assert.is_nil(command.read(folder, name)) end
  end)

  it("sends no control characters to the terminal, and dies with its reader", function()
    local output = ended(0, run [[print("a\27]0;owned\7\tb") return "\27[31m\194\155red"]])
    assert.equal("a\\x1b]0;owned\\x07\tb\n\\x1b[31m\\x9bred\n", (output:gsub("# [^\n]*\n", "")))
    command.write(folder, "s.lua", "for _ = 1, 9 do print(('x'):rep(1e6)) end")
    output = command.ett(folder, "run s.lua 2>said | head -c 1; cat said", "ETT_SANDBOX=1")
    assert.equal("x", output)
  end)

  it("sends no control characters to the terminal, though it has the real libraries", function()
    math.randomseed(7)
    local bytes = {}
    local codes = { 0x85, 0x3bb, 0x1f600, 0x202e }
    for i = 1, 5000 do
      bytes[i] = i % 3 > 0 and string.char(math.random(0, 255)) or utf8.char(codes[math.random(#codes)])
    end
    bytes = table.concat(bytes) .. "\27[2J\194"
    command.write(folder, "bytes", bytes)
    local output, status = terminal(real .. [[
      real.io.stdout:setvbuf "no"
      local bytes, at = real.io.open("bytes", "rb"):read "a", 1
      while at <= #bytes do
        local stream = at % 2 == 0 and real.io.stdout or real.io.stderr
        stream:write(bytes:sub(at, at + at % 7))
        at = at + at % 7 + 1
      end ]])
    assert.equal(0, status)
    assert.equal(require("ett.base.pretty").plain(bytes), output)
    output = terminal(real .. [[
      real.io.stdout:write "a\n"
      real.io.stderr:write "\r\27[K1 of 2\r\27[K\r\27[A"
      print("b", real.io.read(1)) ]], "printf 'x\\n'; sleep 1")
    output = output:gsub("x\n", "", 1) -- the terminal's echo
    assert.equal("a\n\r\27[K1 of 2\r\27[K\\x0d\\x1b[Ab\tnil\n", output) -- a line of progress is cleared
  end)

  it("ends at Ctrl-C after what it printed", function()
    local output, status = terminal("print 'begun' while true do end",
      "until grep -q begun shown 2>/dev/null; do sleep 0.05; done; printf '\\003'; sleep 1")
    assert.equal(130, status, output)
    assert.matches("^begun\n", output)
  end)

  it("requires no bytecode outside the sandbox either", function()
    require("ett.base.folder").write(folder .. "/beside.lua", string.dump(function() return 1 end))
    command.write(folder, "s.lua", "return require 'beside'")
    assert.matches("attempt to load a binary chunk %(mode is 't'%)", ended(1, command.ett(folder, "run s.lua")))
  end)

  it("ends at a limit with one sentence", function()
    local limit = "ett: stopped by the sandbox: more than 1 s of processor time (ETT_SANDBOX_SECONDS sets the limit)\n"
    for _, text in ipairs { "return (('a'):rep(100000)):find(('a*'):rep(50) .. 'b')",
      "local function f() while true do pcall(error) end end while true do pcall(coroutine.wrap(f)) end" } do
      command.write(folder, "s.lua", text)
      local said, user, system = ended(1, command.shell(("cd '%s'; bash -c \"TIMEFORMAT='took %%U %%S'; "
        .. "time ETT_SANDBOX_SECONDS=1 '%s/bin/ett' run s.lua --sandbox\""):format(folder,
        require("ett.host").prefix))):match "^(.*)took (%S+) (%S+)\n$"
      -- A busy machine may not give it 1 s within 10 s, the limit of all time.
      if not (said:find("still running after 10 s", 1, true) and user + system < 1.2) then
        assert.equal(limit, said)
      end
    end
    local output = ended(1, run("while true do print(('x'):rep(1e6)) end", 60, "run s.lua >out"))
    assert.equal("ett: stopped by the sandbox: more than 64 MiB of output\n", output)
    local size = #command.read(folder, "out")
    assert.is_true(size > 63 << 20 and size <= 64 << 20, size)
    output = command.ett(folder, "run s.lua | wc -c", "ETT_SANDBOX=1 timeout 300")
    assert.matches("^ett: stopped by the sandbox: more than 64 MiB of output\n%d+\n$", output)
    command.write(folder, "s.lua", "local t = {} while true do t[#t + 1] = ('x'):rep(1e7) .. #t end")
    output = ended(1, command.ett(folder, "run s.lua --sandbox", "ETT_MEMORY_LIMIT=64M timeout 300"))
    assert.equal("ett: s.lua: not enough memory: Lua may use 64 MiB (ETT_MEMORY_LIMIT sets the limit)\n", output)
  end)

  it("ends if it waits, though it closed its output", function()
    command.shell("mkfifo " .. folder .. "/fifo")
    local output = ended(1, run(real .. "print 'begun' real.io.stdout:close() real.io.stderr:close() dofile 'fifo'", 1))
    assert.equal("begun\nett: stopped by the sandbox: still running after 10 s (10 times ETT_SANDBOX_SECONDS)\n",
      output)
  end)

  it("says why its output cannot be written, and keeps its status", function()
    local output = ended(1, run("print 'x'", 20, "run s.lua >/dev/full"))
    assert.equal("ett: cannot write the output: No space left on device\n", output)
    ended(1, command.shell(("cd %s && bash -c \"trap '' CHLD; %s/bin/ett run missing.lua --sandbox\""):format(
      folder, require("ett.host").prefix)))
  end)

  it("ends with SIGTERM to the waiting process, whatever the script does", function()
    command.write(folder, "s.lua", "while true do pcall(function() while true do end end) end")
    local output = ended(0, command.ett(folder, "run s.lua & sleep 0.5; kill $!; wait $!; echo \"ended $?\"",
      "ETT_SANDBOX=1 "))
    assert.matches("ended 143", output)
  end)

  it("searches, and refuses options that write", function()
    local search = "search --cluster dgx_h100 --devices 4 --global-batch 16 --seq 128 --model llama hidden=512 "
      .. "layers=4 heads=8 vocab=1000 cp=1 zero=1"
    local plain = ended(0, command.ett(folder, search))
    assert.equal(plain, (command.ett(folder, search .. " --sandbox")))
    for _, option in ipairs { "journal", "html" } do
      local output
      output = ended(2, command.ett(folder, ("%s --sandbox --%s x"):format(search, option)))
      local sentence = "ett: search: --%s writes a file, which the sandbox forbids\n"
      assert.equal(sentence:format(option), output)
    end
    assert.is_nil(command.read(folder, "x"))
  end)

  it("holds for help, which runs files", function()
    local write = real .. "print(real.io.open('new', 'w'))"
    command.write(folder, "mine.lua", write)
    assert.matches("^nil\tnew: .*usage: ett run s.lua", ended(0, run(write, 20, "run s.lua --help")))
    local output = command.ett(folder, "predict --model mine --path . --help", "ETT_SANDBOX=1")
    assert.matches("^nil\tnew: ", output)
    command.shell(("mkdir %s/ett; cp %s/mine.lua %s/ett/sandbox.lua"):format(folder, folder, folder))
    for _, before in ipairs { "", "ETT_PATH=" .. folder } do
      output = ended(0, command.ett(folder, "predict --quiet --path . --sandbox --model " .. model, before))
      assert.matches("^[%d.]+\n$", output)
    end
    assert.is_nil(command.read(folder, "new"))
  end)

  it("is refused where a command starts programs, and for wrong values", function()
    local output
    command.write(folder, "c.lua", "os.execute 'touch ran' return {}")
    for _, name in ipairs { "sample", "submit", "validate", "fit", "trace", "samples", "calibrate", "cluster", "spec",
      "simple-transformer" } do
      output = ended(2, command.ett(folder, name .. " c.lua", "ETT_SANDBOX=1"))
      assert.equal(("ett: ett %s does not run in the sandbox; unset ETT_SANDBOX if you trust its files\n"):format(name),
        output)
    end
    assert.is_nil(command.read(folder, "ran"))
    for variable, sentence in pairs { ["ETT_SANDBOX=yes"] = "ETT_SANDBOX must be 0 or 1, got 'yes'",
      ["ETT_SANDBOX=1 ETT_SANDBOX_SECONDS=abc"] = "ETT_SANDBOX_SECONDS must be a positive whole number, got 'abc'" } do
      assert.equal("ett: " .. sentence .. "\n", ended(2, command.ett(folder, "predict --model " .. model, variable)))
    end
  end)
end)
