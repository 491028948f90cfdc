--- The fields that a search varies, in display order.
--
-- { name, level, title?, unit?, divides?, overlap?, values? }
--   level    where a search sets it: "part" (a setting, pp and dp under a program), "chunk" below a part, "walked" by C
--            below a chunk (runtime/search, in this order)
--   title    in a table of rows, if it differs from the name
--   unit     a unit of the search has one value (ett.search.space)
--   divides  the product of these degrees is the number of devices
--   overlap  plans of one layout may differ in it
--   values   that C walks unless given
--   follows  from other fields
local list = {
  { "tp", "part", unit = true, divides = true },
  { "cp", "part", unit = true, divides = true },
  { "pp", "part", divides = true },
  { "dp", "part", divides = true },
  { "ep", "part", unit = true },
  { "etp", "part", unit = true },
  { "micro_batch", "part", unit = true, title = "mb" },
  { "micro_batches", "part", follows = true, title = "m" },
  { "schedule", "chunk" },
  { "vp", "chunk" },
  { "recompute", "walked", title = "recomp", values = { "none", "selective", "policy", "full" } },
  { "zero", "walked", values = { 0, 1, 2, 3 } },
  { "reshard", "walked", values = { true, false } },
  { "rank_order", "part", title = "ranks" },
  { "sequence_parallel", "part", title = "sp" },
  { "overlap_tensor", "part", overlap = true, title = "ov-tp" },
  { "overlap_all_to_all", "part", overlap = true, title = "ov-a2a" },
  { "overlap_parameters", "walked", overlap = true, title = "ov-weights", values = { false, true } },
  { "overlap_gradients", "walked", overlap = true, title = "ov-grads", values = { false, true } },
  { "overlap_sends", "walked", overlap = true, title = "ov-sends", values = { false, true } },
}

local searched = { order = {}, part = {}, chunk = {}, walked = {}, unit = {}, dividing = {}, overlaps = {}, titles = {},
  values = {} }

for _, field in ipairs(list) do
  local name, level = field[1], field[2]
  table.insert(searched.order, name)
  table.insert(searched[level], name)
  if field.unit then table.insert(searched.unit, name) end
  if field.divides then table.insert(searched.dividing, name) end
  searched.overlaps[name], searched.titles[name], searched.values[name] = field.overlap, field.title, field.values
end

--- Every field, in the order of a row's key; and those that a user may give or vary.
searched.fields, searched.given = {}, {}
for _, names in ipairs { searched.part, searched.chunk, searched.walked } do
  table.move(names, 1, #names, #searched.fields + 1, searched.fields)
end
for _, name in ipairs(searched.fields) do
  if name ~= "micro_batches" then table.insert(searched.given, name) end
end

local words = {}
for i, name in ipairs(searched.part) do words[i] = ("%s = p.%s"):format(name, name) end

--- A copy of the fields of a part: one constructor, because a large search makes a million.
searched.part_of = load(([[local p = ...
  return { %s, setting = false, chunks = false, fewer = false, plans = 0, excluded = 0 }]])
  :format(table.concat(words, ", ")))

return searched
