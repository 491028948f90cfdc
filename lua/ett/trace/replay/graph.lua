--- The dependency graph of a recorded run: events of all ranks, each with its predecessors.
--
-- Events are starts and ends of device rows and of host calls. An event's time is the maximum over its predecessors,
-- each with its lag, plus its own delay:
--   device row start   end of the row before it on its stream; its launch; its awaited rows on other streams, recorded
--                      (ett.trace.replay.waits) or inferred
--   device row end     its start, plus its duration
--   collective end     the starts on all ranks, plus the transfer
--   host call start    the call before it on its thread, or the thread that woke it; plus the own time of the host
--   host call end      its start plus its duration; of a synchronisation: the device row that it waited for
-- The clocks of host and device may differ by some microseconds. Then calls have the times of the clock of the device.
-- Events of different recordings of a rank do not wait for each other.
-- The lags and delays reproduce the recorded times, so a replay without a change gives the recorded run.
--
-- A run may have a million events, so an event is a number n, not a table: its fields are time[n], delay[n], kind[n],
-- name[n] and rank[n]. Its predecessors are a linked list: link last_link[n] was added last, before_link[l] is the link
-- before l, and 0 ends the list. Link l stands for the predecessor of[l] with the lag lag[l].
local remembered = require "ett.base.remembered"
local stats = require "ett.trace.stats"
local waits = require "ett.trace.replay.waits"

local graph = {}

local Graph = {}
Graph.__index = Graph

--- Adds an event with its recorded time and description. Returns its number.
---@param kind string "host", "call" (its end), "start" (of a device row), "row" (its end), "transfer" (of a collective)
function Graph:event(time, kind, name, rank)
  local n = self.events + 1
  self.events = n
  self.time[n], self.delay[n], self.last_link[n] = time, 0, 0
  self.kind[n], self.name[n], self.rank[n] = kind, name, rank
  return n
end

--- Event n follows event `of` by at least `lag`.
function Graph:follow(n, of, lag)
  local link = self.links + 1
  self.links = link
  self.of[link], self.lag[link], self.before_link[link] = of, lag or 0, self.last_link[n]
  self.last_link[n] = link
end

--- The earliest time of an event after its predecessors, and the predecessor that sets it; nil without predecessors.
---@param time integer[] of all events
function Graph:ready(n, time)
  local of, lag, before_link, link = self.of, self.lag, self.before_link, self.last_link[n]
  local latest, binding
  while link > 0 do
    local at = time[of[link]] + lag[link]
    if not latest or at >= latest then latest, binding = at, of[link] end -- of equal ones the first that was added
    link = before_link[link]
  end
  return latest, binding
end

--- Sets the delay of an event to reproduce its recorded time.
function Graph:settle(n)
  local latest = self:ready(n, self.time)
  self.delay[n] = latest and self.time[n] - latest or 0
end

--- How a call waits for the device: "rows" (for the row before its end), "copy" (also for its own row), "idle" (it may
--- wait until no row runs), or false. CUPTI adds versions to names: cudaMemcpy_v3020, cudaMemcpy_ptds_v7000.
--- CUDA's page "API synchronization behavior": copies without Async wait. A copy from pageable memory waits only until
--- its last part is staged. cudaFree and cuMemFree may synchronise, hipFree does (their references).
local wait_of = remembered(function(name)
  local stem = name:gsub("_v%d+$", ""):gsub("_pt%l%l$", "")
  if stem:find("ynchronize", 1, true) then return "rows" end -- MTIA's is lower case
  if stem:find("^%l+Memcpy") then return not stem:find("Async", 1, true) and "copy" end
  return (stem == "cudaFree" or stem == "hipFree" or stem == "cuMemFree") and "idle"
end)

--- The last index of a sorted list whose value is <= at; 0 if none.
local function last_before(list, at)
  local low, high = 0, #list
  while low < high do
    local middle = (low + high + 1) // 2
    if list[middle] <= at then low = middle else high = middle - 1 end
  end
  return low
end

--- The device rows of a lane as starts and ends, by start.
local function device_rows(self, lane)
  local rows, launch = lane:launches()
  local columns = stats.columns(rows, { "row", "ts", "end", "name", "stream", "file", "correlation" })
  local call_rows, call_ts = launch:columns { "row", "ts" }
  local list = {}
  for i, ts in ipairs(columns.ts) do
    list[i] = { ts = ts, stop = columns["end"][i], stream = columns.stream[i] or -1, device = lane.device,
      call_row = call_rows[i] or nil, call_ts = call_ts[i] or nil, id = columns.correlation[i], row = columns.row[i],
      recording = self.home[columns.file[i]],
      start = self:event(ts, "start", columns.name[i], lane.key),
      finish = self:event(columns["end"][i], "row", columns.name[i], lane.key) }
  end
  return list
