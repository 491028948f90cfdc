--- The step engine and its bindings with every allocation failing in turn; errors of wrong arguments.
local oom = require "oom"
local step_core = require "step_core"

local time = { 1.0, 0.9, 1.2 }

local function small_program()
  return step_core.program {
    operations = { { name = "a", forward = time, backward = time, dense_parameters = 10, activation_bytes = 5 },
      { name = "b", forward = time, backward = time, selective = true } },
    kinds = { { place = "first", count = 1, uses = { [1] = 1 } }, { place = "middle", count = 4, uses = { 1, 2 } },
      { place = "last", count = 1, uses = { [2] = 3 } } },
    boundary_bytes = 100, tied_embedding_bytes = 10,
  }
end

describe("ett.step", function()
  it("survives failed allocations of an evaluation", function()
    oom.every_allocation(function()
      local program <close> = small_program()
      local demands <close> = step_core.demands()
      local workspace <close> = step_core.workspace()
      local plan = step_core.plan { pp = 2, dp = 2, micro_batches = 4, zero = 1, bucket_bytes = 8, split = { 1, 3 } }
      assert(program:evaluate(plan, demands, workspace) == nil)
      for _, d in ipairs(step_core.untimed(demands)) do demands:set(d.index, 1.0, 0.5, 2.0) end
      local result = program:evaluate(plan, demands, workspace, true)
      local low, high = program:interval(plan, demands, workspace, 0.25)
      assert(low < result.step_seconds and result.step_seconds < high)
      return true
    end)
  end)

  it("survives failed allocations of pipelines on links, in order and by events", function()
    oom.every_allocation(function()
      local given = { stages = 2, micro_batches = 3, forward = { 1, 1 }, backward = { 2, 2 }, send_forward = { 1, 1 },
        send_backward = { 1, 1 }, dense = { 1, 2, 1, 0.1, 0.1, 1, 2, 1, 0.1, 0.1 }, keep_units = false }
      local ends = step_core.links(given).reduced_seconds[1]
      given.keep_units = true
      local run = step_core.links(given)
      return math.abs(run.reduced_seconds[1] - ends) < 1e-12 and #run.transfers == 8
    end)
  end)

  it("survives failed allocations of combinations, kept plans, maps and places", function()
    local places = { pp = 1, tp = 2, cp = 1, ep = 1, etp = 2, dp = 2, rank_order = 18056, gpus_per_node = 2 }
    oom.every_allocation(function()
      local c = require("ett.search").combinations({ { name = "pp", count = 2, values = { 1, 2 } } }, {})
      assert(c:ask "rule" == 1 and c:count() == 0)
      step_core.kept_plan(step_core.plan { pp = 2 }):set("tp", 4)
      places.rank_map = step_core.map { 1, 0, 3, 2 }
      return step_core.place(places, "dp").ranks == 2
    end)
  end)

  it("survives failed allocations of orders and pipelines", function()
    oom.every_allocation(function()
      local orders = step_core.orders { { { "F", 1 }, { "B", 1 } }, { { "F", 1 }, { "B", 1 } } }
      return step_core.pipeline { schedule = "custom", stages = 2, micro_batches = 1, forward = { 1, 1 },
        backward = { 1, 1 }, orders = orders }.makespan_seconds == 4
    end)
  end)
end)

it("an ett.step workspace gives equal results for plans with other lanes between", function()
  local program <close> = small_program()
  local demands <close> = step_core.demands()
  local plans = {}
  for i = 1, 2 do plans[i] = { pp = 4, dp = 2, micro_batches = 4, zero = 1, bucket_bytes = 8 } end
  plans[1].tiers = { 1, 1, 2, 1, math.maxinteger, 1 }
  plans[1].rates = { 1e9, 1e9, 1, 1, 0, 1e9, 1e9, 1, 1, 0, 1e9, 1e9, 1, 1, 0 }
  local function evaluate(given, workspace)
    local plan = step_core.plan(given)
    if program:evaluate(plan, demands, workspace) == nil then
      for _, d in ipairs(step_core.untimed(demands)) do demands:set(d.index, 1.0, 0.5, 2.0) end
    end
    local result, stages = program:evaluate(plan, demands, workspace), {}
    for i, stage in ipairs(result.stages) do stages[i] = { stage.layers, stage.memory_bytes } end
    return { result.step_seconds, stages }
  end
  local own = {}
  for i = 1, 2 do
    local workspace <close> = step_core.workspace()
    own[i] = evaluate(plans[i], workspace)
  end
  local shared <close> = step_core.workspace()
  for _, i in ipairs { 1, 2, 1 } do assert.same(own[i], evaluate(plans[i], shared)) end
end)

