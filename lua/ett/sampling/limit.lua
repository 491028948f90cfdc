--- A time limit on the Lua of operators and campaigns: a loop that never ends fails its shape instead of the campaign.
--
-- A hook looks at the clock every million instructions. Only time spent in Lua counts: what lies between two looks a
-- second or more apart was spent elsewhere (a measurement, a device), which has limits of its own.
local error_module = require "ett.base.error"
local sample = require "ett.sample"

local sample_limit = {}

local INSTRUCTIONS, ELSEWHERE_SECONDS = 1000000, 1

--- Seconds after which a kernel, or Lua that describes one, counts as never ending (ETT_KERNEL_SECONDS).
sample_limit.seconds = tonumber(os.getenv("ETT_KERNEL_SECONDS")) or 60

--- Calls fn(...) in the running coroutine. clock.spent: its seconds up to the last look, nil where what is limited
--- began after that; clock.stands: nothing limited is under way.
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
    if clock.stands or clock.spent < sample_limit.seconds then return end
    local where = debug.getinfo(2, "Slf")
    if where and (where.func == finish or where.func == limited) then return debug.sethook() end
    debug.sethook(look, "", 1) -- again at once, should somebody catch it
    error_module.raise("limit", "%s:%d: this Lua had not ended after %g seconds (ETT_KERNEL_SECONDS)",
      where and where.short_src or "?", where and where.currentline or 0, sample_limit.seconds)
  end
  -- The host's own hook (Ctrl-C, SIGTERM) stays: it is waiting to raise.
  function finish(...)
    if debug.gethook() == look then debug.sethook() end
    return ...
  end
  if not debug.gethook() then debug.sethook(look, "", INSTRUCTIONS) end
  return finish(xpcall(fn, error_module.traced, ...))
end

--- Calls fn(...); raises an error of kind "limit" when its Lua takes longer than the limit.
---@return boolean ok, any ... results, or an error object
function sample_limit.call(fn, ...) return limited({ spent = 0.0 }, fn, ...) end

--- Calls loop(call), whose own Lua may take as long as it likes: the limit is on each call(fn, argument). For loops
--- over many short calls, which sample_limit.call would make several times as long.
---@return boolean ok, any ... results, or an error object
function sample_limit.each(loop)
  local clock = { stands = true }
  return limited(clock, loop, function(fn, argument)
    clock.spent, clock.stands = nil, false
    local result = fn(argument)
    clock.stands = true
    return result
  end)
end

return sample_limit
