--- Pipelines on their links in plain Lua, without runtime/step. At every event all rates are recomputed from the active
-- transfers, and time advances to the next end.
--
-- links: lanes (their number), collective (shares of lanes), forward_lane1, backward_lane1, … and gather (seconds of a
-- slot), send_lane (of each slot, the outermost lane), send_lane1, … (shares of lanes of such a send), buckets (of each
-- slot: { bytes, seconds }, …), reduces_every, share.
local link_simulator = {}

local small = 1e-12

local function slot_of(s, stage, chunk) return (chunk - 1) * s.stages + stage end

--- Stage and chunk of a slice, on the way of a chunk; nil: no such slice.
local function holder(s, chunk, slice)
  local each = s.chunks // s.ways
  local first = (chunk - 1) // each * each + 1
  for c = first, first + each - 1 do
    for stage = 1, s.stages do if s.slice[stage][c] == slice then return stage, c end end
  end
end

--- The stage of the slice after that of a chunk.
function link_simulator.next_stage(s, stage, chunk) return (holder(s, chunk, s.slice[stage][chunk] + 1)) end

local Machine = {}
Machine.__index = Machine

--- The outputs of a unit: the unit that may start afterwards, and the message to it.
function Machine:output(stage, unit)
  local s, kind, chunk = self.s, unit[1], unit[3] or 1
  local slice, t = self.s.slice[stage][chunk], self.times
  if kind == "W" then return nil end
  if kind == "F" and slice == s.slices then return { "B", unit[2], chunk, stage = stage, seconds = 0 } end
  local receiver, c = holder(s, chunk, kind == "F" and slice + 1 or slice - 1)
  if not receiver then return nil end
  local at = kind == "F" and slot_of(s, stage, chunk) or slot_of(s, receiver, c)
  local lane = (self.links.send_lane or {})[at] or 1
  local shares = self.links["send_lane" .. lane]
  if not shares then
    shares = {}
    for i = 1, self.links.lanes do shares[i] = i == lane and 1 or 0 end
  end
  return { kind == "F" and "F" or "B", unit[2], c, stage = receiver, lane = lane, shares = shares,
    seconds = receiver ~= stage and (kind == "F" and t.send_forward or t.send_backward)[at] or 0 }
end

local function key(stage, kind, micro_batch, chunk)
  return ("%d %s %d %d"):format(stage, kind == "BW" and "B" or kind, micro_batch, chunk)
end

function Machine:seconds(stage, unit)
  local at, t = slot_of(self.s, stage, unit[3] or 1), self.times
  if unit[1] == "F" then return t.forward[at] end
  if unit[1] == "W" then return t.weight[at] end
  return t.backward[at] + (unit[1] == "BW" and t.weight[at] - (t.joined and t.joined[at] or 0) or 0)
end

local function needs_input(s, stage, unit) return not (unit[1] == "F" and s.slice[stage][unit[3] or 1] == 1) end

