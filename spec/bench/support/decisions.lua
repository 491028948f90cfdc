--- Whether ett ranks measured steps as they were measured. A group has steps of one source, software, device and model.
--- Each two steps of a group are a pair. A step's figure is the time of all its devices for a token.
local median = require "ett.base.median"
local schema = require "ett.base.schema"
local sure = require "ett.search.sure"

local decisions = {}

-- Pairs with smaller measured differences are not decisions.
local least = 0.02

-- What differs in a pair, by the fields of its two plans. Numbers of devices and micro-batches may differ in addition.
local kinds = { layout = "tp pp cp ep etp vp schedule split sequence_parallel zero reshard", precision = "dtype",
  ["micro-batch"] = "micro_batch", ["sequence length"] = "seq", stack = "stack attention",
  recomputation = "recompute recompute_layers recompute_modules recompute_method",
  [""] = "dp shard micro_batches global_batch" }
local kind_of = {}
for kind, names in pairs(kinds) do
  for name in names:gmatch "%S+" do kind_of[name] = kind end
end

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
  local named = step.name:match "^([^/]+)/"
  if named then return named end
  local source = step.source:gsub("[,:%(].*", ""):gsub(" issue.*", "")
  return table.concat({ source, step.cluster, step.software, step.decision.model }, " ")
end

--- The kind of difference of two steps; "several" if their plans differ in more than one kind.
function decisions.kind(a, b)
  local words, kind = {}, ""
  for word in a.words:gmatch "%S+" do words[word] = true end
  for word in b.words:gmatch "%S+" do words[word] = not words[word] or nil end
  for _, word in ipairs(schema.keys(words)) do
    local other = kind_of[word:match "^[^=]+"] or "another field"
    if kind ~= "" and other ~= "" and other ~= kind then return "several" end
    kind = kind == "" and other or kind
  end
  return kind == "" and "devices, batch" or kind
end

--- One pair: its group and kind, whether the order is right, the error of the ratio, and the chance that ett states.
local function pair_of(group, step, other)
  local a, b = step.decision, other.decision
  if a.predicted > b.predicted then a, b = b, a end -- ett says that a is faster
  local ratio = b.measured / a.measured
  return math.abs(math.log(ratio)) > math.log(1 + least) and { group = group, kind = decisions.kind(step, other),
    right = ratio > 1, off = math.abs(b.predicted / a.predicted / ratio - 1),
    chance = 100 * sure.chance(a.plan, b.plan) } or nil
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
      for j = i + 1, #group do list[#list + 1] = pair_of(name, group[i], group[j]) end
    end
  end
  return list
end

--- Share of pairs in the right order and the mean chance that ett states, the share if each group counts once, the
--- median error of the ratio, and for each range of stated chances how many pairs hold.
function decisions.figures(list)
  local groups, offs, right, stated, held = {}, {}, 0, 0.0, {}
  for i, range in ipairs(ranges) do held[i] = { from = range[1], to = range[2], pairs = 0, right = 0 } end
  for i, pair in ipairs(list) do
    local one = pair.right and 1 or 0
    local group = groups[pair.group] or { pairs = 0, right = 0 }
    groups[pair.group], offs[i], right, stated = group, pair.off, right + one, stated + pair.chance
    group.pairs, group.right = group.pairs + 1, group.right + one
    for _, range in ipairs(held) do
      if pair.chance >= range.from and (pair.chance < range.to or range.to == 100) then
        range.pairs, range.right = range.pairs + 1, range.right + one
      end
    end
  end
  local names, sum = schema.keys(groups), 0.0
  for _, name in ipairs(names) do sum = sum + groups[name].right / groups[name].pairs end
  return { pairs = #list, groups = #names, right_percent = 100 * right / #list,
    stated_percent = stated / #list, groups_percent = 100 * sum / #names,
    off_percent = 100 * median(offs), held = held }
end

--- One line of a bench.
function decisions.line(name, list)
  local f, parts = decisions.figures(list), {}
  for i, range in ipairs(f.held) do
    parts[i] = ("%d-%d %%: %d of %d"):format(range.from, range.to, range.right, range.pairs)
  end
  return { measure = ("decisions, %s, %d groups, %d pairs"):format(name, f.groups, f.pairs),
    value = ("right %.0f %%, stated %.0f, groups %.0f, ratio off %.1f %%, chances %s"):format(f.right_percent,
      f.stated_percent, f.groups_percent, f.off_percent, table.concat(parts, ", ")) }
end

return decisions
