--- What PyTorch's autocast adds to a layer: bytes that its casts and its fp32 tensors move, and bytes that they store.
--
-- Weights, their gradients and the residual stream are in fp32. Products and attention run in 16 bits: each module
-- casts its own input, and its weight once in a forward pass (autocast_mode.cpp, cached_cast). The casts are stored
-- for the backward pass, which casts the gradients of inputs and weights to fp32. Norms run in fp32. The sum of a
-- 16-bit output and the residual stream has the wider type. Elementwise operators keep the type of what they read.
-- Not counted: scores of unfused attention, whose masks, softmax and dropout are in fp32 (spec/bench/README.md, BERT).
local quantised = require "ett.operator.quantised"
local weights_of = quantised.weights_of

local autocast = { name = "autocast" }

-- A cast reads or writes an fp32 value and a 16-bit one.
local cast_bytes = 4 + 2

--- Host time of a layer's casts in the forward pass, in launches of the stack: four, or one if a compiler fuses them.
--- Backward it is twice that, as for every operator. In a layer of Transformers 5.12's Llama, PyTorch 2.14 runs 16
--- casts forward and 22 backward. Its other 36 and 69 kernels count as 11 launches forward and 22 backward.
function autocast.launches(stack) return stack.norm == "compiled" and 1 or 4 end

-- Bytes per element beyond those of the operator in 16 bits: { forward, backward }.
--   norm       an fp32 kernel: 8 instead of 4; backward 12 instead of 6
--   composite  an RMS norm of single operators (kernels/norm): no cast to fp32 and back (-12), and a product with the
--              weight in fp32 (4); backward no casts (-12), and three fp32 operations with the weight (12)
--   residual   reads and writes the stream in fp32: 10 instead of 6; backward sums two fp32 gradients and casts the sum
--              for the branch: 18 instead of 6
--   rope       of single operators: q * cos and rotate_half(q) * sin write fp32 (4), their sum is in fp32 (6), and
--              attention casts it (6); backward casts the gradient to fp32 (6), multiplies it in fp32 (8) and casts
--              both products (12)
local added = { norm = { 4, 6 }, composite = { -8, 0 }, residual = { 4, 12 }, rope = { 16, 26 } }

local function kind_of(op, stack)
  if op.family == "norm" then return stack.norm == "composite" and not op.centred and "composite" or "norm" end
  if op.family == "rope" then return stack.rope > 1 and "rope" or nil end
  return op.residual and "residual" or nil
end

local function elements_of(op, s)
  local kernel = op.kernel_shape(s)
  return (kernel.rows + 0.0) * kernel.cols
end

-- Families that write fp32 values, and families that pass values on in the type in which they get them.
local writes_fp32, keeps_type = { norm = true, embedding = true }, { router = true, elementwise = true }

--- Sets the number of casts of each product's input (`casts`): one for each module that reads fp32 values. A product
--- with `same_input` reads the last norm's output. So does linear_kv_up, which may follow linear_q_up. Also sets which
--- elementwise operators read and write fp32 values (`wide`), such as the scale and shift after a norm.
---@param items table[] of a layer, in order
---@param stack table the software
function autocast.mark(items, c, stack)
  local wide, normed, read = false, nil, false -- types of the last output, the last norm's output, the product's input
  for _, item in ipairs(items) do
    local op = item.operator
    if op and item.adapter then
      item.casts = item.name == "lora_a" and read and 1 or nil
    elseif op and op.family == "gemm" then
      local earlier = item.same_input or op.name == "linear_kv_up"
      read = not earlier and wide or earlier and (normed == nil and read or normed) or false
      item.casts, wide = read and quantised.modules(op, c, stack) or nil, false
    elseif op then
      item.wide = wide and op.family == "elementwise" and not op.residual or nil
      wide = op.residual or writes_fp32[op.family] or keeps_type[op.family] and wide or false
      if op.family == "norm" then normed = wide end
    end
  end
end

--- Bytes of 16-bit copies of a product's weights. Frozen weights are in 16 bits anyway.
function autocast.copies(item)
  local op = item.operator
  return op and op.family == "gemm" and not item.frozen and 2 * weights_of(item.shape) or 0.0
end

--- Bytes that an item stores for its backward pass beyond those in 16 bits.
---@param activation number bytes of the item in 16 bits
function autocast.stored(item, activation, stack)
  local op, s = item.operator, item.shape
  if item.wide and activation > 0 then return op.activation_bytes(s, "fp32", stack, item.frozen) - activation end
  if op.family == "gemm" then return ((item.casts or 1) - 1) * activation + autocast.copies(item) end
  if op.family ~= "norm" or activation == 0 then return 0.0 end
  return 2 * elements_of(op, s) -- the input; of single operators the normalised input, whose input is in fp32 anyway
end

--- Bytes that a run of an item moves in a pass beyond those in 16 bits, without the item's own kernel.
---@param stack table the software
function autocast.moved(item, pass, stack)
  local op, s = item.operator, item.shape
  local kind = not item.adapter and kind_of(op, stack) -- an adapter adds 16-bit values
  if kind then return added[kind][pass == "backward" and 2 or 1] * elements_of(op, s) end
  if item.wide or op.family == "embedding" then return op.bytes(s, "fp32", pass) - op.bytes(s, "bf16", pass) end
  if op.family ~= "gemm" then return 0.0 end
  local input = s.read or (s.batch or 1) * (s.tokens + 0.0) * s.in_features -- read: of a convolution, without patches
  local casts = item.casts or 0
  -- Gradients of an input from several modules are summed in fp32 (12 bytes) instead of 16 bits (6).
  local sums = pass == "backward" and math.max(0, casts - 1) * 6 * input or 0.0
  return cast_bytes * (casts * input + autocast.copies(item) / 2) + sums
end

return autocast
