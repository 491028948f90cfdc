--- Mamba's selective scan with its output gate (Gu & Dao 2023). States stay on chip: the kernel reads x, z, the time
--- steps, B and C, and writes y.
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"

local op = { name = "selective_scan", family = "elementwise", summary = "Mamba's selective scan and its gate" }

op.note = "follows measured kernels on Ada, by cycles of a multiprocessor; other GPUs are assumed to need as many"
op.unmeasured = true -- on other devices

op.schema = { tokens = "count", channels = "count", state = "count", joint = "natural?" }

function op.shape(c)
  local d = mixer.dims(c, "mamba")
  return { tokens = mixer.tokens(c), channels = d.inner, state = d.state, joint = mixer.joint(c) }
end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.channels, state = s.state } end

--- Nine operations per token, channel and state (state-spaces/mamba, issue 110, by the authors). Backward repeats the
--- scan and computes the gradients of both factors.
function op.flops(s, pass) return (pass == "backward" and 27.0 or 9.0) * s.tokens * s.channels * s.state end

-- Cycles of a multiprocessor per token, channel and state: 1.92 for both passes. The arithmetic of csrc/selective_scan
-- would take a sixth. But blocks of 128 threads may hold up to 168 registers each, so few warps share a scheduler, and
-- they wait for each other in the scan of each state. Each channel also reads all of B and C from the cache. Backward
-- repeats the scan, and adds the gradients of B and C atomically for each channel.
local cycles = { forward = 0.6, backward = 1.32 }

local generations = { volta = true, ampere = true, ada = true, hopper = true, blackwell = true }

--- Seconds of selective_scan_fn in 16 bits. The sum of both passes is the geometric mean of four shapes on RTX 4090
--- (Eppie/mamba_melee@a8c8e3a, notes/scan_variants.md), which take 0.83 to 1.27 times as long. Their shares are 27.5 to
--- 60.2, from a profile on RTX 4080 (Postroggy/tgengine@786ddfa, docs/mamba_fwdbwd_research.md). Not used for the fit:
--- 17 ms on a laptop's RTX 4070, in fp32 (johanwind/flex_rnn@52969bc). 1.92 cycles are 14 ms there at 2 GHz and 18 at
--- 1.6. RTX 4090 takes 1.3 to 2.3 times as long in fp32 as here.
function op.law(s, device, pass)
  if not (device.multiprocessors and generations[device.generation]) then return nil end
  local computed = cycles[pass] * s.tokens * s.channels * s.state / device:cycles()
  return 3e-6 + math.max(computed, op.bytes(s, "bf16", pass) / device.memory_bandwidth), 0.5,
    device.generation ~= "ada" and "assumed" or nil
end

--- On other devices: as many instructions as fit into these cycles, 128 in each.
function op.instructions(s, pass) return 128 * cycles[pass] * s.tokens * s.channels * s.state end

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
