--- Computing that loses a share of a device to the communication beside it, by hand.
local step_core = require "step_core"

local L, T = 4, 2.0 -- layers; seconds of a layer's forward, its backward takes twice as long

--- A step of L layers on one stage; seconds: of each message; of_exchanges: the share of all-to-alls (default: share).
local function evaluate(share, given, seconds, operations, of_exchanges, blocking)
  local program <close> = step_core.program {
    operations = operations or { { forward = { T }, backward = { 2 * T }, dense_parameters = 1000 } },
    kinds = { { place = "middle", count = L, uses = operations and { 1, 1, 1 } or { 1 } } }, boundary_bytes = 1,
    communication_share = share, exchange_communication_share = of_exchanges, blocking_reductions = blocking }
  given.seq, given.clip_gradients, given.bucket_bytes = 1, false, 1e12
  return step_core.evaluated(program, step_core.plan(given), function(d) return seconds[d.kind] end)
end

describe("the share of a device that communication takes", function()
  it("slows passes by the gathers beside them", function()
    local gather = 0.5 -- of each layer, twice in a micro-batch; the first of a pass is waited for
    local given = { dp = 2, zero = 3, micro_batches = 3, overlap_parameters = true }
    local seconds = { all_gather = gather }
    local alone = 3 * (L * T + gather + 2 * L * T + gather)
    assert.equal(alone, evaluate(0, given, seconds).step_seconds)
    assert.equal(alone + 3 * 2 * 0.25 * (L - 1) * gather, evaluate(0.25, given, seconds).step_seconds)
  end)

  it("slows the backward by the reductions beside it", function()
    local given = { dp = 2, micro_batches = 1, overlap_gradients = true }
    local e = evaluate(0.25, given, { all_reduce = 1 })
    -- One bucket: it leaves when the backward has ended, so nothing is beside it.
    assert.equal(3 * L * T + 1, e.step_seconds)
    given.zero = 2
    given.micro_batches = 5 -- four reductions hide behind the micro-batches that follow
    local slowed, free = evaluate(0.25, given, { reduce_scatter = 1 }), evaluate(0, given, { reduce_scatter = 1 })
    assert.equal(free.step_seconds + 0.25 * 4, slowed.step_seconds)
  end)

  it("hides less of an all-to-all behind the layer's shared experts", function()
    local operations = { { forward = { 2 }, backward = { 2 }, role = "exchange" },
      { forward = { 4 }, backward = { 8 }, role = "beside_dispatch" }, { forward = { 0.5 }, backward = { 1 },
        role = "beside_combine" } }
    local given = { micro_batches = 1, overlap_all_to_all = "shared_experts" }
    -- Of 1 s behind 4 s 0.75 s hide; of 1 s behind 0.5 s all of the 0.5 s, since 0.75 s could.
    local hidden = L * (math.min(0.75, 4) + math.min(0.75, 0.5) + math.min(0.75, 8) + math.min(0.75, 1))
    local exposed = L * (2 + 4 + 0.5 + 2 + 8 + 1) - hidden
    assert.equal(exposed, evaluate(0.25, given, {}, operations).step_seconds)
    assert.equal(exposed, evaluate(0, given, {}, operations, 0.25).step_seconds) -- their share is their own
    assert.equal(exposed - 3 * L * 0.25, evaluate(0.25, given, {}, operations, 0).step_seconds)
  end)

  it("is refused from 1 on", function()
    local ok, raised = pcall(evaluate, 1, { micro_batches = 1 }, {})
    assert.is_false(ok)
    assert.equal("field 'communication_share' must be at least 0 and below 1, got 1", raised.message)
    ok, raised = pcall(evaluate, 0, { micro_batches = 1 }, {}, nil, -0.5)
    assert.is_false(ok)
    assert.equal("field 'exchange_communication_share' must be at least 0 and below 1, got -0.5", raised.message)
  end)
end)

describe("reduce-scatters that block the device", function()
  local seconds = { reduce_scatter = 1, all_reduce = 0.5 }
  local function step(given, blocking)
    given.dp, given.overlap_gradients = 4, true
    return evaluate(0, given, seconds, nil, nil, blocking)
  end

  it("overlap nothing, after each micro-batch of ZeRO-2 and of each layer of ZeRO-3", function()
    local e = step({ zero = 2, micro_batches = 5 }, true)
    assert.equal(5 * 3 * L * T + 5 * 1, e.step_seconds)
    assert.equal(5, e.stages[1].gradient_exposed_seconds)
    assert.equal(5 * 3 * L * T + 1, step({ zero = 2, micro_batches = 5 }, false).step_seconds)
    assert.equal(5 * 3 * L * T + 1, step({ zero = 1, micro_batches = 5 }, true).step_seconds)
    assert.equal(3 * L * T + L * 1, step({ zero = 3, micro_batches = 1 }, true).step_seconds)
  end)

  it("leave the messages between replicas beside the backward pass", function()
    -- Four layers: the sum of the last one over the replicas follows the pass.
    local e = step({ zero = 3, shard = 2, micro_batches = 1 }, true)
    assert.equal(3 * L * T + L * 1 + 0.5, e.step_seconds)
    assert.equal(L * (1 + 0.5), e.stages[1].gradient_seconds)
  end)

  it("do not concern all-reduces, or plans without overlap", function()
    assert.equal(step({ micro_batches = 2 }, false).step_seconds, step({ micro_batches = 2 }, true).step_seconds)
    local given = { dp = 4, zero = 2, micro_batches = 2, overlap_gradients = false }
    assert.equal(evaluate(0, given, seconds).step_seconds, evaluate(0, given, seconds, nil, nil, true).step_seconds)
  end)
end)
