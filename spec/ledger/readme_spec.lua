--- The code blocks of lua/ett/ledger/README.md run as they stand.
local host = require "ett.host"

describe("the README's code", function()
  local file = assert(io.open(host.root .. "/lua/ett/ledger/README.md", "r"))
  local text = file:read("a")
  file:close()
  local count = 0
  for code in text:gmatch("```lua\n(.-)```") do
    count = count + 1
    it("block " .. count, function()
      local printed = {}
      local function keep(...) printed[#printed + 1] = table.concat({ tostring(...) }, " ") end
      local env = setmetatable({ print = keep }, { __index = _G })
      assert(load(code, "=README", "t", env))()
      assert.is_true(#printed > 0)
    end)
  end
  it("is there", function() assert.equal(2, count) end)
end)
