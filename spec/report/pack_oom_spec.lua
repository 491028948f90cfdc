-- Every allocation of ett.pack fails in turn: an error each time, and nothing leaks.
local oom = require "oom"
local pack = require "ett.pack"

it("ett.pack survives failed allocations", function()
  local start, duration, label, wait = {}, {}, {}, {}
  for i = 1, 40 do start[i], duration[i], label[i], wait[i] = i * 10, 15, i % 3 + 1, 5 end
  assert.is_true(oom.every_allocation(function() return pack.deflate(("x"):rep(1000)) end) > 0)
  assert.is_true(oom.every_allocation(function()
    return pack.lane { start = start, duration = duration, label = label, wait = wait, kind = { 0, 1, 2 }, from = 0,
      to = 500, bins = 16, chunk_events = 16 }
  end) > 0)
end)
