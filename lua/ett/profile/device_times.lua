--- Operator times of a device from its kernel models in clusters/devices/NAME.
--
-- A linear layer consists of its products: forward (m, n, k); backward dA (m, k, n) and dW (n, k, m). Attention uses
-- ett.profile.kernels.attention_training; products of experts use ett.profile.kernels.experts. A memory-bound operator
-- takes its bytes divided by the device's streaming bandwidth. Products and attention without the dimensions of their
-- kernels get no time from this module.
local collectives = require "ett.profile.kernels.collectives"
local devices = require "ett.profile.device"
local error_module = require "ett.base.error"
local experts = require "ett.profile.kernels.experts"
local gemm = require "ett.profile.kernels.gemm"
local in_step = require "ett.profile.in_step"
local kernels = require "ett.profile.kernels"
local merged = require "ett.base.merged"
local norm = require "ett.profile.kernels.norm"
local operator = require "ett.operator"
local schema = require "ett.base.schema"
local splash = require "ett.profile.kernels.splash"
local stacks = require "ett.operator.stack"
local streaming = require "ett.profile.kernels.streaming"
local training = require "ett.profile.kernels.attention_training"
local transfer = require "ett.profile.kernels.transfer"

local device_times = {}
local DeviceTimes = {}
DeviceTimes.__index = DeviceTimes

-- Assumed fixed time of a streaming kernel, seconds.
local stream_start = 2e-6

-- Assumed 90 % intervals of streaming kernels and of collectives timed by a curve, relative to the time.
local stream_low, stream_high, curve_low, curve_high = 0.85, 1.25, 0.85, 1.15

-- Assumed 90 % interval of collectives at the rate of links (as in ett.profile.cluster), or of more GPUs than any curve
-- has.
local links_low, links_high = 0.7, 1.3

-- Assumed, as in ett.profile.assumed: the factor from the time of arithmetic to each end of its interval.
local computing_spread = 1.6

local table_dtype = { fp16 = "bf16", mxfp8 = "fp8_block" }

-- The data type whose table a type takes on devices without a table of its own: only AMD has tables of mxfp4.
local nearest_dtype = { mxfp4 = "nvfp4" }

-- The time in a step at the device's power limit, divided by the time at the reference power of its generation.
-- `known`: watts that the kernel's time already respects, in place of the reference power.
local function power_factor(device, known)
  local watts = device.power_limit_watts or device.power_watts
  local reference = known or in_step.reference_watts[device.generation]
  local crowded = watts and device:peak "bf16" and device:peak "bf16" > 0.5e12 * watts -- false for H20
  return crowded and reference and (reference / watts) ^ in_step.power_exponent or 1.0
end

-- The time of a product in a training step, divided by its time in a table measured in short bursts. This factor grows
-- from 1 at 1 GFLOP to its full value at 10 GFLOP. Blackwell runs fp8_block as mxfp8 (Transformer Engine's
-- documentation, FP8 Blockwise Scaling).
local function in_step_factor(device, kernel, dtype, flops)
  local generation = (device.generation ~= "tpu" or device.matrix_side) and device.generation
  local most = in_step.products[generation] or in_step.products.other
  if dtype == "fp8_block" and most.mxfp8 then dtype = "mxfp8" end
  local share = math.max(0.0, math.min(1.0, math.log(flops / 1e9, 10)))
  local known = transfer.allowed(device, dtype) or kernel.sustained
  local power = power_factor(device, known and device.power_watts)
  return 1 + ((most[dtype] or most[table_dtype[dtype] or nearest_dtype[dtype]] or most.other) * power - 1) * share
end

--- The kernel model of this device, else of the nearest neighbour that has one; nil if none has.
function DeviceTimes:kernel(name, dtype)
  local id = name .. " " .. dtype
  local known = self.kernels[id]
  if known == nil then
    known = kernels.of(self.device, name, dtype) or false
    self.kernels[id] = known
  end
  return known or nil
end

