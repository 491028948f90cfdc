--- Memoised functions of a plan that changes field by field. An answer is cached under the values of the fields that
--- the function read. It is looked up again only after one of these fields changed.
---
---   local all = follows.new { pp = true, tp = true }
---   local ranks = all:first { function(p) return p.pp * p.tp * p.cp * p.dp end }
---   ranks:of(p)
---   p.tp = 4; all:changed "tp"; ranks:of(p)
---
--- A function may depend only on fields of its plan. Its answers form a decision tree: each node names the field that
--- the function reads next, given the previous values. Fields that never change are not in the tree.
local follows = {}
local All, Answer = {}, {}
All.__index, Answer.__index = All, Answer

local absent = {} -- key for a nil value of a field

local asked = {} -- key of a node for the next field; false: a leaf, which holds the answer

-- A function that calls another with a recording view of a table. It returns the answer, the fields of `changing` that
-- were read, their values, and their number. Not reentrant.
local function new_recorder()
  local p, changing, count, turn = nil, nil, 0, 0
  local names, values, seen = {}, {}, {}
  local view = setmetatable({}, { __index = function(_, name)
    local value = p[name]
    if changing[name] and seen[name] ~= turn then
      seen[name], count = turn, count + 1
      names[count] = name
      values[count] = value == nil and absent or value
    end
    return value
  end, __pairs = function() return pairs(p) end })
  return function(fn, of, may_change)
    p, changing, count, turn = of, may_change, 0, turn + 1
    local answer = fn(view) or false
    return answer, names, values, count
  end
end

local spare -- an unused recorder

--- Calls fn(p). Returns its answer or false, then the fields of `changing` that it read, in order, their values, and
--- their number. Both lists are reused by the next call.
---@param changing table<string, any> its keys are the fields that may change
function follows.record(fn, p, changing)
  local record = spare or new_recorder()
  spare = nil
  local answer, names, values, count = record(fn, p, changing)
  spare = record
  return answer, names, values, count
end

--- Calls the function and adds its answer to its tree.
---@param read function? called for each field that the function has read
local function compute(one, p, changing, read)
  local answer, names, values, count = follows.record(one.fn, p, changing)
  local at, key = one, "root"
  for i = 1, count do
    local node = at[key]
    if not node then
      node = { [asked] = names[i] }
      at[key] = node
      if read then read(names[i]) end
    end
    at, key = node, values[i]
  end
  at[key] = { [asked] = false, answer = answer }
  return answer
end

--- The cached answer of one function; nil if none is cached.
local function known_answer(one, p)
  local node = one.root
  while node do
    local name = node[asked]
    if not name then return node.answer end
    local value = p[name]
    if value == nil then value = absent end
    node = node[value]
  end
  return nil
end

--- The answer of one function of a list; registers the fields that it read.
local function look_up(one, p)
  local answer, all = known_answer(one, p), one.all
  if answer ~= nil then return answer end
  return compute(one, p, all.changing, function(name)
    local readers = all.readers[name] or {}
    all.readers[name] = readers
    if not one.reads[name] then readers[#readers + 1] = one end
    one.reads[name] = true
  end)
end

--- A memoised function of any table.
---@param changing table<string, boolean> the fields that may differ
function follows.remember(fn, changing)
  local one = { fn = fn }
  return function(p)
    local answer = known_answer(one, p)
    if answer ~= nil then return answer end
    return compute(one, p, changing)
  end
end

--- Removes functions whose answer is always false, because they read no changing field.
local function drop_fixed(self)
  for i = #self, 1, -1 do
    local one = self[i]
    if not (one.stale or one.answer or one.root[asked]) then table.remove(self, i) end
  end
end

--- The first answer that is neither nil nor false; else false.
function Answer:of(p)
  if not self.stale then return self.answer end
  local answer, computed = false, false
  for i = 1, #self do
    local one = self[i]
    if one.stale then
      computed = computed or not one.root
      one.answer, one.stale = look_up(one, p), false
    end
    answer = one.answer
    if answer then break end
  end
  self.answer, self.stale = answer, false
  if computed then drop_fixed(self) end
  return answer
end

--- A list of functions of a plan; their first answer counts.
---@param list function[] function(plan): anything, nil or false for none
function All:first(list)
  local answer = setmetatable({ stale = true }, Answer)
  for i, fn in ipairs(list) do answer[i] = { fn = fn, stale = true, reads = {}, all = self, of = answer } end
  return answer
end

--- Must be called after a field of the plan changed.
function All:changed(name)
  local readers = self.readers[name]
  if not readers then return end
  for i = 1, #readers do
    local one = readers[i]
    -- Stale functions that follow in the list do not change the first answer.
    if not one.stale then one.stale, one.of.stale = true, true end
  end
end

--- A set of functions on one changing plan.
---@param changing table<string, boolean> the fields that may change
function follows.new(changing) return setmetatable({ readers = {}, changing = changing }, All) end

return follows
