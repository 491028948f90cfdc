--- Which processor a single measuring thread is pinned to: of those that the process may use the one that is least
--- busy with other work, its sibling threads included.
--
-- A core whose other hardware thread is busy runs at about half speed, and processor 0 often serves interrupts.
-- Where clocks differ by kind of core (efficient and fast ones) only the fast ones come into question.
local sample = require "ett.sample"

local sample_processor = {}

local look_seconds, alike, least_clock = 0.1, 0.03, 0.9

--- Numbers of a list such as "0-2,8".
function sample_processor.list(text)
  local list = {}
  for part in (text or ""):gmatch("[%d%-]+") do
    local first, last = part:match("^(%d+)%-(%d+)$")
    for n = tonumber(first or part) or 0, tonumber(last or part) or -1 do list[#list + 1] = math.tointeger(n) end
  end
  return list
end

--- Busy and all ticks of each processor from the text of /proc/stat: { [n] = { busy =, all = } }.
function sample_processor.ticks(text)
  local ticks = {}
  for n, rest in text:gmatch("cpu(%d+) ([^\n]*)") do
    local all, idle, field = 0, 0, 0
    for word in rest:gmatch("%d+") do
      field = field + 1
      if field <= 8 then all = all + tonumber(word) end -- guests are in user time already
      if field == 4 or field == 5 then idle = idle + tonumber(word) end -- waiting for input is idle
    end
    ticks[math.tointeger(tonumber(n))] = { busy = all - idle, all = all }
  end
  return ticks
end

--- The least busy of some processors.
---@param allowed integer[]
---@param before table of ticks()
---@param after table the same later
---@param siblings fun(n): integer[] processors of the same core
---@param clock fun(n): number|nil its greatest clock
---@param current integer kept unless another is clearly less busy
---@return integer
function sample_processor.quietest(allowed, before, after, siblings, clock, current)
  local function busy(n)
    local a, b = before[n], after[n]
    return a and b and b.all > a.all and (b.busy - a.busy) / (b.all - a.all) or 0
  end
  local fastest = 0
  for _, n in ipairs(allowed) do fastest = math.max(fastest, clock(n) or 0) end
  local best, least
  for _, n in ipairs(allowed) do
    if (clock(n) or fastest) >= least_clock * fastest then
      local load = busy(n) + (n == 0 and alike / 2 or 0) - (n == current and alike or 0)
      for _, other in ipairs(siblings(n)) do
        if other ~= n then load = load + 0.5 * busy(other) end
      end
      if not least or load < least then best, least = n, load end
    end
  end
  return best or current
end

local function read(path)
  local file = io.open(path, "r")
  local text = file and file:read("a")
  if file then file:close() end
  return text
end

--- The processor to pin to, or -1 (the one the thread runs on) where the system says too little.
function sample_processor.choose()
  local status, before = read "/proc/self/status", read "/proc/stat"
  if not status or not before then return -1 end
  local allowed = sample_processor.list(status:match("Cpus_allowed_list:%s*(%S+)"))
  if #allowed < 2 then return allowed[1] or -1 end
  local stat = read "/proc/self/stat" -- field 39 is the processor; the name before may hold spaces
  local fields = {}
  for word in (stat or ""):gsub("^.*%) ", ""):gmatch("%S+") do fields[#fields + 1] = word end
  local current = math.tointeger(tonumber(fields[37])) or allowed[1]
  sample.pause(look_seconds)
  local core = "/sys/devices/system/cpu/cpu%d/"
  local function siblings(n) return sample_processor.list(read((core .. "topology/thread_siblings_list"):format(n))) end
  local function clock(n) return tonumber(read((core .. "cpufreq/cpuinfo_max_freq"):format(n))) end
  return sample_processor.quietest(allowed, sample_processor.ticks(before),
    sample_processor.ticks(read "/proc/stat" or ""), siblings, clock, current)
end

return sample_processor
