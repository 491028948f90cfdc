--- Reuse distances of a training step's operands, and the part of them that is still cached.
local find = require "ett.base.find"
if not require("needs").cpu("ett.validate.caches", _ENV) then return end
local caches = require "ett.validate.caches"
local validate = require "ett.validate"

local function none() return 0.0 end

--- Bytes of all that a step of one rank uses, counted from the layers' equations.
local function step_bytes(case)
  local h, p = case.hyper, case.plan
  local tokens, wide = p.micro_batch * p.seq, 4 * h.hidden
  local parameters = 2 * h.vocab * h.hidden + 2 * h.hidden
    + h.layers * (4 * h.hidden * h.hidden + 2 * h.hidden * wide + 4 * h.hidden)
  local stream, ffn, logits = tokens * h.hidden, tokens * wide, tokens * h.vocab
  local layer = 8 * stream + 2 * ffn + 4 * tokens -- n1, qkv, o, x1, n2, out; u, g; means and deviations
  local kept = stream + h.layers * layer + stream + 2 * tokens -- x, layers, n with its two
    + 4 * tokens -- tokens, targets, losses, log-sum-exps
  local scratch = 5 * stream + 2 * ffn + 4 * stream + 2 * logits -- branch, dx, dx1, dn, dbranch; dg, du; d_o, dqkv
  local shared = 2 * p.seq * p.seq + p.seq * h.hidden // h.heads -- probabilities, angles
  return 4.0 * (4 * parameters + kept + scratch + shared)
end

describe("ett.validate.caches", function()
  it("goes at most through all of a step", function()
    for _, configuration in ipairs(validate.sizes.cpu) do
      local case, largest = validate.case(configuration), 0.0
      caches.reuse(case, function(bytes)
        if bytes < math.huge then largest = math.max(largest, bytes) end
        return 0.0
      end)
      -- Of the second step: gradients of the head are first used again by the step after.
      assert.equal(step_bytes(case), largest)
    end
  end)

  it("distinguishes data that was just written from data as old as the step", function()
    local case = validate.case { 2, 64, 4, 512, 4, 1, 64 }
    local least, all = math.huge, step_bytes(case)
    local distance = caches.reuse(case, function(bytes) least = math.min(least, bytes) return bytes end)
    assert.is_true(least < all / 50)
    local moments = distance("optimizer", "update")
    assert.is_true(moments > 0.5 * all and moments < all) -- its moments: all of it; gradients and weights: less
    for name, pass in pairs { residual_add = "backward", rope = "forward", flash_attention = "forward" } do
      assert.is_true(distance(name, pass) < 0.6 * all, name)
    end
    assert.is_true(distance("linear_up", "forward") > distance("gelu", "forward"))
    assert.equal(math.huge, distance("gelu", "update")) -- not there
  end)

  it("is the mean over calls and bytes, of every stage and micro-batch", function()
    for _, layout in ipairs { { 1, 1, 1 }, { 1, 2, 1 }, { 2, 2, 1 }, { 1, 1, 2 } } do
      local case = validate.case({ 4, 64, 4, 512, 1, 2, 64 }, layout)
      local of = caches.reuse(case, function(bytes) return bytes == math.huge and 1.0 or 0.25 end)
      for _, name in ipairs { "embedding", "linear_qkv", "gelu", "lm_head", "cross_entropy" } do
        assert.equal(0.25, of(name, "forward"))
        assert.equal(0.25, of(name, "backward"))
      end
      assert.equal(0.25, of("optimizer", "update"))
      assert.equal(1.0, of("dropout", "forward"))
    end
    -- An addition's operands are as large as each other: of three, two were just used in the forward pass.
    local case = validate.case { 4, 64, 4, 512, 2, 1, 64 }
    local layer = 4.0 * (12 * 64 * 64 + 16 * 128 * 64)
    local of = caches.reuse(case, function(bytes) return bytes < 2 * layer and 0.0 or 1.0 end)
    assert.is_true(math.abs(of("residual_add", "forward") - 1 / 3) < 1e-12, tostring(of("residual_add", "forward")))
  end)

  it("counts what messages and copies pass through as used", function()
    local function optimizer(layout)
      return caches.reuse(validate.case({ 4, 64, 4, 512, 2, 1, 64 }, layout), function(bytes) return bytes end)(
        "optimizer", "update")
    end
    local alone, data = optimizer { 1, 1, 1 }, optimizer { 2, 1, 1 }
    assert.is_true(data < alone) -- all gradients have just been summed
    -- What came from the stage before has just been copied.
    local case = validate.case({ 4, 64, 4, 512, 2, 1, 64 }, { 1, 1, 2 })
    local layer = 4.0 * (12 * 64 * 64 + 16 * 128 * 64)
    local of = caches.reuse(case, function(bytes) return bytes < layer and 0.0 or 1.0 end)
    assert.is_true(of("residual_add", "forward") < 1)
  end)

  it("falls where a tensor rank holds half of the layers", function()
    local function of(layout)
      return caches.reuse(validate.case({ 4, 256, 8, 512, 2, 1, 128 }, layout), function(bytes) return bytes end)
    end
    assert.is_true(of { 1, 2, 1 }("linear_up", "forward") < 0.7 * of { 1, 1, 1 }("linear_up", "forward"))
  end)

  it("computes nothing", function()
    local cpu = find.load("samplers", "cpu").core()
    local run, called = cpu.run, 0
    cpu.run = function(...) called = called + 1 return run(...) end
    caches.reuse(validate.case { 2, 64, 4, 512, 4, 1, 64 }, none)
    cpu.run = run
    assert.equal(0, called)
  end)
end)

