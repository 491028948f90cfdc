--- `ett validate` between ranks: a layout from samples to the error of its steps. It runs alone (spec/CMakeLists.txt).
--- One processor and runs that must fail: validate_other_slow_spec.lua. Ranks that die: validate_kill_slow_spec.lua.
local command = require "command"
local ended = command.ended
local host = require "ett.host"

if not require("needs").cpu("ett validate between ranks", _ENV) then return end
if not require("needs").ranks("ett validate between ranks", _ENV) then return end

local shell = command.shell
local folder = command.each_folder(_ENV)
local validate = ("'%s/bin/ett' validate --scale 0.01"):format(host.prefix)

describe("ett validate between ranks", function()
  it("predicts and trains every layout of several ranks, and continues from earlier samples", function()
    local out = ("--lines --out '%s/out'"):format(folder)
    local text = ended(0, shell(("%s --layouts 2x1,1x2,pp2 --configurations 2 --steps 2 %s"):format(validate, out)))
    local more
    more = ended(0, shell(("%s --layouts 2x2 --no-check --configurations 1 --steps 2 %s"):format(validate, out)))
    text = text .. more
    -- Configurations, the size of the last one, a collective.
    for layout, expected in pairs { ["2x1"] = { 2, "4 x 128", "dp +all_reduce" },
      pp2 = { 2, "4 x 128", "pp +send_recv" }, ["1x2"] = { 2, "4 x 128", "tp +all_reduce" },
      ["2x2"] = { 1, "2 x 64", "tp +all_reduce" } } do
      local before, after, lines = text:match("\n" .. layout .. "  " .. expected[2]
        .. " .-  predicted +[%d.]+ ms  measured +[%d.]+ ms  error +[-+%d.]+ %%  others "
        .. "+[%d.]+ %%[ ~]-  loss ([%d.]+) %-> ([%d.]+)\n(.-)\n%S")
      assert(before, text)
      assert.is_true(tonumber(after) < tonumber(before))
      assert.matches(expected[3] .. " +%d+%.%d +%d+%.%d+ +%d+%.%d+ +[-+]%d", lines)
      assert.matches(("# %s: median error of the step [%%d.]+ %%%% over %d configuration"):format(layout,
        expected[1]), text)
    end
    assert.matches("tables take turns", (shell(("cat '%s/out/ranks_2_near/'*gelu*.csv"):format(folder))))
    local function rows() return (shell(("cat '%s/out/ranks_2_near/'*.csv | grep -c '^[0-9]'"):format(folder))) end
    local sampled = rows()
    assert.is_true(tonumber(sampled) >= 9 * 4, sampled)
    ended(0, shell(("%s --no-check --configurations 1 --layouts 2x1 --steps 1 %s"):format(validate, out)))
    assert.equal(sampled, rows())
  end)
end)
