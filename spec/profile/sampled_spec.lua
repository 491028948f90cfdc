local calibrate = require "ett.profile.calibrate"
local coefficients = require "ett.profile.coefficients"
local ett_io = require "ett.io"
local find = require "ett.base.find"
local operator = require "ett.operator"
local profile = require "ett.profile"
local fits = require("needs").fitting(it, pending)
local merged = require "ett.base.merged"
local raised = require "raised"

local function write(path, text) assert(ett_io.write(path, text)) end

-- A sampled device of 2e14 FLOP/s and 1 TB/s that has linear1 and linear3 and one topology.
local function folder()
  local path = require("command").folder()
  assert(ett_io.make_folder(path .. "/operator"))
  assert(ett_io.make_folder(path .. "/nccl"))
  for _, name in ipairs { "linear1", "linear3" } do
    local lines = { "mp,b,l,dim,F_dur(us),B_dur(us)" }
    for _, mp in ipairs { 1, 2 } do
      for b = 1, 4 do
        for dim = 1024, 4096, 256 do
          local out = (name == "linear1" and 3 or 4) * dim // mp
          local us = 5 + 2.0 * b * 1024 * dim * out / 2e14 * 1e6
          lines[#lines + 1] = ("%d,%d,1024,%d,%.4f,%.4f"):format(mp, b, dim, us, 2 * us)
        end
      end
    end
    write(("%s/operator/NVIDIAA100-SXM4-80GB_%s_fp16.csv"):format(path, name), table.concat(lines, "\n") .. "\n")
  end
  local lines = { "shape,nodes,GPUsPerNode,dur(us)" }
  for i = 1, 60 do
    for _, nodes in ipairs { 1, 2 } do
      lines[#lines + 1] = ("%d,%d,4,%.3f"):format(i * 1048576, nodes, (20 + i * 40) * nodes)
    end
  end
  write(path .. "/nccl/NVIDIAA100-SXM4-80GB_allreduce_fp16.csv", table.concat(lines, "\n") .. "\n")
  return path
end

local c = { tp = 1, cp = 1, ep = 1, micro_batch = 2, seq = 1024, hidden = 2048, heads = 16, kv_heads = 16,
  head_dim = 128, ffn = 8192, vocab = 50257, layers = 2, causal = true, dtype = "fp16" }

local function ask(p, name, hidden)
  local op = operator.get(name)
  local mine = merged(c)
  mine.hidden, mine.ffn, mine.head_dim = hidden or 2048, 4 * (hidden or 2048), (hidden or 2048) // 16
  local shape = op.shape(mine)
  return p:operator(name, shape, "fp16", "forward"), op.flops(shape, "forward")
end

describe("ett.profile", function()
  local path = folder()
  local none = { cache = false }

  fits("answers from samples, also of other operators with the same kernel", function()
    local p = profile.open(path, none)
    local answer, flops = ask(p, "linear1")
    assert.are.equal("interpolated", answer.provenance) -- no shape has repeats
    assert.is_true(math.abs(answer.seconds / (5e-6 + flops / 2e14) - 1) < 0.02)
    assert.is_true(answer.low_seconds <= answer.seconds and answer.seconds <= answer.high_seconds)
    local sibling, work = ask(p, "linear_proj") -- no file of its own: a GEMM all the same
    assert.is_true(math.abs(sibling.seconds / (5e-6 + work / 2e14) - 1) < 0.05, sibling.seconds * 2e14 / work)
    local far = ask(p, "linear1", 8192)
    assert.are.equal("extrapolated", far.provenance)
    assert.truthy(far.detail:find("outside the samples", 1, true))
  end)

  it("gives nil without samples of the operator, topology or precision", function()
    local p = profile.open(path, none)
    assert.is_nil((ask(p, "gelu")))
    assert.is_nil(p:collective("all_to_all", 1e8, { nodes = 1, gpus_per_node = 4 }, "fp16"))
    assert.is_nil(p:collective("all_reduce", 1e8, { nodes = 4, gpus_per_node = 4 }, "fp16"))
    local op = operator.get "linear1"
    assert.is_nil(p:operator("linear1", op.shape(c), "fp32", "forward"))
  end)

  fits("takes a topology out of a generic file", function()
    local p = profile.open(path, none)
    local one = p:collective("all_reduce", 2 * 30 * 1048576, { nodes = 1, gpus_per_node = 4 }, "fp16")
    local two = p:collective("allreduce", 2 * 30 * 1048576, { nodes = 2, gpus_per_node = 4 }, "fp16")
    assert.are.equal("measured", one.provenance)
    assert.is_true(math.abs(one.seconds / 1220e-6 - 1) < 0.02, one.seconds)
    assert.is_true(math.abs(two.seconds / 2440e-6 - 1) < 0.02, two.seconds)
  end)

  fits("pools fp16 and bf16 files of one collective and topology, and keeps fp32 apart", function()
    local several = require("command").folder()
    local function seconds(elements, bytes) return 20e-6 + elements * bytes / 5e10 end
    for dtype, range in pairs { fp16 = { 1, 40, 2 }, bf16 = { 41, 70, 2 }, fp32 = { 1, 50, 4 } } do
      local lines = { "shape,dur(us)" }
      for i = range[1], range[2] do
        local elements = i * 1048576
        lines[#lines + 1] = ("%d,%.3f"):format(elements, 1e6 * seconds(elements, range[3]))
      end
      write(("%s/A100_allreduce_%s_2_4.csv"):format(several, dtype), table.concat(lines, "\n") .. "\n")
    end
    local p = profile.from_samples({ several }, none)
    local held_out = {}
    local holdout, samples = require "ett.profile.holdout", require "ett.profile.samples"
    for _, file in ipairs(holdout.read_files(assert(samples.index(several)), "-", 108)) do
      held_out[file.key] = (held_out[file.key] or 0) + file.count
    end
    assert.same({ ["- allreduce_2_4 fp16"] = 70, ["- allreduce_2_4 fp32"] = 50 }, held_out)
    local listed, about = {}, { source = "a made-up device", fitted = "2026-01-01" }
    for i, one in ipairs(calibrate.export(p, several .. "/coefficients", about)) do
      listed[i] = ("%s %s: %d"):format(one.pool, one.name, one.rows)
    end
    assert.same({ "all_reduce allreduce_2_4: 70", "all_reduce allreduce_2_4: 50" }, listed) -- of 16 and of 32 bits
    for _, q in ipairs { p, profile.from_samples({ several }, none), profile.open(several .. "/coefficients") } do
      for _, case in ipairs { { "fp16", 60 }, { "bf16", 5 }, { "fp16", 5 }, { "bf16", 60 }, { "fp32", 30 } } do
        local dtype, bytes = case[1], case[1] == "fp32" and 4 or 2
        local elements = case[2] * 1048576
        local answer = q:collective("all_reduce", elements * bytes, { nodes = 2, gpus_per_node = 4 }, dtype)
        assert.is_true(math.abs(answer.seconds / seconds(elements, bytes) - 1) < 0.02, dtype .. " " .. case[2])
        assert.not_equal("extrapolated", answer.provenance)
      end
    end
    require("command").remove(several)
  end)

  fits("keeps its predictions in coefficient files of a few kilobytes", function()
    local p = profile.open(path, none)
    local out = path .. "/coefficients"
    local summary = calibrate.export(p, out, { source = "a made-up device", fitted = "2026-01-01" })
    assert.are.equal(4, #summary)
    local q = profile.open(out)
    for _, name in ipairs { "linear1", "linear_proj" } do
      local a, b = ask(p, name), ask(q, name)
      assert.are.equal("calibrated", b.provenance)
      assert.is_true(math.abs(a.seconds / b.seconds - 1) < 0.05)
    end
    assert.are.equal("extrapolated", ask(q, "linear1", 8192).provenance)
    local a = q:collective("all_reduce", 6e7, { nodes = 2, gpus_per_node = 4 }, "fp16")
    assert.are.equal("calibrated", a.provenance)
    assert.is_nil(q:collective("all_reduce", 6e7, { nodes = 3, gpus_per_node = 4 }, "fp16"))
    write(out .. "/gemm.fp16.coefficients.lua",
      "return { format = 'ett coefficients 1', models = { forward = { text = 'AAAA' } } }")
    assert.has_error(function() ask(coefficients.open(out), "linear1") end)
    write(out .. "/gemm.fp16.coefficients.lua", "os.exit(3)")
    assert.has_error(function() ask(coefficients.open(out), "linear1") end)
  end)

  it("names the file and line of a wrong sample", function()
    local bad = folder()
    local file = bad .. "/operator/NVIDIAA100-SXM4-80GB_linear1_fp16.csv"
    for _, case in ipairs {
      { "mp,b,l,dim,F_dur(us),B_dur(us)\n1,1,1024,2048,nan,3\n", "F_dur" },
      { "mp,b,l,dim,F_dur(us),B_dur(us)\n1,1,1024,2048,-4,3\n", "F_dur" },
      { "mp,b,l,F_dur(us),B_dur(us)\n1,1,1024,4,3\n", "dim" },
      { "mp,b,l,dim\n1,1,1024,2048\n", "expected a column of times" },
      { "mp,b,l,dim,F_dur(us),B_dur(us)\n", "no rows" },
      { "mp,b,l,dim,F_dur(us),B_dur(us)\n1,1,10", "linear1" },
      { "mp,b,l,dim,F_dur(us),B_dur(us)\n1,1,1024,20\xff48,4,3\n", "UTF-8" },
      { "mp,b,l,dim,F_dur(ms),B_dur(us)\n1,1,1024,2048,4,3\n", "column 'F_dur(ms)': times are read in microseconds" },
      { "mp,b,l,dim,F_dur,B_dur(us)\n1,1,1024,2048,4,3\n", "column 'F_dur': times are read in microseconds" },
    } do
      write(file, case[1])
      local why = raised(ask, profile.open(bad, none), "linear1")
      assert.matches("linear1", why, 1, true)
      assert.matches(case[2], why, 1, true)
    end
    -- Values that the operator refuses, too.
    local gelu = bad .. "/operator/NVIDIAA100-SXM4-80GB_gelu_fp16.csv"
    write(gelu, "# a comment\ntokens,width,F_dur(us)\n64,64,4\n128.5,64,4\n")
    local ok, err = pcall(function()
      profile.open(bad, none):operator("gelu", { tokens = 8, width = 8 }, "fp16", "forward")
    end)
    assert.is_false(ok)
    assert.equal(gelu .. ":4: gelu: field 'tokens' must be a positive integer, got 128.5", tostring(err))
    assert.has_error(function() profile.open(bad .. "/nccl/none") end)
    require("command").remove(bad)
  end)

  -- A folder with one table of an operator on an A100: lists of each column, and the microseconds of a row.
  local function table_of(name, columns, axes, microseconds)
    local made, lines = require("command").folder(), { table.concat(columns, ",") .. ",F_dur(us),B_dur(us)" }
    local row = {}
    local function add(i)
      if i > #columns then
        local cells = {}
        for k, column in ipairs(columns) do cells[k] = row[column] end
        local us = microseconds(row)
        lines[#lines + 1] = ("%s,%.4f,%.4f"):format(table.concat(cells, ","), us, 2 * us)
        return
      end
      for _, value in ipairs(axes[i]) do
        row[columns[i]] = value
        add(i + 1)
      end
    end
    add(1)
    write(("%s/NVIDIAA100-SXM4-80GB_%s_bf16.csv"):format(made, name), table.concat(lines, "\n") .. "\n")
    return made
  end

  local tokens, widths = { 1024, 2048, 4096, 6144, 8192 }, { 1024, 2048, 3072, 4096 }
  local function near(expected, answer, least)
    local off = math.abs(answer.seconds * 1e6 / expected - 1)
    assert(off < least, ("%.2f us instead of %.2f"):format(answer.seconds * 1e6, expected))
  end

  fits("predicts by every number of a kernel_shape, beside rows and columns", function()
    local function us(s) return 4 + s.tokens * s.channels * (8 / 1.5e6 + s.state / 2e6) end
    local made = table_of("selective_scan", { "tokens", "channels", "state" }, { tokens, widths, { 8, 16, 64, 256 } },
      us)
    local p = profile.open(made, none)
    local function answer(state)
      return p:operator("selective_scan", { tokens = 4096, channels = 2048, state = state }, "bf16", "forward")
    end
    for _, state in ipairs { 8, 16, 64, 256 } do
      near(us { tokens = 4096, channels = 2048, state = state }, answer(state), 0.05)
    end
    assert.equal("interpolated", answer(32).provenance)
    assert.equal(0, #(next(p:report()) and select(2, next(p:report())) or {}))
    require("command").remove(made)
  end)

  fits("warns where the fit dropped a slower mode of a kernel, also from the cache", function()
    local cache = require "ett.profile.cache"
    local real, kept = cache.folder, os.tmpname()
    os.remove(kept)
    cache.folder = function() return kept end
    local function warning(counts)
      return ("gelu fp16 forward: the fit dropped %s samples as outliers; they may be a slower mode of the kernel, "
        .. "which the times leave out: `ett fit` lists them"):format(counts)
    end
    for multiple, expected in pairs { [512] = warning "12 of 144", [4096] = false } do -- of the tokens that are slow
      local made = table_of("gelu", { "tokens", "width" }, { { 512, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168,
        8192, 10240, 12288 }, { 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096 } }, function(s)
          local us = 4 + s.tokens * s.width * 4 / 1.5e6
          return s.width == 1792 and s.tokens % multiple == 0 and 8 * us or us
        end)
      for _ = 1, 2 do
        local answer = profile.open(made):operator("gelu", { tokens = 4096, width = 1024 }, "fp16", "forward")
        assert.equal(expected or nil, answer.caution)
      end
      for name in require("lfs").dir(kept) do -- damaged by hand: no warning, and no fault
        local file = kept .. "/" .. name
        local text = name:find "%.dropped$" and require("ett.io").read(file)
        if text then require("ett.io").write(file, (text:gsub('"reason"', '"other"'))) end
      end
      local answer = profile.open(made):operator("gelu", { tokens = 4096, width = 1024 }, "fp16", "forward")
      assert.is_nil(answer.caution)
      require("command").remove(made)
    end
    cache.folder = real
    require("command").remove(kept)
  end)

  fits("predicts partial rotations, from tables with and without them", function()
    local function us(s) return 4 + s.seq * s.batch * 2 * s.heads * s.rotary_dim * 4 / 1.5e6 end
    local function made_of(list)
      return table_of("rope", { "batch", "seq", "heads", "kv_heads", "head_dim", "rotary_dim" },
        { { 1, 2, 4 }, { 1024, 3072, 5120 }, { 16 }, { 16 }, { 128 }, list }, us)
    end
    local function answer(p, rotary_dim)
      local s = { batch = 2, seq = 3072, heads = 16, kv_heads = 16, head_dim = 128, rotary_dim = rotary_dim }
      return p:operator("rope", s, "bf16", "forward"), us(s)
    end
    local both, whole = made_of { 32, 128 }, made_of { 128 }
    local p = profile.open(both, none)
    for _, rotary_dim in ipairs { 32, 128 } do
      local one, expected = answer(p, rotary_dim)
      near(expected, one, 0.05)
      assert.equal("interpolated", one.provenance)
    end
    p = profile.open(whole, none)
    assert.equal("interpolated", answer(p, 128).provenance)
    local partial, expected = answer(p, 64)
    assert.equal("extrapolated", partial.provenance)
    near(expected, partial, 0.2)
    -- The same elements as of a sampled head, but of another kernel.
    local s = { batch = 2, seq = 3072, heads = 16, kv_heads = 16, head_dim = 256, rotary_dim = 128 }
    assert.equal("interpolated", p:operator("rope", s, "bf16", "forward").provenance)
    -- Coefficient files: the kernels of GPT-NeoX also copy the rest of each head.
    p = coefficients.open(require("ett.host").root .. "/clusters/perlmutter/profile")
    assert.equal(answer(p, 128).seconds, answer(p, 32).seconds)
    assert.equal("calibrated", answer(p, 32).provenance)
    -- Tables of both kinds, fp16 and bf16, are one pool.
    assert(os.rename(whole .. "/NVIDIAA100-SXM4-80GB_rope_bf16.csv", both .. "/NVIDIAA100-SXM4-80GB_rope_fp16.csv"))
    local one, time = answer(profile.open(both, none), 32)
    near(time, one, 0.05)
    os.execute(("rm -r '%s' '%s'"):format(both, whole))
  end)

  it("knows a shape that was sampled once to 15 % on a device without kernel tables", function()
    local own = require("command").folder()
    finally(function() require("command").remove(own) end)
    write(own .. "/aprocessor_gelu_fp16.csv", "tokens,width,F_dur(us)\n64,512,5\n128,512,9\n")
    local answer = profile.open(own, none):operator("gelu", { tokens = 64, width = 512 }, "fp16", "forward")
    assert.near(5e-6, answer.seconds, 1e-9)
    assert.equal("measured", answer.provenance)
    assert.near(1.15, answer.high_seconds / answer.seconds, 1e-9)
  end)

  it("scales the few samples of a partial rotation by themselves", function()
    local function us(s) return s.seq * s.rotary_dim / 1e3 end
    local made = table_of("rope", { "batch", "seq", "heads", "kv_heads", "head_dim", "rotary_dim" },
      { { 1 }, { 1024, 4096 }, { 16 }, { 16 }, { 128 }, { 128 } }, us)
    local p = profile.open(made, none)
    local s = { batch = 1, seq = 4096, heads = 16, kv_heads = 16, head_dim = 128, rotary_dim = 128 }
    assert.equal("measured", p:operator("rope", s, "bf16", "forward").provenance)
    for _, other in ipairs { { 128, 64 }, { 256, 128 } } do
      s.head_dim, s.rotary_dim = table.unpack(other)
      assert.not_equal("measured", p:operator("rope", s, "bf16", "forward").provenance)
    end
    require("command").remove(made)
  end)

  -- samples.read of a table with this text, of a made-up operator.
  local function read_made(fields, text)
    local base = { name = "odd", summary = "odd", shape = function(s) return s end,
      flops = function() return 2.0 end, bytes = function() return 2.0 end }
    for name, value in pairs(fields) do base[name] = value end
    local made = os.tmpname()
    write(made, text)
    local out, err = require("ett.profile.samples").read { path = made, gpu = "a", name = "odd", dtype = "bf16",
      operator = operator.check(base, "odd.lua") }
    os.remove(made)
    return out, err and tostring(err):gsub("^" .. made:gsub("%p", "%%%0"), "FILE")
  end

  it("counts the pairs that a mask of any attention leaves", function()
    local function mask(queries, keys, causal)
      local out = assert(read_made({ family = "attention", schema = { seq_q = "count", seq_k = "count" },
        kernel_shape = function(s)
          return { batch = 1, heads = 2, seq_q = s.seq_q, seq_k = s.seq_k, head_dim = 64, causal = causal }
        end }, ("seq_q,seq_k,F_dur(us)\n%d,%d,4\n"):format(queries, keys)))
      return out.rows[7]
    end
    for _, case in ipairs { { 1, 1 }, { 4, 4 }, { 3, 8 }, { 8, 3 }, { 8, 4 }, { 9, 1 } } do
      local queries, keys = table.unpack(case)
      local pairs_left = 0 -- aligned at the bottom right; the key on the diagonal counts as half a pair
      for q = 1, queries do pairs_left = pairs_left + math.max(0, q - (queries - keys) - 0.5) end
      assert.near(pairs_left / (queries * keys / 2), mask(queries, keys, true), 1e-12)
      assert.equal(0, mask(queries, keys, false))
    end
  end)

  it("reads `causal` of an attention operator by one rule: in samples, kernel tables and the CPU back end", function()
    local get, s = operator.get, { batch = 4, heads = 32, kv_heads = 32, seq_q = 4096, seq_k = 4096, head_dim = 128 }
    finally(function() operator.get = get end)
    local times = require("ett.profile.device_times").new(require("ett.profile.device").get "h100_sxm")
    local function seconds(name, shape) return times:operator(name, shape, "bf16", "forward").seconds end
    s.causal = 1
    local causal = seconds("flash_attention", s)
    s.causal = 0
    local whole = seconds("flash_attention", s)
    assert.is_true(causal < 0.6 * whole)
    s.causal = nil
    for _, case in ipairs { { nil, false }, { false, false }, { 0, false }, { true, true }, { 1, true } } do
      local given, masked = case[1], case[2]
      local op = operator.check({ name = "odd", summary = "odd", family = "attention", schema = { batch = "count",
        heads = "count", kv_heads = "count", seq_q = "count", seq_k = "count", head_dim = "count" },
        shape = function(c_) return c_ end, flops = function() return 2.0 end, bytes = function() return 2.0 end,
        kernel_shape = function(shape) return require "ett.base.merged"(shape, { causal = given }) end }, "odd.lua")
      operator.get = function(name) return name == "odd" and op or get(name) end
      local _, _, dims = require("ett.profile.samples").dims(op, s)
      assert.equal(masked and 1 or 0, dims[7])
      assert.equal(masked and causal or whole, seconds("odd", s))
      assert.equal(masked and 2 or 1, find.load("samplers", "cpu").calls(op, s, "forward")[1].visible)
    end
  end)

  it("names the dimension that the kernel_shape of a product or of attention lacks", function()
    local text = "tokens,width,F_dur(us)\n256,512,5\n"
    local function fields(family, kernel_shape)
      return { family = family, schema = { tokens = "count", width = "count" }, kernel_shape = kernel_shape }
    end
    local function product(s) return { m = s.tokens, k = s.width } end
    for _, case in ipairs { { "attention", product, "batch" }, { "gemm", product, "n" }, { "bmm", nil, "m" },
      { "attention", function(s) return { batch = 1, heads = 1, head_dim = 8, seq_k = s.width } end, "seq_q" } } do
      local out, err = read_made(fields(case[1], case[2]), text)
      assert.is_nil(out)
      assert.equal(("FILE:2: operator 'odd': kernel_shape must return the number '%s', which samples of the family "
        .. "'%s' need"):format(case[3], case[1]), err)
      -- Without samples of its own the operator has no dimensions, and its time is assumed.
      local op = operator.check({ name = "odd", summary = "odd", family = case[1], schema = { tokens = "count" },
        shape = function(s) return s end, flops = function() return 2.0 end, bytes = function() return 2.0 end,
        kernel_shape = case[2] }, "odd.lua")
      assert.is_nil((select(2, require("ett.profile.samples").dims(op, { tokens = 8, width = 8 }))))
    end
  end)

  it("refuses a kernel_shape of more numbers than samples can have", function()
    local function numbers(count)
      return read_made({ schema = { tokens = "count" }, kernel_shape = function(s)
        local k = { rank = s.tokens }
        for i = 2, count do k["a" .. i] = i end
        return k
      end }, "tokens,F_dur(us)\n256,5\n")
    end
    assert.equal(16, assert(numbers(14)).dims)
    local out, err = numbers(15)
    assert.is_nil(out)
    assert.equal("FILE:2: operator 'odd': kernel_shape returns 15 numbers, of which samples can have at most 14; "
      .. "return fewer", err)
  end)

  it("names the columns of a shape if a table has none of them", function()
    local made = table_of("flash_attention", { "tokens", "width" }, { { 64 }, { 64 } }, function() return 5 end)
    finally(function() os.execute(("rm -r '%s'"):format(made)) end)
    local s = { batch = 1, heads = 8, kv_heads = 8, seq_q = 64, seq_k = 64, head_dim = 64, causal = true }
    local opened = profile.open(made, none)
    assert.matches("_flash_attention_bf16.csv: no column of the shape of 'flash_attention' (batch, causal, ",
      raised(opened.operator, opened, "flash_attention", s, "bf16", "forward"), 1, true)
    local _, err = read_made({ schema = { tokens = "count", width = "count" } }, "tokens,widht,F_dur(us)\n256,8,5\n")
    assert.matches("no column 'width', which the shape of 'odd' needs; it has tokens, widht, F_dur", err, 1, true)
  end)

  it("takes only columns of times for times", function()
    local function read(names, row)
      return read_made({ schema = { tokens = "count" } }, ("tokens,%s\n256,%s\n"):format(names, row))
    end
    for _, name in ipairs { "dur_std", "duration", "dur_count", "F_dur_std", "durs", "F_dur_us_min", "W_dur(ms)" } do
      local out = assert(read("F_dur(us)," .. name, "4,5"))
      assert.equal(1, #out.passes)
      assert.near(4e-6, out.by_pass.forward[1], 1e-15)
    end
    local out = assert(read("F_dur (us),B_dur  (us)", "4,5"))
    assert.near(4e-6, out.by_pass.forward[1], 1e-15)
    assert.near(5e-6, out.by_pass.backward[1], 1e-15)
    for _, name in ipairs { "B_dur", "B_dur(ms)", "B_dur (ns)", "b_dur[s]", "B_dur_us", "B_dur seconds",
      "B_dur(msec)", "B_dur(usec)", "B_dur (nanoseconds)", "B_dur_msecs", "B_dur(min)" } do
      local faulty, err = read("F_dur(us)," .. name, "4,5")
      assert.is_nil(faulty)
      assert.truthy(err:find(("FILE: column '%s': times are read in microseconds"):format(name), 1, true), err)
    end
    for first, second in pairs { ["F_dur(us)"] = "F_dur (us)", dur = "dur(us)" } do -- rows would count twice
      assert.equal(("FILE: columns '%s' and '%s' both hold the times of one pass; remove one"):format(first, second),
        (select(2, read(first .. "," .. second, "4,5"))))
    end
  end)

  it("names the row whose kernel_shape has other numbers than the first", function()
    local samples = require "ett.profile.samples"
    local op = operator.check({ name = "odd", summary = "odd", schema = { tokens = "count", rank = "count" },
      shape = function(s) return s end, flops = function(s) return 2.0 * s.tokens end,
      bytes = function(s) return 2.0 * s.tokens end,
      kernel_shape = function(s)
        return { m = s.tokens, rank = s.rank > 8 and s.rank or nil, few = s.rank < 8 and 1 or nil }
      end }, "odd.lua")
    local made = os.tmpname()
    local function read(rows)
      write(made, "tokens,rank,F_dur(us)\n" .. rows)
      return samples.read { path = made, gpu = "a", name = "odd", dtype = "bf16", operator = op }
    end
    assert.equal(4, assert(read "16,16,4\n32,64,5\n").dims)
    for rows, expected in pairs { ["16,16,4\n32,8,5\n"] = "m for this row, and m, rank for the first",
      ["16,16,4\n32,4,5\n"] = "few, m for this row, and m, rank for the first" } do -- as many numbers
      local out, err = read(rows)
      assert.is_nil(out)
      assert.equal(("%s:3: operator 'odd': kernel_shape returns the numbers %s; return the same fields for every shape")
        :format(made, expected), tostring(err))
    end
    local first, second = assert(read "16,16,4\n"), assert(read "16,8,4\n") -- of fp16 and bf16
    first.path = "first"
    assert.equal(("operator 'odd': kernel_shape returns 1 numbers for the rows of %s, and 2 for those of first; return "
      .. "the same fields for every shape"):format(made), raised(samples.data, { first, second }, "forward"))
    os.remove(made)
  end)

  fits("reads columns in any order", function()
    local other = folder()
    local file = other .. "/operator/NVIDIAA100-SXM4-80GB_linear1_fp16.csv"
    local text = assert(ett_io.read(file)):gsub("([^,\n]+),([^,\n]+),([^,\n]+),([^,\n]+),([^,\n]+),([^,\n]+)",
      "%6,%5,%4,%3,%2,%1")
    write(file, text)
    assert.are.equal(ask(profile.open(path, none), "linear1").seconds,
      ask(profile.open(other, none), "linear1").seconds)
    require("command").remove(other)
  end)

  -- A folder with an operator of a user, a module that it requires, and a table of it in the folder "samples".
  local function own_operator(name, files_of)
    local root = require("command").folder()
    assert(ett_io.make_folder(root .. "/operators"))
    assert(ett_io.make_folder(root .. "/samples"))
    for file, text in pairs(files_of) do write(root .. "/" .. file, text) end
    local lines = { "tokens,width,F_dur(us)" }
    for i = 1, 40 do
      local rows, width = 256 * (1 + i % 8), 512 * (1 + i % 5)
      lines[#lines + 1] = ("%d,%d,%.4f"):format(rows, width, 3 + 2e-6 * rows * width)
    end
    write(("%s/samples/A100_%s_fp16.csv"):format(root, name), table.concat(lines, "\n") .. "\n")
    find.set_folders { root }
    return root
  end

  local function own_head(name, family)
    return ('local op = { name = "%s", family = "%s", summary = "made up",'):format(name, family or "elementwise") .. [[
  schema = { tokens = "count", width = "count" } }
function op.shape(c) return { tokens = c.micro_batch * c.seq, width = c.hidden } end
]]
  end

  fits("fits an operator of 0 FLOPs, and names the operator of a fault", function()
    local root = own_operator("zcopy", { ["operators/zcopy.lua"] = own_head "zcopy" .. [[
function op.flops() return 0 end
function op.bytes(s) return 4.0 * s.tokens * s.width end
return op]] })
    local answer = profile.open(root .. "/samples", none):operator("zcopy", { tokens = 1024, width = 1536 }, "fp16",
      "forward")
    assert.near(3e-6 + 2e-12 * 1024 * 1536, answer.seconds, 2e-7)
    assert.equal("interpolated", answer.provenance)
    local far = profile.open(root .. "/samples", none):operator("zcopy", { tokens = 4096, width = 2560 }, "fp16",
      "forward")
    assert.near(1, far.outside, 1e-9)
    require("command").remove(root)
    root = own_operator("zseen", { ["operators/zseen.lua"] = own_head("zseen", "attention") .. [[
function op.flops(s) return 2.0 * s.tokens end
function op.bytes(s) return 4.0 * s.tokens end
function op.kernel_shape(s)
  return { batch = 1, heads = 1, seq_q = s.tokens, seq_k = 0, head_dim = 64, causal = true }
end
return op]] })
    local ok, why = pcall(function()
      return profile.open(root .. "/samples", none):operator("zseen", { tokens = 64, width = 512 }, "fp16", "forward")
    end)
    find.set_folders {}
    require("command").remove(root)
    assert.is_false(ok)
    assert.matches("^samples of zseen fp16 forward: dimension 5 of family 'attention' must be", tostring(why))
  end)

  describe("cache", function()
    local cache = require "ett.profile.cache"
    local real_folder, real_warn = cache.folder, cache.warn
    local kept = os.tmpname()
    os.remove(kept)
    local lfs = require "lfs"

    local function entries()
      local list = {}
      if lfs.attributes(kept, "mode") then
        for entry in lfs.dir(kept) do if entry:match("%.ett$") then list[#list + 1] = kept .. "/" .. entry end end
      end
      return list
    end

    before_each(function() cache.folder = function() return kept end end)
    after_each(function() cache.folder, cache.warn = real_folder, real_warn end)
    teardown(function() require("command").remove(kept) end)

    fits("stores the fits of both passes, loads them, and fits again after damage", function()
      local first = ask(profile.open(path), "linear1")
      local files, bytes = entries(), {}
      assert.are.equal(2, #files)
      for i, file in ipairs(files) do bytes[i] = assert(ett_io.read(file)) end
      assert.are.same(first, ask(profile.open(path), "linear1"))
      local whole = bytes[1]
      for _, damage in ipairs { "", "junk", whole:sub(1, #whole // 2), whole:sub(1, -9) .. "12345678" } do
        for _, file in ipairs(files) do write(file, damage) end
        assert.are.same(first, ask(profile.open(path), "linear1"))
        for i, file in ipairs(files) do assert.are.equal(bytes[i], ett_io.read(file)) end
      end
    end)

    fits("has different keys for different samples", function()
      local before = #entries()
      local other = folder()
      local file = other .. "/operator/NVIDIAA100-SXM4-80GB_linear1_fp16.csv"
      local text = assert(ett_io.read(file)):gsub("(%d+%.%d+),(%d+%.%d+)\n", function(f, b)
        return ("%.4f,%.4f\n"):format(2 * f, 2 * b)
      end)
      write(file, text)
      write(other .. "/operator/NVIDIAA100-SXM4-80GB_linear3_fp16.csv", text)
      local fast, slow = ask(profile.open(path), "linear1"), ask(profile.open(other), "linear1")
      assert.is_true(math.abs(slow.seconds / fast.seconds - 2) < 0.1)
      assert.are.equal(before + 2, #entries())
      require("command").remove(other)
    end)

    fits("has different keys for different modules of an operator", function()
      local function key(factor)
        local root = own_operator("zhelped", { ["zhelper.lua"] = ("return { factor = %d }"):format(factor),
          ["zbetween.lua"] = "return { helper = function() return require('zhelper') end }",
          ["operators/zhelped.lua"] = 'local between = require "zbetween"\n' .. own_head "zhelped" .. [[
function op.flops(s) return 2.0 * s.tokens end
function op.bytes(s) return between.helper().factor * 4.0 * s.tokens end
return op]] })
        local paths = { root .. "/samples/A100_zhelped_fp16.csv" }
        local found = cache.key(paths, { { operator = { path = root .. "/operators/zhelped.lua" } } }, "forward")
        find.set_folders {}
        require("command").remove(root)
        return found
      end
      assert.equal(key(1), key(1))
      assert.are_not.equal(key(1), key(3))
    end)

    fits("sees that a table changed in the same process", function()
      local own = folder()
      local file = own .. "/operator/NVIDIAA100-SXM4-80GB_linear1_fp16.csv"
      local before = ask(profile.open(own), "linear1").seconds
      write(file, (assert(ett_io.read(file)):gsub("(%d+%.%d+),(%d+%.%d+)\n", function(f, b)
        return ("%.4f,%.4f\n"):format(3 * f, 3 * b)
      end)))
      assert.is_true(math.abs(ask(profile.open(own), "linear1").seconds / before - 3) < 0.15)
      require("command").remove(own)
    end)

    -- Runs each command twice with a cache that is empty before, or holds the fits of `ett fit`. Samples: one operator,
    -- and one kind of collective if `collective` is true.
    local function repeated(commands, collective, fit)
      local command = require "command"
      local at = command.folder()
      assert(lfs.mkdir(at .. "/s"))
      command.write(at, "c.lua", [[return { profile = "s", name = "twice", summary = "two processors", source = "spec",
        gpus_per_node = 2, nodes = 1, stack = "cpu",
        device = { name = "twice", source = "spec", vendor = "cpu", peak_flops = { fp32 = 1e11 },
          memory_bandwidth = 3.5e10, memory_bytes = 1.2e10 },
        links = { intra = { bandwidth = 5e9, send_bandwidth = 6e9, latency = 5e-7, source = "spec" } } }]])
      local rows, sizes = { "tokens,width,F_dur(us),B_dur(us)" }, { "shape,dur(us)" }
      for i = 1, 40 do
        local count, width = 32 * (1 + i % 8), 64 * i
        rows[i + 1] = ("%d,%d,%.3f,%.3f"):format(count, width, 2 + count * width * 3e-4, 3 + count * width * 5e-4)
        sizes[i + 1] = ("%d,%.3f"):format(256 * i * i, 2 + 256 * i * i * 8e-4)
      end
      command.write(at, "s/twice_gelu_fp32.csv", table.concat(rows, "\n") .. "\n")
      if collective then command.write(at, "s/twice_all_reduce_fp32_1_2.csv", table.concat(sizes, "\n") .. "\n") end
      for i, line in ipairs(commands) do
        local said, before = {}, ("XDG_CACHE_HOME='%s/cache%d' timeout 300"):format(at, i)
        if fit then assert.equal(0, select(2, command.ett(at, "fit s", before))) end
        for run = 1, 2 do
          local output, status = command.ett(at, line, before)
          assert.equal(0, status, ("%s, run %d: %s"):format(line, run, output))
          said[run] = output:gsub("%d[%d.]* m?s\n", "") -- how long a search took
        end
        assert.equal(said[1], said[2], line)
      end
      command.remove(at)
    end
    local of_gpt = " --cluster c.lua --model gpt hidden=256 layers=2 heads=4 vocab=2048 seq=256 global_batch=4"
      .. " dtype=fp32"

    fits("serves plans whose collectives have no samples", function()
      repeated({ "predict dp=2" .. of_gpt, "predict tp=2" .. of_gpt, "predict pp=2" .. of_gpt,
        "sweep dp=1,2 --quiet" .. of_gpt, "search --devices 2 --quiet" .. of_gpt })
    end)

    fits("serves plans of which only some kinds of collectives have samples", function()
      repeated({ "predict pp=2" .. of_gpt, "predict dp=2 zero=1" .. of_gpt }, true)
    end)

    fits("serves a plan after `ett fit`", function() repeated({ "predict dp=2" .. of_gpt }, false, true) end)

    fits("only warns when it cannot be written", function()
      local said
      cache.folder = function() return "/dev/null/cache" end
      cache.warn = function(text) said = text end
      assert.is_true(ask(profile.open(path), "linear1").seconds > 0)
      assert.truthy(said and said:find("cannot write fitted models", 1, true), said)
    end)
  end)
end)
