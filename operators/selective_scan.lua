--- Mamba's selective scan with its output gate (Gu & Dao 2023). States stay on chip: the kernel reads x, z, the time
--- steps, B and C, and writes y.
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"

local op = { name = "selective_scan", family = "elementwise", summary = "Mamba's selective scan and its gate" }

op.note = "timed by its bytes and instructions; no scan was measured"
op.unmeasured = true

op.schema = { tokens = "count", channels = "count", state = "count", joint = "natural?" }

function op.shape(c)
  local d = mixer.dims(c, "mamba")
  return { tokens = mixer.tokens(c), channels = d.inner, state = d.state, joint = mixer.joint(c) }
end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.channels, state = s.state } end

--- Nine operations per token, channel and state (state-spaces/mamba, issue 110, by the authors). Backward repeats the
--- scan and computes the gradients of both factors.
function op.flops(s, pass) return (pass == "backward" and 27.0 or 9.0) * s.tokens * s.channels * s.state end

--- Instructions of the kernels per token, channel and state (state-spaces/mamba, csrc/selective_scan). Forward: two
--- products and the exponential of a factor, a scan that combines each state twice (a product and a multiply-add), and
--- the output. Backward repeats this without the output (7) and scans the gradients (1 and 4). It computes the
--- gradients of x, the time steps, A, B and C (11). Sums of gradients of B and C over the channels are not counted.
function op.instructions(s, pass)
  return (pass == "backward" and 23.0 or 8.0) * s.tokens * s.channels * s.state
end

--- Forward reads x, z, the time steps, B and C, and writes y. Backward also reads dy and writes all gradients.
function op.bytes(s, dtype, pass)
  local channels, states = s.channels + 0.0, 2.0 * s.state
  local each = pass == "backward" and 7 * channels + 2 * states or 4 * channels + states
  return memory.width(dtype) * s.tokens * each
end

--- A per channel and state, D per channel.
function op.parameters(s) return s.channels * s.state + s.channels end

--- Stores z, B, C, the time steps and the output without the gate; linear_ssm_x stores x, the output of the
--- convolution (selective_scan_interface, SelectiveScanFn). A function that spans the layer computes the time steps
--- again, and stores B and C a second time (MambaInnerFn, checkpoint_lvl 1).
function op.activation_bytes(s, dtype, stack)
  local values = mixer.whole(s, stack) and 2.0 * s.channels + 4.0 * s.state or 3.0 * s.channels + 2.0 * s.state
  return memory.width(dtype) * s.tokens * values
end

return op
