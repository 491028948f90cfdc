--- A pass is void if most of its rows are faster than the device's peak. Its time then comes from another pass.
local cache = require "ett.profile.cache"
local calibrate = require "ett.profile.calibrate"
local ett_io = require "ett.io"
local operator = require "ett.operator"
local profile = require "ett.profile"
local fits = require("needs").fitting(it, pending)
local raised = require "raised"

local device, peak = "NVIDIAA100-SXM4-80GB", 312e12
local path, kept = require("command").folder(), require("command").folder()
local real_folder = cache.folder

-- A linear layer whose backward times lack a product, a sane attention, and a gather that stood still.
setup(function()
  local lines = { "mp,b,l,dim,F_dur(us),B_dur(us)" }
  for b = 1, 5 do
    for dim = 1024, 8192, 512 do
      local flops = 2.0 * b * 1024 * dim * 3 * dim
      lines[#lines + 1] = ("1,%d,1024,%d,%.4f,%.4f"):format(b, dim, flops / 2e14 * 1e6 + 5,
        2 * flops / (b == 1 and 2e14 or 4e14) * 1e6)
    end
  end
  assert(ett_io.write(("%s/%s_linear1_fp16.csv"):format(path, device), table.concat(lines, "\n") .. "\n"))
  lines = { "shape,dur(us)" }
  for i = 1, 40 do lines[i + 1] = ("%d,117"):format(i * 16777216) end
  assert(ett_io.write(("%s/%s_allgather_large_fp16_8_1.csv"):format(path, device), table.concat(lines, "\n") .. "\n"))
  cache.folder = function() return kept end
end)

teardown(function()
  cache.folder = real_folder
  for _, folder in ipairs { path, kept } do require("command").remove(folder) end
end)

local shape = { tokens = 4096, in_features = 4096, out_features = 12288 }
local op = operator.get "linear_qkv"
local reason = "60 of 75 rows (80 %) are faster than the device's peak"

local function check(p)
  local forward = p:operator("linear_qkv", shape, "fp16", "forward")
  local backward = p:operator("linear_qkv", shape, "fp16", "backward")
  assert.equal(reason, p:void("linear_qkv", "fp16", "backward"))
  assert.is_nil(p:void("linear_qkv", "fp16", "forward"))
  local factor = op.flops(shape, "backward") / op.flops(shape, "forward")
  assert.near(factor * forward.seconds, backward.seconds, 1e-9 * backward.seconds)
  assert.is_true(op.flops(shape, "backward") / backward.seconds < peak)
  assert.equal("calibrated", backward.provenance)
  assert.matches("backward samples are void, " .. reason, backward.detail, 1, true)
  assert.is_true(backward.low_seconds < factor * forward.low_seconds)
  local none, why = p:collective("all_gather", 1e9, { nodes = 8, gpus_per_node = 1 }, "fp16")
  assert.is_nil(none)
  assert.matches("^%d+ of 40 rows %(%d+ %%%) are faster than any link carries$", why)
end

