--- Distinct places of a token's experts: against draws, counted one by one.
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local expert_spread = require "ett.step.expert_spread"
local model_module = require "ett.model"
local generator = require("random").integers
local merged = require "ett.base.merged"
local raised = require "raised"

--- k distinct numbers below n.
local function draw(random, n, k)
  local list, chosen = {}, {}
  for i = 0, n - 1 do list[i] = i end
  for i = 0, k - 1 do
    local j = i + random(n - i)
    list[i], list[j] = list[j], list[i]
    chosen[i + 1] = list[i]
  end
  return chosen
end

--- Mean number of distinct places over many tokens: groups first, then experts among them.
local function counted(random, places, h, tokens)
  local groups, top = h.expert_groups or 1, h.top_groups or h.expert_groups or 1
  local size, total = h.experts // groups, 0
  for _ = 1, tokens do
    local pool, seen = {}, {}
    for _, group in ipairs(draw(random, groups, top)) do
      for i = 0, size - 1 do pool[#pool + 1] = group * size + i end
    end
    for _, at in ipairs(draw(random, #pool, h.top_k)) do
      local place = pool[at + 1] * places // h.experts
      if not seen[place] then seen[place], total = true, total + 1 end
    end
  end
  return total / tokens
end

describe("the places of a token's experts", function()
  it("match random draws", function()
    local random = generator(3)
    for _, c in ipairs { { 8, 256, 8 }, { 64, 256, 8 }, { 4, 128, 8 }, { 8, 8, 2 }, { 2, 16, 4 }, { 8, 256, 8, 8, 4 },
      { 64, 256, 8, 8, 4 }, { 4, 256, 8, 8, 4 }, { 2, 160, 6, 8, 3 }, { 16, 160, 6, 8, 3 }, { 1, 64, 6, 8, 2 },
      { 5, 160, 6, 8, 3 }, { 10, 160, 6, 8, 3 }, { 20, 160, 6, 8, 3 }, { 3, 36, 4, 4, 2 }, { 6, 36, 4, 4, 2 } } do
      local h = { experts = c[2], top_k = c[3], expert_groups = c[4], top_groups = c[5] }
      local expected, mean = expert_spread.expected(c[1], h), counted(random, c[1], h, 2500)
      assert.is_true(math.abs(expected - mean) < 0.06, ("%d places of %d experts, %d each: wanted %.3f, got %.3f")
        :format(c[1], c[2], c[3], mean, expected))
      assert.is_true(expected >= 1 - 1e-12 and expected <= math.min(c[1], c[3]) + 1e-12)
    end
  end)

  it("match values computed by hand", function()
    assert.near(1, expert_spread.expected(1, { experts = 8, top_k = 2 }), 1e-12)
    assert.near(2, expert_spread.expected(8, { experts = 8, top_k = 2 }), 1e-12) -- one expert a place
    -- Three of the other seven stand with the first.
    assert.near(1 + 4 / 7, expert_spread.expected(2, { experts = 8, top_k = 2 }), 1e-12)
    assert.near(4, expert_spread.expected(8, { experts = 8, top_k = 4, expert_groups = 8, top_groups = 4 }), 1e-12)
  end)
end)

describe("a dispatcher that sends a token once to a place", function()
  local cluster = { name = "flat", path = "spec", gpus_per_node = 4,
    device = { name = "D", peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bytes = 80e9, memory_bandwidth = 1e12 } }
  local asked, rates
  local profile = {
    operator = function() return exactly(1e-3) end,
    collective = function(_, kind, bytes, topology)
      if kind == "all_to_all" then asked[topology.nodes] = bytes end
      return exactly(bytes / (rates[topology.nodes] or 1e10))
    end,
  }
  local hyper = { layers = 4, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000, experts = 16, top_k = 4 }
  local function given(plan, more)
    local own = merged(hyper, more)
    return { model = model_module.new("mixtral", own), cluster = cluster, profile = profile, plan = merged({ seq = 1024,
      micro_batches = 4, dp = 8 }, plan), interval = false }
  end
  local function bytes_of(plan, more)
    asked, rates = {}, {}
    estimate.new(given(plan, more))
    return asked[math.max(1, plan.ep // 4)]
  end

  it("moves one copy per node with experts of a token; inside a node one per rank", function()
    local all = 2 * 1024 * 1024 * 4.0
    assert.equal(all, bytes_of { ep = 8 })
    local nodes = expert_spread.expected(2, { experts = 16, top_k = 4 })
    assert.near(all * nodes / 4, bytes_of { ep = 8, deduplicate_tokens = true }, 1)
    assert.near(all * nodes / 4, bytes_of { ep = 8, stack = "megatron_moe" }, 1) -- DeepEP's default
    assert.equal(all, bytes_of { ep = 8, stack = "megatron_moe", deduplicate_tokens = false })
    local ranks = expert_spread.expected(4, { experts = 16, top_k = 4 })
    assert.near(all * ranks / 4, bytes_of { ep = 4, deduplicate_tokens = true }, 1)
    local limited = expert_spread.expected(2, { experts = 16, top_k = 4, expert_groups = 4, top_groups = 2 })
    assert.is_true(limited < nodes)
    assert.near(all * limited / 4, bytes_of({ ep = 8, deduplicate_tokens = true },
      { expert_groups = 4, top_groups = 2 }), 1)
  end)

  it("forwards it inside the node to each rank with experts of it: the slower of both counts", function()
    local all, h = 2 * 1024 * 1024 * 4.0, { experts = 16, top_k = 4 }
    local over = all * expert_spread.expected(2, h) / 4
    local inside = all * expert_spread.expected(8, h) / 4
    assert.is_true(inside > 1.5 * over)
    for _, case in ipairs { { { 2e10, 1e10 }, over / 1e10 }, { { 1e10, 1e10 }, inside / 1e10 } } do
      asked, rates = {}, case[1]
      local e = estimate.new(given { ep = 8, deduplicate_tokens = true })
      assert.near(over, asked[2], 1)
      assert.near(inside, asked[1], 1)
      assert.near(4 * 4 * 4 * case[2], e.all_to_all_exposed_seconds, 1e-9) -- layers, micro-batches, exchanges
    end
    asked, rates = {}, {}
    estimate.new(given { ep = 8, dp = 8, deduplicate_tokens = false })
    assert.is_nil(asked[1])
  end)

  it("posts one message to each other node, not to each of its ranks", function()
    local function exchange(once, ranks, name)
      local e = estimate.new { model = model_module.new("mixtral", { layers = 1, hidden = 64, heads = 4, ffn = 64,
        vocab = 512, experts = ranks, top_k = 2 }), cluster = name, plan = { seq = 64, micro_batches = 1, dp = ranks,
        ep = ranks, deduplicate_tokens = once } }
      return e.all_to_all_exposed_seconds / 4 -- there and back, forward and backward
    end
    -- 16 KB: less than 1 us of the network. The last two clusters have racks and units of several nodes.
    for _, name in ipairs { "dgx_h100", "llama3_24k", "superpod_dgxh100" } do
      for nodes = 8, 64, 56 do
        local ranks = 8 * nodes
        assert.near(1e-6 * (ranks - 8 - (nodes - 1)), exchange(false, ranks, name) - exchange(true, ranks, name), 1e-6,
          name)
      end
    end
  end)

  it("needs groups that divide the experts, and room for the chosen ones", function()
    local function message(more) return raised(given, {}, more) end
    assert.matches("expert_groups = 3 must divide experts = 16", message { expert_groups = 3 }, 1, true)
    assert.matches("top_groups = 5 must not exceed expert_groups = 4", message { expert_groups = 4, top_groups = 5 }, 1,
      true)
    assert.matches("top_k = 4 must not exceed the 2 experts of top_groups = 1", message { expert_groups = 8,
      top_groups = 1 }, 1, true)
    assert.matches("top_groups = 2 needs expert_groups", message { top_groups = 2 }, 1, true)
  end)
end)
