--- The distribution of a token's experts: number of nodes or ranks, and load of the busiest rank.
--
-- A dispatcher that sends a token once to each node or rank that needs it moves fewer copies than top_k (DeepEP,
-- "Overview": once over the network to a node, then over NVLink; DeepSeek-V3, arXiv 2412.19437, section 3.2.2). Experts
-- are assumed to be drawn uniformly without replacement, which is the goal of balanced routers.
local expert_spread = {}

--- choose(a, k) / choose(b, k): the probability that k draws from b items are all among a given items.
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

--- The probability that a token uses no expert in a range, if the router chooses `top` groups of experts, and then k
--- experts of these groups. The first and the last group of the range may be in it only partly.
local function unused(from, to, groups, top, size, k)
  local first, last = from // size, math.ceil(to / size) -- the groups in the range
  local head, tail = (first + 1) * size - from, to - (last - 1) * size -- experts of both ends, if they are two groups
  local whole, sum = last - first - 2, 0.0
  if whole < 0 then head, tail, whole = to - from, 0, 0 end
  local ends = last - first == 1 and 1 or 2
  for chosen = 0, math.min(whole, top) do
    for h = 0, 1 do
      for t = 0, ends - 1 do
        local weight = choose(whole, chosen) * choose(groups - whole - ends, top - chosen - h - t) / choose(groups, top)
        if weight > 0 then
          sum = sum + weight * share(top * size - chosen * size - h * head - t * tail, top * size, k)
        end
      end
    end
  end
  return sum
end

--- Expected number of distinct places that hold an expert of a token.
---@param places integer nodes or ranks that share the experts evenly
---@param h table experts, top_k; for routers that first choose groups of experts (DeepSeek-V3's n_group and
--- topk_group) also expert_groups and top_groups
---@return number between 1 and min(places, top_k)
function expert_spread.expected(places, h)
  local own, k = h.experts / places, h.top_k
  local groups, top = h.expert_groups or 1, h.top_groups or h.expert_groups or 1
  local size = h.experts / groups
  local pool = top * size -- experts in the chosen groups
  local left_out = 0.0
  if groups % places > 0 and places % groups > 0 then
    for place = 1, places do
      left_out = left_out + unused((place - 1) * own, place * own, groups, top, size, k) / places
    end
  elseif groups >= places then -- a place holds whole groups
    local held = groups // places
    for chosen = 0, math.min(held, top) do
      local weight = choose(held, chosen) * choose(groups - held, top - chosen) / choose(groups, top)
      if weight > 0 then left_out = left_out + weight * share(pool - chosen * size, pool, k) end
    end
  else -- a place holds a part of one group
    left_out = 1 - top / groups * (1 - share(pool - own, pool, k))
  end
  return places * (1 - left_out)
end

--- Shares of a power law: the share of the i-th busiest expert is proportional to i^-skew, and at most 1 / top_k,
--- because a token chooses an expert only once. The excess is redistributed proportionally.
local function power_law(experts, top_k, skew)
  local shares, most = {}, 1 / top_k
  local left, weights = 1.0, 0.0
  for i = 1, experts do
    shares[i] = i ^ -skew
    weights = weights + shares[i]
  end
  for i = 1, experts do -- descending order: once a share is below the limit, all later ones are too
    local own = math.min(most, left * shares[i] / weights)
    left, weights = left - own, weights - shares[i]
    shares[i] = own
  end
  return shares
end

--- The load of the busiest expert-parallel rank. Measured shares belong to experts in model order; a rank holds a block
--- of them. Shares of a power law are dealt to the ranks in turn, the busiest first. An expert takes at most
--- capacity_factor times the mean; excess tokens are dropped (Switch Transformer, arXiv 2101.03961, section 2.2). With
--- pad_to_capacity every expert computes its full capacity (GShard, arXiv 2006.16668).
---@param h table experts, top_k
---@param p table ep, expert_skew, expert_shares, capacity_factor, pad_to_capacity
---@return number load of the busiest rank as a multiple of the mean, number share of copies that are kept, number load
--- of the mean rank, with its padding
function expert_spread.load(h, p)
  local experts, ranks = h.experts, p.ep
  if not experts then return 1.0, 1.0, 1.0 end
  local measured, most = p.expert_shares, p.capacity_factor and p.capacity_factor / experts or 1.0
  if not measured and p.expert_skew == 0 then -- uniform
    local kept = math.min(1.0, most * experts)
    local load = p.pad_to_capacity and p.capacity_factor or kept
    return load, kept, load
  end
  local shares = measured or power_law(experts, h.top_k, p.expert_skew)
  local loads, dropped, busiest = {}, 0.0, 0.0
  for i = 1, experts do
    local rank = measured and (i - 1) * ranks // experts or (i - 1) % ranks
    local taken = math.min(shares[i], most)
    loads[rank] = (loads[rank] or 0.0) + (p.pad_to_capacity and most or taken)
    dropped = dropped + (shares[i] - taken)
  end
  for rank = 0, ranks - 1 do busiest = math.max(busiest, loads[rank]) end
  return busiest * ranks, 1.0 - dropped, p.pad_to_capacity and p.capacity_factor or 1.0 - dropped
end

return expert_spread
