--- Walks units: opens them, lowers their programs, and lets C evaluate the plans below each chunk, the best bound
--- first. ett.search.space defines these words.
local cluster_module = require "ett.profile.cluster"
local energy = require "ett.step.energy"
local error_module = require "ett.base.error"
local explain = require "ett.search.explain"
local fields = require "ett.plan.fields"
local floor_module = require "ett.search.floor"
local json = require "ett.json"
local lower = require "ett.step.lower"
local objective = require "ett.search.objective"
local sample = require "ett.sample"
local schedules = require "ett.plan.schedules"
local search_core = require "ett.search"
local searched = require "ett.search.searched"
local space_module = require "ett.search.space"
local step_core = require "ett.step"
local table_at = require "ett.base.table_at"
local times_module = require "ett.step.times"

-- Seconds between two exchanges of results with other processes.
local exchange_seconds = 0.004

local walk = {}
local Walk = {}
Walk.__index = Walk

local interleave_group = fields.list[fields.position.interleave_group].c[2]

--- The numbers of `counts`; `refusal` is the reason of a refused plan, if there is one.
walk.counted = { "plans", "forbidden", "too_large", "bounded", "evaluated", "refused" }

-- The fields below a chunk: their values, and the same values for C. program: "again" or "once" (without reshard) if
-- they are those of ZeRO 3 alone, "reduced" if those of ZeRO 2 alone, else false.
local function stages_of(list)
  local stages = {}
  for i, values in ipairs(list) do
    local zero = #values.zero == 1 and values.zero[1]
    stages[i] = { values = values, core = search_core.axes(values),
      program = zero == 3 and (values.reshard[1] and "again" or "once") or zero == 2 and "reduced" }
  end
  return stages
end

-- Those of plans whose replicas share no weights, and of all other plans. `apart` has the latter with ZeRO 2 and 3 in
-- stages of their own, and ZeRO 3 for each value of reshard.
local function ways_of(axes)
  return { whole = stages_of { axes }, together = stages_of(space_module.parted(axes)),
    apart = stages_of(space_module.parted(axes, true)) }
end

---@param space table from ett.search.space
---@param keeper table from ett.search.keeper
---@param given table the search's arguments
function walk.new(space, keeper, given)
  local self = setmetatable({ space = space, keeper = keeper, given = given, model = given.model, times = {},
    demands = {}, too_large = {}, fresh = { rows = {}, too_large = {} },
    workspace = step_core.workspace(), unsaid = "", next_exchange = 0.0,
    ways = {}, limits = {},
    floor = not given.exhaustive and not keeper.front and floor_module.new(given.model) or nil,
    counts = {} }, Walk)
  for _, name in ipairs(walk.counted) do self.counts[name] = 0 end
  for _, axes in pairs(space.variants) do self.ways[axes] = ways_of(axes) end
  self.limits.exhaustive = given.exhaustive
  self.estimate_of = function(row) return self:estimate(row, space.settings[row.setting]) end
  return self
end

--- The estimate of a row.
---@param interval boolean? false: without its interval
function Walk:estimate(row, setting, interval)
  return explain.estimate(row, { model = self.model, setting = setting, times = self:times_of(setting.cluster),
    tokens = self.given.tokens, interval = interval })
end

function Walk:__close() self:close() end

function Walk:close()
  self.workspace:close()
  for _, by_dtype in pairs(self.demands) do
    for _, demands in pairs(by_dtype) do demands:close() end
  end
end

--- Times of a cluster, opened once.
function Walk:times_of(cluster)
  local times = self.times[cluster]
  if not times then
    times = self.given.times or times_module.new(cluster, self.given.profile)
    self.times[cluster] = times
  end
  return times
end

--- Demands of the plans of one dtype. Messages of other clusters and dtypes, and updates of other stacks, may take
--- other times.
---@param times table of a cluster and stack
local function demands_of(self, times, dtype)
  local by_dtype = self.demands[times] or {}
  self.demands[times], by_dtype[dtype] = by_dtype, by_dtype[dtype] or step_core.demands()
  return by_dtype[dtype]
end

