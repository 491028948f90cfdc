--- `ett validate` on one processor, and runs that must fail. Every layout: validate_slow_spec.lua.
local command = require "command"
local ended = command.ended
local host = require "ett.host"

if not require("needs").cpu("ett validate elsewhere", _ENV) then return end
if not require("needs").ranks("ett validate elsewhere", _ENV) then return end

local shell = command.shell
local folder = command.each_folder(_ENV)
local validate = ("'%s/bin/ett' validate --scale 0.01"):format(host.prefix)

describe("ett validate", function()
  --- A folder in whose back end gelu computes something else.
  local function wrong()
    os.execute(("mkdir -p '%s/samplers/cpu'"):format(folder))
    require("ett.base.folder").write(folder .. "/samplers/cpu/doubles.lua", ("local kinds = dofile '%s/samplers/cpu/"
      .. "doubles.lua'\nkinds.gelu = function(_, v) return { y = v.x, dx = v.x } end\nreturn kinds\n")
      :format(host.root))
    return folder
  end

  it("runs on its allowed processor, and with --no-check for any results", function()
    if not os.execute("taskset -c 1 true >/dev/null 2>&1") then return pending "one processor, or no taskset" end
    for layout, crowded in pairs { ["1x1"] = "over 1 configuration\n$",
      ["2x1"] = "over 1 configuration; 2 ranks share a processor\n$" } do
      local text = ended(0, shell(("ETT_PATH='%s' taskset -c 1 %s --no-check --layouts %s --configurations 1 --steps 1 "
        .. "--out %s/%s"):format(wrong(), validate, layout, folder, layout)))
      assert.matches(crowded, text)
      assert.matches("# threads: 1 pinned to processor 1\n",
        (shell(("cat %s/%s/ranks_*_near/*gelu*.csv"):format(folder, layout))))
    end
  end)

  it("predicts nothing from an operator that computes a wrong result", function()
    for layout, where in pairs { ["1x1"] = "", ["2x1"] = "layout 2x1, 2 ranks: " } do
      local text = ended(1, shell(("ETT_PATH='%s' %s --quiet --layouts %s --configurations 1 --steps 1"):format(
        wrong(), validate, layout)))
      assert.is_truthy(text:find("ett: " .. where .. "sampling operators: ", 1, true), text)
    end
  end)

  it("measures a step of two ranks without the other programs that one of them waited for", function()
    local script = folder .. "/watched.lua"
    require("ett.base.folder").write(script, [[
      local sample, job = require "ett.sample", require("ett.base.share").join(true).job
      local function compute(seconds)
        local stop = sample.thread_seconds() + seconds
        while sample.thread_seconds() < stop do end
      end
      local seen = require("ett.validate.watch").new(job):observe(function()
        compute(0.02)
        if job.local_rank == 0 then sample.pause(0.2) end -- as if another program ran
        job.world:barrier()
        compute(0.01)
      end)
      if job.local_rank == 0 then print(("busy %.4f wall %.4f"):format(seen.busy, seen.seconds)) end
    ]])
    local text = shell(("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
      .. "--bind-to none -n 2 '%s/bin/ett' run '%s'"):format(host.prefix, script))
    local busy, wall = text:match("busy ([%d.]+) wall ([%d.]+)")
    assert(busy, text)
    assert.is_true(tonumber(wall) >= 0.23, text)
    assert.is_true(tonumber(busy) >= 0.03 and tonumber(busy) < 0.1, text)
  end)

  it("names mpirun if it is missing", function()
    local text = ended(1, shell(("PATH=/nowhere %s --layouts 2x1"):format(validate)))
    assert.matches("ett: layout 2x1 needs several ranks: no mpirun here: install openmpi%-bin", text)
  end)
end)
