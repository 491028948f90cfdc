--- The bindings of all rooms: messages name wrong elements of lists, and finalisers may run twice.
local command = require "command"
local step_core = require "step_core"

local folder = command.folder()
command.write(folder, "t.json", '{ "schemaVersion": 1, "traceEvents": [ { "ph": "X", "cat": "kernel", "name": "k", '
  .. '"pid": 0, "tid": 1, "ts": 1, "dur": 1 } ] }')

local function why(fn, ...)
  local ok, raised = pcall(fn, ...)
  assert.is_false(ok)
  return type(raised) == "table" and raised.message or raised
end

local function program(change)
  local given = { operations = { { name = "a" } }, kinds = { { place = "middle", count = 2, uses = { 1 } } } }
  if change then change(given) end
  return given
end

local made = 0

--- One object of each type that has a resource and needs no device.
local function objects()
  made = made + 1
  local sample, step, trace = require "ett.sample", require "ett.step", assert(
    require("ett.trace").open(folder .. "/t.json"))
  return { csv = assert(require("ett.csv").decode "a\n1\n"), program = step_core.program(program()),
    demands = step.demands(), combinations = require("ett.search").combinations({}, {}),
    ledger = require("ett.ledger_program").new { inputs = { "p" }, defaults = { 1 }, constants = {}, code = {},
      outputs = { "p" }, registers = { 0 } }, trace = trace, selection = trace:events(),
    interval = require("ett.interval").new { { 1, 5 } }, tensor = sample.tensor(4), design = assert(
      sample.design { 1, 1 }), surface = assert(sample.surface({ 1, 2, 3, 4 }, 1, { 1, 2, 3, 4 })),
    pool = require("ett.cpu").pool(0, 1), temporary = assert(require("ett.io").temporary(folder)),
    journal = assert(sample.journal(folder .. "/j" .. made, "h\n")) }
end

describe("a wrong element of a list is named, in", function()
  local step, search, sequence = require "ett.step", require "ett.search", require "ett.sequence"
  local rows = objects().selection
  local axes = { recompute = { "none" }, zero = { 0 }, reshard = { true }, overlap_parameters = { false },
    overlap_gradients = { false }, overlap_sends = { true, {} } }
  local places = { pp = 1, tp = 1, cp = 1, ep = 1, etp = 1, dp = 2, rank_order = 18056, gpus_per_node = 8 }
  local function place(changes) return require("ett.base.merged")(places, changes) end
  for wanted, case in pairs {
    ["'operations[1]' must be a table, got number"] = { step_core.program,
      program(function(p) p.operations[1] = 1 end) },
    ["'forward[2]' must be a number, got table"] = { step_core.program,
      program(function(p) p.operations[1].forward = { 1, {} } end) },
    ["'uses[1]' must be an integer, got 0.5"] = { step_core.program,
      program(function(p) p.kinds[1].uses = { 0.5 } end) },
    ["'policy_uses[1]' must be a number, got boolean"] = { step_core.program,
      program(function(p) p.kinds[1].policy_uses = { true } end) },
    ["field 'split' must be a table, got string"] = { function()
      local p <close> = step_core.program(program())
      local demands <close> = step.demands()
      local workspace <close> = step.workspace()
      return p:totals(step_core.plan { split = "a" }, demands, workspace)
    end },
    ["field 'rank_map' must be a map of ett.step, got table"] = { step.place, place { rank_map = {} }, "dp" },
    ["field 'cp_ulysses' must be an integer, got string"] = { step.place, place { cp_ulysses = "a" }, "dp" },
    ["field 'etp' must be 1 to 1048576, got 0"] = { step.place, place { etp = 0 }, "dp" },
    ["field 'dp' must be 1 to 1048576, got 2097152"] = { step.axes, place { dp = 1 << 21 }, "dp" },
    ["the plan has more than 2^63 ranks"] = { step.place,
      place { dp = 1 << 20, tp = 1 << 20, cp = 1 << 20, pp = 1 << 20 }, "dp" },
    ["has too many ranks"] = { step.parts, place { dp = 1 << 20, tp = 1 << 10 } },
    ["schedule 'custom' needs 'orders' of ett.step, got nil"] = { step.pipeline, { schedule = "custom", stages = 1,
      chunks = 1, micro_batches = 1, group = 1, blocking_sends = false, blocking_receives = false } },
    ["field 'slice' must be a table, got number"] = { step.orders, { { { "F", 1, 1 }, { "B", 1, 1 } } },
      { chunks = 1, ways = 1, slice = 1 } },
    ["'most[1]' must be an integer, got nil"] = { step.orders, { { { "F", 1, 1 }, { "B", 1, 1 } } },
      { chunks = 1, ways = 1, slice = { 1 }, most = {} } },
    ["field 'values' must be a table, got nil"] = { search.combinations, { { name = "pp", count = 1 } }, {} },
    ["'overlap_sends[2]' must be an integer, got table"] = { search.axes, axes },
    ["'keys[2]' must be a string, got table"] = { rows.group, rows, { "name", {} } },
    ["keys must be a name or a list of names, got number"] = { rows.stats, rows, { by = 1 } },
    ["'fields[1]' must be a string, got nil"] = { rows.columns, rows, { nil, "ts" } },
    ["'rows' of source 1 must be a selection, got nil"] = { sequence.of, rows, { {} } },
    ["'homes[1]' must be an integer, got string"] = { function()
      return sequence.new({ 10 }, { 15 }):split({ "a" }, 1)
    end },
    ["item 2 must be a sequence, got nil"] = { sequence.matches, { sequence.new({ 1 }, { 5 }), nil, 1 }, { 0, 0 }, {} },
    ["filter 'min_dur' must be an integer, got table"] = { rows.where, rows, { min_dur = {} } },
    ["filter 'min_dur' must be an integer, got 1.5"] = { rows.where, rows, { min_dur = 1.5 } },
    ["field 'name' must be a string, got number"] = { require("ett.csv").decode, "a\n1\n", { name = 1 } },
    ["'p[2]' must be a number, got nil"] = { function() return objects().ledger:bounds { p = { 1 } } end },
    ["parameter 'p' must be a number or { low, high }, got string"] = { function()
      return objects().ledger:bounds { p = "a" }
    end },
    ["'integers[2]' must be an integer, got string"] = { function()
      return require("ett.sample").tensor(4):integers { 1, "a" }
    end },
    ["must hold 32-bit integers"] = { function() return require("ett.sample").tensor(4):integers { 1 << 31 } end },
  } do
    it(wanted, function()
      local raised = why(table.unpack(case, 1, 5))
      assert.is_truthy(raised:find(wanted, 1, true), raised)
    end)
  end
end)

