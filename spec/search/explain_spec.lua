--- The neighbours of the best plan.
local estimate = require "ett.step.estimate"
local search = require "ett.search.search"

describe("the neighbours of a plan", function()
  it("follow the overlaps of the stack, as ett predict does with their words", function()
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 1000 })
    local plan = { seq = 1024, global_batch = 16, micro_batch = 1, pp = 2, tp = 1, schedule = "1f1b",
      stack = "megatron", overlap_sends = false }
    local s = search.new { model = model, cluster = "dgx_h100", devices = 4, plan = plan }
    local best = s.best.estimate.plan
    assert.is_false(best.overlap_sends)
    local own = {}
    for name, value in pairs(best) do own[name] = value end
    own.schedule, own.vp, own.overlap_sends, own.micro_batches = "interleaved", 2, nil, nil
    local e = estimate.new { model = model, cluster = "dgx_h100", plan = own }
    assert.is_true(e.plan.overlap_sends)
    for _, row in ipairs(s.best.neighbours) do
      if row.change == "schedule=interleaved vp=2" then assert.equal(e.step_seconds, row.step_seconds) return end
    end
    error "no interleaved neighbour"
  end)
end)
