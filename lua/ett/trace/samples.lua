--- Operator samples from a recorded trace.
--
-- For each measured column, `targets` holds a path of host events. The first name is searched in a whole file,
-- each next name inside every event found. Events of one file do not measure the rows of another. Only start times
-- count, on any thread, because the backward pass runs on a thread of its own. A list of names at the end of a
-- path is one occurrence. The time of an occurrence is last end - first start of the device rows launched inside
-- it. A column's sample is the mean of the third to the seventh smallest occurrence.
local by = require "ett.base.by"
local error_module = require "ett.base.error"
local stats = require "ett.trace.stats"

local samples = {}

local device_classes = { "kernel", "memcpy", "memset" }
local signs_of_a_device = { "kernel", "memcpy", "memset", "runtime", "device_annotation", "device_step",
  "device_module", "device_async" }
local host_classes = { "cpu_op", "annotation", "python" }

local function plain(name) return (name:gsub("^<", "")) end

--- Host events of a name in a file, by start: exact matches, else names that begin with it ("nn.Module: RMSNorm" finds
--- "nn.Module: RMSNorm_0", and a name without its object address finds the name with one).
---@param file table { t = trace, index =, names = cache }
local function find_named(file, name)
  local t, rows = file.t, file.names[name]
  if rows then return rows end
  local exact = t:events{ class = host_classes, name = name, file = file.index }
  if #exact == 0 then
    local set = t:name_set(function(other) return plain(other):sub(1, #name) == name end, host_classes)
    exact = t:events{ class = host_classes, names = set, file = file.index }
  end
  local columns = stats.columns(exact:sort("ts"), { "ts", "end" })
  rows = {}
  for i = 1, #exact do rows[i] = { columns.ts[i], columns["end"][i] } end
  file.names[name] = rows
  return rows
end

--- First index of a list sorted by [1] whose start is > at.
local function after(list, at)
  local low, high = 1, #list + 1
  while low < high do
    local middle = (low + high) // 2
    if list[middle][1] > at then high = middle else low = middle + 1 end
  end
  return low
end

local function inside(list, span, out)
  for i = after(list, span[1]), #list do
    if list[i][1] >= span[2] then break end
    out[#out + 1] = list[i]
  end
end

--- Occurrences of a path in a file: array of arrays of host spans.
local function occurrences(file, path)
  if type(path) ~= "table" or #path == 0 then
    error_module.raise("format", "a target must be a list of names, got %s", tostring(path))
  end
  local current = {}
  for i, step in ipairs(path) do
    local names = type(step) == "table" and step or { step }
    if i == 1 then
      for _, name in ipairs(names) do
        for _, span in ipairs(find_named(file, name)) do current[#current + 1] = { span } end
      end
    else
      local next_level = {}
      for _, item in ipairs(current) do
        local found = {}
        for _, name in ipairs(names) do
          for _, span in ipairs(item) do inside(find_named(file, name), span, found) end
        end
        if type(step) == "table" then
          if #found > 0 then next_level[#next_level + 1] = found end
        else
          for _, span in ipairs(found) do next_level[#next_level + 1] = { span } end
        end
      end
      current = next_level
    end
    if #current == 0 then return current, type(step) == "table" and table.concat(step, "', '") or step end
  end
  return current
end

--- Launches of a file by time: { {launch ts, device start, device end} }.
local function launches(t, index)
  local rows = t:events{ class = device_classes, file = index }
  local own = stats.columns(rows, { "ts", "end" })
  local call = (rows:match(t:events{ class = "runtime", file = index }, "correlation"):columns{ "ts" })
  local list = {}
  for i = 1, #rows do
    if call[i] then list[#list + 1] = { call[i], own.ts[i], own["end"][i] } end
  end
  table.sort(list, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  return list
end

local function host_time(spans)
  local first, last = math.maxinteger, math.mininteger
  for _, span in ipairs(spans) do first, last = math.min(first, span[1]), math.max(last, span[2]) end
  return last - first
end

local function device_time(list, spans)
  local first, last
  for _, span in ipairs(spans) do
    for i = after(list, span[1]), #list do
      if list[i][1] >= span[2] then break end
      first = first and math.min(first, list[i][2]) or list[i][2]
      last = last and math.max(last, list[i][3]) or list[i][3]
    end
  end
  return first and last - first or nil
end

--- Name of the device that recorded the trace; "cpu" if its operators ran on the host; or nil. It has only letters,
--- digits and hyphens, because files are named after it.
function samples.device_name(t)
  local root = t.files[1] and t.files[1].root
  local text = root and root.deviceProperties
  local name = type(text) == "string" and text:match('"name"%s*:%s*"([^"]*)"')
  return name and (name:gsub("[^%w%-]", "")) or samples.on_host(t) and "cpu" or nil
end

--- Whether the operators of a trace ran on the host: it has no sign of a device.
function samples.on_host(t)
  local root = t.files[1] and t.files[1].root
  local listed = root and type(root.deviceProperties) == "string" and root.deviceProperties:find("{", 1, true)
  return not listed and #t:events { class = signs_of_a_device } == 0
end

local function files_of(t)
  local list = {}
  for i, file in ipairs(t.files) do list[i] = { t = t, index = file.index, names = {} } end
  return list
end

--- Durations in microseconds of every occurrence of a target, sorted.
---@return number[] durations, string? absent the name that was not found
function samples.durations(t, path, cache)
  cache = cache or {}
  if cache.on_host == nil then cache.on_host = samples.on_host(t) end
  cache.files = cache.files or files_of(t)
  local list, absent, missing = {}, nil, 0
  local tick = t.ticks_per_second // 1000000
  for _, file in ipairs(cache.files) do
    file.launches = file.launches or launches(t, file.index)
    local found, without = occurrences(file, path)
    if without then absent, missing = without, missing + 1 end
    for _, spans in ipairs(found) do
      local ticks = cache.on_host and host_time(spans) or device_time(file.launches, spans)
      if ticks then list[#list + 1] = ticks / tick end
    end
  end
  if missing < #cache.files then absent = nil end
  table.sort(list)
  if #list == 0 and not absent then absent = "device rows launched inside " .. tostring(path[#path]) end
  return list, absent
end

local function sample(list, count)
  local picked = {}
  local low = count >= 3 and 3 or 1
  for i = low, math.min(count, 7) do picked[#picked + 1] = list[i] end
  return stats.mean(picked)
end

--- Occurrences of a target by the shapes of their inputs: { { dims=, count= } }, most frequent first. Empty if the rows
--- have no "Input Dims" (the trace must be opened with that arg), or if an occurrence has several names.
function samples.shapes(t, path)
  local last = path[#path]
  if type(last) ~= "string" then return {} end
  local counts, list = {}, {}
  for _, file in ipairs(files_of(t)) do
    local rows, at = t:events{ class = host_classes, name = last, file = file.index }, {}
    local columns = stats.columns(rows, { "ts", "Input Dims" })
    for i, ts in ipairs(columns.ts) do at[ts] = columns["Input Dims"][i] end
    for _, spans in ipairs((occurrences(file, path))) do
      local dims = at[spans[1][1]]
      if dims then stats.count(counts, dims) end
    end
  end
  for dims, count in pairs(counts) do list[#list + 1] = { dims = dims, count = count } end
  table.sort(list, by("-count", "dims"))
  return list
end

--- Refuses a trace with several shapes of a target, because a row is one shape.
function samples.check_one_shape(t, config)
  for i, path in ipairs(config.targets) do
    local shapes = samples.shapes(t, path)
    if #shapes > 1 then
      local named = {}
      for k = 1, math.min(#shapes, 5) do named[k] = ("%s (%d runs)"):format(shapes[k].dims, shapes[k].count) end
      error_module.raise("format", "%s: target %d, '%s', ran with %d shapes of inputs, and a row is one shape: %s%s; "
        .. "record each shape in a trace of its own", config.kernel_name, i, path[#path], #shapes,
        table.concat(named, ", "), #shapes > 5 and ", …" or "")
    end
  end
end

--- One row of samples of an open trace, { shape…, times… }, and the number of occurrences of each target.
---@param config table { kernel_name =, columns_name = list, targets = list of paths }
---@param shape number[] values of the shape columns
function samples.row(t, config, shape)
  local lists, cache, counts, least = {}, {}, {}, math.huge
  for i, path in ipairs(config.targets) do
    local list, absent = samples.durations(t, path, cache)
    if #list == 0 then
      error_module.raise("missing", "%s: no occurrence of target %d: the trace has no '%s'",
        config.kernel_name, i, tostring(absent))
    end
    lists[i], counts[i] = list, #list
    least = math.min(least, #list)
  end
  local row = table.move(shape, 1, #shape, 1, {})
  for _, list in ipairs(lists) do row[#row + 1] = sample(list, least) end
  if #row ~= #config.columns_name then
    error_module.raise("format", "%s: %d shape values and %d targets for the %d columns %s", config.kernel_name, #shape,
      #lists, #config.columns_name, table.concat(config.columns_name, ", "))
  end
  return row, counts
end

--- The shape values at the end of a folder name (…_1_2_1024_2048), or nil.
function samples.shape_of_name(path, count)
  local leaf = path:gsub("/+$", ""):match("([^/]+)$") or ""
  local tail = leaf:gsub("%.pt%.trace%.json.*$", ""):gsub("%.json.*$", "")
  local words = {}
  for word in tail:gmatch("[^_]+") do words[#words + 1] = word end
  if #words <= count then return nil end
  local shape = {}
  for i = 1, count do
    local value = words[#words - count + i]
    if not value:match("^%d+%.?%d*$") then return nil end
    shape[i] = tonumber(value)
  end
  return shape
end

return samples
