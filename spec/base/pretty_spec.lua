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

  -- The oracle is Python's copy of Unicode: format characters other than visible signs, and separators of lines.
  it("shows invisible characters as \\u{N}, and no others", function()
    assert.equal("a\\u{202e}b\\u{2066}c\\u{200b}\\u{feff}\\u{ad}\\u{e0041}d e", pretty.plain
      "a\u{202e}b\u{2066}c\u{200b}\u{feff}\u{ad}\u{e0041}d e")
    local python = io.popen [[python3 -c '
import unicodedata
for c in range(0xa0, 0x30000):
    kind = unicodedata.category(chr(c))
    visible = c in (0x6dd, 0x70f, 0x890, 0x891, 0x8e2, 0x110bd, 0x110cd) or c >> 3 == 0xc0 or c >> 5 in (0x9a1, 0x9a2)
    if kind in ("Cf", "Zl", "Zp") and not visible:
        print(c, 1)
    elif kind[0] in "NPSZ" or kind in ("Lu", "Ll", "Lt", "Lm"):
        print(c, 0)
' 2>/dev/null]]
    local codes, hidden = 0, 0
    for code, is_hidden in python:read("a"):gmatch "(%d+) (%d)" do
      local text = utf8.char(code)
      local wanted = is_hidden == "1" and ("\\u{%x}"):format(code) or text
      if pretty.plain(text) ~= wanted then assert.equal(wanted, pretty.plain(text)) end
      codes, hidden = codes + 1, hidden + is_hidden
    end
    python:close()
    if codes == 0 then pending "no python3" return end
    assert.is_true(codes > 5000 and hidden > 30)
  end)

  it("survives a __tostring that fails", function()
    assert.equal("<table: its __tostring failed>", pretty.show(setmetatable({}, { __tostring = error })))
  end)
end)