-- Time of the products of experts. A stack runs them on a few CUDA streams (Transformer Engine,
-- nvte_multi_stream_cublas_gemm), in one grouped kernel, or one after the other. The time on streams is between the
-- time of one grouped kernel and the sum of separate products, and a fixed time comes on top. The product of one local
-- expert shares the device with no other stream, so it has no factor of streams. The in-step factor of large products
-- applies to the part that grows with the tokens.
local function expert_product(self, kernel, dtype, x)
  if self.burst then return experts.seconds(kernel, x, { ways = "grouped", cached = true, slower = 1, tile = 0 }) end
  local how = { ways = "grouped", slower = in_step_factor(self.device, kernel, dtype, math.huge),
    tile = self.stack.grouped_tile * (self.device.partitions or 1) }
  local streams, loop = self.stack.grouped == "streams", self.stack.grouped == "loop"
  if loop then how.ways, how.tile = "apart", 0 end
  local found = table.pack(experts.seconds(kernel, x, how))
  local tpu = self.device.generation == "tpu"
  local kind = (streams or loop) and self.stack.grouped or tpu and (x.sums and "tpu_sums" or "tpu") or "kernel"
  how.ways, how.tile = "apart", 0
  local apart = streams and table.pack(experts.seconds(kernel, x, how))
  local factor = streams and x.batch == 1 and 1.0 or in_step.grouped[kind]
  for i, together in ipairs(found) do
    if streams then together = together + in_step.apart * math.max(0.0, apart[i] - together) end
    found[i] = together * factor + (streams and in_step.streams_start or 0.0)
  end
  return table.unpack(found)
end

-- Time of equal products: { seconds, low, high, kernel }. x: { batch, m, n, k }, their number and sizes; `experts`:
-- "rows" if m counts the tokens of one expert, "sums" if k does; `misaligned`: the time that misaligned rows add, over
-- the time of the FLOPs at the peak rate.
-- Products of attention heads run in one batched kernel. 4,860 samples of A100 are 0.9 to 1.1 times its analytic time,
-- depending on the head dimension. The in-step factor applies only to the arithmetic share of their time.
local function product(self, dtype, x)
  local kernel = self:kernel("gemm", table_dtype[dtype] or dtype)
    or nearest_dtype[dtype] and self:kernel("gemm", nearest_dtype[dtype])
  if not kernel then return nil end
  local batch, m, n, k = x.batch, x.m, x.n, x.k
  local seconds, low, high, factor
  if x.experts then
    seconds, low, high = expert_product(self, kernel, dtype,
      { batch = batch, m = m, n = n, k = k, sums = x.experts == "sums" })
    factor = 1
  else
    local one = { m = batch * m, n = n, k = k }
    seconds, low, high = kernel:predict(one)
    factor = self.burst and 1 or in_step_factor(self.device, kernel, dtype, 2.0 * batch * m * n * k)
    if batch > 1 then
      local grouped, arithmetic = kernel.model.grouped(self.device, kernel.dtype, batch, m, n, k)
      factor = (1 + (factor - 1) * arithmetic) * grouped / kernel.model.analyse(self.device, kernel.dtype, one)
    end
  end
  local added = x.misaligned > 0 and x.misaligned * 2.0 * batch * m * n * k / self.device:peak(dtype) or 0.0
  return { seconds = seconds * factor + added, low = low * factor + added, high = high * factor + added,
    kernel = kernel }
end

local function answer(parts, detail)
  local seconds, low, high = 0.0, 0.0, 0.0
  for _, part in ipairs(parts) do
    if not part then return nil end
    seconds, low, high = seconds + part.seconds, low + part.low, high + part.high
  end
  return { seconds = seconds, low_seconds = low, high_seconds = high, provenance = "calibrated", detail = detail }
end

-- Seconds to move bytes. fresh: how many of these bytes the kernel before wrote, or this kernel writes.
local function moving(self, bytes, fresh)
  local memory = bytes / (self.device.memory_bandwidth * in_step.stream_share)
  if fresh <= 0 or self.burst then return memory end
  local share = fresh / bytes
  return share * streaming.seconds(self.device, bytes, in_step.stream_share) + (1 - share) * memory
