--- Scripts that resist: endless coroutines, catastrophic patterns, hooks that raise, bytecode.
local command = require "command"
local host = require "ett.host"

local folder

--- Runs scripts side by side: most of them resist until the time that ett grants is over. Each gets SIGTERM after half
--- a second and SIGKILL a minute later.
---@param scripts table<string, { text: string, arguments: string? }>
---@return table by the same keys: seconds, status, output
local function run(scripts)
  local lines, places = { "export TIMEFORMAT='seconds %R'" }, {}
  for name, script in pairs(scripts) do
    places[name] = command.folder()
    command.write(places[name], "s.lua", script[1])
    command.write(places[name], "own.lua", [[return { name = "own", summary = "x", schema = { n = "count" },
      shape = function() while true do end end, flops = function() while true do end end,
      bytes = function() return 1.0 end, kernel = function() while true do end end }]])
    lines[#lines + 1] = ("(cd '%s'; time timeout -k 60 0.5 '%s/bin/ett' %s; echo \"status $?\") >'%s/said' 2>&1 &")
      :format(places[name], host.prefix, script[2] or "run s.lua --quiet", places[name])
  end
  lines[#lines + 1] = "wait"
  command.write(folder, "all.sh", table.concat(lines, "\n"))
  command.shell(("bash '%s/all.sh'"):format(folder))
  local results = {}
  for name, place in pairs(places) do
    local output = command.read(place, "said")
    results[name] = { seconds = tonumber(output:match "seconds ([%d.]+)"), output = output,
      status = tonumber(output:match "status (%d+)") }
    command.remove(place)
  end
  return results
end

describe("SIGTERM", function()
  local most -- seconds: half a second until the signal, two to end, and what as many scripts at once add
  local ended -- what run() returns of the scripts below
  local endless = {
    ["an endless loop"] = "while true do end",
    ["a loop that catches every error"] = "while true do pcall(function() while true do end end) end",
    ["endless coroutines"] = "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    ["a catastrophic pattern"] = "return (('a'):rep(100000)):find(('a*'):rep(50) .. 'b')",
    ["a pattern in a coroutine"] =
      "return coroutine.wrap(function() return (('a'):rep(100000)):find(('a*'):rep(50) .. 'b') end)()",
    ["a hook that catches"] = "debug.sethook(function() while true do end end, '', 1) while true do end",
  }
  local campaigns = { ["a campaign's Lua"] = "while true do end", ["a kernel's Lua"] =
    "return { name = 'c', visits = 1, samples = { { operator = 'own', shapes = { n = 8 } } } }" }
  local samples = pcall(require, "ett.sample")

  setup(function()
    folder = command.folder()
    local scripts, quick, slowest = {}, {}, 0
    for what, text in pairs(endless) do scripts[what] = { text } end
    for what, text in pairs(samples and campaigns or {}) do
      scripts[what] = { text, "sample s.lua --backend cpu --quiet" }
    end
    for what in pairs(scripts) do quick[what] = { "return nil" } end
    for _, one in pairs(run(quick)) do slowest = math.max(slowest, one.seconds) end
    most = 0.5 + 2 + math.max(1, 10 * slowest)
    ended = run(scripts)
  end)
  teardown(function() command.remove(folder) end)

  for _, list in ipairs { endless, samples and campaigns or {} } do
    for what in pairs(list) do
      it("ends " .. what .. " within two seconds", function()
        local one = ended[what]
        assert.equal(124, one.status, one.output) -- 137: it took SIGKILL
        assert.is_true(one.seconds < most, one.output)
      end)
    end
  end
end)

describe("a script", function()
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  it("cannot abort the host with a hook", function()
    for text, sentence in pairs {
      ["debug.sethook(function() error 'x' end, '', 1) while true do end"] = "ett: s.lua:1: x\n",
      ["debug.sethook(function() error 'x' end, 'crl', 1) error 'y'"] = "ett: s.lua:1: x\n",
      ["debug.sethook(function() error 'x' end, 'r')"] = "ett: s.lua:1: x\n",
    } do
      command.write(folder, "s.lua", text)
      local output, status = command.ett(folder, "run s.lua --quiet")
      assert.equal(1, status, output)
      assert.equal(sentence, output)
    end
  end)

  it("has its error reported though it breaks the text of errors", function()
    command.write(folder, "e.lua", 'local ett = require "ett"\nlocal _, e = pcall(ett.search, {})\n'
      .. 'getmetatable(e).__tostring = function() error "x" end\nett.search {}\n')
    assert.same({ "ett: an error was raised whose __tostring fails\n", 1 }, { command.ett(folder, "run e.lua") })
  end)

  it("cannot load bytecode, from a text, a function or a file", function()
    command.write(folder, "code.luac", string.dump(function() return 1 end))
    command.write(folder, "s.lua", [[
      local code = string.dump(function() return 1 end)
      local once = { code }
      local function pieces() return table.remove(once) end
      local function reason(_, why) return why end
      print(reason(load(code)), reason(load(code, "x", "b")), reason(load(pieces, "x", "bt", {})))
      print(reason(loadfile "code.luac"), reason(loadfile("code.luac", "b")), reason(pcall(dofile, "code.luac")))
      print(load("return 7")(), load("return x", "name", nil, { x = 8 })(), load("return x", "name", "t", { x = 9 })(),
        select(2, load("return +", "=name")))
    ]])
    local output, status = command.ett(folder, "run s.lua --quiet")
    assert.equal(0, status, output)
    local refused, good = output:match("^(.*)\n(7\t8\t9\tname:1: [^\n]*)\n$")
    assert.is_truthy(good, output)
    local _, count = refused:gsub("attempt to load a binary chunk %(mode is 't'%)", "")
    assert.equal(6, count, output)
  end)

  it("cannot make ett's C modules write or read outside their objects", function()
    local axis = [[
      local list = {}
      for i = 1, 3000000 do list[i] = i end
      require("ett.search").combinations({ { name = "pp", count = (1 << 61) - 1, values = list } }, {})]]
    local orders = [[ -- the finaliser runs at the first allocation of the call
      local units, orders, settings = { { "F", 1, 1 }, { "B", 1, 1 } }, require("ett.step").orders,
        { chunks = 1, ways = 1, slice = { 1 } }
      local stages = { units }
      collectgarbage("incremental", 100, 1000, 63)
      collectgarbage "stop"
      setmetatable({}, { __gc = function() for _ = 1, 2000000 do units[#units + 1] = { "F", 1, 1 } end end })
      collectgarbage "restart"
      orders(stages, settings)]]
    local closing = [[
      local step, comm, program = require "ett.step", require "ett.comm", require "ett.ledger_program"
      local function closes(object, of)
        local function close() object:close() end
        return setmetatable(of or {}, { __index = close, __newindex = close, __len = close })
      end
      local demands, search = step.demands(), program.new { inputs = { "p" }, defaults = { 1 }, constants = {},
        code = {}, outputs = { "1 objective" }, registers = { 0 } }
      local axes, combinations = { { name = "pp", count = 1, values = { 1 } } }, require("ett.search").combinations
      local plans, filled = combinations(axes, {}), combinations(axes, {})
      local sum, bytes = filled:take(), 0
      repeat bytes = bytes + 8 until pcall(filled.give, filled, sum .. ("\0"):rep(bytes))
      assert(filled:row(1, closes(filled)) == 0)
      pcall(demands.price, demands, 1, comm.law { start = 1, { bandwidth = 1 } }, closes(demands))
      pcall(plans.run, plans, closes(plans), step.workspace(), 1)
      search:search { variables = { p = closes(search) }, boxes = 10 }
      search:columns({ p = closes(search) }, 0)
      if pcall(require, "ett.cpu") then
        local pool, call = require("ett.cpu").pool(0, 1), { kind = "scale", rows = 8, cols = 8 }
        pool:measure(closes(pool, { call }), closes(pool))
        local measure, calls, options = pool.measure, { call }, {}
        collectgarbage("incremental", 100, 1000, 63)
        collectgarbage "stop"
        setmetatable({}, { __gc = function() pool:close() end })
        collectgarbage "restart"
        measure(pool, calls, options)
        assert(pool:probe() > 0)
      end
      print("open", demands:count(), plans:count(), search:evaluate {}["1 objective"])]]
    local map = [[
      local step, ranks, p = require "ett.step", 200000, {}
      for _, name in ipairs(step.plan_fields()) do p[name] = 1 end
      for name, rule in pairs(require("ett.plan").schema) do
        if rule[1] == "boolean" and p[name] then p[name] = false end
      end
      for name, value in pairs { schedule = "1f1b", recompute = "none", overlap_all_to_all = "none", zero = 0,
        shard = 0, offload_activations = 0, offload_gradients = 0, offload_optimizer = 0, offload_weights = 0,
        dp = ranks, gpus_per_node = 8,
        rank_order = require("ett.plan.ranks").code(require("ett.plan.ranks").default) } do p[name] = value end
      local list = {}
      for i = 1, ranks do list[i] = i - 1 end
      p.rank_map = step.map(list)
      p.prediction = -1
      local kept, function_of = step.kept_plan(p), { gather = 1, lanes = 2, element_bytes = 2,
        recompute_layers = 0, recompute_method = "block" }
      for name in ("boundary_bytes tied_embedding_bytes workspace_bytes context_bytes communicator_bytes "
        .. "output_bytes owned_tensors kept_gradient_bytes allocator_share communication_share "
        .. "exchange_communication_share cast_bytes kept_logits"):gmatch "%S+" do function_of[name] = 0 end
      local flags = "tied_frozen gathers_tensors master_shards blocking_reductions whole_stages defers_gradients "
        .. "copies_gradients frees_gradients foreach_update autocast whole_ends"
      for name in flags:gmatch "%S+" do
        function_of[name] = false
      end
      function_of.kinds = {}
      function_of.operations = { { dense_parameters = 1e6, flops = 1, forward = { 1 }, backward = { 2 } } }
      for i, place in ipairs { "first", "middle", "last" } do
        function_of.kinds[i] = { place = place, count = i, input_bytes = 1, policy_bytes = 1, remade_bytes = 1,
          shared_bytes = 0, boundary = 1, forward_only = false, stored = false, owns_table = false,
          copies_table = false, uses = { 1 } }
      end
      local program, workspace = step.program(function_of), step.workspace()
      program:totals(kept, step.demands(), workspace)
      p.rank_map = nil
      collectgarbage()
      collectgarbage()
      local others = {}
      for i = 1, 100 do others[i] = ("\255"):rep(800000 + i) end
      print(program:outline(kept, step.demands(), workspace))]]
    command.write(folder, "t.sqlite", "SQLite format 3\0" .. ("\0"):rep(100))
    local reader = [[
      package.loaded["ett.nsys"] = { reader = io.stdout }
      print(select(2, require("ett.trace").open "t.sqlite"))]]
    for text, wanted in pairs { [axis] = "has a field with too many values", [map] = "^%d",
      [orders] = "the units changed while they were read", [closing] = "^open\t0\t0\t1",
      [reader] = "ett.nsys has no reader" } do
      command.write(folder, "s.lua", text)
      local output, status = command.shell(("cd '%s' && '%s/bin/ett' run s.lua"):format(folder, host.prefix))
      assert.is_true(status <= 1, output .. status)
      assert.matches(wanted, output)
    end
  end)

  it("runs no metamethods while a trace is in use", function()
    command.write(folder, "t.json", '{ "schemaVersion": 1, "traceEvents": [ { "ph": "X", "cat": "kernel", "name": "k", '
      .. '"pid": 0, "tid": 1, "ts": 1, "dur": 1, "args": { "stream": 7 } } ] }')
    local t <close> = assert(require("ett.trace").open(folder .. "/t.json", { args = { "stream" } }))
    local ran = 0
    local function count()
      ran = ran + 1
      return nil
    end
    local function list(of) return setmetatable(of, { __index = count, __len = count }) end
    local rows = t:events()
    assert.equal(0, #t:events { tid = list {}, stream = list {}, class = list {} })
    assert.is_false(pcall(t.events, t, { window = list {} }))
    assert.equal(1, #rows:stats(list { percentiles = list {} }))
    assert.same({}, { rows:columns(list {}) })
    assert.equal(1, #require("ett.sequence").of(rows, list { list { rows = rows } }))
    local set = require("ett.interval").new(list { list { 1, 5 } })
    assert.same({ 4, {} }, { set:measure(), set:measure_in(list {}) })
    assert.equal(0, ran)
    for _, object in ipairs { t, rows, set } do
      assert.is_false(getmetatable(object))
      assert.is_false((pcall(function() return object:__gc() end)))
    end
  end)
end)
