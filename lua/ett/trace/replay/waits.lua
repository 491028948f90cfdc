--- The waits that a trace records as synchronisation events: of device rows for rows of other streams, and of host
--- calls for device rows. PyTorch records them (category cuda_sync) with its profiler's option enable_cuda_sync_events.
-- The reader of Nsight's exports gives its synchronisation records the same category, names and args (nsys.c).
--
-- cudaEventRecord puts an event on a stream: it completes after the rows launched there before, and after the rows that
-- the stream waits for. Rows launched on a stream after its cudaStreamWaitEvent follow the event. So the launches,
-- records and waits, in the order of their calls, give the rows that each row follows.
-- Fields: CuptiActivity.cpp of Kineto. HTA's critical_path_analysis.py finds rows by the order of calls, too.
local stats = require "ett.trace.stats"

local waits = {}

local stream_arg, record_arg = "wait_on_stream", "wait_on_cuda_event_record_corr_id"

waits.args = { stream_arg, record_arg }

--- The object that each kind of synchronisation event waits for.
local kinds = { ["Stream Wait Event"] = "wait", ["Event Sync"] = "event", ["Stream Sync"] = "stream",
  ["Context Sync"] = "device" }

-- Orders for table.sort; ett.base.by takes several times as long.
local function by_place(a, b) return a.place < b.place end
local function by_launch(a, b)
  if a.call_ts ~= b.call_ts then return a.call_ts < b.call_ts end
  if a.id ~= b.id then return a.id < b.id end
  if a.stop ~= b.stop then return a.stop < b.stop end
  return a.row < b.row
end
local function by_call(a, b)
  if a.at ~= b.at then return a.at < b.at end
  if a.id ~= b.id then return a.id < b.id end
  return a.order < b.order
end

local function key_of(device, stream) return device << 32 | stream & 0xffffffff end

--- Adds the rows of `from` to `to`. Both hold the last row of each stream.
local function merge(to, from)
  for stream, row in pairs(from) do
    if not to[stream] or to[stream].place < row.place then to[stream] = row end
  end
  return to
end

