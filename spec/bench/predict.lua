--- Time and memory of a prediction in a new process, models cached and cold.
local bench = { summary = "one prediction in a new process" }

local function shell(command)
  local pipe = assert(io.popen(command, "r"))
  local text = pipe:read("a")
  pipe:close()
  return text
end

--- Wall seconds of a command without single quotes, by the clock of the shell that runs it; the fastest of `times`. The
--- clock is bash's own: starting `date` takes 5 ms.
local function fastest(command, times, before)
  local best = math.huge
  for _ = 1, times do
    local text = shell(("LC_ALL=C bash -c '%s a=$EPOCHREALTIME; %s >/dev/null 2>&1; s=$?; b=$EPOCHREALTIME; "
      .. "echo $((${b/./} - ${a/./})) $s'"):format(before or "", command))
    local us, status = text:match "(%d+) (%d+)"
    if status ~= "0" then return nil, shell(command .. " 2>&1") end
    best = math.min(best, tonumber(us) / 1e6)
  end
  return best
end

--- Peak resident bytes of a process that runs a command of ett, as the kernel counts them.
local function peak_bytes(ett, words)
  local path = os.tmpname()
  local script = path .. ".lua"
  local file = assert(io.open(script, "w"))
  file:write(([[
    require("ett.cli.main")({ %s })
    for line in io.lines("/proc/self/status") do
      local kb = line:match("^VmHWM:%%s*(%%d+) kB")
      if kb then io.stderr:write("peak ", kb, "\n") end
    end
  ]]):format(words))
  file:close()
  local text = shell(("%s run %s 2>&1"):format(ett, script))
  os.remove(path)
  os.remove(script)
  local kb = text:match("peak (%d+)")
  return kb and tonumber(kb) * 1024
end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

function bench.run()
  local host = require "ett.host"
  local ett = host.prefix .. "/bin/ett"
  local rows = {}
  local function add(name, value, limit, unit, format)
    rows[#rows + 1] = { measure = name, value = value and (format .. " %s"):format(value, unit) or "failed",
      target = ("<= %g %s"):format(limit, unit), pass = value ~= nil and value <= limit }
  end
  local example = host.root .. "/examples/llemma_7b.lua"
  local warm = fastest(("%s run %s --quiet"):format(ett, example), 20)
  add("ett run examples/llemma_7b.lua, new process", warm and warm * 1e3, 20, "ms", "%.1f")
  local bytes = peak_bytes(ett, ("'run', %q, '--quiet'"):format(example))
  add("its peak memory", bytes and bytes / 1e6, 10, "MB", "%.1f")

  local folder = (os.getenv("ETT_REFERENCE") or host.root .. "/../shared/reference") .. "/estimate-train-time"
  local config = folder .. "/examples/llemma_7b_4_2_2_P.yml"
  if not exists(config) then
    rows[#rows + 1] = { measure = "ett predict over sample files", value = "skipped: no " .. config }
    return rows
  end
  local cache = os.tmpname()
  os.remove(cache)
  local predict = ("XDG_CACHE_HOME=%s %s predict --config %s --quiet"):format(cache, ett, config)
  local cold = fastest(predict, 2, ("rm -rf %s;"):format(cache))
  add("ett predict over sample files, cold: fits all it needs", cold, 5, "s", "%.2f")
  local cached = fastest(predict, 20)
  add("the same, fitted models cached", cached and cached * 1e3, 50, "ms", "%.1f")
  local file_bytes = peak_bytes(("XDG_CACHE_HOME=%s %s"):format(cache, ett),
    ("'predict', '--config', %q, '--quiet'"):format(config))
  add("its peak memory", file_bytes and file_bytes / 1e6, 100, "MB", "%.1f")
  os.execute("rm -rf " .. cache)
  return rows
end

return bench
