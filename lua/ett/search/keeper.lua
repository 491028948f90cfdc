--- The best rows of a search so far, and the thresholds above which plans are cut.
--
-- With one objective the keeper holds the `keep` best layouts. Plans that differ only in overlaps are one layout,
-- represented by the best. With several objectives it holds the Pareto front. The result does not depend on the order
-- of the rows: ties are broken by the row's key.
local objective = require "ett.search.objective"

local keeper = {}
local Keeper = {}
Keeper.__index = Keeper

---@param given table { objectives, keep, each? = the best of every setting instead of the best of all }
function keeper.new(given)
  return setmetatable({ groups = given.each and {},
    names = given.objectives, keep = given.keep, front = #given.objectives > 1, rows = {},
    by_layout = {} }, Keeper)
end

local function before(a, b)
  if a.values[1] ~= b.values[1] then return a.values[1] < b.values[1] end
  if a.step_seconds ~= b.step_seconds then return a.step_seconds < b.step_seconds end
  if a.memory_bytes ~= b.memory_bytes then return a.memory_bytes < b.memory_bytes end
  return a.key < b.key
end

--- Whether a is at least as good as b in every objective.
local function covers(a, b)
  for i = 1, #a do if a[i] > b[i] then return false end end
  return true
end

local function same(a, b)
  for i = 1, #a do if a[i] ~= b[i] then return false end end
  return true
end

--- The index of a row in the sorted rows.
local function place(rows, row)
  local low, high = 1, #rows + 1
  while low < high do
    local middle = (low + high) // 2
    if before(rows[middle], row) then low = middle + 1 else high = middle end
  end
  return low
end

local function offer_front(self, row)
  local rows, left = self.rows, {}
  for _, other in ipairs(rows) do
    if covers(other.values, row.values) and not (same(other.values, row.values) and before(row, other)) then
      return false
    end
    if not covers(row.values, other.values) then left[#left + 1] = other end
  end
  table.insert(left, place(left, row), row)
  self.rows = left
  return true
end

local function offer_best(self, row)
  local rows, other = self.rows, self.by_layout[row.layout]
  if other then
    if not before(row, other) then return false end
    table.remove(rows, place(rows, other))
  elseif #rows >= self.keep then
    local last = rows[#rows]
    if not before(row, last) then return false end
    self.by_layout[last.layout] = nil
    rows[#rows] = nil
  end
  self.by_layout[row.layout] = row
  table.insert(rows, place(rows, row), row)
  return true
end

local function of(self, setting)
  if not self.groups then return self end
  local own = self.groups[setting]
  if not own then
    own = keeper.new { objectives = self.names, keep = 1 }
    self.groups[setting] = own
  end
  return own
end

function Keeper:all()
  if not self.groups then return self.rows end
  local rows = {}
  for _, own in pairs(self.groups) do table.move(own.rows, 1, #own.rows, #rows + 1, rows) end
  table.sort(rows, before)
  return rows
end

--- Inserts a row { values, key, layout, setting, … } if it is among the best; returns whether it was inserted.
function Keeper:offer(row)
  self = of(self, row.setting)
  return self.front and offer_front(self, row) or not self.front and offer_best(self, row)
end

--- Whether an inserted row is still among the best; always true for a front.
function Keeper:holds(row)
  self = of(self, row.setting)
  return self.front or self.by_layout[row.layout] == row
end

--- The memory above which plans are cut, if memory is the only objective; else nil.
function Keeper:most_memory(setting)
  self = of(self, setting.index)
  local last = self.rows[self.keep]
  return last and not self.front and self.names[1] == "memory_bytes" and last.values[1] or nil
end

local above = 1 + 1e-12 -- thresholds lie above the values of kept rows by this factor, so that ties are evaluated

-- The step time at which a plan reaches a value of the i-th objective.
local function seconds_at(self, setting, i, value, floor)
  if self.names[i] == "kwh" then value = math.max(0.0, value - floor) end
  return value / setting.factors[i] * above
end

-- The step time above which no plan is among the best.
local function best_seconds(self, setting, floor)
  local most, last = setting.most_seconds, #self.rows >= self.keep and self.rows[#self.rows]
  if not last then return most end
  if setting.factors[1] then return math.min(most, seconds_at(self, setting, 1, last.values[1], floor)) end
  local o = objective.list[self.names[1]]
  local constant = o.constant and o.constant(setting)
  if not constant or constant < last.values[1] then return most end
  return constant > last.values[1] and 0.0 or math.min(most, last.step_seconds * above)
end

-- Adds the thresholds of a row of the front: it excludes plans that are not better in any objective.
---@param add fun(memory: number, seconds: number)
local function add_front_row(self, setting, row, floor, add)
  local seconds, memory, equal = nil, 0.0, true
  for i, name in ipairs(self.names) do
    local o, value = objective.list[name], row.values[i]
    if o.memory then
      memory = value
    elseif o.constant then
      local constant = o.constant(setting)
      if value > constant then return end -- each plan of the setting is better in this objective
      equal = equal and value == constant
    else
      seconds = math.max(seconds or 0.0, seconds_at(self, setting, i, value, floor))
    end
  end
  if seconds or not equal then return add(memory, seconds or 0.0) end
  add(memory, row.step_seconds * above) -- among equal values the fastest plan is kept
  if memory > 0 then add(memory * above, 0.0) end
end

--- Thresholds of runtime/search for a setting: pairs of memory and seconds.
---@param floor number the constant term of the objective 'kwh', besides its factor times the step
function Keeper:steps(setting, into, floor)
  self = of(self, setting.index)
  local n = 0
  local function add(memory, seconds)
    into[n + 1], into[n + 2] = memory, seconds
    n = n + 2
  end
  add(0.0, self.front and setting.most_seconds or best_seconds(self, setting, floor))
  for _, row in ipairs(self.front and self.rows or {}) do add_front_row(self, setting, row, floor, add) end
  for i = #into, n + 1, -1 do into[i] = nil end
  return into
end

return keeper
