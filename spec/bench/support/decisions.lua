--- Whether ett ranks measured steps as they were measured. A group has steps of one source, software, device and model.
--- Each two steps of a group are a pair. A step's figure is the time of all its devices for a token.
local median = require "ett.base.median"
local schema = require "ett.base.schema"
local sure = require "ett.search.sure"

local decisions = {}

-- Pairs with smaller measured differences are not decisions.
local least = 0.02

-- Stated chances in percent, as ranges: the least and the limit.
local ranges = { { 50, 60 }, { 60, 80 }, { 80, 95 }, { 95, 100 } }

--- What a pair needs of a step's estimate e; measured in seconds; model: a text that equal models share.
function decisions.step(e, measured, model)
  local share = e.devices / e.tokens_per_step
  return { model = model, predicted = e.step_seconds * share, measured = measured * share,
    plan = sure.plan(e, e.step_seconds * share) }
end

--- The group of a step. In the ninth set the name states it.
function decisions.group(step)
  local source = step.source:gsub("[,:%(].*", ""):gsub(" issue.*", "")
  return step.name:match "^([^/]+)/" or table.concat({ source, step.cluster, step.software, step.decision.model }, " ")
end

--- One pair: the group, whether the order is right, the error of the ratio, and the chance that ett states.
local function pair_of(group, a, b)
  if a.predicted > b.predicted then a, b = b, a end -- ett says that a is faster
  local ratio = b.measured / a.measured
  return math.abs(math.log(ratio)) > math.log(1 + least) and { group = group, right = ratio > 1,
    off = math.abs(b.predicted / a.predicted / ratio - 1), chance = 100 * sure.chance(a.plan, b.plan) } or nil
end

--- All pairs of answered steps, by the name of their group.
function decisions.pairs(steps)
  local groups, list = {}, {}
  for _, step in ipairs(steps) do
    local name = decisions.group(step)
    groups[name] = groups[name] or {}
    table.insert(groups[name], step)
  end
  for _, name in ipairs(schema.keys(groups)) do
    local group = groups[name]
    for i = 1, #group do
      for j = i + 1, #group do list[#list + 1] = pair_of(name, group[i].decision, group[j].decision) end
    end
  end
  return list
end

--- Share of pairs in the right order, of groups that count once, median error of the ratio, and for each range of
--- stated chances how many pairs hold.
function decisions.figures(list)
  local groups, offs, right, held = {}, {}, 0, {}
  for i, range in ipairs(ranges) do held[i] = { from = range[1], to = range[2], pairs = 0, right = 0 } end
  for i, pair in ipairs(list) do
    local one = pair.right and 1 or 0
    local group = groups[pair.group] or { pairs = 0, right = 0 }
    groups[pair.group], offs[i], right = group, pair.off, right + one
    group.pairs, group.right = group.pairs + 1, group.right + one
    for _, range in ipairs(held) do
      if pair.chance >= range.from and (pair.chance < range.to or range.to == 100) then
        range.pairs, range.right = range.pairs + 1, range.right + one
      end
    end
  end
  local names, sum = schema.keys(groups), 0.0
  for _, name in ipairs(names) do sum = sum + groups[name].right / groups[name].pairs end
  return { pairs = #list, groups = #names, right_percent = 100 * right / #list, groups_percent = 100 * sum / #names,
    off_percent = 100 * median(offs), held = held }
end

--- One line of a bench.
function decisions.line(name, list)
  local f, parts = decisions.figures(list), {}
  for i, range in ipairs(f.held) do
    parts[i] = ("%d-%d %%: %d of %d"):format(range.from, range.to, range.right, range.pairs)
  end
  return { measure = ("decisions, %s, %d groups, %d pairs"):format(name, f.groups, f.pairs),
    value = ("right %.0f %%, groups %.0f %%, ratio off %.1f %%, chances %s"):format(f.right_percent, f.groups_percent,
      f.off_percent, table.concat(parts, ", ")) }
end

return decisions
