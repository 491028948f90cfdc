--- Every allocation of describing, compiling, evaluating and searching fails in turn.
local ledger = require "ett.ledger"
local oom = require "oom"

local function small()
  local L <close> = ledger.new()
  local p, b = L:parameter("p", 2), L:parameter("batch", 64)
  local data, tensor = L:axis("data", p), L:axis("tensor", 4)
  local sample = L:dimension("sample", b, { axis = data })
  local width = L:dimension("width", 32, { axis = tensor, autoreduce = true })
  local inner = L:dimension("inner", 8, { autoreduce = true })
  L:meter("layer", 3, function()
    L:label("product")
    local w = L:tensor("w", { width, inner }, { scattered = { data } }):broadcast()
    L:tensor("x", { sample, width }):dot(w)
  end)
  L:check("at_most", "p", p, "64", 64)
  local entries, checks = L:entries(), L:checks()
  local totals = L:totals()
  local program <close> = L:compile { ["1 objective"] = totals.rx_forward + b / p, ok = checks[1].ok }
  program:evaluate { p = 4 }
  program:columns({ p = { 1, 2, 4 }, batch = 8 }, 3)
  program:bounds { p = { 1, 4 } }
  local found = program:search { variables = { p = { values = { 1, 2, 4, 8, 16 } } } }
  return #entries + #checks, found.best
end

describe("a ledger", function()
  it("survives failed allocations", function()
    assert.is_true(oom.every_allocation(small) > 100)
  end)
end)
