local decisions = dofile(require("ett.host").root .. "/spec/bench/support/decisions.lua")

-- A step of one device, of which computing takes a share of the predicted time and links the rest.
local function step(name, words, predicted, measured, share)
  local plan = { seconds = predicted, parts = setmetatable({ computing = share * predicted, links =
    (1 - share) * predicted }, { __index = function() return 0.0 end }), whole = predicted, place = "a", software = "a",
    program = words, spread = 0.0, runs = 0.0 }
  return { name = name, words = words, decision = { predicted = predicted, measured = measured, plan = plan } }
end

describe("spec/bench/support/decisions.lua", function()
  local list = decisions.pairs {
    step("one/a", "m tp=1 dp=4", 1.0, 1.0, 1.0),
    step("one/b", "m tp=2 dp=2", 1.5, 1.2, 0.9),
    step("one/c", "m tp=1 dp=8", 1.1, 0.5, 1.0),
    step("two/a", "m seq=8 dtype=fp8", 1.0, 1.0, 1.0),
    step("two/b", "m seq=9", 2.0, 1.01, 1.0),
  }

  it("ranks the steps of a group whose measured times differ by more than 2 %", function()
    local f = decisions.figures(list)
    assert.same({ 3, 1 }, { f.pairs, f.groups })
    assert.near(100 * 2 / 3, f.right_percent, 1e-9) -- c is the fastest, and ett says that a is
    assert.near(100 * (1 - 1.5 / 1.1 / 2.4), f.off_percent, 1e-9) -- the median; the others are 25 and 120 %
    local held = 0
    for _, range in ipairs(f.held) do held = held + range.pairs end
    assert.equal(3, held)
  end)

  it("names what differs in a pair", function()
    local function kind(a, b) return decisions.kind({ words = a }, { words = b }) end
    assert.equal("layout", kind("m tp=1 dp=4", "m tp=2 dp=2"))
    assert.equal("devices, batch", kind("m tp=1 dp=4 global_batch=8", "m tp=1 dp=8 global_batch=8"))
    assert.equal("devices, batch", kind("m tp=1 dp=4 global_batch=8", "m tp=1 dp=4 global_batch=16"))
    assert.equal("recomputation", kind("m recompute=full recompute_layers=4", "m recompute=none"))
    assert.equal("several", kind("m seq=8 dtype=fp8", "m seq=9"))
  end)
end)
