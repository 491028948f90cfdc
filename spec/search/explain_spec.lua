--- The best plan of a search: its bottleneck, its neighbours, and rows with the times of estimates.
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local search = require "ett.search.search"

describe("the bottleneck of a plan", function()
  local model = require("ett.model").new("llama", { layers = 4, hidden = 4096, heads = 32, vocab = 1024 })
  local function best(plan)
    plan.seq, plan.global_batch = plan.seq or 512, plan.global_batch or 16
    plan.micro_batch, plan.cp = 1, 1
    return search.new({ model = model, cluster = "dgx_h100", devices = math.max(8, plan.tp), plan = plan }).best
  end

  it("is the host where launches hold up a network that has more of the step", function()
    local x = best { tp = 16, pp = 1, stack = "megatron", sequence_parallel = true, recompute = "full",
      seq = 4096 }
    assert.equal("host", x.bottleneck)
    assert.is_true(x.part_seconds.network > 2 * x.part_seconds.host)
    local gain = {}
    for _, own in ipairs(x.gains) do gain[own.part] = -own.percent / 100 end
    assert.is_true(gain.host > 0.05 and gain.network < 0.01 and gain.compute < 0.01)
  end)

  it("is the part with the largest share where nothing waits, and the bubble with the largest", function()
    local x = best { tp = 1, pp = 1, seq = 8192, global_batch = 64 }
    assert.equal("compute", x.bottleneck)
    for _, seconds in pairs(x.part_seconds) do assert.is_true(seconds <= x.part_seconds.compute) end
    x = best { tp = 1, pp = 4, dp = 2, seq = 8192, global_batch = 2, schedule = "1f1b" }
    assert.equal("bubble", x.bottleneck)
  end)
end)

