--- Placement of groups of ranks, counted rank by rank from their coordinates: the oracle of ett's placement.
local random_plans = require "random_plans"

local rank_map = {}

--- Coordinates of a rank counted by axes in an order, the innermost first.
local function coordinates(rank, order, degree)
  local at = {}
  for axis in order:gmatch "%a+" do
    at[axis] = rank % degree[axis]
    rank = rank // degree[axis]
  end
  return at
end

-- Name of a group -> the axes in which its ranks differ, and whether these are axes of experts.
local groups = {
  tp = { { "tp" } }, cp = { { "cp" } }, dp = { { "dp" } }, data = { { "cp", "dp" } },
  ep = { { "ep" }, true }, etp = { { "tp" }, true }, ["expert data"] = { { "dp" }, true },
}

local function degrees(p, experts)
  if not experts then return { tp = p.tp, cp = p.cp, ep = 1, dp = p.dp, pp = p.pp } end
  return { tp = p.etp, cp = 1, ep = p.ep, dp = p.tp * p.cp * p.dp // (p.etp * p.ep), pp = p.pp }
end

--- Lists of the devices of every group.
function rank_map.members(p, map, name)
  local kind, lists, order = groups[name], {}, {}
  local degree = degrees(p, kind[2])
  for rank = 0, p.tp * p.cp * p.dp * p.pp - 1 do
    local at, words = coordinates(rank, p.rank_order, degree), {}
    for _, axis in ipairs(kind[1]) do at[axis] = "*" end
    for _, axis in ipairs { "tp", "cp", "ep", "dp", "pp" } do words[#words + 1] = tostring(at[axis]) end
    local id = table.concat(words, " ")
    if not lists[id] then
      lists[id] = {}
      order[#order + 1] = id
    end
    table.insert(lists[id], map and map[rank + 1] or rank)
  end
  for i, id in ipairs(order) do order[i] = lists[id] end
  return order
end

local function counted(list, size)
  local count, distinct = {}, 0
  for _, device in ipairs(list) do
    local unit = device // size
    distinct = distinct + (count[unit] and 0 or 1)
    count[unit] = (count[unit] or 0) + 1
  end
  return count, distinct
end

local function least(a, b) return a == 0 and b or math.min(a, b) end

--- The placement counts of a group, tier by tier.
---@param sizes integer[] devices of a unit of each tier
---@param cards integer[] devices that share a card out of the unit below
---@param map integer[]? device of each rank
function rank_map.count(p, sizes, cards, map, name)
  local lists, tiers = rank_map.members(p, map, name), {}
  for k, size in ipairs(sizes) do
    local below = k > 1 and sizes[k - 1] or 1
    local tier, leaving, on_card = { units = 0, members = 0, most = 0, groups = 0, cards = 0, sharing = 0, inside = 0,
      branches = 0 }, {}, {}
    for _, list in ipairs(lists) do
      local _, units = counted(list, size)
      tier.units = math.max(tier.units, units)
      local inside, distinct = counted(list, below)
      local branches = {}
      for unit, count in pairs(inside) do
        local outer = unit * below // size
        branches[outer] = (branches[outer] or 0) + 1
        tier.inside, tier.branches = math.max(tier.inside, count), math.max(tier.branches, branches[outer])
      end
      if distinct > 1 then
        local used, cards_of = counted(list, cards[k]), {}
        for card in pairs(used) do
          local unit = card * cards[k] // below
          cards_of[unit] = (cards_of[unit] or 0) + 1
          on_card[card] = (on_card[card] or 0) + 1
          tier.sharing = math.max(tier.sharing, on_card[card])
        end
        for unit, count in pairs(inside) do
          tier.members, tier.cards = least(tier.members, count), least(tier.cards, cards_of[unit])
          tier.most = math.max(tier.most, count)
          leaving[unit] = (leaving[unit] or 0) + 1
          tier.groups = math.max(tier.groups, leaving[unit])
        end
      end
    end
    tiers[k] = tier
  end
  return tiers
end

--- Pairs of devices of neighbouring stages.
function rank_map.neighbours(p, map)
  local degree, pairs_of, stride = degrees(p, false), {}, 1
  for axis in p.rank_order:gmatch "%a+" do
    if axis == "pp" then break end
    stride = stride * degree[axis]
  end
  for rank = 0, p.tp * p.cp * p.dp * p.pp - 1 do
    if coordinates(rank, p.rank_order, degree).pp < p.pp - 1 then
      pairs_of[#pairs_of + 1] = { map and map[rank + 1] or rank, map and map[rank + stride + 1] or rank + stride }
    end
  end
  return pairs_of
end

--- Sends between neighbouring stages: number of tiers that they cross, and number of sending ranks of a unit and of a
-- card.
function rank_map.sends(p, sizes, cards, map)
  local tiers = {}
  for k, size in ipairs(sizes) do
    local below, tier, out, on_card = k > 1 and sizes[k - 1] or 1, { units = 1, groups = 0, sharing = 0 }, {}, {}
    for _, pair in ipairs(rank_map.neighbours(p, map)) do
      local from, to = pair[1], pair[2]
      if from // size ~= to // size then tier.units = 2 end
      if from // below ~= to // below then
        out[from // below] = (out[from // below] or 0) + 1
        on_card[from // cards[k]] = (on_card[from // cards[k]] or 0) + 1
        tier.groups = math.max(tier.groups, out[from // below])
        tier.sharing = math.max(tier.sharing, on_card[from // cards[k]])
      end
    end
    tiers[k] = tier
  end
  return tiers
end

--- Axes in a random order.
function rank_map.order(pick)
  local left, words = { "tp", "cp", "ep", "dp", "pp" }, {}
  while #left > 0 do
    local axis = pick(left)
    for i = #left, 1, -1 do if left[i] == axis then table.remove(left, i) end end
    words[#words + 1] = axis
  end
  return table.concat(words, "-")
end

--- A random layout: plan, sizes, cards, map.
function rank_map.random(pick, with_map)
  local few = { 1, 1, 2, 3, 4 }
  local p = { tp = pick { 1, 2, 3, 4, 6, 8 }, cp = pick { 1, 1, 2, 3 }, dp = pick { 1, 2, 3, 4, 6, 8 },
    pp = pick(few), ep = 1 }
  p.etp, p.rank_order = pick { 1, p.tp }, pick { true, false } and rank_map.order(pick) or "tp-cp-ep-dp-pp"
  local experts = pick { 1, 2, 3, 4, 8 }
  if p.tp * p.cp * p.dp % (p.etp * experts) == 0 then p.ep = experts end
  local sizes, size, cards = {}, 1, {}
  for k = 1, pick { 1, 2, 3 } do
    local below = size
    size = size * pick(k == 1 and { 1, 2, 3, 4, 6, 8, 12 } or { 2, 3, 4 })
    sizes[k], cards[k] = size, 1
    for _, share in ipairs { pick { 1, 2, 4 } } do
      if below % share == 0 then cards[k] = share end
    end
  end
  sizes[#sizes + 1] = math.maxinteger
  cards[#cards + 1] = size % 2 == 0 and pick { 1, 2 } or 1
  local map
  if with_map then
    map = {}
    for i = 1, p.tp * p.cp * p.dp * p.pp do map[i] = i - 1 end
    for i = #map, 2, -1 do
      local choices = {}
      for j = 1, i do choices[j] = j end
      local j = pick(choices)
      map[i], map[j] = map[j], map[i]
    end
  end
  return p, sizes, cards, map
end

local function described(p, sizes, cards, name)
  return ("%s: %s tp %d cp %d ep %d etp %d dp %d pp %d on %s, cards %s"):format(name, p.rank_order, p.tp, p.cp, p.ep,
    p.etp, p.dp, p.pp, table.concat(sizes, " "), table.concat(cards, " "))
end

--- Compares ett's placement with the counts: a list of sentences on differences, and the number of groups.
function rank_map.compare(count, seed, with_map)
  local ranks, core = require "ett.plan.ranks", require "ett.step"
  local pick, differ, tried = random_plans.generator(seed), {}, 0
  for _ = 1, count do
    local p, sizes, cards, map = rank_map.random(pick, with_map)
    local tiers, c = {}, {}
    for k, size in ipairs(sizes) do tiers[2 * k - 1], tiers[2 * k] = size, cards[k] end
    for name, value in pairs(p) do c[name] = value end
    c.rank_order, c.tiers, c.gpus_per_node = ranks.code(p.rank_order), tiers, sizes[1]
    c.rank_map = map and core.map(map)
    local function compare(name, wanted, fields)
      local ok, found = pcall(core.place, c, name)
      if not ok and tostring(found):find("put pp last", 1, true) then return end
      tried = tried + 1
      for k, tier in ipairs(wanted) do
        for _, field in ipairs(fields) do
          local got = ok and found.tiers[k][field] or found
          if got ~= tier[field] then
            differ[#differ + 1] = ("%s: tier %d: %s: %s, not %d"):format(described(p, sizes, cards, name), k, field,
              tostring(got), tier[field])
            return
          end
        end
      end
    end
    for _, name in ipairs { "tp", "cp", "dp", "data", "ep", "etp", "expert data" } do
      compare(name, rank_map.count(p, sizes, cards, map, name),
        { "units", "members", "most", "groups", "cards", "sharing", "inside", "branches" })
    end
    if p.pp > 1 then
      local sends = rank_map.sends(p, sizes, cards, map)
      sends[1].groups, sends[1].sharing = 1, 1 -- of a device
      for k = 2, #sends do
        if sends[k - 1].units == 1 then sends[k].groups, sends[k].sharing = 0, 0 end
      end
      compare("pp", sends, { "units", "groups", "sharing" })
    end
  end
  return differ, tried
end

return rank_map
