--- A trace as metrics see it: device lanes, kinds of rows, the window, steps, collectives.
--
-- A lane is one device (on TPU one core) of one rank. Values are cached, so all metrics together cost little more than
-- one.
--
--   local view <close> = assert(trace_view.open("runs/rank8", { step = 4 }))
--   for _, lane in ipairs(view:lanes()) do
--     print(lane.key, view:ms(lane:comm():measure()), view:ms((lane:comm() & lane:compute()):measure()))
--   end
--
-- Definitions (per lane; intervals are merged before they are measured):
--   communication C: kernels of a library in lua/ett/trace/communication; on TPU by hlo_category / opcode
--   compute K:       the other kernels
--   memory M:        copies and memsets
--   busy B:          C | K | M;  span: first start to last end of each recording;  idle = span - |B|
-- With --step or --window, intervals are clipped to the window and the span is the window. A row is counted if it
-- starts in the window, so counts of adjacent windows can be added.
local by = require "ett.base.by"
local collective = require "ett.trace.collective"
local comm = require "ett.trace.comm"
local error_module = require "ett.base.error"
local processes = require "ett.trace.processes"
local schema = require "ett.base.schema"
local xla = require "ett.trace.xla"

local Lane = require "ett.trace.lane"

local trace_view = {}
local View = {}
View.__index = View

local device_classes = { "kernel", "memcpy", "memset" }

local cached, once = Lane.cached, Lane.once
View.cached = cached