end

--- Builds the device rows of all lanes in self.rows. Returns those of each process, by process index.
local function device_rows_by_process(self, view)
  local by_process = {}
  for _, lane in ipairs(view:lanes()) do
    local rows, all = device_rows(self, lane), by_process[lane.process.index] or {}
    by_process[lane.process.index], self.rows[lane.key] = table.move(rows, 1, #rows, #all + 1, all), rows
  end
  return by_process
end

--- The thread of a call, and the calls before it. Of its own thread: the last to start (`before`) and the last to end
--- (`widest`). Of the other threads that launch device rows: the last to start.
local function place_of(threads, launching, recording, track)
  local all = threads[recording] or { own = {} }
  local own = all.own[track] or { track = track }
  threads[recording], all.own[track] = all, own
  if not launching[track] then return own end
  local other = all.newest
  if other and other.track == track then other = all.second end
  if all.newest and all.newest ~= own then all.second = all.newest end
  all.newest = own
  return own, other and other.before
end

--- A call follows the calls of its own thread. If another thread that launches device rows made a call since the last
--- of them, that thread may have started this one: the call follows it, too. Threads that launch nothing, such as
--- watchdogs, hold up no other thread.
local function link_call(self, call, own, other)
  local before, widest = own.before, own.widest
  -- A call inside another of its thread follows the start of that one.
  if before then self:follow(call.start, before.stop_time > call.ts and before.start or before.stop) end
  if widest and widest ~= before then
    self:follow(call.start, widest.stop_time > call.ts and widest.start or widest.stop)
  end
  if other and not widest then
    self:follow(call.start, other.stop_time > call.ts and other.start or other.stop)
  elseif other and other.stop_time <= call.ts and other.stop_time > widest.stop_time then
    self:follow(call.start, other.stop)
  end
  self:settle(call.start)
end

--- How far the host's clock is ahead of the device's, at least, by recording: no row starts before its call.
--- Rows that would need more than `most` have another call's id. Recorded runs of PyTorch needed up to 81 us.
local function clock_shifts(on_device, most)
  local shift = {}
  for _, row in ipairs(on_device) do
    local early = row.call_ts and row.call_ts - row.ts or 0
    if early > (shift[row.recording] or 0) and early <= most then shift[row.recording] = early end
  end
  return shift
end

--- Host calls of a process in one chain for each thread of each recording: { list, of_row = { events by row number } }.
---@param rows any a selection of calls, by start
---@param on_device table[] the device rows of the process
---@param most integer largest shift of the host's clock
local function host_chains(self, rows, rank, on_device, most)
  local columns = stats.columns(rows, { "row", "ts", "end", "name", "file", "track" })
  local calls, threads, launched, launching = { list = {}, of_row = {} }, {}, {}, {}
  for _, row in ipairs(on_device) do if row.call_row then launched[row.call_row] = true end end
  for i, row in ipairs(columns.row) do if launched[row] then launching[columns.track[i]] = true end end
  local shift = clock_shifts(on_device, most)
  for i, recorded in ipairs(columns.ts) do
    local recording = self.home[columns.file[i]]
    local early = shift[recording] or 0
    local ts, stop_time = recorded - early, columns["end"][i] - early
    local call = { row = columns.row[i], ts = ts, stop_time = stop_time,
      start = self:event(ts, "host", columns.name[i], rank) }
    local own, other = place_of(threads, launching, recording, columns.track[i])
    link_call(self, call, own, other)
    call.stop = self:event(call.stop_time, "call", columns.name[i], rank)
    local widest = own.widest
    if widest and widest.stop_time > ts and widest.stop_time >= call.stop_time then
      call.outer = widest
      self:follow(widest.stop, call.stop) -- the call inside ends first
    else
      own.widest = call
    end
    own.before = call
    calls.list[#calls.list + 1], calls.of_row[call.row] = call, call
  end
  return calls
end

--- The launch latency: the least time from a call's start to its row's start. If the device was busy at each call,
--- every row may have waited for others, so this time is only an upper bound. Then it is at most the shortest launch
--- call. If the rows that a row follows are recorded, only these count.
local function launch_delay(rows, calls)
  local least, shortest, idle, ended, recording, before = math.huge, math.huge, false, nil, nil, {}
  for _, row in ipairs(rows) do
    if row.recording ~= recording then ended, recording, before = nil, row.recording, {} end -- no known row before
    local call = row.call_row and calls.of_row[row.call_row]
    if call and row.ts >= call.ts then
      least, shortest = math.min(least, row.ts - call.ts), math.min(shortest, call.stop_time - call.ts)
      local last = ended
      if row.exact then
        last = before[row.stream]
        for _, other in ipairs(last and row.waits or {}) do last = math.max(last, other.stop) end
      end
      idle = idle or last and last <= call.ts
    end
    ended = math.max(ended or row.stop, row.stop)
    before[row.stream] = math.max(before[row.stream] or row.stop, row.stop)
  end
  return idle and least or math.min(least, shortest)
end

--- Device rows sorted by end (stable), and the list of their ends.
local function by_end(rows)
  local ends, finished, place = {}, {}, {}
  for i, row in ipairs(rows) do ends[i] = row.stop end
  ends = stats.sorted(ends)
  for i, at in ipairs(ends) do place[at], finished[i] = place[at] or i, false end
  for _, row in ipairs(rows) do
    finished[place[row.stop]] = row
    place[row.stop] = place[row.stop] + 1
  end
  return finished, ends
end

local function launched_before(a, b)
  if a.call_ts ~= b.call_ts then return a.call_ts < b.call_ts end
  return a.row < b.row
end

--- Pairs of a row and the last row launched before it on another stream, if that was launched after the row before it
--- on its own stream: { { row, other, class } }. Pairs of a class have the same two streams and the same name of `row`.
--- class.seen: one `row` waited for its `other`; class.broken: one began before the end of its `other`.
---@param ready table<table, integer> the earliest start of each row after its own stream and its launch
local function stream_pairs(self, rows, calls, ready)
  local launched, newest, place, classes, list = {}, {}, {}, {}, {}
  for _, row in ipairs(rows) do
    if row.call_row and calls.of_row[row.call_row] then launched[#launched + 1] = row end
  end
  table.sort(launched, launched_before)
  for i, row in ipairs(launched) do
    local stream = row.stream
    for other_stream, other in pairs(newest) do
      if other_stream ~= stream and place[other_stream] > (place[stream] or 0) and not row.exact
        and other.recording == row.recording then
        local key = ("%s %s %s"):format(stream, other_stream, self.name[row.start])
        local class = classes[key] or { seen = false, broken = false }
        classes[key] = class
        class.broken = class.broken or other.stop > row.ts
        class.seen = class.seen or other.stop > ready[row]
        list[#list + 1] = { row = row, other = other, class = class }
      end
    end
    newest[stream], place[stream] = row, i
  end
  return list
end

--- Starts of device rows follow their stream, their launch, and rows of other streams: those recorded as awaited, or
--- those that end just before. If a wait for another stream delayed one row of a name, it also holds for the other
--- rows of that name, unless a pair breaks it.
local function link_rows(self, rows, calls)
  local by_stream, delay, readies = {}, launch_delay(rows, calls), {}
  local finished, ends = by_end(rows)
  local ended = 0 -- number of rows that end at or before the start of the row
  for _, row in ipairs(rows) do
    while ended < #ends and ends[ended + 1] <= row.ts do ended = ended + 1 end
    local before = by_stream[row.stream]
    local ready
    if before and before.recording ~= row.recording then before = nil end
    if before and before.stop <= row.ts then
      self:follow(row.start, before.finish)
      ready = before.stop
    elseif before then
      self:follow(row.start, before.start, 0)
      ready = before.ts
    end
    local call = row.call_row and calls.of_row[row.call_row]
    if call and row.ts >= call.ts then
      self:follow(row.start, call.start, delay)
      ready = math.max(ready or call.ts, call.ts + delay)
    end
    ready = ready or math.mininteger
    for _, other in ipairs(row.waits or {}) do
      self:follow(row.start, other.finish)
      ready = math.max(ready, other.stop)
    end
    local last = not row.exact and finished[ended]
    if last and last.stream ~= row.stream and last.start ~= row.start and last.recording == row.recording
      and last.stop > ready then
      self:follow(row.start, last.finish)
    end
    readies[row] = ready
    by_stream[row.stream] = row
  end
  for _, pair in ipairs(stream_pairs(self, rows, calls, readies)) do
    if pair.class.seen and not pair.class.broken then self:follow(pair.row.start, pair.other.finish) end
  end
  for _, row in ipairs(rows) do
    self:settle(row.start)
    self:follow(row.finish, row.start)
    self:settle(row.finish)
  end
end

--- Calls that wait end with the device row that they waited for. A call that may wait did so if no row ran at its end.
---@param waited table<integer, table[]> recorded waits (waits.find)
---@param most integer largest shift of the host's clock
local function link_waits(self, rows, calls, waited, most)
  local finished, ends = by_end(rows)
  local starts, own = {}, {}
  for i, row in ipairs(rows) do
    starts[i] = row.ts
    local call = row.call_row and calls.of_row[row.call_row]
    if call then own[call] = row end
  end
  starts = stats.sorted(starts)
  for _, call in ipairs(calls.list) do
    local wait, at = wait_of(self.name[call.start]), call.stop_time
    local copy = own[call] or own[call.outer] -- Nsight records cudaMemcpy and, inside it, cudaMemcpy_v3020
    local recorded = waited[call.row]
    if recorded then wait = false end
    local ended = wait and last_before(ends, at)
    local last = wait and (wait ~= "idle" or last_before(starts, at) == ended) and finished[ended]
    self:follow(call.stop, call.start)
    for _, row in ipairs(recorded or {}) do
      if row.stop <= at + most then self:follow(call.stop, row.finish) end
    end
    if last and last.stop > call.ts then self:follow(call.stop, last.finish) end
    if wait == "copy" and copy and copy.stop > at and at - copy.ts > copy.stop - at then
      self:follow(call.stop, copy.finish, at - copy.stop) -- the last part was staged
    end
    self:settle(call.stop)
  end
end

--- The rows of a lane's collectives by start and end: { first =, last = }, which differ if they are asynchronous.
local function by_times(lane, rows)
  local found, by_place, at = lane:asynchronous(), {}, {}
  for _, row in ipairs(rows) do
    local place = found and found.place[row.row] or 0
    local pair = found and found.of_last[place]
    by_place[place] = row
    at[("%d %d"):format(pair and pair.ts or row.ts, pair and pair.stop or row.stop)] = {
      first = pair and by_place[pair.first] or row, last = row }
  end
  return at
end

--- Ends of matched collectives follow the starts on all ranks.
local function link_collectives(self, view, by_lane)
  local matched = view:matched_groups()
  for g, each in ipairs(matched) do
    local lists = {}
    for r, member in ipairs(each.group.members) do
      lists[r] = by_times(member.lane, by_lane[member.lane.key] or {})
    end
    local matches = each.result and each.result.matches
    for m = 1, matches and #matches or 0 do
      local rows, firsts, sorts, latest, whole = {}, {}, {}, math.mininteger, true
      for r, member in ipairs(each.group.members) do
        local start, stop, sort = matches:at(r, m)
        local found = lists[r][("%d %d"):format(start, stop)]
        rows[r], firsts[r] = found and found.last, found and found.first
        sorts[r] = member.lane:collectives().sorts[sort]
        whole = whole and rows[r] ~= nil
        latest = math.max(latest, found and found.first.ts or latest)
      end
      for r, row in ipairs(whole and rows or {}) do
        row.collective = { group = g, place = m, kind = sorts[r].kind, bytes = sorts[r].bytes,
          size = sorts[r].group_size, rows = rows, each = sorts[r] }
        if row.stop >= latest then -- otherwise clocks differ: the row keeps its duration
          for k, other in ipairs(firsts) do if k ~= r then self:follow(row.finish, other.start) end end
          self:settle(row.finish)
          self.kind[row.finish] = "transfer"
        end
      end
    end
  end
end

--- Maximum number of events; larger graphs would take gigabytes.
graph.most_events = 1000000

--- Builds the graph of a view: lists by event and by link (above), rows = { [lane key] = rows }, lanes, home =
--- { [file] = recording }.
function graph.build(view)
  local self = setmetatable({ time = {}, delay = {}, kind = {}, name = {}, rank = {}, last_link = {}, of = {}, lag = {},
    before_link = {}, events = 0, links = 0, rows = {}, lanes = {}, home = (view:recordings()) }, Graph)
  local runtime, chains, waited, events = view:launch_calls(), {}, {}, 2 * #view:launch_calls()
  local most = view.trace.ticks_per_second // 1000
  for _, lane in ipairs(view:lanes()) do events = events + 2 * #lane:touching() end
  if events > graph.most_events and not (view.options.step or view.options.window) then
    view:missing("the run has %d events, a replay takes %d: cut it with --step or --window", events, graph.most_events)
  end
  local by_process = device_rows_by_process(self, view)
  for _, lane in ipairs(view:lanes()) do
    local process, rows = lane.process, self.rows[lane.key]
    if not chains[process.index] then
      local called = runtime:where { file = process.files }
      if lane.from then called = called:where { window = { lane.from, lane.to } } end
      chains[process.index] = host_chains(self, called:sort("ts"), process.key, by_process[process.index], most)
      waited[process.index] = waits.find(view, process, by_process[process.index], self.home)
    end
    link_rows(self, rows, chains[process.index])
    self.lanes[#self.lanes + 1] = lane
  end
  for index, calls in pairs(chains) do link_waits(self, by_process[index], calls, waited[index], most) end
  if #self.lanes > 1 then link_collectives(self, view, self.rows) end
  return self
end

return graph