--- A row from a result of C for a part and chunk.
local function row_of(self, found, part, chunk)
  local setting, row, all, layout = part.setting, found, {}, {}
  for name, value in pairs(setting.own) do row[name] = value end
  for _, name in ipairs(searched.part) do row[name] = part[name] end
  row.schedule, row.vp = chunk.schedule, chunk.vp
  local p = setmetatable({ stack = setting.plan.stack }, { __index = row })
  for _, name in ipairs(searched.walked) do
    local field = fields.list[fields.position[name]]
    if field.needs and not field.needs[2](p) and self.space.fixed[name] == nil then row[name] = field.default end
  end
  if not self.model.hyper.experts then row.ep, row.etp, row.overlap_all_to_all = 1, nil, "none" end
  for i, name in ipairs(searched.fields) do
    all[i] = tostring(row[name])
    layout[i] = searched.overlaps[name] and "" or all[i]
  end
  row.key = ("%06d %s"):format(setting.index, table.concat(all, " "))
  row.layout = ("%06d %s"):format(setting.index, table.concat(layout, " "))
  row.cluster, row.devices, row.setting = setting.cluster.name, setting.devices, setting.index
  return objective.measure(row, setting, self.given, self.estimate_of) and row
end

--- Calls C on the plans below a chunk (question: a function of ett.search). Times the missing demands and repeats the
--- call.
local function ask(self, question, branch, ...)
  local part, p, c_plan, chunk = branch.part, branch.plan, branch.c_plan, branch.chunk
  self.limits.excluded = branch.part.excluded
  local setting = part.setting
  local times, hidden = self:times_of(setting.cluster):for_stack(p.stack), self.model.hyper.hidden
  local demands = demands_of(self, times, p.dtype)
  local limit, most = setting.memory_limit_bytes, self.keeper:most_memory(setting)
  self.limits.memory_bytes = most and not self.limits.exhaustive and math.min(limit, most) or limit
  self.keeper:steps(setting, self.limits, branch.floor)
  c_plan.schedule, c_plan.vp, c_plan.orders = chunk.own and "custom" or chunk.schedule, chunk.vp, branch.orders
  c_plan.interleave_group = branch.interleave_group
  for _ = 1, 1000 do
    local answer, excluded = schedules.call(branch.label, question, branch.program, c_plan, demands,
      self.workspace, branch.stages.core, self.limits, self.counts, branch.allowed, ...)
    if answer ~= nil then return answer, excluded end
    times:answer(demands, p.dtype, hidden)
  end
  error_module.raise("internal", "internal error: search: demands without times; please report the command")
end

--- Key of everything that the memory of parts depends on except the micro-batch. shared: under sequence parallelism,
--- which needs no more memory.
local function memory_key(part, shared)
  return ("%d %d %d %d %d %d %d %s %s"):format(part.setting.index, part.tp, part.cp, part.ep, part.etp or part.tp,
    part.pp, part.dp, tostring(shared), part.overlap_all_to_all)
end

--- Records the least micro-batch with which kinds of recomputation need too much memory or conflict.
---@param key string of memory_key
---@param kinds integer their bits
---@param fresh table? where other processes read it
local function add_too_large(self, key, kinds, micro_batch, fresh)
  local known = table_at(self.too_large, key)
  for k = 0, 3 do
    if kinds >> k & 1 == 1 and micro_batch < (known[k] or math.huge) then
      known[k] = micro_batch
      if fresh then fresh[("%s %d"):format(key, k)] = micro_batch end
    end
  end
end

