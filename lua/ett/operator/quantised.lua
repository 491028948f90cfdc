--- Bytes of frozen weights of 4 or 8 bits (bitsandbytes; plan field frozen_weights).
--
-- nf4: blocks of 64 weights of 4 bits, each with an fp32 scale. nf4_double: these scales have 8 bits, in blocks of 256
-- with an fp32 scale (Dettmers et al. 2023, arXiv 2305.14314, section 3; bitsandbytes, functional.py, quantize_4bit).
-- int8: 8 bits, and an fp32 scale for each output (Dettmers et al. 2022, arXiv 2208.07339). Tables of codes and offsets
-- are not counted.
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

return quantised
