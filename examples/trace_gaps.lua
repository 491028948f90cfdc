#!/usr/bin/env ett
-- The longest idle gaps of a recorded run: on which device, how long, and which kernel ended them.
local ett = require "ett"

local o = ett.options {
  trace = { "string", default = "run", help = "folder or file of a trace" },
  top = { "count", default = 10, help = "gaps shown for each device" },
}

local t <close> = assert(ett.trace.open(o.trace))
for _, device in ipairs(t:events{ class = { "kernel", "memcpy", "memset" } }:group{ "rank", "device" }) do
  local rows = device.events:sort("ts")
  local gaps = {}
  for _, from, to in rows:intervals():gaps():iter() do gaps[#gaps + 1] = { from = from, ticks = to - from } end
  table.sort(gaps, function(a, b) return a.ticks > b.ticks end)
  print(("rank %s, device %s: %d gaps"):format(device.rank or "?", device.device or "?", #gaps))
  for i = 1, math.min(o.top, #gaps) do
    local after = rows:where{ starts_in = { gaps[i].from + gaps[i].ticks, math.maxinteger } }
    print(("  %10.1f us, ended by %s"):format(gaps[i].ticks * 1e6 / t.ticks_per_second,
      after:get(1, "name"):sub(1, 90)))
  end
end
