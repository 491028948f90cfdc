--- The reader and the writer of sample tables, on tables of ett, of older versions and of other programs.
local sample_table = require "ett.samples.table"
local tree = require "tree"

describe("a sample table", function()
  local path
  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  local function read(text)
    require("ett.base.folder").write(path, text)
    return assert(sample_table.read(path))
  end
  local head = "# ett: 0.1.0\n# campaign: c 00ff\n# device: D\nrows,cols,F_dur(us),B_dur(us)\n"

  it("is read as it is written", function()
    local results = { forward = { seconds = 1.5e-6, raw_seconds = { 1.5e-6, 2e-6 }, preempted = true, dropped = 1,
      repeats = 2, kernels = { { name = "f\n<int>", seconds = 1e-6 } } }, backward = { seconds = 2.5e-6 },
      note = "two\nlines" }
    local target = { kind = "operator" }
    local lines = sample_table.marks_of("16,8", results, true)
    lines[#lines + 1] = sample_table.row(target, { 16, 8 }, results)
    lines[#lines + 1] = sample_table.failure("32,8", "memory: too\nlarge")
    local entries = { { "ett", "0.1.0" }, { "campaign", "c 00ff" }, { "absent" }, { "device", "D\nE" } }
    local text = sample_table.header(entries, { "rows", "cols", "F_dur(us)", "B_dur(us)" })
      .. table.concat(lines, "\n") .. "\n"
    local t = read(text)
    assert.same({ 16, 8, 1.5, 2.5 }, (sample_table.numbers(t, 1)))
    assert.equal("forward: lost the processor in 1 of 2 repeats", sample_table.disturbed(t, 1))
    assert.equal("D E", t.last.device)
    assert.same({ "32,8", "memory: too large" }, { t.failed[1].key, t.failed[1].reason })
    local repeats, kernel = sample_table.mark(t.marks[1][3]), sample_table.mark(t.marks[1][4])
    assert.same({ "repeats", "forward", 2 }, { repeats.kind, repeats.pass, #repeats.seconds })
    assert.same({ "kernel", "f <int>" }, { kernel.kind, kernel.name })
    assert.equal(text, sample_table.encode(t))
  end)

  it("marks a row of one visit whose time is known to no better than 15 %", function()
    local function why(known_to) return sample_table.disturbance { seconds = 1e-6, known_to = known_to } end
    assert.equal("collective: known to 16 % only", why(0.16))
    assert.is_nil(why(0.14))
    assert.is_nil(why(nil)) -- of a median, or of visits
  end)

  it("holds the repeats of each rank of a shape measured together", function()
    local lines = sample_table.marks_of("16,8", { forward = { seconds = 2e-6, raw_seconds = { 1e-6 },
      raw_of_ranks = { { 1e-6 }, { 3e-6, 4e-6 } } } }, true)
    assert.same({ "#~ repeats: 16,8: forward: 1", "#~ repeats: 16,8: forward: 3 4" }, lines)
  end)

  it("has no row for an incomplete last line, if ett wrote it", function()
    local t = read(head .. "16,8,1,2\n32,8,1,2.")
    assert.same({ 1, 6 }, { #t.rows, t.cut })
    assert.is_nil(read("# ett: 0.1.0\nrows,co").columns)
    t = read "rows,cols,F_dur(us)\n16,8,1\n32,8,2" -- other programs may leave out the last line's end
    assert.same({ 2, 3 }, { #t.rows, t.cut })
  end)

  it("gives a row its own marks only", function()
    local t = read(head .. "#~ disturbed: 5,8: forward: clock\n16,8,1,2\n"
      .. "#~ disturbed: 32,8: forward: clock\n32,8,1,2\n")
    assert.is_nil(sample_table.disturbed(t, 1))
    assert.equal("forward: clock", sample_table.disturbed(t, 2))
  end)

  it("has the first and the last text of a repeated header line, and the line number of each row", function()
    local t = read(head .. "1,2,3,4\n# campaign: c 00fe\r\n5,6,7,8\r\n")
    assert.same({ "c 00ff", "c 00fe" }, { t.first.campaign, t.last.campaign })
    assert.same({ 5, 7 }, t.at)
    assert.same({ 5, 6, 7, 8 }, (sample_table.numbers(t, 2)))
  end)

  it("may begin with a byte-order mark", function()
    local text = head:gsub("# device", "# backend: cpu\n# device")
    for _, mark in ipairs { "", "\xEF\xBB\xBF" } do
      local t = read(mark .. text .. "1,2,3,4\n")
      assert.same({ true, "D", text .. "1,2,3,4\n" }, { t.ett, t.last.device, t.text })
      assert.equal("cpu", sample_table.back_end(path))
      assert.is_true(require("ett.profile.surface").suits(path))
      read(mark .. text)
      assert.is_true(sample_table.is_begun(path))
    end
    read "rows,cols\n# backend: cpu\n"
    assert.is_nil(sample_table.back_end(path))
    assert.is_nil(sample_table.back_end "/nowhere/x.csv")
  end)

  it("counts as just begun as long as it has no row", function()
    read(head .. "#! failed: all: wrong: x\n")
    assert.is_true(sample_table.is_begun(path))
    read(head .. "1,2,3,4\n")
    assert.is_false(sample_table.is_begun(path))
  end)

  it("names the file and the line of a damaged row", function()
    for _, row in ipairs { "1,2,3", "1,2,3,", "1,2,x,4", "1,2,3,4,5" } do
      local t = read(head .. row .. "\n")
      assert.error_matches(function() sample_table.numbers(t, 1) end, path .. "' line 5 is damaged: expected 4 numbers "
        .. "separated by commas, got '" .. row, 1, true)
    end
    local missing, err = sample_table.read "/nowhere/x.csv"
    assert.is_nil(missing)
    assert.matches("^cannot read '/nowhere/x.csv': no such file", tostring(err))
  end)

  it("is parsed in one module", function()
    for _, file in ipairs(tree.files "^lua/ett/.*%.lua$") do
      if file ~= "lua/ett/samples/table.lua" then
        assert.is_nil(tree.read(file):find('"^#~', 1, true) or tree.read(file):find('"^#! failed', 1, true), file)
      end
    end
  end)
end)
