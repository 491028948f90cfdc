--- Pairwise: each rank sends one share to every other rank directly, over all tiers at the same time.
--
-- Small messages inside a node use LL, as sends do (send.lua). If a curve has the time of an all_to_all inside a
-- unit, a group over several units takes at least this time for its part inside. On PCIe it may be longer than the
-- part on the cards.
local comm = require "ett.comm"

-- Seconds of a buffer's part inside a unit of the tier, as a function of the buffer.
local function inside(r, tier)
  local n, curve = tier.inside, tier.curve or tier.pair_curve
  if not curve or n < 2 then return nil end
  local law, part = comm.law { { moved = (n - 1) / n, curve = curve } }, n / r.ranks
  return function(bytes) return (law:time(part * bytes)) end
end

local function timer(r)
  local slowest, bus, latency, messages, wire, parts = 0.0, math.huge, 0.0, 0.0, nil, {}
  for _, tier in ipairs(r.tiers) do
    if tier.used then
      -- Peers outside the unit below; if outer tiers have separate links, only peers inside this tier.
      local peers = (tier.through and r.ranks or tier.most) - tier.members
      local own = peers / r.ranks / tier.rank_bandwidth
      if own > slowest then slowest, bus = own, tier.rank_bandwidth end
      latency, wire = tier.latency, tier.wire
      local each = r.forwarded and math.min(tier.members, r.forwarded) or 1 -- ranks behind a message
      messages = messages + (tier.most - tier.members) / each * tier.message_latency
      parts[#parts + 1] = inside(r, tier)
    end
  end
  local start, ll = r.base_latency + latency + messages, wire ~= "network" and r.protocols[1] and r.protocols[1].ring
  local ll_start = ll and ll.start + ll[wire] * latency + messages
  return function()
    if r.measured then return r.bytes * r.factor / r.measured, r.measured end
    local total, rate = start + slowest * r.bytes, bus
    if ll then total = math.min(total, ll_start + slowest * r.bytes / ll.share) end
    for i = 1, #parts do
      local own = parts[i](r.bytes)
      if own > total then total, rate = own, nil end
    end
    return total, rate
  end
end

return { name = "pairwise", summary = "all-to-all by pairs of ranks", source = "NVIDIA/nccl-tests doc/PERFORMANCE.md",
  kinds = { "all_to_all" }, timer = timer }
