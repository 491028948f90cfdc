--- A column-parallel product of the entry's sizes: side_in (default hidden) to side_out values, which tensor ranks
--- split. tensor_enter must precede it. side_bias: it has biases.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

return gemm.linear({ name = "linear_column", region = "enter",
  summary = "product of the entry's sizes, column-parallel" },
  { place = "enter", inputs = function(c) return c.side_in or c.hidden end,
    outputs = function(c) return shapes.divide("side_out", c.side_out or c.hidden, "tp", c.tp) end,
    bias = { "side_bias" } })
