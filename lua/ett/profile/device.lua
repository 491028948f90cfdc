--- Devices: one kind of accelerator with its datasheet facts, from clusters/devices/NAME/init.lua.
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
---@field l2_bytes number
local Device = { __name = "ett.device" }
Device.__index = Device

-- Limits that no machine comes near: they catch wrong units.
local function within(least, most, needed) return { "positive", optional = not needed, least = least, most = most } end

local peaks = { nvfp4 = within(1e6, 1e19), mxfp4 = within(1e6, 1e19) }
for dtype in pairs(schema.dtype_bytes) do peaks[dtype] = within(1e6, 1e19) end

--- The fields of a device, in its own file or inside a cluster's. `neighbours` answer for it what it has no table of;
--- `tables` is its folder among measured tables, where that is not its own name. `partitions`: software sees that many
--- devices, each with its share of the batch.
device_module.fields = {
  name = "string", key = "string?", folder = "string?", summary = "string?", aliases = "list?", source = "string",
  peak_flops = { "table", fields = peaks }, memory_bytes = within(1e6, 1e17, true),
  memory_bandwidth = within(1e6, 1e17, true),
  multiprocessors = { "count", optional = true, most = 1 << 20 }, l2_bytes = within(1, 1e17),
  power_watts = within(1e-3, 1e6), power_limit_watts = "positive?", product_joules = within(1e-15, 1e-6),
  power = { "table", optional = true, fields = { idle_watts = "nonnegative", compute_watts = "nonnegative",
    memory_watts = "nonnegative", source = "string" } },
  measured_flops = { "table", optional = true, fields = peaks }, measured_source = "string?", probed = "boolean?",
  assumed = "boolean?", generation = "string?", neighbours = "list?", tables = "string?",
  partitions = { "count", optional = true, most = 64 },
}

-- A block format runs at the rate of its plain format; Volta has 16 bits in fp16 alone.
local rate_of = { fp16 = "bf16", bf16 = "fp16", fp8_block = "fp8", mxfp8 = "fp8", mxfp4 = "nvfp4", int8 = "fp8" }

--- FLOP/s of dense products of a data type; nil where the device does not have it.
---@param dtype string
---@return number?
function Device:peak(dtype)
  return self.peak_flops[dtype] or self.peak_flops[rate_of[dtype]]
end

device_module.peak = Device.peak

--- Data types of products that a device has. Software makes blocks of fp8 from plain fp8. The hardware that scales
--- blocks of 32 elements (mxfp8) has 4-bit products, too.
---@return string[]
function Device:dtypes()
  local rates, list = self.peak_flops, schema.keys(self.peak_flops)
  local function add(dtype, condition)
    if condition and not rates[dtype] then list[#list + 1] = dtype end
  end
  add("fp16", rates.bf16)
  add("fp8_block", rates.fp8)
  add("mxfp8", rates.fp8 and (rates.nvfp4 or rates.mxfp4))
  return list
end

--- Refuses a device that was measured above its peak.
function device_module.check_rates(device, label)
  for _, dtype in ipairs(schema.keys(device.measured_flops or {})) do
    local peak, measured = device_module.peak(device, dtype), device.measured_flops[dtype]
    if peak and measured > 1.001 * peak then
      error_module.raise("model", "%s: measured_flops: '%s' must be at most the peak %g, got %g", label, dtype, peak,
        measured)
    end
  end
end

--- Checks what a device file returned.
function device_module.check(given, label)
  local clean = schema.check(given, device_module.fields, label)
  device_module.check_rates(clean, label)
  return setmetatable(clean, Device)
end

--- The device of a name; raises with the nearest name.
---@param name string such as "h100_sxm"
---@return ett.Device
function device_module.get(name)
  local value, path = find.load("clusters/devices", name)
  local device = device_module.check(value, path:match("clusters/(.*)$") or path)
  device.key, device.folder = name, path:match("^(.*)/init%.lua$")
  return device
end

--- Names of every device found.
function device_module.names() return find.names "clusters/devices" end

return device_module
