--- What would make a plan fit.
local estimate = require "ett.step.estimate"

describe("a plan that does not fit", function()
  it("gets a change that fits, with the memory of its estimate", function()
    local fitting = require "ett.search.fitting"
    local big = require("ett.model").new("llama", { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672,
      vocab = 128256 })
    local cluster = require("ett.profile.cluster").get "dgx_h100"
    local times = require("ett.step.times").new(cluster)
    for _, plan in ipairs { { seq = 8192, tp = 8, dp = 2, micro_batches = 4 },
      { seq = 2048, tp = 8, pp = 8, micro_batches = 2, micro_batch = 32, zero = 1 },
      { seq = 4096, micro_batches = 1 } } do
      local words, bytes = fitting.change(big, cluster, times, plan)
      local changed = {}
      for name, value in pairs(plan) do changed[name] = value end
      for name, value in words:gmatch "(%S+)=(%S+)" do changed[name] = math.tointeger(value) or value end
      local e = estimate.new { model = big, cluster = cluster, plan = changed }
      assert.is_true(e.fits)
      assert.equal(e.memory_bytes, bytes)
    end
    local hopeless = require("ett.model").new("llama", { layers = 2, hidden = 65536, heads = 7, head_dim = 9000,
      vocab = 7 })
    assert.equal("give it more devices", fitting.sentence(hopeless, cluster, times, { seq = 1 << 22,
      micro_batches = 1 }))
  end)
end)
