--- The training step of `ett validate`: its gradients, its learning, its operators.
local find = require "ett.find"
local usable, why = find.load("samplers", "cpu").available()
if not usable then
  describe("the training step", function()
    it("is left out", function() pending(why) end)
  end)
  return
end
local sample = require "ett.sample"
local validate_model = require "ett.validate_model"

local hyper = { layers = 2, hidden = 32, heads = 4, vocab = 128 }
local plan = { tp = 1, dp = 1, pp = 1, micro_batch = 2, micro_batches = 2, seq = 16 }

describe("the training step", function()
  it("has the gradient that finite differences have", function()
    local t = validate_model.new { hyper = hyper, plan = plan, seed = 3 }
    t.weights:scale(4) -- away from the flat start, where differences drown in rounding
    local function loss()
      t.step_number, t.loss = 0, 0
      for i = 1, plan.micro_batches do
        t.backend:feed(t, t.kept[1], i)
        t:forward(t.kept[1])
      end
      return t.loss / plan.micro_batches
    end
    t.loss = 0
    for i = 1, plan.micro_batches do
      t.backend:feed(t, t.kept[1], i)
      t:forward(t.kept[1])
      t:backward(t.kept[1])
    end
    for seed = 1, 4 do
      local direction = sample.tensor(#t.weights):normal(seed, 1)
      local slope, step = t.gradients:dot(direction), 1e-4
      local before = sample.tensor(#t.weights):copy(t.weights)
      local function at(distance)
        for i = 1, #t.weights do t.weights:set(i, before:get(i) + distance * direction:get(i)) end
        return loss()
      end
      local difference = (at(step) - at(-step)) / (2 * step)
      t.weights:copy(before)
      assert.is_true(math.abs(difference - slope) < 0.02 * (1 + math.abs(slope)),
        ("direction %d: %.5f by differences, %.5f by the backward pass"):format(seed, difference, slope))
    end
  end)

  it("learns", function()
    local t = validate_model.new { hyper = hyper, plan = plan, seed = 3 }
    local first = t:step()
    assert.is_true(math.abs(first - math.log(hyper.vocab)) < 0.1) -- it starts knowing nothing
    local last
    for _ = 1, 120 do last = t:step() end
    assert.is_true(last < 0.6 * first, ("%.3f to %.3f"):format(first, last))
  end)

  it("runs the operators that the architecture lists, as often", function()
    local t = validate_model.new { hyper = hyper, plan = plan, seed = 3 }
    t:step()
    local architecture = require "ett.architecture"
    local model = require("ett.model").new("gpt", { layers = 2, hidden = 32, heads = 4, vocab = 128, position = "rope",
      tied_embeddings = false, bias = false })
    local p = { tp = 1, cp = 1, ep = 1, dp = 1, pp = 1, micro_batch = 2, micro_batches = 2, seq = 16, dtype = "fp32" }
    local c = architecture.configuration(model.hyper, p)
    local expected = {}
    for _, layer in ipairs(model.layers) do
      for _, item in ipairs(architecture.operations(layer, c)) do
        if item.kind == "operator" then
          local name = item.operator.name
          expected[name] = (expected[name] or 0) + (item.times or 1) * (layer.count or 1) * plan.micro_batches
        end
      end
    end
    for name, count in pairs(expected) do
      for _, pass in ipairs { "forward", "backward" } do
        local record = t.records[name .. " " .. pass .. " "]
        assert(record, name .. " " .. pass .. " was not run")
        assert.equal(count, record.calls, name .. " " .. pass)
      end
    end
    local run = 0
    for _, record in pairs(t.records) do if record.pass == "forward" then run = run + 1 end end
    local listed = 0
    for _ in pairs(expected) do listed = listed + 1 end
    assert.equal(listed, run)
  end)
end)
