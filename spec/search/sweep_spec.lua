--- Sweeps: what they refuse, and that one plan's fault stops no other.
local sweep = require "ett.search.sweep"

local model = require("ett.model").new("llama", { layers = 8, hidden = 512, heads = 8, vocab = 1000 })

local function run(over, plan)
  plan = plan or {}
  plan.seq, plan.micro_batches = 512, 4
  return sweep.new { model = model, cluster = "perlmutter", profile = false, plan = plan, over = over }
end

describe("a sweep", function()
  it("counts a combination that its schedule cannot run as refused, and goes on", function()
    local s = run({ vp = { 1, 2 }, pp = { 2, 4 } }, { schedule = "zb_h1" })
    assert.equal(2, #s.rows)
    assert.equal(2, s.refused)
    assert.matches('^zb_h1%.lua:%d+: stage 1 lacks unit {"F", 1, 2}$', s.refusal)
  end)
end)
