--- Streaming kernels: from memory, or from the last-level cache.
local device_times = require "ett.profile.device_times"
local devices = require "ett.profile.device"
local in_step = require "ett.profile.in_step"
local norm = require "ett.profile.kernels.norm"
local streaming = require "ett.profile.kernels.streaming"

describe("streaming kernels", function()
  local function rate(key, share_of_cache)
    local device = devices.get(key)
    local bytes = share_of_cache * device.l2_bytes
    return bytes / streaming.seconds(device, bytes, 0.8), 0.8 * device.memory_bandwidth
  end

  it("run at the cache's rate if all of their bytes fit, else at memory's", function()
    for _, key in ipairs { "a100_sxm", "h100_sxm", "l4", "l40s", "rtx_pro_6000" } do
      local device = devices.get(key)
      local fits, memory = rate(key, 0.5)
      assert.near(20 * device:cycles(), fits, 1e-6 * fits)
      assert.is_true(fits > 1.3 * memory)
      assert.near(memory, (rate(key, 1.2)), 1e-6 * memory)
      local partly = rate(key, 1.0)
      assert.is_true(memory < partly and partly < fits)
    end
  end)

  it("are never slower with more cache, nor faster with more bytes", function()
    local device, before = devices.get "l40s", 0.0
    local roomy = setmetatable({ l2_bytes = 2 * device.l2_bytes }, { __index = device })
    for mega = 1, 300 do
      local seconds = streaming.seconds(device, 1e6 * mega, 0.8)
      assert.is_true(seconds > before)
      assert.is_true(streaming.seconds(roomy, 1e6 * mega, 0.8) <= seconds)
      before = seconds
    end
  end)

  it("come from memory where its rate exceeds the cache's, and on other vendors' devices", function()
    for _, key in ipairs { "b200_sxm", "mi300x", "tpu_v5p" } do
      local fits, memory = rate(key, 0.5)
      assert.near(memory, fits, 1e-6 * memory)
    end
  end)

  it("are static quantisation on an L40S: measured times", function()
    -- Microseconds of 1024, 4096 and 32768 rows of 4096 (aiconfigurator@095f58a, TensorRT-LLM 1.3).
    for rows, measured in pairs { [1024] = 3.72, [4096] = 9.69, [32768] = 582 } do
      local estimated = 2 + 1e6 * streaming.seconds(devices.get "l40s", 3.0 * 4096 * rows, in_step.stream_share)
      assert.near(measured, estimated, 0.15 * measured)
    end
  end)

  -- Seconds of a pass in a step, and of the same kernel alone.
  local function both(name, shape, pass)
    local times = device_times.new(devices.get "l40s")
    local alone = times:at_burst():operator(name, shape, "bf16", pass)
    return times:operator(name, shape, "bf16", pass).seconds, alone.seconds
  end

  it("read the cache in a step's forward pass only, and not in a lookup or an update", function()
    local small, large = { tokens = 1024, hidden = 4096, width = 4096 }, { tokens = 32768, hidden = 4096, width = 4096 }
    for _, name in ipairs { "residual_add", "gelu", "rms_norm" } do
      local in_a_step, alone = both(name, small, "forward")
      assert.is_true(in_a_step < 0.6 * alone, name)
      for _, case in ipairs { { small, "backward" }, { large, "forward" } } do
        in_a_step, alone = both(name, table.unpack(case))
        assert.near(alone, in_a_step, 1e-9, name)
      end
    end
    -- The residual, a third of the bytes, comes from memory.
    local sum, sum_alone = both("residual_add", small, "forward")
    local gelu, gelu_alone = both("gelu", small, "forward")
    assert.near((gelu - 2e-6) + (sum_alone - 2e-6) / 3, sum - 2e-6, 1e-9)
    assert.is_true(sum / sum_alone > gelu / gelu_alone)
    local lookup, alone = both("embedding", { tokens = 1024, hidden = 4096, vocab = 32000 }, "forward")
    assert.near(alone, lookup, 1e-9)
    local times = device_times.new(devices.get "l40s")
    local update = times:operator("optimizer", { params = 1e6 }, "bf16", "forward").seconds
    assert.is_true(update > 1e6 * 16 / (0.864e12 * in_step.stream_share))
  end)

  it("leave a norm its other limits: a fresh input is never slower, and rows keep their time", function()
    local device = devices.get "l40s"
    for _, kernel in ipairs { "fused", "torch", "compiled" } do
      for _, rows in ipairs { 16, 1024, 65536 } do
        local x = { rows = rows, width = 4096, bytes = 4.0 * 4096 * rows }
        local cold = norm.seconds(device, kernel, "forward", x)
        x.fresh = true
        local warm = norm.seconds(device, kernel, "forward", x)
        assert.is_true(warm <= cold and warm > in_step.norm.start)
        if kernel ~= "torch" then
          assert.is_true(warm > in_step.norm.row[kernel] * rows / device.multiprocessors)
        end
      end
    end
  end)
end)
