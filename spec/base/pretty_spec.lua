local pretty = require "ett.base.pretty"

describe("ett.pretty", function()
  local loop = { name = "loop" }
  loop.self = loop
  for wanted, value in pairs {
    ["{ 1, 2, a = {}, b = \"x\\n\", [\"c d\"] = true }"] = { 1, 2, b = "x\n", a = {}, ["c d"] = true },
    ["{ name = \"loop\", self = <cycle> }"] = loop,
    ["{ 3, [0] = 1, [2.5] = 2 }"] = { [0] = 1, [2.5] = 2, 3 },
    ["inf"] = math.huge, ["0.333333"] = 1 / 3, ["text"] = "text",
    ["own"] = setmetatable({}, { __tostring = function() return "own" end }),
  } do
    it(wanted, function() assert.equal(wanted, pretty.show(value)) end)
  end

  it("breaks long tables into lines, and bounds depth and count", function()
    local long = { first = ("a"):rep(60), second = ("b"):rep(60) }
    assert.equal(('{\n  first = "%s",\n  second = "%s",\n}'):format(long.first, long.second), pretty.show(long))
    local deep = {}
    for _ = 1, 20 do deep = { deep } end
    assert.equal("{ { { { { { {...} } } } } } }", pretty.show(deep))
    local many = {}
    for i = 1, 1000 do many[i] = i end
    assert.matches("%.%.%. 800 more,\n}$", pretty.show(many))
  end)

  it("shows control characters and bytes that are not UTF-8 as \\xNN", function()
    assert.equal("h\xC3\xA9 \\x1b[31m\n\\x9b\\xff\\xfeok\\xc3",
      pretty.plain "h\xC3\xA9 \27[31m\n\xC2\x9B\xFF\xFEok\xC3")
    assert.equal("\\xed\\xa0\\x80", pretty.plain "\xED\xA0\x80") -- a surrogate
  end)

  it("survives a __tostring that fails", function()
    assert.equal("<table: its __tostring failed>", pretty.show(setmetatable({}, { __tostring = error })))
  end)
end)
