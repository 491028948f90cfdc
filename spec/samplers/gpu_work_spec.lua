--- Work lists of ett.cuda on the stand-in GPU, called directly.
local stand_in = require "stand_in"

local reason = stand_in.missing()
local folder = stand_in.each_folder(_ENV)

--- The output of a script that has `device`, `work` (bf16) and `why(ok, error)`.
local function run(script, settings)
  stand_in.write(folder, "work.lua", [[
    local cuda = require "ett.cuda"
    local device = assert(cuda.open(0))
    local work = assert(device:work "bf16")
    local function why(first, second)
      local err = type(first) == "nil" and second or not first and second
      print(err and (type(err) == "table" and err.kind .. ": " .. err.message or err) or "done")
    end
    local function tensor(n, dtype) return assert(work:tensor { n, dtype = dtype or "bf16" }) end
    local source = 'extern "C" __global__ void set(T *x, long long n) { if (threadIdx.x < n) store(x, 0, 1.0f); }'
    local function launch(t, grid)
      return work:kernel { source = source, name = "set", grid = grid or 1, block = 32, args = { { tensor = t }, 4 } }
    end
  ]] .. script .. "\nwork:close() device:close()\n")
  local out, status = stand_in.run(folder, "run work.lua", settings)
  assert.equal(0, status, out)
  return out
end

describe("a work list", function()
  if reason then
    it("is skipped", function() pending(reason) end)
    return
  end

  it("tells cuBLASLt how its operands are aligned, which views may be less than 256 bytes", function()
    local out = run [[
      local all = tensor(4096)
      local a, b, c = assert(work:view(all, 2, 1024)), assert(work:view(all, 1034, 1024)), tensor(1024)
      why(work:gemm { a = a, b = b, c = c, m = 32, n = 32, k = 32 })
      why(work:gemm { a = c, b = c, c = a, m = 32, n = 32, k = 32 })
      why(work:ready {})
    ]]
    assert.equal("done\ndone\ndone\n", out)
  end)

  it("refuses products of different types, before the library reads past the shorter ones", function()
    local out = run [[
      local a, b, c = tensor(1024), tensor(1024, "fp8"), tensor(1024)
      local index = assert(work:tensor { 1024, dtype = "int64", fill = "index", high = 4 })
      why(work:gemm { a = a, b = b, c = c, m = 32, n = 32, k = 32 })
      why(work:gemm { a = index, b = index, c = c, m = 32, n = 32, k = 32 })
      why(work:gemm { a = a, b = c, c = index, m = 32, n = 32, k = 32 })
    ]]
    local line = "argument: gemm: a and b must have the same type, fp8, fp16, bf16 or fp32, and c fp16, bf16 or fp32\n"
    assert.equal(line:rep(3), out)
  end)

  it("refuses attention on tensors that do not begin at 16 bytes", function()
    local out = run [[
      local q, k, v, stats = tensor(512), tensor(512), tensor(512), tensor(32, "fp32")
      local all = tensor(600)
      local call = { q = q, k = k, v = v, stats = stats, batch = 1, heads = 2, seq_q = 16, seq_k = 16, head_dim = 16 }
      call.out = assert(work:view(all, 2, 512))
      why(work:attention(call))
      call.out = assert(work:view(all, 9, 512))
      why(work:attention(call))
    ]]
    assert.equal("argument: attention: out must begin at a multiple of 16 bytes\ndone\n", out)
  end)

  it("refuses sizes of a grid that a launch cannot have, which would lose their upper bits", function()
    local out = run [[
      local t = tensor(4)
      for _, grid in ipairs { 0, -1, (1 << 32) + 1, 1.5 } do why(pcall(launch, t, grid)) end
      why(pcall(launch, 1 << 32))
      why(launch(t, { 1, 1, 1 }))
    ]]
    assert.matches("'grid' must be 1 to 2%^31 %- 1, got 0\n.*got %-1\n.*got 4294967297\n.*got 1.5\n"
      .. ".*field 'tensor' must be %-1 to 2147483647, got 4294967296\ndone\n", out)
  end)

  it("takes no launches that its graph would not run", function()
    local out = run [[
      local t = tensor(4)
      assert(launch(t))
      why(work:ready {})
      why(launch(t))
      why(work:ready {})
    ]]
    assert.equal("done\nargument: the list is ready: its graph takes no more launches\ndone\n", out)
  end)

  it("that a graph cannot record fails, and the device stays usable", function()
    local out = run([[
      local t = tensor(4)
      assert(launch(t))
      why(work:ready {})
      print(device:lost())
      why(work:ready { graph = false })
    ]], { ETT_GPU_NO_CAPTURE = 1 })
    assert.equal("io: cuda: set: operation not permitted when stream is capturing\nnil\ndone\n", out)
  end)

  it("has no time of a kernel that CUPTI could not time", function()
    local out = run [[
      local t = tensor(4)
      assert(launch(t))
      why(work:ready {})
      local kernels = assert(work:profile())
      print(#kernels, kernels[1].seconds < 1)
    ]]
    assert.equal("done\n1\ttrue\n", out)
  end)

  it("of a device that does not exist is refused with the number of devices", function()
    local out = run [[
      why(cuda.open(-1))
      why(cuda.open(1 << 40))
    ]]
    assert.matches("^missing: no device %-1: this machine has %d+ CUDA devices?\nmissing: no device 2147483647: ", out)
  end)
end)
