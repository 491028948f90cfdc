--- Exposed communication attributed to transfers and to late ranks.
local align = require "ett.trace.align"
local collective = require "ett.trace.collective"
local stats = require "ett.trace.stats"

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
local function charge(each, exposed, total)
  local members = each.group.members
  for r, member in ipairs(members) do
    local lane = member.lane
    local found = each.result.matches:charge(r, exposed[lane.key])
    for late, wait in ipairs(found.by_rank) do
      if wait > 0 then add(total.ranks, members[late].lane.key, wait) end
    end
    for n, one in ipairs(lane:collectives().sorts) do
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
  table.sort(list, function(a, b)
    if a.ticks ~= b.ticks then return a.ticks > b.ticks end
    return a.key < b.key
  end)
  local names, sum = {}, 0
  for _, each in ipairs(list) do
    if sum >= 0.8 * total.wait or #names == 3 then break end
    names[#names + 1], sum = each.key, sum + each.ticks
  end
  return names, sum, list
end

local function headline(total, exposed)
  if exposed == 0 then return "no communication is exposed" end
  local names, sum = culprits(total)
  local text = ("%.0f %% of the exposed communication is waiting for late ranks, %.0f %% transfer"):format(
    100 * total.wait / exposed, 100 * total.transfer / exposed)
  if #names == 0 then return text end
  return ("%s; rank%s %s account%s for %.0f %% of the waiting"):format(text, #names > 1 and "s" or "",
    table.concat(names, ", "), #names > 1 and "" or "s", 100 * sum / total.wait)
end

return {
  name = "exposed_causes",
  summary = "exposed communication charged to transfers and to late ranks",
  definition = [[Exposed communication |C| - |C n K| of every device. Of a collective that is matched over its ranks,
    the
part before the last rank's start is waiting, charged to that rank; the rest is transfer. What is not matched is
unexplained. Collectives that run at once share their time.]],
  needs = "device rows of at least two ranks that ran the same collectives",
  units = { exposed_ms = "ms", waiting_ms = "ms", transfer_ms = "ms", unexplained_ms = "ms", caused_ms = "ms",
    waited_ms = "ms", waiting_share = "share", share = "share" },
  args = collective.args,
  options = { "align", "tolerance_us" },
  compute = function(view, options)
    local lanes = view:lanes()
    if #lanes < 2 then view:missing("needs at least two ranks; the trace has one device lane (%s)", lanes[1].key) end
    local exposed, whole = {}, 0
    for _, lane in ipairs(lanes) do
      exposed[lane.key] = lane:comm() - lane:compute()
      whole = whole + exposed[lane.key]:measure()
    end
    local total, refused = { wait = 0, transfer = 0, ranks = {}, waiting = {}, kinds = {} }, nil
    for _, each in ipairs((view:matched_groups(options.align or "auto", view:tolerance()))) do
      if each.result then charge(each, exposed, total) else refused = refused or align.refusal(view, each) end
    end
    if total.wait + total.transfer == 0 and whole > 0 then
      view:missing("%s", refused or "needs a process group with collectives on two ranks or more")
    end
    local ranks, kinds = {}, {}
    for _, lane in ipairs(lanes) do
      local caused = total.ranks[lane.key] or 0
      ranks[lane.key] = { caused_ms = view:ms(caused), waited_ms = view:ms(total.waiting[lane.key] or 0),
        share = stats.ratio(caused, total.wait) }
    end
    for _, row in pairs(total.kinds) do
      kinds[#kinds + 1] = { name = row.name, group = row.group, count = row.count, waiting_ms = view:ms(row.wait),
        transfer_ms = view:ms(row.transfer) }
    end
    table.sort(kinds, function(a, b)
      local x, y = a.waiting_ms + a.transfer_ms, b.waiting_ms + b.transfer_ms
      if x ~= y then return x > y end
      return a.name < b.name
    end)
    return { headline = headline(total, whole), exposed_ms = view:ms(whole), waiting_ms = view:ms(total.wait),
      transfer_ms = view:ms(total.transfer), unexplained_ms = view:ms(whole - total.wait - total.transfer),
      waiting_share = stats.ratio(total.wait, whole), ranks = ranks, collectives = kinds }
  end,
}
