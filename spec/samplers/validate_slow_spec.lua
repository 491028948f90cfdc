--- `ett validate` between ranks: a layout from samples to the error of its steps, and ranks that die.
local find = require "ett.find"
local host = require "ett.host"
local sample = require "ett.sample"

local usable, why = find.load("samplers", "cpu").available()
if usable then usable, why = require("ett.validate_ranks").available() end
if not usable then
  describe("ett validate between ranks", function()
    it("is not at hand", function() pending(why) end)
  end)
  return
end

local folder
local command = ("'%s/bin/ett' validate --scale 0.1"):format(host.prefix)

local function read(pipe_command)
  local pipe = io.popen(pipe_command)
  local text = pipe:read("a")
  return text, pipe:close()
end

--- Numbers of the processes whose command line has some words.
---@param parent string? only of its children
local function processes(words, parent)
  local list = {}
  local of = parent and "-P " .. parent or ""
  for number in read(("pgrep %s -f '%s'"):format(of, words)):gmatch("%d+") do list[#list + 1] = number end
  return list
end

local function wait_for(condition, seconds)
  local stop = sample.now() + seconds
  while sample.now() < stop do
    local value = condition()
    if value then return value end
    sample.pause(0.05)
  end
end

--- Starts a run of many steps; returns the ranks' numbers once they train, and the launcher's.
local function start()
  os.execute(("%s --layouts 2x1 --steps 60 --out %s/out >%s/text 2>&1 & echo $! >%s/pid"):format(command, folder,
    folder, folder))
  local ranks = wait_for(function()
    local launcher = processes(("^mpirun .*/ett validate --worker %s/out/ranks"):format(folder))[1]
    -- a command that a rank has just forked looks like a rank, but is not mpirun's child
    local list = launcher and processes(("^[^ ]*/ett validate --worker %s/out/ranks"):format(folder), launcher)
    return list and #list == 2 and list
  end, 120)
  assert(ranks, "two ranks train")
  return ranks, io.open(folder .. "/pid"):read("n")
end

local function nothing_left()
  return wait_for(function() return #processes("[e]tt validate.*" .. folder) == 0 end, 20)
end

describe("ett validate between ranks", function()
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    require("lfs").mkdir(folder)
  end)
  after_each(function() os.execute(("rm -rf '%s'"):format(folder)) end)

  for layout, collective in pairs { ["2x1"] = "dp +all_reduce", ["1x2"] = "tp +all_reduce", ["pp2"] = "pp +send_recv",
    ["2x2"] = "tp +all_reduce" } do
    it("predicts and trains " .. layout, function()
      local text, ok = read(("%s --layouts %s --configurations 2 --steps 3 --lines 2>&1"):format(command, layout))
      assert(ok, text)
      local before, after = text:match(layout .. "  4 x 128 .-  predicted +[%d.]+ ms  measured +[%d.]+ ms  error +"
        .. "[-+%d.]+ %%  others +[%d.]+ %%.-  loss ([%d.]+) %-> ([%d.]+)")
      assert(before, text)
      assert.is_true(tonumber(after) < tonumber(before))
      assert.matches(collective .. " +%d+%.%d +%d+%.%d+ +%d+%.%d+ +[-+]%d", text)
      assert.matches("# " .. layout .. ": median error of the step [%d.]+ %% over 2 configurations", text)
    end)
  end

  it("goes on from the samples of an earlier run, which operators and steps took in turn", function()
    local ran = ("%s --layouts 2x1 --configurations 1 --steps 3 --out '%s/out' 2>&1"):format(command, folder)
    local text, ok = read(ran)
    assert(ok, text)
    assert.matches("tables take turns", (read(("cat '%s/out/ranks_2_near/'*gelu*.csv"):format(folder))))
    local rows = assert(read(("cat '%s/out/ranks_2_near/'*.csv | grep -c '^[0-9]'"):format(folder)))
    text, ok = read(ran)
    assert(ok, text)
    assert.equal(rows, (read(("cat '%s/out/ranks_2_near/'*.csv | grep -c '^[0-9]'"):format(folder))))
  end)

  it("names a rank that dies while it trains, and leaves nothing behind", function()
    local ranks = start()
    os.execute("kill -9 " .. ranks[2])
    local text = wait_for(function()
      local said = read(("cat %s/text"):format(folder))
      return said:match("ett: ") and said
    end, 30)
    assert(text, "it ends")
    assert.matches("ett: layout 2x1, 2 ranks: rank [01] died: signal 9 %(Killed%); the other ranks were ended",
      text)
    assert(nothing_left())
  end)

  it("leaves no rank behind when it is killed itself", function()
    if not os.execute("command -v setpriv >/dev/null 2>&1") then return pending("no setpriv (util-linux)") end
    local _, own = start()
    os.execute(("kill -9 %d"):format(own))
    assert(nothing_left())
  end)

  it("predicts nothing from an operator that computes a wrong result", function()
    os.execute(("mkdir -p '%s/samplers/cpu'"):format(folder))
    require("ett.folder").write(folder .. "/samplers/cpu/doubles.lua", ("local kinds = dofile '%s/samplers/cpu/"
      .. "doubles.lua'\nkinds.gelu = function(_, v) return { y = v.x, dx = v.x } end\nreturn kinds\n")
      :format(host.root))
    for layout, where in pairs { ["1x1"] = "", ["2x1"] = "layout 2x1, 2 ranks: " } do
      local text, ok = read(("ETT_PATH='%s' %s --quiet --layouts %s --configurations 1 2>&1"):format(folder, command,
        layout))
      assert.is_falsy(ok)
      assert.is_truthy(text:find("ett: " .. where .. "sampling operators: ", 1, true), text)
    end
    local text, ok = read(("ETT_PATH='%s' %s --quiet --no-check --layouts 1x1 --configurations 1 --steps 3 2>&1")
      :format(folder, command))
    assert(ok, text)
  end)

  it("says what is missing where mpirun is not", function()
    local text, ok = read(("PATH=/nowhere %s --layouts 2x1 2>&1"):format(command))
    assert.is_falsy(ok)
    assert.matches("ett: layout 2x1 needs several ranks: no mpirun here: install openmpi%-bin", text)
  end)
end)
