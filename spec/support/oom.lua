--- Fails every allocation of a piece of code in turn.
--
--   local oom = require "oom"
--   it("survives failed allocations", function()
--     oom.every_allocation(function() return json.decode '{"a": [1, 2]}' end)
--   end)
--
-- The code runs repeatedly: the 1st, 2nd, ... allocation and all later ones fail, until no allocation fails. Each run
-- must end in a memory error, raised or returned as nil, err, or in its usual result. Afterwards no additional block
-- may be held.
local testing = require "ett.testing"

local oom = {}

local function is_memory_error(value)
  if type(value) == "table" then return value.kind == "memory" or is_memory_error(value.message) end
  return type(value) == "string" and value:find("not enough memory", 1, true) ~= nil
end

-- Lua frees its spare blocks a few at each collection: repeat until their number is constant.
local function collect()
  local last, still = nil, 0
  for _ = 1, 50 do
    collectgarbage()
    local now = testing.blocks()
    still = now == last and still + 1 or 0
    if still == 4 then break end
    last = now
  end
  return last
end

local function sweep(fn, most)
  for first = 1, most do
    local counted, ok, result, err = testing.fail_from(first, fn)
    local failed = not ok and result or result == nil and err or nil
    if failed and not is_memory_error(failed) then
      error(("allocation %d of %s: wanted a memory error, got: %s"):format(first, counted, tostring(failed)), 0)
    end
    if counted < first then
      if failed then error("fails without a failed allocation: " .. tostring(failed), 0) end
      return first - 1
    end
  end
  error(("still allocating after %d allocations"):format(most), 0)
end

--- Runs fn with each of its allocations failing in turn; returns their number. If the number of held blocks differs
--- afterwards, a failure may have changed a cache: the failures are repeated, and this time no block may be added.
---@param fn fun(): any, any
---@param most integer? largest number of allocations to try (default 20000)
---@return integer
function oom.every_allocation(fn, most)
  most = most or 20000
  fn() -- loads modules, fills caches
  local before = collect()
  local count = sweep(fn, most)
  local after = collect()
  if after == before then return count end
  sweep(fn, most)
  local again = collect()
  if again > after then
    error(("%d blocks leaked in %d runs with failed allocations"):format(again - after, count), 0)
  end
  return count
end

--- Runs fn; every stride-th allocation, and all that follow it, fails in a child process. The child must end in a
--- memory error or a result. With its Lua state closed, it must hold no more blocks than after a run without failures.
---@param stride integer
---@param alike integer? this many allocations of each chain of C callers always fail (default 0)
---@return integer count of allocations
---@return integer failed children
---@return integer tried
function oom.forked(fn, stride, alike)
  fn()
  local most = testing.blocks_closed(fn)
  local count, tried, failed, in_child, ok, result, err = testing.fail_forked(stride, alike or 0, fn)
  if not in_child then return count, failed, tried end
  local fault = not ok and result or result == nil and err or nil
  if fault and not is_memory_error(fault) then
    io.stderr:write(("allocation %d: wanted a memory error, got: %s\n"):format(count, tostring(fault)))
    testing.exit(3)
  end
  testing.exit_closed(most)
end

return oom
