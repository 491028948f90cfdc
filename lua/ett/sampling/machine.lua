--- Facts of this machine from the system: CPU, driver and clocks of NVIDIA GPUs, and the processor that a single
--- measuring thread is pinned to.
local read = require("ett.io").read
local sample = require "ett.sample"

local machine = {}

--- Model, vendor, flags (each followed by a space) and nominal clock in MHz (text; nil if unknown) of the CPU; `device`
--- is its name as the device of tables, of every back end.
function machine.processor()
  local text = read "/proc/cpuinfo" or ""
  local function first(key) return text:match("%f[^\n%z]" .. key .. "%s*: ([^\n]*)") end
  local flags, model = first "flags", first "model name" or "unknown"
  return { model = model, device = (model:gsub("[^%w%-]", ""):gsub("^$", "cpu")), flags = flags and flags .. " " or "",
    vendor = first "vendor_id" or "", mhz = first "cpu MHz" }
end

--- The version of the NVIDIA kernel driver, "580.65.06", or nil. path: another file, for specs.
function machine.gpu_driver(path)
  return (read(path or "/proc/driver/nvidia/version") or ""):match("Kernel Module[^\n]-%s(%d+%.[%d%.]+)")
end

--- Text of the driver for headers of tables: the version of the kernel driver, if there is one, and its CUDA version.
---@param cuda_version integer as the driver's API gives it: 13000 for 13.0
function machine.driver_text(cuda_version, path)
  local version = machine.gpu_driver(path)
  return ("%sCUDA %d.%d"):format(version and version .. ", " or "", cuda_version // 1000, cuda_version % 1000 // 10)
end

--- Largest clocks of a GPU for a header, by nvidia-smi.
function machine.gpu_clock_text(device)
  local pipe = io.popen(("nvidia-smi --query-gpu=clocks.max.sm,clocks.max.memory --format=csv,noheader,nounits -i %d "
    .. "2>/dev/null"):format(device))
  local text = pipe and pipe:read("a") or ""
  if pipe then pipe:close() end
  local sm, memory = text:match("(%d+),%s*(%d+)")
  return sm and ("%s MHz maximum, memory %s MHz"):format(sm, memory) or "unknown: no nvidia-smi"
end

-- Seconds over which loads are compared, the difference of equal loads, and the least clock of a fast core relative to
-- the highest.
local LOOK_SECONDS, ALIKE, LEAST_CLOCK = 0.1, 0.03, 0.9

--- Numbers of a list such as "0-2,8".
function machine.numbers(text)
  local list = {}
  for part in (text or ""):gmatch("[%d%-]+") do
    local first, last = part:match("^(%d+)%-(%d+)$")
    for n = tonumber(first or part) or 0, tonumber(last or part) or -1 do list[#list + 1] = math.tointeger(n) end
  end
  return list
end

--- Busy and total ticks of each processor from the text of /proc/stat: { [n] = { busy =, all = } }.
function machine.ticks(text)
  local ticks = {}
  for n, rest in text:gmatch("cpu(%d+) ([^\n]*)") do
    local all, idle, field = 0, 0, 0
    for word in rest:gmatch("%d+") do
      field = field + 1
      if field <= 8 then all = all + tonumber(word) end -- user time includes guests
      if field == 4 or field == 5 then idle = idle + tonumber(word) end -- waiting for input is idle
    end
    ticks[math.tointeger(tonumber(n))] = { busy = all - idle, all = all }
  end
  return ticks
end

--- The least busy of some processors, counting sibling threads: a core whose second hardware thread is busy runs at
--- about half speed, and processor 0 often serves interrupts. If clocks differ by kind of core, only fast cores are
--- considered.
---@param allowed integer[]
---@param before table of ticks()
---@param after table the ticks later
---@param siblings fun(n): integer[] processors of the same core
---@param clock fun(n): number|nil highest clock of processor n
---@param current integer kept unless another processor is clearly less busy
---@return integer
function machine.quietest(allowed, before, after, siblings, clock, current)
  local function busy(n)
    local a, b = before[n], after[n]
    return a and b and b.all > a.all and (b.busy - a.busy) / (b.all - a.all) or 0
  end
  local fastest = 0
  for _, n in ipairs(allowed) do fastest = math.max(fastest, clock(n) or 0) end
  local best, least
  for _, n in ipairs(allowed) do
    if (clock(n) or fastest) >= LEAST_CLOCK * fastest then
      local load = busy(n) + (n == 0 and ALIKE / 2 or 0) - (n == current and ALIKE or 0)
      for _, other in ipairs(siblings(n)) do
        if other ~= n then load = load + 0.5 * busy(other) end
      end
      if not least or load < least then best, least = n, load end
    end
  end
  return best or current
end

--- The processor for a measuring thread; -1 (the current one) if the system gives too few facts.
function machine.choose_processor()
  local status, before = read "/proc/self/status", read "/proc/stat"
  if not status or not before then return -1 end
  local allowed = machine.numbers(status:match("Cpus_allowed_list:%s*(%S+)"))
  if #allowed < 2 then return allowed[1] or -1 end
  local stat = read "/proc/self/stat" -- field 39 is the processor; the name before may hold spaces
  local fields = {}
  for word in (stat or ""):gsub("^.*%) ", ""):gmatch("%S+") do fields[#fields + 1] = word end
  local current = math.tointeger(tonumber(fields[37])) or allowed[1]
  sample.pause(LOOK_SECONDS)
  local core = "/sys/devices/system/cpu/cpu%d/"
  local function siblings(n) return machine.numbers(read((core .. "topology/thread_siblings_list"):format(n))) end
  local function clock(n) return tonumber((read((core .. "cpufreq/cpuinfo_max_freq"):format(n)))) end
  return machine.quietest(allowed, machine.ticks(before), machine.ticks(read "/proc/stat" or ""), siblings, clock,
    current)
end

return machine
