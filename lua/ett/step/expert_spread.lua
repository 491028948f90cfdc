--- On how many nodes, or ranks, of an expert-parallel group the experts of a token are.
--
-- A dispatcher that sends a token once to each place moves that many copies instead of top_k (DeepEP, "Overview":
-- once over the network to a node, then over NVLink; DeepSeek-V3, arXiv 2412.19437, section 3.2.2). Experts are taken
-- to be drawn evenly without replacement, as balanced routers aim for.
local expert_spread = {}

--- choose(a, k) / choose(b, k): the share of draws of k among b that stay among a of them.
local function share(a, b, k)
  local product = 1.0
  for i = 0, k - 1 do product = product * math.max(0.0, a - i) / (b - i) end
  return product
end

local function choose(n, k)
  if k < 0 or k > n then return 0.0 end
  local product = 1.0
  for i = 0, k - 1 do product = product * (n - i) / (i + 1) end
  return product
end

--- Expected number of distinct places that hold an expert of a token.
---@param places integer nodes or ranks that share the experts evenly
---@param h table experts, top_k, and of routers that first choose groups of experts (DeepSeek-V3's
---  n_group and topk_group) expert_groups and top_groups
---@return number between 1 and min(places, top_k)
function expert_spread.expected(places, h)
  local own, k = h.experts / places, h.top_k
  local groups, top = h.expert_groups or 1, h.top_groups or h.expert_groups or 1
  local size = h.experts / groups
  local pool = top * size -- experts of the chosen groups
  local left_out = 0.0
  if groups >= places then -- a place holds whole groups
    local held = groups // places
    for chosen = 0, math.min(held, top) do
      local weight = choose(held, chosen) * choose(groups - held, top - chosen) / choose(groups, top)
      if weight > 0 then left_out = left_out + weight * share(pool - chosen * size, pool, k) end
    end
  else -- a part of one
    left_out = 1 - top / groups * (1 - share(pool - own, pool, k))
  end
  return places * (1 - left_out)
end

return expert_spread
