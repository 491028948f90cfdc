--- The busiest expert-parallel rank: against tokens counted one by one.
local estimate = require "ett.step.estimate"
local expert_spread = require "ett.step.expert_spread"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local sweep = require "ett.search.sweep"

local function generator(seed)
  local state = seed
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n
  end
end

--- Distinct random experts for every token, with a bias towards some: the chosen experts, token by token.
local function routed(random, tokens, experts, top_k)
  local chosen, bias = {}, 1 + random(4)
  for t = 1, tokens do
    local seen, own = {}, {}
    while #own < top_k do
      local e = random(experts)
      for _ = 2, bias do e = math.min(e, random(experts)) end
      if not seen[e] then
        seen[e] = true
        own[#own + 1] = e
      end
    end
    chosen[t] = own
  end
  return chosen
end

--- Copies of the busiest rank and all that are kept: tokens arrive in order, a full expert drops them.
local function counted(chosen, experts, ranks, capacity)
  local held, loads, kept, busiest = {}, {}, 0, 0
  for _, own in ipairs(chosen) do
    for _, e in ipairs(own) do
      held[e] = held[e] or 0
      if held[e] < capacity then
        held[e], kept = held[e] + 1, kept + 1
        local rank = e // (experts // ranks)
        loads[rank] = (loads[rank] or 0) + 1
        busiest = math.max(busiest, loads[rank])
      end
    end
  end
  return busiest, kept
end

describe("the busiest rank", function()
  it("has as many copies as a count of tokens, and drops as many: 200 cases", function()
    local random = generator(7)
    for case = 1, 200 do
      local ranks, per_rank = 2 ^ random(5) // 1 | 0, 1 + random(8)
      local experts = ranks * per_rank
      local top_k, tokens = 1 + random(math.min(4, experts)), 8 * (1 + random(30))
      local copies = tokens * top_k
      local chosen, shares = routed(random, tokens, experts, top_k), {}
      for e = 1, experts do shares[e] = 0 end
      for _, own in ipairs(chosen) do for _, e in ipairs(own) do shares[e + 1] = shares[e + 1] + 1 / copies end end
      -- A capacity of whole copies; every third case has none.
      local capacity = random(3) > 0 and 1 + random(copies) or nil
      local busiest, kept = counted(chosen, experts, ranks, capacity or copies)
      local load, share = expert_spread.load({ experts = experts, top_k = top_k },
        { ep = ranks, expert_skew = 0, expert_shares = shares,
          capacity_factor = capacity and capacity * experts / copies })
      assert.near(busiest * ranks / copies, load, 1e-9 * load, "case " .. case)
      assert.near(kept / copies, share, 1e-9, "case " .. case)
    end
  end)

  it("has the shares of a power law by hand", function()
    -- 1, 1/2, 1/3, 1/4 of 25/12, dealt to two ranks: experts 1 and 3.
    local function load(h, p) return (expert_spread.load(h, p)) end
    assert.near(2 * (1 + 1 / 3) / (25 / 12), load({ experts = 4, top_k = 1 }, { ep = 2, expert_skew = 1 }), 1e-12)
    -- With two experts a token none has more than half; the others have 1/4, 1/9, 1/16 of the rest.
    assert.near(2 * (1 / 2 + 1 / 2 * (1 / 9) / (1 / 4 + 1 / 9 + 1 / 16)), load({ experts = 4, top_k = 2 },
      { ep = 2, expert_skew = 2 }), 1e-12)
    assert.equal(1, load({ experts = 4, top_k = 2 }, { ep = 2, expert_skew = 0 }))
    assert.equal(0.75, load({ experts = 4, top_k = 2 }, { ep = 2, expert_skew = 0, capacity_factor = 0.75 }))
  end)
end)

describe("a step with unlike experts", function()
  local hyper = { layers = 4, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000, experts = 16, top_k = 2 }
  local model = model_module.new("mixtral", hyper)
  local function given(plan)
    local full = { seq = 1024, micro_batches = 4, dp = 8, ep = 8 }
    for k, v in pairs(plan) do full[k] = v end
    return { model = model, cluster = "dgx_h100", plan = full }
  end
  local function run(plan) return estimate.new(given(plan)) end
  local function seconds(e, name)
    local sum = 0.0
    for _, list in ipairs { e.operators, e.collectives } do
      for _, line in ipairs(list) do if line.name == name then sum = sum + line.seconds end end
    end
    return sum
  end

  it("waits for the busiest rank, holds its tokens, and computes no more for the model", function()
    local even, skewed = run {}, run { expert_skew = 1.0 }
    assert.is_true(skewed.busiest_expert_rank_percent > 150)
    assert.is_true(seconds(skewed, "expert_linear1") > 1.2 * seconds(even, "expert_linear1"))
    assert.is_true(seconds(skewed, "all_to_all") > 1.2 * seconds(even, "all_to_all"))
    assert.equal(seconds(even, "flash_attention"), seconds(skewed, "flash_attention"))
    assert.is_true(skewed.stages[1].activation_bytes > even.stages[1].activation_bytes)
    assert.is_true(math.abs(skewed.model_flops_per_step / even.model_flops_per_step - 1) < 0.002)
    assert.matches("experts +the busiest rank has", tostring(skewed))
    assert.is_nil(tostring(even):find("the busiest rank", 1, true))
  end)

  it("is shortened by a capacity, which drops tokens", function()
    local skewed, limited = run { expert_skew = 1.0 }, run { expert_skew = 1.0, capacity_factor = 1.25 }
    assert.is_true(limited.step_seconds < skewed.step_seconds)
    assert.is_true(limited.dropped_tokens_percent > 5 and limited.dropped_tokens_percent < 60)
    assert.equal(0, skewed.dropped_tokens_percent)
  end)

  it("is swept with the digits of single estimates", function()
    local what = given {}
    local block, alike = {}, {}
    for i = 1, 16 do block[i], alike[i] = i <= 4 and 0.1 or 0.05, 1 / 16 end
    what.over = { expert_skew = { 0, 0.5, 1 }, capacity_factor = { 1, 1.5 } }
    local rows = sweep.new(what).rows
    assert.equal(6, #rows)
    for _, row in ipairs(rows) do
      assert.equal(run({ expert_skew = row.expert_skew, capacity_factor = row.capacity_factor }).step_seconds,
        row.step_seconds)
    end
    what.over = { expert_shares = { block, alike } }
    rows = sweep.new(what).rows
    assert.equal(2, #rows)
    assert.is_true(rows[2].step_seconds > rows[1].step_seconds)
  end)

  it("refuses shares that cannot be", function()
    local function message(plan, of)
      local ok, raised = pcall(function() return plan_module.new(given(plan).plan, of or model) end)
      assert.is_false(ok)
      return tostring(raised)
    end
    local shares = {}
    for i = 1, 16 do shares[i] = 0.05 end
    assert.matches("expert_shares must add up to 1, got 0.8", message { expert_shares = shares }, 1, true)
    shares[16] = nil
    assert.matches("expert_shares must hold a share of each of the 16 experts, got 15",
      message { expert_shares = shares }, 1, true)
    shares[16] = -0.1
    assert.matches("expert_shares: number 16 must be from 0 to 1 / top_k = 0.5, got -0.1",
      message { expert_shares = shares }, 1, true)
    assert.matches("field 'capacity_factor' must be a positive number, got -1", message { capacity_factor = -1 }, 1,
      true)
    assert.matches("field 'expert_skew' must be a number of at least 0, got -1", message { expert_skew = -1 }, 1, true)
    assert.matches("capacity_factor needs a model with experts", message({ capacity_factor = 1, ep = 1 },
      model_module.new("llama", { layers = 4, hidden = 1024, heads = 16, vocab = 32000 })), 1, true)
  end)
end)
