--- Conversions around a product with frozen weights of 4 or 8 bits, as bitsandbytes does them
--- (lua/ett/operator/quantised.lua). ett.step.frozen computes the shape for each product.
local memory = require "ett.operator.memory"
local quantised = require "ett.operator.quantised"
local shapes = require "ett.operator.shapes"

local op = { name = "dequantise", family = "elementwise",
  summary = "16-bit copies of frozen weights of 4 or 8 bits, for one product" }

-- format: its number in quantised.formats
op.schema = { tokens = "count", in_features = "count", out_features = "count", batch = "count?", format = "count" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = c.hidden, format = 1 }
end

function op.kernel_shape(s)
  return { rows = (s.batch or 1) * s.out_features, cols = s.in_features, format = s.format }
end

function op.bytes(s, dtype, pass)
  return quantised.moved(quantised.formats[s.format], s, pass, memory.width(dtype))
end

--- The copy is freed after its product, which counts it (ett.step.lower).
function op.output_bytes() return 0.0 end
function op.working_bytes() return 0.0 end

-- A table look-up or a conversion, and a product with a scale.
return memory.define(op, { forward = { reads = 1, writes = 1, flops = 2 },
  backward = { reads = 1, writes = 1, flops = 2 } })
