--- A time limit on the Lua of operators and campaigns: an endless loop fails its shape, not the campaign.
--
-- A hook reads the clock every million instructions. Only time in Lua counts: a gap of a second or more between two
-- readings is a measurement or a device call, which have separate limits.
local error_module = require "ett.base.error"
local sample = require "ett.sample"

local sample_limit = {}

local INSTRUCTIONS, ELSEWHERE_SECONDS = 1000000, 1
-- Seconds that this Lua may still take after Ctrl-C or SIGTERM.
local STOP_SECONDS = 1

local function given_seconds()
  local text = os.getenv "ETT_KERNEL_SECONDS"
  if not text or text == "" then return 60 end
  local seconds = tonumber(text)
  if not seconds or not (seconds > 0 and seconds <= 86400) then
    error_module.raise("usage", "ETT_KERNEL_SECONDS must be a number of seconds above 0 and at most 86400, got '%s'",
      text)
  end
  return seconds
end

--- Seconds after which a kernel, or the Lua that describes one, is stopped (ETT_KERNEL_SECONDS).
sample_limit.seconds = given_seconds()

--- Calls fn(...) in the running coroutine. clock.spent: seconds of the limited call up to the last reading, nil if the
--- call began later; clock.paused: no limited call is running.
local function limited(clock, fn, ...)
  local last = sample.now()
  local finish
  local function look()
    local now = sample.now()
    if not clock.spent then
      clock.spent = 0.0
    elseif now - last < ELSEWHERE_SECONDS then
      clock.spent = clock.spent + now - last
    end
    last = now
    if sample.interrupted() then clock.stopped = clock.stopped or now end
    local waited = clock.stopped and now - clock.stopped >= STOP_SECONDS
    if clock.paused or clock.spent < sample_limit.seconds and not waited then return end
    local where = debug.getinfo(2, "Slf")
    if where and (where.func == finish or where.func == limited) then return debug.sethook() end
    debug.sethook(look, "", 1) -- raises again immediately if user code catches the error
    if waited then error_module.raise("interrupt", "this Lua code did not end after a signal") end
    error_module.raise("limit", "%s:%d: this Lua code ran longer than %g seconds (ETT_KERNEL_SECONDS sets the limit)",
      where and where.short_src or "?", where and where.currentline or 0, sample_limit.seconds)
  end
  -- The host's hook (Ctrl-C, SIGTERM) stays: it raises next.
  function finish(...)
    if debug.gethook() == look then debug.sethook() end
    return ...
  end
  if not debug.gethook() then debug.sethook(look, "", INSTRUCTIONS) end
  return finish(xpcall(fn, error_module.traced, ...))
end

--- Calls fn(...). Raises an error of kind "limit" if its Lua code exceeds the limit.
---@return boolean ok, any ... results, or an error object
function sample_limit.call(fn, ...) return limited({ spent = 0.0 }, fn, ...) end

--- Calls loop(call) without a limit; each call(fn, argument) inside it is limited. Use this for loops over many short
--- calls, which sample_limit.call would slow down several times.
---@return boolean ok, any ... results, or an error object
function sample_limit.each(loop)
  local clock = { paused = true }
  return limited(clock, loop, function(fn, argument)
    clock.spent, clock.paused = nil, false
    local result = fn(argument)
    clock.paused = true
    return result
  end)
end

local function restore(hook, mask, count, ok, ...)
  if not debug.gethook() then debug.sethook(hook, mask, count) end
  if not ok then error(..., 0) end
  return ...
end

--- Calls fn(...), a function of ett, without the hook that limits user code. The hook makes Lua code several times
--- slower.
function sample_limit.outside(fn, ...)
  local hook, mask, count = debug.gethook()
  if type(hook) ~= "function" then return fn(...) end -- none, or the host's
  debug.sethook()
  return restore(hook, mask, count, xpcall(fn, error_module.traced, ...))
end

return sample_limit
