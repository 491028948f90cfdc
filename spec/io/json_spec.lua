local json = require "ett.json"
local raised = require "raised"

describe("ett.json.encode", function()
  it("writes the same text every time: sorted keys, shortest digits", function()
    assert.equal('{"a":1,"b":[1,2.5,true,"x"],"c":{}}', json.encode { c = {}, b = { 1, 2.5, true, "x" }, a = 1 })
  end)

  it("keeps integers integers and floats floats", function()
    assert.equal("[3,3.0,9223372036854775807,0.1,1e+300,-0.0]",
      json.encode { 3, 3.0, math.maxinteger, 0.1, 1e300, -0.0 })
  end)

  it("writes every double so that it reads back", function()
    local state = 1
    for _ = 1, 20000 do
      state = state * 6364136223846793005 + 1442695040888963407
      local value = string.unpack("d", string.pack("i8", state))
      if value == value and value ~= math.huge and value ~= -math.huge then
        assert.equal(value, json.decode(json.encode(value)))
      end
    end
  end)

  it("tells an empty array from an empty object", function()
    assert.equal('{"a":[],"o":{}}', json.encode { a = json.array(), o = {} })
    assert.equal('{"a":[],"o":{}}', json.encode(json.decode '{"a":[ ],"o":{}}'))
  end)

  it("takes what __json returns, with the indentation of a plain table", function()
    local inner = setmetatable({}, { __json = function() return { a = { 1 } } end })
    local outer = setmetatable({}, { __json = function() return { b = inner, c = 2 } end })
    assert.equal(json.encode({ b = { a = { 1 } }, c = 2 }, { indent = 2 }), json.encode(outer, { indent = 2 }))
    local own = {}
    setmetatable(own, { __json = function() return { own } end })
    assert.matches("table holds itself", raised(json.encode, own))
  end)

  it("keeps the keys of a table whose value's __json removes them", function()
    local long = ("k"):rep(1 << 26) -- malloc maps it: a read after it is freed ends the process
    local outer = { [long] = 1 }
    outer.a = setmetatable({}, { __json = function()
      outer[long], long = nil, nil
      collectgarbage()
      return 1
    end })
    assert.equal('{"a":1,"kkk', json.encode(outer):sub(1, 11))
  end)

  it("refuses a table whose keys a finaliser changes between count and use", function()
    local function refused(change, cycle) -- the change happens in a cycle of the collector during the call
      local encode, inner = json.encode, { a = 1 }
      local outer = { inner }
      local function arm(left)
        setmetatable({}, { __gc = function() return left > 0 and arm(left - 1) or left == 0 and change(inner) end })
      end
      collectgarbage("incremental", 100, 1000, 63) -- a cycle at the next allocation
      collectgarbage "stop"
      arm(cycle)
      collectgarbage "restart"
      local _, why = pcall(encode, outer)
      collectgarbage("incremental", 200, 100, 13)
      return why == "json: value[1]: the table changed while it was written"
    end
    for i, change in ipairs { function(t) t.b = 1 end, function(t) t.a = nil end, function(t) t.a, t[true] = nil, 1 end,
      function(t) for k = 1, 100 do t["k" .. k] = k end end } do
      local times = 0
      for cycle = 0, 20 do times = times + (refused(change, cycle) and 1 or 0) end
      assert.is_true(times > 0, i)
    end
  end)

  it("reads options without metamethods, and names a wrong one", function()
    assert.equal("[]", json.encode(json.array(), setmetatable({}, { __index = error })))
    assert.matches("field 'indent' must be 0 to 16, got 17", raised(json.encode, {}, { indent = 17 }))
  end)

  it("indents", function()
    assert.equal('{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}\n',
      json.encode({ a = { 1, 2 }, b = {} }, { indent = 2 }))
  end)

  it("writes null for null, nil and, when asked, NaN", function()
    assert.equal("[null]", json.encode { json.null })
    assert.equal("null", json.encode(nil))
    assert.equal('{"x":null}', json.encode({ x = 0 / 0 }, { nan = "null" }))
    assert.equal("null", tostring(json.null))
  end)

  it("escapes what must be escaped", function()
    assert.equal([["\"\\\n\u0001\u007fé"]], json.encode '"\\\n\1\127é')
    assert.equal('"\u{7ff}\\u0080\\u009f\\u0085\u{a0}\xC3\x80"', json.encode "\u{7ff}\u{80}\u{9f}\u{85}\u{a0}\xC3\x80")
    assert.equal('"\\"\\\\\\n\\u0001\\u007f\195\169"', json.encode '"\\\n\1\127\195\169')
  end)

  it("escapes invisible characters, and reads them again", function()
    local text = "a\u{202e}b\u{200b}\u{e0041}\u{10000}\u{e9}"
    assert.equal('"a\\u202eb\\u200b\\udb40\\udc41\u{10000}\u{e9}"', json.encode(text))
    assert.equal(text, json.decode(json.encode(text)))
  end)

  local loop = { list = {} }
  loop.list[1] = { back = loop }
  local deep = {}
  for _ = 1, 200 do deep = { deep } end
  for _, case in ipairs {
    { { a = { b = 0 / 0 } }, "json: value.a.b: number is NaN" },
    { { { 1, math.huge } }, "json: value[1][2]: number is infinite" },
    { { f = print }, "json: value.f: a function has no form in JSON" },
    { { 1, 2, n = 3 }, "json: value: table mixes named and positional fields" },
    { { [1] = 1, [3] = 3 }, "json: value: array has holes" },
    { { s = { [2.5] = 1 } }, "json: value.s: key 2.5 is neither a string nor a position" },
    { { s = "\255" }, "json: value.s: string is not UTF-8" },
    { loop, "json: value.list[1].back: table holds itself" },
  } do
    it("refuses: " .. case[2], function()
      assert.same({ false, case[2] }, { pcall(json.encode, case[1]) }) -- a string, no error object
    end)
  end

  it("refuses values that are nested too deep", function()
    assert.matches("nested deeper than 128 levels$", raised(json.encode, deep))
  end)
end)

