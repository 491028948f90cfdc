--- Searches over ranks and after kills: the same bytes, no unit lost or doubled.
local command = require "command"

local words = "search --model llama layers=16 hidden=2048 heads=16 vocab=32000 --cluster dgx_h100 --devices 64 "
  .. "--global-batch 256 --seq 2048 --json"
local fewer = words .. " --fix cp=1 --fix schedule=1f1b" -- a third of the work
local mpi = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 "
  .. "mpirun --oversubscribe --bind-to none -n %d"

describe("a search", function()
  local folder, whole, part = command.each_folder(_ENV), nil, nil
  setup(function()
    local status
    whole, status = command.ett("/", words)
    assert.equal(0, status)
    part, status = command.ett("/", fewer)
    assert.equal(0, status)
  end)

  --- Units in the journals of the folder: how many lines, how many distinct.
  local function units()
    local lines, distinct, seen = 0, 0, {}
    local found = command.shell(("cat '%s'/j/*/rows-*.jsonl 2>/dev/null | grep -o '\"unit\":[0-9]*'"):format(folder))
    for number in found:gmatch "%d+" do
      lines = lines + 1
      if not seen[number] then distinct = distinct + 1 end
      seen[number] = true
    end
    return lines, distinct
  end

  it("resumes from its journal after kills, with the same bytes", function()
    local most = 0
    for kill = 1, 6 do
      command.ett(folder, words .. " --journal j > /dev/null", ("timeout -s KILL 0.%d"):format(2 + kill))
      local lines, distinct = units()
      assert.equal(lines, distinct)
      assert.is_true(lines >= most)
      most = lines
    end
    assert.equal(whole, (command.ett(folder, words .. " --journal j")))
    local lines, distinct = units()
    assert.equal(lines, distinct)
    assert.equal(whole, (command.ett(folder, words .. " --journal j"))) -- nothing left to settle
    assert.equal(lines, (units()))
  end)

  it("refuses a journal of another build of ett", function()
    command.ett(folder, fewer .. " --journal j")
    command.shell(("sed -i '1s/ build .*/ build 0/' '%s'/j/*/rows-0.jsonl"):format(folder))
    local text, status = command.ett(folder, fewer .. " --journal j")
    assert.equal(1, status)
    assert.matches("rows%-0%.jsonl' was written by ett [%d.]+ build 0, this is [%d.]+ build %x+, and their numbers may "
      .. "differ; remove the folder 'j/%x+', or name another", text)
    -- A build: the modules that decide rows.
    local build = require("ett.search.journal").build
    local function written(path, line)
      command.shell(("mkdir -p '%s/%s' && echo '%s' > '%s/%s/a'"):format(folder, path, line, folder, path))
      return build(folder .. "/share", folder)
    end
    local first = written("share/lua/ett/step/page", "one")
    assert.equal(first, written("share/lua/ett/cli", "one"))
    local second = written("share/lua/ett/step/page", "two")
    assert.not_equal(first, second)
    assert.not_equal(second, written("lib/ett/ett", "one"))
  end)

  it("reports a full disk, and keeps all finished lines", function()
    local text, status = command.ett(folder, fewer .. " --journal j", "trap '' XFSZ; ulimit -f 8;")
    assert.equal(1, status)
    assert.matches("^ett: ", text)
    assert.equal(part, (command.ett(folder, fewer .. " --journal j")))
  end)

  if require("ett.sampling.mpirun").available() then
    it("shares a sweep: the same bytes, printed once", function()
      local listed = "sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 --cluster dgx_h100 seq=1024 "
        .. "global_batch=64 pp=1,2,3 tp=1..8 dp=1,2 micro_batch=1,2,3 --json"
      local one = command.ett(folder, listed)
      assert.matches("refused", one)
      for ranks = 2, 3 do assert.equal(one, (command.ett(folder, listed, mpi:format(ranks)))) end
    end)

    it("gives the same bytes on two ranks, and on three with a journal", function()
      assert.equal(part, (command.ett(folder, fewer, mpi:format(2))))
      assert.equal(part, (command.ett(folder, fewer .. " --journal j", mpi:format(3))))
      local lines, distinct = units()
      assert.equal(lines, distinct)
    end)
  end
end)
