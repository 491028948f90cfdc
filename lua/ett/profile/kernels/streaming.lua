--- Time of a streaming kernel from the bytes that it reads and writes: from memory, or from the last-level cache.
--
--   streaming.seconds(device, 48e6, 0.8)     -- without the start of the kernel
--
-- If the reads and writes of a kernel fit in the cache, it reads the output of the kernel before it from the cache. In
-- a step this is true for the forward pass: each operator reads the output of the operator before it, and the residual
-- stream. Backward passes also read activations saved long before, and updates read states of the last step; both come
-- from memory. The operands of kernels measured alone also come from memory, because ett's sampler and the sampler of
-- cudnn-frontend's tables overwrite the cache before each run.
--
-- Evidence from steps: updates of small weights read a buffer that the kernel before them wrote. They move 1.05 to 1.26
-- TB/s up to 7 MB and 0.76 to 0.82 TB/s above, on a V100 with 6 MB of cache and 0.9 TB/s of memory (pytorch/kineto's
-- sample trace of ResNet-50). Additions after a product move 2.7 to 3.1 TB/s below 60 % of an A100's cache and 1.8
-- above twice its size (microsoft/vidur).
--
-- The law holds for NVIDIA. Steps of MI300X (AMD-AGI/TraceLens) show no faster kernels below the 256 MB of its
-- memory-side cache.
local streaming = {}

local max, min = math.max, math.min

--- Constants: the bytes that a multiprocessor moves to and from the cache in a cycle, and two shares of the cache. If a
--- kernel moves more bytes than the first share, some of them come from memory; above the second share, all of them.
--- Fitted to static quantisation on seven devices; the benchmark repeats it on one tensor
--- (spec/bench/support/fit_streaming.lua).
streaming.constants = { bytes_per_cycle = 20, from = 0.95, to = 1.1 }

--- Seconds to move bytes that were just written, without the start of the kernel.
---@param device ett.Device
---@param bytes number read and written
---@param share number share of the memory bandwidth that such a kernel reaches
---@param k table? constants
---@param held number? bytes that the cache must hold for this, default `bytes`
function streaming.seconds(device, bytes, share, k, held)
  local memory = device.memory_bandwidth * share
  if device.vendor then return bytes / memory end
  k = k or streaming.constants
  local filled = (held or bytes) / device.l2_bytes
  local missed = max(0.0, min(1.0, (filled - k.from) / (k.to - k.from)))
  local cached = max(memory, k.bytes_per_cycle * device:cycles())
  return bytes * (missed / memory + (1 - missed) / cached)
end

return streaming
