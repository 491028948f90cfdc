--- The quick surfaces of active sampling: their 90 % intervals hold measurements, noise included.
local operator = require "ett.operator"
local regress = require "ett.regress"
local surfaces = require "ett.sampling.surfaces"

local op = operator.get "residual_add"

--- Shape and noisy seconds of row i of a made-up machine; noise is uniform within 20 %.
local function row(i, seed)
  local function unit(k) return (regress.mix(1000 * seed + 10 * i + k) >> 11) / 2.0 ^ 53 end
  local s = { tokens = math.floor(2 ^ (5 + 6 * unit(1))), hidden = math.floor(2 ^ (6 + 5 * unit(2))) }
  return s, (2e-7 + op.bytes(s, "fp32", "forward") / 2e10) * (0.8 + 0.4 * unit(3))
end

describe("ett.sampling.surfaces", function()
  it("covers nine of ten measurements that it has not seen", function()
    local covered, asked = 0, 0
    for seed = 1, 10 do
      local p = surfaces.new "fp32"
      for i = 1, 40 do
        local s, seconds = row(i, seed)
        p:add(op, s, "forward", seconds)
      end
      for i = 41, 100 do
        local s, seconds = row(i, seed)
        local surface = p:surface "residual_add forward"
        local value, deviation = surface:predict(surfaces.features(op, s))
        local scale = surfaces.roofline(op, s, "fp32", "forward") * math.exp(value)
        local spread = math.exp(1.645 * math.sqrt(deviation ^ 2 + select(2, surface:scales()) ^ 2))
        asked = asked + 1
        if scale / spread <= seconds and seconds <= scale * spread then covered = covered + 1 end
      end
    end
    assert.is_true(covered / asked > 0.82 and covered / asked < 0.98, covered / asked)
  end)

  it("has a surface of shapes with a dimension of 0", function()
    local p, permute = surfaces.new "fp32", operator.get "moe_permute"
    for i = 1, 20 do
      p:add(permute, { tokens = 8 * i, hidden = 64 * (i % 3 + 1), top_k = 2, repeated = i % 2 }, "forward", 1e-6 * i)
    end
    assert.is_truthy(p:surface "moe_permute forward")
  end)

  it("has no surface without samples, and one for all products", function()
    local p = surfaces.new "fp32"
    assert.is_nil(p:surface "residual_add forward")
    assert.equal(surfaces.key(operator.get "linear_qkv", "forward"), surfaces.key(operator.get "linear_up", "forward"))
  end)
end)
