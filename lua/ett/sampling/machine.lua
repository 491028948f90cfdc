--- What the system says of this machine: its processor, and the driver and clocks of its NVIDIA GPUs.
local machine = {}

--- Model, vendor, flags (each followed by a blank) and nominal clock in MHz (text, nil where unknown) of the processor.
function machine.processor()
  local info, file = {}, io.open("/proc/cpuinfo", "r")
  if not file then return { model = "unknown", flags = "", vendor = "" } end
  for line in file:lines() do
    local key, value = line:match("^(.-)%s*:%s*(.*)$")
    if key == "model name" then info.model = info.model or value end
    if key == "flags" then info.flags = info.flags or value .. " " end
    if key == "vendor_id" then info.vendor = info.vendor or value end
    if key == "cpu MHz" then info.mhz = info.mhz or value end
  end
  file:close()
  return { model = info.model or "unknown", flags = info.flags or "", vendor = info.vendor or "", mhz = info.mhz }
end

--- The version of the NVIDIA kernel driver, "580.65.06", or nil. path: in specs, of another file.
function machine.gpu_driver(path)
  local file = io.open(path or "/proc/driver/nvidia/version", "r")
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text:match("Kernel Module[^\n]-%s(%d+%.[%d%.]+)")
end

--- The driver as headers of tables say it: the kernel driver's version, where there is one, and the CUDA version that
--- it serves.
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

return machine
