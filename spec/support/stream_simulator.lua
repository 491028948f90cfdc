--- Random programs of one host thread on several streams with events, run by a simulator that knows all dependencies,
--- and recorded as Kineto does with enable_cuda_sync_events (without it: no rows of category cuda_sync).
--
--   local program = simulator.program(seed)
--   simulator.record(program, { gemm = 0.5 })          -- a recording (trace_maker); gemm kernels take half as long
--   simulator.record(program, {}, { events = true })   -- with synchronisation events
local maker = require "trace_maker"
local random = require "random"

local simulator = {}

local names, latency, call_us = { "gemm", "norm", "copy", "reduction" }, 6, 3

--- Operations: { what, gap (us of the host before it), stream, name, us, event }.
function simulator.program(seed)
  local integer, program, recorded = random.integers(seed), {}, {}
  local function draw(from, to) return from + integer(to - from + 1) end
  local function add(op)
    op.gap = draw(1, 5)
    program[#program + 1] = op
  end
  for i = 1, 60 do
    local stream, kind = draw(7, 10), i < 5 and 1 or draw(1, 16)
    local event = #recorded > 0 and recorded[draw(math.max(1, #recorded - 2), #recorded)]
    if kind <= 9 then
      local name = names[draw(1, #names)]
      add { what = "launch", stream = stream, name = name, us = draw(2, 60) }
    elseif kind <= 11 or not event then
      recorded[#recorded + 1] = #recorded + 1
      add { what = "record", stream = stream, event = #recorded }
    elseif kind <= 14 then
      add { what = "wait", stream = stream, event = event }
    elseif kind == 15 then
      add { what = draw(1, 2) == 1 and "event" or "stream", stream = stream, event = event }
    elseif draw(1, 4) == 1 then
      add { what = "context" }
    end
  end
  add { what = "context" } -- an idle device: the launch latency is known
  add { what = "launch", stream = 7, name = "last", us = 10 }
  return program
end

local calls = { record = "cudaEventRecord", wait = "cudaStreamWaitEvent", event = "cudaEventSynchronize",
  stream = "cudaStreamSynchronize", context = "cudaDeviceSynchronize" }
local syncs = { wait = "Stream Wait Event", event = "Event Sync", stream = "Stream Sync", context = "Context Sync" }

--- Runs a program whose kernels take factors[name] times as long.
---@param options table? events: record synchronisation events
function simulator.record(program, factors, options)
  local r, now, ready, events, device = maker.new {}, 100, {}, {}, 0
  options, r.records = options or {}, {}
  for _, op in ipairs(program) do
    now = now + op.gap
    local from, stop = now, now + call_us
    if op.what == "launch" then
      local start = math.max(now + latency, ready[op.stream] or 0)
      ready[op.stream] = start + op.us * (factors[op.name] or 1)
      device = math.max(device, ready[op.stream])
      r:kernel(op.name, start, ready[op.stream] - start, { stream = op.stream, launch = { ts = from, dur = call_us } })
    else
      local id, event = r.next_correlation, events[op.event]
      r.next_correlation = id + 1
      if op.what == "record" then
        events[op.event] = { at = ready[op.stream] or 0, stream = op.stream, id = id }
        r.records[#r.records + 1] = { stream = op.stream, id = id, event = op.event }
      elseif op.what == "wait" then
        ready[op.stream] = math.max(ready[op.stream] or 0, event.at)
      else
        local at = op.what == "event" and event.at or op.what == "stream" and (ready[op.stream] or 0) or device
        stop = math.max(from, at) + call_us
      end
      r:host("cuda_runtime", calls[op.what], from, stop - from, { args = { correlation = id } })
      if options.events and syncs[op.what] then
        local args = { cuda_sync_kind = syncs[op.what], correlation = id, device = 0, context = 1,
          stream = (op.what == "wait" or op.what == "stream") and op.stream or -1 }
        if op.what == "wait" or op.what == "event" then
          args.wait_on_stream, args.wait_on_cuda_event_record_corr_id = event.stream, event.id
          args.event = op.event
        end
        r:add { cat = "cuda_sync", name = syncs[op.what], pid = 0, tid = args.stream, ts = from, dur = stop - from,
          args = args }
      end
    end
    now = stop
  end
  return r
end

-- Types of synchronisation in CUPTI (CUpti_ActivitySynchronizationType).
local sync_types = { ["Event Sync"] = 1, ["Stream Wait Event"] = 2, ["Stream Sync"] = 3, ["Context Sync"] = 4 }

--- A recording as the SQL of an Nsight export (docs.nvidia.com/nsight-systems, SQLite Schema Reference).
---@param reuse integer number of CUDA events that the program records again and again
function simulator.sql(r, reuse)
  local lines, pid = { [[
CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT
  NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, syncType
  INTEGER NOT NULL, eventId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER
  NOT NULL, correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL);]] }, 3 << 24
  local ids, count = {}, 0
  local function insert(table_name, ...)
    lines[#lines + 1] = ("INSERT INTO %s VALUES(%s);"):format(table_name, table.concat({ ... }, ", "))
  end
  local function id_of(name)
    if not ids[name] then
      count = count + 1
      ids[name] = count
      insert("StringIds", count, ("'%s'"):format(name))
    end
    return ids[name]
  end
  local function event_id(event) return event and event % reuse or 4294967295 end
  for _, e in ipairs(r.events) do
    local from, stop, args = 1000 * e.ts, 1000 * (e.ts + e.dur), e.args
    if e.cat == "kernel" then
      insert("CUPTI_ACTIVITY_KIND_KERNEL", from, stop, 0, 1, args.stream, args.correlation, pid, id_of(e.name))
    elseif e.cat == "cuda_runtime" then
      insert("CUPTI_ACTIVITY_KIND_RUNTIME", from, stop, pid + 1, args.correlation, id_of(e.name .. "_v3020"))
    else
      insert("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", from, stop, 0, 1, args.stream < 0 and 4294967295 or args.stream,
        args.correlation, pid, sync_types[e.name], event_id(args.event))
    end
  end
  for _, record in ipairs(r.records) do
    insert("CUPTI_ACTIVITY_KIND_CUDA_EVENT", 0, 1, record.stream, record.id, pid, event_id(record.event))
  end
  return table.concat(lines, "\n")
end

return simulator