end

-- Seconds of small streaming kernels that move bytes which were just written.
local function moving_fresh(self, bytes) return moving(self, bytes, bytes) end

-- Time of small kernels beside a product: { seconds, low, high }.
local function spread_out(seconds) return { seconds = seconds, low = seconds * 0.5, high = seconds * 1.5 } end

-- Quantisation of the operands of a pass: seconds that the kernel tables contain, and the time of a part that they lack
-- or nil. In NVIDIA's tables each product reads its activation in 16 bits and writes it in dtype: the input in the
-- forward pass, the output's gradient for both products of the backward pass. Training also writes a transposed copy of
-- the input for the weight gradient. nvfp4 reads the input and the output's gradient two more times: for their maximum,
-- and for the maximum of their Hadamard transform (NVIDIA 2025, arXiv 2509.25149). mxfp4 has no maximum of a tensor:
-- one kernel transforms and quantises its blocks (ROCm/TransformerEngine pull request 537). AMD's tables have none of
-- this: one kernel reads the operand and writes both copies. Quantised weights serve all micro-batches.
local function quantisation(self, dtype, pass, input, gradient)
  local size, backward = schema.dtype_bytes[dtype], pass == "backward"
  if not gemm.quantises(self.device) then
    local share = in_step.cast_share[self.device.generation] or in_step.stream_share
    return 0.0, spread_out((2 + 2 * size) * (backward and gradient or input) / (self.device.memory_bandwidth * share))
  end
  local inside = moving_fresh(self, (2 + size) * (backward and 2 * gradient or input))
  if not backward then return inside, nil end
  local bytes = 2 * size * input + (dtype == "nvfp4" and 2 * 2 * (input + gradient) or 0.0)
  return inside, spread_out(moving_fresh(self, bytes))
end

-- Time that misaligned rows add to a product on GPUs, over the time of its FLOPs at the peak rate:
--   inputs   rows of both inputs (the sum runs over their columns) are not a multiple of 16 bytes
--   output   rows of the output are not a multiple of 16 bytes
--   odd      rows are not a multiple of 4 bytes
--   sectors  rows of inputs do not begin at the memory's sectors of 32 bytes
-- Source: fp16 on A100, EleutherAI/cookbook, sizing/results (Anthony et al. 2024, arXiv 2401.14489). A product of 8192
-- x 51200 x 14336 reaches 256 TFLOP/s. It reaches 140 with 51202 inputs, 173 with 14338 outputs, 71 to 76 with odd
-- numbers, and 226 with 51208 inputs. `odd` is the geometric mean of three values: 3.0 from this source; 1.8 from
-- nanoGPT's author (steps are 25 % faster with 50,304 tokens than with 50,257, if the head takes a fifth of a step);
-- and 1.25 from vTrain's steps inside a node (50,257 tokens).
local lost = { inputs = 1.0, output = 0.65, odd = 1.9, sectors = 0.13 }

local function misaligned(self, dtype, inputs, output)
  if self.device.generation == "tpu" then return 0.0 end
  local size = math.floor(math.max(1, schema.dtype_bytes[dtype])) -- without the scales of block formats
  if inputs * size % 4 ~= 0 or output * size % 4 ~= 0 then return lost.odd end
  return inputs * size % 16 ~= 0 and lost.inputs or output * size % 16 ~= 0 and lost.output
    or inputs * size % 32 ~= 0 and lost.sectors or 0.0
end

-- Products of heads without tensor cores, in the software of 2022: the dimension is no multiple of 8. Their rate is
-- given as a share of the fp32 peak. It was chosen on 15 steps of BLOOM's candidates with heads of 150. With it their
-- mean error is that of the aligned candidates. Heads of 108 test it: estimated are 1.28 to 1.32 times the step with
-- heads of 144, measured 1.30 to 1.40 (bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles-prequel.md,
-- "NHEADs").
local scalar_share, scalar_spread = 0.65, 1.3

