local json = require "ett.json"

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
    assert.equal('{"a":[],"o":{}}', json.encode(json.decode '{"a":[],"o":{}}'))
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
    assert.equal('"\\"\\\\\\n\\u0001\\u007f\195\169"', json.encode '"\\\n\1\127\195\169')
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
      local ok, why = pcall(json.encode, case[1])
      assert.is_false(ok)
      assert.equal(case[2], why)
    end)
  end

  it("refuses what is nested too deep", function()
    local ok, why = pcall(json.encode, deep)
    assert.is_false(ok)
    assert.matches("nested deeper than 128 levels$", why)
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

  it("reads Python literals when asked", function()
    local value = json.decode("{'max_depth': 10, 'max_features': None, 'p': (1, .5, 2.,), 'b': True}",
      { dialect = "python" })
    assert.same({ max_depth = 10, max_features = json.null, p = { 1, 0.5, 2.0 }, b = true }, value)
  end)

  for text, wanted in pairs {
    ["{\n  \"a\": 1,\n  \"a\": 2}"] = "t: line 3 (byte 14): key 'a' appears twice",
    [""] = "t: line 1 (byte 0): wanted a value, got the end of the text",
    ["[1,]"] = "t: line 1 (byte 3): wanted a value, got ']'",
    ["[1 2]"] = "t: line 1 (byte 3): wanted ',' or ']', got '2'",
    ["{'a':1}"] = "t: line 1 (byte 1): wanted a quoted key, got '''",
    ["{\"a\" 1}"] = "t: line 1 (byte 5): wanted ':' after the key, got '1'",
    ["01"] = "t: line 1 (byte 0): malformed number '01'",
    ["1."] = "t: line 1 (byte 0): malformed number '1.'",
    ["1e999"] = "t: line 1 (byte 0): number too large for a double",
    ["+1"] = "t: line 1 (byte 0): wanted a value, got '+'",
    ["NaN"] = "t: line 1 (byte 0): wanted a value, got 'NaN'",
    ["[] x"] = "t: line 1 (byte 3): wanted nothing after the document, got 'x'",
    ["\"a"] = "t: line 1 (byte 0): string without an end",
    ["\"a\nb\""] = "t: line 1 (byte 2): control character 0x0a in a string",
    ["\"\\q\""] = "t: line 1 (byte 1): unknown escape",
    ["\"\\ud800\""] = "t: line 1 (byte 1): lone high surrogate",
    ["\"ab\255\""] = "t: line 1 (byte 3): not UTF-8",
  } do
    it("refuses " .. text:gsub("[\n\255]", "?"), function()
      local value, err = json.decode(text, { name = "t" })
      assert.is_nil(value)
      assert.equal(wanted, err.message)
      assert.equal("format", err.kind)
    end)
  end

  it("bounds the depth", function()
    local _, err = json.decode(("["):rep(100000))
    assert.matches("nested deeper than 256 levels$", err.message)
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
