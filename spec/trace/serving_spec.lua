-- Names of serving steps, bubbles of recorded timings, and the statistics of metrics.
local maker = require "trace_maker"
local pipeline = require "ett.trace.pipeline"
local serving = require "ett.trace.serving"
local stats = require "ett.trace.stats"

describe("ett.trace.serving", function()
  it("reads requests and tokens of a step from its range", function()
    assert.same({ prefill = 2, prefill_tokens = 300, decode = 5, exact = true },
      serving.parse "execute_context_2(300)_generation_5(5)")
    assert.same({ prefill = 9, prefill_tokens = 8155, decode = 37, exact = true },
      serving.parse "execute_8192_context_9(8155)_generation_37(37)")
    assert.same({ prefill = 9, prefill_tokens = 8155, decode = 37, exact = true },
      serving.parse "execute_8192_context_9(sq8155sk9000sqsq1sqsk2)_generation_37(sq37sk999sqsq1sqsk2)")
    assert.same({ prefill = 0, decode = 16, exact = true }, serving.parse "step[DECODE bs=16]")
    assert.same({ prefill = 3, prefill_tokens = 4096, decode = 0, exact = true },
      serving.parse "step[EXTEND bs=3 toks=4096]")
    assert.same({ prefill = 1, decode = 0, exact = false }, serving.parse "Prefill batch 3")
    assert.same({ prefill = 0, decode = 1, exact = false }, serving.parse "run_decode")
    assert.is_nil(serving.parse "decoder_layer")
    assert.is_nil(serving.parse "## codecs decode ##")
    assert.is_nil(serving.parse "image decode")
  end)

  it("takes plain names for steps only where the trace has no backward pass", function()
    local function steps(training)
      local r = maker.new{ rank = 0, world = 1 }
      r:host("user_annotation", "batch decode", 0, 50):host("user_annotation", "batch decode", 100, 50)
      if training then r:host("cpu_op", "autograd::engine::evaluate_function: AddBackward0", 200, 10) end
      r:kernel("gemm", 10, 20, { launch = { ts = 5, dur = 2 } })
      return { r }
    end
    assert.equal(2, maker.computed(steps(false), "tpot").decode_steps)
    assert.matches("it is of training", maker.reason(steps(true), "tpot"))
  end)
end)

describe("ett.trace.pipeline", function()
  it("counts the rest of the iteration, and of the stage's window, as bubble", function()
    local found = pipeline.iteration{ total = 100, fwd_start = { 10, 30 }, fwd_end = { 20, 40 },
      bwd_start = { 50 }, bwd_end = { 80 } }
    assert.near(0.5, found.bubble_vs_total, 1e-12)
    assert.near(1 - 50 / 70, found.bubble_vs_window, 1e-12)
    assert.same({ 2, 1 }, { found.n_fwd, found.n_bwd })
  end)

  it("takes an iteration without units, which has no window", function()
    local folder = maker.folder()
    require("ett.base.folder").write(folder .. "/pp_rank_0.json",
      '{"1": {"total": 9, "fwd_start": [0], "fwd_end": [4]}, "2": {"total": 10, "fwd_start": [], "fwd_end": []}, '
      .. '"3": {"total": 10, "fwd_start": [0, 6], "fwd_end": [4, 8]}}')
    local ok, why = pcall(function()
      local found = assert(maker.metric(folder, "pipeline_bubble", { step = 2 }))
      assert.equal(stats.null, found.per_rank_last_iter["0"].window_ms)
      assert.equal(1, found.bubble_ratio)
      found = assert(maker.metric(folder, "pipeline_bubble"))
      assert.near((1 + 0.4) / 2, found.bubble_ratio, 1e-12)
      assert.near(0.25, found.mean_bubble_vs_window_excl_first, 1e-12)
      for text, sentence in pairs {
        ['{"1": {"total": 9, "fwd_start": [0], "fwd_end": ["a"]}}'] =
          "iteration 1: fwd_end: value 1 must be a number of a list, got 'a'",
        ['{"1": {"total": 9, "fwd_start": {"a": 0}}}'] =
          "iteration 1: fwd_start: value a must be a number of a list, got 0",
        ['{"1": {"total": 9'] = "expected comma or object end but found the end of the text",
      } do
        require("ett.base.folder").write(folder .. "/pp_rank_1.json", text)
        local _, reason = require("ett.trace.view").open(folder)
        assert.matches("/pp_rank_1.json:[%d: ]*" .. sentence .. "$", tostring(reason))
      end
    end)
    maker.remove(folder)
    if not ok then error(why, 0) end
  end)
end)

describe("ett.trace.stats", function()
  it("gives null, not 0, for missing values", function()
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
