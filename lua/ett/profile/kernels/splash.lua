--- Attention on TPUs whose matrix units have 256 x 256 elements (v6e, v7x): JAX's Pallas kernels, splash and flash, and
--- tokamax's splash.
--
-- The kernels compute whole blocks of queries and keys, also where the mask hides a part of a block. They fill heads of
-- fewer values than a vector has lanes with zeros (JAX, splash_attention_kernel.py, NUM_LANES).
local pairs_of = require("ett.profile.kernels.attention_training").pairs
local max, min, ceil = math.max, math.min, math.ceil

local splash = {}

-- Queries and keys of a block: sa_block_q and sa_block_kv of most recipes of tpu-recipes.
local block, lanes = 2048, 128

-- FLOPs of the computed pairs over seconds, as a share of the device's bf16 peak, forward and backward; five products
-- count backward.
-- splash: v6e reaches 0.238 and 0.405 in a step of Qwen3-8B of 3,612 ms, with three sequences of 8192 tokens. Its 72
-- forward passes take 18.8 %, its 36 backward passes 13.9 % (MaxText; vlasenkoalexey/tpu_performance_autoresearch_wiki,
-- "Qwen3 MaxText rerun and MFU normalization"). v7x reaches 0.252 and 0.411: 58 layers of DeepSeek-V3 take 1,644 and
-- 2,619 ms, with 8 sequences of 4096 tokens on a device (ultrons/jax-gpt).
-- tokamax: v6e, in a step of Qwen3-8B of 3,853 ms in JAX, with three sequences of 8192 tokens. Each of its two forward
-- passes of 36 layers takes 5.6 %, the backward pass 12.6 % (the same wiki).
-- pallas_flash: JAX's flash_attention, which PyTorch/XLA calls. A step of Llama 3.1 8B on v6e, with four sequences of
-- 8192 tokens on a device, takes 5.87 s with it in torchprime, and 4.694 s with splash. In MaxText it takes 5.95 and
-- 4.45 s (AI-Hypercomputer/torchprime#145). The mean difference is 10.5 ms a layer and sequence. Splash's two forward
-- passes and its backward pass take 10.7 ms. Full recomputation and the same factor for both passes are assumed.
local shares = { splash = { forward = 0.245, backward = 0.408 }, tokamax = { forward = 0.372, backward = 0.417 },
  pallas_flash = { forward = 0.124, backward = 0.2065 } }

--- Half-width of the interval; assumed, as for a neighbour's laws.
splash.spread = 0.2

-- Query-key pairs of one head and sequence in the blocks that a kernel computes.
local function computed(x)
  local side = min(block, x.seq_k)
  if x.causal == 0 then return x.seq_q * (x.seq_k + 0.0) end
  local earlier = x.window > 0 and ceil(x.window / side) * side
  if earlier and earlier + side < x.seq_k then
    return x.seq_q * (earlier + side - earlier * (earlier + side) / (2.0 * x.seq_k))
  end
  return min(pairs_of { seq_q = x.seq_q, seq_k = x.seq_k, causal = 1, window = 0, shards = x.shards }
    + x.seq_q * side / 2, x.seq_q * (x.seq_k + 0.0))
end

--- Seconds of a pass, or nil if the device is another.
---@param device ett.Device
---@param kernel string the stack's attention; kernels without shares count as splash, since TPUs lack them
---@param x table of ett.profile.kernels.attention_training
function splash.seconds(device, kernel, pass, x)
  if device.matrix_side ~= 256 then return nil end
  local share = shares[kernel] or shares.splash
  local head, value = max(lanes, x.head_dim), max(lanes, x.value_dim)
  local dims = pass == "backward" and 3 * head + 2 * value or head + value
  return 2.0 * x.batch * x.heads * dims * computed(x) / (device:peak "bf16" * share[pass])
end

return splash