describe("ett.json.decode", function()
  it("keeps integers, floats, nulls and strings apart", function()
    local value = json.decode ' {"i": 3, "f": 3.0, "n": null, "b": [true, false], "s": "a\\u00e9\\ud83d\\ude00\\/"} '
    assert.equal("integer", math.type(value.i))
    assert.equal("float", math.type(value.f))
    assert.equal(json.null, value.n)
    assert.same({ true, false }, value.b)
    assert.equal("aé😀/", value.s)
    assert.equal(9007199254740993, json.decode "9007199254740993")
    assert.equal(1e20, json.decode "100000000000000000000")
  end)

  it("keeps the digits of 64-bit integers, and floats floats", function()
    local value = json.decode [[{"id": [-9223372036854775808, 9007199254740991, 9007199254740992],
      "x": [1e3, -0.0, 2.0, "2.0"]}]]
    assert.same({ math.mininteger, 9007199254740991, 9007199254740992 }, value.id)
    for _, id in ipairs(value.id) do assert.equal("integer", math.type(id)) end
    assert.equal("[1000.0,-0.0,2.0,\"2.0\"]", json.encode(value.x))
  end)

  it("reads a text that lua-cjson would read, with its settings left alone", function()
    assert.equal("a\nb", json.decode '"a\\nb"')
    assert.same({ a = 2 }, json.decode '{"a": 1, "a": 2}') -- the last of two equal keys
    assert.same({}, json.decode "\239\187\191{}") -- a byte-order mark
    assert.equal("a\0b", json.decode '"a\\u0000b"')
    assert.equal(math.huge, require("cjson").decode "1e999")
  end)

  for text, wanted in pairs {
    [""] = "t:1:1: expected value but found the end of the text",
    ["[1,]"] = "t:1:4: expected value but found ']'",
    ["[1 2]"] = "t:1:4: expected comma or array end but found '2'",
    ["[[], 2.0,\n]"] = "t:2:1: expected value but found ']'",
    ["{'a':1}"] = "t:1:2: expected object key string but found invalid token",
    ["{\"a\" 1}"] = "t:1:6: expected colon but found '1'",
    ["01"] = "t:1:1: expected value but found invalid number",
    ["0x10"] = "t:1:1: expected value but found invalid number",
    ["[1,\n 1e999]"] = "t:2:2: number too large for a double",
    ["+1"] = "t:1:1: expected value but found invalid token",
    ["NaN"] = "t:1:1: expected value but found invalid token",
    ["[] x"] = "t:1:4: expected the end but found invalid token",
    ["\"a"] = "t:1:3: expected value but found unexpected end of string",
    ["\"a\nb\""] = "t:1:3: control character in a string",
    ["\"\\q\""] = "t:1:2: expected value but found invalid escape code",
    ["\"\\ud800\""] = "t:1:2: expected value but found invalid unicode escape code",
    ["\"ab\255\""] = "t:1:4: not UTF-8",
    ["[1]\0 x"] = "t:1:4: NUL byte: is this text?",
  } do
    it("refuses " .. text:gsub("[\n\0\255]", "?"), function()
      local value, err = json.decode(text, { name = "t" })
      assert.is_nil(value)
      assert.equal(wanted, err.message)
      assert.equal("format", err.kind)
    end)
  end

  it("refuses numbers of more than 1000 characters", function()
    local number = "1" .. ("0"):rep(1000)
    local value, err = json.decode("[1, " .. number .. "]")
    assert.is_nil(value)
    assert.equal("json:1:5: number of more than 1000 characters", err.message)
  end)

  it("bounds the depth", function()
    local _, err = json.decode(("["):rep(100000))
    assert.equal("json:1:257: found too many nested data structures (257)", err.message)
    assert.is_table(json.decode(("["):rep(256) .. ("]"):rep(256)))
  end)
end)

describe("ett.json files", function()
  it("writes whole files and reads them back", function()
    local path = os.tmpname()
    assert.is_true(json.write(path, { a = { 1, 2 } }, { indent = 2 }))
    assert.same({ a = { 1, 2 } }, json.read(path))
    os.remove(path)
  end)

  it("says which file is missing", function()
    local value, err = json.read "/nowhere/x.json"
    assert.is_nil(value)
    assert.equal("cannot read '/nowhere/x.json': no such file or directory", err.message)
    value, err = json.write("/nowhere/x.json", {})
    assert.is_nil(value)
    assert.equal("cannot write '/nowhere/x.json': no such file or directory", err.message)
  end)
end)
