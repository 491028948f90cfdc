--- Four MPI ranks sharing an operator campaign against one, with an artificial 20 ms operator.
local host = require "ett.host"

local bench = { summary = "4 MPI ranks sharing a campaign against 1, an artificial 20 ms operator" }

local function seconds(launcher)
  local folder = os.tmpname()
  os.remove(folder)
  local command = ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s '%s/bin/ett' sample "
    .. "'%s/spec/samplers/fixture/share.lua' --out '%s' --quiet 2>&1"):format(launcher, host.prefix, host.root, folder)
  local pipe = io.popen(command)
  local text = pipe:read("a")
  pipe:close()
  local rows, twice, seen = 0, 0, {}
  local path = text:match("(%S+%.csv): ")
  if path then
    for line in io.lines(path) do
      local key = line:match("^20000,%d+,")
      if key then
        rows = rows + 1
        if seen[key] then twice = twice + 1 end
        seen[key] = true
      end
    end
  end
  os.execute(("rm -rf '%s'"):format(folder))
  return tonumber(text:match("in ([%d.]+) s")), rows, twice, text
end

function bench.run()
  if not os.execute("command -v mpirun >/dev/null 2>&1") or not pcall(require, "ett.dist") then
    return { { measure = "skipped: MPI is not there (libopenmpi-dev, openmpi-bin)", value = "-" } }
  end
  local one, rows_one = seconds("")
  local four, rows_four, twice, text = seconds("mpirun --oversubscribe --bind-to none -n 4")
  if not one or not four then return { { measure = "the campaign ran", value = text, pass = false } } end
  return {
    { measure = "speed-up of 4 ranks", value = ("%.2f"):format(one / four), target = ">= 3.6",
      pass = one / four >= 3.6 },
    { measure = "rows of 240 (1 rank, 4 ranks)", value = ("%d, %d"):format(rows_one, rows_four), target = "240, 240",
      pass = rows_one == 240 and rows_four == 240 },
    { measure = "rows twice", value = twice, target = "0", pass = twice == 0 },
  }
end

return bench