describe("plans whose kernels gathers of weights slow", function()
  it("have the times of their estimates, with and without gathers, in an exhaustive search as with bounds", function()
    local model = require("ett.model").new("llama", { layers = 4, hidden = 2048, heads = 16, vocab = 8000 })
    local plan = { seq = 4096, global_batch = 32, micro_batch = 1, pp = 1, tp = 1, stack = "fsdp_eager" }
    local seen, exhaustive = {}, search.new { model = model, cluster = "dgx_h100", devices = 8, plan = plan, keep = 40,
      exhaustive = true }
    for _, row in ipairs(exhaustive.rows) do
      seen[row.zero] = true
      local given = {}
      for _, fields in ipairs { plan, row } do
        for name, value in pairs(fields) do
          if require("ett.plan.fields").position[name] then given[name] = value end
        end
      end
      local e = require("ett.step.estimate").new { model = model, cluster = "dgx_h100", plan = given }
      assert.equal(e.step_seconds, row.step_seconds)
    end
    assert.is_true(seen[0] and seen[3])
    local bounded = search.new { model = model, cluster = "dgx_h100", devices = 8, plan = plan, keep = 40 }
    assert.equal(#exhaustive.rows, #bounded.rows)
    for i, row in ipairs(bounded.rows) do assert.equal(exhaustive.rows[i].step_seconds, row.step_seconds) end
    assert.equal(exhaustive.plans, bounded.plans)
  end)
end)

describe("the neighbours of a plan", function()
  it("follow the overlaps of the stack, as ett predict does with their words", function()
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 1000 })
    local plan = { seq = 1024, global_batch = 16, micro_batch = 1, pp = 2, tp = 1, schedule = "1f1b",
      stack = "megatron", overlap_sends = false }
    local s = search.new { model = model, cluster = "dgx_h100", devices = 4, plan = plan }
    local best = s.best.estimate.plan
    assert.is_false(best.overlap_sends)
    local own = merged(best)
    own.schedule, own.vp, own.overlap_sends, own.micro_batches = "interleaved", 2, nil, nil
    local e = estimate.new { model = model, cluster = "dgx_h100", plan = own }
    assert.is_true(e.plan.overlap_sends)
    for _, row in ipairs(s.best.neighbours) do
      if row.change == "schedule=interleaved vp=2" then assert.equal(e.step_seconds, row.step_seconds) return end
    end
    error "no interleaved neighbour"
  end)

  it("are plans that the stack runs", function()
    local model = require("ett.model").new("llama", { layers = 4, hidden = 1024, heads = 8, vocab = 1000 })
    local function of(stack, more)
      local own = merged({ seq = 1024, global_batch = 32, micro_batch = 1, pp = 1, tp = 1, cp = 1, recompute = "none",
        stack = stack }, more or {})
      local words, s = {}, search.new { model = model, cluster = "dgx_h100", devices = 4, plan = own }
      for _, row in ipairs(s.best.neighbours) do words[#words + 1] = row.change end
      return " " .. table.concat(words, " ") .. " "
    end
    local fsdp = of "torchtitan" -- the best plan keeps the weights; ZeRO-2 is only reshard=false
    assert.matches(" reshard=true ", fsdp)
    for _, absent in ipairs { "zero=2", "overlap_gradients", "overlap_parameters" } do
      assert.is_nil(fsdp:find(absent, 1, true))
    end
    assert.is_nil(of("megatron"):find("zero=2", 1, true))
    assert.matches(" zero=%d ", of "plain")
    local overlapped = of("megatron", { zero = 1, overlap_gradients = true, overlap_parameters = true })
    assert.matches(" overlap_parameters=false ", overlapped)
    assert.is_nil(overlapped:find("overlap_gradients", 1, true))
    local staged = of("megatron_deepspeed", { pp = 2, zero = 1 })
    assert.matches(" zero=0 ", staged)
    for _, absent in ipairs { "zero=2", "interleaved" } do assert.is_nil(staged:find(absent, 1, true)) end
    assert.is_nil(of("megatron_deepspeed", { zero = 2 }):find(" pp=", 1, true))
  end)

  it("repeat another number of layers, or none of them chosen", function()
    local model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 1000 })
    local own = { seq = 1024, global_batch = 2, micro_batch = 1, pp = 1, tp = 1, cp = 1 }
    local s = search.new { model = model, cluster = "dgx_h100", devices = 2, plan = merged(own, { recompute = "full",
      recompute_layers = 2 }) }
    local seconds = {}
    for _, row in ipairs(s.best.neighbours) do seconds[row.change] = row.step_seconds end
    local function of(change)
      return estimate.new({ model = model, cluster = "dgx_h100", plan = merged(s.best.estimate.plan, change) })
        .step_seconds
    end
    assert.equal(of { recompute_layers = 1 }, seconds["recompute_layers=1"])
    assert.equal(of { recompute_layers = 4 }, seconds["recompute_layers=4"])
    assert.is_not_nil(seconds["recompute=policy"])
  end)

  it("have one order in all processes, because ranks of a job share them by number", function()
    local command = require "command"
    local folder = command.folder()
    command.write(folder, "order.lua", [[
      local share = require "ett.base.share"
      local each = share.each
      function share.each(shared, count, compute)
        local list = each(shared, count, compute)
        for _, row in ipairs(list) do if row.change then print(row.change) end end
        return list
      end
      local model = require("ett.model").new("llama", { layers = 2, hidden = 1024, heads = 8, vocab = 1000 })
      require("ett.search.search").new { model = model, cluster = "dgx_h100", devices = 2, plan = { seq = 1024,
        zero = 1, global_batch = 4, micro_batch = 1, pp = 1, tp = 1, cp = 1, recompute = "none" } }
    ]])
    local function run() return (command.ett(folder, "run order.lua", "timeout 300")) end -- a process of its own
    local first = run()
    assert.matches("recompute=selective.*zero=0", first)
    for _ = 1, 5 do assert.equal(first, run()) end
    command.remove(folder)
  end)
end)