describe("ett.step's arguments", function()
  local function why(fn, ...)
    local ok, raised = pcall(fn, ...)
    assert.is_false(ok)
    return type(raised) == "table" and raised.message or raised
  end

  it("say what is wrong", function()
    local function program(change)
      local given = { operations = { { name = "a", forward = time, backward = time } },
        kinds = { { place = "middle", count = 2, uses = { 1 } } } }
      change(given)
      return given
    end
    assert.equal("operation 'a': the time of the forward pass must be finite and at least 0, got -1 s",
      why(step_core.program, program(function(g) g.operations[1].forward = { -1 } end)))
    assert.equal("operation 'a': the interval of the backward pass must hold its time, got 1 s in [2, 3]",
      why(step_core.program, program(function(g) g.operations[1].backward = { 1, 2, 3 } end)))
    assert.equal("operation 'a': field 'dense_parameters' must be a number of at least 0, got -3",
      why(step_core.program, program(function(g) g.operations[1].dense_parameters = -3 end)))
    assert.equal("field 'count' must be 1 to 1000000, got 0",
      why(step_core.program, program(function(g) g.kinds[1].count = 0 end)))
    assert.matches("field 'place': unknown value 'front'$",
      why(step_core.program, program(function(g) g.kinds[1].place = "front" end)))
    assert.matches("field 'uses' must have indexes of operations from 1 to 1, got 2",
      why(step_core.program, program(function(g) g.kinds[1].uses = { [2] = 1 } end)))
    assert.matches("^a program holds 1 to 100000", why(step_core.program, { operations = {}, kinds = {} }))
  end)

  it("refuse impossible plans", function()
    local program <close> = small_program()
    local demands <close> = step_core.demands()
    local workspace <close> = step_core.workspace()
    local function plan(given) return why(program.totals, program, step_core.plan(given), demands, workspace) end
    assert.equal("field 'dp' must be 1 to 1048576, got 0", plan { dp = 0 })
    assert.equal("field 'etp' must be 1 to 1048576, got 0", plan { etp = 0 })
    assert.equal("ep * etp = 3 must divide dp * cp * tp = 4", plan { dp = 4, ep = 3 })
    assert.matches("^shard = 3 must divide the 2 ranks that share weights", plan { dp = 2, zero = 1, shard = 3 })
    assert.equal("field 'bucket_bytes' must be at least 1, got 0.5", plan { bucket_bytes = 0.5 })
    assert.matches("has a part without an end", plan { parts = { 0 / 0, 1, 1, 1, 2, 1, 1, 1 } })
    assert.equal("the split holds 3 layers, the model has 4", plan { pp = 2, split = { 1, 2 } })
    assert.matches("field 'split' must hold pp %* vp = 2 numbers of layers, got 1", plan { pp = 2, split = { 4 } })
    assert.matches("field 'split' must hold numbers of layers, got %-?nan", plan { pp = 2, split = { 0 / 0, 4 } })
    assert.matches("field 'schedule': unknown value 'fast'", plan { schedule = "fast" })
    assert.equal("micro-batches must be 1 to 2^32-1, got 0", plan { micro_batches = 0 })
    assert.matches("micro%-batches %* stages %* chunks must be at most", plan { pp = 4, micro_batches = 1 << 30 })
    local function slowed(factors)
      return function() return program:slowed(step_core.plan { pp = 2 }, demands, workspace, factors) end
    end
    assert.matches("must hold one factor per stage in each list", why(slowed { 1.0, 1.2, 1.0 }))
    assert.matches("must hold factors", why(slowed { 1.0, 0.0 }))
    assert.is_nil(slowed { 1.0, 1.2 }()) -- demands have no time
    for _, d in ipairs(step_core.untimed(demands)) do demands:set(d.index, 1.0, 0.5, 2.0) end
    assert.equal(2, #slowed { 1.0, 1.2, 1.0, 1.0 }())
  end)

  it("say when an object is closed", function()
    local program = small_program()
    program:close()
    program:close()
    assert.matches("the program is closed", why(program.layers, program))
    local open, demands, workspace = small_program(), step_core.demands(), step_core.workspace()
    local list = require("ett.search").combinations({ { name = "dp", count = 1, values = { 1 } } }, { pp = 1, tp = 1,
      cp = 1, micro_batch = 1, seq = 1, micro_batches = 1 })
    list:program(open, demands)
    demands:close()
    assert.matches("a program of the combinations is closed",
      why(list.run, list, step_core.plan {}, workspace, 1))
  end)

  it("refuse functions, fields and programs of combinations that do not exist", function()
    local list = require("ett.search").combinations({ { name = "dp", count = 1, values = { 1 } } }, { pp = 1, tp = 1,
      cp = 1, micro_batch = 1, seq = 1, global_batch = 8 })
    local rule, program = list:ask "rule", list:ask "program"
    local none = "internal error: a function or field that does not exist"
    assert.equal(none, why(list.learn, list, 3, {}, 1))
    assert.equal(none, why(list.learn, list, rule, { 2 }, 1))
    assert.equal(none, why(list.learn, list, rule, { 0 }, 1))
    assert.matches("must be a refusal's number", why(list.learn, list, rule, {}, 1, 1 << 32))
    list:learn(rule, {}, 0)
    list:learn(program, {}, 7)
    local stop, number, err = list:run(step_core.plan {}, step_core.workspace(), 1)
    assert.same({ "fault", 1, "internal error: no program 7" }, { stop, number, err.message })
  end)
end)