--- Rows of a state in the order of their launches, without that of one stream.
local function listed(state, except)
  local list = {}
  for stream, row in pairs(state or {}) do if stream ~= except then list[#list + 1] = row end end
  if #list > 1 then table.sort(list, by_place) end
  return list
end

--- Launches by recording: { at, id, rows (of one call) }. Numbers the rows by launch, those of one call by end. Returns
--- two tables { [recording] = { [stream] = true } }. First: streams of rows without a launch; events that follow only
--- these are unknown. Second: streams of all rows.
local function launches(steps, rows)
  local launched, others, seen = {}, {}, {}
  for recording in pairs(steps) do others[recording], seen[recording] = {}, {} end
  for _, row in ipairs(rows) do
    local stream = key_of(row.device or 0, row.stream)
    seen[row.recording][stream] = true
    if row.call_row then
      launched[#launched + 1] = row
    else
      others[row.recording][stream] = true
    end
  end
  table.sort(launched, by_launch)
  local last
  for place, row in ipairs(launched) do
    row.place = place
    if not last or last.call_row ~= row.call_row then
      last = { what = "launch", at = row.call_ts, id = row.id, order = 0, call_row = row.call_row, rows = {} }
      table.insert(steps[row.recording], last)
    end
    last.rows[#last.rows + 1] = row
  end
  return others, seen
end

--- Synchronisation events by recording, and { [file] = { [id of a record's call] = stream } }.
local function synchronisations(steps, syncs, calls, home)
  local columns = stats.columns(syncs, { "name", "ts", "stream", "device", "file", "correlation", stream_arg,
    record_arg })
  local call = stats.columns(syncs:match(calls, "correlation"), { "row", "ts" })
  local records = {}
  for i, name in ipairs(columns.name) do
    local file, device, record, on = columns.file[i], columns.device[i] or 0, columns[record_arg][i],
      columns[stream_arg][i]
    local step = { what = kinds[name], at = call.ts[i] or columns.ts[i], id = columns.correlation[i] or -1, order = 1,
      file = file, call_row = call.row[i], stream = columns.stream[i] and key_of(device, columns.stream[i]),
      device = device, record = record }
    table.insert(steps[home[file]], step)
    if math.type(record) == "integer" and record >= 0 and math.type(on) == "integer" and on >= 0 then
      records[file] = records[file] or {}
      records[file][record] = key_of(device, on)
    end
  end
  return records
end

--- Adds the calls that record the events of `records`.
local function event_records(steps, view, calls, records, home)
  local names = view.trace:name_set(function(name) return name:find("EventRecord", 1, true) ~= nil end, "runtime")
  local columns = stats.columns(calls:where { names = names }, { "ts", "correlation", "file" })
  for i, id in ipairs(columns.correlation) do
    local file = columns.file[i]
    local stream = records[file] and records[file][id]
    if stream then
      table.insert(steps[home[file]], { what = "record", at = columns.ts[i], id = id, order = 1, file = file,
        stream = stream })
    end
  end
end

--- Whether the waits of streams were recorded: some were, each with its stream, or no call made any. (Kineto's option
--- for them is separate.) Second: whether waits of some calls are missing.
local function complete(view, list, calls, files)
  local found = 0
  for _, step in ipairs(list) do
    if step.what == "wait" then
      if not step.stream then return false, true end
      found = found + 1
    end
  end
  local names = view.trace:name_set(function(name) return name:find("StreamWaitEvent", 1, true) ~= nil end, "runtime")
  local made = #calls:where { names = names, file = files }
  return found > 0 or #list > 0 and made == 0, found < made
end

--- A launch: each row follows what its stream waits for. An event that ends later than the row starts has a wrong id.
--- Then, after an unknown event, and between the rows of one call (a CUDA graph), other rules find the dependencies.
local function launch(state, unknown, step, exact)
  local last = {}
  for _, row in ipairs(step.rows) do
    local stream = key_of(row.device or 0, row.stream)
    row.waits, last[stream] = listed(state[stream], stream), row
    row.exact = exact and #step.rows == 1 and not unknown[stream]
    for i = #row.waits, 1, -1 do
      if row.waits[i].stop > row.ts then
        table.remove(row.waits, i)
        row.exact = false
      end
    end
  end
  for stream in pairs(last) do state[stream], unknown[stream] = merge({}, last), nil end
end

--- The last rows of all streams of a device.
local function of_device(state, device)
  local all = {}
  for stream, rows in pairs(state) do if stream >> 32 == device & 0xffffffff then merge(all, rows) end end
  return all
end

--- Goes through the steps of a recording. Sets row.waits (rows) and row.exact (no others) of launched rows; adds the
--- rows that a host call waits for to waited[row number of the call].
---@param unknown table<integer, boolean> streams that wait for other rows, too
---@param seen table<integer, boolean>? streams with rows, if waits are missing: Kineto omits those of other streams
--- (CuptiActivityProfiler.cpp, logDeferredEvents), whose events are then unknown
local function follow(list, exact, waited, unknown, seen)
  table.sort(list, by_call)
  local state, events = {}, {} -- state: by stream, its last row and the rows that it waits for
  for _, step in ipairs(list) do
    local event = step.record and events[step.file] and events[step.file][step.record]
    if step.what == "launch" then
      launch(state, unknown, step, exact)
    elseif step.what == "record" then
      events[step.file] = events[step.file] or {}
      events[step.file][step.id] = { rows = merge({}, state[step.stream] or {}),
        unknown = unknown[step.stream] or seen and not seen[step.stream] or nil }
    elseif step.what == "wait" and step.stream then
      unknown[step.stream] = unknown[step.stream] or not event or event.unknown
      state[step.stream] = merge(state[step.stream] or {}, event and event.rows or {})
    elseif step.what == "event" then
      waited[step.call_row] = event and not event.unknown and listed(event.rows) or nil
    elseif step.what == "stream" then
      local known = not unknown[step.stream] and (not seen or seen[step.stream])
      waited[step.call_row] = known and listed(state[step.stream]) or nil
    elseif step.what == "device" then
      waited[step.call_row] = next(unknown) == nil and listed(of_device(state, step.device)) or nil
    end
  end
end

--- Finds the recorded waits of a process. Sets row.waits and row.exact of device rows.
---@param rows table[] device rows: device, stream, ts, stop, row, recording, and of launched ones call_row, call_ts, id
---@param home integer[] recording of each file
---@return table<integer, table[]> waited the rows that a host call waits for, by its row number
function waits.find(view, process, rows, home)
  local syncs = view.trace:events { category = "cuda_sync", file = process.files, ph = "X" }
  local waited = {}
  if #syncs == 0 then return waited end
  local calls, steps, files = view:launch_calls():where { file = process.files }, {}, {}
  for _, file in ipairs(process.files) do
    local recording = home[file]
    steps[recording], files[recording] = steps[recording] or {}, files[recording] or {}
    table.insert(files[recording], file)
  end
  local records = synchronisations(steps, syncs, calls, home)
  local exact, missing = {}, {}
  for recording, list in pairs(steps) do
    exact[recording], missing[recording] = complete(view, list, calls, files[recording])
  end
  event_records(steps, view, calls, records, home)
  local others, seen = launches(steps, rows)
  for recording, list in pairs(steps) do
    follow(list, exact[recording], waited, others[recording], missing[recording] and seen[recording])
  end
  return waited
end

return waits
