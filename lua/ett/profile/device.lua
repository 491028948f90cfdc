--- Devices: one kind of accelerator with its datasheet values, from clusters/devices/NAME/init.lua.
--
--   local device = require("ett.profile.device").get "h100_sxm"
--   device:peak "fp8_block"     -- FLOP/s of dense products
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local schema = require "ett.base.schema"

local device_module = {}

---@class ett.Device
---@field multiprocessors integer
---@field memory_bandwidth number bytes/s
---@field l2_bytes number of the last-level cache, as CUDA reports them. Datasheets and PyTorch print MiB as MB
local Device = { __name = "ett.device" }
Device.__index = Device

-- Plausible ranges: they catch values in wrong units.
local function within(least, most, unit, needed)
  return { "positive", optional = not needed, least = least, most = most, unit = unit }
end

local watts, rate = { "nonnegative", most = 1e6, unit = "watts" }, within(1e6, 1e19, "FLOP/s")
local peaks = {}
for dtype in pairs(schema.dtype_bytes) do peaks[dtype] = rate end

--- The fields of a device, in its own file or inside a cluster file. clusters/devices/README.md states their meanings.
device_module.fields = {
  name = "string", key = "string?", folder = "string?", summary = "string?", aliases = "list?", source = "string",
  peak_flops = { "table", fields = peaks }, memory_bytes = within(1e6, 1e17, "bytes", true),
  memory_bandwidth = within(1e6, 1e17, "bytes/s", true),
  multiprocessors = { "count", optional = true, most = 1 << 20 }, l2_bytes = within(1e5, 1e17, "bytes"),
  power_watts = within(5, 1e6, "watts"), power_limit_watts = within(5, 1e6, "watts"),
  product_joules = within(1e-15, 1e-6, "joules"),
  power = { "table", optional = true, fields = { idle_watts = within(1, 1e6, "watts", true), compute_watts = watts,
    memory_watts = watts, source = "string" } },
  measured_flops = { "table", optional = true, fields = peaks }, measured_source = "string?",
  measured_in_bursts = "boolean?", probed = "boolean?",
  assumed = "boolean?", generation = "string?", vendor = "string?", neighbours = "list?", tables = "string?",
  host = "string?", partitions = { "count", optional = true, most = 64 }, any_fp8_layout = "boolean?",
  exponentials = within(1, 4096), gather_share = within(1e-3, 1), scatter_share = within(1e-3, 1),
  matrix_side = { "count", optional = true, most = 4096 },
}

-- A block format runs at the rate of its plain format. Volta's only 16-bit type is fp16.
local rate_of = { fp16 = "bf16", bf16 = "fp16", fp8_block = "fp8", mxfp8 = "fp8", mxfp4 = "nvfp4", int8 = "fp8" }

--- FLOP/s of dense products of a data type; nil if the device does not support the type.
---@param dtype string
---@return number?
function Device:peak(dtype) return self.peak_flops[dtype] or self.peak_flops[rate_of[dtype]] end

device_module.peak = Device.peak

--- Cycles per second of all multiprocessors. Tensor cores do a power of two of 16-bit FLOPs in a cycle, and clocks lie
--- between 1.3 and 2.6 GHz.
function Device:cycles()
  local clock = (self:peak "bf16" or self:peak "fp8" or self:peak "nvfp4") / self.multiprocessors
  while clock >= 2.6e9 do clock = clock / 2 end
  return clock * self.multiprocessors
end

--- The size of the cache as a feature of trees. The bundled trees were fitted with a MiB taken as 1e6 bytes.
function Device:l2_feature() return self.l2_bytes / 1.048576 end

--- Exponentials per second. A GPU's multiprocessor computes 16 in a cycle unless its file states another number. Other
--- chips are assumed to compute as many for each FLOP of products as H100.
function Device:exponential_rate()
  if self.vendor and self.vendor ~= "amd" then return self:peak "bf16" / 256 end
  return (self.exponentials or 16) * self:cycles()
end

