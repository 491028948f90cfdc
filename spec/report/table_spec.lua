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

  it("keeps the spaces of texts that fit, beside one that is wrapped", function()
    local rows = { { "a", "1   [0, 2]" }, { "b", "more words than fit here" } }
    assert.same({ "a  1   [0, 2]", "b  more words", "   than fit", "   here" }, tables.lines(rows, "ll", "", 15))
  end)

  it("wraps sentences, but not rows of tables", function()
    assert.equal("  a sentence of\n    six words\nshort\na row of  a table that is wide",
      tables.fit("  a sentence of six words\nshort\na row of  a table that is wide", 17))
    assert.equal("a sentence of six words", tables.fit "a sentence of six words") -- no terminal
  end)

  it("puts number columns that do not fit into a block below", function()
    local rows = { { "stage", "forward", "backward", "update" }, { "1", "2.5", "3.5", "4.5" } }
    assert.same({ "stage  forward  backward", "1          2.5       3.5", "", "stage  update", "1         4.5" },
      tables.lines(rows, "lrrr", "", 31))
    assert.equal(2, #tables.lines(rows, "lrrr", "", 32))
    assert.equal(8, #tables.lines(rows, "lrrr", "", 10)) -- one column a block at least
  end)

  it("is within the terminal in estimates, searches and comparisons", function()
    local ett, host = require "ett", require "ett.host"
    local before = host.columns
    finally(function() host.columns = before end)
    local model = ett.model.new "llama3-70b"
    local function estimate(tp)
      return { model = model, cluster = "dgx_h100", plan = { seq = 8000, tp = tp, pp = 4, dp = 8, global_batch = 256,
        zero = 1, sequence_parallel = true, tokens = 15e12 } }
    end
    local priced = estimate(8)
    priced.plan.price_per_device_hour = 2.5
    assert.is_nil(tostring(ett.estimate(priced)):find("price:", 1, true))
    local texts = {
      estimate = function() return tostring(ett.estimate(estimate(8))) end,
      search = function()
        return require("ett.search.text").result(ett.search { model = model, cluster = "dgx_h100", devices = 64,
          plan = { seq = 8192, global_batch = 64, zero = 3, recompute = "full" } }, { width = host.columns })
      end,
      pair = function()
        local compare = require "ett.search.compare"
        return compare.text(compare.new(estimate(8), estimate(4)))
      end,
    }
    for _, columns in ipairs { 72, 80, 120 } do
      host.columns = columns
      for name, text in pairs(texts) do
        local whole = text()
        for line in whole:gmatch "[^\n]+" do
          assert.is_true(utf8.len(line) <= columns, ("%s at %d: %s"):format(name, columns, line))
        end
        local open = whole:match "\n(left open.-)\n\n" -- a comma ends each of its lines: no item is broken
        for line in (open or ""):gmatch "([^\n]+)\n" do assert.equal(",", line:sub(-1), line) end
        assert.equal(name == "estimate", open ~= nil)
        assert.equal(name == "estimate", whole:find("\n +price: AWS p5") ~= nil) -- the source of the cluster's price
      end
    end
  end)

  it("writes CSV that a reader takes back", function()
    local text = tables.csv { { "name", "value" }, { 'a, "b"', 0.1 }, { "c", 3 } }
    assert.equal('name,value\n"a, ""b""",0.10000000000000001\nc,3', text)
    local t = assert(csv.decode(text))
    assert.same({ 'a, "b"', "c" }, t:strings "name")
    assert.same({ 0.1, 3 }, t:numbers "value")
  end)
end)
