--- Runs ett on several ranks of this machine under `mpirun`. mpirun ends with this process, within bounded time.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local host = require "ett.host"
local quote = require("ett.base.shell").quote
local read = require("ett.io").read
local sample = require "ett.sample"

local mpirun = {}

--- Seconds that mpirun may run without all of its ranks: at the start, at the end, or after ranks died. (mpirun ends
--- the other ranks within 3 seconds.)
mpirun.patience_seconds = 20

local poll_seconds = 0.2
local end_seconds = 5 -- that mpirun may take to end after SIGTERM

local function works(command) return os.execute(("%s >/dev/null 2>&1"):format(command)) == true end

--- true, or nil and a message that names the missing program.
function mpirun.available()
  local ok, why = find.load("samplers", "mpi").available()
  if not ok then return nil, why end
  if not works("command -v mpirun") then return nil, "no mpirun here: install openmpi-bin" end
  return true
end

local function runs(process)
  local state = (read(("/proc/%d/stat"):format(process)) or ""):match("^%d+ %(.*%) (%a)")
  return state ~= nil and state ~= "Z" and state ~= "X"
end

--- Running child processes; nil if the kernel does not list them.
local function children(process)
  local text = read(("/proc/%d/task/%d/children"):format(process, process))
  if not text then return nil end
  local list = {}
  for number in text:gmatch("%d+") do
    local child = math.tointeger(tonumber(number))
    if runs(child) then list[#list + 1] = child end
  end
  return list
end

-- Sends a signal to a process. GNU timeout signals ett and then its group: that may end this shell, too, before its
-- trap is set. Then it is started again.
local function send(signal, process)
  local command = ("trap '' TERM INT HUP; kill -%s %d 2>/dev/null"):format(signal, process)
  for _ = 1, 5 do
    local _, how = os.execute(command)
    if how ~= "signal" then return end
  end
end

--- Ends mpirun, which ends its ranks; kills the process and its children if that fails.
local function stop(process)
  host.interrupt_grace(end_seconds + 2)
  send("TERM", process)
  local last = sample.now() + end_seconds
  while runs(process) and sample.now() < last do sample.pause(0.05) end
  if not runs(process) then return end
  for _, child in ipairs(children(process) or {}) do send("KILL", child) end
  send("KILL", process)
end

--- Waits until a process ends. Returns false if fewer than `count` of its children ran for patience_seconds.
local function wait(process, count)
  local whole = sample.now()
  while runs(process) do
    local list = children(process)
    if not list or #list >= count then whole = sample.now() end
    if sample.now() - whole > mpirun.patience_seconds then return false end
    sample.pause(poll_seconds)
  end
  return true
end

--- The reason why a launch failed: the rank that died, else ett's error, else mpirun's message, else the exit status.
local function reason(text, how, code)
  local rank, signal = text:match("process rank (%d+) with PID %d+ on node %S+ exited on signal (%d+ ?%b())")
  if rank then return ("rank %s died: signal %s; the other ranks were ended"):format(rank, signal:gsub("%.$", "")) end
  local said = text:match("ett: ([^\n]+)")
  if said then return said end
  text = text:gsub("%-%-%-+\n?", ""):gsub("%s+", " "):gsub(" $", "")
  if text:match "^ *Primary job terminated normally, but [^:]*$" then
    return "a rank ended with an error, and mpirun does not say which; the other ranks were ended"
  end
  if text:match("^ *$") then return ("mpirun ended without a message: %s %d"):format(how or "status", code or 0) end
  return "mpirun says: " .. text:sub(-600)
end

--- Runs `ett ARGUMENTS` on several ranks; raises an error with the reason of a failure. mpirun ends when this process
--- ends for any reason, if setpriv (util-linux) is installed. An error or an interrupt ends mpirun immediately.
---@param count integer ranks
---@param arguments string in the syntax of sh
---@param options table what (text for errors), log (path of the ranks' output, removed on success), environment
--- (assignments before the command), bound (true: mpirun binds the ranks)
---@return string output of the ranks on both streams
function mpirun.run(count, arguments, options)
  local ok, why = mpirun.available()
  if not ok then error_module.raise("missing", "%s needs %d ranks: %s", options.what, count, why) end
  local log = options.log
  local with_us = works("setpriv --pdeathsig TERM true") and "setpriv --pdeathsig TERM" or ""
  -- Ctrl-C goes to this process only: an mpirun that gets it twice leaves its files in /tmp and /dev/shm.
  if works("setsid true") then with_us = with_us .. " setsid" end
  local pipe = io.popen(("echo $$; OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s exec %s mpirun "
    .. "--oversubscribe %s -n %d %s %s >%s 2>&1 </dev/null"):format(options.environment or "", with_us,
    options.bound and "" or "--bind-to none", count, quote(host.prefix .. "/bin/ett"), arguments, quote(log)))
  local process = pipe:read("n")
  local guard <close> = setmetatable({}, { __close = function() -- luacheck: ignore guard
    if io.type(pipe) == "file" then
      if process then stop(process) end
      pipe:close()
    end
  end })
  local ended = not process or wait(process, count)
  local text = read(log) or "" -- read before mpirun is killed and prints more
  if not ended then stop(process) end
  local well, how, code = pipe:close()
  if not ended and not text:find("exited on signal", 1, true) then
    error_module.raise("io", "%s, %d ranks: mpirun still running %d s after its ranks exited; killed%s",
      options.what, count, mpirun.patience_seconds, text:match("%S") and ": " .. reason(text) or "")
  end
  if not (ended and well) then
    error_module.raise("io", "%s, %d ranks: %s", options.what, count, reason(text, how, code))
  end
  os.remove(log)
  return text
end

return mpirun