--- Opens a trace for metrics.
---@param path string folder or file
---@param options table? profile_mode, args (names to keep beside comm.args), step, window = {from_ms, to_ms}, threads,
---  progress, and options of metrics (n_chips, model_params, peak_flops, align, top …; cluster: a cluster table)
---@return table? view, any? err
function trace_view.open(path, options)
  schema.argument(path, "string", "ett.trace.view.open", "path")
  options = schema.argument(options, "table?", "ett.trace.view.open", "options") or {}
  local trace = require "ett.trace"
  local args = table.move(comm.args, 1, #comm.args, 1 + #(options.args or {}), { table.unpack(options.args or {}) })
  local opened, why = trace.open(path, { args = args, profile_mode = options.profile_mode,
    threads = options.threads, progress = options.progress, memory_bytes = require("ett.host").memory_limit })
  local view = setmetatable({ path = path, options = options, trace = opened, cache = {} }, View)
  if not opened then
    local pipeline, fault = require("ett.trace.pipeline").read(path)
    if not pipeline then return nil, fault or why end
    view.cache.pipeline = pipeline
  elseif options.window then
    local length = view:ms(opened.stop - opened.start)
    if options.window[1] > length or options.window[2] <= 0 then
      opened:close()
      error_module.raise("argument", "window %g:%g ms is outside the trace of %.6g ms", options.window[1],
        options.window[2], length)
    end
  end
  return view
end

function View:close()
  if self.trace then self.trace:close() end
  self.trace = nil
end
View.__close = View.close

--- Raises "missing" with the reason why a metric has no value.
function View.missing(_, format, ...) error_module.raise("missing", format, ...) end

--- The trace; raises "missing" if the folder holds only per-micro-batch timings.
function View:events_needed()
  if not self.trace then self:missing("needs trace events; the folder holds only per-micro-batch timings") end
  return self.trace
end

--- Raises "missing" if no row is communication.
function View:missing_communication() self:missing("needs communication rows on a device; the trace has none") end

local function checked(ticks)
  if type(ticks) ~= "number" then
    error_module.raise("argument", "view:s, :ms and :us take a number of ticks, got %s", schema.describe(ticks))
  end
  return ticks
end

--- Ticks as seconds, milliseconds, microseconds (floats).
function View:s(ticks) return checked(ticks) / self.trace.ticks_per_second end
function View:ms(ticks) return checked(ticks) / (self.trace.ticks_per_second // 1000) end
function View:us(ticks) return checked(ticks) / (self.trace.ticks_per_second // 1000000) end

--- The metadata of the run: workload card, options.
View.card = once("card", function(self) return require("ett.trace.card").read(self.path, self.options) end)

--- A number of the run: an option, else the card's field, or nil. The option has the field's name, or `option`.
function View:fact(field, option) return self.options[option or field] or tonumber(self:card()[field]) end

--- All rows of a class, cached; narrow the selection with :where.
View.class_rows = once("class", function(self, class) return self:events_needed():events{ class = class } end)

--- Rows of some classes whose names pass a test, cached by key.
---@param key string name under which the selection is cached
---@param test function of the name
function View:named_rows(key, classes, test)
  return cached(self, "named_" .. key, function()
    local names, rows = self:events_needed():name_set(test, classes), nil
    for _, class in ipairs(classes) do
      local some = self:class_rows(class):where{ names = names }
      rows = rows and rows + some or some
    end
    return rows
  end)
end

local function is_library_range(name) return name:find("^[nrh]ccl:") ~= nil end

--- Whether the trace is of training: its host rows have a backward pass. Nil without operators on the host.
function View:training()
  local found = cached(self, "training", function()
    local backward = self:named_rows("backward", { "cpu_op", "annotation" }, function(name)
      return name:find("^autograd::engine::evaluate_function") ~= nil or name:find("^Optimizer%.step") ~= nil
        or name:find("^backward_step") ~= nil
    end)
    if #backward > 0 then return "yes" end
    return #self:class_rows("cpu_op") > 0 and "no" or "unknown"
  end)
  if found ~= "unknown" then return found == "yes" end
end

--- Host ranges nccl:NAME of a process that start in its window, counted by name.
function View:library_ranges(process)
  return cached(self, "library_ranges " .. process.index, function()
    local rows = self:named_rows("library_ranges", { "annotation" }, is_library_range):where{ file = process.files }
    local from, to = self:window(process)
    if from then rows = rows:where{ starts_in = { from, to } } end
    local counts = {}
    for _, row in ipairs(rows:stats{ by = { "name" } }) do counts[row.name] = row.count end
    return counts
  end)
end

--- Damage in the files of a process: how many rows are unreadable, and how many have a negative duration.
function View:damage(process)
  if not self.damaged then
    self.damaged = { bad_event = {}, bad_number = {}, negative_dur = {} }
    for _, w in ipairs(self.trace.warnings) do
      local counts = self.damaged[w.code]
      if counts and w.file then counts[w.file] = (counts[w.file] or 0) + (w.count or 1) end
    end
  end
  local bad, negative = 0, 0
  for path in pairs(process.paths) do
    bad = bad + (self.damaged.bad_event[path] or 0) + (self.damaged.bad_number[path] or 0)
    negative = negative + (self.damaged.negative_dur[path] or 0)
  end
  return bad, negative
end

--- The rows launched by a recorded call; raises "missing" if there are none.
local function only_launched(self, rows)
  local launched = rows:having(self:launch_calls(), "correlation")
  if #rows > 0 and #launched == 0 then
    self:missing("--launched-only: no device row has a launch call; the trace has %s", #self:launch_calls() > 0
      and "calls with other correlation ids" or "no launch calls")
  end
  return launched
end

--- All complete device rows; with options.launched_only those launched by a recorded call. On MTIA, whose rows have one
--- category, excludes rows that wait for an event or record one.
View.device_rows = once("device_rows", function(self)
  local t = self:events_needed()
  local rows = t:events{ class = device_classes, ph = "X" }
  local mtia = t:events{ category = "mtia_ccp_events", ph = "X" }
  if #mtia > 0 then rows = rows + (mtia - mtia:where{ name = { "event_wait", "event_record" } }) end
  return self.options.launched_only and only_launched(self, rows) or rows
end)

View.processes = once("processes", function(self) return processes.list(self) end)

--- Warnings of the reader (without those on a rank's further recordings), on merged files and on units of time
--- (ett.trace.processes).
function View:warnings()
  local list, twice = {}, {}
  for _, w in ipairs(self.trace.warnings) do
    if w.code == "duplicate_rank" and next(twice) == nil then
      for _, process in ipairs(self:processes()) do
        for path in pairs(process.paths) do twice[path] = process.key:find("#", 1, true) ~= nil end
      end
    end
    if w.code ~= "duplicate_rank" or twice[w.file] then list[#list + 1] = w end
  end
  for _, found in ipairs { processes.merged(self), processes.units(self) } do
    table.move(found, 1, #found, #list + 1, list)
  end
  for _, file in ipairs(self.trace.files) do
    if file.kind == "tpu_json" or file.kind == "xplane" then
      for _, w in ipairs(xla.warnings(self)) do list[#list + 1] = w end
      break
    end
  end
  return list
end

--- The recording that holds each file, by file index, and the number of recordings (ett.trace.processes).
function View:recordings()
  local found = cached(self, "recordings", function() return { processes.recordings(self) } end)
  return found[1], found[2]
end

--- Whether a row's name is a step name.
function trace_view.is_step(name) return name:find("^ProfilerStep%s*#%s*%d+") ~= nil end
local is_step = trace_view.is_step

--- Steps of every process: {number=, name=, recording=, spans = { [process index] = {from, to} }}, in order
--- of number, then of recording. From ProfilerStep#N on the host track (the device track's copy of it is not used).
View.steps = once("steps", function(self)
  local rows = self:named_rows("steps", { "annotation" }, is_step)
  if #rows == 0 then -- the format of 2021 has them as operators
    rows = self:named_rows("old_steps", { "cpu_op", "host", "other" }, is_step)
  end
  local home, recordings = {}, self:recordings()
  for _, process in ipairs(self:processes()) do
    for _, file in ipairs(process.files) do home[file] = process.index end
  end
  local by_number, list = {}, {}
  for i = 1, #rows do
    local name, from, to, file = rows:get(i, "name"), rows:get(i, "ts"), rows:get(i, "end"), rows:get(i, "file")
    -- Numbers beyond 64 bits are invalid; the step still counts.
    local number = math.tointeger(tonumber(name:match("#%s*(%d+)"))) or math.maxinteger
    local found = by_number[number] or {}
    by_number[number] = found
    local step = found[recordings[file]]
    if not step then
      step = { number = number, name = name, recording = recordings[file], spans = {} }
      found[step.recording], list[#list + 1] = step, step
    end
    local process = home[file]
    local span = step.spans[process] -- of several the first to start, of these the longest
    if not span or from < span[1] or (from == span[1] and to > span[2]) then step.spans[process] = { from, to } end
  end
  table.sort(list, by("number", "recording"))
  return list
end)

--- The window of options.window in ticks: from, to. It is cut to the trace, because no time outside it was recorded.
function View:given_window()
  local tick, window = self.trace.ticks_per_second // 1000, self.options.window
  local length = self.trace.stop - self.trace.start
  local function at(ms)
    return self.trace.start + math.floor(math.max(0.0, math.min(length, ms * tick + 0.5)))
  end
  return at(window[1]), at(window[2])
end

--- The step of options.step; if it was recorded several times, the one in the given window.
function View:given_step()
  local number, found, others = self.options.step, nil, {}
  for _, step in ipairs(self:steps()) do
    local _, span = next(step.spans)
    local inside = true
    if self.options.window then
      local low, high = self:given_window()
      inside = span[1] < high and span[2] > low
    end
    if step.number == number and (inside or not found) then
      found = step
      if inside then others[#others + 1] = ("%.6g:%.6g"):format(self:ms(span[1]), self:ms(span[2])) end
    end
  end
  if not found then
    local numbers = {}
    for i, step in ipairs(self:steps()) do numbers[i] = tostring(step.number) end
    error_module.raise("argument", "no step %d; the trace has %s", number, #numbers == 0 and "no ProfilerStep# marker"
      or (#numbers > 1 and "steps " or "step ") .. table.concat(numbers, ", "))
  elseif #others > 1 then
    error_module.raise("argument", "step %d was recorded %d times; choose one with --window %s", number, #others,
      table.concat(others, " or "))
  end
  return found
end

--- The window of one process in ticks: from, to; nothing without a window; false if the process does not have the step.
function View:window(process)
  local options = self.options
  local from, to
  if options.step then
    local span = cached(self, "given_step", function() return self:given_step() end).spans[process.index]
    if not span then return false end
    from, to = span[1], span[2]
  end
  if options.window then
    local low, high = self:given_window()
    from, to = math.max(from or low, low), math.min(to or high, high)
  end
  return from, to
end

--- The measured iterations: {number=, ticks=} with the longest rank's duration; with a window only
--- iterations that start in it on that rank.
View.iterations = once("iterations", function(self)
  local list = {}
  for _, step in ipairs(self:steps()) do
    local longest
    for _, process in ipairs(self:processes()) do
      local span = step.spans[process.index]
      local from, to = self:window(process)
      if span and (from == nil or (from and span[1] >= from and span[1] < to)) then
        longest = math.max(longest or 0, span[2] - span[1])
      end
    end
    if longest then list[#list + 1] = { number = step.number, ticks = longest } end
  end
  return list
end)

--- The reason for a missing value without iterations: the markers, in the trace or in its window.
function View:lacking_iterations()
  return "ProfilerStep# markers on the host track; " .. (#self:steps() > 0 and "none starts in the window"
    or "the trace has none")
end

--- Sum of the iterations' ticks, and their number.
function View:iteration_ticks()
  local ticks, list = 0, self:iterations()
  for _, each in ipairs(list) do ticks = ticks + each.ticks end
  return ticks, #list
end

-- Lanes ------------------------------------------------------------------------------

View.communication_names = once("communication_names", function(self)
  return self.trace:name_set(function(name) return comm.library_of(name) ~= nil end,
    { "kernel", "device_async" }, comm.words())
end)

local function is_copy(name)
  return name:find("^__amd_rocclr_copy") ~= nil or name:find("^__amd_rocclr_fill") ~= nil or name == "dma_request"
    or name:find("^Memcpy%u2%u$") ~= nil or name == "MemcpyOther" or name == "Memset"
end

--- Names of kernels that copy or fill memory: ROCm's run as kernels, MTIA's have the category of kernels, XLA's may be
--- on one line with the kernels of a stream.
View.copy_names = once("copy_names", function(self)
  return self.trace:name_set(is_copy, { "kernel", "device_async" },
    { "amd_rocclr", "dma_request", "Memcpy", "Memset" })
end)

--- The device lanes, by rank and device; empty if there are no device rows.
---@return table[] lanes
View.lane_list = once("lanes", function(self)
  local all, list = self:device_rows(), {}
  for _, process in ipairs(self:processes()) do
    local from, to = self:window(process)
    if from ~= false then
      local groups = all:where{ file = process.files }:group{ "device" }
      for _, group in ipairs(groups) do
        local key, name = process.key, group.events:get(1, "process")
        local by_xla = process.kind == "tpu_json" or process.kind == "xplane"
        local tpu = by_xla and (name or ""):find("TPU") ~= nil
        if by_xla then
          key = name or key
          if #self:processes() > 1 then key = process.key .. ":" .. key end
        elseif #groups > 1 then
          key = ("%s:%s"):format(process.key, group.device == nil and "?" or group.device)
        end
        list[#list + 1] = setmetatable({ view = self, process = process, rank = process.rank, device = group.device,
          key = key, all = group.events, from = from, to = to, cache = {}, shared = {},
          tpu = tpu }, Lane)
      end
    end
  end
  return list
end)

--- The device lanes; raises "missing" if there are none.
function View:lanes()
  local lanes = self:lane_list()
  if #lanes == 0 then
    self:missing("needs device rows (kernel, gpu_memcpy, gpu_memset …); the trace has none%s",
      self.options.step and " in a process that ran the step" or "")
  end
  return lanes
end

--- Every lane's collectives by process group (ett.trace.collective).
View.collective_groups = once("collective_groups", function(self) return collective.groups(self:lanes()) end)

--- Groups of two ranks or more with their collectives matched, and the number of groups on one rank.
---@param mode string? "auto", "none", "clocks" or "force" (default: options.align, else "auto")
---@param tolerance integer? greatest median difference of ends, in ticks (default: View:tolerance)
---@param kinds boolean? by kind alone, without sizes (Lane:kinds)
function View:matched_groups(mode, tolerance, kinds)
  mode, tolerance = mode or self.options.align or "auto", tolerance or self:tolerance()
  local found = cached(self, ("matched_%s_%d%s"):format(mode, tolerance, kinds and "_kinds" or ""), function()
    local groups = kinds and collective.groups(self:lanes(), true) or self:collective_groups()
    return { collective.match(groups, mode, tolerance) }
  end)
  return found[1], found[2]
end

--- Transfer times of the matched collectives: { { each = (the first rank's sort), ticks = those above 0, in order } }.
View.transfers = once("transfers", function(self)
  local out = {}
  for _, each in ipairs((self:matched_groups())) do
    if each.result then
      local found, sorts = each.result.matches:transfers(), each.group.members[1].lane:collectives().sorts
      for n, sort in ipairs(sorts) do
        if found[n] then out[#out + 1] = { each = sort, ticks = found[n] } end
      end
    end
  end
  return out
end)

--- The tolerance of matching in ticks: options.tolerance_us, else 1 ms.
function View:tolerance()
  return math.floor((self.options.tolerance_us or 1000) * (self.trace.ticks_per_second // 1000000))
end

View.launch_calls = once("launch_calls", function(self) return self:class_rows("runtime"):where{ ph = "X" } end)

--- Rows of a kind of all lanes that start in the window.
View.lane_sum = once("lane_sum", function(self, what)
  local sum
  for _, lane in ipairs(self:lanes()) do sum = sum and sum + lane:rows(what) or lane:rows(what) end
  return sum
end)

return trace_view
