--- Reads the output of nccl-tests and rccl-tests: bus bandwidth of one collective by message size (bytes/s).
--
--   local run = nccl_tests.read "all_reduce.txt"
--   run.kind, run.ranks, run.hosts, run.device   --> "all_reduce", 8, 1, "NVIDIA A100-SXM4-40GB"
--   run.curve                                    --> { bytes, bytes/s, … }
--
-- The format is that of NVIDIA/nccl-tests src/util.cu (before version 2.17: src/common.cu): lines of devices, a
-- heading, one row per size. Lines of other programs, and the rank prefixes of `srun -l` and `mpirun --tag-output`, are
-- skipped.
local comm = require "ett.comm"
local error_module = require "ett.base.error"
local median = require "ett.base.median"

local nccl_tests = {}

local kinds = { all_reduce = "all_reduce", all_gather = "all_gather", reduce_scatter = "reduce_scatter",
  alltoall = "all_to_all", sendrecv = "send_recv", broadcast = "broadcast" }

--- Maximum number of points of a curve in ett.comm (ETT_COMM_MAX_POINTS).
local most_points = 64
local most_bytes = 64 << 20

local columns = { size = true, count = true, type = true, redop = true, root = true, time = true, cputime = true,
  algbw = true, busbw = true, ["#wrong"] = true, wrong = true, error = true, timestamp = true }

local function words_of(line)
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word end
  return words
end

