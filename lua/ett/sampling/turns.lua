--- Functions that take turns, as coroutines.
local error_module = require "ett.base.error"

local turns = {}

--- Runs functions side by side. Each yields its progress; the coroutine with the least progress is resumed next; errors
--- propagate.
---@param functions function[]
---@param after function? called with the least progress after each yield; it may itself yield
---@param quantum number? a function keeps running until its progress reaches the next multiple of this
---@return any[] results of the functions, in order of completion
function turns.take(functions, after, quantum)
  local threads, results = {}, {}
  for i, fn in ipairs(functions) do threads[i] = { run = coroutine.create(fn), progress = -1.0 } end
  local left <close> = setmetatable({}, { __close = function() -- luacheck: ignore left
    for _, thread in ipairs(threads) do coroutine.close(thread.run) end -- and what they hold open
  end })
  local function least()
    local thread, at = threads[1], 1
    for i = 2, #threads do
      if threads[i].progress < thread.progress then thread, at = threads[i], i end
    end
    return thread, at
  end
  while #threads > 0 do
    local thread, at = least()
    local ok, result = coroutine.resume(thread.run)
    if not ok then
      local object = error_module.from(result)
      object.traceback = object.traceback or debug.traceback(thread.run)
      error(object, 0)
    end
    if coroutine.status(thread.run) == "dead" then
      results[#results + 1] = result
      table.remove(threads, at)
    else
      thread.progress = quantum and result // quantum or result
      if after then after(least().progress) end
    end
  end
  return results
end

return turns
