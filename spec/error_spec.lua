local error_module = require "ett.error"

describe("ett.error", function()
  it("adds one label at each level", function()
    local ok, raised = pcall(error_module.wrap, "a.lua", error_module.wrap, "layer 3", function()
      error_module.raise("model", "field '%s' is wrong", "hidden")
    end)
    assert.is_false(ok)
    assert.equal("a.lua: layer 3: field 'hidden' is wrong", tostring(raised))
    assert.equal("model", raised.kind)
  end)

  it("finds the nearest name", function()
    assert.equal("rms_norm", error_module.nearest("rms_nrom", { "gelu", "rms_norm", "rope" }))
    assert.is_nil(error_module.nearest("zzzzzz", { "gelu", "rms_norm" }))
  end)
end)