-- Time of one pass of an attention product whose heads cannot use tensor cores; nil for all other products.
local function scalar_product(self, op, s, pass)
  if op.family ~= "bmm" or self.stack.tensor_core_heads == "all" or s.n % 8 == 0 and s.k % 8 == 0 then return nil end
  local rate = self.device.peak_flops.fp32
  if not rate then return nil end
  local seconds = (pass == "backward" and 4.0 or 2.0) * s.batch * s.m * s.n * s.k / (scalar_share * rate)
  return { seconds = seconds, low_seconds = seconds / scalar_spread, high_seconds = seconds * scalar_spread,
    provenance = "calibrated", detail = "product without tensor cores" }
end

local product_detail = { forward = "product of its kernel table", backward = "products of its kernel table" }

local function products(self, op, shape, dtype, pass)
  local s = op.kernel_shape(shape)
  if not (s.m and s.n and s.k) then return nil end
  local scalar = scalar_product(self, op, s, pass)
  if scalar then return scalar end
  local batch, parts = s.batch or 1, {}
  local grouped = op.experts and shape.padded ~= 1
  if pass == "backward" then
    parts = {
      product(self, dtype, { batch = batch, m = s.m, n = s.k, k = s.n, experts = grouped and "rows",
        misaligned = misaligned(self, dtype, s.n, s.k) }) or false,
      product(self, dtype, { batch = batch, m = s.n, n = s.k, k = s.m, experts = grouped and "sums",
        misaligned = math.max(misaligned(self, dtype, 0, s.n), misaligned(self, dtype, 0, s.k)) }) or false,
    }
    -- The gradient of a bias is a sum over all rows; expert_bias adds that of gathered biases.
    local beside = self.stack.fused_bias_gradients or grouped and self.stack.gathers_biases
    if (shape.bias or 0) > 0 and not (self.burst or beside) then
      parts[3] = spread_out(moving_fresh(self, 2.0 * batch * s.m * s.n))
    end
  else
    parts[1] = product(self, dtype, { batch = batch, m = s.m, n = s.n, k = s.k, experts = grouped and "rows",
      misaligned = misaligned(self, dtype, s.k, s.n) }) or false
  end
  -- The sums of the input gradients of several products.
  local sums = pass == "backward" and shape.separate or shape.summed or 0
  if sums > 0 and not self.burst then
    local elements = (batch + 0.0) * s.m * (pass == "backward" and s.k or s.n)
    parts[#parts + 1] = spread_out(sums * moving_fresh(self, 3 * 2.0 * elements))
  end
  if schema.dtype_bytes[dtype] >= 2 then return answer(parts, product_detail[pass]) end
  local rows = (batch + 0.0) * s.m
  local inside, beside = quantisation(self, dtype, pass, rows * s.k, rows * s.n)
  parts[#parts + 1] = beside
  local found = answer(parts, product_detail[pass])
  if found then
    found.quantisation_share = math.min(1.0, (inside + (beside and beside.seconds or 0.0)) / found.seconds)
  end
  return found
end

--- The attention training models of this device, else of the nearest neighbour that has them.
function DeviceTimes:laws()
  if self.known_laws == nil then self.known_laws = kernels.laws(self.device) or false end
  return self.known_laws or nil
end

-- The number of context-parallel ranks if a rank attends to the block of each in a kernel of its own: in a ring, and in
-- PyTorch's context_parallel also after a gather (_templated_ring_attention); else nil.
local function blocks_of(self, shape)
  return shape.ring or self.stack.context_parallel == "torch" and shape.shards or nil
end

-- Seconds of the kernels that merge the attention results of other context-parallel ranks' blocks.
local function merging(self, shape, pass)
  local kind, blocks = self.stack.context_parallel, blocks_of(self, shape)
  if self.burst or not blocks then return 0.0 end
  local value, bytes = shape.value_dim or shape.head_dim, in_step.merge[kind][pass]
  local queries = (shape.batch + 0.0) * shape.heads * shape.seq_q * value
  local keys = (shape.batch + 0.0) * shape.kv_heads * shape.seq_k / blocks * (shape.head_dim + value)
  return (blocks - 1) * (bytes[1] * queries + bytes[2] * keys)
    / (self.device.memory_bandwidth * in_step.stream_share)
end

-- Attention on TPUs with large matrix units, by the splash kernels: like the answer of `attention`, or nil. Kernels in
-- 8 bits were not measured; they count as those of 16 bits.
local function splash_attention(self, op, shape, pass, x)
  local seconds = splash.seconds(self.device, self.stack.attention, pass, x)
  if not seconds then return nil end
  local memory = op.bytes(shape, "bf16", pass) / self.device.memory_bandwidth
  local peak = training.flops(x, pass) / self.device:peak "bf16"
  seconds = math.max(seconds, memory / in_step.stream_share) + merging(self, shape, pass)
  return { seconds = seconds, low_seconds = math.max(seconds * (1 - splash.spread), peak, memory),
    high_seconds = seconds * (1 + splash.spread), provenance = "calibrated", detail = "share of a measured kernel" }
end

-- Dimension of the heads that a kernel computes. FlashAttention 2 has kernels for multiples of 32 up to 192 and for
-- 256, and pads the others (HEADDIM_SWITCH of Dao-AILab/flash-attention). On devices of other vendors
-- than NVIDIA, flash2 is another library.
local function computed_dim(self, dim)
  if self.stack.attention ~= "flash2" or self.device.vendor or dim > 256 then return dim end
  return dim > 192 and 256 or (dim + 31) // 32 * 32
end

local function attention(self, op, shape, pass)
  local laws = self:laws()
  if not (laws and shape.batch and shape.heads and shape.seq_q and shape.seq_k and shape.head_dim) then return nil end
  local s = op.kernel_shape(shape)
  local x = { batch = shape.batch, heads = shape.heads, seq_q = shape.seq_q, seq_k = shape.seq_k,
    head_dim = computed_dim(self, shape.head_dim), causal = s.causal and 1 or 0,
    value_dim = computed_dim(self, shape.value_dim or shape.head_dim),
    window = shape.window or 0, shards = shape.shards, blocks = blocks_of(self, shape) }
  local dtype = self.stack.attention_dtype
  if not self.device:peak(dtype) and dtype ~= "bf16" then
    error_module.raise("model", "stack %s: attention_dtype = '%s' needs a rate in the device's peak_flops; %s has none",
      self.stack.name, dtype, self.device.name)
  end
  local own = splash_attention(self, op, shape, pass, x)
  if own then return own end
  -- Explicit masks: in_step.attention.
  if self.stack.attention == "efficient" then x.causal, x.window = 0, 0 end
  -- fp8 backward kernels also compute scores outside the window (cudnn-frontend's tables, windows of 128).
  if dtype == "fp8" and pass == "backward" then x.window = 0 end
  local law = x.blocks and x.window == 0 and training.by_blocks or training.seconds
  -- Transformer Engine's forward pass has two streams (AttnFuncWithCPAndKVP2P, flash_attn_streams).
  local filled = law == training.by_blocks and pass == "forward" and self.stack.context_parallel == "te"
  local seconds, products_dtype = law(self.device, laws.laws, dtype, pass, x, filled), dtype
  if not seconds then seconds, products_dtype = law(self.device, laws.laws, "bf16", pass, x, filled), "bf16" end
  if not seconds then return nil end
  local generation = self.device.generation
  local factors = in_step.attention[self.stack.attention][generation] or in_step.attention.cudnn[generation]
  local known = laws.measured and transfer.allowed(self.device, products_dtype) and self.device.power_watts
  seconds = seconds * (factors and factors[pass == "backward" and 2 or 1] or 1.0) * power_factor(self.device, known)
  local memory = op.bytes(shape, "bf16", pass) / self.device.memory_bandwidth
  -- fp8: casts of operands and results between 16 and 8 bits.
  if dtype == "fp8" then seconds = seconds + 1.5 * memory / in_step.stream_share end
  local flops = training.flops(x, pass)
  local rates = (in_step.attention_rate[self.stack.attention] or {})[generation]
  if rates then seconds = math.max(seconds, flops / rates[pass == "backward" and 2 or 1]) end
  local peak = flops / self.device:peak(products_dtype)
  seconds = math.max(seconds, peak / (transfer.allowed(self.device, products_dtype) or 1),
    memory / in_step.stream_share) + merging(self, shape, pass)
  return { seconds = seconds, low_seconds = math.max(seconds * (1 - laws.spread), peak, memory),
    high_seconds = seconds * (1 + laws.spread),
    provenance = "calibrated", detail = laws.detail }
end

-- Bytes per parameter that an update moves beyond one fused kernel of Adam.
local function beside_update(stack, dtype)
  local update = in_step.update_bytes[dtype] or in_step.update_bytes.other
  local foreach = stack.update == "foreach" and in_step.foreach_bytes or 0
  -- Under autocast the update writes no copy in 16 bits; in fp16 that copy is a pass of its own, which also reads 4.
  local copy = stack.autocast and (dtype == "fp16" and 6 or 2) or 0
  return update + stack.gradient_copy_bytes + foreach - copy
end

-- Bytes that an operator's kernels move, with the factors of the stack's kernels, and the share of its beside_bytes.
local function streamed_bytes(self, op, shape, dtype, pass)
  local bytes = op.bytes(shape, schema.dtype_bytes[dtype] < 2 and "bf16" or dtype, pass)
  local beside = op.beside_bytes and not self.burst and op.beside_bytes(shape, pass, dtype, self.stack) or 0.0
  bytes = bytes + beside
  local beside_share = beside > 0 and beside / bytes or 0.0
  if op.family == "router" then bytes = bytes * self.stack.routing_factor end
  if op.experts then bytes = bytes * self.stack.expert_bias end
  if op.family == "rope" then bytes = bytes * self.stack.rope end
  if op.gated then bytes = bytes * self.stack.gated_mlp end
  if op.adaptive then bytes = bytes * self.stack.adaptive_norm end
  if shape.clamped == 1 then
    bytes = bytes * (pass == "backward" and self.stack.clamped_mlp_backward or self.stack.clamped_mlp)
  end
  if shape.scaled == 1 then bytes = bytes * self.stack.scaled_rope end
  if op.family == "cross_entropy" then bytes = bytes * in_step.cross_entropy[self.stack.cross_entropy] end
  if op.family == "optimizer" and shape.params and not self.burst then
    bytes = bytes + beside_update(self.stack, dtype) * shape.params
  end
  if op.family == "softmax" and op.masked then
    bytes = bytes * in_step.masked_softmax[pass == "backward" and 2 or 1]
  end
  return bytes, beside_share
end

-- Seconds to move these bytes: by the laws of norms, by gathers, or as a stream.
local function streamed_seconds(self, op, shape, dtype, pass)
  local bytes, beside_share = streamed_bytes(self, op, shape, dtype, pass)
  -- The operator before, or this one, has just written a part of the bytes.
  local fresh = pass == "forward" and op.family ~= "optimizer" and op.family ~= "embedding"
  local kernel = op.family == "norm" and op.kernel_shape and op.kernel_shape(shape)
  local of_norm = kernel and kernel.cols and norm.seconds(self.device, self.stack.norm, pass,
    { rows = kernel.rows, width = kernel.cols, bytes = bytes, centred = op.centred,
      gainless = shape.gainless, fresh = fresh and not self.burst })
  if of_norm then return of_norm end
  local gather_share = op.gathers and self.device.gather_share
  if gather_share then
    local beside = beside_share * bytes
    return stream_start + (bytes - beside) / (self.device.memory_bandwidth * gather_share) + moving(self, beside, 0.0)
  end
  local earlier = fresh and op.earlier_bytes and op.earlier_bytes(shape, dtype) or 0.0
  return stream_start + moving(self, bytes, fresh and bytes - earlier or 0.0)
end

-- Seconds to copy rows by index, and to add rows by index, beside the operator's other bytes.
local function indexed_seconds(self, op, shape, dtype, pass)
  if self.burst then return 0.0 end
  local device, seconds = self.device, 0.0
  for name, share in pairs { gathered_bytes = device.gather_share or in_step.stream_share,
    scattered_bytes = device.scatter_share or in_step.stream_share } do
    if op[name] then seconds = seconds + op[name](shape, dtype, pass) / (device.memory_bandwidth * share) end
  end
  return seconds
end

local function streamed(self, op, shape, dtype, pass)
  local seconds = streamed_seconds(self, op, shape, dtype, pass) + indexed_seconds(self, op, shape, dtype, pass)
  -- An elementwise operator with much arithmetic for its bytes runs at the peak rate outside products.
  local rate = op.family == "elementwise" and not op.memory_bound
    and (self.device.peak_flops.fp32 or self.device:peak(dtype))
  local computing = rate and stream_start + operator.arithmetic(op, shape, pass) / rate or 0.0
  if computing > seconds then
    return { seconds = computing, low_seconds = computing / computing_spread,
      high_seconds = computing * computing_spread, provenance = "assumed",
      detail = "FLOPs at the device's peak rate outside products" }
  end
  return { seconds = seconds, low_seconds = seconds * stream_low, high_seconds = seconds * stream_high,
    provenance = "calibrated", detail = "bytes moved at the device's streaming bandwidth" }
end

-- Products with the one-hot masks that move tokens to experts of a fixed capacity and back. Backward, the second one
-- also gives the gradient of the mask, which holds the router's weights.
local function one_hot(self, op, shape, pass)
  local masks = shape.tokens / shape.seq
  local function masked(m, n, k)
    return product(self, "bf16", { batch = 1, m = masks * m, n = n, k = k, misaligned = 0.0 }) or false
  end
  local seq, slots, hidden = shape.seq, shape.slots, shape.hidden
  local to_experts = (op.name == "moe_permute") == (pass == "forward")
  local parts = { to_experts and masked(slots, hidden, seq) or not to_experts and masked(seq, hidden, slots) }
  if op.name == "moe_unpermute" and pass == "backward" then parts[2] = masked(seq, slots, hidden) end
  return answer(parts, "products with one-hot masks")
end

-- The product of one-hot rows and the table of an embedding, whose comparisons are fused (assumed). Indices have no
-- gradient, so backward is one product, too.
local function one_hot_embedding(self, shape, pass)
  local m, k = shape.tokens, shape.vocab
  if pass == "backward" then m, k = k, m end
  return answer({ product(self, "bf16", { batch = 1, m = m, n = shape.hidden, k = k, misaligned = 0.0 }) or false },
    "product with one-hot rows")
end

-- One run of an operator by the kernels of its family, or nil.
local function by_family(self, op, shape, dtype, pass)
  if shape.one_hot then return one_hot_embedding(self, shape, pass) end
  if shape.slots then return one_hot(self, op, shape, pass) end
  if op.family == "gemm" or op.family == "bmm" then
    return products(self, op, shape, op.family == "bmm" and "bf16" or dtype, pass)
  end
  if op.family == "attention" then return attention(self, op, shape, pass) end
  return streamed(self, op, shape, dtype, pass)
end

-- Time of one run of an operator alone, or nil. For an operator that was never measured, the kernels of its family give
-- the order of magnitude. Its interval reaches from half to twice the time.
local function time_alone(self, name, shape, dtype, pass)
  local op = operator.get(name)
  local seconds, spread, provenance
  if op.law then seconds, spread, provenance = op.law(shape, self.device, pass) end
  if seconds then
    return { seconds = seconds, low_seconds = seconds * (1 - spread), high_seconds = seconds * (1 + spread),
      provenance = provenance or "calibrated", detail = "function 'law' of the operator's file" }
  end
  local found = by_family(self, op, shape, dtype, pass)
  if not (found and op.unmeasured) then return found end
  return { seconds = found.seconds, low_seconds = found.seconds / 2, high_seconds = found.seconds * 2,
    provenance = "assumed", detail = "no measured kernel; " .. found.detail }
end

--- Time of a collective inside a node; nil without a curve of the kind or without links. The curve may come from a node
--- with faster links. So the time is at least the curve's start plus the bytes at the rate of this node's links.
--- `by_links` of the answer: whether the curve exceeds that rate.
---@param kind string
---@param gpus integer
---@param bandwidth number? bytes/s that the group reaches over its links
---@param large table? bandwidths of large messages (ett.profile.kernels.collectives)
function DeviceTimes:collective(kind, bytes, gpus, bandwidth, large)
  local curves = self.curves
  if curves == nil then
    curves = kernels.collectives(self.device) or false
    self.curves = curves
  end
  local seconds = curves and collectives.seconds(curves, kind, bytes, gpus, large)
  if not seconds or not bandwidth then return nil end
  local share = (kind == "all_reduce" and 2 or 1) * (gpus - 1) / gpus
  local over_links = collectives.seconds(curves, kind, 0, gpus) + bytes * share / bandwidth
  if over_links > seconds then
    return { seconds = over_links, low_seconds = over_links * links_low, high_seconds = over_links * links_high,
      provenance = "assumed", by_links = bytes * share / seconds > bandwidth, model = "curve",
      detail = { "measured start, %.1f GB/s of the links", bandwidth / 1e9 } }
  end
  local _, measured = collectives.start(curves, kind, gpus)
  local beyond = gpus > measured
  return { seconds = seconds, low_seconds = seconds * (beyond and links_low or curve_low),
    high_seconds = seconds * (beyond and links_high or curve_high), provenance = "calibrated",
    detail = beyond and { "measured curve of %d GPUs", measured } or "measured curve inside a node", model = "curve" }
end

-- Factor on a kernel that runs while weights are gathered and gradients reduced. A layer communicates the same bytes
-- for any number of tokens.
local function beside_sharding(device, stack, shape)
  local most = in_step.sharded[device.generation] or in_step.sharded.other
  local rows = shape.seq_q or shape.seq
  local tokens = shape.tokens or shape.batch and rows and shape.batch * rows or 1
  return 1 + (most - 1) * stacks.buffer_share(stack) * math.min(1, in_step.sharded_tokens / tokens)
end

--- Time of one run of an operator: { seconds, low_seconds, high_seconds, provenance, detail }, or nil. No factor of the
--- stack slows the update.
function DeviceTimes:operator(name, shape, dtype, pass)
  local found, factor = time_alone(self, name, shape, dtype, pass), self.stack.slowdown
  if self.stack.gathers_slow then factor = factor * beside_sharding(self.device, self.stack, shape) end
  if not found or factor == 1 or pass == "update" then return found end
  return { seconds = found.seconds * factor, low_seconds = found.low_seconds * factor,
    high_seconds = found.high_seconds * factor, provenance = found.provenance, detail = found.detail,
    quantisation_share = found.quantisation_share }
end

--- The same kernels under another stack.
---@param stack table of ett.operator.stack
function DeviceTimes:with_stack(stack) return setmetatable(merged(self, { stack = stack }), DeviceTimes) end

--- The same kernels measured alone: products at the rate of their tables, without in-step factors
--- (ett.profile.in_step) and without the small kernels that run beside products in a step.
function DeviceTimes:at_burst() return setmetatable(merged(self, { burst = true }), DeviceTimes) end

--- A fact of the device file that kernel models need and the device lacks, or nil.
function device_times.lacking(device)
  return not device.multiprocessors and "multiprocessors" or not device.l2_bytes and "l2_bytes" or nil
end

--- Operator times of a device. Raises if neither the device nor a neighbour can have kernels, or if it lacks a fact.
---@param device ett.Device
---@param stack table? of lua/stacks
function device_times.new(device, stack)
  if not devices.has_tables(device) then
    error_module.raise("model", "device %s has no kernel tables, and no neighbours", device.name)
  end
  local lacking = device_times.lacking(device)
  if lacking then
    error_module.raise("model", "device %s: its kernel tables and those of its neighbours need the field '%s'",
      device.name, lacking)
  end
  return setmetatable({ device = device, kernels = {},
    stack = stack or stacks.get() }, DeviceTimes)
end

return device_times