--- Results of this process since the last call, as text for other processes.
function Walk:news()
  local fresh, rows = self.fresh, {}
  for _, row in ipairs(fresh.rows) do if self.keeper:holds(row) then rows[#rows + 1] = row end end
  if #rows == 0 and not next(fresh.too_large) then return "" end
  self.fresh = { rows = {}, too_large = {} }
  return json.encode { rows = rows, too_large = fresh.too_large } .. "\n"
end

--- Adds results of other processes; their rows lower the thresholds here too.
function Walk:hear(text)
  for line in text:gmatch "[^\n]+" do
    local news = json.decode(line)
    for _, row in ipairs(news.rows) do self.keeper:offer(row) end
    for name, micro_batch in pairs(news.too_large) do
      local key, k = name:match "^(.*) (%d)$"
      add_too_large(self, key, 1 << math.tointeger(k), micro_batch)
    end
  end
end

--- The step times above which all plans of a setting are excluded, for the settings of parts.
local function most_seconds(self, parts)
  local most = {}
  for _, part in ipairs(parts) do
    local setting = part.setting
    most[setting] = most[setting] or self.keeper:steps(setting, self.limits, 0.0)[2]
  end
  return most
end

--- Whether a micro-batch makes every plan of a part too slow that may fit in memory.
---@param seconds table<string, number> from a kind of recomputation to seconds of the micro-batch over all stages
---@param most table of most_seconds
---@param less number? seconds by which the micro-batch may be shorter
local function takes_too_long(part, seconds, most, less)
  local least = math.huge
  for k, kind in ipairs(part.setting.axes.recompute) do
    if part.excluded >> (k - 1) & 1 == 0 then least = math.min(least, seconds[kind]) end
  end
  return part.micro_batches * (least - (less or 0.0)) / part.pp * (1 - 1e-9) > most[part.setting]
end

--- Sets the kinds of recomputation of a part (bits) that a smaller micro-batch excluded already.
--- Returns "too_large" if these are all, else false.
local function excluded_early(self, part)
  part.excluded = 0
  if self.limits.exhaustive or part.micro_batches == 1 and part.setting.single_saves then return false end
  for _, shared in ipairs { true, part.sequence_parallel } do
    for k, small in pairs(self.too_large[memory_key(part, shared)] or {}) do
      if part.micro_batch >= small then part.excluded = part.excluded | 1 << k end
    end
  end
  return part.excluded == (1 << #part.setting.axes.recompute) - 1 and "too_large"
end

--- Whether an entry of the queue precedes another.
local function sooner(a, b)
  if a.least ~= b.least then return a.least < b.least end
  return a.order < b.order
end

--- Adds an entry to the queue, a binary heap.
local function push(queue, entry)
  queue.count, queue.pushed = queue.count + 1, queue.pushed + 1
  entry.order = queue.pushed
  local at = queue.count
  while at > 1 and sooner(entry, queue[at // 2]) do
    queue[at], at = queue[at // 2], at // 2
  end
  queue[at] = entry
end

--- Removes and returns the entry with the least bound; nil if the queue is empty.
local function pop(queue)
  local first, last, n = queue[1], queue[queue.count], queue.count - 1
  if not first then return nil end
  queue[queue.count], queue.count = nil, n
  local at = 1
  while 2 * at <= n do
    local child = 2 * at
    if child < n and sooner(queue[child + 1], queue[child]) then child = child + 1 end
    if not sooner(queue[child], last) then break end
    queue[at], at = queue[child], child
  end
  if n > 0 then queue[at] = last end
  return first
end

--- Exchanges results with other processes, if enough time has passed.
local function exchange(self)
  if not self.tell or sample.now() < self.next_exchange then return end
  self.unsaid = self.unsaid .. self:news()
  local taken, others = self.tell(self.unsaid)
  if taken then self.unsaid = "" end
  self:hear(others)
  self.next_exchange = sample.now() + exchange_seconds
end

-- Whether ZeRO 3 gathers weights in the plans of a part's chunk.
local function has_gathers(p, chunk)
  return fields.gathers_weights(setmetatable({ zero = 3, schedule = chunk.schedule, vp = chunk.vp }, { __index = p }))
end

--- Excludes plans of a part by bounds; adds the remaining chunks to the queue.
local function survey_part(self, common, queue)
  local part, p, excluded = common.part, common.plan, -1
  for _, chunk in ipairs(part.chunks) do
    local ways = self.ways[space_module.axes_of(part.setting, part.pp, chunk)]
    p.schedule, p.vp = chunk.schedule, chunk.vp
    local programs = common.programs
    local list = not has_gathers(p, chunk) and ways.whole
      or (programs.again or programs.once or programs.reduced) and ways.apart or ways.together
    for _, stages in ipairs(list) do
      local lowered = programs[list == ways.apart and stages.program] or programs[false]
      local branch = setmetatable({ chunk = chunk, program = lowered.program, stages = stages }, { __index = common })
      branch.interleave_group = interleave_group(p.interleave_group, p)
      branch.allowed = self.space.where and self.space.where:mask(p, part.setting, stages.values)
      if chunk.own then branch.orders, branch.label = self.space.schedules:orders(p) end
      local least, own = ask(self, search_core.survey, branch)
      if least < math.huge then push(queue, { least = least, branch = branch }) end
      excluded = excluded & own
    end
  end
  if not part.fewer then
    add_too_large(self, memory_key(part, part.sequence_parallel), excluded, part.micro_batch, self.fresh.too_large)
  end
end

--- The parts of a program that how_of does not exclude.
---@param how_of function(part) false, or the reason for exclusion: the name of the count to which its plans are added
local function unsettled(self, parts, how_of)
  local left = {}
  for _, part in ipairs(parts) do
    local how = how_of(part)
    if how then
      self.counts.plans, self.counts[how] = self.counts.plans + part.plans, self.counts[how] + part.plans
    else
      left[#left + 1] = part
    end
  end
  return left
end

--- The plan of a part, without the fields below a chunk.
local function plan_of(part)
  local p = setmetatable({}, { __index = part.setting.plan })
  for _, name in ipairs(searched.part) do p[name] = part[name] end
  for _, name in ipairs(searched.walked) do p[name] = searched.values[name][1] end
  p.schedule, p.vp = part.chunks[1].schedule, part.chunks[1].vp
  return p
end

--- The result of fn(…); nil and the reason if an operator or a model of communication refuses the plan.
local function unless_refused(fn, ...)
  local ok, result = pcall(fn, ...)
  if ok then return result end
  if not times_module.refuses[error_module.from(result).kind] then error(result, 0) end
  return nil, tostring(result)
end

--- The parts that remain after a lower bound of their passes, computed before their program is lowered.
---@param known_only boolean? for Floor:of
local function above_floor(self, parts, known_only)
  local setting, most = parts[1].setting, most_seconds(self, parts)
  if not self.floor or most[setting] == math.huge then return parts end
  local seconds_of = unless_refused(self.floor.of, self.floor, plan_of(parts[1]), self:times_of(setting.cluster),
    setting, function(seconds)
      for _, part in ipairs(parts) do if not takes_too_long(part, seconds, most) then return false end end
      return true
    end, known_only)
  return seconds_of and unsettled(self, parts, function(part)
    return takes_too_long(part, seconds_of(part.overlap_all_to_all), most) and "bounded"
  end) or parts
end

--- A plan of parts that gathers weights, without the other fields below a chunk; nil if there is none.
local function gathering_plan(parts)
  for _, part in ipairs(parts) do
    local p = plan_of(part)
    for _, chunk in ipairs(part.chunks) do
      if has_gathers(p, chunk) then
        p.zero, p.schedule, p.vp = 3, chunk.schedule, chunk.vp
        return p
      end
    end
  end
  return nil
end

--- Seconds of a micro-batch by which a program of ZeRO 2 or 3 may be shorter than that of other stages. It copies
--- gradients in place of adding them up; gathers only slow its kernels and the host.
function walk.accumulation_seconds(lowered)
  local sum = 0.0
  for _, kind in ipairs(lowered.kinds) do
    for index, runs in pairs(kind.uses) do
      local o = lowered.operations[index]
      if o.name == "gradient_accumulation" then sum = sum + kind.count * runs * o.backward.seconds end
    end
  end
  return sum
end

--- The parts that are not too slow under all lowered programs.
---@param less number? for takes_too_long
local function above_passes(self, parts, programs, less)
  if self.limits.exhaustive then return parts end
  local most, each = most_seconds(self, parts), {}
  for _, lowered in pairs(programs) do each[#each + 1] = search_core.passes(lowered.program) end
  return unsettled(self, parts, function(part)
    for _, passes in ipairs(each) do
      if not takes_too_long(part, passes[part.overlap_all_to_all], most, less) then return false end
    end
    return "bounded"
  end)
end

--- Why programs of ZeRO 2 or 3 differ from that of other stages; nil if they do not, or if no plan gathers weights.
--- They differ if gradients are copied in place of added up. Those of ZeRO 3 also differ if gathers slow the stack's
--- kernels (Times:of_plan) or take time of the host.
local function gathering_causes(self, parts)
  local p = plan_of(parts[1])
  local stack = self:times_of(parts[1].setting.cluster):for_stack(p.stack).stack or {}
  local causes = { copies = not fields.fuses_accumulation(p, stack), host = (stack.gather_seconds or 0.0) > 0 }
  return (causes.copies or causes.host or stack.gathers_slow) and gathering_plan(parts) and causes or nil
end

--- Adds the programs of plans with ZeRO 2 or 3 (`program` of stages_of).
---@param causes table from gathering_causes
local function add_gathering(self, parts, programs, causes)
  local times, gathering = self:times_of(parts[1].setting.cluster), gathering_plan(parts)
  for _, stages in ipairs(gathering and self.ways[parts[1].setting.axes].apart or {}) do
    local name = stages.program
    if name == "reduced" then
      local reduced = causes.copies and setmetatable({ zero = 2 }, { __index = gathering })
      programs[name] = reduced and lower.program(self.model, reduced, times) or nil
    elseif name then
      gathering.reshard = name == "again"
      programs[name] = not causes.host and (programs.again or programs.once)
        or lower.program(self.model, gathering, times)
    end
  end
end

--- Lowers the programs of parts; adds the chunks that bounds do not exclude to the queue.
---@param rows table[] of the unit
---@return table<boolean, table> the lowered programs
local function survey(self, parts, rows, queue)
  local left = above_floor(self, parts, true)
  if left[1] then left = unsettled(self, left, function(part) return excluded_early(self, part) end) end
  if left[1] then left = above_floor(self, left) end
  local first, programs = left[1], {}
  if not first then return programs end
  local cluster, p = first.setting.cluster, plan_of(first)
  local ok, why = unless_refused(function()
    programs[false] = lower.program(self.model, p, self:times_of(cluster))
    local causes = gathering_causes(self, left)
    left = above_passes(self, left, programs, causes and walk.accumulation_seconds(programs[false]))
    if not (causes and left[1]) then return true end
    add_gathering(self, left, programs, causes) -- may raise: only the parts left here are refused
    left = above_passes(self, left, programs)
    return true
  end)
  if not ok then
    self.counts.refusal = self.counts.refusal or why
    unsettled(self, left, function() return "refused" end)
    return programs
  end
  local joules = self.given.wants_energy and math.huge or nil
  for _, lowered in pairs(joules and programs or {}) do
    joules = math.min(joules, energy.least_joules(lowered, cluster.device, self.model, p))
  end
  for _, part in ipairs(left) do
    p = plan_of(part)
    survey_part(self, { part = part, plan = p, c_plan = fields.to_c(p, cluster_module.placement(cluster)),
      programs = programs, floor = joules and objective.kwh_floor(part, joules) or 0.0, rows = rows }, queue)
  end
  return programs
end

--- Evaluates a leaf and offers its fastest plan to the keeper.
local function evaluate(self, entry)
  local branch, leaf = entry.branch, entry.leaf
  local found = ask(self, search_core.evaluate, branch, table.unpack(leaf))
  local row = found and row_of(self, found, branch.part, branch.chunk)
  if row and self.keeper:offer(row) then
    branch.rows[#branch.rows + 1], self.fresh.rows[#self.fresh.rows + 1] = row, row
  end
end

--- Walks units together, lowest bound first, so that early results exclude later plans. Returns for each unit { rows =
--- rows that the keeper accepted; plans, rule, where = counts of ett.search.space }.
function Walk:units(units)
  local queue, programs, settled = { count = 0, pushed = 0 }, {}, {}
  for i, unit in ipairs(units) do
    local opened = self.space:open(unit)
    settled[i] = { rows = {}, plans = opened.plans, rule = opened.rule, where = opened.where }
    for _, parts in ipairs(opened.programs) do
      exchange(self)
      for _, lowered in pairs(survey(self, parts, settled[i].rows, queue)) do
        programs[#programs + 1] = lowered.program
      end
    end
  end
  for entry in pop, queue do
    exchange(self)
    if entry.leaf then
      evaluate(self, entry)
    else
      local leaves = ask(self, search_core.expand, entry.branch)
      for k = 1, #leaves, 5 do
        push(queue, { least = leaves[k + 4], branch = entry.branch, leaf = table.move(leaves, k, k + 3, 1, {}) })
      end
    end
  end
  for _, program in ipairs(programs) do program:close() end
  return settled
end

return walk
