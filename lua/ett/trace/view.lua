--- A trace as metrics see it: device lanes, kinds of rows, the window, steps, collectives.
--
-- A lane is one device (on TPU one core) of one rank. Each value is computed once and kept, so that
-- all metrics together cost little more than one.
--
--   local view <close> = assert(trace_view.open("runs/rank8", { step = 4 }))
--   for _, lane in ipairs(view:lanes()) do
--     print(lane.key, view:ms(lane:comm():measure()), view:ms((lane:comm() & lane:compute()):measure()))
--   end
--
-- Definitions (per lane; intervals are united before they are measured):
--   communication C: kernels of a library in lua/ett/trace/communication; on TPU by hlo_category / opcode
--   compute K:       the other kernels
--   memory M:        copies and memsets
--   busy B:          C | K | M;  span: first start to last end;  idle = span - |B|
-- With --step or --window, intervals are cut to the window and the span is the window. A row is
-- counted if it starts in the window, so that counts of adjoining windows add up.
local collective = require "ett.trace.collective"
local comm = require "ett.trace.comm"
local error_module = require "ett.base.error"

local Lane = require "ett.trace.lane"

local trace_view = {}
local View = {}
View.__index = View

local device_classes = { "kernel", "memcpy", "memset" }

local cached = Lane.cached
View.cached = cached

--- Opens a trace for metrics.
---@param path string folder or file
---@param options table? profile_mode, args (list of arg names to keep), step, window = {from_ms, to_ms}, threads,
---  progress, and options of metrics (n_chips, model_params, peak_flops, align, top …; cluster: a cluster table)
---@return table? view, any? err
function trace_view.open(path, options)
  options = options or {}
  local trace = require "ett.trace"
  local opened, why = trace.open(path, { args = options.args, profile_mode = options.profile_mode,
    threads = options.threads, progress = options.progress })
  local view = setmetatable({ path = path, options = options, trace = opened, cache = {} }, View)
  if not opened then
    local pipeline = require("ett.trace.pipeline").read(path)
    if not pipeline then return nil, why end
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

--- A view over a trace that is already open (closing the view leaves it open).
function trace_view.over(trace, options)
  return setmetatable({ path = "", options = options or {}, trace = trace, borrowed = true, cache = {} }, View)
end

function View:close()
  if self.trace and not self.borrowed then self.trace:close() end
  self.trace = nil
end
View.__close = View.close

--- Raises "missing" with the reason why a metric has no value.
function View.missing(_, format, ...) error_module.raise("missing", format, ...) end

--- The trace, or a "missing" error when the folder holds only per-micro-batch timings.
function View:events_needed()
  if not self.trace then self:missing("needs trace events; the folder holds only per-micro-batch timings") end
  return self.trace
end

--- Raises "missing" when no row is communication.
function View:missing_communication() self:missing("needs communication rows on a device; the trace has none") end

