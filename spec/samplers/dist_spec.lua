--- The MPI binding on a job of one rank: wrong requests are errors, and closed objects are not used.
local sample = require "ett.sample"
local there, dist = pcall(require, "ett.dist")

describe("ett.dist on one rank", function()
  if not there then
    it("is skipped", function() pending "the MPI back end is not built here" end)
    return
  end
  local world = dist.open().world

  it("refuses to send without a receiver: MPI would end the process", function()
    local ok, err = pcall(world.run, world, "send_recv", sample.tensor(4))
    assert.is_false(ok)
    assert.equal("send_recv needs two ranks", err.message)
  end)

  it("refuses counts whose bytes exceed 64 bits, and numbers of repeats that exceed its own", function()
    local function time(count, least)
      return world:time { kind = "all_reduce", count = count, min_repeats = least, max_repeats = 3 }
    end
    for _, count in ipairs { (1 << 61) - 32, math.maxinteger, 1 << 31 } do
      local none, err = time(count, 1)
      assert.is_nil(none)
      assert.matches("elements are beyond MPI's 2%^31 %- 1 of one call", err.message)
    end
    assert.error_matches(function() time(8, 1 << 30) end, "field 'min_repeats' must be 0 to 1048576, got 1073741824")
    assert.error_matches(function() time(8, (1 << 32) + 1) end, "'min_repeats'")
    assert.error_matches(function() world:send(sample.tensor(1), 1 << 32) end, "no such rank")
  end)

  it("gives the time of a run that its budget ends after one or two repeats", function()
    for _ = 1, 20 do
      local r = world:time { kind = "all_reduce", count = 8, min_repeats = 1, max_repeats = 3, keep_raw = true }
      assert.is_true(#r.raw_seconds >= 1)
      assert.is_true(r.seconds > 0)
    end
  end)

  it("names the device of its tables as the back end cpu does: a profile takes samples of both", function()
    local find, real = require "ett.base.find", dist.open
    local cpu = find.load("samplers", "cpu")
    if not cpu.available() then pending "the CPU back end is not built here" end
    finally(function() dist.open = real end)
    dist.open = function() return setmetatable({ size = 2, nodes = 1 }, { __index = real() }) end
    local session = assert(find.load("samplers", "mpi").open())
    local other = assert(cpu.open { cold_bytes = 1 << 20 })
    assert.equal(other.device, session.device)
    other.close()
    session.close()
  end)

  it("states the uncertainty of a mean of the fastest repeats of a collective, and none of a median", function()
    local find, real = require "ett.base.find", dist.open
    finally(function() dist.open = real end)
    dist.open = function() return setmetatable({ size = 2, nodes = 1 }, { __index = real() }) end
    for statistic, known_to in pairs { low = 0.25, median = false } do
      local session = assert(find.load("samplers", "mpi").open { statistic = statistic })
      session.group = { close = function() end, time = function()
        return { seconds = 4e-6, median_seconds = 9e-6, half_width_seconds = 1e-6 }
      end }
      assert.equal(known_to, session.measure_collective({}, 1).known_to or false)
      session.close()
    end
  end)

  it("keeps the journal of shared work open until the work is closed", function()
    local path = os.tmpname()
    os.remove(path)
    local journal = assert(sample.journal(path, "a,b\n"))
    local work = world:work(journal, 1)
    assert.equal(1, (work:take()))
    journal:close()
    work:commit "1,2"
    local closed = world:work(nil, 1)
    local take = closed.take
    collectgarbage("incremental", 100, 1000, 63) -- the finaliser runs at the first allocation of the call
    collectgarbage "stop"
    setmetatable({}, { __gc = function() closed:close() end })
    collectgarbage "restart"
    local _, why = pcall(take, closed, 1.5) -- a number, of which C makes a text
    collectgarbage("incremental", 200, 100, 13)
    assert.equal("the work is closed", why)
    local _, locked = sample.journal(path, "a,b\n")
    assert.equal("limit", locked.kind)
    work:close()
    local again = assert(sample.journal(path, "a,b\n"))
    local none, err = again:append ""
    assert.is_nil(none)
    assert.equal("a line must not be empty", err.message)
    again:close()
    local file <close> = assert(io.open(path))
    assert.equal("a,b\n1,2\n", file:read "a")
    os.remove(path)
    os.remove((path:gsub("([^/]+)$", ".%1.lock")))
  end)
end)
