--- The quick surfaces of active sampling: their 90 % intervals are of measurements, noise and all.
local operator = require "ett.operator"
local regress = require "ett.regress"
local sample_profile = require "ett.sampling.profile"

local op = operator.get "residual_add"

--- Shape and noisy seconds of row i of a made-up machine; noise is uniform within 20 %.
local function row(i, seed)
  local function unit(k) return (regress.mix(1000 * seed + 10 * i + k) >> 11) / 2.0 ^ 53 end
  local s = { tokens = math.floor(2 ^ (5 + 6 * unit(1))), hidden = math.floor(2 ^ (6 + 5 * unit(2))) }
  return s, (2e-7 + op.bytes(s, "fp32", "forward") / 2e10) * (0.8 + 0.4 * unit(3))
end

describe("ett.sampling.profile", function()
  it("covers nine of ten measurements that it has not seen", function()
    local covered, asked = 0, 0
    for seed = 1, 10 do
      local p = sample_profile.new "fp32"
      for i = 1, 40 do
        local s, seconds = row(i, seed)
        p:add(op, s, "forward", seconds)
      end
      for i = 41, 100 do
        local s, seconds = row(i, seed)
        local answer = p:operator("residual_add", s, "fp32", "forward")
        asked = asked + 1
        if answer.low_seconds <= seconds and seconds <= answer.high_seconds then covered = covered + 1 end
      end
    end
    assert.is_true(covered / asked > 0.82 and covered / asked < 0.98, covered / asked)
  end)

  it("knows nothing of what was not added", function()
    local p = sample_profile.new "fp32"
    assert.is_nil(p:operator("residual_add", { tokens = 64, hidden = 64 }, "fp32", "forward"))
    assert.is_nil(p:collective("all_reduce", 1e6, { nodes = 1, gpus_per_node = 2 }))
    assert.same({}, p:pool_names())
  end)
end)