--- Ticks as seconds, milliseconds, microseconds (floats).
function View:s(ticks) return ticks / self.trace.ticks_per_second end
function View:ms(ticks) return ticks / (self.trace.ticks_per_second // 1000) end
function View:us(ticks) return ticks / (self.trace.ticks_per_second // 1000000) end

--- The metadata of the run: workload card, options.
function View:card()
  return cached(self, "card", function() return require("ett.trace.card").read(self.path, self.options) end)
end

--- A number of the run: an option, else the card's field, or nil. The option has the field's name, or `option`.
function View:fact(field, option) return self.options[option or field] or tonumber(self:card()[field]) end

--- All rows of a class, selected once; narrow the selection with :where.
function View:class_rows(class)
  return cached(self, "class_" .. class, function() return self:events_needed():events{ class = class } end)
end

--- Rows of some classes whose names pass a test, selected once for each key.
---@param key string name under which the selection is kept
---@param classes string[]
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

--- Host ranges nccl:NAME of a process that start in its window, counted by name.
function View:library_ranges(process)
  local rows = self:named_rows("library_ranges", { "annotation" }, is_library_range):where{ file = process.files }
  local from, to = self:window(process)
  if from then rows = rows:where{ starts_in = { from, to } } end
  local counts = {}
  for _, row in ipairs(rows:stats{ by = { "name" } }) do counts[row.name] = row.count end
  return counts
end

--- Damage in the files of a process: numbers of unreadable rows and of rows of negative duration.
function View:damage(process)
  local bad, negative = 0, 0
  for _, w in ipairs(self.trace.warnings) do
    if process.paths[w.file] then
      if w.code == "bad_event" or w.code == "bad_number" then bad = bad + (w.count or 1) end
      if w.code == "negative_dur" then negative = negative + (w.count or 1) end
    end
  end
  return bad, negative
end

--- All rows on devices.
function View:device_rows()
  return cached(self, "device_rows", function() return self:events_needed():events{ class = device_classes } end)
end

-- Files of one rank ------------------------------------------------------------------

local function span_overlap(a, b)
  local overlap = math.min(a.to, b.to) - math.max(a.from, b.from)
  local shorter = math.min(a.to - a.from, b.to - b.from)
  return shorter > 0 and overlap / shorter or 0
end

--- Groups of files that are one process: {rank=, files={index…}, key=}. Files of the same rank that
--- follow one another in time are pieces of one run. Files of the same rank and the same time are
--- different processes.
function View:processes()
  return cached(self, "processes", function()
    local t, by_rank, list = self:events_needed(), {}, {}
    local spans = {}
    for _, group in ipairs(self:device_rows():group{ "file" }) do spans[group.file] = { group.events:span() } end
    for _, file in ipairs(t.files) do
      local index = file.index -- its number among all files found, ignored files included
      local from, to = table.unpack(spans[index] or {})
      if from == nil and #t.files > 1 then from, to = t:events{ file = index }:span() end
      local piece = { from = from or 0, to = to or 0 }
      local home
      for _, process in ipairs(file.rank and by_rank[file.rank] or {}) do
        local fits = true
        for _, other in ipairs(process.pieces) do fits = fits and span_overlap(piece, other) < 0.5 end
        if fits then home = process end
      end
      if not home then
        home = { rank = file.rank, files = {}, paths = {}, pieces = {}, kind = file.kind, world_size = file.world_size }
        list[#list + 1] = home
        if file.rank then
          by_rank[file.rank] = by_rank[file.rank] or {}
          table.insert(by_rank[file.rank], home)
        end
      end
      table.insert(home.files, index)
      home.paths[file.path] = true
      table.insert(home.pieces, piece)
    end
    local seen = {}
    for index, process in ipairs(list) do
      local name = process.rank and tostring(process.rank) or ("file%d"):format(process.files[1] - 1)
      if #list == 1 and not process.rank then name = "0" end
      seen[name] = (seen[name] or 0) + 1
      process.key = seen[name] == 1 and name or ("%s#%d"):format(name, seen[name])
      process.index = index
    end
    return list
  end)
end

--- Whether a row's name is that of a step.
function trace_view.is_step(name) return name:find("^ProfilerStep%s*#%s*%d+") ~= nil end
local is_step = trace_view.is_step

--- Steps of every process: {number=, name=, spans = { [process index] = {from, to} }}, in order
--- of number. From ProfilerStep#N on the host track (the device track's copy of it is not used).
function View:steps()
  return cached(self, "steps", function()
    local rows = self:named_rows("steps", { "annotation" }, is_step)
    if #rows == 0 then -- the dialect of 2021 writes them as operators
      rows = self:named_rows("old_steps", { "cpu_op", "host", "other" }, is_step)
    end
    local home = {}
    for _, process in ipairs(self:processes()) do
      for _, file in ipairs(process.files) do home[file] = process.index end
    end
    local by_number, list = {}, {}
    for i = 1, #rows do
      local name, from = rows:get(i, "name"), rows:get(i, "ts")
      -- A number beyond 64 bits is damage; the step still counts.
      local number = math.tointeger(tonumber(name:match("#%s*(%d+)"))) or math.maxinteger
      local step = by_number[number]
      if not step then
        step = { number = number, name = name, spans = {} }
        by_number[number] = step
        list[#list + 1] = step
      end
      local process = home[rows:get(i, "file")]
      if not step.spans[process] then step.spans[process] = { from, rows:get(i, "end") } end
    end
    table.sort(list, function(a, b) return a.number < b.number end)
    return list
  end)
end

--- The window in ticks of one process: from, to; nothing without a window; false when the process does
--- not have the step.
function View:window(process)
  local options = self.options
  local from, to
  if options.step then
    local found
    for _, step in ipairs(self:steps()) do
      if step.number == options.step then found = step end
    end
    if not found then
      local numbers = {}
      for i, step in ipairs(self:steps()) do numbers[i] = tostring(step.number) end
      error_module.raise("argument", "no step %d; the trace has %s", options.step,
        #numbers > 0 and "steps " .. table.concat(numbers, ", ") or "no ProfilerStep# marker")
    end
    local span = found.spans[process.index]
    if not span then return false end
    from, to = span[1], span[2]
  end
  if options.window then
    local tick = self.trace.ticks_per_second // 1000
    local function at(ms) -- within the range of ticks: 1e300 is a window without an end
      return self.trace.start + math.floor(math.max(-2.0 ^ 61, math.min(2.0 ^ 61, ms * tick + 0.5)))
    end
    local low, high = at(options.window[1]), at(options.window[2])
    from, to = math.max(from or low, low), math.min(to or high, high)
  end
  return from, to
end

--- The measured iterations: {number=, ticks=} with the longest rank's duration; with a window only
--- iterations that start in it on that rank.
function View:iterations()
  return cached(self, "iterations", function()
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
end

--- Sum of the iterations' ticks, and their number.
function View:iteration_ticks()
  local ticks, list = 0, self:iterations()
  for _, each in ipairs(list) do ticks = ticks + each.ticks end
  return ticks, #list
end

-- Lanes ------------------------------------------------------------------------------

--- Names of kernels that are communication.
function View:communication_names()
  return cached(self, "communication_names", function()
    return self.trace:name_set(function(name) return comm.library_of(name) ~= nil end, "kernel")
  end)
end

--- The device lanes, by rank and device; empty when no row ran on a device.
---@return table[] lanes
function View:lane_list()
  return cached(self, "lanes", function()
    local all, list = self:device_rows(), {}
    for _, process in ipairs(self:processes()) do
      local from, to = self:window(process)
      if from ~= false then
        local groups = all:where{ file = process.files }:group{ "device" }
        for _, group in ipairs(groups) do
          local key, name = process.key, group.events:get(1, "process")
          local tpu = process.kind == "tpu_json" or (process.kind == "xplane" and (name or ""):find("TPU") ~= nil)
          if process.kind == "tpu_json" or process.kind == "xplane" then
            key = name or key
            if #self:processes() > 1 then key = process.key .. ":" .. key end
          elseif #groups > 1 then
            key = ("%s:%s"):format(process.key, group.device == nil and "?" or group.device)
          end
          list[#list + 1] = setmetatable({ view = self, process = process, rank = process.rank, device = group.device,
            key = key, all = group.events, from = from, to = to, cache = {},
            tpu = tpu }, Lane)
        end
      end
    end
    return list
  end)
end

--- The device lanes; raises "missing" when there is none.
function View:lanes()
  local lanes = self:lane_list()
  if #lanes == 0 then
    self:missing("needs device rows (kernel, gpu_memcpy, gpu_memset …); the trace has none%s",
      self.options.step and " in a process that ran the step" or "")
  end
  return lanes
end

--- Every lane's collectives by process group (ett.trace.collective).
function View:collective_groups()
  return cached(self, "collective_groups", function() return collective.groups(self:lanes()) end)
end

--- Groups of two ranks or more with their collectives matched, and the number of groups on one rank.
---@param mode string "auto", "none", "clocks" or "force"
---@param tolerance integer greatest median difference of ends, in ticks
function View:matched_groups(mode, tolerance)
  local found = cached(self, ("matched_%s_%d"):format(mode, tolerance), function()
    return { collective.match(self:collective_groups(), mode, tolerance) }
  end)
  return found[1], found[2]
end

--- The tolerance of matching in ticks: options.tolerance_us, else 1 ms.
function View:tolerance()
  return math.floor((self.options.tolerance_us or 1000) * (self.trace.ticks_per_second // 1000000))
end

--- Launch calls of the trace.
function View:launch_calls() return self:class_rows("runtime") end

--- Rows of a kind of all lanes that start in the window.
function View:lane_sum(what)
  return cached(self, "lane_sum_" .. what, function()
    local sum
    for _, lane in ipairs(self:lanes()) do sum = sum and sum + lane:rows(what) or lane:rows(what) end
    return sum
  end)
end

return trace_view
