local schema = require "ett.schema"

describe("ett.schema", function()
  it("reports every violation at once", function()
    local found = schema.violations({ hiden = 3, tp = -1 }, { hidden = "count", tp = "degree" })
    assert.same({
      "unknown field 'hiden'; did you mean 'hidden'?",
      "missing field 'hidden' (a positive integer)",
      "field 'tp' must be a positive integer, got -1",
    }, found)
  end)

  it("makes integral floats integers and fills defaults", function()
    local clean = schema.check({ n = 4.0 }, { n = "count", m = { "count", default = 2 } })
    assert.equal("integer", math.type(clean.n))
    assert.equal(2, clean.m)
  end)
end)
