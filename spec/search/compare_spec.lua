--- Two plans side by side: exchanged sides mirror each other, and every field that differs is listed.
local compare = require "ett.search.compare"
local random_plans = require "random_plans"
local slow_samples = require "slow_samples"

local function side(p, model, cluster) return { model = model, cluster = cluster, plan = p } end

describe("two plans side by side", function()
  it("mirror each other", function()
    local model = random_plans.mixture(6)
    local plans = random_plans.plans(8, 31, model)
    for i = 1, #plans - 1 do
      plans[i].dtype, plans[i + 1].dtype = "bf16", "bf16"
      local a, b = side(plans[i], model, "dgx_h100"), side(plans[i + 1], model, "dgx_a100")
      local one, other, by_name = compare.new(a, b), compare.new(b, a), {}
      assert.is_true(#one.lines > 5 and #one.lines == #other.lines and #one.fields == #other.fields)
      for _, line in ipairs(other.lines) do by_name[line.name] = line end
      for k, line in ipairs(one.lines) do
        local mirrored = by_name[line.name]
        assert.equal(line.name, other.lines[k].name)
        assert.same({ line.a_seconds, line.b_seconds, line.difference_seconds },
          { mirrored.b_seconds, mirrored.a_seconds, -mirrored.difference_seconds })
      end
      for k, total in ipairs(one.totals) do
        assert.same({ total.name, total.a, total.b }, { other.totals[k].name, other.totals[k].b, other.totals[k].a })
      end
      local sum = 0.0
      for _, line in ipairs(one.lines) do sum = sum + line.difference_seconds end
      assert.near(one.b.step_seconds - one.a.step_seconds, sum, 1e-9 * one.a.step_seconds)
      local bytes = 0.0
      for k, line in ipairs(one.memory) do
        bytes = bytes + line.difference_bytes
        assert.same({ line.name, line.a_bytes, line.b_bytes },
          { other.memory[k].name, other.memory[k].b_bytes, other.memory[k].a_bytes })
      end
      assert.near(one.b.memory_bytes - one.a.memory_bytes, bytes, 1e-9 * one.a.memory_bytes)
    end
  end)

  it("state why an interval is wide, of one side alone with its letter", function()
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 })
    local p = { seq = 1024, global_batch = 64, dp = 8, stack = "megatron", recipe = true }
    local function reasons(b)
      local c = compare.new(side(p, model, "dgx_h100"), side(random_plans.with(p, b), model, "dgx_h100"))
      for _, reason in ipairs(c.wide_because) do
        assert.is_truthy(compare.text(c):find("\nwide: " .. reason, 1, true))
      end
      return c.wide_because
    end
    assert.same({}, reasons {})
    assert.same({ "B: recipe=true is not stated: runs that are not published recipes are often slower" },
      reasons { recipe = false })
  end)

  it("compare the whole run where its tokens are given, and state no rounding error as a bubble", function()
    local p = { seq = 1024, global_batch = 64, tp = 2, dp = 4, tokens = 1e9 }
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 })
    local c = compare.new(side(p, model, "dgx_h100"), side(random_plans.with(p, { dp = 2 }), model, "dgx_h100"))
    local totals = {}
    for _, total in ipairs(c.totals) do totals[total.name] = total end
    assert.equal(c.a.run_dollars, totals.run_dollars.a)
    assert.equal(c.b.run_days, totals.run_days.b)
    assert.same({ 0.0, 0.0 }, { totals.bubble_percent.a, totals.bubble_percent.b })
  end)

  it("state that only one run contains failures, and totals of one side alone", function()
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 })
    local p = { seq = 1024, global_batch = 64, dp = 8, tokens = 1e9 }
    local function compared(a, b, plan)
      local c = compare.new(side(plan or p, model, a), side(plan or p, model, b))
      local totals = {}
      for _, total in ipairs(c.totals) do totals[total.name] = total end
      return totals, c
    end
    local totals, c = compared("dgx_h100", "dgx_b200") -- dgx_b200 has no rate
    assert.equal(1, #c.notes)
    assert.matches("^the run of A contains failures, checkpoints and restarts, that of B leaves them out", c.notes[1])
    assert.same({ c.a.goodput_percent, nil, nil },
      { totals.goodput_percent.a, totals.goodput_percent.b, totals.goodput_percent.percent })
    assert.matches("\ngoodput %% +[%d.]+ +%- *\n", compare.text(c))
    assert.matches("\nnote: the run of A", compare.text(c))
    totals, c = compared("dgx_b200", "dgx_h100")
    assert.matches("^the run of B contains", c.notes[1])
    assert.same({ nil, c.b.goodput_percent }, { totals.goodput_percent.a, totals.goodput_percent.b })
    for _, alike in ipairs { { "dgx_h100", "llama3_24k" }, { "dgx_b200", "dgx_b300" },
      { "dgx_h100", "dgx_b200", random_plans.with(p, { failures_per_device_day = 1e-3 }) },
      { "dgx_h100", "dgx_b200", { seq = 1024, global_batch = 64, dp = 8 } } } do
      totals, c = compared(table.unpack(alike))
      assert.same({}, c.notes, alike[2])
    end
    assert.is_nil(totals.run_days)
  end)

  it("warn of the samples of either side", function()
    local function notes(a, b)
      local sides = {}
      for i, own in ipairs { a, b } do
        sides[i] = side({ seq = 2048, micro_batches = 1, dp = 1, tp = own.tp }, slow_samples.model(),
          slow_samples.cluster)
        sides[i].profile = own.slow and slow_samples.profile() or false
      end
      local c = compare.new(sides[1], sides[2])
      for _, note in ipairs(c.notes) do assert.is_truthy(compare.text(c):find("\nnote: " .. note, 1, true)) end
      local sides_of = {}
      for _, note in ipairs(c.notes) do -- the model has a note, too
        sides_of[#sides_of + 1] = note:match("^(.-)" .. slow_samples.warning:gsub("%p", "%%%0"))
      end
      return sides_of
    end
    assert.same({}, notes({}, {}))
    assert.same({ "A: " }, notes({ slow = true }, {}))
    assert.same({ "B: " }, notes({}, { slow = true }))
    assert.same({ "" }, notes({ slow = true }, { slow = true }))
    assert.same({ "A: ", "B: " }, notes({ slow = true }, { slow = true, tp = 2 })) -- other times
  end)

  it("list fields that hold lists", function()
    local model, p = random_plans.llama(6), { seq = 1024, pp = 2, micro_batches = 4 }
    local c = compare.new(side(random_plans.with(p, { split = { 2, 4 } }), model, "dgx_h100"),
      side(random_plans.with(p, { split = { 3, 3 } }), model, "dgx_h100"))
    assert.same({ { name = "split", a = "2,4", b = "3,3" } }, c.fields)
    c = compare.new(side(p, model, "dgx_h100"), side(random_plans.with(p, { split = { 2, 4 } }), model, "dgx_h100"))
    assert.equal("split", c.fields[1].name)
  end)
end)
