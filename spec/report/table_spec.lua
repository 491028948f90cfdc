--- Aligned columns and CSV.
local tables = require "ett.report.table"

describe("ett.report.table", function()
  it("aligns columns and leaves no space at the end of a line", function()
    assert.same({ "  name   ms", "  a     1.5", "  bcde" },
      tables.lines({ { "name", "ms" }, { "a", "1.5" }, { "bcde" } }, "lr", "  "))
    assert.equal("a   b\ncc  d", tables.text({ { "a", "b" }, { "cc", "d" } }, "l"))
  end)

  it("writes CSV that a reader takes back", function()
    assert.equal('name,value\n"a, ""b""",0.10000000000000001\nc,3',
      tables.csv { { "name", "value" }, { 'a, "b"', 0.1 }, { "c", 3 } })
  end)
end)
