--- Options of a command line.
local options = require "ett.base.options"

local declared = {
  { "cluster", "NAME", "a cluster", default = "perlmutter" }, { "json", "print JSON" },
  { "count", "N", "how many", kind = "count", short = "n" }, { "rate", "R", "a rate", kind = "positive" },
  { "over", "NAME", "again and again", many = true },
}

local function parse(...) return options.parse(declared, { ... }, "x") end
local function message(...)
  local ok, why = pcall(parse, ...)
  assert.is_false(ok)
  return tostring(why)
end

describe("ett.options", function()
  it("parses flags, values, repeats and words", function()
    local opts, words = parse("--json", "-n", "4k", "a=1", "--rate=0.5", "--over", "a", "--over", "b", "--", "--b")
    assert.same({ cluster = "perlmutter", json = true, count = 4000, rate = 0.5, over = { "a", "b" } }, opts)
    assert.same({ "a=1", "--b" }, words)
  end)

  it("refuses what is not declared or not of its kind", function()
    assert.equal("x: unknown option '--cluter'; did you mean '--cluster'?", message("--cluter", "a"))
    assert.equal("x: option '--json' takes no value", message("--json=1"))
    assert.equal("x: option '--count' needs a value", message("--count"))
    assert.equal("x: option '--count' must be a positive integer, got '0'", message("-n", "0"))
    assert.equal("x: option '--rate' must be a number above 0, got '-1'", message("--rate=-1"))
  end)

  it("reads numbers with suffixes", function()
    for text, value in pairs { ["4096"] = 4096, ["4k"] = 4000, ["80G"] = 80000000000, ["2Ki"] = 2048,
      ["1e9"] = 1000000000, ["1.5"] = 1.5 } do
      assert.equal(value, options.number(text))
      assert.equal(math.type(value), math.type(options.number(text)), text)
    end
    for _, text in ipairs { "0x10", "4q", "k", "" } do assert.is_nil(options.number(text)) end
    assert.same({ true, false, "x", 3 }, { options.value "true", options.value "false", options.value "x",
      options.value "3" })
  end)

  it("reads words NAME=VALUE, each name once", function()
    assert.same({ a = "1", b = "x=y" }, options.words({ "a=1", "b=x=y" }, "x"))
    for wanted, words in pairs { ["x: wanted NAME=VALUE, got 'a'"] = { "a" },
      ["x: 'a' is given twice"] = { "a=1", "a=2" } } do
      local ok, why = pcall(options.words, words, "x")
      assert.is_false(ok)
      assert.equal(wanted, tostring(why))
    end
  end)

  it("writes aligned help with defaults", function()
    local text = options.help(declared)
    assert.matches("  --cluster NAME  a cluster (default perlmutter)\n  --json          print JSON\n", text, 1, true)
    assert.matches("  -n, --count N   how many\n", text, 1, true)
    assert.matches("  --help          print this help\n", text, 1, true)
  end)
end)
