--- What an operator is assumed to take where no profile has samples of it: a roofline over the device's rates
--- (Williams et al. 2009) and a launch. Every answer has the provenance "assumed".
local error_module = require "ett.base.error"
local cluster_module = require "ett.profile.cluster"
local devices = require "ett.profile.device"

local assumed = {}

--- Families of matrix products. All others are taken to move memory.
assumed.products = { gemm = true, bmm = true, attention = true }

-- Nothing below is measured. Products: the share of its peak rate that a product reaches, and the factor between the
-- time and the ends of its interval. Memory: of the bandwidth that residual_add was sampled to reach, gelu reaches 0.83
-- to 0.97 on the A100 and 0.66 to 0.79 on the GH200, which a spread of 0.25 covers.
local assumed_share, assumed_factor, assumed_stream_spread = 0.6, 1.6, 0.25
local assumed_launch_seconds = { product = 5e-6, memory = 3e-6 }

--- FLOP/s that an operator is assumed to reach, or nil. A plain product reaches the device's sustained rate where one
--- is measured: large sampled products reach 0.93 to 1.02 of it at the median; batched ones and attention do not.
local function flop_rate(device, family, dtype)
  if not assumed.products[family] then return device.peak_flops.fp32 or devices.peak(device, dtype) end
  local reached = family == "gemm" and (device.measured_flops and device.measured_flops[dtype]
    or device.probed and device.peak_flops[dtype])
  local peak = devices.peak(device, dtype)
  return reached or peak and peak * assumed_share
end

--- Time of one run of an operator.
---@param bandwidth number? bytes/s that a profile says streaming kernels reach; else the device's
---@return table { seconds, low_seconds, high_seconds, provenance, detail }
function assumed.operator(cluster, op, shape, dtype, pass, bandwidth)
  local device = cluster.device
  local rate = flop_rate(device, op.family, dtype)
  if not rate then
    error_module.raise("missing", "cluster %s: device %s states no peak rate for %s", cluster.name, device.name, dtype)
  end
  local moving = op.bytes(shape, dtype, pass) / (bandwidth or cluster_module.stream_bandwidth(device))
  local seconds = math.max(op.flops(shape, pass) / rate, moving)
    + assumed_launch_seconds[assumed.products[op.family] and "product" or "memory"]
  local low, high = 1 / assumed_factor, assumed_factor
  if bandwidth then low, high = 1 - assumed_stream_spread, 1 + assumed_stream_spread end
  if op.unmeasured then low, high = 0.5, 2.0 end
  return { seconds = seconds, low_seconds = seconds * low, high_seconds = seconds * high, provenance = "assumed",
    detail = bandwidth and "its bytes at the bandwidth of residual_add" or "roofline of the device's rates" }
end

return assumed
