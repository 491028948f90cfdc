--- Compression of the residual stream to the two low-rank gates of Kimi delta attention: decays and output gate (arXiv
--- 2510.26692, section 4). Each tensor rank computes all of it.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_gate_down", summary = "compressed gates of Kimi delta attention" },
  { place = "enter", inputs = "hidden", outputs = function(c) return 2 * (c.linear_gate_rank or 128) end })
