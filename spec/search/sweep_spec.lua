--- Sweeps: what they refuse, and that one plan's fault stops no other.
local estimate = require "ett.step.estimate"
local sweep = require "ett.search.sweep"

local model = require("ett.model").new("llama", { layers = 8, hidden = 512, heads = 8, vocab = 1000 })

local function run(over, plan)
  plan = plan or {}
  plan.seq, plan.micro_batches = 512, 4
  return sweep.new { model = model, cluster = "perlmutter", profile = false, plan = plan, over = over }
end

describe("a sweep", function()
  it("carries every field of a plan: each row is the single prediction's", function()
    local values = { seq = { 512, 1024 }, micro_batches = { 4, 8 }, global_batch = { 8, 16 },
      dtype = { "bf16", "fp32" }, stack = { "megatron", "fsdp_eager", "plain" },
      gradient_dtype = { "fp32", "bf16" }, schedule = { "1f1b", "gpipe", "zb_h1" }, etp = { 1, 2 },
      optimizer_bytes = { 12, 8 }, bucket_bytes = { 500e6, 1e6 }, split = { { 4, 4 }, { 3, 5 } },
      overlap_all_to_all = { "none", "batch" }, vp = { 2, 4 }, ep = { 1, 2 }, micro_batch = { 1, 2 }, tp = { 1, 2 },
      cp = { 1, 2 }, pp = { 1, 2 }, dp = { 2, 4 } }
    local mixture = require("ett.model").new("mixtral", { layers = 8, hidden = 512, heads = 8, vocab = 1000,
      ffn = 1024, experts = 4, top_k = 2 })
    for _, field in ipairs(require("ett.plan.fields").list) do
      local name = field[1]
      local list = values[name] or field[2] == "boolean" and { false, true } or field.one_of
      local plan = { seq = 512, pp = 2, dp = 4, tp = 2, ep = 2, cp = 2, micro_batches = 4 }
      if name == "vp" then plan.schedule, plan.pp = "interleaved", 2 end
      if name == "serial_sends" then plan.overlap_sends = false end
      if name == "global_batch" then plan.micro_batches = nil end
      plan[name] = nil
      local s = sweep.new { model = mixture, cluster = "perlmutter", plan = plan, over = { [name] = list } }
      assert.equal(#list, #s.rows, name)
      for _, row in ipairs(s.rows) do
        local one = {}
        for k, v in pairs(plan) do one[k] = v end
        one[name] = row[name]
        local e = estimate.new { model = mixture, cluster = "perlmutter", plan = one }
        assert.equal(e.step_seconds, row.step_seconds, name)
        assert.equal(e.memory_bytes, row.memory_bytes, name)
      end
    end
  end)

  it("counts a combination that its schedule cannot run as refused, and goes on", function()
    local s = run({ vp = { 1, 2 }, pp = { 2, 4 } }, { schedule = "zb_h1" })
    assert.equal(2, #s.rows)
    assert.equal(2, s.refused)
    assert.equal("vp = 2 needs schedule = 'interleaved', got 'zb_h1'", s.refusal)
  end)
end)
