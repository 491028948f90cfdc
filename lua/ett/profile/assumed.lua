--- Assumed time of an operator without samples: a roofline over the device's rates (Williams et al. 2009) plus a kernel
--- launch. Every answer has the provenance "assumed".
local error_module = require "ett.base.error"
local cluster_module = require "ett.profile.cluster"
local devices = require "ett.profile.device"
local in_step = require "ett.profile.in_step"
local operator = require "ett.operator"
local schema = require "ett.base.schema"

local assumed = {}

-- These values are assumed. Of products: the share of the peak rate that they reach, and the factor from the time to
-- each end of its interval. Of memory-bound operators: the relative half-width. gelu reaches 0.83 to 0.97 of the
-- bandwidth sampled for residual_add on the A100, and 0.66 to 0.79 on the GH200. A half-width of 0.25 covers both.
local assumed_share, assumed_factor, assumed_stream_spread = 0.6, 1.6, 0.25
local assumed_launch_seconds = { product = 5e-6, memory = 3e-6 }

--- The share of `measured_flops` that products reach, if that rate is the highest of short runs over many shapes
--- (`measured_in_bursts` of the device). In runs of 0.3 to 1 s, products of 2048 x 2048 x 2048 and larger have a median
--- of 0.86 of it on the H200 and 0.78 on the B200 (ai-dynamo/aiconfigurator@095f58a, bf16). The same is assumed
--- for other data types.
local sustained_share = 0.82

--- Assumed FLOP/s of an operator, or nil. Batched GEMMs and attention do not reach the measured rate.
local function flop_rate(device, family, dtype)
  if not operator.products[family] then return device.peak_flops.fp32 or devices.peak(device, dtype) end
  local measured = device.measured_flops and device.measured_flops[dtype]
  local reached = family == "gemm" and (measured and measured * (device.measured_in_bursts and sustained_share or 1)
    or device.probed and device.peak_flops[dtype])
  local peak = devices.peak(device, dtype)
  return reached or peak and peak * assumed_share
end

-- Seconds to quantise the operands of a product below 16 bits. The forward pass quantises the input. The backward pass
-- quantises the gradient of the output, also transposed, and transposes the quantised input. Weights are quantised once
-- for all micro-batches.
local function quantising(device, op, shape, dtype, pass)
  local size = schema.dtype_bytes[dtype]
  local s = op.family == "gemm" and size < 2 and op.kernel_shape and op.kernel_shape(shape)
  if not (s and s.m and s.n and s.k) then return 0.0 end
  local rows = (s.batch or 1.0) * s.m
  local bytes = pass == "backward" and (2 + 2 * size) * rows * s.n + 2 * size * rows * s.k or (2 + size) * rows * s.k
  return assumed_launch_seconds.memory + bytes / cluster_module.stream_bandwidth(device)
end

--- Time of one run of an operator. Raises if the device states no peak rate for the dtype.
---@param bandwidth number? bytes/s of streaming kernels by the profile; default: the bandwidth of the device
---@param foreach boolean? whether PyTorch's foreach runs updates
---@return table { seconds, low_seconds, high_seconds, provenance, by_rates = true, detail }
function assumed.operator(cluster, op, shape, dtype, pass, bandwidth, foreach)
  local device = cluster.device
  local rate = flop_rate(device, op.family, dtype)
  if not rate then
    error_module.raise("missing", "cluster %s: device %s states no peak rate for %s", cluster.name, device.name, dtype)
  end
  local more = foreach and op.family == "optimizer" and in_step.foreach_bytes * shape.params or 0.0
  local moving = (op.bytes(shape, dtype, pass) + more) / (bandwidth or cluster_module.stream_bandwidth(device))
  local computing = operator.arithmetic(op, shape, pass) / rate
  if computing > moving then bandwidth = nil end -- its interval does not apply then
  local seconds = math.max(computing, moving)
    + assumed_launch_seconds[operator.products[op.family] and "product" or "memory"]
    + quantising(device, op, shape, dtype, pass)
  local low, high = 1 / assumed_factor, assumed_factor
  if bandwidth then low, high = 1 - assumed_stream_spread, 1 + assumed_stream_spread end
  if op.unmeasured then low, high = 0.5, 2.0 end
  return { seconds = seconds, low_seconds = seconds * low, high_seconds = seconds * high, provenance = "assumed",
    by_rates = true,
    detail = bandwidth and "bytes moved at the bandwidth of residual_add" or "roofline of the device's rates" }
end

return assumed
