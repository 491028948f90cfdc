--- Searches of schedules whose stages share weights with other stages, of models without attention, and of stacks whose
--- sends block or that have no pipelines.
local ett = require "ett"
local search = require "ett.search.search"

describe("a search with a schedule of two ways", function()
  it("tries every ZeRO stage where only stages share weights", function()
    local model = ett.model.new("gpt", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 })
    local plan = { seq = 512, tp = 1, cp = 1, pp = 2, global_batch = 8, micro_batch = 1, recompute = "none",
      overlap_gradients = false, overlap_parameters = false, overlap_sends = false }
    local function stages(schedule)
      local s = search.new { model = model, cluster = "dgx_h100", devices = 2, plan = plan, keep = 100,
        vary = { schedule = { schedule } } }
      assert.equal(s.plans, s.effort.plans)
      local list = {}
      for _, row in ipairs(s.rows) do
        list[#list + 1] = row.zero
        plan.schedule, plan.zero = schedule, row.zero
        local e = ett.estimate { model = model, cluster = "dgx_h100", plan = plan, interval = false }
        plan.schedule, plan.zero = nil, nil
        assert.equal(e.step_seconds, row.step_seconds)
        assert.equal(e.memory_bytes, row.memory_bytes)
      end
      table.sort(list)
      return list
    end
    assert.same({ 0 }, stages "1f1b")
    assert.same({ 0, 1, 2, 3 }, stages "dualpipe")
    plan.shard = 1
    assert.same({ 0 }, stages "1f1b")
    assert.same({ 1, 2, 3 }, stages "dualpipe")
    plan.dp, plan.zero = 1, 0 -- as in a sweep
    assert.same({}, require("ett.plan").violations(plan, model, "dgx_h100"))
    plan.schedule = "dualpipe"
    assert.same({ "shard needs zero of at least 1, got 0" },
      require("ett.plan").violations(plan, model, "dgx_h100"))
  end)
end)

it("a search finds the plan of a shard without ZeRO where tensor ranks divide the experts", function()
  local experts = ett.model.new("mixtral", { layers = 2, hidden = 512, heads = 8, ffn = 1024, vocab = 32000,
    experts = 4, top_k = 2 })
  local s = search.new { model = experts, cluster = "dgx_h100", devices = 8, plan = { seq = 512, global_batch = 8,
    pp = 1, cp = 1, shard = 1, zero = 0, etp = 8, micro_batch = 8, recompute = "none" } }
  assert.equal(8, s.rows[1].tp)
end)

it("a search tries more tensor ranks than heads for a model without attention", function()
  local mlps = require("ett.model.architecture").new(function(h)
    local blocks = require "ett.model.blocks"
    return blocks.decoder(h, { name = "mlp", count = h.layers, ops = blocks.dense_feed(h) })
  end, { layers = 2, hidden = 1024, heads = 1, vocab = 32000 })
  local found, seen = search.new { model = mlps, cluster = "dgx_h100", devices = 4, keep = 100, plan = { seq = 512,
    cp = 1, pp = 1, global_batch = 4, micro_batch = 1, recompute = "none", zero = 0 } }, {}
  for _, row in ipairs(found.rows) do seen[row.tp] = true end
  assert.same({ true, true, [4] = true }, seen)
end)

it("estimates, sweeps and searches have the stack's sends, unless the plan states others, and its copies", function()
  local model = ett.model.new("gpt", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 })
  local plan = { seq = 512, tp = 2, cp = 1, pp = 2, dp = 1, global_batch = 8, micro_batch = 1, recompute = "none",
    zero = 0, stack = "megatron_deepspeed" }
  local function seconds(changes)
    local own = require "ett.base.merged"(plan, changes)
    local e = ett.estimate { model = model, cluster = "dgx_h100", plan = own, interval = false }
    own.micro_batch = nil
    local s = ett.sweep { model = model, cluster = "dgx_h100", plan = own, over = { micro_batch = { 1, 2 } } }
    for _, row in ipairs(s.rows) do
      if row.micro_batch == 1 then assert.equal(e.step_seconds, row.step_seconds) end
    end
    own.dp, own.micro_batch = nil, 1
    local found = search.new { model = model, cluster = "dgx_h100", devices = 4, plan = own }
    assert.equal(e.step_seconds, found.rows[1].step_seconds)
    assert.equal(e.step_seconds, found.best.estimate.step_seconds)
    return e.step_seconds
  end
  assert.equal(seconds { serial_sends = true, scatter_sends = true }, seconds {})
  assert.is_true(seconds { serial_sends = false } < seconds {})
  assert.is_true(seconds { scatter_sends = false } ~= seconds {})
  assert.equal(seconds { stack = "megatron_deepspeed:serial_sends=false" }, seconds { serial_sends = false })
  assert.equal(seconds { pp = 1, dp = 2 }, seconds { pp = 1, dp = 2, overlap_sends = true }) -- no sends
  assert.is_true(seconds { stack = "megatron_deepspeed:gradient_copy_bytes=0" } < seconds {})
end)

it("a search tries stages of software without pipelines only if the plan states them", function()
  local model = ett.model.new("gpt", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 })
  local function stages(pp, stack)
    local s, seen = search.new { model = model, cluster = "dgx_h100", devices = 4, keep = 1000, exhaustive = true,
      plan = { seq = 512, tp = 1, cp = 1, pp = pp, global_batch = 8, recompute = "none", stack = stack } }, {}
    for _, row in ipairs(s.rows) do seen[("%d %s"):format(row.pp, row.schedule)] = true end
    return require("ett.base.schema").keys(seen)
  end
  assert.same({ "1 1f1b" }, stages(nil, "transformers_fsdp"))
  assert.same({ "2 1f1b" }, stages(2, "transformers_fsdp"))
  assert.same({ "1 1f1b" }, stages(nil, "maxtext"))
  assert.same({ "1 1f1b", "2 1f1b", "2 gpipe", "2 interleaved", "4 1f1b", "4 gpipe" }, stages(nil, "fsdp_eager"))
end)

it("a search knows that weights that stay whole are gathered by the host in one pass", function()
  local model = ett.model.new("gpt", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 })
  local plan = { seq = 512, tp = 1, cp = 1, pp = 1, global_batch = 8, micro_batch = 1, recompute = "none", zero = 3,
    stack = "transformers:zero_stages=3" }
  local s, seen = search.new { model = model, cluster = "dgx_h100", devices = 4, plan = plan, keep = 100,
    exhaustive = true }, {}
  for _, row in ipairs(s.rows) do
    local own = require "ett.base.merged"(plan, { dp = 4 })
    for _, name in ipairs { "reshard", "overlap_gradients", "overlap_parameters" } do own[name] = row[name] end
    local e = ett.estimate { model = model, cluster = "dgx_h100", plan = own, interval = false }
    assert.equal(e.step_seconds, row.step_seconds)
    seen[tostring(row.reshard)] = math.min(seen[tostring(row.reshard)] or math.huge, e.step_seconds)
  end
  assert.is_true(seen["false"] < 0.8 * seen["true"])
  plan.reshard = false
  s = search.new { model = model, cluster = "dgx_h100", devices = 4, plan = plan, where = "dp == 4" }
  assert.equal(seen["false"], s.rows[1].step_seconds)
  plan.dp, plan.reshard = 4, nil
  local swept = ett.sweep { model = model, cluster = "dgx_h100", plan = plan, over = { reshard = { true, false } } }
  assert.equal(false, swept.rows[1].reshard)
  assert.is_true(swept.rows[1].step_seconds < 0.8 * swept.rows[2].step_seconds)
end)
