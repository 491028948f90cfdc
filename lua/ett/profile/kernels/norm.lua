--- Times of norms in training: the bytes that their kernels read and write, divided by the rates of a device.
--
--   norm.seconds(device, "torch", "backward", { rows = 8192, width = 4096, bytes = 6 * 8192 * 4096 })
--
-- Two limits apply to a kernel: memory bandwidth and the throughput of a multiprocessor. A backward pass runs a second
-- kernel, which sums the gradients of the weights over all rows.
--   fused      rows stay in registers: each operand moves once (cuDNN; Transformer Engine is assumed to do the same)
--   te         Transformer Engine's: as fused. Heads (at most 128 columns) run its kernel for any width, which stores
--              a partial gradient of the weights per block of four rows. A second kernel sums these in four loops
--              (common/normalization/rmsnorm/rmsnorm_bwd_semi_cuda_kernel.cu, WARPS_M and WARPS_M_FINAL)
--   fused_fp32 the same after a cast of x to fp32: 12 bytes an element instead of 4; backward 16 (x and its gradient in
--              fp32, then a cast of the gradient) instead of 6
--   composite  an RMS norm of single PyTorch operators in fp32 (Transformers' LlamaRMSNorm; PyTorch's own before 2.9):
--              cast, power, mean, product, cast and product with the weight move 36 bytes an element forward, and their
--              gradients 72 backward. A layer norm is `torch`'s
--   torch      a block of 128 threads per row reads the row twice (PyTorch 2, layer_norm_kernel.cu, vectorized)
--   compiled   from a width of 1025 on, a block of many threads per row reads the row twice (Inductor)
local constants = require("ett.profile.in_step").norm
local streaming = require "ett.profile.kernels.streaming"

local norm = {}

local ceil, max, min = math.ceil, math.max, math.min

-- Rows in flight on a multiprocessor in PyTorch's kernel: 2048 threads over 128.
local held = 16

-- Columns per block of PyTorch's sum over rows; above most_rows rows it sums in two steps.
local columns, most_rows = 32, 65536

-- Time of two limits that act at once: their maximum, smoothed.
local function both(a, b, k) return (a ^ k.overlap + b ^ k.overlap) ^ (1 / k.overlap) end

-- Share of the second read of a row that misses the last-level cache. The effective cache is smaller than its size:
-- results are written through it, and each half keeps copies for its own multiprocessors.
local function reread(device, wave_bytes, k)
  return max(0.0, min(1.0, (wave_bytes / device.l2_bytes - k.reread.from) * k.reread.slope))
end

-- Seconds of the sum of weight gradients over all rows. It reads x and dy, `bytes`, once more: from the last-level
-- cache if that holds all that the first kernel moved.
local function sum_of_rows(device, kernel, k, x, bytes)
  local count, busy = device.multiprocessors, 0.0
  if kernel == "torch" then
    local blocks = x.width / columns
    if x.rows <= most_rows or blocks >= count / 2 then busy = k.sum_row * x.rows * ceil(blocks / count) end
  elseif x.width < 64 * count then -- Inductor splits the rows of narrower sums (outer reductions, num_splits)
    busy = bytes / count / k.sum_rate
  end
  return both(streaming.seconds(device, bytes, k.share[kernel], nil, x.bytes), busy, k)
end

-- Seconds of Transformer Engine's sum of the partial gradients of a head's weights.
local function sum_of_parts(count, rows, k)
  return k.head_start + k.head_step * min(ceil(rows / 4), k.head_blocks * count) / 4
end

--- Seconds of a pass.
---@param device ett.Device
---@param kernel string "fused", "te", "fused_fp32", "cudnn", "torch", "compiled" or "composite"
---@param x table { rows, width, bytes (read and written once), centred?, fresh? (the kernel before wrote the input),
---gainless? (without weights) }
---@param k table? constants, in_step.norm
function norm.seconds(device, kernel, pass, x, k)
  k = k or constants
  local backward, rows = pass == "backward", x.rows
  local operands = backward and 2 or 1
  local bytes, row = x.bytes, x.bytes / rows / (operands + 1)
  if kernel == "composite" then
    kernel = x.centred and "torch" or "fused"
    bytes = x.centred and bytes or bytes * (backward and 72 / 6 or 36 / 4)
  end
  local parts = kernel == "te" and backward and not x.gainless and x.width <= 128
  if kernel == "te" then kernel = "fused" end
  if kernel == "fused_fp32" then kernel, bytes = "fused", bytes * (backward and 16 / 6 or 12 / 4) end
  local start = k.start + (backward and k.second or 0.0)
  local share = k.share[kernel] or k.share.fused
  local rate = device.memory_bandwidth * share
  -- Memory alone for chips with a few large cores, and for devices without a count of multiprocessors.
  local count = device.multiprocessors
  if not count or count < 16 then return start + bytes / rate end
  if x.fresh and bytes == x.bytes then rate = bytes / streaming.seconds(device, bytes, share) end
  if kernel == "fused" or kernel == "cudnn" then
    local seconds = start + both(bytes / rate, k.row.fused * rows / count, k)
      + (parts and sum_of_parts(count, rows, constants) or 0.0)
    return kernel == "cudnn" and x.centred and backward and k.centred_backward * seconds or seconds
  end
  -- A multiprocessor moves the bytes of both reads and of the write. Computing mean and variance in a single read
  -- (Welford) takes longer.
  local work = (2 * operands + 1) * row / k.rate * (x.centred and not backward and k.centred or 1)
  local busy = 0.0
  if kernel == "torch" then
    bytes = bytes + operands * row * rows * reread(device, held * count * operands * row, k)
    busy = ceil(rows / (held * count)) * (k.row.torch + held * work)
  elseif x.width > 1024 then
    busy = rows / count * (k.row.compiled + work)
  end
  local seconds = start + both(bytes / rate, busy, k)
  return backward and seconds + sum_of_rows(device, kernel, k, x, operands * row * rows) or seconds
end

return norm
