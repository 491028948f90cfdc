local csv = require "ett.csv"
local files = require "ett.io"
local json = require "ett.json"
local oom = require "oom"
local testing = require "ett.testing"
local yaml = require "ett.yaml"

describe("bindings of runtime/io with failing allocations:", function()
  local path = os.tmpname()
  assert(files.write(path, '{"a": [1, 2]}'))
  local value = { list = { 1, 2.5, "x", { deep = json.array() } }, text = ("é"):rep(200), n = json.null }
  local table_of = assert(csv.decode("a,b\n1,2\n3,4\n"))
  for name, fn in pairs {
    ["json.encode"] = function() return json.encode(value, { indent = 2 }) end,
    ["json.decode"] = function() return json.decode '{"a": [1, {"b": "\\u00e9x\\n"}], "c": null, "d": []}' end,
    ["json.decode of faults"] = function() return pcall(json.decode, '{"a": [1, {"b": "\\u00e9x\\n"}], "c" null}') end,
    ["json.write"] = function() return json.write(path, value) end,
    ["json.read"] = function() return json.read(path) end,
    ["yaml.decode"] = function()
      return yaml.decode "a: &x [1, two, {b: 3.5}]\nc: *x\ne: &e {f: 1}\ng: {<<: [*e]}\nd: |\n  text\n"
    end,
    ["csv.decode"] = function() return csv.decode('# c\na,"b ""x"""\n1,2\n3,"4\n5"\n', { required = { "a" } }) end,
    ["csv columns"] = function() return table_of:numbers("a", "count"), table_of:strings "b" end,
    ["io.read and write"] = function()
      local ok, err = files.write(path .. "2", "text")
      if not ok then return nil, err end
      return files.read(path .. "2")
    end,
    ["io.temporary"] = function()
      local own <close>, err = files.temporary "/tmp"
      return own and own:path(), err
    end,
    ["io.hash"] = function() return files.hash("a", "b") end,
  } do
    it(name, function() assert.is_true(oom.every_allocation(fn) > 0) end)
  end

  it("the harness itself sees a leak and a wrong error", function()
    local kept = {}
    if testing.blocks() then
      local ok, why = pcall(oom.every_allocation, function()
        kept[#kept + 1] = {}
        return json.encode(value)
      end)
      assert.is_false(ok)
      assert.matches("^%d+ blocks leaked in %d+ runs with failed allocations$", why)
    end
    local ok, why = pcall(oom.every_allocation, function()
      local done, text = pcall(json.encode, value)
      if done then return text end
      return nil, "something else"
    end)
    assert.is_false(ok)
    assert.matches("wanted a memory error, got: something else$", why)
  end)

  teardown(function()
    os.remove(path)
    os.remove(path .. "2")
  end)
end)
