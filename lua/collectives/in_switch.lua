--- In-switch reduction: switches sum the data that units send, and multicast results.
--
-- Applies if every tier in use has `reduces = true` (NVLink SHARP, InfiniBand SHARP). In an all_reduce a unit sends the
-- buffer once and receives it once; a ring moves nearly twice as much. A reduce_scatter sends all parts and receives
-- one; an all_gather sends one and receives all: the bytes of a ring, in fewer steps.
local function timer(r)
  local law, latency = {}, 0.0
  for _, tier in ipairs(r.tiers) do
    if tier.used then
      if not tier.reduces then return nil end
      local own = tier.members / r.ranks -- share of the buffer of a unit's ranks
      local out, back, n = 1, 1, #law
      if r.kind == "reduce_scatter" then out, back = 1 - own, own end
      if r.kind == "all_gather" then out, back = own, 1 - own end
      latency = latency + 2 * tier.latency -- up and down
      law[n + 1], law[n + 2] = { moved = out, bandwidth = tier.send }, { moved = back, bandwidth = tier.receive }
    end
  end
  law.start = r.base_latency + latency
  return law
end

return { name = "in_switch", summary = "switches that reduce and copy (NVLS, SHARP)",
  source = "Graham et al. 2016 (SHARP); bytes of each direction counted by hand",
  kinds = { "all_reduce", "all_gather", "reduce_scatter", "broadcast" }, timer = timer }
