-- What follows from a plan: kept answers against calls of the functions themselves.
local fields = require "ett.plan.fields"
local follows = require "ett.plan.follows"
local plan_rules = require "ett.plan.rules"
local random_plans = require "random_plans"
local schema = require "ett.base.schema"

describe("memoised functions of a plan", function()
  it("are called once for equal values of the fields that they read", function()
    local calls, p, all = 0, { a = 1, b = 2 }, follows.new { a = true, b = true, c = true }
    local sum = all:first { function(q)
      calls = calls + 1
      if q.a ~= 1 then return -1 end
      return q.b
    end }
    assert.equal(2, sum:of(p))
    p.c = 5; all:changed "c"
    assert.equal(2, sum:of(p))
    assert.equal(1, calls)
    p.b = 3; all:changed "b"
    assert.equal(3, sum:of(p))
    p.a = 2; all:changed "a"
    assert.equal(-1, sum:of(p))
    p.b = 7; all:changed "b"
    assert.equal(-1, sum:of(p))
    p.a, p.b = 1, 2; all:changed "a"; all:changed "b"
    assert.equal(2, sum:of(p))
    p.b = nil; all:changed "b"
    assert.is_false(sum:of(p))
    assert.equal(4, calls)
  end)

  it("depend only on the changing fields that they read, and count them", function()
    local calls, p, all = 0, { a = 1, b = 2 }, follows.new { a = true }
    local first = all:first { function(q) calls = calls + 1; return q.b == 1 end, function(q) return q.a + q.b end }
    assert.equal(3, first:of(p))
    p.a = 4; all:changed "a"; all:changed "b"
    assert.equal(6, first:of(p))
    assert.same({ 1, true, false }, { calls, all.readers.a ~= nil, all.readers.b ~= nil })
  end)

  it("cache nothing if the function raised", function()
    local p, all, broken = { a = 1 }, follows.new { a = true }, true
    local one = all:first { function(q) return broken and error("no " .. q.a) or q.a end }
    assert.error(function() one:of(p) end)
    broken = false
    assert.equal(1, one:of(p))
  end)

  it("give the violations of fresh checks, whatever fields change", function()
    local ett = require "ett"
    local pick = random_plans.generator(31)
    local values = { tp = { 1, 2, 3, 8 }, cp = { 1, 2 }, pp = { 1, 2, 5, 16 }, dp = { 1, 2, 3, 64 }, ep = { 1, 2, 8 },
      etp = { 1, 2 }, vp = { 1, 2 }, micro_batch = { 1, 2, 3 }, schedule = { "1f1b", "gpipe", "interleaved", "zb_v" },
      recompute = { "none", "full" }, zero = { 0, 1, 3 }, shard = { 1, 2, 4 }, global_batch = { 64, 96 },
      overlap_all_to_all = { "none", "batch", "shared_experts" }, sequence_parallel = { false, true },
      cp_method = { "all_gather", "ulysses" }, rank_order = { "tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp" },
      serial_sends = { false, true }, overlap_sends = { false, true }, dtype = { "bf16", "fp32", "fp8" },
      interleave_group = { 2, 4 }, offload_weights = { 0, 0.5 }, offload_gradients = { 0, 1 }, frozen_layers = { 0, 9 },
      lora_rank = { 4, 8 },
      capacity_factor = { 1, 2 }, expert_skew = { 0, 1 } }
    local names, optional = schema.keys(values), { "etp", "shard", "interleave_group", "lora_rank", "capacity_factor" }
    local broken = 0
    for _, model in ipairs { random_plans.llama(8), random_plans.mixture(8) } do
      for _, name in ipairs { "dgx_a100", "perlmutter", "tpu_v5p" } do
        local cluster, all = ett.cluster.get(name), follows.new(values)
        local rules = all:first(plan_rules.functions(model, cluster))
        local plain = schema.check({ seq = 2048, global_batch = 64 }, fields.schema, "plan")
        local p = setmetatable({}, { __index = plain })
        for i = 1, 1200 do
          if i % 5 == 0 then -- most changes break a rule
            for field in pairs(p) do
              p[field] = nil
              all:changed(field)
            end
          end
          local field = i % 4 == 0 and pick(optional) or pick(names)
          p[field] = i % 4 > 0 and pick(values[field]) or nil
          all:changed(field)
          local first = plan_rules.broken(p, model, cluster)[1] or false
          if first then broken = broken + 1 end
          assert.equal(first, rules:of(p))
        end
      end
    end
    assert.is_true(broken > 1000 and broken < 6200, broken)
  end)
end)
