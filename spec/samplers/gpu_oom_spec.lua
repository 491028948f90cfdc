-- The bindings of the CUDA and NCCL back ends with every allocation failing in turn, on the stand-in GPU. CTest puts
-- the stand-in on this spec's library path.
local oom = require "oom"
local stand_in = require "stand_in"

local cuda_there, cuda = pcall(require, "ett.cuda")
local reason = stand_in.missing()
  or (not cuda_there or cuda.versions() == "" or not cuda.available())
  and "the stand-in GPU is not on the library path: run this spec by ctest"
if not require("needs").gpu(reason, "with failing allocations", _ENV) then return end
local source = 'extern "C" __global__ void touch(T *x, long long n) { if (threadIdx.x < n) store(x, 0, 1.0f); }'

local function check(result, err)
  if not result then error(err, 0) end
  return result
end

describe("with failing allocations", function()
  it("ett.cuda opens and closes a device", function()
    oom.every_allocation(function()
      local device <close>, err = cuda.open(0)
      if not device then return nil, err end
      return device:info().name
    end)
  end)

  it("ett.cuda records, runs, times, reads and writes a work list", function()
    local device <close> = assert(cuda.open(0))
    oom.every_allocation(function() -- kernels are compiled in the first run: the compiler is no part of this
      local work <close>, err = device:work "bf16"
      if not work then return nil, err end
      local x = check(work:tensor { 32, 32 })
      local y = check(work:tensor { 32, 32, fill = "zero" })
      check(work:kernel { source = source, name = "touch", grid = 1, block = 32, args = { { tensor = x }, 1024 } })
      check(work:gemm { a = x, b = x, c = y, m = 32, n = 32, k = 32, autotune = true })
      check(work:ready {})
      local seconds = check(work:time { repeats = 5 })
      check(work:write(x, { 1, 2, 3 }))
      check(work:fill(check(work:view(x, 33, 64)), { fill = "uniform" }))
      check(work:run())
      check(work:time_parts { 1, work:launches() })
      return #seconds + #check(work:read(y, 4))
    end)
  end)

  it("ett.cuda records attention, forward and backward", function()
    local device <close> = assert(cuda.open(0))
    oom.every_allocation(function()
      local work <close>, err = device:work "bf16"
      if not work then return nil, err end
      local call = { batch = 1, heads = 2, kv_heads = 1, seq_q = 8, seq_k = 8, head_dim = 8, causal = true }
      for _, name in ipairs { "q", "out", "dout", "dq" } do call[name] = check(work:tensor { 1, 2, 8, 8 }) end
      for _, name in ipairs { "k", "v", "dk", "dv" } do call[name] = check(work:tensor { 1, 1, 8, 8 }) end
      call.stats = check(work:tensor { 1, 2, 8, dtype = "fp32" })
      for _, pass in ipairs { "forward", "backward" } do
        call.pass = pass
        check(work:attention(call))
      end
      return check(work:ready { graph = false })
    end)
  end)

  it("ett.nccl joins, times and leaves a communicator", function()
    local there, nccl = pcall(require, "ett.nccl")
    if not there then pending("the NCCL back end is not built here") return end
    oom.every_allocation(function()
      local id, err = nccl.unique_id()
      if not id then return nil, err end
      local comm
      comm, err = nccl.open { rank = 0, size = 1, id = id }
      if not comm then return nil, err end
      local seconds, why = comm:time { kind = "all_reduce", count = 1024, repeats = 3 }
      comm:close()
      if not seconds then return nil, why end
      return #seconds
    end)
  end)
end)
