--- Dimensions on one tensor rank of sequence mixers other than softmax attention: Mamba (Gu & Dao 2023), Mamba-2 (Dao &
--- Gu 2024), the gated delta net (Yang et al. 2024), Kimi delta attention (arXiv 2510.26692), lightning attention
--- (MiniMax-01, arXiv 2501.08313) and short convolutions (LFM2, arXiv 2511.23404). Heads, groups and the inner width
--- are split over tensor ranks.
--
--   mixer.dims(c, "mamba2").columns   -- of the input projection
local error_module = require "ett.base.error"
local gemm = require "ett.operator.gemm"
local merged = require "ett.base.merged"
local shapes = require "ett.operator.shapes"

local mixer = {}

--- Mamba: the input projection gives x and z; a projection of x gives B, C and the compressed time steps.
local function mamba(c)
  local inner = shapes.divide("ssm_inner", c.ssm_inner or 2 * c.hidden, "tp", c.tp)
  return { inner = inner, state = c.ssm_state or 16, rank = c.ssm_dt_rank or (c.hidden + 15) // 16,
    columns = 2 * inner, channels = inner, convolution_bias = 1 }
end

--- Mamba-2: the input projection gives z, x, B, C and a time step per head. Each rank has at least one group of B and
--- C. replicas: the part of these groups that other ranks also hold.
local function mamba2(c)
  local inner, head_dim = c.ssm_inner or 2 * c.hidden, c.ssm_head_dim or 64
  local heads = shapes.divide("ssm_heads", c.ssm_heads or shapes.divide("ssm_inner", inner, "ssm_head_dim", head_dim),
    "tp", c.tp)
  local all, state = c.ssm_groups or 1, c.ssm_state or 128
  local groups = all >= c.tp and shapes.divide("ssm_groups", all, "tp", c.tp) or 1
  local local_inner = heads * head_dim
  return { inner = local_inner, heads = heads, head_dim = head_dim, groups = groups, state = state,
    columns = 2 * local_inner + 2 * groups * state + heads, channels = local_inner + 2 * groups * state,
    convolution_bias = 1, chunk = c.scan_chunk or 256, replicas = groups - all / c.tp }
end

--- Gated delta net: queries, keys, values, the output gate, and two numbers per value head. Kimi delta attention
--- (linear_gate_rank): one number per value head; the gate and a decay per channel are projected by linear_gate_up.
local function gated_delta(c)
  shapes.need(c, "the gated delta net", "linear_key_heads", "linear_value_heads")
  local keys = shapes.divide("linear_key_heads", c.linear_key_heads, "tp", c.tp)
  local values = shapes.divide("linear_value_heads", c.linear_value_heads, "tp", c.tp)
  local key_dim, value_dim = c.linear_key_dim or 128, c.linear_value_dim or 128
  local channels, rank = 2 * keys * key_dim + values * value_dim, c.linear_gate_rank
  if rank and key_dim ~= value_dim then
    error_module.raise("model", "linear_gate_rank needs linear_key_dim = linear_value_dim, got %d and %d", key_dim,
      value_dim)
  end
  return { inner = values * value_dim, heads = values, key_heads = keys, key_dim = key_dim, value_dim = value_dim,
    columns = channels + (rank and values or values * value_dim + 2 * values), channels = channels,
    chunk = c.scan_chunk or 64, rank = rank, decays = rank and key_dim or nil }
end

--- Linear attention (lightning attention, RetNet): queries and keys of each head, values and an output gate. decays: of
--- each channel of the keys (gated linear attention), else one of each head.
local function lightning(c)
  local heads = c.linear_value_heads and shapes.divide("linear_value_heads", c.linear_value_heads, "tp", c.tp)
    or shapes.local_heads(c)
  local head_dim = c.linear_value_dim or shapes.head_dim(c)
  local key_dim = c.linear_key_dim or head_dim
  local inner, keys = heads * head_dim, heads * key_dim
  return { inner = inner, heads = heads, head_dim = head_dim, key_dim = key_dim, columns = 2 * (keys + inner),
    channels = 2 * keys + inner, decays = c.linear_decays and key_dim or nil, chunk = c.scan_chunk or 256 }
end

--- Gated short convolution: the input projection gives two gates and the convolved stream.
local function short_conv(c)
  local inner = shapes.divide("hidden", c.hidden, "tp", c.tp)
  return { inner = inner, columns = 3 * inner, channels = inner, convolution_bias = c.ssm_bias and 1 or nil }
end

mixer.kinds = { mamba = mamba, mamba2 = mamba2, gated_delta = gated_delta, lightning = lightning,
  short_conv = short_conv }

local function kind_of(c)
  return c.mixer or c.linear_value_heads and "gated_delta" or c.ssm_dt_rank and "mamba" or "mamba2"
end

--- Dimensions of the configuration's mixer on one tensor rank. Without c.mixer the fields decide which mixer it is.
---@param kind string? the mixer that the calling operator belongs to
function mixer.dims(c, kind) return mixer.kinds[kind or kind_of(c)](c) end

--- 1 if a stack may compute the mixer in one function: Mamba-2, and Mamba without inner norms (Jamba has them).
function mixer.joint(c)
  local kind = kind_of(c)
  return (kind == "mamba2" or kind == "mamba" and not c.ssm_norms) and 1 or nil
end

--- Whether a stack's function spans the convolution, the scan, the norm and the output projection (mamba_ssm,
--- MambaInnerFn and MambaSplitConv1dScanCombinedFn). Its backward pass repeats the convolution and the expansion of
--- time steps.
---@param s table a shape with mixer.joint
function mixer.whole(s, stack) return s.joint ~= nil and stack ~= nil and stack.mamba == "whole" end

--- A linear layer of a mixer, whose shape has mixer.joint.
function mixer.linear(op, layer)
  gemm.linear(op, layer)
  local shape = op.shape
  op.schema = merged(op.schema, { joint = "natural?" })
  function op.shape(c) return merged(shape(c), { joint = mixer.joint(c) }) end
  return op
end

--- 1 if the mixer's projections have biases, else nil.
function mixer.bias(c) return c.ssm_bias and 1 or nil end

--- Tokens of whole sequences. Raises under context parallelism, which a scan does not support.
function mixer.tokens(c)
  if (c.cp or 1) > 1 then
    error_module.raise("plan", "cp = %d: ett has no context parallelism for state-space and linear-attention layers; "
      .. "cp must be 1", c.cp)
  end
  return shapes.tokens(c)
end

return mixer
