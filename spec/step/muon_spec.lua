--- Muon: its matrices, Newton-Schulz iterations, states and messages, by hand.
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local operators = require "ett.operator"
local optimizer = require "ett.operator.optimizer"

local hyper = { layers = 4, hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816, vocab = 32000 }

local function run(plan, arch, other)
  local e = estimate.new { cluster = "dgx_h100", units = true, plan = merged({ seq = 1024, micro_batches = 1,
    optimizer = "muon" }, plan), model = model_module.new(arch or "llama", merged(hyper, other or {})) }
  local lines = {}
  for _, list in ipairs { e.operators, e.collectives } do
    for _, line in ipairs(list) do lines[line.name .. (line.group and " " .. line.group or "")] = line end
  end
  return e, lines, e.stages[1]
end

-- Rows and columns of the matrices of a layer: queries, keys, values, output, gate, up, down.
local matrices = { { 1024, 1024 }, { 256, 1024 }, { 256, 1024 }, { 1024, 1024 }, { 2816, 1024 }, { 2816, 1024 },
  { 1024, 2816 } }
local in_matrices = 4 * (2 * 1024 * 1024 + 2 * 256 * 1024 + 3 * 2816 * 1024)

describe("Muon", function()
  it("takes 4 m^2 n + 2 m^3 FLOPs for an iteration on m x n, and moves the same for its transpose", function()
    local function flops(m, k, n) return 2.0 * m * k * n end
    local function elements(count) return count end
    local function none() return 0.0 end
    for _, matrix in ipairs { { rows = 300, cols = 700 }, { rows = 700, cols = 300 } } do
      assert.equal(5 * (4 * 300 ^ 2 * 700 + 2 * 300 ^ 3), optimizer.newton_seconds(matrix, 5, flops, none))
      assert.equal(5 * (300 ^ 2 + 300 * 700) + 2 * 300 * 700, optimizer.newton_seconds(matrix, 5, none, elements))
    end
  end)

  it("updates the matrices between embedding and head, with each expert and the router", function()
    local function of(name, s, parts) return optimizer.matrices(operators.get(name), s, parts) end
    local s = { tokens = 8, in_features = 64, out_features = 128 }
    assert.same({ { rows = 128, cols = 64, count = 1 } }, of("linear_down", s))
    assert.same({ { rows = 96, cols = 64, count = 1 }, { rows = 32, cols = 64, count = 1 } },
      of("linear_qkv", s, { 96, 32 }))
    assert.same({ { rows = 128, cols = 64, count = 6 } }, of("expert_linear2", merged(s, { batch = 6 })))
    assert.same({ { rows = 6, cols = 64, count = 1 } }, of("moe_router", { tokens = 8, hidden = 64, experts = 6,
      top_k = 2 }))
    for name, shape in pairs { lm_head = s, mtp_head = s, rms_norm = { tokens = 8, hidden = 64 },
      embedding = { tokens = 8, hidden = 64, vocab = 10 } } do
      assert.same({}, of(name, shape), name)
    end
    assert.equal(in_matrices, select(3, run {}).matrix_parameters)
    local experts = { experts = 8, top_k = 2, moe_ffn = 512 }
    assert.equal(4 * (2 * 1024 * 1024 + 2 * 256 * 1024 + 8 * 3 * 512 * 1024 + 8 * 1024),
      select(3, run({}, "mixtral", experts)).matrix_parameters)
    assert.equal(0, select(3, run { optimizer = "adam" }).matrix_parameters)
    assert.equal(in_matrices - 4 * 256 * 1024, select(3, run({}, nil, { keys_as_values = true })).matrix_parameters)
  end)

  it("stores one moment of each matrix, and two of other weights", function()
    local _, _, adam = run { optimizer = "adam" }
    -- Also a moving average (16), a master weight of 4 bytes (8) and of 2 bytes (6) beside moments of 2 bytes.
    for dtype, cases in pairs { bf16 = { [16] = 12, [12] = 8, [8] = 6, [6] = 4, [4] = 2 },
      fp32 = { [12] = 8, [8] = 4, [4] = 2 } } do
      for bytes, of_matrix in pairs(cases) do
        local _, _, stage = run { optimizer_bytes = bytes, dtype = dtype }
        assert.equal(bytes * adam.parameters - (bytes - of_matrix) * in_matrices, stage.optimizer_bytes)
      end
    end
    local _, _, sharded = run { dp = 4, zero = 1 }
    assert.equal((12 * adam.parameters - 4 * in_matrices) / 4, sharded.optimizer_bytes)
  end)

  it("iterates on whole matrices: once on each owner, and at least on the largest", function()
    local times = require("ett.step.times").new(require("ett.profile.cluster").get "dgx_h100")
    local function timed(name, shape)
      return times:operator(operators.get(name), shape, "bf16", "forward").seconds
    end
    local all, largest = 0.0, 0.0
    for _, matrix in ipairs(matrices) do
      local one = optimizer.newton_seconds({ rows = matrix[1], cols = matrix[2] }, 5, function(m, k, n)
        return timed("linear_column", { tokens = m, in_features = k, out_features = n })
      end, function(elements)
        return timed("residual_add", { tokens = math.ceil(elements / 1024), hidden = 1024 })
      end)
      all, largest = all + 4 * one, math.max(largest, one)
    end
    local function seconds(plan) return (select(3, run(plan))).newton_seconds end
    assert.near(all, seconds { dp = 8 }, 1e-12)
    assert.near(all / 8, seconds { dp = 8, zero = 1 }, 1e-12)
    assert.near(largest, seconds { dp = 64, zero = 3 }, 1e-12)
    assert.near(all / 2 / 2, seconds { dp = 2, zero = 1, pp = 2, micro_batches = 2 }, 1e-12)
    assert.is_true(seconds { muon_steps = 3 } < 0.7 * all)
    local _, lines, stage = run { dp = 8, zero = 1 }
    assert.near(stage.newton_seconds, lines.newton_schulz.seconds, 1e-12)
    assert.near(stage.optimizer_seconds, stage.optimizer_kernel_seconds + stage.newton_seconds
      + stage.newton_message_seconds, 1e-12)
    -- The timeline shows iterations and messages; products draw more power than waiting devices.
    local e, events = run { dp = 8, zero = 1 }, {}
    for _, event in ipairs(require("ett.step.timeline").of(e).stages[1].messages) do
      events[event.name .. (event.group or "")] = event.seconds
    end
    assert.near(stage.newton_seconds, events.newton_schulz, 1e-12)
    assert.near(stage.newton_message_seconds, events["all_gatherdp momenta"], 1e-12)
    assert.is_nil(events["optimizer (host)"])
    assert.is_true(e.device_watts > run({ dp = 8, zero = 1, optimizer = "adam" }).device_watts)
    -- A host reads and writes one moment less of each matrix.
    local function on_host(name) return select(2, run { optimizer = name, offload_optimizer = 1 })["optimizer host"] end
    assert.is_true(on_host("muon").seconds < 0.9 * on_host("adam").seconds)
    -- Tensor ranks orthogonalise their parts, or gather the whole matrix.
    local parts, whole = seconds { tp = 4 }, seconds { tp = 4, muon_tensor = "duplicated" }
    assert.is_true(parts < 0.7 * all and whole > all)
  end)

  it("gathers momenta in 16 bits, exchanges them under ZeRO-3, and gathers none of whole gradients", function()
    local times = require("ett.step.times").new(require("ett.profile.cluster").get "dgx_h100")
    local place = { nodes = 1, gpus_per_node = 8 }
    local _, lines, stage = run { dp = 8, zero = 1 }
    assert.near(times:collective("all_gather", 2.0 * in_matrices, place, "bf16").seconds, stage.newton_message_seconds,
      0.02 * stage.newton_message_seconds)
    assert.equal(stage.newton_message_seconds, lines["all_gather dp momenta"].seconds)
    local _, sharded, own = run { dp = 8, zero = 3 }
    assert.is_true(own.newton_message_seconds > 0)
    assert.equal(own.newton_message_seconds, sharded["all_to_all dp momenta"].seconds)
    for _, plan in ipairs { { dp = 8 }, { dp = 8, zero = 1, gradient_all_reduce = true }, { zero = 1 } } do
      assert.equal(0, (select(3, run(plan))).newton_message_seconds)
    end
  end)

  it("is the same in a sweep, and leaves frozen weights out", function()
    local e = run { dp = 8, zero = 1 }
    local swept = require("ett.search.sweep").new { cluster = "dgx_h100", model = model_module.new("llama", hyper),
      plan = { seq = 1024, micro_batches = 1, dp = 8, zero = 1 }, over = { optimizer = { "adam", "muon" } } }
    local of = {}
    for _, row in ipairs(swept.rows) do of[row.plan and row.plan.optimizer or row.optimizer] = row.step_seconds end
    assert.near(e.step_seconds, of.muon, 1e-12)
    assert.near(run({ dp = 8, zero = 1, optimizer = "adam" }).step_seconds, of.adam, 1e-12)
    assert.equal(in_matrices / 4, select(3, run { frozen_layers = 3 }).matrix_parameters)
    -- The time to gather a matrix depends on the placement of tensor ranks, which no shape states.
    local plan = { seq = 1024, micro_batches = 1, dp = 4, tp = 4, optimizer = "muon", muon_tensor = "duplicated" }
    local orders = { "tp-cp-ep-dp-pp", "dp-tp-cp-ep-pp" }
    for _, over in ipairs { orders, { orders[2], orders[1] } } do
      local swept_orders = require("ett.search.sweep").new { cluster = "dgx_h100", plan = plan,
        model = model_module.new("llama", hyper), over = { rank_order = over } }
      for _, row in ipairs(swept_orders.rows) do
        assert.near(run(merged(plan, { rank_order = row.rank_order })).step_seconds, row.step_seconds, 1e-12)
      end
    end
    assert.matches("muon_steps has no effect: it needs optimizer = muon", table.concat(run({ optimizer = "adam",
      muon_steps = 3 }).warnings, "\n"), 1, true)
  end)
end)