--- Data types of products that a device supports. fp8_block needs only plain fp8, because software applies its scales.
--- Hardware that scales blocks of 32 elements (mxfp8) also has 4-bit products. Tensor cores with nvfp4 also have mxfp4
--- (PTX: mma with kind::mxf4nvf4, block scales of 16 or 32 elements); AMD's have only mxfp4.
---@return string[]
function Device:dtypes()
  local rates, list = self.peak_flops, schema.keys(self.peak_flops)
  local function add(dtype, condition)
    if condition and not rates[dtype] then list[#list + 1] = dtype end
  end
  add("fp16", rates.bf16)
  add("fp8_block", rates.fp8)
  add("mxfp4", rates.nvfp4)
  add("mxfp8", rates.fp8 and (rates.nvfp4 or rates.mxfp4))
  return list
end

--- Raises an error if there is no peak, if a measured rate exceeds it, or if an idle device draws more than its limit.
--- Less than a watt is taken for kilowatts.
function device_module.check_rates(device, label)
  if not next(device.peak_flops) then error_module.raise("model", "%s: field 'peak_flops' is empty", label) end
  for _, dtype in ipairs(schema.keys(device.measured_flops or {})) do
    local peak, measured = device_module.peak(device, dtype), device.measured_flops[dtype]
    if peak and measured > 1.001 * peak then
      error_module.raise("model", "%s: measured_flops: '%s' must be at most the peak %g, got %g", label, dtype, peak,
        measured)
    end
  end
  for _, name in ipairs { "compute_watts", "memory_watts" } do
    local watt = (device.power or {})[name] or 0
    if watt > 0 and watt < 1 then
      error_module.raise("model", "%s: power: '%s' must be 0 or at least 1 W, got %g", label, name, watt)
    end
  end
  local limit, idle = device.power_limit_watts or device.power_watts, (device.power or {}).idle_watts
  if limit and idle and idle > limit then
    error_module.raise("model", "%s: power: 'idle_watts' must be at most the device's limit of %g W, got %g", label,
      limit, idle)
  end
end

--- Gives a table with checked fields the methods of a device. Raises an error if a neighbour does not exist.
function device_module.complete(clean, label)
  for _, neighbour in ipairs(clean.neighbours or {}) do
    local known = type(neighbour) == "string"
      and (find.meant("clusters/devices", neighbour) or device_module.titled(neighbour))
    if not known then
      error_module.raise("model", "%s: neighbours: unknown device %s%s", label, schema.describe(neighbour),
        error_module.suggestion(tostring(neighbour), device_module.names()))
    end
  end
  return setmetatable(clean, Device)
end

function device_module.check(given, label)
  local clean = schema.check(given, device_module.fields, label)
  device_module.check_rates(clean, label)
  return device_module.complete(clean, label)
end

--- Whether kernel tables may exist for a device: its own, in its folder, or those of its neighbours.
function device_module.has_tables(device) return (device.folder or (device.neighbours or {})[1]) ~= nil end

-- The file of the device that has this name or alias in its table ("H100-SXM-80GB", as estimates print it), or nil.
function device_module.titled(name)
  for _, key in ipairs(device_module.names()) do
    local ok, value = pcall(find.load, "clusters/devices", key) -- a faulty file of another device is not meant
    ok = ok and pcall(schema.check, value, device_module.fields)
    for _, title in ipairs(ok and { value.name, table.unpack(value.aliases or {}) } or {}) do
      if tostring(title):lower() == name:lower() then return key end
    end
  end
end

--- The device of a name. Raises an error with the nearest name if there is no such device.
---@param name string such as "h100_sxm", or the name or an alias in a device's table, such as "H100-SXM-80GB"
---@return ett.Device
function device_module.get(name)
  if not find.path("clusters/devices", name) then name = device_module.titled(name) or name end
  local value, path = find.load("clusters/devices", name)
  local device = device_module.check(value, path:match("clusters/(.*)$") or path)
  device.key, device.folder = find.name_of(path), path:match("^(.*)/init%.lua$")
  return device
end

function device_module.names() return find.names "clusters/devices" end

return device_module
