--- Waves: chunks are placed in a zigzag, so that a micro-batch turns round at the ends of the pipeline and every
--- message goes to a neighbouring stage. vp = 2 W makes W waves. The paper gives the placement and searches the order.
--- Here each stage runs a ready unit, backwards first, with at most 2 pp micro-batches in flight. Three rules choose
--- among ready units; the rule with the shortest step counts.
local schedule = { name = "hanayo", summary = "zigzag placement in waves, 1F1B without a second copy of the weights",
  source = "Liu et al. 2023, Hanayo: Harnessing Wave-like Pipeline Parallelism, section 3 (arXiv 2308.15762)" }

function schedule.slice(stage, chunk, p)
  return (chunk - 1) * p.pp + (chunk % 2 == 1 and stage or p.pp + 1 - stage)
end

function schedule.activations(_, p) return p.vp * math.min(2 * p.pp, p.micro_batches) end

function schedule.refuse(p)
  if p.vp % 2 == 0 then return nil end
  return ("needs an even vp, got %d"):format(p.vp)
end

-- Three ways to choose the next unit, each with a rank of forwards and one of backwards; the smallest rank runs first.
-- 1. Forwards of the last slice first; backwards of the first slice first.
-- 2. Forwards of the oldest group of pp micro-batches first, of these the first slice; backwards of the oldest
--    micro-batch first.
-- 3. Forwards of the first slice first; backwards of the last slice first.
local ways = {
  { function(_, slice) return -slice end, function(_, slice) return slice end },
  { function(i, slice, p) return (i - 1) // p.pp * 2 * p.pp * p.vp + slice end,
    function(i, slice, p) return i * p.pp * p.vp + slice end },
  { function(_, slice) return slice end, function(_, slice) return -slice end },
}

--- The orders of all stages if a forward takes one unit of time and a backward two, and the time of their end.
local function simulate(p, way)
  local last, under_way, entered, left = p.pp * p.vp, 0, 0, 0
  local orders, free, ready = {}, {}, {}
  for stage = 1, p.pp do orders[stage], free[stage], ready[stage] = {}, 0, {} end
  local function stage_of(slice)
    local chunk = (slice - 1) // p.pp + 1
    local at = slice - (chunk - 1) * p.pp
    return chunk % 2 == 1 and at or p.pp + 1 - at, chunk
  end
  local function add(kind, i, slice, time)
    local stage, chunk = stage_of(slice)
    table.insert(ready[stage], { kind, i, chunk, slice = slice, time = time, first = kind == "B",
      rank = way[kind == "F" and 1 or 2](i, slice, p) })
  end
  local function before(a, b)
    if a.first ~= b.first then return a.first end
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a[2] < b[2]
  end
  local function take(stage, time)
    local best
    for k, unit in ipairs(ready[stage]) do
      if unit.time <= time and (not best or before(unit, ready[stage][best])) then best = k end
    end
    return best and table.remove(ready[stage], best)
  end
  local time, finish = 0, 0
  while left < p.micro_batches do
    while under_way < 2 * p.pp and entered < p.micro_batches do
      entered, under_way = entered + 1, under_way + 1
      add("F", entered, 1, time)
    end
    for stage = 1, p.pp do
      local unit = free[stage] <= time and take(stage, time)
      if unit then
        table.insert(orders[stage], { unit[1], unit[2], unit[3] })
        free[stage] = time + (unit[1] == "F" and 1 or 2)
        finish = math.max(finish, free[stage])
        if unit[1] == "F" and unit.slice < last then
          add("F", unit[2], unit.slice + 1, free[stage])
        elseif unit[1] == "F" then
          add("B", unit[2], last, free[stage])
        elseif unit.slice > 1 then
          add("B", unit[2], unit.slice - 1, free[stage])
        else
          under_way, left = under_way - 1, left + 1
        end
      end
    end
    time = time + 1
  end
  return orders, finish
end

local function shortest(p)
  local best, least
  for _, way in ipairs(ways) do
    local orders, finish = simulate(p, way)
    if not least or finish < least then best, least = orders, finish end
  end
  return best
end

local known = {}

function schedule.order(stage, p)
  local key = ("%d %d %d"):format(p.pp, p.vp, p.micro_batches)
  if known.key ~= key then known = { key = key, orders = shortest(p) } end
  return known.orders[stage]
end

return schedule
