--- Ranks with fatal errors: the job ends with a message and keeps its rows.
local command = require "command"
local ended = command.ended

if not require("needs").ranks("ranks that cannot go on", _ENV) then return end

local folder = command.each_folder(_ENV)
local function write(name, text) command.write(folder, name, text) end
local function run(ranks, arguments)
  return command.ett(folder, arguments, ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    .. "OMPI_MCA_mpi_yield_when_idle=1 timeout -k 1 300 mpirun --oversubscribe --bind-to none -n %d"):format(ranks))
end

describe("ranks that cannot continue", function()
  it("end every rank if the folder cannot be made", function()
    write("c.lua", "return { name = 'c', samples = { { operator = 'gelu', shapes = { tokens = 16, width = 8 } } } }\n")
    local text = ended(1, run(2, "sample c.lua --out /proc/nowhere"))
    assert.matches("ett: rank 0: cannot make folder '/proc/nowhere'", text)
  end)

  it("end every rank if one raises an error while others wait", function()
    write("raise.lua", [[
      local job = require("ett.dist").open()
      if job.rank == 1 then error "no data here" end
      job.world:barrier()
      print "never"
    ]])
    local text = ended(1, run(2, "run raise.lua"))
    assert.matches("ett: raise.lua:2: no data here", text)
    assert.is_nil(text:find("never", 1, true))
    write("status.lua", "if require('ett.dist').open().rank == 0 then os.exit(3) end\n")
    assert.equal(3, (select(2, run(2, "run status.lua"))))
    write("fine.lua", "print(require('ett.dist').open().size)\n")
    assert.equal("2\n2\n", ended(0, run(2, "run fine.lua")))
  end)

  it("end every rank if the shape of get_one does not fit", function()
    write("c.lua", "return { name = 'c', visits = 1, cold_bytes = 1 << 20, samples = { { operator = 'gelu', "
      .. "shapes = { tokens = 64, width = 64 } } } }\n")
    local text = ended(1, run(2, "sample c.lua --run get_one --memory 1000"))
    assert.matches("ett: the operands need .* GB, the limit is", text)
  end)

  it("end the campaign if one dies; the message names it, and finished rows remain", function()
    write("dies.lua", [[
      return { name = "dies", visits = 1, max_repeats = 1, min_repeats = 1, budget_seconds = 0.001,
        cold_bytes = 1 << 20, samples = { {
        operator = "spec_dies", shapes = { number = { start = 1, stop = 40 } } } } }
    ]])
    require("lfs").mkdir(folder .. "/operators")
    write("operators/spec_dies.lua", [[
      local op = { name = "spec_dies", summary = "ends its process at shape 30", passes = { "forward" },
        columns = { "number" }, schema = { number = "count" } }
      function op.shape() return { number = 1 } end
      function op.flops() return 0.0 end
      function op.bytes() return 0.0 end
      function op.cpu(s)
        if s.number == 30 then os.execute "kill -9 $PPID" end
        return { { kind = "sleep", microseconds = 1000 } }
      end
      return op
    ]])
    local text, status = run(3, "sample dies.lua --out out --quiet")
    assert.is_true(status ~= 0 and status ~= 124, text)
    assert.matches("rank %d", text)
    local rows = 0
    local pipe = io.popen(("cat '%s'/out/*.csv"):format(folder))
    for line in pipe:lines() do if line:match("^%d+,") then rows = rows + 1 end end
    pipe:close()
    -- A rank asks for its next shape once its row is written: when number 30 is out, at most the
    -- shapes in the hands of the other two are not.
    assert.is_true(rows >= 27 and rows < 40, tostring(rows))
  end)
end)
