--- Placement of a plan's ranks on devices: orders of axes, and explicit maps.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local ranks = {}

--- Axes in the order of their codes in C (runtime/comm/ranks.h).
ranks.axes = { "tp", "cp", "ep", "dp", "pp" }

--- Megatron-Core's order, the innermost axis first.
ranks.default = "tp-cp-ep-dp-pp"

--- Megatron-Core's alternative order (--use-tp-pp-dp-mapping): neighbouring stages are closer than neighbouring
--- replicas.
ranks.stages_first = "tp-cp-ep-pp-dp"

--- The part of an order that determines groups inside a stage's replica: with tp, cp and ep first, the rest is
--- irrelevant.
function ranks.inner(order) return order and order:sub(1, 9) == "tp-cp-ep-" and "tp-cp-ep" or order end

local codes, code_of = {}, {}
for i, axis in ipairs(ranks.axes) do code_of[axis] = i - 1 end

local function axes_of(order)
  local list = {}
  for axis in (order .. "-"):gmatch "(.-)%-" do list[#list + 1] = axis end
  return list
end

local is_valid = {} -- orders without a fault

--- The error in the text of an order; nil if it is valid.
function ranks.fault(order)
  if is_valid[order] then return nil end
  local seen, missing = {}, {}
  for _, axis in ipairs(axes_of(order)) do
    if not code_of[axis] then
      return ("unknown axis '%s'%s; an order is like %s"):format(axis,
        error_module.suggestion(axis, ranks.axes), ranks.default)
    elseif seen[axis] then
      return ("'%s' is named twice; an order is like %s"):format(axis, ranks.default)
    end
    seen[axis] = true
  end
  for _, axis in ipairs(ranks.axes) do if not seen[axis] then missing[#missing + 1] = axis end end
  if #missing == 0 then
    is_valid[order] = true
    return nil
  end
  return ("%s %s missing; an order must name every axis with more than one rank, like %s"):format(
    table.concat(missing, ", "), #missing == 1 and "is" or "are", ranks.default)
end

--- The order, with missing axes of one rank inserted as in the default order. Other orders are unchanged.
---@param p table degrees by axis
function ranks.completed(order, p)
  local list, place = axes_of(order), {}
  for _, axis in ipairs(list) do
    if not code_of[axis] then return order end
    place[axis] = true
  end
  for i, axis in ipairs(ranks.axes) do
    if not place[axis] and (p[axis] or 1) == 1 then
      local behind = 0
      for k, known in ipairs(list) do if known == ranks.axes[i - 1] then behind = k end end
      table.insert(list, behind + 1, axis)
    end
  end
  return table.concat(list, "-")
end

--- Code of an order for C: one octal digit per axis, the innermost axis last.
function ranks.code(order)
  local code = codes[order]
  if not code then
    code = 0
    local place = 0
    for axis in order:gmatch "[^-]+" do
      code = code | code_of[axis] << place
      place = place + 3
    end
    codes[order] = code
  end
  return code
end

-- Degrees and strides of a group's axes, as the plan numbers its ranks.
local function axes_of_group(p, name)
  return require("ett.step").axes({ tp = p.tp, cp = p.cp, cp_ulysses = p.cp_ulysses or 1, ep = p.ep,
    etp = p.etp or p.tp, dp = p.dp, pp = p.pp, rank_order = ranks.code(p.rank_order) }, name)
end

--- Distance between the ranks of neighbouring members of a group's inner axis.
---@param name string as for ranks.group
function ranks.stride(p, name) return (select(2, axes_of_group(p, name))) end

--- The number of neighbouring ranks that hold whole groups of a kind.
---@param name string as for ranks.group
function ranks.block(p, name)
  local inner, inner_stride, outer, outer_stride = axes_of_group(p, name)
  return math.max(inner * inner_stride, outer > 1 and outer * outer_stride or 1)
end

--- The stage of a rank, from 1. Ranks are counted from 0.
function ranks.stage_of(p, rank)
  local degree, stride = axes_of_group(p, "pp")
  return rank // stride % degree + 1
end

--- The group of a rank: its ranks, counted from 0, in the group's order.
---@param p table a clean plan
---@param name string tp, cp, dp, ep, etp, pp, shares, "cp ulysses" and "cp ring" (parts of cp), data (cp and dp), or
---  "expert data": ranks with the same experts
---@param rank integer
---@param size integer? a block of the group alone: of so many ranks, such as those that share a shard's gather
---@return integer[]
function ranks.group(p, name, rank, size)
  local inner, inner_stride, outer, outer_stride = axes_of_group(p, name)
  local own = rank // inner_stride % inner
  local first, place = rank - own * inner_stride, own
  if outer > 1 then
    local row = rank // outer_stride % outer
    first, place = first - row * outer_stride, own + row * inner
  end
  size = size or inner * outer
  local list, from = {}, place // size * size
  for i = from, from + size - 1 do list[#list + 1] = first + i % inner * inner_stride + i // inner * outer_stride end
  return list
end

--- The ranks that hold the same part of the group's shards as a rank: one of each block of `size` ranks.
---@param name string, rank integer, size integer as for ranks.group
---@return integer[]
function ranks.replicas(p, name, rank, size)
  local block, all, place = ranks.group(p, name, rank, size), ranks.group(p, name, rank), 1
  while block[place] ~= rank do place = place + 1 end
  local list = {}
  for i = place, #all, size do list[#list + 1] = all[i] end
  return list
end

local maps = setmetatable({}, { __mode = "k" })

--- A map for C; raises unless it is a permutation of 0 to n - 1.
---@param list integer[]? device of each rank
function ranks.map(list)
  if not list then return nil end
  local map = maps[list]
  if not map then
    local fault = schema.list_fault(list)
    fault = fault or #list == 0 and "it is empty"
    if fault then error_module.raise("plan", "field 'rank_map' must be a list of devices: %s", fault) end
    map = require("ett.step").map(list)
    maps[list] = map
  end
  return map
end

return ranks
