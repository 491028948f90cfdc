--- The processor to which a measuring thread is pinned, from synthetic counters of the system.
local processor = require "ett.sampling.machine"

--- Counters of processors that were busy for these shares of 100 ticks.
local function counters(shares)
  local before, after = {}, {}
  for n, share in pairs(shares) do
    before[#before + 1] = ("cpu%d 1000 0 500 7000 10 0 5 20 0 0\n"):format(n)
    after[#after + 1] = ("cpu%d %d 0 500 %d 10 0 5 20 0 0\n"):format(n, 1000 + 100 * share, 7000 + 100 * (1 - share))
  end
  return processor.ticks("cpu  1 2 3 4\n" .. table.concat(before) .. "intr 5\n"), processor.ticks(table.concat(after))
end

local function alone(n) return { n } end
local function none() return nil end
local function choose(allowed, shares, siblings, clock, current)
  local before, after = counters(shares)
  return processor.quietest(allowed, before, after, siblings or alone, clock or none, current)
end

describe("the processor of a measuring thread", function()
  it("is the least busy one that the process may use", function()
    assert.equals(2, choose({ 1, 2, 3 }, { [0] = 0, [1] = 0.5, [2] = 0.1, [3] = 0.9 }, nil, nil, 1))
  end)

  it("is the present one unless another is better, and not processor 0 if all are idle", function()
    assert.equals(3, choose({ 0, 1, 2, 3 }, { [0] = 0, [1] = 0, [2] = 0, [3] = 0.01 }, nil, nil, 3))
    assert.equals(1, choose({ 0, 1 }, { [0] = 0, [1] = 0 }, nil, nil, 2))
  end)

  it("has an idle sibling on its core rather than a busy one", function()
    local function siblings(n) return { n % 2, n % 2 + 2 } end -- 0 and 2, 1 and 3
    assert.equals(1, choose({ 0, 1, 2, 3 }, { [0] = 0.9, [1] = 0.02, [2] = 0, [3] = 0.02 }, siblings, nil, 2))
  end)

  it("is a performance core on machines with efficiency cores", function()
    local function clock(n) return n < 2 and 5.0e6 or 3.5e6 end
    assert.equals(1, choose({ 0, 1, 2, 3 }, { [0] = 0.8, [1] = 0.3, [2] = 0, [3] = 0 }, nil, clock, 3))
  end)

  it("is read off lists and counters as the system writes them", function()
    assert.same({ 0, 1, 2, 8 }, processor.numbers "0-2,8")
    assert.same({}, processor.numbers(nil))
    local ticks = processor.ticks "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 1 5 100 20 2 3 4 6 0\ncpu12 1 1 1 1 1 1 1 1 0 0\n"
    assert.same({ busy = 25, all = 145 }, ticks[0])
    assert.same({ busy = 6, all = 8 }, ticks[12])
  end)

  it("is one of this machine's", function()
    local chosen = processor.choose_processor()
    assert.is_true(chosen >= -1 and math.type(chosen) == "integer")
  end)
end)
