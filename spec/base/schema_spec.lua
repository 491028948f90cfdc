local schema = require "ett.base.schema"

describe("ett.schema", function()
  it("reports every violation at once", function()
    local found = schema.violations({ hiden = 3, tp = -1 }, { hidden = "count", tp = "degree" })
    assert.same({
      "unknown field 'hiden'; did you mean 'hidden'?",
      "missing field 'hidden' (a positive integer)",
      "field 'tp' must be a positive integer, got -1",
    }, found)
  end)

  it("knows its kinds by value, not by type alone", function()
    for kind, cases in pairs { fraction = { 0, 1, 0.5, { 2, -0.1, "x" } }, count = { 1, 7, { 0, -1, 1.5, "1" } } } do
      local wrong = table.remove(cases)
      for _, value in ipairs(cases) do assert.same({}, (schema.violations({ v = value }, { v = kind }))) end
      for _, value in ipairs(wrong) do assert.equal(1, #schema.violations({ v = value }, { v = kind })) end
    end
  end)

  it("makes integral floats integers and fills defaults", function()
    local clean = schema.check({ n = 4.0 }, { n = "count", m = { "count", default = 2 } })
    assert.equal("integer", math.type(clean.n))
    assert.equal(2, clean.m)
  end)
end)
