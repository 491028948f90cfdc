--- The training step of `ett validate`: its gradients, its learning, its operators.
if not require("needs").cpu("the training step", _ENV) then return end
local sample = require "ett.sample"
local validate_cpu = require "ett.validate.cpu"
local validate_model = require "ett.validate.model"

local hyper = { layers = 2, hidden = 32, heads = 4, vocab = 128 }
local plan = { tp = 1, dp = 1, pp = 1, micro_batch = 2, micro_batches = 2, seq = 16 }

describe("the training step", function()
  it("has the gradient that finite differences have", function()
    local t = validate_model.new { hyper = hyper, plan = plan, seed = 3, backend = validate_cpu.kernels() }
    -- away from the flat start, where differences drown in rounding
    for i = 1, #t.weights do t.weights:set(i, 4 * t.weights:get(i)) end
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
      local slope, step = 0.0, 1e-4
      for i = 1, #direction do slope = slope + t.gradients:get(i) * direction:get(i) end
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
    local t = validate_model.new { hyper = hyper, plan = plan, seed = 3, backend = validate_cpu.kernels() }
    local first = t:step()
    assert.is_true(math.abs(first - math.log(hyper.vocab)) < 0.1) -- it starts knowing nothing
    local last
    for _ = 1, 120 do last = t:step() end
    assert.is_true(last < 0.6 * first, ("%.3f to %.3f"):format(first, last))
  end)

  it("runs the operators that the architecture lists, as often", function()
    local t = validate_model.new { hyper = hyper, plan = plan, seed = 3, backend = validate_cpu.kernels() }
    t:step()
    local architecture = require "ett.model.architecture"
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
        local record = t.records[name .. " " .. pass]
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

  it("combines a split vocabulary with the messages that the estimate counts", function()
    local ranks, tokens, part = 3, 5, 4
    local logits = sample.tensor(tokens * ranks * part):normal(11, 3)
    local function logit(token, at) return logits:get((token - 1) * ranks * part + at) end
    local function log_sum(token, from, to)
      local sum = 0
      for at = from, to do sum = sum + math.exp(logit(token, at)) end
      return math.log(sum)
    end
    local function target(token) return (7 * token) % (ranks * part) + 1 end
    -- A reduction waits for every rank, so each rank is a coroutine.
    local group, trainers = { given = {} }, {}
    function group.size() return ranks end
    function group:run(kind, tensor)
      self.given[#self.given + 1] = tensor
      if #self.given < ranks then
        coroutine.yield()
        return
      end
      for i = 1, #tensor do
        local largest, sum = -math.huge, 0
        for _, t in ipairs(self.given) do largest, sum = math.max(largest, t:get(i)), sum + t:get(i) end
        for _, t in ipairs(self.given) do t:set(i, kind == "all_reduce_max" and largest or sum) end
      end
      self.given = {}
    end
    local threads, results = {}, {}
    for rank = 1, ranks do
      local function t() return sample.tensor(tokens) end
      local trainer = setmetatable({ z = { tokens = tokens }, plan = { tp = ranks }, tp_group = group,
        s = { top = t(), target = t(), sum = t() } }, validate_model.Trainer)
      trainer:reset()
      local a = { entropy = t(), loss = t() }
      for token = 1, tokens do
        local own = log_sum(token, (rank - 1) * part + 1, rank * part)
        local at = target(token)
        a.entropy:set(token, own)
        a.loss:set(token, own - ((at - 1) // part + 1 == rank and logit(token, at) or 0))
      end
      results[rank], trainers[rank] = a, trainer
      threads[rank] = coroutine.create(function() trainer:join_vocabulary(a) end)
    end
    for _ = 1, 4 do
      for rank = 1, ranks do
        if coroutine.status(threads[rank]) ~= "dead" then assert(coroutine.resume(threads[rank])) end
      end
    end
    for rank = 1, ranks do
      assert.equal("dead", coroutine.status(threads[rank]))
      for token = 1, tokens do
        local whole = log_sum(token, 1, ranks * part)
        assert.near(whole, results[rank].entropy:get(token), 1e-5)
        assert.near(whole - logit(token, target(token)), results[rank].loss:get(token), 1e-5)
      end
      local counted = require("ett.operator.collective").expand({ collective = "vocabulary_reduce" }, { tp = ranks,
        micro_batch = 1, seq = tokens, dtype = "fp32" })
      local calls = 0
      for _, record in ipairs(trainers[rank].order) do
        assert.equal("tp", record.name)
        assert.equal(counted[1].name, record.pass)
        assert.equal(counted[1].bytes, record.bytes)
        calls = calls + record.calls
      end
      assert.equal(#counted, calls)
    end
  end)
end)
