--- Gate of the shared experts (Qwen2-MoE, Qwen3-Next): the sigmoid of one projected number a token multiplies their
--- output (Transformers, Qwen2MoeSparseMoeBlock; Megatron-Core, shared_experts.py).
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "shared_gate", family = "elementwise", summary = "sigmoid gate of the shared experts' output" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

function op.parameters(s) return s.hidden end

-- Forward reads the layer's input and the output of the experts. Backward also reads the gradient, and writes two. The
-- router stores the input.
return memory.define(op, { forward = { reads = 2, writes = 1, flops = 3 },
  backward = { reads = 3, writes = 2, flops = 6 }, saved = 1 })
