--- All pairs: each rank sends each other rank its part, sums its own part, and sends it to all. Two steps for any
--- number of ranks.
---
--- RCCL runs small all_reduces of a whole node in this way if every pair of devices has links. These are MSCCL's
--- algorithms (ROCm/rccl tools/msccl-algorithms, allreduce-allpairs-8n-*). They are on by default if each process has
--- one device (src/misc/msccl/msccl_lifecycle.cc: MSCCL_ENABLE, mscclCommCompatible), and for fewer than 512 KiB also
--- on MI355X (release notes of rocm-7.1.1).
local function timer(r)
  local tier, laws = r.tiers[1], {}
  for k = 2, #r.tiers do if r.tiers[k].used then return nil end end
  if not (tier.used and tier.whole_mesh) or r.curve then return nil end
  for _, protocol in ipairs(r.protocols) do
    local own = protocol.pairs
    if own then
      laws[#laws + 1] = { start = own.start + 2 * own[tier.wire] * tier.latency,
        { moved = r.factor, bandwidth = own.share * tier.bandwidth } }
    end
  end
  return table.unpack(laws)
end

return { name = "all_pairs", summary = "small messages between all pairs of a node's devices at once",
  source = "ROCm/rccl tools/msccl-algorithms", kinds = { "all_reduce" }, timer = timer }
