--- Bytes of frozen weights of 4 or 8 bits (bitsandbytes; plan field frozen_weights).
--
-- nf4: blocks of 64 weights of 4 bits, each with an fp32 scale. nf4_double: these scales have 8 bits, in blocks of 256
-- with an fp32 scale (Dettmers et al. 2023, arXiv 2305.14314, section 3; bitsandbytes, functional.py, quantize_4bit).
-- int8: 8 bits, and an fp32 scale for each output (Dettmers et al. 2022, arXiv 2208.07339). Tables of codes and offsets
-- are not counted.
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"

local quantised = {}

local block, block_of_scales = 64, 256

-- { bytes of a weight, bytes of its scales as a function of the inputs of its product }.
local formats = {
  nf4 = { 0.5, function() return 4 / block end },
  nf4_double = { 0.5, function() return (1 + 4 / block_of_scales) / block end },
  int8 = { 1, function(inputs) return 4 / inputs end },
}

--- The formats, for a plan.
quantised.formats = { "nf4", "nf4_double", "int8" }

--- The format of a plan's frozen weights; nil: all have the dtype of the plan.
function quantised.format_of(p) return p.frozen_weights ~= "none" and p.frozen_weights or nil end

--- Number of weights of a product's shape, as a float.
function quantised.weights_of(s) return (s.batch or 1) * (s.in_features + 0.0) * s.out_features end
local weights_of = quantised.weights_of

--- Bytes of the weights of a product, and of their scales.
---@param format string
---@param s table shape of the product
function quantised.bytes(format, s)
  local weights, own = weights_of(s), formats[format]
  return weights * own[1], weights * own[2](s.in_features)
end

--- Bytes that the kernels around a product of frozen weights move.
--
-- 4 bits: a kernel writes a 16-bit copy of the weights before the product, in each pass (MatMul4Bit of autograd/
-- _functions.py). nf4_double: other kernels first write fp32 scales, which this kernel reads (dequantize_4bit: the
-- product with the second scales writes them, the offset is added in place).
-- 8 bits, forward: a kernel quantises the inputs, a second one scales the int32 outputs. Backward: one kernel copies
-- the weights to 16 bits, a second one scales the copy in place (MatMul8bitLt). Columns of outliers are not counted.
---@param width integer bytes of an element of the copy
function quantised.moved(format, s, pass, width)
  local weights, batch, tokens = weights_of(s), s.batch or 1, s.tokens
  if format == "int8" then
    return pass == "forward" and batch * tokens * ((width + 1.0) * s.in_features + (4.0 + width) * s.out_features)
      or weights * (1 + 3 * width)
  end
  local stored, scales = quantised.bytes(format, s)
  local wide = weights * 4 / block -- fp32 scales
  return stored + weights * width + (format == "nf4" and scales or scales + 4 * wide)
end

--- Casts of a frozen model whose norms have fp32 weights (field fp32_norms of a stack), under torch.autocast.
--
-- PEFT's prepare_model_for_kbit_training casts all 16-bit weights to fp32. TRL (peft_module_casting_to_bf16) and
-- qlora.py cast them back, except those of norms. So norms give fp32. A quantised product casts fp32 inputs to 16 bits
-- and its output back to fp32 (bitsandbytes, nn/modules.py, Linear4bit.forward). Rotation, activation and, from the
-- first MLP on, the residual stream are then in fp32. Attention, adapters and head cast their inputs to 16 bits.
quantised.fp32_norms = { name = "fp32_norms" }
local fp32_norms = quantised.fp32_norms

