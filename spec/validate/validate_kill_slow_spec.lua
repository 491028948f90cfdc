--- `ett validate` between ranks: ranks that die, and runs that are killed or interrupted.
local host = require "ett.host"
local sample = require "ett.sample"

if not require("needs").cpu("ett validate that is killed", _ENV) then return end
if not require("needs").ranks("ett validate that is killed", _ENV) then return end

local folder
local command = ("'%s/bin/ett' validate --scale 0.1 --configurations 2"):format(host.prefix)

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

--- Starts a run that takes many seconds; returns the ranks' numbers once both are there, and the number of ett itself.
---@param busy boolean? once they sample and train in turn
local function start(busy)
  os.execute(("mkdir %s/tmp; TMPDIR=%s/tmp setsid %s --layouts 2x1 --steps 60 --out %s/out >%s/text 2>&1 & "
    .. "echo $! >%s/pid"):format(folder, folder, command, folder, folder, folder))
  local ranks = wait_for(function()
    local launcher = processes(("^mpirun .*/ett validate --worker %s/out/ranks"):format(folder))[1]
    local list = launcher and processes(("^[^ ]*/ett validate --worker %s/out/ranks"):format(folder), launcher)
    return list and #list == 2 and list
  end, 120)
  assert(ranks, "two ranks are there")
  if busy then
    assert(wait_for(function() return read(("cat %s/out/ranks_2_*/*gelu*.csv 2>&1"):format(folder)):find "checked" end,
      120), "they sample")
    sample.pause(0.4)
  end
  return ranks, io.open(folder .. "/pid"):read("n")
end

local function nothing_left(seconds)
  return wait_for(function() return #processes("[e]tt validate.*" .. folder) == 0 end, seconds or 120)
end

--- What ett has said when it has ended, nil when it does not within 120 s.
local function said_at_the_end()
  return wait_for(function()
    local text = read(("cat %s/text"):format(folder))
    return text:match("ett: ") and text
  end, 120)
end

describe("ett validate that is killed", function()
  before_each(function() folder = require("command").folder() end)
  after_each(function() -- a running job would disturb the next specs
    os.execute(("pkill -KILL -f '[e]tt validate.*%s'; rm -rf '%s'"):format(folder, folder))
  end)

  for moment, busy in pairs { ["as it starts"] = false, ["while it samples and trains"] = true } do
    it("names a rank that dies " .. moment .. ", and leaves nothing behind", function()
      local text
      for _ = 1, 3 do -- mpirun names no rank if the other one fails in MPI_Init before it sees the death
        local ranks = start(busy)
        os.execute("kill -9 " .. ranks[2])
        text = said_at_the_end()
        if not (text and text:find("mpirun does not say which", 1, true)) then break end
        assert(nothing_left())
        os.execute(("rm -rf '%s/out' '%s/text'"):format(folder, folder))
      end
      if not text then text = read("ps -eo pid,ppid,stat,wchan:30,args | grep -E '[m]pirun|[e]tt validate'") end
      assert.matches("ett: layout 2x1, 2 ranks: rank [01] died: signal 9 %(Killed%); the other ranks were ended",
        text)
      assert(nothing_left())
    end)
  end

  it("leaves no rank behind when it is killed itself", function()
    if not os.execute("setpriv --pdeathsig TERM true >/dev/null 2>&1") then return pending "no setpriv (util-linux)" end
    local _, own = start()
    os.execute(("kill -9 %d"):format(own))
    assert(nothing_left())
  end)

  for signal, word in pairs { INT = "interrupted", TERM = "terminated" } do
    it("ends its ranks at SIG" .. signal, function()
      local _, own = start(true)
      -- to the whole group of processes, as a terminal sends it
      os.execute(("kill -%s -- -%d 2>/dev/null || kill -%s %d"):format(signal, own, signal, own))
      assert.matches("ett: " .. word .. "\n", assert(said_at_the_end()))
      assert(nothing_left(5)) -- they have ended before it said so
      assert.equal("", (read(("find %s/tmp -name 'pid.*'"):format(folder)))) -- an mpirun that could not clean up
    end)
  end
end)
