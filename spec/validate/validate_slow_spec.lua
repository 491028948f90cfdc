--- `ett validate` between ranks: a layout from samples to the error of its steps. It runs alone (spec/CMakeLists.txt).
--- One processor and runs that must fail: validate_other_slow_spec.lua. Ranks that die: validate_kill_slow_spec.lua.
local find = require "ett.base.find"
local host = require "ett.host"

local usable, why = find.load("samplers", "cpu").available()
if usable then usable, why = require("ett.sampling.mpirun").available() end
if not usable then
  describe("ett validate between ranks", function()
    it("is skipped", function() pending(why) end)
  end)
  return
end

local folder
local command = ("'%s/bin/ett' validate --scale 0.01"):format(host.prefix)

local function read(pipe_command)
  local pipe = io.popen(pipe_command)
  local text = pipe:read("a")
  return text, pipe:close()
end

describe("ett validate between ranks", function()
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    require("lfs").mkdir(folder)
  end)
  after_each(function() os.execute(("rm -rf '%s'"):format(folder)) end)

  it("predicts and trains every layout of several ranks, and continues from earlier samples", function()
    local out = ("--lines --out '%s/out' 2>&1"):format(folder)
    local text, ok = read(("%s --layouts 2x1,1x2,pp2 --configurations 2 --steps 2 %s"):format(command, out))
    assert(ok, text)
    local more
    more, ok = read(("%s --layouts 2x2 --no-check --configurations 1 --steps 2 %s"):format(command, out))
    assert(ok, more)
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
    assert.matches("tables take turns", (read(("cat '%s/out/ranks_2_near/'*gelu*.csv"):format(folder))))
    local function rows() return (read(("cat '%s/out/ranks_2_near/'*.csv | grep -c '^[0-9]'"):format(folder))) end
    local sampled = rows()
    assert.is_true(tonumber(sampled) >= 9 * 4, sampled)
    text, ok = read(("%s --no-check --configurations 1 --layouts 2x1 --steps 1 %s"):format(command, out))
    assert(ok, text)
    assert.equal(sampled, rows())
  end)
end)
