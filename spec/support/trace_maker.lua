--- Makes small Kineto traces with metrics that can be computed by hand. Times in microseconds.
local command = require "command"
local folders = require "ett.base.folder"
local json = require "ett.json"
local merged = require "ett.base.merged"

local maker = {}
maker.__index = maker

local base = 1000000 -- traces do not start at 0: ts 0 is a sign of damage

--- A recording of one rank.
function maker.new(options)
  options = options or {}
  return setmetatable({ events = {}, rank = options.rank, world = options.world, device = options.device or 0,
    next_correlation = 1 }, maker)
end

function maker:add(event)
  event.ph = event.ph or "X"
  event.ts = base + event.ts
  event.args = event.args or {}
  self.events[#self.events + 1] = event
  return self
end

--- A device row; options: cat, stream, args, launch = { ts, dur, tid } (also makes the call).
function maker:kernel(name, ts, dur, options)
  options = options or {}
  local args = merged({ device = options.device or self.device, stream = options.stream or 7 }, options.args)
  if options.launch then
    local id = self.next_correlation
    self.next_correlation = id + 1
    args.correlation = id
    self:add{ cat = "cuda_runtime", name = "cudaLaunchKernel", pid = 100, tid = options.launch.tid or 1,
      ts = options.launch.ts, dur = options.launch.dur, args = { correlation = id } }
  end
  return self:add{ cat = options.cat or "kernel", name = name, pid = args.device, tid = args.stream, ts = ts, dur = dur,
    args = args }
end

--- An all-reduce of 100 floats in a group of two ranks; options as those of kernel, and `args` in addition.
function maker:all_reduce(group, from, to, options)
  local args = { ["Collective name"] = "allreduce", ["In msg nelems"] = 100, dtype = "Float", ["Group size"] = 2,
    ["Process Group Name"] = group, ["Process Group Description"] = group }
  return self:kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", from, to - from,
    merged(options, { args = merged(args, options and options.args) }))
end

--- A host row.
function maker:host(cat, name, ts, dur, options)
  options = options or {}
  return self:add{ cat = cat, name = name, pid = 100, tid = options.tid or 1, ts = ts, dur = dur, args = options.args }
end

function maker:step(number, ts, dur) return self:host("user_annotation", "ProfilerStep#" .. number, ts, dur) end

function maker:document()
  local out = { schemaVersion = 1, traceEvents = json.array(self.events) }
  if self.rank then out.distributedInfo = { backend = "nccl", rank = self.rank, world_size = self.world or 1 } end
  return out
end

--- Writes the recording to a file.
function maker:write(path)
  local file = assert(io.open(path, "wb"))
  file:write(json.encode(self:document()))
  file:close()
  return path
end

--- A new folder, and the function that removes it.
maker.folder, maker.remove = command.folder, command.remove

--- Writes recordings (a list with one per rank, or by the names of their files) to a new folder, calls fn with it, then
--- removes it.
function maker.with(recordings, fn)
  folders.within(function(folder)
    for key, recording in pairs(recordings) do
      recording:write(folder .. "/" .. (type(key) == "string" and key or ("trace_%d.json"):format(key - 1)))
    end
    fn(folder)
  end)
end

--- The same with one trace as XLA's profiler writes it, of these events.
function maker.with_xla(events, fn)
  folders.within(function(folder)
    folders.write(folder .. "/host.trace.json", json.encode{ displayTimeUnit = "ns",
      metadata = { ["highres-ticks"] = true }, traceEvents = json.array(events) })
    fn(folder)
  end)
end

--- Computes one metric of a folder with options: result, or nil and the reason.
function maker.metric(folder, name, options)
  local metrics = require "ett.trace.metrics"
  local metric = metrics.load(name)
  local all = merged({ args = metrics.args{ metric } }, options)
  local view <close> = assert(require("ett.trace.view").open(folder, all))
  return metrics.compute(metric, view)
end

--- The same for recordings: the result.
function maker.computed(recordings, name, options)
  local result
  maker.with(recordings, function(folder) result = assert(maker.metric(folder, name, options)) end)
  return result
end

--- Why a metric of recordings has no result.
function maker.reason(recordings, name, options)
  local result, reason
  maker.with(recordings, function(folder) result, reason = maker.metric(folder, name, options) end)
  assert(result == nil, "the metric has a result")
  return reason.message or reason
end

local function opened(module, recordings, options)
  local out
  maker.with(recordings, function(folder) out = assert(require(module).open(folder, options or {})) end)
  return out
end

--- The trace of recordings, and a view of them, without their folder: nothing can be read beside them.
function maker.trace(...) return opened("ett.trace", ...) end
function maker.view(...) return opened("ett.trace.view", ...) end

return maker
