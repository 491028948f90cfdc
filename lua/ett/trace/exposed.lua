--- Exposed communication attributed to transfers and to late ranks.
local align = require "ett.trace.align"
local by = require "ett.base.by"
local interval = require "ett.interval"

local exposed = {}

local function add(list, key, ticks) list[key] = (list[key] or 0) + ticks end

local function row_of(kinds, one, group)
  local name = ("%s of %s"):format(one.kind, one.bytes and ("%.0f bytes"):format(one.bytes) or "unknown bytes")
  local label = group.description or group.group
  local key = name .. "|" .. label
  local row = kinds[key]
  if not row then
    row = { name = name, group = label, wait = 0, transfer = 0, count = 0 }
    kinds[key] = row
  end
  return row
end

--- Attributes the matched collectives of a group on one rank: exposed time before the last start to the last rank, time
--- after it to transfer. `parts`: as of shared.
local function charge(each, r, parts, total)
  local members = each.group.members
  local lane = members[r].lane
  for i, part in ipairs(parts) do
    local found, share = each.result.matches:charge(r, part.set), part.share
    for late, wait in ipairs(found.by_rank) do
      if wait > 0 then add(total.ranks, members[late].lane.key, wait * share) end
    end
    for n, one in ipairs(total.kinds and lane:collectives().sorts or {}) do
      if found.count_of[n] > 0 then
        local row = row_of(total.kinds, one, each.group)
        row.wait, row.transfer = row.wait + found.waiting_of[n] * share, row.transfer + found.transfer_of[n] * share
        row.count = row.count + (i == 1 and found.count_of[n] or 0)
      end
    end
    total.wait, total.transfer = total.wait + found.waiting * share, total.transfer + found.transfer * share
    add(total.waiting, lane.key, found.waiting * share)
  end
end

--- Starts (+1) and ends (-1) of the matched collectives of a lane, in order.
local function edges_of(homes)
  local edges = {}
  for _, home in ipairs(homes) do
    for i = 1, #home.each.result.matches do
      local from, to = home.each.result.matches:at(home.rank, i)
      if to > from then
        edges[#edges + 1] = { from, 1 }
        edges[#edges + 1] = { to, -1 }
      end
    end
  end
  table.sort(edges, function(a, b) return a[1] < b[1] end)
  return edges
end

--- An interval set in parts by the number n of matched collectives that run: { { set =, share = 1 / n } }.
---@param homes table[] the groups of a lane: { each = (of View:matched_groups), rank = (its member) }
local function shared(homes, set)
  local sum, united = 0, interval.new{}
  for _, home in ipairs(homes) do
    local list = home.each.group.members[home.rank].list
    sum, united = sum + list:sum(), united | list:intervals()
  end
  if sum == united:measure() then return { { set = set, share = 1 } } end
  local by_count, most, depth, from = {}, 0, 0, nil
  for _, edge in ipairs(edges_of(homes)) do
    if depth > 0 and edge[1] > from then
      by_count[depth] = by_count[depth] or {}
      table.insert(by_count[depth], { from, edge[1] })
    end
    depth, from = depth + edge[2], edge[1]
    most = math.max(most, depth)
  end
  local parts = {}
  for n = 1, most do
    if by_count[n] then parts[#parts + 1] = { set = set & interval.new(by_count[n]), share = n == 1 and 1 or 1 / n } end
  end
  return parts
end

--- The late ranks that cause most of the waiting: names and their share.
local function culprits(total)
  local list = {}
  for key, ticks in pairs(total.ranks) do list[#list + 1] = { key = key, ticks = ticks } end
  table.sort(list, by("-ticks", "key"))
  local names, sum = {}, 0
  for _, each in ipairs(list) do
    if sum >= 0.8 * total.wait or #names == 3 then break end
    names[#names + 1], sum = each.key, sum + each.ticks
  end
  return names, sum, list
end

--- The end of the headline if a matched group lacks ranks in the trace, or may lack them. It may lack them if its size
--- is unknown, because it may be the group of all ranks.
local function absent_ranks(lanes, groups)
  local absent, size, whole, unsure = 0, nil, lanes[1].process.world_size, false
  for _, each in ipairs(groups) do
    local members, known = #each.group.members, each.group.size
    if each.result and known and known - members > absent then absent, size = known - members, known end
    unsure = unsure or each.result and not known and members == #lanes and members < (whole or 0)
  end
  if absent > 0 then
    return ("; %d of %d ranks of a group %s not in the trace: waiting for %s counts as transfer"):format(absent, size,
      absent > 1 and "are" or "is", absent > 1 and "them" or "it")
  end
  if not unsure then return "" end
  return ("; the trace has %d of %d ranks: waiting for others counts as transfer"):format(#lanes, whole)
end

--- One sentence on the causes. `whole`: ticks of exposed communication.
local function sentence(total, whole)
  if whole == 0 then return "no communication is exposed" end
  local names, sum = culprits(total)
  local text = ("%.0f %% of the exposed communication is waiting for late ranks, %.0f %% transfer"):format(
    100 * total.wait / whole, 100 * total.transfer / whole)
  if #names == 0 or total.wait < 0.005 * whole then return text end
  return ("%s; rank%s %s account%s for %.0f %% of the waiting"):format(text, #names > 1 and "s" or "",
    table.concat(names, ", "), #names > 1 and "" or "s", 100 * sum / total.wait)
end

--- The causes over all lanes, in ticks: { headline, whole, wait, transfer, ranks (caused, by lane key), waiting (by
--- lane key), kinds (by kind and bytes: { name, group, count, wait, transfer }) }. Raises "missing" without two ranks
--- whose collectives match.
---@param by_bytes boolean? false: without `kinds`, which is faster for many different sizes
function exposed.causes(view, by_bytes)
  local lanes = view:lanes()
  if #lanes < 2 then view:missing("needs at least two ranks; the trace has one device lane (%s)", lanes[1].key) end
  local open = {}
  local total = { whole = 0, wait = 0, transfer = 0, ranks = {}, waiting = {}, kinds = by_bytes and {} }
  for _, lane in ipairs(lanes) do
    open[lane.key] = lane:comm() - lane:compute()
    total.whole = total.whole + open[lane.key]:measure()
  end
  local refused, homes, groups = nil, {}, view:matched_groups(nil, nil, not by_bytes)
  for _, each in ipairs(groups) do
    if not each.result then refused = refused or align.refusal(view, each) end
    for r, member in ipairs(each.result and each.group.members or {}) do
      homes[member.lane.key] = homes[member.lane.key] or {}
      table.insert(homes[member.lane.key], { each = each, rank = r })
    end
  end
  for _, lane in ipairs(lanes) do
    local mine = homes[lane.key] or {}
    local parts = shared(mine, open[lane.key])
    for _, home in ipairs(mine) do charge(home.each, home.rank, parts, total) end
  end
  if total.wait + total.transfer == 0 and total.whole > 0 then
    view:missing("%s", refused or "needs a process group with collectives on two ranks or more")
  end
  total.headline = sentence(total, total.whole) .. absent_ranks(lanes, groups)
  return total
end

return exposed
