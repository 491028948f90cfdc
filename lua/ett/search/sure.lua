--- The probability that the best plan found is the best.
--
-- Plans on one device under one software share their errors, so differences are modelled, not totals. The log error of
-- a plan's step is the sum of w_i e_i plus n. w_i are its shares by part (ett.search.explain: computing, memory, links,
-- …), e_i the errors of the parts, and n the plan's own error. Plans with equal kernel shapes (the same program) share
-- nearly all of n.
-- The error of the difference of two plans has a t distribution with the scale sqrt(own^2 + shared^2 |w - w'|^2). For
-- plans of one program, `same` replaces `own`. The distribution has two degrees of freedom, because errors of published
-- steps have heavy tails. Plans on two devices, or under two software, have separate errors. The squares of both, from
-- the intervals of their steps, replace shared^2 |w - w'|^2. An interval contains the errors of the parts. The error of
-- runs that are no recipes counts only between two software: otherwise one software runs both plans.
-- This has no constant of its own. Pairs of published steps of one model, batch and number of GPUs test it (`ett bench
-- search`). For pairs of two software the mean chance is 78 %, and 79 % are in the stated order. With the errors of one
-- software it would be 83 %. For pairs of two devices it is 91 %, and 93 % are in that order. If shared^2 (|w|^2 +
-- |w'|^2) were added, it would be 79 %. `ett bench literature` tests it on pairs of one software and device from other
-- sources. The mean chance of 1,065 pairs is 89 %, and 88 % are in order; of 94 held-out pairs it is 88 %, and 94 %.
-- Stacks with a common base, such as megatron and megatron_bridge, count as two software. Of 94 pairs of such software
-- on one device, the mean chance is 85 %, and 79 % are in the stated order. If they shared the errors of parts, it
-- would be 92 %.
--
-- The constants are maximum-likelihood estimates on a grid. The data are pairs of published steps, with the error of
-- each pair's difference. The plans of a pair have one source, model, cluster, number of GPUs and batch. A source is
-- weighted by the square root of its number of pairs. `own` is limited to 0.05: the error of a whole step has a median
-- of 4.5 %. `ett bench search` holds out each source in turn and tests its pairs with the constants of the others.
local explain = require "ett.search.explain"
local share = require "ett.base.share"
local schema = require "ett.base.schema"
local search_core = require "ett.search"
local searched = require "ett.search.searched"

local sure = { own = 0.04, same = 0.03, shared = 0.3 }

-- 90 % quantile of |t| with two degrees of freedom.
local t90 = 2.919986

local program_fields = { "seq", "sequence_parallel", "dtype", "stack", table.unpack(searched.unit) }

--- Key of the kernel shapes of an estimate's plan, as text.
function sure.program(e)
  local words = { tostring(e.device) }
  for _, name in ipairs(program_fields) do
    words[#words + 1] = tostring(name == "etp" and (e.plan.etp or e.plan.tp) or e.plan[name])
  end
  return table.concat(words, " ")
end

--- The difference of two plans: the log of b's seconds over a's, the squared distance of their shares, the squared
--- errors of their places, and whether they have the same program.
---@param a table { seconds, parts = seconds by part, whole = their sum, program = sure.program, place = device and
--- software, software; spread and runs = errors of the place and of the software's runs, needed only if places differ }
function sure.difference(a, b)
  local apart, unlike = 0.0, a.place ~= b.place
  for _, name in ipairs(explain.part_order) do
    local x, y = a.parts[name] / a.whole, b.parts[name] / b.whole
    apart = apart + (unlike and 0.0 or (x - y) ^ 2)
  end
  local runs = a.software ~= b.software and a.runs ^ 2 + b.runs ^ 2 or 0.0
  return { log = math.log(b.seconds / a.seconds), apart = apart, same = a.program == b.program,
    places = unlike and a.spread ^ 2 + b.spread ^ 2 + runs or 0.0 }
end

--- The scale of the error of a difference.
---@param constants table { own, same, shared }
function sure.scale(difference, constants)
  local own = difference.same and constants.same or constants.own
  return math.sqrt(own * own + constants.shared * constants.shared * difference.apart + difference.places)
end

--- The probability that the sign of a difference is right.
function sure.of(difference, constants)
  local x = difference.log / sure.scale(difference, constants)
  return 0.5 + x / (2 * math.sqrt(2 + x * x))
end

--- The probability that a is faster than b.
function sure.chance(a, b) return sure.of(sure.difference(a, b), sure) end

--- The probability of each plan in a list to be the best.
---@param plans table[] { value = smaller is better, and the fields of sure.difference but seconds }
function sure.best(plans, draws)
  local numbers, placed, place_of, spreads, program_of, programs = {}, {}, {}, {}, {}, 0
  local of_software, software_of, count = {}, {}, 0 -- the best plan of each software, and its number
  local function better(a, b) return not b or a.value < b.value end
  for _, plan in ipairs(plans) do
    if better(plan, placed[plan.place]) then placed[plan.place] = plan end
    if better(plan, of_software[plan.software]) then of_software[plan.software] = plan end
  end
  for i, name in ipairs(schema.keys(placed)) do
    local plan = placed[name]
    if not software_of[plan.software] then software_of[plan.software], count = count, count + 1 end
    place_of[name] = i - 1
    -- The runs of one software have one error, so plans of one software do not differ by it.
    local own = { plan.spread, of_software[plan.software].runs, software_of[plan.software] }
    table.move(own, 1, #own, #spreads + 1, spreads)
  end
  for _, plan in ipairs(plans) do
    if not program_of[plan.program] then program_of[plan.program], programs = programs, programs + 1 end
    local own = { math.log(plan.value), place_of[plan.place], program_of[plan.program] }
    -- Between places the interval contains the errors of the parts, so only differences from a place's best plan count.
    local best = #spreads > 3 and placed[plan.place]
    for _, part in ipairs(explain.part_order) do
      own[#own + 1] = plan.parts[part] / plan.whole - (best and best.parts[part] / best.whole or 0.0)
    end
    table.move(own, 1, #own, #numbers + 1, numbers)
  end
  -- The difference of two plans has twice the variance of one. Plans of two programs differ by `own` in all.
  local program = math.sqrt((sure.own ^ 2 - sure.same ^ 2) / 2)
  return search_core.chances(numbers, #explain.part_order, spreads,
    { program, sure.same / math.sqrt(2), sure.shared }, draws)
end

--- Shares of an estimate's lines, by name and group.
local function lines_of(e)
  local list = {}
  for _, lines in ipairs { e.operators, e.collectives } do
    for _, line in ipairs(lines) do
      local name = line.name .. (line.group and (" (%s)"):format(line.group) or "")
      list[name] = (list[name] or 0.0) + line.seconds / e.step_seconds
    end
  end
  return list
end

--- The line whose share differs most between two plans; measuring it is most informative about their order. Nil if no
--- share differs by 0.1 %.
local function measure_first(x, y)
  local names, best = {}, nil
  for name in pairs(x) do names[name] = true end
  for name in pairs(y) do names[name] = true end
  for _, name in ipairs(schema.keys(names)) do
    local difference = math.abs((x[name] or 0.0) - (y[name] or 0.0))
    if not best or difference > best.difference then
      best = { line = name, best_percent = 100 * (x[name] or 0.0), other_percent = 100 * (y[name] or 0.0),
        difference = difference }
    end
  end
  if not best or best.difference < 0.001 then return nil end
  best.difference = nil
  return best
end

-- Standard deviations of the log of a step, from its interval: without runs that are no recipes, and of these alone.
local function spreads_of(e)
  local step, low, high = e.step_seconds, math.max(e.low_seconds, 0.1 * e.step_seconds), e.high_seconds
  local above = math.max(0.0, (math.max(high, step) - step) ^ 2 - (e.own_run_seconds or 0.0) ^ 2)
  local function deviation(most) return math.log(most / low) / 2 / t90 end
  local own = deviation(step + math.sqrt(above))
  return own, math.sqrt(math.max(0.0, deviation(math.max(high, step)) ^ 2 - own ^ 2))
end

--- An estimate as sure.difference takes it; the errors are 0 if the estimate has no interval.
---@param seconds number the figure to compare
function sure.plan(e, seconds)
  local parts, whole = explain.parts(e), 0.0
  for _, name in ipairs(explain.part_order) do whole = whole + parts[name] end
  local software, spread, runs = (e.stack or ""):match "^[^:]*", 0.0, 0.0 -- without changed fields of the stack
  if e.low_seconds then spread, runs = spreads_of(e) end
  return { seconds = seconds, parts = parts, whole = whole, place = e.device .. " " .. software, software = software,
    program = sure.program(e), spread = spread, runs = runs }
end

--- Adds best_percent to the first rows of a search.
---@param rows table[] sorted, with values
---@param estimate_of function(row, interval) an estimate; interval: false or true
---@param shared table? of ett.base.share
---@return table { best_percent, alike = rows that beat the best with a probability of at least 10 %, measure_first }
function sure.rows(rows, estimate_of, shared)
  local count, unlike = math.min(20, #rows), false
  for i = 2, count do
    unlike = unlike or rows[i].cluster ~= rows[1].cluster or rows[i].stack ~= rows[1].stack
  end
  local plans = share.each(shared, count, function(i)
    local row = rows[i]
    local e = estimate_of(row, unlike)
    local plan = sure.plan(e, row.values[1])
    plan.value, plan.lines = row.values[1], lines_of(e)
    return plan
  end)
  local chances, alike = sure.best(plans, 4000), {}
  for i, chance in ipairs(chances) do
    rows[i].best_percent = math.floor(1000 * chance + 0.5) / 10
    if i > 1 then
      local beats = sure.chance(plans[i], plans[1])
      if beats >= 0.1 then alike[#alike + 1] = { row = i, beats_best_percent = math.floor(1000 * beats + 0.5) / 10 } end
    end
  end
  return { best_percent = rows[1].best_percent, compared_rows = #plans, alike = require("ett.json").array(alike),
    measure_first = alike[1] and measure_first(plans[1].lines, plans[alike[1].row].lines) or nil }
end

--- How sure a search is, in one or two sentences.
---@param s table from sure.rows
---@param word string what a row is called, such as "row" or "plan"
---@return string[]
function sure.sentences(s, word)
  local first = ("%s 1 is the best of %d with a probability of %.0f %%"):format(word, s.compared_rows, s.best_percent)
  if #s.alike == 0 then return { first } end
  local x, list = s.measure_first, { ("%s; %d %s not clearly worse"):format(first, #s.alike,
    #s.alike == 1 and "is" or "are") }
  list[2] = x and ("to compare them, measure %s: %.1f %% of the step in %s 1, %.1f %% in %s %d"):format(x.line,
    x.best_percent, word, x.other_percent, word, s.alike[1].row) or nil
  return list
end

return sure
