--- `ett validate` between ranks: a layout from samples to the error of its steps, and runs
--- that must fail. Ranks that die: validate_kill_slow_spec.lua.
local find = require "ett.base.find"
local host = require "ett.host"

local usable, why = find.load("samplers", "cpu").available()
if usable then usable, why = require("ett.sampling.mpirun").available() end
if not usable then
  describe("ett validate between ranks", function()
    it("is not at hand", function() pending(why) end)
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

  it("predicts and trains every layout of several ranks, and goes on from the samples of an earlier run", function()
    local out = ("--steps 3 --lines --out '%s/out' 2>&1"):format(folder)
    local text, ok = read(("%s --layouts 2x1,1x2,pp2 --configurations 2 %s"):format(command, out))
    assert(ok, text)
    local more
    more, ok = read(("%s --layouts 2x2 --configurations 1 %s"):format(command, out))
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
      assert.matches(("# %s: median error of the step [%%d.]+ %%%% over %d configurations"):format(layout,
        expected[1]), text)
    end
    assert.matches("tables take turns", (read(("cat '%s/out/ranks_2_near/'*gelu*.csv"):format(folder))))
    local function rows() return (read(("cat '%s/out/ranks_2_near/'*.csv | grep -c '^[0-9]'"):format(folder))) end
    local sampled = rows()
    assert.is_true(tonumber(sampled) >= 9 * 4, sampled)
    text, ok = read(("%s --no-check --configurations 1 --layouts 2x1 %s --steps 1"):format(command, out))
    assert(ok, text)
    assert.equal(sampled, rows())
  end)

  it("runs where it may, though that is not the first processor", function()
    if not os.execute("taskset -c 1 true >/dev/null 2>&1") then return pending "one processor, or no taskset" end
    for layout, crowded in pairs { ["1x1"] = "over 1 configurations\n$",
      ["2x1"] = "over 1 configurations; 2 ranks share a processor\n$" } do
      local text, ok = read(("taskset -c 1 %s --no-check --layouts %s --configurations 1 --steps 1 --out %s/%s 2>&1")
        :format(command, layout, folder, layout))
      assert(ok, text)
      assert.matches(crowded, text)
      assert.matches("# threads: 1 pinned to processor 1\n",
        (read(("cat %s/%s/ranks_*_near/*gelu*.csv"):format(folder, layout))))
    end
  end)

  it("predicts nothing from an operator that computes a wrong result", function()
    os.execute(("mkdir -p '%s/samplers/cpu'"):format(folder))
    require("ett.base.folder").write(folder .. "/samplers/cpu/doubles.lua", ("local kinds = dofile '%s/samplers/cpu/"
      .. "doubles.lua'\nkinds.gelu = function(_, v) return { y = v.x, dx = v.x } end\nreturn kinds\n")
      :format(host.root))
    for layout, where in pairs { ["1x1"] = "", ["2x1"] = "layout 2x1, 2 ranks: " } do
      local text, ok = read(("ETT_PATH='%s' %s --quiet --layouts %s --configurations 1 2>&1"):format(folder, command,
        layout))
      assert.is_falsy(ok)
      assert.is_truthy(text:find("ett: " .. where .. "sampling operators: ", 1, true), text)
    end
    local text, ok = read(("ETT_PATH='%s' %s --quiet --no-check --layouts 1x1 --configurations 1 --steps 1 2>&1")
      :format(folder, command))
    assert(ok, text)
  end)

  it("says what is missing where mpirun is not", function()
    local text, ok = read(("PATH=/nowhere %s --layouts 2x1 2>&1"):format(command))
    assert.is_falsy(ok)
    assert.matches("ett: layout 2x1 needs several ranks: no mpirun here: install openmpi%-bin", text)
  end)
end)
