--- Mamba-2's scan in chunks of products (Dao & Gu 2024, arXiv 2405.21060, section 6).
-- L tokens per chunk, N states, P channels per head, H heads, G groups of B and C. Multiply-adds per token:
--   C B' of a chunk, each group        G L N
--   the masked scores times x          H L P
--   the state update of a chunk        H N P
--   the output from the state          H N P
-- Check on an H800: one of the five kernels, chunk_scan, is measured at 0.169 ms for 8 sequences of 1024, 80 heads of
-- 64 and 128 states (tile-ai/tilelang, benchmark/mamba2). The estimate for all five is 0.48 ms, from 0.24 to 0.97.
-- Check on RTX 4090: both passes of 16 sequences of 4096, 6 heads of 64 and 128 states took 3.4 ms
-- (Eppie/mamba_melee, notes/scan_variants.md). The estimate is 3.7 ms.
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local op = { name = "ssd_scan", family = "bmm", summary = "Mamba-2's scan in chunks" }

op.note = "timed as products of its size; no scan was measured"
op.unmeasured = true

op.schema = { batch = "count", seq = "count", heads = "count", head_dim = "count", groups = "count", state = "count",
  chunk = "count", joint = "natural?" }

op.constraints = { { "heads must be divisible by groups", function(s) return s.heads % s.groups == 0 end } }

function op.shape(c)
  local d = mixer.dims(c, "mamba2")
  return { batch = c.micro_batch, seq = mixer.tokens(c) // c.micro_batch, heads = d.heads, head_dim = d.head_dim,
    groups = d.groups, state = d.state, joint = 1,
    chunk = math.min(d.chunk, shapes.divide("seq", c.seq, "cp", c.cp or 1)) }
end

--- Backward runs each product twice, and recomputes C B' and the chunks' states (mamba_ssm, ssd_combined).
function op.flops(s, pass)
  local scores = (s.groups + 0.0) * s.chunk * s.state
  local states = (s.heads + 0.0) * s.state * s.head_dim
  local all = scores + (s.heads + 0.0) * s.chunk * s.head_dim + 2 * states
  return 2.0 * s.batch * s.seq * (pass == "backward" and 2 * all + scores + states or all)
end

--- Model FLOPs count B and C without the replicas of tensor ranks.
function op.model_flops(s, c)
  return op.flops(s, "forward") - 2.0 * s.batch * s.seq * mixer.dims(c, "mamba2").replicas * s.chunk * s.state
end

local function rows_of(s)
  return (s.heads + 0.0) * s.head_dim, (s.groups + 0.0) * s.state, (s.groups + 0.0) * s.chunk,
    (s.heads + 0.0) * s.state * s.head_dim / s.chunk
end

--- Forward reads x, B and C twice and the time steps, writes y, and writes and reads C B'. Fp32 states are written and
--- read twice. Backward reads as much, and writes all gradients, those of the states included.
function op.bytes(s, dtype, pass)
  local x, b, scores, states = rows_of(s)
  local tokens, width = (s.batch + 0.0) * s.seq, memory.width(dtype)
  local forward = width * (3 * x + 4 * b + 2 * scores + s.heads) + 4 * 4 * states
  return tokens * (pass == "backward" and 2 * forward + width * (2 * x + 2 * b) or forward)
end

--- Per head: A, D and the bias of the time step.
function op.parameters(s) return 3 * s.heads end

--- Stores x, B, C and the time steps. A function that also spans the convolution stores its own output in place of x,
--- B and C. If it spans the norm, too, the norm has counted this output (ssd_combined, MambaSplitConv1dScanCombinedFn).
function op.activation_bytes(s, dtype, stack)
  local x, b = rows_of(s)
  local joint = s.joint and stack and stack.mamba
  local values = joint == "whole" and 0 or joint == "joint" and x or x + 2 * b
  return memory.width(dtype) * s.batch * s.seq * (values + s.heads)
end

--- A product per chunk and head with the same FLOPs.
function op.kernel_shape(s)
  local chunks = (s.seq + s.chunk - 1) // s.chunk
  local k = s.groups * s.chunk * s.state // (s.heads * s.head_dim) + s.chunk + 2 * s.state
  return { m = math.min(s.chunk, s.seq), n = s.head_dim, k = k, batch = s.batch * s.heads * chunks }
end

return op
