-- Names of serving steps, bubbles of recorded timings, and the statistics of metrics.
local pipeline = require "ett.trace.pipeline"
local serving = require "ett.trace.serving"
local stats = require "ett.trace.stats"

describe("ett.trace.serving", function()
  it("reads requests and tokens of a step from its range", function()
    assert.same({ prefill = 2, prefill_tokens = 300, decode = 5 },
      serving.parse "execute_context_2(300)_generation_5(5)")
    assert.same({ prefill = 1, decode = 0 }, serving.parse "Prefill batch 3")
    assert.same({ prefill = 0, decode = 1 }, serving.parse "run_decode")
    assert.is_nil(serving.parse "decoder_layer")
  end)
end)

describe("ett.trace.pipeline", function()
  it("counts as bubble what is left of the iteration, and of the stage's window", function()
    local found = pipeline.iteration{ total = 100, fwd_start = { 10, 30 }, fwd_end = { 20, 40 },
      bwd_start = { 50 }, bwd_end = { 80 } }
    assert.near(0.5, found.bubble_vs_total, 1e-12)
    assert.near(1 - 50 / 70, found.bubble_vs_window, 1e-12)
    assert.same({ 2, 1 }, { found.n_fwd, found.n_bwd })
  end)
end)

describe("ett.trace.stats", function()
  it("gives null, not 0, where there is nothing", function()
    assert.equal(stats.null, stats.ratio(0, 0))
    assert.equal(stats.null, stats.mean{})
    assert.equal(stats.null, stats.median{})
    assert.equal(stats.null, stats.percentile({}, 0.5))
    assert.equal(stats.null, stats.known(0 / 0))
  end)

  it("takes percentile p at position floor(p n), and the mean of the middle two as the median", function()
    assert.same({ 3, 2.5, 4 }, { stats.percentile({ 1, 2, 3, 4 }, 0.5), stats.median{ 4, 1, 3, 2 },
      stats.percentile({ 1, 2, 3, 4 }, 1) })
    assert.near(1, stats.deviation{ 1, 2, 3 }, 1e-12)
    assert.same({ "2", "10", "a" }, stats.keys{ a = 1, ["10"] = 1, ["2"] = 1 })
  end)
end)
