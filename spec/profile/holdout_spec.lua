--- The hold-out fits the model and gate of the profile, and never uses a held-out row for fitting.
local ett_io = require "ett.io"
local holdout = require "ett.profile.holdout"
local profile = require "ett.profile"
local samples = require "ett.profile.samples"
local fits = require("needs").fitting(it, pending)

local folders = {}

local function folder(files)
  local path = require("command").folder()
  folders[#folders + 1] = path
  for name, text in pairs(files) do assert(ett_io.write(path .. "/" .. name, text)) end
  return path
end

local function read(path) return holdout.read_files(assert(samples.index(path)), "-", 108) end

local function cpu_table()
  local lines = { "# ett: 0.1.0", "# backend: cpu", "tokens,width,F_dur(us),B_dur(us)" }
  for i = 1, 60 do
    local tokens, width = 32 + 16 * (i * 7 % 40), 64 + 32 * (i * 11 % 30)
    local us = 0.4 + 1.3e-4 * tokens * width * (1 + 0.2 * math.sin(i))
    if i % 5 == 0 then lines[#lines + 1] = ("#~ disturbed: %d,%d: forward: memory 30 %% slow"):format(tokens, width) end
    lines[#lines + 1] = ("%d,%d,%.5f,%.5f"):format(tokens, width, us, 1.5 * us)
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Products of a device of 2e14 FLOP/s; rows that `fast(i)` says take `share` of what 312e12 FLOP/s would.
local function gpu_table(fast, share)
  local lines, i = { "mp,b,l,dim,F_dur(us),B_dur(us)" }, 0
  for b = 1, 5 do
    for dim = 1024, 8192, 512 do
      i = i + 1
      local flops = 2.0 * b * 1024 * dim * 3 * dim
      local us = flops / 2e14 * 1e6 + 5
      if fast(i) then us = share * flops / 312e12 * 1e6 end
      lines[#lines + 1] = ("1,%d,1024,%d,%.4f,%.4f"):format(b, dim, us, 2 * flops / 2e14 * 1e6 + 9)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

teardown(function() for _, path in ipairs(folders) do require("command").remove(path) end end)

describe("ett.holdout", function()
  it("tests the model of the profile: a surface for CPU tables", function()
    local path = folder { ["AMD_gelu_fp32.csv"] = cpu_table() }
    local file = read(path)[1]
    local results = holdout.run({ file }, { splits = { "grouped" }, points = true })
    assert.equal(2, #results)
    local r = results[1]
    assert.is_nil(r.fault)
    -- By hand: a surface through only the rows that are not held out.
    local test, rows, seconds, disturbed = holdout.test_rows(file, "grouped"), {}, {}, {}
    for i = 1, file.count do
      if not test[i] then
        table.move(file.rows, (i - 1) * file.dims + 1, i * file.dims, #rows + 1, rows)
        seconds[#seconds + 1] = file.by_pass.forward[i]
        disturbed[#seconds] = file.passes[1].disturbed[i]
      end
    end
    assert.is_true(next(disturbed) ~= nil)
    local surface = require("ett.profile.surface").fit { family = file.family, dims = file.dims, rows = rows,
      seconds = seconds, disturbed = disturbed }
    local checked = 0
    for _, p in ipairs(r.points) do
      assert.is_true(test[p.row] and p.held_out)
      local wanted = surface:predict(table.move(file.rows, (p.row - 1) * file.dims + 1, p.row * file.dims, 1, {}))
      assert.equal(wanted.value, p.predicted)
      assert.equal(wanted.low, p.low)
      checked = checked + 1
    end
    assert.equal(r.rows, checked)
    assert.equal("surface", profile.from_samples({ path }, { cache = false }):model("gelu fp32",
      require("ett.profile.sampled").devices({ path }).AMD, "forward"):facts().kind)
  end)

  fits("ignores rows faster than the device in the fit", function()
    local name = "NVIDIAA100-SXM4-80GB_linear1_fp16.csv"
    local path = folder { [name] = gpu_table(function(i) return i % 9 == 0 end, 0.9) }
    local files = read(path)
    local r = holdout.run(files, { splits = { "grouped" }, points = true })[1]
    local test, fast = holdout.test_rows(files[1], "grouped"), 0
    for i = 1, files[1].count do if i % 9 == 0 and not test[i] then fast = fast + 1 end end
    assert.is_true(fast > 3)
    assert.equal(fast, r.dropped)
    local drawn = 0
    for _, p in ipairs(r.points) do
      if p.dropped then
        drawn = drawn + 1
        assert.equal(0, p.row % 9)
      end
    end
    assert.equal(fast, drawn)
    assert.equal(0, holdout.run(files, { splits = { "grouped" }, as_sampled = true })[1].dropped)
  end)

  fits("has no error for a void pass, except with as_sampled", function()
    local path = folder { ["NVIDIAA100-SXM4-80GB_linear1_fp16.csv"] = gpu_table(function(i) return i % 4 > 0 end, 0.5) }
    local forward, backward = table.unpack(holdout.run(read(path), { splits = { "random" } }))
    assert.equal(0, forward.rows)
    assert.is_nil(forward.error)
    assert.matches("^void: %d+ of 75 rows %(%d+ %%%) are faster than the device's peak$", forward.fault)
    assert.is_nil(backward.fault)
    assert.is_true(backward.error < 0.1)
    assert.is_true(holdout.run(read(path), { splits = { "random" }, as_sampled = true })[1].rows > 0)
  end)

  fits("reports why no row could be held out", function()
    local path = folder { ["A100_gelu_fp16.csv"] = "mp,b,l,dim,F_dur(us)\n1,4,512,1024,5\n",
      ["A100_RoPE_fp16.csv"] = "mp,b,h,l,dim,F_dur(us)\n" .. ("1,4,8,512,1024,5\n"):rep(40) }
    local seen = {}
    for _, r in ipairs(holdout.run(read(path))) do
      if r.rows == 0 then
        assert.is_string(r.fault)
        seen[r.file .. " " .. r.split] = r.fault
      else
        assert.is_true(r.error == r.error and r.coverage >= 0)
      end
    end
    assert.equal("1 shape; at least 8 are needed: measure more shapes", seen["gelu random"])
    assert.equal("1 shape (40 rows); at least 8 are needed: measure more shapes", seen["RoPE extrapolation"])
  end)

  fits("pools a table with a pass that others lack; precisions stay separate", function()
    local product = gpu_table(function() return false end, 1)
    local one_pass = product:gsub("(%d+,%d+,%d+,%d+,[%d.]+),[%d.]+\n", "%1\n"):gsub(",B_dur%(us%)", "")
    local path = folder { ["A100_linear1_fp16.csv"] = one_pass, ["A100_linear3_fp16.csv"] = product,
      ["A100_linear3_fp32.csv"] = product }
    local results = holdout.run(read(path), { splits = { "grouped" } })
    local names = {}
    for i, r in ipairs(results) do names[i] = r.entry.name .. " " .. r.entry.dtype .. " " .. r.pass end
    table.sort(names)
    assert.same({ "linear1 fp16 forward", "linear3 fp16 backward", "linear3 fp16 forward", "linear3 fp32 backward",
      "linear3 fp32 forward" }, names)
    -- One file requested: the pool is fitted to the same rows.
    local only = holdout.run(read(path), { splits = { "grouped" },
      of = function(f) return f.path:match "linear1_fp16" end })
    assert.equal(1, #only)
    for _, r in ipairs(results) do
      if r.path == only[1].path then assert.equal(r.error, only[1].error) end
    end
  end)

  it("marks a fifth, or all but a tenth, of the rows: spread, seeded and repeatable", function()
    local file = { count = 400 }
    local function tested(split, seed)
      local rows, halves = {}, { 0, 0 }
      for i, test in ipairs(holdout.test_rows(file, split, seed)) do
        if test then
          rows[#rows + 1] = i
          halves[i <= 200 and 1 or 2] = halves[i <= 200 and 1 or 2] + 1
        end
      end
      return rows, halves
    end
    for split, count in pairs { random = 80, tenth = 360 } do
      local rows, halves = tested(split)
      assert.equal(count, #rows)
      assert.is_true(math.abs(halves[1] - halves[2]) < 40, split .. " " .. halves[1]) -- 4 standard deviations
      assert.same(rows, (tested(split, holdout.seed)))
      assert.not_same(rows, (tested(split, holdout.seed + 1)))
    end
  end)

  fits("fits each topology of a generic table by itself", function()
    local lines = { "shape,nodes,GPUsPerNode,dur(us)" }
    for i = 1, 40 do
      for nodes = 1, 3 do lines[#lines + 1] = ("%d,%d,4,%.3f"):format(i * 1048576, nodes, (20 + i * 40) * nodes) end
    end
    local path = folder { ["A100_allreduce_fp16.csv"] = table.concat(lines, "\n") .. "\n" }
    local r = holdout.run(read(path), { splits = { "grouped" }, points = true })[1]
    local seen = {}
    for _, p in ipairs(r.points) do
      seen[p.group] = (seen[p.group] or 0) + 1
      assert.is_nil(seen[p.line], "each row once")
      seen[p.line] = true
    end
    assert.equal(r.rows // 3, seen["1_4"])
    assert.same({ seen["1_4"], seen["1_4"] }, { seen["2_4"], seen["3_4"] })
    assert.is_true(r.error < 0.05, r.error) -- topologies differ two- and threefold
  end)
end)
