-- Results of metrics as tables and as CSV.
local stats = require "ett.trace.stats"
local text = require "ett.trace.text"

describe("ett.trace.text", function()
  it("prints six digits, integers without a point, and n/a for unknown values", function()
    assert.same({ "0.123457", "12", "12", "1234567", "n/a", "n/a", "a 1, b 2" },
      { text.value(0.123456789), text.value(12), text.value(12.0), text.value(1234567.25), text.value(stats.null),
        text.value(0 / 0), text.value{ b = 2, a = 1 } })
  end)

  it("aligns numbers on the right, also beside a title that is not ASCII", function()
    local columns = { { key = "name", title = "näme" }, { key = "ms", title = "ms" } }
    assert.same({ "näme   ms", "gemm  1.5", "ü      10" },
      text.table(columns, { { name = "gemm", ms = 1.5 }, { name = "ü", ms = 10 } }))
  end)

  it("shortens long names, and keeps the part where names that begin alike differ", function()
    local begin = "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_exact_"
    local names = { begin .. "cta_per_row_kernel_1<float, float, 128, 4>(long)", "gemm",
      begin .. "warp_per_row_kernel_1<float, float, 128, 4>(long)", begin .. "cta_per_row_kernel_1<float>",
      begin .. "cta", ("x"):rep(65), begin .. "cta" }
    local rows = {}
    for i, name in ipairs(names) do rows[i] = { name = name } end
    local lines = text.table({ { key = "name", title = "name" } }, rows)
    assert.same({ "gemm", ("x"):rep(61) .. "..." }, { lines[3], lines[7] })
    assert.equal(lines[6], lines[8])
    assert.matches("^void split_embedding_backw%.%.%..*warp_per_row", lines[4])
    local seen = {}
    for i = 2, 8 do
      assert.is_true(#lines[i] <= 64, lines[i])
      seen[lines[i]] = true
    end
    assert.equal(6, #stats.keys(seen))
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
