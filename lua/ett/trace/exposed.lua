--- Exposed communication attributed to transfers and to late ranks.
local align = require "ett.trace.align"
local by = require "ett.base.by"

local exposed = {}

local function add(list, key, ticks)
  list[key] = (list[key] or 0) + ticks
end

local function row_of(kinds, one, group)
  local name = ("%s of %s"):format(one.kind, one.bytes and ("%.0f bytes"):format(one.bytes) or "unknown bytes")
  local row = kinds[name]
  if not row then
    row = { name = name, group = group.description or group.group, wait = 0, transfer = 0, count = 0 }
    kinds[name] = row
  end
  return row
end

--- Attributes every matched collective of a group: time before the last start to the last rank, time after it to
--- transfer.
local function charge(each, open, total)
  local members = each.group.members
  for r, member in ipairs(members) do
    local lane = member.lane
    local found = each.result.matches:charge(r, open[lane.key])
    for late, wait in ipairs(found.by_rank) do
      if wait > 0 then add(total.ranks, members[late].lane.key, wait) end
    end
    for n, one in ipairs(total.kinds and lane:collectives().sorts or {}) do
      if found.count_of[n] > 0 then
        local row = row_of(total.kinds, one, each.group)
        row.wait, row.transfer = row.wait + found.waiting_of[n], row.transfer + found.transfer_of[n]
        row.count = row.count + found.count_of[n]
      end
    end
    total.wait, total.transfer = total.wait + found.waiting, total.transfer + found.transfer
    add(total.waiting, lane.key, found.waiting)
  end
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

--- One sentence on the causes. `whole`: ticks of exposed communication.
local function sentence(total, whole)
  if whole == 0 then return "no communication is exposed" end
  local names, sum = culprits(total)
  local text = ("%.0f %% of the exposed communication is waiting for late ranks, %.0f %% transfer"):format(
    100 * total.wait / whole, 100 * total.transfer / whole)
  if #names == 0 then return text end
  return ("%s; rank%s %s account%s for %.0f %% of the waiting"):format(text, #names > 1 and "s" or "",
    table.concat(names, ", "), #names > 1 and "" or "s", 100 * sum / total.wait)
end

--- The causes over all lanes, in ticks: { headline, whole, wait, transfer, ranks (caused, by lane key), waiting (by
--- lane key), kinds (by kind and bytes: { name, group, count, wait, transfer }) }. Raises "missing" without two ranks
--- whose collectives match.
---@param by_bytes boolean? false: without `kinds`, which is faster for many different sizes
function exposed.causes(view, by_bytes)
  local lanes, mode = view:lanes(), view.options.align or "auto"
  if #lanes < 2 then view:missing("needs at least two ranks; the trace has one device lane (%s)", lanes[1].key) end
  local open = {}
  local total = { whole = 0, wait = 0, transfer = 0, ranks = {}, waiting = {}, kinds = by_bytes and {} }
  for _, lane in ipairs(lanes) do
    open[lane.key] = lane:comm() - lane:compute()
    total.whole = total.whole + open[lane.key]:measure()
  end
  local refused
  for _, each in ipairs((view:matched_groups(mode, view:tolerance(), not by_bytes))) do
    if each.result then charge(each, open, total) else refused = refused or align.refusal(view, each) end
  end
  if total.wait + total.transfer == 0 and total.whole > 0 then
    view:missing("%s", refused or "needs a process group with collectives on two ranks or more")
  end
  total.headline = sentence(total, total.whole)
  return total
end

return exposed
