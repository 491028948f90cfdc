local command = require "command"
local merge = require("ett.samples.merge").merge

describe("merging the tables of parts", function()
  local folder = command.each_folder(_ENV)

  local function write(name, text) return require("ett.base.folder").write(folder .. "/" .. name, text) end
  local head = "# ett: 0.1.0\n# campaign: c 00ff\n# device: D\n# precision: fp32\nrows,cols,F_dur(us),B_dur(us)\n"

  it("keeps each shape once, in order, the undisturbed row first", function()
    write("D_gelu_fp32_2_1.csv", head .. "16,8,1.5,2.5\n2,8,1,2\n#! failed: 3,8: memory: too large\n")
    write("D_gelu_fp32_2_2.csv", head .. "#~ disturbed: 4,8: clock\n4,8,9,9\n16,8,7,7\n#! failed: 2,8: memory: once\n")
    write("D_gelu_fp32_3_3.csv", head .. "4,8,3,4\n")
    local report = merge({ folder }, folder .. "/out")[1]
    assert.same({ 3, 3, 2, 1 }, { report.rows, report.tables, report.duplicates, report.failed })
    local text = io.open(report.path):read("a")
    assert.matches("D_gelu_fp32.csv$", report.path)
    assert.matches("\n2,8,1,2\n4,8,3,4\n16,8,1.5,2.5\n#! failed: 3,8: memory: too large\n$", text)
    assert.is_nil(text:find("disturbed", 1, true))
  end)

  it("keeps every mark of the row that is kept, and none of the other", function()
    write("D_gelu_fp32_2_1.csv", head .. "#~ disturbed: 4,8: clock\n#~ repeats: 4,8: forward: 9 10\n4,8,9,9\n"
      .. "#~ disturbed: 7,8: power\n7,8,1,1\n")
    write("D_gelu_fp32_2_2.csv", head .. "#~ note: 4,8: quiet\n#~ repeats: 4,8: forward: 3 3.5\n"
      .. "#~ kernel: 4,8: forward: 2.5: void f<int, 4>()\n4,8,3,4\n#~ repeats: 5,8: forward: 1\n6,8,1,1\n"
      .. "#~ disturbed: 7,8: power\n7,8,2,2\n")
    local report = merge({ folder }, folder .. "/out")[1]
    local text = io.open(report.path):read("a")
    assert.matches("\n#~ note: 4,8: quiet\n#~ repeats: 4,8: forward: 3 3.5\n#~ kernel: 4,8: forward: "
      .. "2.5: void f<int, 4>%(%)\n4,8,3,4\n6,8,1,1\n#~ disturbed: 7,8: power\n7,8,1,1\n$", text)
    assert.is_nil(text:find("clock", 1, true))
    local sample_table = require "ett.samples.table"
    local kernel = sample_table.mark("#~ kernel: 4,8: forward: 2.5: void f<int, 4>::g()")
    assert.same({ "4,8", "forward", "void f<int, 4>::g()" }, { kernel.key, kernel.pass, kernel.name })
    assert.near(2.5e-6, kernel.seconds, 1e-12)
    assert.is_nil(sample_table.mark("4,8,3,4"))
  end)

  it("keeps topologies of collectives apart", function()
    local wires = "# collective: all_reduce\n# campaign: c 00ff\nshape,nodes,GPUsPerNode,dur(us)\n"
    write("D_all_reduce_fp32_1_2.csv", wires .. "64,1,2,5\n")
    write("D_all_reduce_fp32_2_2.csv", wires .. "64,2,2,9\n")
    assert.equal(2, #merge({ folder }, folder .. "/out"))
  end)

  it("drops a collective's failure if its shape was measured later", function()
    write("D_all_reduce_fp32_1_2.csv", "# collective: all_reduce, in place\nshape,nodes,GPUsPerNode,dur(us)\n"
      .. "#! failed: 64: limit: slow\n#! failed: 128: limit: slow\n64,1,2,5\n")
    local report = merge({ folder }, folder .. "/out")[1]
    assert.same({ 1, 1 }, { report.rows, report.failed })
    assert.matches("dur%(us%)\n64,1,2,5\n#! failed: 128: limit: slow\n$", io.open(report.path):read("a"))
  end)

  it("joins parts of two devices of one kind", function()
    for part = 1, 2 do
      local device = ("# device: %d, H100, sm_90\n"):format(part - 1)
      write(("D_gelu_fp32_2_%d.csv"):format(part), (head:gsub("# device: D\n", device)) .. part .. ",8,1,2\n")
    end
    assert.equal(2, merge({ folder }, folder .. "/out")[1].rows)
    write("D_gelu_fp32_2_2.csv", (head:gsub("device: D\n", "device: 1, A100, sm_80\n")) .. "4,8,1,2\n")
    assert.error_matches(function() merge({ folder }, folder .. "/out") end,
      "differ in device: 'H100, sm_90' and 'A100, sm_80'")
  end)

  it("joins no parts that were timed in another way", function()
    local function joined(one, two)
      for part, line in ipairs { one, two } do
        write(("D_gelu_fp32_2_%d.csv"):format(part), (head:gsub("# precision", line .. "%0")) .. part .. ",8,1,2\n")
      end
      return merge({ folder .. "/D_gelu_fp32_2_1.csv", folder .. "/D_gelu_fp32_2_2.csv" }, folder .. "/out")[1].rows
    end
    for name, texts in pairs {
      threads = { "1 pinned to processor 0", "2 pinned to processors 0, 1", "1 pinned to processor 3" },
      timing = { "median of 3 visits, operands rotate through 96 MB",
        "median of 3 visits, operands rotate through 8 MB", "median of 9 visits, operands rotate through 96 MB" },
      time = { "clock of the host around each pass, 1 thread; an empty kernel takes 4.1 us",
        "clock of the host around each pass, 2 threads", "clock of the host around each pass, 1 thread" },
      libraries = { "PyTorch 1.13", "PyTorch 2.0", "PyTorch 1.13" },
    } do
      local first, other, alike = table.unpack(texts)
      local function line(text) return ("# %s: %s\n"):format(name, text) end
      assert.error_matches(function() joined(line(first), line(other)) end, "differ in " .. name .. ": '")
      assert.equal(2, joined(line(first), line(alike)))
      assert.equal(2, joined(line(first), "")) -- of another program
    end
  end)

  it("leaves out an incomplete last line of a table of ett", function()
    write("D_gelu_fp32_2_1.csv", head .. "2,8,1,2\n4,8,1.5,2.")
    write("D_add_fp32_2_1.csv", "rows,cols,F_dur(us),B_dur(us)\n2,8,1,2\n4,8,1.5,2.5")
    local reports = merge({ folder }, folder .. "/out")
    assert.same({ 2, 1 }, { reports[1].rows, reports[2].rows }) -- who else writes tables may end them so
    assert.is_nil(io.open(reports[2].path):read("a"):find("4,8", 1, true))
  end)

  it("reads lines that end as on Windows", function()
    write("D_gelu_fp32_2_1.csv", head .. "2,8,1,2\n")
    write("D_gelu_fp32_2_2.csv", ((head .. "4,8,1,2\n"):gsub("\n", "\r\n")))
    assert.equal(2, merge({ folder }, folder .. "/out")[1].rows)
  end)

  it("refuses rows that are no numbers, and parts of different back ends", function()
    local words = write("D_gelu_fp32.csv", head .. "foo,8,1,2\n")
    assert.error_matches(function() merge({ words }, folder .. "/out") end,
      "D_gelu_fp32.csv' line 6 is damaged: expected 4 numbers separated by commas, got 'foo,8,1,2'")
    os.remove(words)
    write("D_gelu_fp32_2_1.csv", "# backend: cuda\n" .. head .. "2,8,1,2\n")
    write("D_gelu_fp32_2_2.csv", "# backend: torch\n" .. head .. "4,8,1,2\n")
    assert.error_matches(function() merge({ folder }, folder .. "/out") end,
      "differ in backend: 'cuda' and 'torch'")
  end)

  it("refuses parts of different campaigns, broken rows, and its own input", function()
    local a = write("D_gelu_fp32_2_1.csv", head .. "2,8,1,2\n")
    write("D_gelu_fp32_2_2.csv", (head:gsub("00ff", "00fe")) .. "4,8,1,2\n")
    assert.error_matches(function() merge({ folder }, folder .. "/out") end,
      "differ in campaign: 'c 00ff' and 'c 00fe'")
    -- Of an operator's own file the last version counts, as of the campaign.
    local edited = "# operator file: 0a\n" .. head .. "# operator file: 0b\n"
    write("D_gelu_fp32_2_1.csv", edited .. "2,8,1,2\n")
    write("D_gelu_fp32_2_2.csv", (edited:gsub("0b", "0c")) .. "4,8,1,2\n")
    assert.error_matches(function() merge({ folder }, folder .. "/out") end,
      "differ in operator file: '0b' and '0c'")
    local broken = write("D_add_fp32.csv", head .. "2,8,1\n")
    assert.error_matches(function() merge({ broken }, folder .. "/out") end,
      "D_add_fp32.csv' line 6 is damaged: expected 4 numbers separated by commas, got '2,8,1'")
    assert.error_matches(function() merge({ a }, nil) end, "give %-%-output")
    local own = write("D_up_fp32.csv", head .. "2,8,1,2\n")
    assert.error_matches(function() merge({ own }, folder) end, "would overwrite .*; give another %-%-output")
    -- Parts merged one after the other must not replace each other.
    merge({ own }, folder .. "/out")
    write("D_up_fp32.csv", head .. "4,8,1,2\n")
    write("D_add_fp32.csv", head .. "2,8,1,2\n")
    local refusal = "out/D_up_fp32.csv' has %s that the tables to merge lack. Merge it, too, into another %-%-output"
    assert.error_matches(function() merge({ broken, own }, folder .. "/out") end, (refusal:gsub("%%s", "1 row")))
    assert.is_nil(io.open(folder .. "/out/D_add_fp32.csv"))
    local rows = head .. "2,8,1,2\n4,8,1,2\n"
    write("D_up_fp32.csv", rows .. "#! failed: 3,8: memory: too large\n")
    assert.equal(2, merge({ own }, folder .. "/out")[1].rows)
    write("D_up_fp32.csv", rows)
    assert.error_matches(function() merge({ own }, folder .. "/out") end, (refusal:gsub("%%s", "1 failed shape")))
    write("D_up_fp32.csv", rows .. "3,8,1,2\n") -- measured now
    assert.equal(3, merge({ own }, folder .. "/out")[1].rows)
  end)
end)

it("messages on dropped rows join their lines and hold no control characters", function()
  local rows = {}
  for i, number in ipairs { 9, 2, 3, 4 } do
    rows[i] = { path = "a\27[1m.csv", model = "m", reason = "fast", line = number }
  end
  assert.same({ "a\\x1b[1m.csv: m: 4 rows fast: lines 2-4, 9" }, require("ett.samples.dropped").lines(rows))
end)