-- Parses the heading to column positions; nil for other lines. A heading is "size count type … time algbw busbw #wrong
-- time algbw busbw #wrong".
local function heading(words)
  if words[1] ~= "size" or words[2] ~= "count" then return nil end
  local places = {}
  for i, word in ipairs(words) do
    if not columns[word] then return nil end
    places[word] = places[word] or {}
    table.insert(places[word], i)
  end
  local time = places.time or places.cputime
  if not (time and places.busbw and #time == 2 and #places.busbw == 2) then return nil end
  return { time = time, busbw = places.busbw, wrong = places["#wrong"] or places.wrong, error = places.error,
    size = 1, count = #words + (places.timestamp and 1 or 0) } -- a timestamp has two words
end

-- Seconds and wrong elements of a row, out of place (1) or in place (2); nil if not measured.
local function measured(words, head, place, label)
  local time, bus = tonumber(words[head.time[place]]), tonumber(words[head.busbw[place]])
  if not (time and bus and time >= 0 and bus >= 0) then
    error_module.raise("format", "%s: a time in microseconds and a busbw in GB/s expected, found '%s' and '%s'", label,
      words[head.time[place]], words[head.busbw[place]])
  end
  local wrong = head.wrong and tonumber(words[head.wrong[place]]) or 0
  if wrong ~= 0 then
    error_module.raise("format", "%s: %s elements are wrong; repeat the test: its times are not valid", label,
      words[head.wrong[place]])
  end
  return { time = time * 1e-6, bus = bus * 1e9, rounded = words[head.time[place]]:find("e", 1, true) ~= nil }
end

-- Parses one line into `found`.
local function read_line(found, line, number)
  local text = line:gsub("^%s*%d+:%s", ""):gsub("^%[%d+,%d+%]<%a+>:%s?", ""):gsub("\r$", "")
  local label = ("%s:%d"):format(found.path, number)
  local rank, host, device = text:match "^#%s+Rank%s+(%d+)%s.-%son%s+(%S+)%s+device%s+%d+%s+%[[^%]]*%]%s*(.-)%s*$"
  if rank then
    if found.rank[rank] then
      error_module.raise("format", "%s: rank %s appears twice: each process measured alone; build nccl-tests with "
        .. "MPI=1", label, rank)
    end
    found.rank[rank], found.host[host], found.ranks = true, true, found.ranks + 1
    found.device = found.device or device
    return
  end
  local program = not found.head and text:match "([%a_]+)_perf"
  if program and (kinds[program] or not found.program) then found.program = program end
  local failed = text:match "Out of bounds values%s*:%s*(%d+) FAILED"
  if failed then
    error_module.raise("format", "%s: %s values were out of bounds; repeat the test: its times are not valid",
      label, failed)
  end
  local words = words_of((text:gsub("^#", "")))
  local head = heading(words)
  if head then
    if found.head then
      error_module.raise("format", "%s: a second table begins here; give one file for each test", label)
    end
    found.head = head
  elseif found.head and #words == found.head.count and words[1]:match "^%d+$" and words[2]:match "^%d+$" then
    local row = { bytes = tonumber(words[1]), label = label }
    for place = 1, 2 do row[place] = measured(words, found.head, place, label) end
    found.rows[#found.rows + 1] = row
  end
end

-- The collective of the program's name without "_perf".
local function kind_of(found, asked)
  if asked then return require("ett.base.collective").kind(asked) end
  local name = found.program
  if not name then
    error_module.raise("format", "'%s': no line names the test (all_reduce_perf, …); give --kind", found.path)
  end
  return kinds[name] or error_module.raise("format", "'%s': %s_perf measures no collective known to ett; known are "
    .. "all_reduce, all_gather, reduce_scatter, alltoall, sendrecv and broadcast", found.path, name)
end

-- Bytes/s of a row, from its time, which has more digits than its busbw. Both must agree.
local function bandwidth(row, place, kind, ranks)
  local cell = row[place]
  if cell.time == 0 then return nil end
  local bus = row.bytes * comm.factor(kind, ranks) / cell.time
  -- Both are rounded: busbw to 0.01 GB/s; the time to three or more digits, or two after the point in "1.2e+06".
  local tolerance = 0.006e9 + bus * (cell.rounded and 0.06 or 0.006)
  if math.abs(bus - cell.bus) > tolerance then
    error_module.raise("format", "%s: %.0f bytes in %.6g us are %.2f GB/s of %s over %d ranks, but busbw says %.2f",
      row.label, row.bytes, cell.time * 1e6, bus / 1e9, kind, ranks, cell.bus / 1e9)
  end
  return cell.rounded and cell.bus or bus
end

-- Points of a curve by ascending size; the median if a size was measured several times.
local function curve_of(found, kind, ranks, place)
  local by_size, sizes = {}, {}
  for _, row in ipairs(found.rows) do
    local value = row.bytes > 0 and bandwidth(row, place, kind, ranks)
    if value and value > 0 then
      if not by_size[row.bytes] then by_size[row.bytes], sizes[#sizes + 1] = {}, row.bytes end
      table.insert(by_size[row.bytes], value)
    end
  end
  table.sort(sizes)
  while #sizes > most_points do -- keeps every second point, and the last
    local fewer = {}
    for i = #sizes, 1, -2 do table.insert(fewer, 1, sizes[i]) end
    sizes = fewer
  end
  local curve = {}
  for _, bytes in ipairs(sizes) do
    curve[#curve + 1] = bytes
    curve[#curve + 1] = median(by_size[bytes])
  end
  return curve
end

--- Reads one run. Raises if the file is not the output of a single test.
---@param given { kind: string?, ranks: integer?, in_place: boolean? }? overrides missing or wrong values of the file
---@return { kind: string, ranks: integer, hosts: integer?, device: string?, curve: number[], rows: integer }
function nccl_tests.read(path, given)
  given = given or {}
  local text = error_module.must(require("ett.io").read(path, most_bytes))
  local found = { path = path, rank = {}, host = {}, ranks = 0, rows = {} }
  local number = 0
  for line in text:gmatch "([^\n]*)\n?" do
    number = number + 1
    if #line <= 4096 then read_line(found, line, number) end
  end
  if not found.head then
    error_module.raise("format", "'%s': not an output of nccl-tests: it has no line 'size count type … time algbw "
      .. "busbw'", path)
  elseif #found.rows == 0 then
    error_module.raise("format", "'%s': the table of nccl-tests has no row", path)
  end
  local kind = kind_of(found, given.kind)
  local ranks = given.ranks or found.ranks
  if ranks == 0 then
    error_module.raise("format", "'%s': no line 'Rank 0 … on HOST device 0' gives the number of ranks; give --ranks",
      path)
  elseif ranks == 1 then
    error_module.raise("format", "'%s': one rank moves no data; run the test over at least two", path)
  end
  local curve = curve_of(found, kind, ranks, given.in_place and 2 or 1)
  if #curve == 0 then error_module.raise("format", "'%s': every row has a time of 0", path) end
  local hosts = 0
  for _ in pairs(found.host) do hosts = hosts + 1 end
  return { kind = kind, ranks = ranks, hosts = hosts > 0 and hosts or nil, device = found.device, curve = curve,
    rows = #found.rows, path = path }
end

return nccl_tests
