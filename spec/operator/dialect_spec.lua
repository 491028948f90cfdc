--- A dialect is a file: another tool's names and tables are read without a line in the core.
local command = require "command"
local dialect = require "ett.operator.dialect"
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local operator = require "ett.operator"
local raised = require "raised"

describe("a dialect beside the script", function()
  local folder = command.each_folder(_ENV)

  local function write(text)
    folders.write(folder .. "/lua/ett/import/mine/dialect.lua", text)
    find.set_script_folder(folder)
    operator.forget()
  end

  before_each(function() folders.write_with_folder(folder .. "/lua/ett/import/mine/init.lua", "") end)
  after_each(function()
    find.set_script_folder(nil)
    operator.forget()
  end)

  it("gives operators names, and rows of its tables shapes", function()
    write [[return { name = "mine", summary = "s", source = "s", operators = { dropout = { aliases = { "my_drop" },
      columns = { "n" }, shape = function(op, row) return { name = op.name, n = row.n } end } } }]]
    local op = operator.get "my_drop"
    assert.equal("dropout", op.name)
    assert.same({ "n" }, op.sample_row.columns)
    assert.same({ name = "dropout", n = 7 }, op.sample_row.shape { n = 7 })
  end)

  it("names the stand-in operator for a shape that lacks a field", function()
    write [[return { name = "mine", summary = "s", source = "s", stand_ins = { gelu = { lacks = "width",
      operator = "dropout", shape = function(s) return { tokens = s.tokens, width = 1 } end } } }]]
    local one = dialect.stand_ins("gelu")[1]
    assert.same({ "dropout", "width" }, { one.operator, one.lacks })
    assert.same({ tokens = 3, width = 1 }, one.shape { tokens = 3 })
    assert.same({}, dialect.stand_ins "dropout")
  end)

  it("names collectives", function()
    local collective = require "ett.operator.collective"
    assert.is_nil(collective.find "sum_all")
    write [[return { name = "mine", summary = "s", source = "s", collectives = { sum_all = "all_reduce" } }]]
    assert.equal("all_reduce", collective.kind "sum_all")
    assert.is_nil(collective.find(nil))
  end)

  it("with an unknown field is refused by its file", function()
    write [[return { name = "mine", summary = "s", source = "s", operators = { gelu = { colums = {} } } }]]
    assert.matches("mine/dialect.lua: operators: gelu: unknown field 'colums'; did you mean 'columns'",
      raised(dialect.list), 1, true)
  end)
end)
