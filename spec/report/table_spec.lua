--- Aligned columns and CSV.
local csv = require "ett.csv"
local tables = require "ett.report.table"

describe("ett.report.table", function()
  it("aligns columns and leaves no space at the end of a line", function()
    assert.same({ "  name   ms", "  a     1.5", "  bcde" },
      tables.lines({ { "name", "ms" }, { "a", "1.5" }, { "bcde" } }, "lr", "  "))
    assert.equal("a   b\ncc  d", tables.text({ { "a", "b" }, { "cc", "d" } }, "l"))
  end)

  it("wraps a last column of texts on a narrow terminal", function()
    local rows = { { "field", "meaning" }, { "tp", "ranks that split every matrix product" }, { "cp" } }
    assert.same({ "  field  meaning", "  tp     ranks that split", "         every matrix", "         product",
      "  cp" }, tables.lines(rows, "ll", "  ", 25))
    assert.equal(3, #tables.lines(rows, "ll", "  ", 46))
    assert.equal(4, #tables.lines(rows, "ll", "  ", 45))
  end)

  it("puts number columns that do not fit into a block below", function()
    local rows = { { "stage", "forward", "backward", "update" }, { "1", "2.5", "3.5", "4.5" } }
    assert.same({ "stage  forward  backward", "1          2.5       3.5", "", "stage  update", "1         4.5" },
      tables.lines(rows, "lrrr", "", 31))
    assert.equal(2, #tables.lines(rows, "lrrr", "", 32))
    assert.equal(8, #tables.lines(rows, "lrrr", "", 10)) -- one column a block at least
  end)

  it("writes CSV that a reader takes back", function()
    local text = tables.csv { { "name", "value" }, { 'a, "b"', 0.1 }, { "c", 3 } }
    assert.equal('name,value\n"a, ""b""",0.10000000000000001\nc,3', text)
    local t = assert(csv.decode(text))
    assert.same({ 'a, "b"', "c" }, t:strings "name")
    assert.same({ 0.1, 3 }, t:numbers "value")
  end)
end)
