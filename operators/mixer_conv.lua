--- Causal depthwise convolution over a few tokens, then SiLU, before a state-space or linear-attention scan.
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"

local op = { name = "mixer_conv", aliases = { "causal_conv1d" }, family = "elementwise",
  summary = "causal convolution of each channel, before a scan" }

op.schema = { tokens = "count", channels = "count", taps = "count", bias = "natural?",
  joint = "natural?" }

function op.shape(c)
  local d = mixer.dims(c)
  return { tokens = mixer.tokens(c), channels = d.channels, taps = c.conv_kernel or 4, bias = d.convolution_bias,
    joint = mixer.joint(c) }
end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.channels, taps = s.taps } end

--- One multiply-add per tap, four operations for SiLU. Backward: gradients of inputs and taps, and the slope of SiLU.
function op.flops(s, pass)
  return (s.tokens + 0.0) * s.channels * (pass == "backward" and 4 * s.taps + 8 or 2 * s.taps + 4)
end

function op.parameters(s) return s.channels * (s.taps + (s.bias or 0)) end

memory.define(op, { forward = { reads = 1, writes = 1 }, backward = { reads = 2, writes = 1 }, saved = 1 })

--- A function that also spans the scan stores the convolution's input alone (mamba_ssm, Megatron-Core).
function op.repeats(s, stack) return s.joint ~= nil and stack.mamba ~= "separate" end

--- Seconds: a fixed start, and 4.5e9 elements/s per multiprocessor. Median error 2 to 15 % against causal-conv1d of
--- SGLang 0.5.14 and vLLM 0.24 on H100, H200, B200 and GB300 (NVIDIA AIConfigurator's tables, Apache 2.0).
--- Backward passes are not measured: the forward time is scaled by bytes.
function op.law(s, device, pass)
  if not (device.multiprocessors and (device.generation == "hopper" or device.generation == "blackwell")) then
    return nil
  end
  local elements = (s.tokens + 0.0) * s.channels
  local forward = 3e-6 + math.max(elements / (4.5e9 * device.multiprocessors), 4 * elements / device.memory_bandwidth)
  if pass == "forward" then return forward, 0.15 end
  return forward * 1.5, 0.5
end

return op
