--- What differs between two traces small enough to do the sums by hand. Times in microseconds.
local diff = require "ett.trace.diff"
local maker = require "trace_maker"
local near = require "near"

local nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"

--- One rank: a product, a copy and a collective, each `factor` times as long; `twice` adds another product.
local function recording(rank, factor, twice)
  local r = maker.new { rank = rank, world = 2, device = rank }
  r:step(1, 0, 2000)
  r:kernel("gemm", 100, 200 * factor)
  if twice then r:kernel("gemm", 1500, 100) end
  r:kernel("Memcpy DtoH", 800, 50 * factor, { cat = "gpu_memcpy" })
  r:kernel(nccl, 1000, 40 * factor, { stream = 20 })
  return r
end

local function compare(first, second, options)
  local x <close> = maker.view(first)
  local y <close> = maker.view(second)
  return diff.compare(x, y, options)
end

local function named(list)
  local out = {}
  for _, row in ipairs(list) do out[row.name] = row end
  return out
end

describe("ett.trace.diff", function()
  it("sums each kernel, collective and copy by name, a mean over devices", function()
    local result = compare({ recording(0, 1), recording(1, 1) }, { recording(0, 2), recording(1, 2, true) })
    assert.same({ { 2, 2 }, { 1, 1 } }, { result.devices, result.steps })
    assert.is_nil(result.note)
    assert.same({ 3, 0, 0 }, { result.kernel_names, result.only_first, result.only_second })
    local rows = named(result.kernels)
    for name, want in pairs { gemm = { 1, 1.5, 0.2, 0.45 }, [nccl] = { 1, 1, 0.04, 0.08 },
      ["Memcpy DtoH"] = { 1, 1, 0.05, 0.1 } } do
      near({ first_count = want[1], second_count = want[2], first_ms = want[3], second_ms = want[4],
        difference_ms = want[4] - want[3], kind = name == nccl and "communication" or "other" }, rows[name])
    end
    assert.same({ "gemm", "Memcpy DtoH", nccl },
      { result.kernels[1].name, result.kernels[2].name, result.kernels[3].name })
    near({ compute = { first_ms = 0.2, second_ms = 0.45 }, communication = { second_ms = 0.08 },
      memory = { second_ms = 0.1, ratio = 2 } }, named(result.parts))
  end)

  it("counts names that occur on one side only, and keeps the largest differences", function()
    local other = maker.new { rank = 0, world = 1 }
    other:step(1, 0, 2000)
    other:kernel("gemm", 100, 200)
    other:kernel("softmax", 400, 10)
    local result = compare({ recording(0, 1) }, { other }, { top = 2 })
    assert.same({ 4, 2, 1 }, { result.kernel_names, result.only_first, result.only_second })
    assert.same({ "Memcpy DtoH", nccl }, { result.kernels[1].name, result.kernels[2].name })
    near({ difference_ms = -0.05, second_count = 0 }, result.kernels[1])
  end)
end)

it("ett.trace.diff of unlike numbers of steps says that figures are totals", function()
  local two = recording(0, 1)
  two:step(2, 2000, 2000)
  two:kernel("gemm", 2100, 200)
  local result = compare({ recording(0, 1) }, { two })
  assert.same({ 1, 2 }, result.steps)
  assert.equal("1 and 2 steps: times and numbers are totals; --step 1 compares one step", result.note)
  local third = maker.new { rank = 0, world = 1 }
  third:step(3, 0, 2000)
  third:kernel("gemm", 100, 200)
  assert.equal("1 and 2 steps: times and numbers are totals", compare({ third }, { two }).note)
end)

it("ett.trace.diff.operators compares shapes and passes, and names those of one trace only", function()
  local trace_gpt = require "trace_gpt"
  local function gpt(hidden, time)
    return trace_gpt.new { hidden = hidden, heads = 4, layers = 2, seq = 32, batch = 2, vocab = 512,
      times = function(name) return name == "gelu" and time or 10 end }:recording { rank = 0 }
  end
  local args = { args = require("ett.trace.operators").args }
  local x <close> = maker.view({ gpt(64, 10) }, args)
  local y <close> = maker.view({ gpt(64, 35) }, args)
  local rows = diff.operators(x, y)
  near({ name = "aten::gelu", shape = "64x256", difference_ms = 2 * 0.025 }, rows[1])
  near(0, rows[3].difference_ms)
end)
