--- Buffers divided into messages, against the tool's own loop; the recorded runs are in
--- estimate_train_time_spec.
local composition = require "ett.import.estimate_train_time.composition"
local raised = require "raised"

local function plan(changes)
  local p = { pp = 1, mp = 1, dp = 2, b = 1, h = 1, l = 1, dim = 8, steps_per_update = 1, gpus_per_node = 4,
    encoders = 3, comm_bucket = 1000, fwd_syncs = 2, bwd_syncs = 2 }
  for name, value in pairs(changes) do p[name] = value end
  return p
end

describe("the composition of estimate-train-time", function()
  it("cuts buffers as the tool's loop does", function()
    local bucket = 1
    while bucket < 3000000 do
      local layout = composition.layout(plan { comm_bucket = bucket })
      for stage = 1, 3 do
        local left, full, rest = layout.parameters[stage], 0, 0
        while left > 0 do
          if bucket < left then full = full + 1 else rest = left end
          left = left - bucket
        end
        assert.same({ full = full, rest = rest }, layout.all_reduce[stage])
      end
      bucket = bucket * 3 + 1
    end
  end)

  it("refuses sizes whose product exceeds 64 bits", function()
    local why = raised(composition.layout, plan { b = 10000000, l = 10000000, dim = 10000000 })
    assert.equal("micro-batch * sequence length * model width (b * l * dim) must be at most 9e18, got 1e+21", why)
  end)
end)
