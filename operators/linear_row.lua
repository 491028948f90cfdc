--- A row-parallel product of the entry's sizes: side_in values (default hidden), which tensor ranks split, to side_out.
--- tensor_leave must follow it. side_bias: it has biases.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_row", summary = "product of the entry's sizes, row-parallel", region = "leave" },
  { place = "inside", inputs = function(c) return shapes.divide("side_in", c.side_in or c.hidden, "tp", c.tp) end,
    outputs = function(c) return c.side_out or c.hidden end, bias = { "side_bias" } })
