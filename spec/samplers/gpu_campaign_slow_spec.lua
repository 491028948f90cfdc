--- Campaigns of the CUDA back end on the stand-in GPU (spec/support/gpu): every call that ett makes to the driver
--- and the libraries, checked as strictly as they document it.
local ended = require("command").ended
local every_operator = require "every_operator"
local stand_in = require "stand_in"

if not require("needs").gpu(stand_in.missing(), "ett sample --backend cuda", _ENV) then return end

local folder = stand_in.each_folder(_ENV)

local function campaign(name, samples, fields)
  stand_in.write(folder, name .. ".lua", ("return { name = %q, backend = 'cuda', precision = 'bf16', seed = 3, %s "
    .. "min_repeats = 3, max_repeats = 3, samples = { %s } }\n"):format(name, fields or "", samples))
end

local linear = "{ operator = 'linear_qkv', shapes = { tokens = %s, in_features = { 64, 128 }, out_features = { 64 } } }"

local function rows(name)
  local list = {}
  for line in (stand_in.read(folder, name) or ""):gmatch("[^\n]+") do
    if line:match("^%d") then list[#list + 1] = line end
  end
  return list
end

describe("ett sample --backend cuda", function()
  for _, precision in ipairs { "bf16", "fp16", "fp32", "fp8" } do
    it("measures every operator forward and backward in " .. precision, function()
      stand_in.write(folder, "every.lua", every_operator)
      local out = ended(0, stand_in.run(folder, "sample every.lua --out s --quiet --precision " .. precision,
        { ETT_GPU_REPORT = "report" }))
      local tables, failed = 0, 0
      for measured, lost in out:gmatch("(%d+) measured, (%d+) failed") do
        tables, failed = tables + 1, failed + lost
        assert.equal(1, measured + lost, out)
      end
      assert.equal(#require("measured_operators").list(), tables, out)
      assert.equal(0, failed, out)
      local counts = stand_in.report(folder, "report")
      assert.equal(0, counts.held_bytes)
      assert.equal(0, counts.held_objects)
    end)
  end

  it("compiles a kernel once per campaign, and frees the memory of each shape", function()
    local one = "{ operator = 'gelu', shapes = { tokens = { %s }, width = { 4096 } } }"
    campaign("few", one:format "16")
    campaign("many", one:format "16, 32, 48, 64, 80, 96, 112, 128")
    local counts = {}
    for _, name in ipairs { "few", "many" } do
      ended(0, stand_in.run(folder, ("sample %s.lua --out %s --quiet"):format(name, name),
        { ETT_GPU_REPORT = name .. ".report" }))
      counts[name] = stand_in.report(folder, name .. ".report")
    end
    assert.equal(counts.few.cuModuleLoadData, counts.many.cuModuleLoadData)
    assert.equal(counts.few.cuEventCreate, counts.many.cuEventCreate)
    -- Only the largest shape determines the peak memory: three tensors of 128 x 4096 bf16 numbers.
    assert.is_true(counts.many.peak_bytes - counts.few.peak_bytes <= 3 * 2 * 4096 * 112)
  end)

  it("takes well below 20 ms of host time a sample with fixed repeats", function()
    campaign("small", linear:format "{ start = 16, stop = 800, step = 16 }")
    ended(0, stand_in.run(folder, "sample small.lua --out s --quiet", { ETT_GPU_REPORT = "report" }))
    assert.equal(100, #rows "s/Stand-In90_linear_qkv_bf16.csv")
    local counts = stand_in.report(folder, "report")
    local calls = 0
    for name, count in pairs(counts) do
      if name:match("^cu") and name ~= "cuStreamQuery" then calls = calls + count end
    end
    -- A driver call takes microseconds; what would take milliseconds happens once.
    assert.is_true(calls / 100 < 120, ("%.0f calls a sample"):format(calls / 100))
    assert.is_true(counts.cuModuleLoadData <= 3)
  end)

  it("autotunes among cuBLASLt's valid proposals", function()
    campaign("tuned", linear:format "{ 256 }")
    ended(0, stand_in.run(folder, "sample tuned.lua --out s --quiet --autotune", { ETT_GPU_REPORT = "r" }))
    assert.matches("# gemm: cuBLASLt, autotuned", stand_in.read(folder, "s/Stand-In90_linear_qkv_bf16.csv"))
    -- 3 products a shape, 2 shapes: each of 4 usable proposals runs 4 times.
    assert.is_true(stand_in.report(folder, "r").cublasLtMatmul >= 3 * 2 * 16)
  end)

  it("prints each kernel's time with --profile, or why CUPTI gives none", function()
    campaign("one", linear:format "{ 256 }")
    local out = ended(0, stand_in.run(folder, "sample one.lua --run get_profiler --profile"))
    assert.matches("# forward: kernels %(us%)\nstand_in_gemm,%d+%.%d+\n", out)
    assert.matches("# backward: kernels %(us%)\nstand_in_gemm,%d+%.%d+\nstand_in_gemm,%d+%.%d+\n", out)
    out = ended(0, stand_in.run(folder, "sample one.lua --run get_profiler", { ETT_GPU_NO_CUPTI = 1 }))
    assert.matches("# forward: no kernel times: CUPTI: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", out)
    out = ended(0, stand_in.run(folder, "sample one.lua --run get_profiler", { ETT_GPU_NO_CUPTI = "flush" }))
    assert.matches("# forward: no kernel times: CUPTI: CUPTI_ERROR_UNKNOWN", out)
  end)

  it("writes each kernel's time and every repeat above a row with --profile and --raw, whatever is run", function()
    campaign("one", linear:format "{ 256 }")
    ended(0, stand_in.run(folder, "sample one.lua --out s --quiet --profile --raw"))
    local read, kernels, repeats = require("ett.samples.table").mark, {}, {}
    for line in stand_in.read(folder, "s/Stand-In90_linear_qkv_bf16.csv"):gmatch("[^\n]+") do
      local mark = read(line)
      if mark and mark.kind == "kernel" then
        kernels[#kernels + 1] = mark.pass .. " " .. mark.name
        assert.is_true(mark.seconds > 0)
      elseif mark and mark.kind == "repeats" then
        repeats[#repeats + 1] = #mark.seconds
      elseif line:match("^%d") then
        assert.equal("forward stand_in_gemm, backward stand_in_gemm, backward stand_in_gemm",
          table.concat(kernels, ", "))
        assert.same({ 3, 3 }, repeats)
        kernels, repeats = {}, {}
      end
    end
    for _, mode in ipairs { "get_one", "run_function" } do
      local out = ended(0, stand_in.run(folder, "sample one.lua --profile --run " .. mode))
      assert.matches("# forward: kernels %(us%)\nstand_in_gemm,%d+%.%d+\n", out)
    end
    ended(0, stand_in.run(folder, "sample one.lua --out t --quiet --profile", { ETT_GPU_NO_CUPTI = 1 }))
    assert.matches("\n#~ note: 64,64,256: no kernel times of the forward pass: CUPTI: CUPTI_ERROR_INSUFF",
      stand_in.read(folder, "t/Stand-In90_linear_qkv_bf16.csv"))
  end)

  it("uses the device that --device names, and says how many there are", function()
    campaign("one", linear:format "{ 256 }")
    ended(0, stand_in.run(folder, "sample one.lua --out s --quiet --device 1", { ETT_GPU_DEVICES = 2 }))
    assert.matches("# device: 1, Stand%-In 90, sm_90", stand_in.read(folder, "s/Stand-In90_linear_qkv_bf16.csv"))
    local out = ended(1, stand_in.run(folder, "sample one.lua --out t --quiet --device 2", { ETT_GPU_DEVICES = 2 }))
    assert.equal("ett: no device 2: this machine has 2 CUDA devices\n", out)
  end)

  it("runs a user's operator with its own kernel, tensors and graph", function()
    stand_in.write(folder, "own.lua", [[
      local op = { name = "own", summary = "mine", family = "elementwise", passes = { "forward" },
        schema = { n = "count" } }
      function op.shape(c) return { n = c.hidden } end
      function op.flops(s) return s.n + 0.0 end
      function op.bytes(s) return 8.0 * s.n end
      op.cuda = 'extern "C" __global__ void own_forward(const T *x, T *y, long long n, double f) {\n'
        .. '  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n'
        .. '  if (i < n) store(y, i, load(x, i) * (float)f);\n}\n'
      function op.kernel(k, s)
        local x, y = k.tensor { s.n }, k.tensor { s.n }
        k.graph(function()
          k.kernel { name = "own_forward", grid = (s.n + 255) // 256, block = 256, args = { x, y, s.n, 2.5 } }
        end)
      end
      return op
    ]])
    campaign("mine", "{ operator = 'own', shapes = { n = { 1000, 2000 } } }")
    ended(0, stand_in.run(folder, "sample mine.lua --out s --quiet"))
    assert.equal(2, #rows "s/Stand-In90_own_bf16.csv")
  end)
end)
