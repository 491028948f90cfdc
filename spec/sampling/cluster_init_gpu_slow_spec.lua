--- `ett cluster init` on a machine with GPUs: on the stand-in (spec/support/gpu), whose products take 3 us and their
--- FLOPs at 400 TFLOP/s, whose copies between devices run at 400 GB/s over the link and at 50 GB/s without one.
local ended = require("command").ended
local merged = require "ett.base.merged"
local stand_in = require "stand_in"

if not require("needs").gpu(stand_in.missing(), "ett cluster init with GPUs", _ENV) then return end

local folder = stand_in.each_folder(_ENV)

local function init(settings, more)
  local all = merged({ ETT_GPU_REPORT = folder .. "/report" }, settings)
  return stand_in.run(folder, "cluster init mine " .. (more or ""), all)
end

local function cluster() return require("ett.profile.cluster").get(folder .. "/clusters/mine.lua") end

local function fails(pattern, settings, more)
  local out = ended(1, init(settings, more))
  stand_in.one_sentence(out)
  assert.matches(pattern, out)
  assert.is_nil(require("lfs").attributes(folder .. "/clusters"))
end

describe("ett cluster init with GPUs", function()
  it("writes what the driver says and the probes measure, each with its source", function()
    ended(0, init { ETT_GPU_DEVICES = 4 })
    local c = cluster()
    assert.equal(4, c.gpus_per_node)
    assert.equal("Stand-In90", c.device.name)
    assert.equal(132, c.device.multiprocessors)
    assert.equal(8 << 30, c.device.memory_bytes)
    local rate = 2.0 * 8192 ^ 3 / (3e-6 + 2.0 * 8192 ^ 3 / 4e14)
    for _, precision in ipairs { "fp32", "fp16", "bf16", "fp8" } do
      assert.near(rate, c.device.peak_flops[precision], 0.05 * rate, precision)
      assert.is_true(c.device.measured_flops[precision] <= c.device.peak_flops[precision], precision)
    end
    -- The stand-in runs any kernel in 5 us.
    assert.near(2 * (256 << 20) / 5e-6, c.device.memory_bandwidth, 1e13)
    assert.near(4e11, c.links.intra.bandwidth, 2e10)
    assert.equal("peer to peer", c.links.intra.name)
    local source = "^measured by ett cluster init on %d%d%d%d%-%d%d%-%d%d: .*"
    assert.matches(source .. "8192%^3 products by cuBLASLt.*copy of 256 MiB", c.device.source)
    assert.matches(source .. "median run", c.device.measured_source)
    assert.matches(source .. "GPU 0 to GPU 1", c.links.intra.source)
    local counts = stand_in.report(folder, "report")
    assert.equal(0, counts.held_bytes)
    assert.equal(0, counts.held_objects)
    -- A prediction on it, with nothing sampled yet.
    ended(0, stand_in.run(folder, "predict --cluster clusters/mine.lua --model llama layers=4 hidden=512 heads=8 "
      .. "ffn=1024 vocab=1000 seq=512 global_batch=8 dp=4 dtype=fp8"))
  end)

  it("probes the precisions that the device has, and needs no link for one device", function()
    for capability, wanted in pairs { [75] = { "fp16", "fp32" }, [80] = { "bf16", "fp16", "fp32" } } do
      os.execute(("rm -rf '%s/clusters'"):format(folder))
      ended(0, init({ ETT_GPU_CAPABILITY = capability }, "--json"))
      local c = cluster()
      assert.same(wanted, require("ett.base.schema").keys(c.device.peak_flops))
      assert.equal(1, c.gpus_per_node)
      assert.is_nil(c.links.intra)
    end
  end)

  it("reports copies between devices that go through the host", function()
    ended(0, init { ETT_GPU_DEVICES = 2, ETT_GPU_PEER = 0 })
    assert.equal("through the host's memory", cluster().links.intra.name)
    assert.near(5e10, cluster().links.intra.bandwidth, 3e9)
  end)

  it("fits its probes into a small memory", function()
    ended(0, init { ETT_GPU_MEMORY = 400000000 })
    assert.matches("2048%^3 products", cluster().device.source)
  end)

  it("does not touch the GPUs with --backend cpu", function()
    local out = ended(0, init(nil, "--backend cpu"))
    assert.same({ "fp32" }, require("ett.base.schema").keys(cluster().device.peak_flops))
    assert.is_nil(out:find("Stand-In", 1, true))
    assert.is_nil(stand_in.report(folder, "report").cuMemAlloc)
  end)

  it("writes nothing if a probe fails, and names the probe", function()
    fails("^ett: cluster init: the probe of fp32 products on GPU 0 %(Stand%-In 90%) failed: out of memory on device "
      .. "0 .*%-%-backend cpu", { ETT_GPU_ALLOCATION_FAILS = 2 })
    fails("the probe of .- on GPU 0 .*ECC", { ETT_GPU_LOST = "4:214" })
    os.remove(folder .. "/report") -- counts of several runs add up
    assert.equal(0, select(2, init { ETT_GPU_DEVICES = 2 }))
    local allocations = stand_in.report(folder, "report").cuMemAlloc
    os.execute(("rm -rf '%s/clusters'"):format(folder))
    for device, last in pairs { [0] = 0, [1] = 1 } do
      fails(("the probe of the link to GPU 1 on GPU 0 .- failed: out of memory on device %d "):format(device),
        { ETT_GPU_DEVICES = 2, ETT_GPU_ALLOCATION_FAILS = allocations - last })
    end
    fails("%-%-backend cuda: this machine has no CUDA device", { ETT_GPU_DEVICES = 0 }, "--backend cuda")
  end)
end)
