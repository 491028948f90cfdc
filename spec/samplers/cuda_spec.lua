--- The CUDA and NCCL back ends, as far as they can be tested without a device.
local function module_or_reason(name)
  local ok, module = pcall(require, name)
  if ok then return module end
  return nil, "not built here: " .. name
end

local gelu = [[
extern "C" __global__ void gelu_forward(const T *x, T *y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) store(y, i, load(x, i) * 0.5f);
}]]

describe("ett.cuda", function()
  local cuda, reason = module_or_reason("ett.cuda")
  local nvrtc = cuda and cuda.compile { source = gelu }

  for _, capability in ipairs { 80, 90, 100 } do
    for _, dtype in ipairs { "fp16", "bf16", "fp32", "fp8" } do
      it(("compiles for sm_%d in %s without a device"):format(capability, dtype), function()
        if not nvrtc then pending(reason or "no NVRTC on this machine") return end
        local cubin = assert(cuda.compile { source = gelu, dtype = dtype, capability = capability })
        assert.equal("\127ELF", cubin:sub(1, 4))
      end)
    end
  end

  it("gives the compiler's message with the operator's own line", function()
    if not nvrtc then pending(reason or "no NVRTC on this machine") return end
    local cubin, err = cuda.compile { source = 'extern "C" __global__ void f(T *p) {\n  p[0] = nothing;\n}',
      label = "my_operator.lua", first_line = 40 }
    assert.is_nil(cubin)
    assert.matches("my_operator.lua%(41%): error: identifier \"nothing\" is undefined", err.message)
    assert.matches("nothing", err.log)
  end)

  it("states the uncertainty of a mean of the fastest repeats, and none of a median", function()
    local timing = require("ett.base.find").part("samplers/cuda", "timing")
    local function measured(statistic, ...)
      local seconds = { ... }
      return timing.work({ time = function() return { table.unpack(seconds) } end },
        { statistic = statistic, max_repeats = 3 })
    end
    local r = measured("low", 4e-6, 8e-6) -- of few repeats, the median less the fastest
    assert.near(r.half_width_seconds / 4e-6, r.known_to, 1e-9)
    assert.near(2e-6 / 4e-6, r.known_to, 1e-9)
    assert.equal(0.0, measured("low", 4e-6, 4e-6, 4e-6).known_to)
    assert.is_nil(measured("median", 4e-6, 8e-6).known_to)
  end)

  it("measures no causal attention over more keys than queries: its masks begin at the top left", function()
    local backend = require("ett.base.find").load("samplers", "cuda")
    local op = require("ett.operator").get "flash_attention"
    local calls = {}
    local sink = { tensor = function() return 1 end, kernel = function() return true end,
      attention = function(_, a)
        calls[#calls + 1] = a.seq_k
        return true
      end }
    local s = { batch = 1, heads = 2, kv_heads = 2, seq_q = 64, seq_k = 128, head_dim = 32, causal = 1 }
    for _, precision in ipairs { "bf16", "fp32" } do
      local ok, failure = pcall(backend.record, sink, op, s, "forward", precision)
      assert.is_false(ok)
      assert.matches("needs seq_k = seq_q on a GPU, got seq_q 64 and seq_k 128; make them equal", failure.message)
    end
    s.causal = 0
    backend.record(sink, op, s, "forward", "bf16")
    s.causal, s.seq_k = 1, 64
    backend.record(sink, op, s, "forward", "bf16")
    assert.same({ 128, 64 }, calls)
  end)

  it("reports a missing driver in one sentence", function()
    if not cuda then pending(reason) return end
    local count, err = cuda.available()
    if count and count > 0 then pending("this machine has a CUDA device") return end
    if count then return end
    assert.matches("no CUDA driver on this machine", err.message)
    local device, why = cuda.open(0)
    assert.is_nil(device)
    assert.equal("missing", why.kind)
  end)
end)

describe("ett.nccl", function()
  it("makes an id without a device, and refuses to join without one", function()
    local nccl, reason = module_or_reason("ett.nccl")
    if not nccl then pending(reason) return end
    if not nccl.available() then pending("no NCCL library on this machine") return end
    local id = assert(nccl.unique_id())
    assert.equal(128, #id)
    local comm, err = nccl.open { rank = 0, size = 1, id = id }
    if not comm then assert.is_string(err.message) end
  end)

  it("states the uncertainty of a mean of the fastest repeats, and none of a median", function()
    local info = { name = "D", driver_version = 12000, clock_hz = 1e9, memory_clock_hz = 1e9 }
    local job = { size = 2, rank = 0, local_rank = 0, nodes = 1, ranks_per_node = 2, library = "MPI" }
    local sample, before = require "ett.sample", {}
    local stand_in = { ["ett.nccl"] = { available = function() return 22000 end },
      ["ett.cuda"] = { available = function() return 1 end,
        open = function() return { info = function() return info end, close = function() end } end },
      ["ett.dist"] = { open = function() return job end } }
    for name, module in pairs(stand_in) do
      before[name], package.loaded[name] = package.loaded[name] or false, module
    end
    local set = sample.default_environment
    sample.default_environment = function() end
    finally(function()
      for name in pairs(stand_in) do package.loaded[name] = before[name] or nil end
      sample.default_environment = set
    end)
    for statistic, known_to in pairs { low = 2e-6 / 4e-6, median = false } do
      local session = assert(require("ett.base.find").load("samplers", "nccl").open { statistic = statistic,
        max_repeats = 2 })
      session.group = { close = function() end, size = function() return 2 end, rank = function() return 0 end,
        reduce = function(_, value) return value end }
      session.comm = { close = function() end, prepare = function() return true end,
        time = function() return { 4e-6, 8e-6 } end }
      local result = assert(session.measure_collective({ collective = "send_recv" }, 1024))
      assert.near(known_to or 0, result.known_to or 0, 1e-9)
      assert.equal(known_to and "collective: known to 50 % only", require("ett.samples.table").disturbance(result)
        or false)
      session.close()
    end
  end)
end)
