--- `ett validate --backend cuda` on the stand-in GPU: training steps that compute, against the CPU back end's; the
--- whole command from samples to the report. What goes wrong: gpu_failures_slow_spec.lua.
local ended = require("command").ended
local json = require "ett.json"
local stand_in = require "stand_in"

if not require("needs").gpu(stand_in.missing(), "ett validate --backend cuda", _ENV) then return end

local folder = stand_in.each_folder(_ENV)

--- Losses of steps on either back end from the same parameters, and how many launches a step has.
local same_steps = [[
local precision, steps = %q, %d
require("ett.base.find").load("samplers", "cpu").available()
local validate_cpu, validate_cuda = require "ett.validate.cpu", require "ett.validate.cuda"
local model = require "ett.validate.model"
local function given(backend)
  return { hyper = { layers = 2, hidden = 48, heads = 3, vocab = 72 }, backend = backend, seed = 3,
    plan = { tp = 1, dp = 1, pp = 1, micro_batch = 2, micro_batches = 2, seq = 12 } }
end
local device <close> = assert(require("ett.cuda").open(0))
local own <close> = setmetatable({ kernels = validate_cuda.kernels(device, precision) },
  { __close = function(self) self.kernels:close() end })
local cpu, cuda = model.new(given(validate_cpu.kernels())), model.new(given(own.kernels))
local at, values = 0, {}
for i, entry in ipairs(own.kernels.parameters) do
  values[i] = {}
  for j = 1, entry.count do values[i][j] = cpu.weights:get(at + j) end
  at = at + entry.count
end
own.kernels.initial = values
for _ = 1, steps do print(("loss %%.9g %%.9g"):format(cpu:step(), cuda:step())) end
local seconds, loss = own.kernels:timed_step(cuda)
print(("loss %%.9g %%.9g"):format(cpu:step(), loss))
local calls = {}
for i, record in ipairs(own.kernels.parts) do
  assert(seconds[i] >= 0)
  calls[record.name .. " " .. record.pass] = (calls[record.name .. " " .. record.pass] or 0) + 1
end
for _, record in ipairs(cpu.order) do
  local name = record.name .. " " .. record.pass
  assert(calls[name] == record.calls // (steps + 1), name)
end
]]

describe("ett validate --backend cuda", function()
  -- bf16 rounds to 8 bits; cuDNN's attention there, kernels of ett's own in fp32.
  for precision, tolerance in pairs { fp32 = 1e-6, bf16 = 1e-3 } do
    it("has the CPU back end's losses in " .. precision .. ", step by step", function()
      stand_in.write(folder, "same.lua", same_steps:format(precision, 4))
      local out = ended(0, stand_in.run(folder, "run same.lua", stand_in.computing()))
      local first, last
      local steps = 0
      for cpu, cuda in out:gmatch("loss (%S+) (%S+)") do
        cpu, cuda = tonumber(cpu), tonumber(cuda)
        assert(math.abs(cuda / cpu - 1) <= tolerance, ("%.9g on the CPU, %.9g on the GPU"):format(cpu, cuda))
        first, last, steps = first or cuda, cuda, steps + 1
      end
      assert.equal(5, steps, out)
      assert.is_true(last < first - 0.05, out)
    end)
  end

  it("trains configurations from samples to the report, and the loss falls", function()
    stand_in.write(folder, "prove.lua", [[
      local result = require("ett.validate").run { backend = "cuda", out = "out", layouts = { "1x1" }, scale = 0.01,
        steps = 6, precision = "bf16", sizes = { { 1, 32, 2, 48, 1, 1, 16 }, { 1, 48, 3, 64, 1, 2, 32 } },
        on_stage = function() end, on_row = function() end }
      for _, row in ipairs(result.groups[1].rows) do
        assert(row.last_loss < row.first_loss - 0.1, row.first_loss .. " to " .. row.last_loss)
        assert(row.predicted_seconds > 0 and row.measured_seconds > 0)
        print(#row.records)
      end
    ]])
    assert.equal("29\n29\n", ended(0, stand_in.run(folder, "run prove.lua", stand_in.computing())))
  end)

  -- A kernel of the stand-in takes 5 us and a product what its FLOPs say, in a sample as in a step: what is predicted
  -- is what is measured, unless something is counted twice, left out, or asked for at the wrong shape.
  for _, precision in ipairs { "bf16", "fp32" } do
    it("predicts the operators that the step runs, one by one, in " .. precision, function()
      local out = ended(0, stand_in.run(folder, ("validate --backend cuda --precision %s --configurations 4 --steps 5 "
        .. "--scale 0.3 --json 2>/dev/null"):format(precision), { ETT_GPU_REPORT = folder .. "/report" }))
      stand_in.write(folder, "result.json", out)
      local result = assert(json.read(folder .. "/result.json"))
      assert.equal("cuda", result.backend)
      assert.equal(precision, result.precision)
      local rows = result.groups[1].rows
      assert.equal(4, #rows)
      for _, row in ipairs(rows) do
        local predicted, measured, seen = 0.0, 0.0, {}
        for _, record in ipairs(row.records) do
          seen[record.name] = true
          measured = measured + record.seconds
          if record.name == "zero_gradients" then
            assert.is_nil(record.predicted_seconds)
          else
            predicted = predicted + record.predicted_seconds
            assert(math.abs(record.predicted_seconds / record.seconds - 1) < 0.03, ("%s %s: %g for %g"):format(
              record.name, record.pass, record.predicted_seconds, record.seconds))
          end
        end
        for _, name in ipairs { "embedding", "layer_norm", "linear_qkv", "rope", "flash_attention", "linear_proj",
          "residual_add", "linear_up", "gelu", "linear_down", "lm_head", "cross_entropy", "gradient_accumulation",
          "optimizer" } do assert.is_true(seen[name], name) end
        -- The estimate is the sum of the lines and one launch; other programs only make the step longer.
        local launch = result.groups[1].host.launch_seconds
        assert(math.abs(row.predicted_seconds / (predicted + launch) - 1) < 0.01, row.predicted_seconds)
        assert(row.measured_seconds > 0.97 * row.predicted_seconds, row.measured_seconds)
      end
      local counts = stand_in.report(folder, "report")
      assert.equal(0, counts.held_bytes)
      assert.equal(0, counts.held_objects)
    end)
  end

  it("prints the report, and uses a GPU by default", function()
    local out = ended(0, stand_in.run(folder, "validate --configurations 1 --steps 3 --scale 0.5 --lines --no-check"))
    assert.matches("\n1x1  2 x 768 heads 12 vocab 8192 batch 4x1 seq 1024  predicted +%d+%.%d+ ms  measured "
      .. "+%d+%.%d+ ms  error +[-+]%d+%.%d %%  loss %d", out)
    assert.matches("\n    flash_attention +backward +2%.0 +%d+%.%d+ +%d+%.%d+ +[-+]%d", out)
    assert.matches("\n# device 0 %(Stand%-In 90%), bf16; a step is one CUDA graph, whose launch takes %d+%.%d us", out)
    assert.matches("\n# 1x1: median error of the step %d+%.%d %% over 1 configuration", out)
  end)
end)
