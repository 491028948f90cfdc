--- SIGTERM, as Slurm and timeout send it: temporary files are removed, rows stay whole, and the process ends.
local command = require "command"
local host = require "ett.host"
local lfs = require "lfs"

local folder = command.each_folder(_ENV)

local function write(name, text) command.write(folder, name, text) end

--- Starts ett in the folder. When `ready` (a shell condition) holds, it gets SIGTERM, and once more when `again` holds.
local function terminated(arguments, ready, again)
  return command.shell(([[cd '%s' && export TMPDIR='%s/tmp' && { '%s/bin/ett' %s & pid=$!
    terminate() { n=0; until eval "$1" || [ $n -gt 3000 ]; do sleep 0.05; n=$((n + 1)); done
      sleep 0.3; kill -TERM $pid; }
    terminate '%s'; [ -z '%s' ] || terminate '%s'; wait $pid; }]]):format(folder, folder, host.prefix, arguments,
    ready, again or "", again or ""))
end

local function left() return require("ett.base.folder").names(folder .. "/tmp", "^[^.]") end

describe("SIGTERM", function()
  before_each(function() lfs.mkdir(folder .. "/tmp") end)

  it("closes a script's objects, removes its temporary folder, and ends it", function()
    write("long.lua", [[
      require("ett.base.folder").within(function(path)
        local open <close> = setmetatable({}, { __close = function() io.open("closed", "w"):close() end })
        io.open(path .. "/file", "w"):close()
        io.open("begun", "w"):close()
        while true do end
      end)
    ]])
    local text, status = terminated("run long.lua", "[ -e begun ]")
    assert.equal(143, status, text)
    assert.matches("ett: long.lua:%d+: terminated", text)
    assert.is_table(lfs.attributes(folder .. "/closed"))
    assert.same({}, left())
  end)

  it("ends a script that catches every error, at the second, and its temporary folder is removed", function()
    write("deaf.lua", [[
      require("ett.base.folder").within(function(path)
        io.open(path .. "/file", "w"):close()
        io.open("begun", "w"):close()
        while true do pcall(function() while true do end end) io.open("caught", "w"):close() end
      end)
    ]])
    local text, status = terminated("run deaf.lua", "[ -e begun ]", "[ -e caught ]")
    assert.equal(143, status, text)
    assert.same({}, left())
  end)

  it("leaves nothing of a validation behind", function()
    if not require("ett.base.find").load("samplers", "cpu").available() then pending "no CPU back end" return end
    local text, status = terminated("validate --layouts 1x1 --configurations 1 --quiet", "[ -n \"$(ls tmp)\" ]")
    assert.equal(143, status, text)
    assert.same({}, left())
  end)

  it("lets a campaign finish the running shape and leaves a valid table", function()
    if not require("ett.base.find").load("samplers", "cpu").available() then pending "no CPU back end" return end
    write("c.lua", "return { name = 'c', visits = 1, cold_bytes = 1 << 20, samples = { { operator = 'gelu', "
      .. "shapes = { tokens = { start = 1, stop = 40000 }, width = 64 } } } }\n")
    local text, status = terminated("sample c.lua --out out --quiet", "grep -q ^3,64, out/*.csv 2>/dev/null")
    assert.equal(130, status, text)
    local path, measured = text:match("(out/%S+%.csv): (%d+) measured")
    assert(path, text)
    local held = require("ett.sampling.store").held(folder .. "/" .. path, 2)
    assert.equal(math.tointeger(tonumber(measured)), held.rows)
    assert.is_true(held.rows < 40000)
    assert.same({}, left())
  end)

  it("does not wait for the whole of a large block: its visits are kept", function()
    if not require("ett.base.find").load("samplers", "cpu").available() then pending "no CPU back end" return end
    write("c.lua", "return { name = 'c', visits = 4, block = 256, budget_seconds = 0.4, target = 1e-9, "
      .. "cold_bytes = 1 << 20, max_repeats = 4000, samples = { { operator = 'gelu', "
      .. "shapes = { tokens = { start = 1, stop = 256 }, width = 4096 } } } }\n")
    local text, status = terminated("sample c.lua --out out --quiet", "grep -q 3,4096 out/*.visits 2>/dev/null")
    assert.equal(130, status, text)
    assert.matches(" 0 measured", text)
    local kept = io.popen(("cat '%s'/out/*.visits"):format(folder)):read("a")
    assert.is_truthy(kept:find("3,4096", 1, true))
    local visits = select(2, kept:gsub("\n", ""))
    assert.is_true(visits < 256, visits) -- the block has 1024
  end)
end)
