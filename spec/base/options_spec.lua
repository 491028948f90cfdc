--- Options of a command: kinds, prefixes, messages and help.
local options = require "ett.base.options"
local raised = require "raised"

local command = { name = "x", usage = "x [WORD ...]", summary = "test", options = {
  { "count", "N", "how many", kind = "count", default = 2, short = "n" },
  { "rate", "R", "rate", kind = "number" }, { "whole", "N", "whole", kind = "whole" },
  { "both", "A", "repeated", many = true }, { "form", "F", "form", choices = { "csv", "json" } },
  { "form_extra", "F", "extension", extension = true }, { "json", "print JSON" } } }

local function refusal(argv, changed)
  local ok, why = pcall(options.parse, setmetatable(changed or {}, { __index = command }), argv)
  assert.is_false(ok)
  assert.equal("usage", why.kind)
  return why.message
end

describe("ett.base.options", function()
  it("reads values, flags, words and defaults", function()
    local opts, words = options.parse(command, { "a=1", "--rate", "-1.5", "--both=1", "--both", "2", "b", "--json",
      "--", "--c" })
    assert.same({ count = 2, rate = -1.5, both = { "1", "2" }, json = true }, opts)
    assert.same({ "a=1", "b", "--c" }, words)
    assert.equal(4000, options.parse(command, { "-n", "4k" }).count)
  end)

  it("reads whole names without argparse, to the same values", function()
    local function both(argv)
      local loaded = package.loaded.argparse
      package.loaded.argparse = nil
      local opts, words = options.parse(command, argv)
      assert.is_nil(package.loaded.argparse)
      package.loaded.argparse = loaded
      local as_before, rest = options.parse(command, table.move(argv, 1, #argv, 1, { [#argv + 1] = "--" }))
      assert.same({ as_before, rest }, { opts, words })
      return opts
    end
    both {}
    both { "a", "b=1" }
    assert.same({ count = 4000, json = true, form = "csv", rate = 1.5 },
      both { "a", "--count", "4k", "--json", "--form", "csv", "b", "--rate", "1.5" })
  end)

  it("refuses a second value of an option, and names both", function()
    assert.equal("x: option '--count' is given twice: '3' and '4k'", refusal { "-n", "3", "--count", "4k" })
    assert.equal("x: option '--form' is given twice: 'csv' and 'csv'", refusal { "--form=csv", "--form", "csv" })
    assert.same({ json = true, count = 2, both = { "1", "1" } },
      (options.parse(command, { "--json", "--both=1", "--json", "--both=1" })))
  end)

  it("names the option and the nearest name", function()
    assert.equal("x: unknown option '--jsno'; did you mean '--json'?", refusal { "--jsno" })
    assert.equal("x: option '--count' must be a positive integer, got '0'", refusal { "--count=0" })
    assert.equal("x: option '--rate' requires an argument", refusal { "--rate", "--json" })
    local known = "; numbers may end in k, M, G or B, T, P (powers of 1000) or Ki, Mi, Gi, Ti (of 1024)"
    assert.equal("x: option '--rate' must be a number, got '15t'" .. known, refusal { "--rate=15t" })
    assert.equal("x: option '--count' must be a positive integer, got '8kb'" .. known, refusal { "--count=8kb" })
    assert.equal("x: option '--count' must be a positive integer, got '-8k'", refusal { "--count=-8k" })
    assert.equal("x: option '--rate' must be a number, got 'nan'", refusal { "--rate=nan" })
    assert.equal("x: option '--json' does not take arguments", refusal { "--json=1" })
    assert.equal("x: option '--whole' must be a whole number of at most 2^53, in digits, got '1e2'",
      refusal { "--whole=1e2" })
    assert.truthy(refusal({ "--form", "csw" }):find("must be one of csv, json, got 'csw'; did you mean 'csv'", 1, true))
    assert.equal("x: takes no arguments, got 'a'", refusal({ "a" }, { words = false }))
    assert.equal("x: missing --a; `ett x --help` lists the options",
      refusal({}, { options = { { "a", "A", "needed", required = true } } }))
  end)

  it("completes prefixes where a command allows them", function()
    local prefixed = setmetatable({ prefixes = true }, { __index = command })
    assert.equal("csv", options.parse(prefixed, { "--for", "csv" }).form) -- extensions do not make a prefix ambiguous
    assert.equal(1.5, options.parse(prefixed, { "--r=1.5" }).rate)
    assert.equal("x: ambiguous option '--co': it may be --count, --cost", refusal({ "--co=1" },
      { prefixes = true, options = { command.options[1], { "cost", "C", "cost" } } }))
    assert.equal("x: unknown option '--ra'; did you mean '--rate'?", refusal { "--ra", "1" })
  end)

  it("prints every help within the terminal's width", function()
    local host = require "ett.host"
    local before = host.columns
    finally(function() host.columns = before end)
    host.columns = 72
    for _, one in ipairs(require("ett.cli.commands").all()) do
      local more = type(one.description) == "string" and one.description or nil
      for line in options.help(one, more):gmatch "[^\n]+" do
        assert.is_true(utf8.len(line) <= 72, one.name .. ": " .. line)
      end
    end
  end)

  it("fills the sentences of man pages, and keeps tables within 72 columns", function()
    local command_line = require "command"
    for _, name in ipairs { "predict", "optimize", "samples" } do
      local page = command_line.ett(".", "manual " .. name):match "\n%.SH DESCRIPTION\n(.-)\n%.SH"
      local inside = false
      for line in page:gmatch "[^\n]+" do
        if line == ".nf" or line == ".fi" then inside = line == ".nf" end
        assert.equal(inside and line ~= ".nf", line:find "^ " ~= nil, line)
        assert.is_true(not inside or utf8.len((line:gsub("\\(.)", "%1"))) <= 72, line)
      end
    end
  end)

  it("prints help from the declarations", function()
    local text = options.help(command, "More.")
    assert.equal("usage: ett x [WORD ...]\n\ntest\n\nMore.\n\noptions:\n", text:match "^.-options:\n")
    assert.truthy(text:find("\n  %-n, %-%-count N +how many %(default 2%)\n"))
    assert.truthy(text:find("\n  --form csv|json  form\n", 1, true))
    assert.truthy(text:find("\n  --traceback      print where an error was raised", 1, true))
  end)

  it("reads numbers with suffixes", function()
    for text, value in pairs { ["4096"] = 4096, ["4k"] = 4000, ["80G"] = 80000000000, ["2Ki"] = 2048,
      ["15B"] = 15000000000, ["1e9"] = 1000000000, ["1.5"] = 1.5 } do
      assert.equal(value, options.number(text))
      assert.equal(math.type(value), math.type(options.number(text)), text)
    end
    for _, text in ipairs { "0x10", "4q", "k", "" } do assert.is_nil(options.number(text)) end
    assert.same({ true, false, "x", 3 }, { options.value "true", options.value "false", options.value "x",
      options.value "3" })
  end)

  it("reads words NAME=VALUE, each name once", function()
    assert.same({ a = "1", b = "x=y" }, options.words({ "a=1", "b=x=y" }, "x"))
    for wanted, words in pairs { ["x: expected NAME=VALUE, got 'a'"] = { "a" },
      ["x: 'a' is given twice: '1' and '2'"] = { "a=1", "a=2" } } do
      assert.equal(wanted, raised(options.words, words, "x"))
    end
  end)
end)
