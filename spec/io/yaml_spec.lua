local json = require "ett.json"
local yaml = require "ett.yaml"

describe("ett.yaml.decode", function()
  for text, wanted in pairs {
    ["1.26e9"] = "1260000000.0", ["12"] = "12", ["-7"] = "-7", ["+3"] = "3", ["0x1F"] = "31", ["0o17"] = "15",
    [".5"] = "0.5", ["1."] = "1.0", ["'12'"] = '"12"', ["yes"] = '"yes"', ["1_000"] = '"1_000"', ["~"] = "null",
    ["null"] = "null", ["NULL"] = "null", ["nUll"] = '"nUll"', ["True"] = "true", ["false"] = "false",
    ["!!str 12"] = '"12"', ["!!float 12"] = "12.0", ["[]"] = "[]", ["{}"] = "{}", ["''"] = '""', ["0x"] = '"0x"',
    ["0xaFg"] = '"0xaFg"', ["0o18"] = '"0o18"', ["0xaF"] = "175",
    ["[1, 'b', null, [x]]"] = '[1,"b",null,["x"]]', ["{a: 1, \"b\":2, 'c':[3],}"] = '{"a":1,"b":2,"c":[3]}',
    ["a: &x [1, 2]\nb: *x"] = '{"a":[1,2],"b":[1,2]}', ["&s hello"] = '"hello"',
    ["- a\n- b: |\n    two\n    lines\n"] = '["a",{"b":"two\\nlines\\n"}]', ["12e03"] = "12000.0",
    ["9223372036854775808"] = "9.223372036854775808e+18", ["\239\187\191a: 1"] = '{"a":1}',
  } do
    it("reads " .. text:gsub("\n", "\\n"), function()
      local value, why = yaml.decode(text)
      if value == nil then error(why) end
      local got = json.encode(value)
      if wanted:find("e+18", 1, true) then assert.equal(tonumber(wanted), value) else assert.equal(wanted, got) end
    end)
  end

  it("reads infinities and NaN", function()
    assert.equal(math.huge, yaml.decode ".inf")
    assert.equal(-math.huge, yaml.decode "-.INF")
    local nan = yaml.decode ".NaN"
    assert.is_true(nan ~= nan)
  end)

  it("says on which line each field stands", function()
    local value, lines = yaml.decode "a: 1\nlist:\n  - x\n  -\n    deep: 2\n"
    assert.equal(1, lines[value].a)
    assert.equal(2, lines[value].list)
    assert.equal(3, lines[value.list][1])
    assert.equal(5, lines[value.list[2]].deep)
  end)

  -- As PyYAML 6: own keys, then those of the first mapping of a list; a merged mapping has merged its own before.
  it("merges mappings under the key <<, as YAML 1.1 does", function()
    local value, lines = yaml.decode(table.concat({ "a: &a {x: 1, y: [2]}", "b: &b", "  y: 3", "  <<: *a", "  z: 4",
      "c: {<<: [{z: 5}, *b], \"<<\": 6}" }, "\n"))
    assert.same({ a = { x = 1, y = { 2 } }, b = { x = 1, y = 3, z = 4 }, c = { x = 1, y = 3, z = 5, ["<<"] = 6 } },
      value)
    assert.same({ x = 1, y = 3, z = 5 }, lines[value.b])
    assert.same({ x = 1 }, yaml.decode "!!merge <<: {x: 1}")
  end)

  local bomb = { "a0: &a0 [x,x,x,x,x,x,x,x,x,x]" }
  for i = 1, 9 do
    bomb[#bomb + 1] = ("a%d: &a%d [%s]"):format(i, i, (("*a%d,"):format(i - 1)):rep(10))
  end
  local merges = { "a0: &a0 {x: 1}" }
  for i = 1, 30 do merges[#merges + 1] = ("a%d: &a%d {<<: [*a%d, *a%d]}"):format(i, i, i - 1, i - 1) end
  local chain = { "b0: &b0 [x]" }
  for i = 1, 70 do chain[#chain + 1] = ("b%d: &b%d [*b%d]"):format(i, i, i - 1) end
  for text, wanted in pairs {
    ["a: 1\nb: 2\na: 3"] = "t: line 3: key 'a' appears twice",
    ["a: 1\n1: 2\n1: 3"] = "t: line 3: key '1' appears twice",
    [""] = "t: holds no value (empty, or comments only)",
    ["# only\n"] = "t: holds no value (empty, or comments only)",
    ["a: 1\n---\nb: 2"] = "t: line 2: expected one document, found a second",
    ["a: !ruby/object x"] = "t: line 1: unknown tag '!ruby/object'",
    ["!!int x"] = "t: line 1: 'x' is no int, as its tag says",
    ["? [a]\n: 1"] = "t: line 1: a key must be a scalar, got a container",
    ["~: 1"] = "t: line 1: a key must not be null or NaN",
    ["a: *b"] = "t: line 1: alias '*b' has no anchor before it",
    ["&a [*a]"] = "t: line 1: alias '*a' is inside its own anchor",
    ["b:\n  <<: 7"] = "t: line 2: '<<' merges a mapping or a list of mappings, such as *anchor; found another value",
    ["a: &a [1]\n<<:\n  - *a"] = "t: line 3: '<<' merges a mapping or a list of mappings, such as *anchor; found "
      .. "another value",
    ["a: &a {x: 1}\nb: {<<: *a, <<: *a}"] = "t: line 2: key '<<' appears twice",
    [table.concat(merges, "\n")] = "t: line 18: aliases expand to more than 1000000 values",
    ["a: 1\nb: \255\254"] = "t: line 2: not UTF-8 at byte 8 (0xff)",
    ["\255\254a\0"] = "t: line 1: not UTF-8 at byte 0 (0xff)",
    ["a: \0"] = "t: line 1: NUL at byte 3; is this text?",
    ["a: [1, 2\nb: 3"] = "t: line 2: column 2: did not find expected ',' or ']' while parsing a flow sequence "
      .. "that began on line 1",
    ["a:\n\t- 1"] = "t: line 2: column 1: found character that cannot start any token while scanning for the "
      .. "next token that began on line 2",
    [table.concat(bomb, "\n")] = "t: line 6: aliases expand to more than 1000000 values",
    [table.concat(chain, "\n")] = "t: line 64: aliases nest deeper than 64 levels",
    [("["):rep(5000)] = "t: line 1: nested deeper than 64 levels",
    [("- "):rep(5000) .. "x"] = "t: line 1: nested deeper than 64 levels",
  } do
    it("refuses " .. text:sub(1, 40):gsub("%c", " "):gsub("[\128-\255]", "?"), function()
      local value, err = yaml.decode(text, "t")
      assert.is_nil(value)
      assert.equal(wanted, err.message)
    end)
  end

  it("bounds the number of values", function()
    local _, err = yaml.decode("[" .. ("x,"):rep(1000001) .. "]", "t")
    assert.equal("t: line 1: more than 1000000 values", err.message)
    assert.equal("limit", err.kind)
  end)
end)

describe("ett.yaml.read", function()
  it("refuses a file of 64 GB before it reads it", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:seek("set", 64 * 1024 ^ 3 // 1 | 0) -- sparse; to read it takes more than 5 s
    file:write("x")
    file:close()
    local started = os.clock()
    local value, err = yaml.read(path)
    os.remove(path)
    assert.is_nil(value)
    assert.equal(("'%s' is larger than the limit of 16777216 bytes for its kind"):format(path), err.message)
    assert.is_true(os.clock() - started < 1)
  end)

  it("says which file is missing", function()
    local _, err = yaml.read "/nowhere.yml"
    assert.equal("cannot read '/nowhere.yml': no such file or directory", err.message)
  end)

  it("reads the reference's configurations", function()
    local folder = os.getenv("ETT_REFERENCE") or ""
    local config, lines = yaml.read(folder .. "/estimate-train-time/examples/llemma_7b_4_2_2_P.yml")
    if not config then pending("reference data are not here: " .. lines.message) return end
    assert.equal(1260000000, config.comm_bucket)
    assert.same({ 4, 2, 2, 4, 32, 4096, 4096, 8, 4 }, config.training_config)
    assert.equal(8, lines[config].comm_bucket)
    assert.equal(11, #config.encoder_function_list)
  end)
end)
