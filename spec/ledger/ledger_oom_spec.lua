--- Every allocation of compiling, evaluating and searching fails in turn.
local ledger = require "ett.ledger"
local oom = require "oom"

local L = ledger.new()
local p, b = L:parameter("p", 2), L:parameter("batch", 64)
L:check("at_most", "p", p, "64", 64)
local objective, ok = p * p + b / p, L:checks()[1].ok

local function small()
  local program = L:compile { ["1 objective"] = objective, ok = ok }
  program:evaluate { p = 4 }
  program:columns({ p = { 1, 2, 4 }, batch = 8 }, 3)
  program:bounds { p = { 1, 4 } }
  local found = program:search { variables = { p = { values = { 1, 2, 4, 8, 16 } } }, boxes = 100 }
  program:close()
  return found.best
end

it("a ledger survives failed allocations", function()
  assert.is_true(oom.every_allocation(small) > 100)
end)