it("no script changes what C objects and functions rely on", function()
  local tensor, value = objects().tensor, 1
  for name, object in pairs { setmetatable = tensor, setupvalue = debug.getmetatable(tensor).__gc,
    setuservalue = tensor } do
    assert.equal(("debug.%s: objects and functions of C cannot be changed"):format(name),
      why(debug[name], object, name ~= "setmetatable" and 1 or {}, 1))
  end
  debug.setupvalue(function() return value end, 1, 2)
  assert.equal(2, value)
  debug.getregistry()["FILE*"] = debug.getmetatable(tensor)
  assert.equal("file", io.type(assert(io.tmpfile())))
  assert.is_nil(debug.getregistry()._CLIBS)
  local raised, own = nil, 1
  table.sort({ 1, 2 }, function(a, b)
    raised = why(debug.setlocal, 4, 1, "x") -- within pcall and why
    return a < b
  end)
  assert.equal("debug.setlocal: (C temporary) has no name; only variables with a name can be changed", raised)
  local i, name = 0
  repeat i, name = i + 1, debug.getlocal(1, i + 1) until name == "own"
  assert.equal("own", debug.setlocal(1, i, 2))
  assert.equal(2, own)
end)

describe("a finaliser that a script calls", function()
  for name, object in pairs(objects()) do
    it("closes the " .. name, function()
      local meta = debug.getmetatable(object)
      for _ = 1, 2 do meta.__gc(object) end
      local called = 0
      for method, call in pairs(type(meta.__index) == "table" and meta.__index or { index = meta.__index }) do
        if not ("close iter"):find(method, 1, true) then
          called = called + 1
          for _, arguments in ipairs { {}, { 1, 1, 1 }, { {}, {}, {} }, { "a", "a", "a" } } do
            local raised = why(call, object, table.unpack(arguments))
            assert.is_truthy(raised:find("closed", 1, true) or raised:find("bad argument", 1, true),
              method .. ": " .. raised)
          end
        end
      end
      assert.is_true(called > 0)
    end)
  end

  it("does nothing in another finaliser, because a call may use the object", function()
    local tensor = objects().tensor
    setmetatable({}, { __gc = function() debug.getmetatable(tensor).__gc(tensor) end })
    collectgarbage()
    assert.equal(4, #tensor)
  end)

  it("closes what the collector drops, also when a hook starts the collection", function()
    local sample, lfs = require "ett.sample", require "lfs"
    local function files()
      local count = 0
      for _ in lfs.dir("/proc/self/fd") do count = count + 1 end
      return count
    end
    local function hooked()
      local list = {}
      collectgarbage "stop"
      collectgarbage("incremental", 0, 1000, 30) -- a whole cycle in each step; 0 keeps the pause
      debug.sethook(function() end, "", 1)
      collectgarbage "restart"
      for i = 1, 100 do list[i] = i end -- allocates, and only the hook collects
      debug.sethook()
      collectgarbage("incremental", 0, 100, 13)
      assert.equal(100, #list)
    end
    for _, collect in ipairs { collectgarbage, hooked } do
      collectgarbage()
      local before = files()
      for i = 1, 50 do assert(sample.journal(("%s/c%d"):format(folder, i), "h\n")) end
      assert.is_true(files() >= before + 50)
      collect()
      assert.equal(before, files())
    end
  end)
end)
