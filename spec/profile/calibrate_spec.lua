--- From samples to coefficient files to predictions without the samples.
local command = require "command"
local lfs = require "lfs"
local fits = require("needs").fitting(it, pending)
local raised = require "raised"

local folder

--- Seconds of a made-up device: 200 TFLOP/s and 5 us.
local function seconds(mp, b, l, dim) return 2.0 * b * l * dim * (3 * dim / mp) / 200e12 + 5e-6 end

setup(function()
  folder = command.folder()
  lfs.mkdir(folder .. "/samples")
  local file = assert(io.open(folder .. "/samples/NVIDIAX100_linear1_fp16.csv", "w"))
  file:write("mp,b,l,dim,F_dur(us),B_dur(us)\n")
  for _, mp in ipairs { 1, 2, 4 } do
    for _, b in ipairs { 2, 4, 8 } do
      for l = 1024, 4096, 1024 do
        for dim = 2048, 8192, 2048 do
          file:write(("%d,%d,%d,%d,%.4f,%.4f\n"):format(mp, b, l, dim, seconds(mp, b, l, dim) * 1e6,
            2e6 * seconds(mp, b, l, dim)))
        end
      end
    end
  end
  file:close()
end)

teardown(function() command.remove(folder) end)

describe("ett calibrate", function()
  fits("writes small files with source, date and held-out error, which suffice for predictions", function()
    local into = folder .. "/profile"
    local summary = require("ett.profile.calibrate").run { folders = { folder .. "/samples" }, into = into,
      source = "made up", fitted = "2026-01-02" }
    assert.equal(2, #summary) -- forward and backward of the one pool
    local text = assert(io.open(into .. "/gemm.fp16.coefficients.lua")):read "a"
    assert.is_true(#text < 100000)
    assert.matches('source = "made up"', text, 1, true)
    assert.matches('fitted = "2026-01-02"', text, 1, true)
    command.remove(folder .. "/samples")
    local p = require("ett.profile").open { into }
    local op = require("ett.operator").get "linear_up" -- the same kernel under another name
    local a = p:operator("linear_up", { tokens = 6144, in_features = 6144, out_features = 6144 }, "fp16", "forward")
    local flops = op.flops { tokens = 6144, in_features = 6144, out_features = 6144 }
    assert.near(flops / 200e12 + 5e-6, a.seconds, 0.05 * a.seconds)
    assert.equal("calibrated", a.provenance)
    assert.is_true(a.low_seconds <= a.seconds and a.seconds <= a.high_seconds)
  end)

  it("writes a surface, not trees, for a small CPU table", function()
    local samples, into = folder .. "/cpu", folder .. "/cpu_profile"
    lfs.mkdir(samples)
    local file = assert(io.open(samples .. "/host_gelu_fp32.csv", "w"))
    file:write("# ett: 0.1.0\n# backend: cpu\ntokens,width,F_dur(us),B_dur(us)\n")
    for i = 1, 6 do
      for j = 1, 6 do
        local n = 2.0 ^ (i + j + 6)
        file:write(("%d,%d,%.5f,%.5f\n"):format(16 << i, 4 << j, 0.3 + n * 1e-3 * (1 + 0.1 * math.sin(i)),
          1 + n * 2e-3))
      end
    end
    file:close()
    local summary = require("ett.profile.calibrate").run { folders = { samples }, into = into, source = "made up" }
    assert.equal(2, #summary)
    local text = assert(io.open(into .. "/gelu.fp32.coefficients.lua")):read "a"
    assert.equal(2, select(2, text:gsub('kind = "surface"', "")))
    local profile, open = require "ett.profile", require("ett.profile").open { into }
    local served = profile.from_samples({ samples }, { cache = false })
    for _, s in ipairs { { tokens = 100, width = 50 }, { tokens = 700, width = 130 }, { tokens = 9000, width = 64 } } do
      for _, pass in ipairs { "forward", "backward" } do
        local a, b = served:operator("gelu", s, "fp32", pass), open:operator("gelu", s, "fp32", pass)
        assert.near(a.seconds, b.seconds, 1e-9 * a.seconds)
        assert.near(a.low_seconds, b.low_seconds, 1e-9 * a.seconds)
        assert.equal(a.provenance == "extrapolated" and "extrapolated" or "calibrated", b.provenance)
      end
    end
    -- A damaged one is not used.
    require("ett.base.folder").write(into .. "/gelu.fp32.coefficients.lua",
      (text:gsub('"quantile":%d', '"quantile":9')))
    local ok, why = pcall(function()
      return require("ett.profile").open({ into }):operator("gelu", { tokens = 100, width = 50 }, "fp32", "forward")
    end)
    assert.is_false(ok)
    assert.matches("gelu.fp32.coefficients.lua: the hash in the last line does not match", tostring(why))
  end)

  it("serves no file of another device, operator or data type", function()
    local clusters = require("ett.host").root .. "/clusters/"
    local own = folder .. "/mixed"
    lfs.mkdir(own)
    local function copy(from, to)
      require("ett.base.folder").write(own .. "/" .. to, assert(io.open(clusters .. from)):read "a")
    end
    local shape = { tokens = 2048, in_features = 4096, out_features = 4096 }
    for from, reason in pairs { ["vista/profile/gemm.fp16"] = "'device' is 'NVIDIAGH200120GB'; expected "
      .. "'NVIDIAA100-SXM4-80GB'", ["perlmutter/profile/bmm.fp16"] = "'pool' is 'bmm'; expected 'gemm'" } do
      copy("perlmutter/profile/bmm.fp16.coefficients.lua", "bmm.fp16.coefficients.lua")
      copy(from .. ".coefficients.lua", "gemm.fp16.coefficients.lua")
      local ok, why = pcall(function()
        return require("ett.profile").open({ own }):operator("linear_up", shape, "fp16", "forward")
      end)
      assert.is_false(ok)
      assert.matches("mixed/gemm.fp16.coefficients.lua: its field " .. reason, tostring(why), 1, true)
    end
  end)

  it("names a file whose model has no text", function()
    local own = folder .. "/textless"
    lfs.mkdir(own)
    for _, model in ipairs { '"x"', "{}", "{ text = {} }", '{ kind = "surface" }' } do
      require("ett.base.folder").write(own .. "/gelu.fp16.coefficients.lua", require("ett.base.sealed").text(
        ('return { format = "ett coefficients 1", pool = "gelu", '
        .. 'dtype = "fp16", device = "X", models = { forward = %s } }\n'):format(model)))
      local ok, why = pcall(function()
        return require("ett.profile").open({ own }):operator("gelu", { tokens = 16, width = 16 }, "fp16", "forward")
      end)
      assert.is_false(ok)
      assert.matches("gelu.fp16.coefficients.lua: forward: the text of a regressor is missing", tostring(why), 1, true)
    end
  end)

  it("refuses without source or folder", function()
    local run = require("ett.profile.calibrate").run
    local function message(request) return raised(run, request) end
    assert.matches("at least one folder", message { folders = {} }, 1, true)
    assert.matches("--source is missing", message { folders = { folder }, into = folder }, 1, true)
    assert.matches("'/nowhere' is not a folder", message { folders = { "/nowhere" }, into = folder, source = "x" },
      1, true)
  end)
end)
