--- `ett calibrate --kernels`: coefficient files from made tables serve the times of the tables.
local calibrate = require "ett.profile.kernels.calibrate"
local command = require "command"
local device_module = require "ett.profile.device"
local folders = require "ett.base.folder"
local kernels = require "ett.profile.kernels"
local training = require "ett.profile.kernels.attention_training"
local fits = require("needs").fitting(it, pending)
local raised = require "raised"

local function seconds_of(m, n, k) return 4e-6 + 2.0 * m * n * k / 600e12 end

describe("coefficient files of a device", function()
  local folder
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  local function table_file(name, lines)
    folders.write_with_folder(("%s/tables/h100_sxm/%s"):format(folder, name), table.concat(lines, "\n") .. "\n")
  end

  local function request()
    return { tables = folder .. "/tables", into = folder .. "/out", devices = { "h100_sxm" }, fitted = "2026-01-01" }
  end

  it("need tables", function()
    local why = raised(calibrate.run, request())
    assert.equal(("calibrate: no kernel tables of h100_sxm in '%s/tables'"):format(folder), why)
  end)

  it("need the columns of their model", function()
    table_file("gemm.csv", { "framework,dtype,m,n,time_us", "sglang,bf16,64,64,3" })
    assert.matches("no column 'k'", raised(calibrate.run, request()), 1, true)
  end)

  fits("contain products, formulas of attention and medians of collectives", function()
    local device = device_module.get "h100_sxm"
    local products, laws = { "framework,dtype,m,n,k,time_us" }, { "framework,dtype,pass,batch,seq_q,seq_k,heads,"
      .. "kv_heads,head_dim,value_dim,causal,window,deterministic,time_us" }
    for _, m in ipairs { 64, 256, 1024, 2048, 4096 } do
      for _, n in ipairs { 512, 1024, 4096, 8192 } do
        for _, k in ipairs { 512, 2048, 8192 } do
          products[#products + 1] = ("sglang,bf16,%d,%d,%d,%.4f"):format(m, n, k, 1e6 * seconds_of(m, n, k))
        end
      end
    end
    local x = { batch = 64, heads = 16, kv_heads = 16, head_dim = 128, value_dim = 128, causal = 0, window = 0 }
    for _, seq in ipairs { 1024, 2048, 4096, 8192 } do
      x.seq_q, x.seq_k = seq, seq
      for pass, law in pairs { forward = { 1.5, 200 }, backward = { 2, 300 } } do
        local time = training.flops(x, pass) / device:peak "bf16" * (law[1] + law[2] / seq)
        laws[#laws + 1] = ("cudnn,bf16,%s,64,%d,%d,16,16,128,128,0,0,0,%.5f"):format(pass, seq, seq, 1e6 * time)
      end
    end
    table_file("gemm.csv", products)
    local aiter = {}
    for i, line in ipairs(laws) do aiter[i] = line:gsub("^cudnn", "aiter") end
    table_file("attention_training.csv", aiter)
    calibrate.run(request())
    local path = folder .. "/out/h100_sxm/attention_training.coefficients.lua"
    assert.matches("ROCm/aiter@%x+, op_tests", dofile(path).source)
    table_file("attention_training.csv", laws)
    table_file("collectives.csv", { "operation,gpus,bytes,time_us", "all_reduce,8,4096,30", "all_reduce,8,1024,20",
      "all_reduce,8,1024,10", "all_reduce,8,1024,40" })
    local made = {}
    for _, entry in ipairs(calibrate.run(request())) do made[entry.kernel] = entry end
    assert.equal(60, made.gemm.rows)
    assert.is_true(made.gemm.error < 0.2, made.gemm.error)
    assert.is_true(made.attention_training.error < 0.01)
    assert.matches("^NVIDIA/cudnn", dofile(path).source)

    local own = setmetatable({ folder = folder .. "/out/h100_sxm" }, { __index = device })
    local seconds = kernels.of(own, "gemm", "bf16"):predict { m = 2048, n = 4096, k = 2048 }
    assert.near(1, seconds / seconds_of(2048, 4096, 2048), 0.25) -- trees of 60 rows
    local fitted = kernels.laws(own).laws
    assert.near(1.5, fitted["bf16 forward 128 128"][1], 1e-3)
    assert.near(300, fitted["bf16 backward 128 128"][2], 1)
    assert.same({ 1024, 20e-6, 4096, 30e-6 }, kernels.collectives(own).all_reduce[8])
  end)

  fits("widen the interval of a table whose few weights differ more than their rows", function()
    local lines, state = { "framework,dtype,m,n,k,time_us" }, 7
    for n = 256, 3072, 256 do
      state = require("ett.regress").mix(state)
      local factor = 1 + (state >> 40) % 100 / 100
      for m = 256, 4096, 256 do
        lines[#lines + 1] = ("sglang,fp8_block,%d,%d,2048,%.4f"):format(m, n, 1e6 * factor * seconds_of(m, n, 2048))
      end
    end
    folders.write_with_folder(folder .. "/few/h100_sxm/gemm.csv", table.concat(lines, "\n") .. "\n")
    calibrate.run { tables = folder .. "/few", into = folder .. "/few_out", devices = { "h100_sxm" }, fitted = "2026" }
    local own = setmetatable({ folder = folder .. "/few_out/h100_sxm" }, { __index = device_module.get "h100_sxm" })
    local kernel, x = kernels.of(own, "gemm", "fp8_block"), { m = 1024, n = 1024, k = 2048 }
    local seconds, low, high = kernel:predict(x)
    assert.is_true(kernel.wider > 1.5, tostring(kernel.wider))
    kernel.wider = nil
    local same, narrow_low, narrow_high = kernel:predict(x)
    assert.equal(same, seconds)
    assert.is_true(low < narrow_low and high > narrow_high)
  end)

  fits("leave out rows that the device cannot reach, and refuse tables that mostly hold such rows", function()
    local peak = device_module.get("h100_sxm"):peak "bf16"
    local function made(rows, fast)
      local lines = { "framework,dtype,m,n,k,time_us" }
      for i = 1, rows do
        local m, n, k = 128 * i, 1024, 1024
        lines[i + 1] = ("sglang,bf16,%d,%d,%d,%.6f"):format(m, n, k,
          1e6 * (i <= fast and 2.0 * m * n * k / peak / 1.1 or seconds_of(m, n, k)))
      end
      table_file("gemm.csv", lines)
      return calibrate.run(request())[1]
    end
    assert.same({ 40, 0 }, { made(40, 0).rows, made(40, 0).dropped })
    assert.same({ 37, 3 }, { made(40, 3).rows, made(40, 3).dropped })
    assert.error_matches(function() made(40, 21) end, "calibrate: gemm bf16 of h100_sxm: 21 of 40 rows are faster than "
      .. "the device's peak of 989.5 TFLOP/s, up to 1088; time_us must be in microseconds", 1, true)
    -- A causal mask halves the pairs; a window leaves a band.
    local attention = kernels.get "attention"
    local x = { batch = 1, heads = 2, head_dim = 64, seq = 8, window = 0 }
    assert.equal(4 * 2 * 64 * 32, attention.flops(x))
    x.window = 2
    assert.equal(4 * 2 * 64 * 14, attention.flops(x))
  end)
end)