--- Number of modules that a product's operator stands for in the software.
function quantised.modules(op, c, stack)
  local apart = stack.separate_projections
  if op.experts then apart = stacks.separates_gates(stack) end
  return apart and op.parts and math.max(1, #op.parts(c)) or 1
end

-- A cast reads or writes an fp32 value and a 16-bit one.
local cast_bytes = 4 + 2

--- Sets which items read or write fp32 values (`wide`), and the number of casts of each product's input (`casts`). Also
--- sets whether PEFT copies its output (`cloned`; peft/tuners/lora/bnb.py).
---@param items table[] of a layer, in order
---@param stack table the software
function fp32_norms.mark(items, c, stack)
  local wide, normed, read, product = false, false, false, nil -- the last output, a norm before, the product's input
  for _, item in ipairs(items) do
    local op = item.operator
    if op and item.adapter then
      if item.name ~= "dequantise" then
        item.wide = read and item.name ~= "lora_b" or nil
        if product then product.cloned = true end
        item.casts = read and item.name == "lora_a" and 1 or nil
      end
    elseif op and op.family == "gemm" then
      if item.same_input or op.name == "linear_kv_up" then read = normed else read = wide end
      item.wide, product = read or nil, item
      item.casts = read and quantised.modules(op, c, stack) or nil
      wide = read and not op.unquantised
    elseif op then
      if op.family == "norm" then wide, normed = true, true end
      item.branch, item.wide = op.residual and wide or nil, (wide or op.residual) or nil
      wide = item.wide and op.family ~= "attention" and op.family ~= "bmm" and op.family ~= "embedding" or false
    end
  end
end

--- Whether an item's own kernel has fp32 operands. Products and attention cast theirs to 16 bits.
function fp32_norms.is_wide(item)
  local family = item.operator.family
  return item.wide and family ~= "gemm" and family ~= "bmm" and family ~= "attention"
end

--- Bytes that an item stores for its backward pass beyond those in 16 bits: single operators of a norm have an fp32
--- input anyway.
---@param activation number bytes of the item in 16 bits
function fp32_norms.stored(item, activation, stack)
  local op = item.operator
  if not fp32_norms.is_wide(item) then return 0.0 end
  if op.family == "norm" then return stack.norm == "composite" and not op.centred and 0.0 or activation end
  return math.max(0.0, op.activation_bytes(item.shape, "fp32", stack, item.frozen) - activation)
end

-- Bytes of a wide item beyond those in 16 bits, in each pass: an item of the residual stream or an adapter's sum.
local function sum_bytes(item, pass, elements)
  if item.adapter then return (pass == "backward" and cast_bytes or 4) * elements end
  -- Forward reads the stream and, of an fp32 branch, the branch in fp32. Backward sums two fp32 gradients.
  if pass == "forward" then return (item.branch and 6 or 4) * elements end
  return (6 + (item.branch and 0 or cast_bytes)) * elements
end

-- Bytes of queries, keys and values that attention casts.
local function attended(s)
  if not s.seq_k then return 0.0 end
  local value = s.value_dim or s.head_dim
  return cast_bytes * (s.batch + 0.0)
    * (s.heads * s.seq_q * s.head_dim + s.kv_heads * s.seq_k * (s.head_dim + value))
end

local function product_bytes(item, pass)
  local s, casts = item.shape, item.casts or 0
  local tokens = (s.batch or 1) * (s.tokens + 0.0)
  local input, output = s.read or tokens * s.in_features, tokens * s.out_features -- read: of a convolution
  local bytes = cast_bytes * casts * input
  if not item.adapter and casts > 0 and not item.operator.unquantised then bytes = bytes + cast_bytes * output end
  if pass == "backward" then return bytes + math.max(0, casts - 1) * 6 * input end
  return bytes + (item.cloned and 2 * (casts > 0 and 4 or 2) * output or 0.0)
end

--- Bytes that a run of an item moves in a pass beyond those in 16 bits, without the item's own kernel.
---@param stack table the software
function fp32_norms.moved(item, pass, stack)
  local op, s = item.operator, item.shape
  if op.family == "gemm" then return product_bytes(item, pass) end
  if not item.wide then return 0.0 end
  if op.family == "attention" then return attended(s) end
  if op.attends then return cast_bytes * (s.batch + 0.0) * (s.tokens + s.out_features) * s.in_features end
  if op.residual or op.family == "norm" then
    local kernel = op.kernel_shape(s)
    local elements = (kernel.rows + 0.0) * kernel.cols
    if op.residual then return sum_bytes(item, pass, elements) end
    -- As under autocast (ett.operator.autocast): an fp32 kernel, or single operators without casts.
    if stack.norm == "composite" and not op.centred then return pass == "forward" and -8 * elements or 0.0 end
    return (pass == "forward" and 4 or 6) * elements
  end
  local times = op.gated and stack.gated_mlp or op.family == "rope" and stack.rope or 1
  return op.bytes and math.max(1, times) * (op.bytes(s, "fp32", pass) - op.bytes(s, "bf16", pass)) or 0.0
end

function fp32_norms.launches(stack) return stack.norm == "compiled" and 1 or 4 end

--- Casts of adapters with fp32 weights beside frozen weights of 16 bits, under torch.autocast (field fp32_adapters of a
--- stack). PEFT casts the weights to fp32 since version 0.11 (autocast_adapter_dtype, huggingface/peft#1706). Each
--- adapter then casts its input to fp32 (tuners/lora/layer.py, Linear.forward), and its dropout runs in fp32. Its first
--- product casts the result to 16 bits. Backward, the gradient of the input is cast in the same way.
quantised.fp32_adapters = { name = "fp32_adapters" }
local fp32_adapters = quantised.fp32_adapters

--- Whether fp32_adapters has an effect under a plan.
---@param stack table the software
---@return boolean
function quantised.casts_adapters(p, stack)
  return stack.fp32_adapters and p.lora_rank ~= nil and schema.dtype_bytes[p.dtype] == 2 and not quantised.format_of(p)
end

--- Marks the first product of each adapter, which stores a 16-bit input of its own.
function fp32_adapters.mark(items)
  for _, item in ipairs(items) do
    if item.name == "lora_a" then item.casts = 1 end
  end
end

function fp32_adapters.stored() return 0.0 end

--- Bytes that a run of an item moves in a pass beyond those in 16 bits.
function fp32_adapters.moved(item)
  local s = item.shape
  if not item.adapter then return 0.0 end
  if item.name == "dropout" then return 4.0 * s.rows * s.cols end
  return item.name == "lora_a" and 2.0 * cast_bytes * s.tokens * s.in_features or 0.0
end

--- Four adapters have eight casts in a forward pass. Sixteen count as four launches (ett.operator.autocast).
function fp32_adapters.launches() return 2 end

return quantised