--- Buckets of a unit: { fraction of the unit after which it is complete, seconds }, in order.
function Machine:buckets_of(stage, unit)
  local slot, list = slot_of(self.s, stage, unit[3] or 1), {}
  local makes = unit[1] == "W" or unit[1] == "BW" or unit[1] == "B" and not self.s.split
  if not (makes and self.links.buckets) then return list end
  self.made[slot] = (self.made[slot] or 0) + 1
  if not self.links.reduces_every and self.made[slot] < self.runs[slot] then return list end
  for _, group in ipairs(self.links.buckets[slot]) do
    local all, sum = 0, 0
    for _, bucket in ipairs(group) do all = all + bucket[1] end
    for _, bucket in ipairs(group) do
      sum = sum + bucket[1]
      list[#list + 1] = { sum / all, bucket[2] }
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

--- Begins the next turn of a stage if its inputs have arrived.
function Machine:try(stage)
  local own, s = self.stages[stage], self.s
  if own.state ~= "free" then return false end
  local turn = s.orders[stage][own.position]
  if not turn then return false end
  local units = type(turn[1]) == "table" and turn or { turn }
  for _, unit in ipairs(units) do
    if needs_input(s, stage, unit) and not self.there[key(stage, unit[1], unit[2], unit[3] or 1)] then return false end
  end
  own.units, own.position = units, own.position + 1
  local receive = 0
  for _, unit in ipairs(units) do
    receive = receive + (self.there[key(stage, unit[1], unit[2], unit[3] or 1)] or 0)
  end
  own.state, own.left = "receiving", self.times.blocking_receives and receive or 0
  if own.left == 0 then self:begin(stage) end
  return true
end

function Machine:begin(stage)
  local own, t, l = self.stages[stage], self.times, self.links
  own.state, own.left, own.busy, own.buckets = "running", 0, {}, {}
  for i = 1, l.lanes do own.busy[i] = 0 end
  for _, unit in ipairs(own.units) do
    local slot = slot_of(self.s, stage, unit[3] or 1)
    own.left = own.left + self:seconds(stage, unit)
    for i = 1, l.lanes do
      local of = l[(unit[1] == "F" and "forward_lane" or unit[1] ~= "W" and "backward_lane" or "") .. i]
      own.busy[i] = own.busy[i] + (of and of[slot] or 0)
    end
    for _, bucket in ipairs(self:buckets_of(stage, unit)) do own.buckets[#own.buckets + 1] = bucket end
  end
  if #own.units == 2 and t.forward_hidden then
    local a, b = slot_of(self.s, stage, own.units[1][3] or 1), slot_of(self.s, stage, own.units[2][3] or 1)
    own.left = own.left - math.min(t.forward_hidden[a], t.forward_hidden[b])
      - math.min(t.backward_hidden[a], t.backward_hidden[b])
  end
  own.all = own.left
end

--- A unit of a stage and the gathers of its weights have ended.
function Machine:leave(stage)
  local own, t = self.stages[stage], self.times
  own.ended = self.now
  for _, unit in ipairs(own.units) do
    if unit[1] == "B" and self.s.split then self.there[key(stage, "W", unit[2], unit[3] or 1)] = 0 end
    local output = self:output(stage, unit)
    if output and output.stage == stage then
      self.there[key(stage, output[1], output[2], output[3])] = 0
    elseif output then
      local queue = (t.blocking_sends or output.lane < own.outermost) and own.sends or own.others
      queue[#queue + 1] = output
    end
  end
  own.state = t.blocking_sends and #own.sends > 0 and "sending" or "free"
end

function Machine:gathers_done(stage)
  for _, unit in ipairs(self.stages[stage].units) do
    local slot = slot_of(self.s, stage, unit[3] or 1)
    if unit[1] == "F" and self.links.gather and not self.gathered[slot] then return false end
  end
  return true
end

local function arrive(self, message)
  self.there[key(message.stage, message[1], message[2], message[3])] = message.seconds
end

--- All events at the current time.
function Machine:settle()
  local again = true
  while again do
    again = false
    for stage, own in ipairs(self.stages) do
      if own.state == "waiting" and own.left <= small then own.state, again = "free", true end
      if own.state == "receiving" and own.left <= small then again = true self:begin(stage) end
      while own.state == "running" and own.buckets[1] and own.buckets[1][1] * own.all <= own.all - own.left + small do
        own.reduce, own.reduces = own.reduce + table.remove(own.buckets, 1)[2], true
      end
      if own.state == "running" and own.left <= small then own.state = "held" end
      if own.state == "held" and self:gathers_done(stage) then again = true self:leave(stage) end
      for _, queue in ipairs { own.sends, own.others } do
        local first = queue[1]
        if first and self.times.blocking_receives and not first.arrived then
          first.arrived, again = true, true
          arrive(self, first)
        end
        first = queue[1]
        if first and (first.left or first.seconds) <= small then
          table.remove(queue, 1)
          own.sent, again = self.now, true
          if not first.arrived then arrive(self, first) end
          if self.times.blocking_sends and #queue == 0 then own.state = "free" end
        end
      end
      if own.gathers[1] and own.started and own.gathers[1].left <= small then
        self.gathered[own.gathers[1].slot], again = true, true
        table.remove(own.gathers, 1)
      end
      if own.reduces and own.reduce <= small then own.reduce, own.reduces, own.reduced = 0, false, self.now end
      if not own.started and own.state == "free" then own.started, again = true, true end
      if self:try(stage) then again = true end
    end
  end
end

--- The highest rate, at most 1, at which shares of lanes fit into the free parts of the lanes.
local function fitting(shares, free)
  local rate = 1
  for i, share in ipairs(shares) do if share > 0 then rate = math.min(rate, free[i] / share) end end
  return rate
end

--- The part of the lanes for one send beside another: the part that the other leaves if that one goes first, but at
-- least half of each lane.
local function left_by(other, free)
  local rate, left = fitting(other, free), {}
  for i = 1, #free do left[i] = math.max(free[i] / 2, free[i] - rate * other[i]) end
  return left
end

--- The active transfers: { holder, field, rate }, …
function Machine:moving()
  local list = {}
  for _, own in ipairs(self.stages) do
    local rate = 1
    local collects = own.reduces or own.started and own.gathers[1] ~= nil
    if own.state == "running" and collects then rate = 1 - (self.links.share or 0) end
    for _, queue in ipairs { own.sends, own.others } do
      for i, share in ipairs(queue[1] and queue[1].shares or {}) do
        local busy = own.state == "running" and share > 0 and own.all > 0 and own.busy[i] / own.all or 0
        local room = math.max(0.5, 1 - share)
        if busy * rate > room then rate = room / busy end
      end
    end
    if own.state == "running" or own.state == "receiving" or own.state == "waiting" then
      list[#list + 1] = { own, "left", rate }
    end
    -- The parts of the links that units leave free: first for sends, then for gathers, then for reductions.
    local free = {}
    for i = 1, self.links.lanes do
      free[i] = own.state == "running" and own.all > 0 and math.max(0, 1 - rate * own.busy[i] / own.all) or 1
    end
    local function use(shares, what, field, room)
      what[field] = what[field] or what.seconds
      local own_rate = fitting(shares, room or free)
      list[#list + 1] = { what, field, own_rate }
      for i, share in ipairs(shares) do free[i] = math.max(0, free[i] - own_rate * share) end
    end
    local first, second = own.sends[1], own.others[1]
    if first then use(first.shares, first, "left", second and left_by(second.shares, free)) end
    if second then use(second.shares, second, "left") end
    if own.started and own.gathers[1] then
      use(self.links.collective, own.gathers[1], "left")
    elseif own.reduces then
      use(self.links.collective, own, "reduce")
    end
  end
  return list
end

--- Runs a schedule (of pipeline_simulator) with times and links. Returns, per stage, the end of its units and sends,
--- and the end of its reductions.
function link_simulator.run(s, times, links)
  local self = setmetatable({ s = s, times = times, links = links, now = 0, there = {}, gathered = {}, made = {},
    runs = {}, stages = {} }, Machine)
  for stage = 1, s.stages do
    local own = { state = "waiting", left = times.start and times.start[stage] or 0, position = 1, sends = {},
      others = {}, gathers = {}, reduce = 0, reduces = false, reduced = 0, sent = 0, ended = 0 }
    for chunk = 1, links.gather and s.chunks or 0 do
      local slot = slot_of(s, stage, chunk)
      own.gathers[chunk] = { slot = slot, left = links.gather[slot] }
    end
    for _, turn in ipairs(s.orders[stage]) do
      for _, unit in ipairs(type(turn[1]) == "table" and turn or { turn }) do
        local slot = slot_of(s, stage, unit[3] or 1)
        if unit[1] == "F" then self.runs[slot] = (self.runs[slot] or 0) + 1 end
      end
    end
    self.stages[stage] = own
    own.outermost = 2 -- the lane of the sends with a separate queue
    for _, turn in ipairs(s.orders[stage]) do
      for _, unit in ipairs(type(turn[1]) == "table" and turn or { turn }) do
        local output = self:output(stage, unit)
        if output and output.seconds > 0 then own.outermost = math.max(own.outermost, output.lane) end
      end
    end
  end
  while true do
    self:settle()
    local step, list = math.huge, self:moving()
    for _, m in ipairs(list) do
      if m[3] > 0 then step = math.min(step, m[1][m[2]] / m[3]) end
      local next_bucket = m[1].state == "running" and m[1].buckets[1]
      if next_bucket and m[2] == "left" then
        step = math.min(step, (m[1].left - m[1].all * (1 - next_bucket[1])) / m[3])
      end
    end
    if step == math.huge then break end
    for _, m in ipairs(list) do m[1][m[2]] = m[1][m[2]] - step * m[3] end
    self.now = self.now + step
  end
  local ends, reduced = {}, {}
  for stage, own in ipairs(self.stages) do
    if own.position <= #s.orders[stage] then error(s.name .. " waits for itself", 0) end
    ends[stage], reduced[stage] = math.max(own.ended, own.sent), own.reduced
  end
  return ends, reduced
end

return link_simulator
