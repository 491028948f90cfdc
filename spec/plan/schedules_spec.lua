--- A user's schedule file: errors name file, line and unit.
local command = require "command"
local find = require "ett.base.find"
local lfs = require "lfs"
local schedules = require "ett.plan.schedules"

local folder

--- The error raised when a schedule file with that text orders a plan.
local function why(text, name)
  command.write(folder, "lua/schedules/" .. (name or "mine") .. ".lua", text)
  local ok, raised = pcall(schedules.orders, { schedule = name or "mine", pp = 2, vp = 1, micro_batches = 2 })
  assert.is_false(ok)
  return tostring(raised), raised.kind
end

local function schedule(body) return "return { name = 'mine', summary = 's', order = function(stage, p)\n" .. body end

describe("a schedule file", function()
  setup(function()
    folder = command.folder()
    for _, part in ipairs { "/lua", "/lua/schedules" } do lfs.mkdir(folder .. part) end
    find.set_script_folder(folder)
  end)
  teardown(function()
    find.set_script_folder(nil)
    command.remove(folder)
  end)

  it("is a table with the function order, under its own name", function()
    assert.equal("mine.lua: must be a table of named fields, got 3", why "return 3")
    assert.equal("mine.lua: missing field 'order' (a function); without it a schedule has 'activations' and "
      .. "chunks = 1, and neither 'slice' nor 'ways'", (why "return { name = 'mine', activations = print }"))
    assert.equal("mine.lua: field 'name' must be 'mine' as the file's, got 'other'",
      why "return { name = 'other', order = print }")
  end)

  it("refuses unknown fields", function()
    assert.equal("mine.lua: unknown field 'placement'; unknown field 'sumary'; did you mean 'summary'?",
      (why "return { sumary = 's', placement = { 1 }, order = print }"))
  end)

  it("yields units that can be run", function()
    local must = 'must be {"F", "B", "W" or "BW", micro-batch from 1, chunk from 1} and nothing else, got '
    for unit, got in pairs { ["{ 'X', 1 }"] = '{"X", 1, nil}', ["{ 'F', 0 }"] = '{"F", 0, nil}',
      ["{ 'F', '1' }"] = '{"F", "1", nil}', ["{ 'F', 1.5 }"] = '{"F", 1.5, nil}', ["{ 'F', 1, 0 }"] = '{"F", 1, 0}',
      ["{ 'F', 1, 1, 9 }"] = '{"F", 1, 1}', ["{ 'F', 1, chunk = 2 }"] = '{"F", 1, nil}', ["'F'"] = '"F"' } do
      assert.equal("mine.lua:1: stage 1: unit 2 " .. must .. got,
        (why(schedule("return { { 'F', 1 }, " .. unit .. "} end }"))))
    end
    assert.equal("mine.lua:1: stage 1: 'order' must return a list of units, got nil", (why(schedule("end }"))))
  end)

  it("that raises is named with its own line", function()
    local text, kind = why(schedule("local t = nil\nreturn t[stage] end }"))
    assert.matches("mine%.lua:3: attempt to index a nil value", text)
    assert.equal("model", kind)
    assert.not_matches("plan", (text:gsub(folder, "", 1, true)))
  end)

  it("whose order cannot run is named with the unit", function()
    local function estimate(body)
      command.write(folder, "lua/schedules/mine.lua", schedule(body))
      local ok, raised = pcall(require("ett.step.estimate").new, { cluster = "perlmutter", profile = false,
        model = require("ett.model").new("llama", { layers = 4, hidden = 512, heads = 8, vocab = 1000 }),
        plan = { pp = 2, seq = 512, micro_batches = 2, schedule = "mine" } })
      assert.is_false(ok)
      return tostring(raised)
    end
    assert.equal('mine.lua:1: deadlock in the order: stage 1 cannot start unit 1, {"B", 1, 1}',
      estimate "return { { 'B', 1 }, { 'F', 1 }, { 'B', 2 }, { 'F', 2 } } end }")
    assert.equal('mine.lua:1: stage 1 lacks unit {"F", 2, 1}', estimate "return { { 'F', 1 }, { 'B', 1 } } end }")
    assert.equal('mine.lua:1: stage 1: unit 2, {"F", 1, 1}, appears twice',
      estimate "return { { 'F', 1 }, { 'F', 1 }, { 'B', 1 } } end }")
    assert.equal('mine.lua:1: stage 1: unit 2, {"F", 2, 1}, keeps the activations of 2 forwards, the schedule declares '
      .. 'at most 1', estimate("return { { 'F', 1 }, { 'F', 2 }, { 'B', 1 }, { 'B', 2 } } end, "
      .. "activations = function() return 1 end }"))
    assert.equal("mine.lua:1: slice 1 is twice in one way: on stage 1, chunk 1, and on stage 2, chunk 1",
      estimate "return {} end, slice = function() return 1 end }")
    assert.equal("mine.lua:1: stage 2: chunk 1 holds slice 3; slices are 1 to 2",
      estimate "return {} end, slice = function(stage) return 2 * stage - 1 end }")
    assert.equal('mine.lua:1: stage 1: unit 1 is a pair: it must hold an "F" and then a "B"',
      estimate "return { { { 'B', 1 }, { 'F', 1 } } } end }")
    assert.equal("mine.lua:3: stage 1: 'slice' must return an integer of at least 1, got 1.5",
      estimate "return {} end,\nslice = function() return 1.5 end }")
    assert.matches("plan: schedule = 'mine' needs an odd pp",
      estimate "return {} end, refuse = function() return 'needs an odd pp' end }", 1, true)
    assert.equal("mine.lua:2: 'refuse' must return a string or nil, got 3",
      estimate "return {} end, refuse = function() return 3 end }")
    assert.equal('mine.lua:1: stage 1: micro-batch 1 runs on chunks 1 and 2, which belong to different ways',
      estimate("return { { 'F', 1 }, { 'B', 1 }, { 'F', 1, 2 }, { 'B', 1, 2 }, { 'F', 2 }, { 'B', 2 } } end, ways = 2,"
      .. "slice = function(stage, chunk) return chunk == 1 and stage or 3 - stage end }"))
    assert.equal("mine.lua:1: stage 1 holds slice 1 in chunks 1 and 2; ways must hold it on different stages",
      estimate "return {} end, ways = 2, slice = function(stage) return stage end }")
  end)

  it("is called once for plans with equal values of the fields that it reads", function()
    command.write(folder, "lua/schedules/mine.lua", "_G.asked = (_G.asked or 0) + 1\n" .. schedule [[
      _G.ordered = (_G.ordered or 0) + 1
      local units = {}
      for i = 1, p.micro_batches do
        units[#units + 1] = { "F", i }
        units[#units + 1] = { "B", i }
      end
      if p.micro_batches == 3 and p.zero == 1 then units = { { "F", 1 } } end
      return units end }]])
    local memo = schedules.memo()
    local function orders(micro_batches, zero, dp)
      return (memo:orders { schedule = "mine", pp = 1, vp = 1, micro_batches = micro_batches, zero = zero, dp = dp })
    end
    local two = orders(2, 0, 1)
    assert.equal(two, orders(2, 0, 8)) -- dp is not read
    assert.not_equal(two, orders(4, 0, 1))
    local three = orders(3, 0, 1) -- reads zero, too
    assert.not_equal(three, orders(3, 1, 1))
    assert.equal(orders(3, 1, 1), orders(3, 1, 2))
    assert.equal(1, _G.asked)
    assert.equal(4, _G.ordered)
    _G.asked, _G.ordered = nil, nil
  end)

  it("refuses plans of a search by any of their degrees", function()
    command.write(folder, "lua/schedules/narrow.lua", [[return { name = "narrow", summary = "s", chunks = 1,
      activations = function(stage, p) return p.pp - stage + 1 end,
      refuse = function(p) if p.tp > 1 then return "needs tp = 1" end end }]])
    local model = require("ett.model").new("llama", { layers = 4, hidden = 512, heads = 8, vocab = 1000 })
    local s = require("ett.search.search").new { model = model, cluster = "dgx_h100", devices = 8, exhaustive = true,
      keep = 1000, plan = { seq = 512, global_batch = 16, cp = 1, pp = 2, schedule = "narrow" } }
    assert.is_true(#s.rows > 0)
    for _, row in ipairs(s.rows) do assert.equal(1, row.tp) end
    assert.matches("needs tp = 1", tostring(s), 1, true)
  end)
end)