describe("ett.validate.caches, sampled,", function()
  it("is linear in the logarithm of the bytes", function()
    local curve = { { bytes = 1e6, farness = 0.1 }, { bytes = 1e8, farness = 0.9 } }
    local function near(expected, bytes)
      assert.is_true(math.abs(caches.farness(curve, bytes) - expected) < 1e-12, tostring(caches.farness(curve, bytes)))
    end
    near(0.1, 10.0)
    near(0.1, 1e6)
    near(0.5, 1e7)
    near(0.9, 1e8)
    near(0.9, math.huge)
  end)

  it("puts the times of its addition between those of a campaign", function()
    local self = caches.begin(1 << 20, 8 << 20)
    self.near, self.far, self.call = { 2e-6 }, { 8e-6 }, { 1e-6 }
    for i in ipairs(caches.points) do self.seen[i] = { 1e-6 * 2 ^ (0.5 * i) + 1e-6 } end
    local curve = self:curve()
    assert.equal(#caches.points, #curve)
    assert.equal(0.0, curve[1].farness) -- quicker than near
    assert.is_true(math.abs(curve[4].farness - 0.5) < 1e-12) -- 4 us between 2 and 8
    assert.equal(1.0, curve[#curve].farness)
    for _, far in ipairs { 2e-6, 1.9e-6 } do -- caches that hold it all
      self.far = { far }
      for _, point in ipairs(self:curve()) do assert.equal(0.0, point.farness) end
    end
  end)

  it("samples the caches of this machine", function()
    local self = caches.begin(1 << 20, 24 << 20, 0.25)
    for _ = 1, 2 do self:turn() end
    assert.same({ 2, 2 }, { #self.near, #self.far })
    for i, point in ipairs(caches.points) do
      assert.equal(2 * math.ceil(0.25 * math.max(3, 24 // point.products)), #self.seen[i])
      for _, seconds in ipairs(self.seen[i]) do assert.is_true(seconds > 0) end
    end
    local curve = self:curve()
    -- The addition of 98304 numbers takes longer than the call of one.
    assert.is_true(require("ett.sample").stats(self.seen[1]).median > require("ett.sample").stats(self.call).median)
    for i, point in ipairs(curve) do
      assert.equal(caches.points[i].bytes, point.bytes)
      assert.is_true(i == 1 or point.bytes > curve[i - 1].bytes)
      assert.is_true(point.farness >= 0 and point.farness <= 1)
    end
  end)
end)
