--- The PyTorch back end against a stand-in for PyTorch (spec/support/fake_torch), and what it says without one.
local find = require "ett.base.find"
local host = require "ett.host"
local operator = require "ett.operator"
local sample = require "ett.sample"

local python = os.execute("python3 --version >/dev/null 2>&1") == true
local has_trace = pcall(require, "ett.trace.samples") and pcall(require, "ett.trace")
local reason = not python and "no python3 on this machine" or not has_trace and "ett.trace is not built here" or nil
sample.default_environment("PYTHONPATH", host.root .. "/spec/support/fake_torch")
sample.default_environment("PYTHONDONTWRITEBYTECODE", "1")
local backend = find.load("samplers", "torch")

local configuration = { tp = 1, cp = 1, ep = 1, micro_batch = 2, seq = 64, hidden = 128, heads = 4, kv_heads = 2,
  head_dim = 32, ffn = 512, moe_ffn = 256, vocab = 1000, experts = 4, top_k = 2, layers = 2, gated_mlp = true,
    q_lora_rank = 96, kv_lora_rank = 64, qk_nope_head_dim = 32, qk_rope_head_dim = 16, v_head_dim = 32,
  causal = true, dtype = "bf16" }

describe("samplers/torch", function()
  it("runs every operator of the library and reads device time from the trace", function()
    if reason then pending(reason) return end
    local session = assert(backend.open { precision = "bf16", warmup = 1, active = 3 })
    finally(session.close)
    assert.equal("FakeGPU9000", session.device)
    for _, op in ipairs(operator.list()) do
      assert.is_string(op.torch, op.name .. " has no field 'torch'")
      local results = assert(session.measure(op, op.shape(configuration)))
      local expected = { forward = 40e-6, backward = 90e-6, update = 20e-6 }
      for _, pass in ipairs(op.passes) do
        assert.near(expected[pass], results[pass].seconds, 1e-9, op.name .. " " .. pass)
        assert.equal(3, results[pass].repeats)
      end
    end
  end)

  it("keeps every iteration's time in a campaign's table with keep_raw", function()
    if reason then pending(reason) return end
    local campaign, sampler = require "ett.sampling.campaign", require "ett.sampling.sampler"
    local folder = os.tmpname()
    os.remove(folder)
    require("ett.base.folder").make(folder)
    finally(function() os.execute(("rm -rf '%s'"):format(folder)) end)
    local given = campaign.resolve({ name = "kept", backend = "torch", precision = "bf16",
      samples = { { operator = "gelu", shapes = { tokens = { 16, 32 }, width = 64 } } } }, "kept")
    given.fingerprint, given.schedule = "0", { wait = 0, warmup = 1, active = 3 }
    local report = sampler.run(given, { out = folder, keep_raw = true })[1]
    assert.equal(2, report.measured)
    local file = assert(io.open(report.path))
    local text = file:read("a")
    file:close()
    assert.matches("\n#~ repeats: 16,64: forward: 40 40 40\n#~ repeats: 16,64: backward: 90 90 90\n16,64,40,90\n", text)
  end)

  it("takes the host's time where PyTorch has no GPU", function()
    if reason then pending(reason) return end
    local session = assert(backend.open { device = "cpu", precision = "fp32", warmup = 0, active = 2 })
    finally(session.close)
    local op = operator.get "gelu"
    local results = assert(session.measure(op, op.shape(configuration)))
    assert.near(100e-6, results.forward.seconds, 1e-9)
    assert.near(200e-6, results.backward.seconds, 1e-9)
  end)

  it("names the operator's own line when its code fails, and goes on", function()
    if reason then pending(reason) return end
    local session = assert(backend.open { warmup = 0, active = 1 })
    finally(session.close)
    local broken = { name = "broken", torch = "x = tensor(s.n)\nreturn lambda: undefined_name", passes = { "forward" } }
    local results, err = session.measure(broken, { n = 4 })
    assert.is_nil(results)
    assert.matches("broken: broken %(torch%):2: name 'undefined_name' is not defined", err.message)
    assert.is_table((session.measure(operator.get "gelu", { tokens = 4, width = 8 })))
  end)

  it("uses the GPU that is asked for, and as many iterations as a campaign's schedule says", function()
    if reason then pending(reason) return end
    local session = assert(backend.open { device = 1, schedule = { wait = 1, warmup = 1, active = 4 } })
    finally(session.close)
    assert.equal("FakeGPUcuda1", session.device)
    assert.equal(4, assert(session.measure(operator.get "gelu", { tokens = 4, width = 8 })).forward.repeats)
  end)

  it("says where a campaign's own targets are not in the trace, and takes the pass's range", function()
    if reason then pending(reason) return end
    local session = assert(backend.open { warmup = 0, active = 2 })
    finally(session.close)
    local target = { targets = { { "ett forward" }, { "autograd::engine::evaluate_function: GeluBackward0" } } }
    local results = assert(session.measure(operator.get "gelu", { tokens = 4, width = 8 }, nil, target))
    assert.near(40e-6, results.forward.seconds, 1e-9)
    assert.near(90e-6, results.backward.seconds, 1e-9)
    assert.equal("backward by its range: the trace holds 0 of the target 'autograd::engine::evaluate_function: "
      .. "GeluBackward0' in 2 iterations", results.note)
  end)

  it("names the operator's own line when its code does not parse", function()
    if reason then pending(reason) return end
    local session = assert(backend.open { warmup = 0, active = 1 })
    finally(session.close)
    local broken = { name = "broken", torch = "x = tensor(s.n)\ny = (1 +\nreturn lambda: x", passes = { "forward" } }
    local results, err = session.measure(broken, { n = 4 })
    assert.is_nil(results)
    assert.matches("broken: broken %(torch%):[23]: ", err.message)
  end)

  it("reports an operator without PyTorch code", function()
    if reason then pending(reason) return end
    local session = assert(backend.open { warmup = 0, active = 1 })
    finally(session.close)
    local results, err = session.measure({ name = "own", passes = { "forward" } }, {})
    assert.is_nil(results)
    assert.matches("'own' cannot run under PyTorch: it has no field 'torch'", err.message)
  end)
end)
