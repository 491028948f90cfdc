--- What goes wrong in `ett validate --backend cuda`, on the stand-in GPU: one sentence with the option, the
--- configuration or the device in it, nothing held.
local ended = require("command").ended
local stand_in = require "stand_in"

if not require("needs").gpu(stand_in.missing(), "ett validate --backend cuda that fails", _ENV) then return end

local folder = stand_in.each_folder(_ENV)

local function one_sentence(out, status, expected_status)
  assert.equal(expected_status, status, out)
  stand_in.one_sentence(out)
end

describe("ett validate --backend cuda that fails", function()
  it("names the error in the command", function()
    local capability, none = { ETT_GPU_CAPABILITY = 75 }, { ETT_GPU_DEVICES = 0 }
    for _, case in ipairs {
      { "--backend cuda --layouts 1x1,2x1", 2, "layout 2x1 needs the back end cpu; the back end cuda has only 1x1" },
      { "--backend gpu", 2, "option '%-%-backend' must be one of cpu, cuda, torch, got 'gpu'" },
      { "--backend cuda --precision fp16", 2, "the back end cuda trains in bf16 or fp32, not in 'fp16'" },
      { "--backend cuda --device 3", 1, "no device 3: this machine has 1 CUDA device" },
      { "--backend cpu --device 0", 2, "%-%-device needs the back end cuda, not cpu" },
      { "--backend cpu --precision bf16", 2, "the back end cpu trains in fp32, not in 'bf16'" },
      { "--backend cuda", 1, "this machine has no CUDA device; ett validate %-%-backend cpu needs none", none },
      { "--backend cuda --precision bf16", 1, "compute capability 7%.5, bf16 needs 8%.0; choose fp32", capability },
    } do
      local out, status = stand_in.run(folder, "validate --quiet " .. case[1], case[4])
      one_sentence(out, status, case[2])
      assert.matches(case[3], out)
    end
  end)

  local short = "validate --backend cuda --quiet --steps 3 --scale 0.1 --configurations 2"

  it("names the configuration that does not fit into the device's memory, and the way out", function()
    local out, status = stand_in.run(folder, short .. " --precision bf16", { ETT_GPU_MEMORY = 1500000000 })
    one_sentence(out, status, 1)
    assert.matches("^ett: configuration 2: out of memory on device 0 %(Stand%-In 90%): a tensor needs %d+ bytes, "
      .. "%d+ of 1500000000 are free; %-%-configurations 1 leaves it out\n$", out)
  end)

  it("samples nothing of an operator that computes a wrong result", function()
    local out, status = stand_in.run(folder, "validate --quiet --scale 0.1 --configurations 1") -- it computes nothing
    one_sentence(out, status, 1)
    assert.matches("^ett: device 0 %(Stand%-In 90%): %l+_%l+ forward in bf16 computes a wrong result: ", out)
  end)

  it("names the configuration in whose step the device failed", function()
    ended(0, stand_in.run(folder, short .. " --out samples"))
    -- With its samples in place a run launches what measures the launches (some 3700), then trains.
    local out, status = stand_in.run(folder, short .. " --out samples", { ETT_GPU_LOST = "4700:214" })
    one_sentence(out, status, 1)
    assert.matches("^ett: configuration [12]: device 0 %(Stand%-In 90%): .*uncorrectable ECC error", out)
  end)

  it("ends with a sentence for every failed allocation", function()
    for n = 4, 400, 66 do
      local out, status = stand_in.run(folder, short, { ETT_GPU_ALLOCATION_FAILS = n,
        ETT_GPU_REPORT = folder .. "/report" .. n })
      one_sentence(out, status, 1)
      assert.matches("out of memory on device 0", out)
      assert.equal(0, stand_in.report(folder, "report" .. n).held_objects, ("allocation %d"):format(n))
    end
  end)

  it("refuses views and parts that a work list does not have", function()
    stand_in.write(folder, "refused.lua", [[
      local device <close> = assert(require("ett.cuda").open(0))
      local work <close> = assert(device:work "fp32")
      local x = assert(work:tensor { 8, fill = "zero", dtype = "fp32" })
      local source = 'extern "C" __global__ void one(float *x) { x[threadIdx.x] = 1.0f; }\n'
      for _ = 1, 2 do
        assert(work:kernel { source = source, name = "one", grid = 1, block = 4, args = { { tensor = x } } })
      end
      assert(work:ready {})
      local function why(value, failure) assert(value == nil) print(failure.message) end
      why(work:view(x, 5, 5))
      why(work:view(x, 0, 2))
      why(work:time_parts { 1 })
      why(work:time_parts { 2, 1 })
      why(work:time_parts { 1, 3 })
      local part = assert(work:view(x, 3, 4))
      assert(work:write(part, { 5, 6, 7, 8 }))
      print(table.concat(assert(work:read(x)), " "))
      print(work:launches(), #assert(work:time_parts { 1, 1, 2 }))
    ]])
    local out = ended(0, stand_in.run(folder, "run refused.lua"))
    assert.matches("a view of 5 elements from element 4: tensor 0 has 8\na view of 2 elements from element %-1", out)
    assert.matches("the parts must cover all launches\npart 2 ends at launch 1 of 2: ends must ascend\n"
      .. "part 2 ends at launch 3 of 2", out)
    assert.matches("0%.0 0%.0 5%.0 6%.0 7%.0 8%.0 0%.0 0%.0\n2%s+3\n", out)
  end)
end)
