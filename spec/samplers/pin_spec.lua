--- Programs that a pinned process starts run where it began to once it is unpinned: ranks of `ett validate` and of
--- `ett cluster init` do.
if not require("needs").cpu("unpinning", _ENV) then return end
local backend = require("ett.base.find").load("samplers", "cpu")

describe("unpinning", function()
  local cpu = require "ett.cpu"

  local function allowed(path)
    for line in io.lines(path) do
      local list = line:match "^Cpus_allowed_list:%s*(%S+)"
      if list then return list end
    end
  end

  local function of_child()
    local pipe = io.popen "grep Cpus_allowed_list /proc/self/status"
    local list = pipe:read("a"):match ":%s*(%S+)"
    pipe:close()
    return list
  end

  it("restores the processors after pinning, also for programs started later", function()
    local before = allowed "/proc/thread-self/status"
    local pinned = assert(cpu.pin(-1))
    assert.equals(tostring(pinned[1]), of_child())
    cpu.unpin()
    assert.equals(before, allowed "/proc/thread-self/status")
    assert.equals(before, of_child())
  end)

  it("is done by the last session that is closed", function()
    local before = of_child()
    local first = assert(backend.open { cold_bytes = 1 << 20 })
    local pinned = of_child()
    assert.matches("^%d+$", pinned)
    local second = assert(backend.open { cold_bytes = 1 << 20 })
    first.close()
    first.close()
    assert.equals(pinned, of_child())
    second.close()
    assert.equals(before, of_child())
    -- One that was not opened leaves nothing.
    assert.is_nil((backend.open { threads = 1000 }))
    assert.equals(before, of_child())
  end)
end)

it("the CPU back end accepts at most the largest number of threads of a campaign", function()
  local cpu, most = require "ett.cpu", require("ett.sample").most_threads
  local ok, why = cpu.pin(-1, most)
  assert.matches(("%d threads need %d processors"):format(most, most), tostring(why))
  assert.is_nil(ok)
  for _, call in ipairs { function() cpu.pin(-1, most + 1) end, function() cpu.set_threads(most + 1) end } do
    assert.error_matches(call, ("1 to %d threads"):format(most))
  end
end)
