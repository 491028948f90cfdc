--- Values that commands print for programs: their tables as CSV hold what JSON holds.
local command = require "command"
local commands = require "ett.cli.commands"
local json = require "ett.json"
local options = require "ett.base.options"
local output = require "ett.report.output"

-- Reads CSV as RFC 4180 says, apart from the writer: list of records.
local function read(text)
  local rows, row, at = {}, {}, 1
  text = text .. "\n"
  while at <= #text do
    local value
    if text:sub(at, at) == '"' then
      local last = at
      repeat
        last = text:find('"', last + 1, true)
        local doubled = text:sub(last + 1, last + 1) == '"'
        if doubled then last = last + 1 end
      until not doubled
      value, at = text:sub(at + 1, last - 1):gsub('""', '"'), last + 1
    else
      value = text:match("^[^,\n]*", at)
      at = at + #value
    end
    row[#row + 1] = value
    if text:sub(at, at) == "\n" then rows[#rows + 1], row = row, {} end
    at = at + 1
  end
  local records = {}
  for r = 2, #rows do
    records[r - 1] = {}
    for c, name in ipairs(rows[1]) do records[r - 1][name] = rows[r][c] end
  end
  return records
end

local function tables_of(value)
  local by_name = {}
  for _, each in ipairs(output.tables(value)) do by_name[each.name] = read(each.text) end
  return by_name
end

describe("tables of a value", function()
  it("contain every number with all digits", function()
    local list = {}
    for i = 1, 200 do
      list[i] = { a = math.random() * 10.0 ^ math.random(-30, 30), b = math.random(-1 << 40, 1 << 40) }
    end
    local rows = tables_of({ list = list }).list
    assert.equal(#list, #rows)
    for i, record in ipairs(list) do
      assert.equal(record.a, tonumber(rows[i].a))
      assert.equal(record.b, math.tointeger(rows[i].b))
    end
  end)

  it("hold texts with commas, quotes and line ends; other control characters are named", function()
    local texts = { "a,b", 'say "x"', "two\nlines", "", "é" }
    local list = {}
    for i, text in ipairs(texts) do list[i] = { text = text, n = i } end
    for i, row in ipairs(tables_of(list).rows) do assert.equal(texts[i], row.text) end
    assert.equal("\\x1b[31m", tables_of({ { text = "\27[31m" } }).rows[1].text)
  end)

  it("name fields of records, and number the record that a list belongs to", function()
    local found = tables_of { step = 2, of = { x = 1, none = json.null }, flags = { true, false },
      views = { { name = "a", lines = { { t = 1 }, { t = 2 } } }, { name = "b", lines = { { t = 3 } } } } }
    assert.same({ { field = "flags", value = "true; false" }, { field = "of.none", value = "" },
      { field = "of.x", value = "1" }, { field = "step", value = "2" } }, found.values)
    assert.same({ { name = "a" }, { name = "b" } }, found.views)
    assert.same({ { views = "1", t = "1" }, { views = "1", t = "2" }, { views = "2", t = "3" } }, found["views.lines"])
  end)

  it("of lists of lists, empty lists and single values are tables, too", function()
    assert.same({ { field = "a", value = "[1,2]; [3]" } }, tables_of({ a = { { 1, 2 }, { 3 } }, b = {} }).values)
    assert.same({ { value = "x" }, { value = "y" } }, tables_of({ "x", "y" }).rows)
    assert.same({ { field = "value", value = "3" } }, tables_of(3).values)
  end)
end)

describe("--csv", function()
  it("goes with --json in every command", function()
    local count = 0
    for _, each in ipairs(commands.all()) do
      local has = {}
      for name in options.help(each, ""):gmatch "%-%-([%w%-]+)" do has[name] = true end
      assert.equal(has.json, has.csv, each.name)
      count = count + (has.json and 1 or 0)
    end
    assert.is_true(count >= 15)
  end)

  it("prints what --json prints: an estimate, a sweep, a list", function()
    local step = "--model gpt layers=2 hidden=256 heads=4 vocab=1000 seq=128 micro_batches=2"
    local function run(line)
      local text, status = command.ett(".", line)
      assert.equal(0, status, text)
      return text
    end
    local value = json.decode(run("predict --cluster dgx_h100 --json " .. step))
    local rows = read(run("predict --cluster dgx_h100 --csv --table operators " .. step):gsub("\n$", ""))
    assert.equal(#value.operators, #rows)
    for i, line in ipairs(value.operators) do
      assert.equal(line.name, rows[i].name)
      assert.near(line.seconds, tonumber(rows[i].seconds), 1e-15 * line.seconds)
    end
    value = json.decode(run("sweep --cluster dgx_h100 dp=1,2,4 --json " .. step))
    rows = read(run("sweep --cluster dgx_h100 dp=1,2,4 --csv " .. step):gsub("\n$", ""))
    assert.equal(3, #rows)
    for i, row in ipairs(value.rows) do assert.equal(row.dp, math.tointeger(rows[i].dp)) end
    assert.equal("kind,count", run("list --csv"):match "^[^\n]*")
  end)

  it("lists the tables if the requested one does not exist, and refuses --table alone", function()
    assert.same({ "ett: --table: no table 'cluster'; did you mean 'clusters'?; there are clusters\n", 2 },
      { command.ett(".", "list clusters --csv --table cluster") })
    assert.same({ "ett: list: --table needs --csv\n", 2 }, { command.ett(".", "list --table clusters") })
  end)
end)