describe("a void pass", function()
  fits("is timed from the other pass by the ratio of FLOPs, and reported", function()
    for _, options in ipairs { { cache = false }, {}, {} } do -- fitted, kept, and known from the cache
      local p = profile.from_samples({ path }, options)
      check(p)
      local rows = {}
      for id, list in pairs(p:report()) do
        for _, row in ipairs(list) do
          assert.is_true(row.void)
          row.model = id
          rows[#rows + 1] = row
        end
      end
      assert.equal(2, #rows)
      local lines = require("ett.samples.dropped").lines(rows)
      assert.matches("linear1_fp16.csv: gemm fp16 backward: " .. reason .. "; the pass is void", lines[2], 1, true)
    end
  end)

  fits("is read from the cache without its samples", function()
    local p = profile.from_samples({ path }, {})
    p.data = function() error "read" end
    check(p)
  end)

  fits("is available unchecked on request (as_sampled)", function()
    for _ = 1, 2 do
      local raw = profile.from_samples({ path }, {}):as_sampled()
      local answer = raw:operator("linear_qkv", shape, "fp16", "backward")
      assert.is_true(op.flops(shape, "backward") / answer.seconds > 1.2 * peak)
      assert.near(117e-6, raw:collective("all_gather", 1e9, { nodes = 8, gpus_per_node = 1 }, "fp16").seconds, 1e-6)
    end
    check(profile.from_samples({ path }, {}))
  end)

  fits("stays void in coefficient files", function()
    local into = path .. "/coefficients"
    local summary = calibrate.export(profile.from_samples({ path }, {}), into, { source = "made up", fitted = "x" })
    local void = {}
    for _, line in ipairs(summary) do
      if (line.fault or ""):match "^void: " then void[#void + 1] = line.pool .. " " .. line.name end
    end
    assert.same({ "gemm backward", "all_gather allgather_large_8_1" }, void)
    check(profile.open(into))
  end)

  fits("is derived from the other pass as on the borrowed cluster; collectives use the links", function()
    local cluster = require("ett.profile.cluster").get "vista" -- borrows from perlmutter
    local p = require("ett.profile.of_cluster").open(cluster, profile.from_samples({ path }, {}))
    local forward = p:operator("linear_qkv", shape, "fp16", "forward")
    local other = require("ett.profile.of_cluster").open(require("ett.profile.cluster").get "perlmutter")
    local ratio = other:operator("linear_qkv", shape, "fp16", "backward").seconds
      / other:operator("linear_qkv", shape, "fp16", "forward").seconds
    local backward = p:operator("linear_qkv", shape, "fp16", "backward")
    assert.near(ratio * forward.seconds, backward.seconds, 1e-9)
    assert.matches("times forward, as perlmutter", backward.detail, 1, true)
    local wire = p:collective("all_gather", 1e9, { nodes = 8, gpus_per_node = 1 }, "fp16")
    assert.matches("^samples are void, ", wire.detail)
    local links = require("ett.profile.cluster").collective(cluster, "all_gather", 1e9,
      { nodes = 8, gpus_per_node = 1 })
    assert.equal(links.seconds, wire.seconds)
  end)

  fits("needs a majority of the rows; a minority is dropped row by row", function()
    local other = require("command").folder()
    local text = assert(ett_io.read(("%s/%s_linear1_fp16.csv"):format(path, device)))
    local n = 0
    text = text:gsub("(1,[45],1024,%d+,)([%d.]+)(,[%d.]+)", function(head, f)
      n = n + 1
      return ("%s%s,%.4f"):format(head, f, 0.4 * tonumber(f))
    end)
    text = text:gsub("(1,[23],1024,%d+,)([%d.]+)(,[%d.]+)", function(head, f)
      return ("%s%s,%.4f"):format(head, f, 2.2 * f)
    end)
    assert(ett_io.write(("%s/%s_linear1_fp16.csv"):format(other, device), text))
    local p = profile.from_samples({ other }, { cache = false })
    assert.is_nil(p:void("linear_qkv", "fp16", "backward"))
    assert.equal(n, p:model("gemm fp16", p.pools["gemm fp16"], "backward"):facts().dropped)
    require("command").remove(other)
  end)

  fits("is no model of a fit that raised an error: the next call fits again", function()
    local p, fit = profile.from_samples({ path }, { cache = false }), require "ett.profile.fit"
    local real, entries = fit.fit_with, p.pools["gemm fp16"]
    fit.fit_with = function() error("interrupted", 0) end
    local why = raised(p.model, p, "gemm fp16", entries, "forward")
    fit.fit_with = real
    assert.equal("samples of gemm fp16 forward: interrupted", why)
    assert.is_truthy(p:model("gemm fp16", entries, "forward"))
  end)
end)

it("a damaged model of a collective is named at every call", function()
  local coefficients, folder = require "ett.profile.coefficients", require("command").folder()
  require("ett.base.folder").write(folder .. "/all_gather.fp16.coefficients.lua", require("ett.base.sealed").text(
    ('return { format = %q, pool = "all_gather", dtype = "fp16", device = "X", models = { m_8_1 = "no" } }\n'):format(
      coefficients.format)))
  local p = coefficients.open(folder)
  for _ = 1, 2 do
    assert.matches("/all_gather.fp16.coefficients.lua: m_8_1: ", raised(p.collective_models, p, "all_gather", "fp16",
      8, 1))
  end
  require("command").remove(folder)
end)

describe("rows of a collective over nodes", function()
  local network = { bandwidth_per_gpu = 50e9, bandwidth_per_node = 100e9, send_bandwidth = 10e9,
    send_bandwidth_per_node = 30e9 }
  -- Least seconds of a row of a million fp16 elements.
  local function least(kind, nodes, inside, given)
    local seconds, bound = require("ett.profile.physics").least_seconds { rows = { 1e6 }, seconds = { 1 },
      network = given, entry = { collective = kind, nodes = nodes, gpus = inside, dtype = "fp16" } }
    return seconds[1], bound
  end

  it("take at least half of the time in which the network carries what a node receives", function()
    -- Bytes into a node, by hand: shares of all other nodes; the buffer; the node's part of it; parts of other nodes.
    for _, case in ipairs { { "all_gather", 4, 1, 6e6, 50e9 }, { "all_gather", 4, 4, 24e6, 100e9 },
      { "all_reduce", 4, 2, 2e6, 100e9 }, { "reduce_scatter", 4, 2, 0.5e6, 100e9 }, { "broadcast", 2, 1, 2e6, 50e9 },
      { "all_to_all", 2, 2, 2e6, 100e9 }, { "send_recv", 2, 1, 2e6, 10e9 } } do
      local kind, nodes, inside, bytes, rate = table.unpack(case)
      local seconds, bound = least(kind, nodes, inside, network)
      assert.near(bytes / (2 * rate), seconds, 1e-12, kind)
      assert.equal("2 times the cluster's network", bound)
    end
  end)

  it("are bounded by the fastest links of any device inside a node, and without a cluster", function()
    assert.same({ 6e6 / 1e12, "any link carries" }, { least("all_gather", 1, 4, network) })
    assert.same({ 6e6 / 1e12, "any link carries" }, { least("all_gather", 4, 1, nil) })
    assert.same({ 2e6 / 1e12, "any link carries" }, { least("reduce_scatter", 4, 2, nil) })
  end)

  fits("are void on a cluster whose network cannot carry most of them", function()
    local folder = require("ett.base.folder").temporary()
    local lines = { "shape,dur(us)" }
    for i = 1, 40 do lines[i + 1] = ("%d,%g"):format(i * 1e6, i * 6e6 / (i > 12 and 150e9 or 40e9) * 1e6) end
    assert(ett_io.write(("%s/%s_allgather_large_fp16_4_1.csv"):format(folder, device), table.concat(lines, "\n")
      .. "\n"))
    local at = { nodes = 4, gpus_per_node = 1 }
    for _, cache_too in ipairs { false, true, true } do -- fitted, kept, and known from the cache
      local options = { cache = cache_too and nil, network = network }
      local none, why = profile.from_samples({ folder }, options):collective("all_gather", 1e8, at, "fp16")
      assert.is_nil(none)
      assert.equal("28 of 40 rows (70 %) are faster than 2 times the cluster's network", why)
      options.network = nil
      assert.is_truthy(profile.from_samples({ folder }, options):collective("all_gather", 1e8, at, "fp16"))
    end
    require("ett.base.folder").remove(folder)
  end)
end)

describe("a scan without samples of its own", function()
  fits("has no time if both passes of the products are void", function()
    local folder, lines = require("command").folder(), { "batch,tokens,in_features,out_features,F_dur(us),B_dur(us)" }
    for m = 512, 4096, 256 do
      for k = 128, 640, 128 do
        local us = 2.0 * 32 * m * m * k / (2 * peak) * 1e6
        lines[#lines + 1] = ("32,%d,%d,%d,%.4f,%.4f"):format(m, k, m, us, 2 * us)
      end
    end
    assert(ett_io.write(("%s/%s_bmm_qk_fp16.csv"):format(folder, device), table.concat(lines, "\n") .. "\n"))
    local p = profile.from_samples({ folder }, { cache = false })
    for _, pass in ipairs { "forward", "backward" } do
      assert.matches("faster than the device's peak$", p:void("ssd_scan", "fp16", pass))
      assert.is_nil(p:operator_timer("ssd_scan", "fp16", pass))
    end
    require("command").remove(folder)
  end)
end)

describe("a void pass of a memory-bound operator", function()
  fits("is timed from the other pass by the ratio of bytes", function()
    local folder = require("command").folder()
    local lines = { "b,l,dim,F_dur(us),B_dur(us)" }
    for b = 1, 5 do
      for dim = 4096, 8192, 512 do
        local us = 4.0 * b * 8192 * dim / 1e12 * 1e6 -- half of the memory bandwidth
        lines[#lines + 1] = ("%d,8192,%d,%.4f,%.4f"):format(b, dim, us, us / 10)
      end
    end
    assert(ett_io.write(("%s/%s_RMSlayernorm_fp16.csv"):format(folder, device), table.concat(lines, "\n") .. "\n"))
    local p = profile.from_samples({ folder }, { cache = false })
    local norm, x = operator.get "rms_norm", { tokens = 16384, hidden = 6144 }
    assert.is_nil(p:void("rms_norm", "fp16", "forward"))
    assert.equal("45 of 45 rows (100 %) are faster than the device's memory", p:void("rms_norm", "fp16", "backward"))
    local forward, backward = p:operator("rms_norm", x, "fp16", "forward"), p:operator("rms_norm", x, "fp16",
      "backward")
    assert.near(norm.bytes(x, "fp16", "backward") / norm.bytes(x, "fp16", "forward") * forward.seconds,
      backward.seconds, 1e-12)
    assert.matches("backward samples are void, .*, as bytes", backward.detail)
    require("command").remove(folder)
  end)
end)

describe("a row of a memory-bound operator that is faster than the memory", function()
  fits("is dropped, unless the cache may hold its bytes", function()
    local folder, lines, fast, cached = require("command").folder(), { "b,l,dim,F_dur(us)" }, 0, 0
    local memory, cache_bytes = 2.039e12, 40e6
    for b = 1, 6 do
      for dim = 1024, 8192, 512 do
        local bytes = 6.0 * b * 2048 * dim
        local share = dim % 1536 == 0 and 1.6 or 0.8 -- of the memory's rate
        if share > 1 and bytes <= 2 * cache_bytes then cached = cached + 1 end
        if share > 1 and bytes > 2 * cache_bytes and (bytes - cache_bytes) / memory > bytes / share / memory then
          fast = fast + 1
        end
        lines[#lines + 1] = ("%d,2048,%d,%.4f"):format(b, dim, bytes / share / memory * 1e6)
      end
    end
    assert.is_true(fast > 10 and cached > 3 and fast < #lines / 3)
    assert(ett_io.write(("%s/%s_res_add_fp16.csv"):format(folder, device), table.concat(lines, "\n") .. "\n"))
    local p = profile.from_samples({ folder }, { cache = false })
    local function reasons(of)
      local model = of:model("residual_add fp16", of.pools["residual_add fp16"], "forward")
      local physical = 0
      for _, list in pairs(of:report()) do
        for _, row in ipairs(list) do if row.reason:find "faster" then physical = physical + 1 end end
      end
      return model and physical
    end
    assert.equal(fast, reasons(p))
    assert.is_nil(p:void("residual_add", "fp16", "forward"))
    assert.equal(0, reasons(p:as_sampled()))
    require("command").remove(folder)
  end)
end)

describe("samples of several devices", function()
  fits("are refused in one profile", function()
    local text = assert(ett_io.read(("%s/%s_linear1_fp16.csv"):format(path, device)))
    assert(ett_io.write(path .. "/NVIDIAGH200120GB_linear1_fp16.csv", text))
    local why = raised(profile.from_samples, { path }, {})
    assert.matches("samples of several devices (NVIDIAA100-SXM4-80GB, NVIDIAGH200120GB)", why, 1, true)
    local p = profile.from_samples({ path }, { gpu = device, cache = false })
    assert.equal(75, p:model("gemm fp16", p.pools["gemm fp16"], "forward"):facts().rows)
    assert.equal(132, profile.from_samples({ path }, { gpu = "NVIDIAGH200120GB" }).multiprocessors)
    local physics = require "ett.profile.physics" -- from devices/, by the name in the sample files
    for gpu, count in pairs { A800 = 108, H800 = 132, ["NVIDIAB200"] = 148, ["TeslaV100"] = 80, other = 108 } do
      assert.equal(count, physics.multiprocessors(gpu), gpu)
    end
    os.remove(path .. "/NVIDIAGH200120GB_linear1_fp16.csv")
  end)
end)

it("names a faulty file of a device at every search, and finds the files of other folders", function()
  local find, physics, folder = require "ett.base.find", require "ett.profile.physics", require("command").folder()
  local file = require("ett.base.folder").write_with_folder(folder .. "/clusters/devices/aa.lua", "return {")
  find.set_folders { folder }
  for _ = 1, 2 do assert.matches("aa.lua:1: unexpected symbol", raised(physics.device_of, "H100")) end
  os.remove(file)
  find.set_folders {}
  assert.equal("h100_sxm", physics.device_of("NVIDIA H100 80GB HBM3").key)
  require("command").remove(folder)
end)

it("finds a device by its driver's name, without spaces as in file names, and no shorter one", function()
  local physics = require "ett.profile.physics"
  for name, key in pairs { ["NVIDIA H100 PCIe"] = "h100_pcie", ["NVIDIA H100 80GB HBM3"] = "h100_sxm",
    ["NVIDIA A100-SXM4-40GB"] = "a100_sxm_40gb", ["NVIDIA A800-SXM4-80GB"] = "a100_sxm",
    ["NVIDIA A800-SXM4-40GB"] = "a100_sxm_40gb", ["NVIDIA H800"] = "h800", ["NVIDIA H800 PCIe"] = "h100_pcie",
    ["NVIDIA RTX PRO 6000 Blackwell Server Edition"] = "rtx_pro_6000", ["NVIDIA GB200"] = "gb200",
    ["NVIDIA GH200 480GB"] = "gh200", ["NVIDIA L4"] = "l4", ["NVIDIA L40S"] = "l40s", ["NVIDIA A40"] = "a40",
    ["NVIDIA L40"] = false, ["NVIDIA RTX A4000"] = false, ["NVIDIA L40 48GB"] = false,
    ["NVIDIA RTX A4000 16GB"] = false, ["NVIDIA A100 80GB PCIe"] = "a100_sxm" } do
    for _, gpu in ipairs { name, (name:gsub(" ", "")) } do
      assert.equal(key, (physics.device_of(gpu) or { key = false }).key, gpu)
    end
  end
  local cluster = { name = "mine", device = require("ett.profile.device").get "h100_pcie" }
  physics.check_device("NVIDIAH100PCIe", cluster, "samples")
  cluster.device = require("ett.profile.device").get "a40"
  assert.is_false(physics.same_device("NVIDIARTXA4000", cluster.device))
end)
