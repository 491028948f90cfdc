--- Times of norms in training: what their kernels read and write, over the rates of a device.
--
--   norm.seconds(device, "torch", "backward", { rows = 8192, width = 4096, bytes = 6 * 8192 * 4096 })
--
-- Two limits act on a kernel: the memory, and what a multiprocessor gets through. A backward pass has a second kernel,
-- which sums the gradients of the weights over all rows.
--   fused      rows stay in registers: each operand moves once (cuDNN; Transformer Engine's are taken to be alike)
--   torch      a block of 128 threads a row reads it twice (PyTorch 2, layer_norm_kernel.cu, vectorized)
--   compiled   a block of many threads a row reads it twice, from a width of 1025 on (Inductor)
local constants = require("ett.profile.in_step").norm

local norm = {}

local ceil, max, min = math.ceil, math.max, math.min

-- Rows that blocks of PyTorch hold on a multiprocessor: 2048 threads by 128.
local held = 16

-- Columns of a block of PyTorch's sum over rows, and rows above which it sums in two steps.
local columns, most_rows = 32, 65536

-- Both limits as one: the longer time, a little more where they are alike.
local function both(a, b) return (a ^ 4 + b ^ 4) ^ 0.25 end

-- Share of the second reading of a row that the last-level cache no longer holds. It serves less than its size: results
-- are written through it, and each half of it keeps copies for its own multiprocessors.
local function reread(device, wave_bytes, k)
  return max(0.0, min(1.0, (wave_bytes / device.l2_bytes - k.reread.from) * k.reread.slope))
end

-- Sum over all rows of the gradients of weights; x and dy, `bytes`, are read once more.
local function sum_of_rows(device, kernel, k, x, bytes)
  local count, busy = device.multiprocessors, 0.0
  if kernel == "torch" then
    local blocks = x.width / columns
    if x.rows <= most_rows or blocks >= count / 2 then busy = k.sum_row * x.rows * ceil(blocks / count) end
  elseif x.width < 64 * count then -- Inductor splits the rows of narrower sums (outer reductions, num_splits)
    busy = bytes / count / k.sum_rate
  end
  return both(bytes / (device.memory_bandwidth * k.share[kernel]), busy)
end

--- Seconds of a pass.
---@param device ett.Device
---@param kernel string "fused", "cudnn", "torch" or "compiled"
---@param x table { rows, width, bytes (read and written once), centred? }
---@param k table? constants, in_step.norm
function norm.seconds(device, kernel, pass, x, k)
  k = k or constants
  local backward, rows = pass == "backward", x.rows
  local operands = backward and 2 or 1
  local bytes, row = x.bytes, x.bytes / rows / (operands + 1)
  local start = k.start + (backward and k.second or 0.0)
  local rate = device.memory_bandwidth * (k.share[kernel] or k.share.fused)
  -- Chips of a few large cores and devices without a count: the memory alone.
  local count = device.multiprocessors
  if not count or count < 16 then return start + bytes / rate end
  if kernel == "fused" or kernel == "cudnn" then
    local seconds = start + both(bytes / rate, k.row.fused * rows / count)
    return kernel == "cudnn" and x.centred and backward and k.centred_backward * seconds or seconds
  end
  -- A multiprocessor moves both readings and the writing. Mean and variance in one reading (Welford) cost more.
  local work = (2 * operands + 1) * row / k.rate * (x.centred and not backward and k.centred or 1)
  local busy = 0.0
  if kernel == "torch" then
    bytes = bytes + operands * row * rows * reread(device, held * count * operands * row, k)
    busy = ceil(rows / (held * count)) * (k.row.torch + held * work)
  elseif x.width > 1024 then
    busy = rows / count * (k.row.compiled + work)
  end
  local seconds = start + both(bytes / rate, busy)
  return backward and seconds + sum_of_rows(device, kernel, k, x, operands * row * rows) or seconds
end

return norm
