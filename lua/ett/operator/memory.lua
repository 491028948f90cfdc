--- Memory-bound operators: elementwise, norms, softmaxes, rotary embedding.
--
-- memory.define(op, cost) completes an operator from its cost per element of rows x cols. Rows are its tokens and
-- columns its `hidden`, or the field that cost.columns names; an operator with other rows has its own kernel_shape.
--   cost.forward, cost.backward = { reads =, writes =, flops = }, elements of the operator's dtype
--   cost.extra(s, pass) = bytes of other types (fp32 statistics, byte masks)
--   cost.saved = elements stored for the backward pass
--   cost.saved_extra(s, dtype, stack, frozen) = further bytes; frozen: the weights have no gradient
local schema = require "ett.base.schema"

local memory = {}

--- Bytes of an element: fp8 training keeps activations between products in bf16.
local width = schema.wide_bytes

function memory.define(op, cost)
  op.schema = op.schema or { tokens = "count", hidden = "count" }
  local columns, own_shape = cost.columns or "hidden", op.kernel_shape
  op.kernel_shape = own_shape or function(s) return { rows = s.tokens, cols = s[columns] } end
  local function elements(s)
    if not own_shape then return s.tokens * (s[columns] + 0.0) end
    local kernel = own_shape(s)
    return kernel.rows * (kernel.cols + 0.0)
  end
  op.flops = op.flops or function(s, pass)
    return elements(s) * (pass == "backward" and cost.backward or cost.forward).flops
  end
  op.bytes = op.bytes or function(s, dtype, pass)
    local side = pass == "backward" and cost.backward or cost.forward
    return elements(s) * (side.reads + side.writes) * width(dtype) + (cost.extra and cost.extra(s, pass) or 0.0)
  end
  op.activation_bytes = op.activation_bytes or function(s, dtype, stack, frozen)
    return elements(s) * (cost.saved or 0) * width(dtype)
      + (cost.saved_extra and cost.saved_extra(s, dtype, stack, frozen) or 0.0)
  end
  --- Bytes of the output, if a following product stores it.
  op.output_bytes = op.output_bytes or function(s, dtype) return elements(s) * schema.dtype_bytes[dtype] end
  --- Bytes of the gradients that the backward pass reads and writes.
  op.working_bytes = op.working_bytes or function(s, dtype)
    local side = cost.backward
    return elements(s) * math.max(0, side.reads - (cost.saved or 0) + side.writes) * width(dtype)
  end
  return op
end

memory.width = width

return memory
