local oom = require "oom"
local trace = require "ett.trace"

describe("ett.trace", function()
  local paths = {}
  setup(function()
    local base = os.tmpname()
    local list = {}
    for i = 1, 16 do
      list[i] = ('{"ph":"X","cat":"kernel","name":"k\\u00e9%d","ts":%d,"dur":5,"pid":"p%d","tid":%d,' ..
        '"args":{"n":%d,"c":"text %d"}}'):format(i, i * 3, i % 3, i, i, i)
    end
    paths[1] = base .. ".json"
    local file = assert(io.open(paths[1], "w"))
    file:write('{"distributedInfo":{"rank":0},"traceEvents":[', table.concat(list, ","), ']}')
    file:close()
    paths[2] = base .. ".json.gz"
    os.execute(("gzip -c %q > %q"):format(paths[1], paths[2]))
    local host = require "ett.host"
    for i, name in ipairs { "trace_xplane/tpu.pb", "trace_json/quotes.json", "trace_rocprof/array.json",
      "trace_chakra/placed.et" } do
      local seed = assert(io.open(host.root .. "/spec/fuzz/corpus/" .. name, "rb"))
      paths[2 + i] = base .. "." .. i .. name:match "%.%a+$"
      local copy = assert(io.open(paths[2 + i], "wb"))
      copy:write(seed:read("a"))
      copy:close()
      seed:close()
    end
  end)
  teardown(function()
    for _, path in ipairs(paths) do os.remove(path) end
  end)

  local function use(path, options)
    local t, err = trace.open(path, options)
    if not t then return nil, err end
    local all = t:events { class = "kernel", names = t:name_set(function() return true end) }
    local result = { all:intervals():measure(), #all:group { "name", "tid" }, #all:stats { by = "arg:c",
      percentiles = { 50 } }, #(all:match(all) + all:enclosing(all)), all:sort("dur"):total(),
      #all:nested(), select(2, all:hulls(all:enclosing(all))), all:named_hulls(all, all) }
    t:close()
    return result[1]
  end

  it("survives failed allocations", function()
    for _, path in ipairs(paths) do
      oom.every_allocation(function() return use(path, { args = { "n", "c" }, threads = 1 }) end)
    end
  end)
end)
