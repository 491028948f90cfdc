--- Gaussian error linear unit, tanh form (Hendrycks & Gimpel 2016).
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local function doubles() return require "ett.operator.doubles" end -- for tests of kernels alone

local op = { name = "gelu", family = "elementwise", summary = "Gaussian error linear unit", compiled = "gelu" }

op.schema = { tokens = "count", width = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), width = shapes.local_ffn(c) } end

-- Forward reads x and writes y; backward reads x and dy and writes dx.
memory.define(op, {
  columns = "width",
  forward = { reads = 1, writes = 1, flops = 10 },
  backward = { reads = 2, writes = 1, flops = 16 },
  saved = 1,
})

launch.map(op, {
  forward = { takes = { "x" }, gives = { "y" }, double = function(x) return doubles().gelu(x) end,
    code = "y = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));" },
  backward = { takes = { "x", "dy" }, gives = { "dx" },
    code = [[float t = tanhf(0.79788456f * (x + 0.044715f * x * x * x));
    float slope = 0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 0.134145f * x * x);
    dx = dy * (0.5f * (1.0f + t) + slope);]],
    double = function(x, dy) return dy * doubles().gelu_slope(x) end },
})

function op.recorded() return { what = "gelu" } end

op.torch = [[
x = tensor(s.tokens, s.width)
return lambda: F.gelu(x, approximate="tanh")
]]

return op
