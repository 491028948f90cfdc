-- Results of metrics as tables and as CSV.
local stats = require "ett.trace.stats"
local text = require "ett.trace.text"

describe("ett.trace.text", function()
  it("prints six digits, whole numbers whole, and n/a for what is unknown", function()
    assert.same({ "0.123457", "12", "12", "1234567", "n/a", "n/a", "a 1, b 2" },
      { text.value(0.123456789), text.value(12), text.value(12.0), text.value(1234567.25), text.value(stats.null),
        text.value(0 / 0), text.value{ b = 2, a = 1 } })
  end)

  it("aligns numbers on the right, also beside a title that is not ASCII", function()
    local columns = { { key = "name", title = "näme" }, { key = "ms", title = "ms" } }
    assert.same({ "näme   ms", "gemm  1.5", "ü      10" },
      text.table(columns, { { name = "gemm", ms = 1.5 }, { name = "ü", ms = 10 } }))
  end)

  it("prints scalars with a unit first, then tables", function()
    assert.same({ "  wall_s  2 s", "  calls   3", "  ranks:", "       ms", "    0   1", "    1   2" },
      text.lines({ wall_s = 2.0, calls = 3, ranks = { ["0"] = { ms = 1 }, ["1"] = { ms = 2 } } }, { wall_s = "s" }))
  end)

  it("writes CSV cells that read back: quotes doubled, null empty, floats exact", function()
    assert.equal('"a ""b"", c",,0.1,7', text.csv_row({ 'a "b", c', stats.null, 0.1, 7 }, 4))
    local seen = {}
    text.walk({ b = 2, a = { x = 1, y = stats.null } }, function(path) seen[#seen + 1] = path end)
    assert.same({ "a.x", "a.y", "b" }, seen)
  end)
end)
