--- The processes of a trace, and the recordings of each.
--
-- A profiler with a schedule writes one file for each recording of a rank. Files of one rank that follow one
-- another in time are recordings of one process. Files of one rank and the same time are different processes, and so
-- are files of different devices: they are of different runs.
local interval = require "ett.interval"

local processes = {}

--- Overlap, as a share of the shorter file, at which two files count as different processes.
local same_time = 0.5

local function span_overlap(a, b)
  local overlap = math.min(a.to, b.to) - math.max(a.from, b.from)
  local shorter = math.min(a.to - a.from, b.to - b.from)
  return shorter > 0 and overlap / shorter or 0
end

--- Identity of a file's rank: the rank, else the name before the time (worker.1623143566756.pt.trace.json).
local function identity(file) return file.rank or file.path:match("([^/]+)%.%d+%.pt%.trace%.json") end

--- Name of the device that recorded a file, or nil.
local function device_of(file)
  local text = file.root and file.root.deviceProperties
  return type(text) == "string" and text:match('"name"%s*:%s*"([^"]*)"') or nil
end

--- The first candidate process without a file that overlaps this piece in time or is of another device, or nil.
local function fitting(candidates, piece)
  local home
  for _, process in ipairs(candidates) do
    local fits = true
    for _, other in ipairs(process.pieces) do
      fits = fits and span_overlap(piece, other) < same_time
        and (not piece.device or not other.device or piece.device == other.device)
    end
    if fits then home = process end
  end
  return home
end

local function name_them(list)
  local seen = {}
  for index, process in ipairs(list) do
    local name = process.rank and tostring(process.rank) or ("file%d"):format(process.files[1] - 1)
    if #list == 1 and not process.rank then name = "0" end
    seen[name] = (seen[name] or 0) + 1
    process.key = seen[name] == 1 and name or ("%s#%d"):format(name, seen[name])
    process.index = index
  end
end

--- The processes: { {rank=, files={index…}, paths={[path]=true}, pieces={ {file=, from=, to=, device=} }, kind=,
--- world_size=, info=, key=, index=} }.
function processes.list(view)
  local t, by_identity, list, spans = view:events_needed(), {}, {}, {}
  for _, group in ipairs(view:device_rows():group{ "file" }) do spans[group.file] = { group.events:span() } end
  local files = t.files -- made anew at each access
  for _, file in ipairs(files) do
    local index = file.index -- its index among all files found, ignored files included
    local from, to = table.unpack(spans[index] or {})
    if from == nil and #files > 1 then from, to = t:events{ file = index }:span() end
    local piece, id = { file = index, from = from or 0, to = to or 0, device = device_of(file) }, identity(file)
    local candidates = id and by_identity[id] or {}
    local home = fitting(candidates, piece)
    if not home then
      home = { rank = file.rank, files = {}, paths = {}, pieces = {}, kind = file.kind, world_size = file.world_size,
        info = file.root and file.root.distributedInfo }
      list[#list + 1] = home
      if id then
        by_identity[id] = candidates
        table.insert(candidates, home)
      end
    end
    table.insert(home.files, index)
    home.paths[file.path] = true
    table.insert(home.pieces, piece)
  end
  name_them(list)
  return list
end

--- The recordings of a process in order of time: { { [file index] = true, … }, … }. Files that overlap in time, host
--- rows included, are pieces of one recording.
function processes.stretches(view, process)
  if #process.files == 1 then return { { [process.files[1]] = true } } end
  local extents = {}
  for i, file in ipairs(process.files) do
    local from, to = view.trace:events{ file = file }:span()
    extents[i] = { file = file, from = from or 0, to = to or 0 }
  end
  table.sort(extents, function(a, b) return a.from < b.from end)
  local list, last = {}, -math.huge
  for _, each in ipairs(extents) do
    if each.from > last then list[#list + 1] = {} end
    list[#list][each.file], last = true, math.max(last, each.to)
  end
  return list
end

--- The recording that holds each file: { [file index] = 1, 2, … in order of time }, and their number. If all processes
--- were recorded equally often, the n-th recording of each is number n. Otherwise those that overlap in time are one.
function processes.recordings(view)
  local list, home, most, equal = view:processes(), {}, 1, true
  for _, process in ipairs(list) do
    process.stretches = processes.stretches(view, process)
    most = math.max(most, #process.stretches)
    equal = equal and #process.stretches == #list[1].stretches
  end
  for _, process in ipairs(list) do
    for number, files in ipairs(process.stretches) do
      for file in pairs(files) do home[file] = number end
    end
  end
  if equal or most == 1 then return home, most end
  local spans = {}
  for _, process in ipairs(list) do
    for _, piece in ipairs(process.pieces) do spans[#spans + 1] = { piece.from, math.max(piece.to, piece.from + 1) } end
  end
  local set = interval.new(spans)
  for _, process in ipairs(list) do
    for _, piece in ipairs(process.pieces) do
      for number, from, to in set:iter() do
        if piece.from >= from and piece.from < to then home[piece.file] = number end
      end
    end
  end
  return home, #set
end

--- Warnings on files that other tools merged from several ranks: they contain launch calls of several processes, and
--- ranks may share correlation ids. (MTIA's calls are of two processes in one recording.)
function processes.merged(view)
  local calls, counts, list = view:launch_calls(), {}, {}
  for _, group in ipairs((calls - calls:where{ category = "mtia_runtime" }):group{ "file", "pid" }) do
    counts[group.file] = (counts[group.file] or 0) + 1
  end
  for _, file in ipairs(view.trace.files) do
    if file.kind == "kineto" and (counts[file.index] or 0) > 1 then
      list[#list + 1] = { file = file.path, code = "merged", count = 1, message =
        ("its launch calls are of %d processes, as in a file merged from several ranks; launch delays, operators and "
          .. "ranks may be wrong; read the file of each rank instead"):format(counts[file.index]) }
    end
  end
  return list
end

-- A kernel of a GPU takes about 1 us or more. The limit of the mean is half of that.
local least_mean_us, least_kernels = 0.5, 20

--- Warnings on files whose kernels are too short for a GPU: their times have another unit than microseconds.
function processes.units(view)
  local list, path_of = {}, {}
  for _, file in ipairs(view.trace.files) do path_of[file.index] = file.kind == "kineto" and file.path or nil end
  for _, group in ipairs(view.trace:events{ class = "kernel", ph = "X" }:stats{ by = { "file" } }) do
    local mean = view:us(group.total) / group.count
    if path_of[group.file] and group.count >= least_kernels and mean < least_mean_us then
      list[#list + 1] = { file = path_of[group.file], code = "unit", count = 1, message =
        ("its %d kernels take %.2g us on average, too little for a GPU; times of this format are microseconds"):format(
          group.count, mean) }
    end
  end
  return list
end

return processes
