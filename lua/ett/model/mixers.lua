--- Sequence mixers other than softmax attention, as entries of a layer: Mamba, Mamba-2, the gated delta net, Kimi delta
--- attention, lightning attention, short convolutions.
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local mixers = {}

--- Sums over tensor ranks of Mamba's B, C and compressed time step: values in forward, gradients in backward.
function mixers.sums()
  local function elements(c)
    local d = mixer.dims(c, "mamba")
    return (shapes.tokens(c) + 0.0) * (d.rank + 2 * d.state)
  end
  return { { collective = "all_reduce", group = "tp", pass = "forward", elements = elements },
    { collective = "all_reduce", group = "tp", pass = "backward", elements = elements } }
end

--- Norms of the time step, B and C (Jamba).
local function norms(h, with)
  if not h.ssm_norms then return {} end
  local list = {}
  for i, field in ipairs { "rank", "state", "state" } do
    list[i] = { op = h.norm or "rms_norm", with = function(c)
      local own = setmetatable({ mixer = with.mixer }, { __index = c })
      return { hidden = mixer.dims(own)[field], sequence_parallel = false }
    end }
  end
  return list
end

local function mamba(h, op, with)
  return { op "linear_mixer_in", op "mixer_conv", op "linear_ssm_x", mixers.sums(), norms(h, with), op "linear_ssm_dt",
    op "selective_scan", op "linear_mixer_out" }
end

--- Without its norm the output of the scan is only multiplied by the gate (Falcon-H1).
local function mamba2(h, op)
  local function width(c)
    local d = mixer.dims(c, "mamba2")
    return { heads = d.heads * c.tp, head_dim = d.head_dim }
  end
  return { op "linear_mixer_in", op "mixer_conv", op "ssd_scan",
    h.ssm_output_norm == false and { op = "attention_gate", with = width } or op "gated_norm", op "linear_mixer_out" }
end

local function gated_delta(h, op)
  return { op "linear_mixer_in", h.linear_gate_rank and { op "linear_gate_down", op "linear_gate_up" } or {},
    op "mixer_conv", op "gated_delta_rule", op "gated_norm", op "linear_mixer_out" }
end

--- SiLU of queries, keys and values (the time of gelu) in MiniMax-01; norms and positions of queries and keys in Ring.
local function lightning(h, op)
  local function local_heads(c) return mixer.dims(c, "lightning").heads end
  local function key_dim(c) return mixer.dims(c, "lightning").key_dim end
  local silu = { op = "gelu", with = function(c) return { ffn = mixer.dims(c, "lightning").channels * c.tp } end }
  local norm = { op = h.norm or "rms_norm", times = 2, with = function(c)
    return { hidden = key_dim(c), micro_batch = c.micro_batch * local_heads(c), sequence_parallel = false }
  end }
  local positions = { op = "rope", with = function(c)
    local heads = local_heads(c) * c.tp
    return { heads = heads, kv_heads = heads, head_dim = key_dim(c) }
  end }
  return { op "linear_mixer_in", h.linear_silu ~= false and silu or {}, h.qk_norm and norm or {},
    h.linear_rope and positions or {}, op "linear_attention", op "gated_norm", op "linear_mixer_out" }
end

local function short_conv(_, op) return { op "linear_mixer_in", op "short_conv", op "linear_mixer_out" } end

local lists = { mamba = mamba, mamba2 = mamba2, gated_delta = gated_delta, lightning = lightning,
  short_conv = short_conv }

--- Entries of a mixer inside its tensor-parallel region; lists of entries are nested.
---@param kind string of ett.operator.mixer.kinds
function mixers.entries(h, kind)
  local with = { mixer = kind }
  return lists[kind](h, function(name) return { op = name, with = with } end, with)
end

return mixers
