--- The measure "a campaign killed at random moments", with fewer kills than the bench.
local bench = require("ett.find").load("spec/bench", "campaign_kill")

describe("a campaign killed by SIGKILL at random moments", function()
  it("loses no row, writes none twice and goes on each time", function()
    local rows = bench.run { kills = 15 }
    for _, row in ipairs(rows) do assert.is_true(row.pass, row.measure .. ": " .. tostring(row.value)) end
  end)
end)
