--- Fused attention that does not store its probabilities (Dao 2023, arXiv 2307.08691).
local wide_bytes = require("ett.base.schema").wide_bytes
local merged = require "ett.base.merged"
local shapes = require "ett.operator.shapes"

local op = { name = "flash_attention", aliases = { "fused_attention" }, family = "attention",
  summary = "fused attention over local heads", selective = true, attends = true }

op.schema = { batch = "count", heads = "count", kv_heads = "count", seq_q = "count", seq_k = "count",
  head_dim = "count", value_dim = "count?", causal = "natural", window = "count?",
  shards = "count?", ring = "count?", gathered = "count?", stored_keys = "count?" }

op.constraints = {
  { "heads must be divisible by kv_heads", function(s) return s.heads % s.kv_heads == 0 end },
  { "causal must be 0 or 1", function(s) return s.causal <= 1 end },
  { "a causal mask needs at least as many keys (seq_k) as queries (seq_q)",
    function(s) return s.causal == 0 or s.seq_q <= s.seq_k end },
}

--- key_seq: keys of cross-attention; stored_keys: those of this rank. value_dim: the width of values if it differs
--- (multi-head latent attention). gathered: ranks that gather keys, one chunk of the sequence each.
function op.shape(c)
  local value, ranks = c.v_head_dim, (c.cp or 1) // shapes.ulysses(c) -- of a ring or a gather
  local split = ranks > 1
  local heads, kv_heads, rows = shapes.attention(c)
  local keys = shapes.keys(c)
  local widest = keys * (c.causal == false and 2 or 1) -- half of a window on each side, without a mask
  return { batch = c.micro_batch, heads = heads, kv_heads = kv_heads,
    seq_q = rows, seq_k = keys, head_dim = shapes.head_dim(c),
    value_dim = value and value ~= shapes.head_dim(c) and value or nil, causal = c.causal == false and 0 or 1,
    window = c.window and c.window < widest and c.window or nil,
    stored_keys = c.key_seq and c.key_seq ~= c.seq
      and (split and shapes.divide("tokens of the encoder", c.key_seq, "cp", ranks) or c.key_seq) or nil,
    shards = split and c.cp_balanced ~= false and ranks or nil,
    ring = split and c.cp_method == "ring" and ranks or nil,
    gathered = split and c.cp_method ~= "ring" and c.cp_balanced == false and ranks or nil }
end

--- Computed query-key pairs per head and sequence. A causal mask is aligned at the bottom right: a query attends to all
--- keys before the first query, and on average to half of the queries' own keys. A context-parallel rank (shards) holds
--- an early and a late chunk of the sequence: half of all pairs. A sliding window leaves a band: the keys up to the
--- query, or without a mask half of them on each side.
local function pairs_of(s)
  local all = (s.seq_q + 0.0) * s.seq_k
  if s.window then
    return s.seq_q * (s.window - s.window * (s.causal == 0 and 0.25 or 0.5) * (s.window / s.seq_k))
  end
  if s.causal == 0 then return all end
  return s.shards and all / 2 or s.seq_q * (s.seq_k - s.seq_q / 2)
end

--- Two products forward; five backward (scores again, dV, dP, dQ, dK).
function op.flops(s, pass)
  local value = s.value_dim or s.head_dim
  local dims = pass == "backward" and 3 * s.head_dim + 2 * value or s.head_dim + value
  return 2.0 * s.batch * s.heads * dims * pairs_of(s)
end

--- FLOPs of the model: context ranks share the pairs of a causal mask evenly, whatever the partition of the sequence.
function op.model_flops(s, c)
  if s.causal == 0 or s.window or not c.cp or c.cp == 1 or c.cp_method == "ulysses" then
    return op.flops(s, "forward")
  end
  return 2.0 * s.batch * s.heads * (s.head_dim + (s.value_dim or s.head_dim)) * (s.seq_q + 0.0) * s.seq_k / 2
end

function op.bytes(s, dtype, pass)
  local b = wide_bytes(dtype)
  local dims = s.head_dim + (s.value_dim or s.head_dim)
  local both = (s.batch + 0.0) * s.heads * s.seq_q * dims -- queries and outputs
  local kv = (s.batch + 0.0) * s.kv_heads * s.seq_k * dims
  local stats = 4.0 * s.batch * s.heads * s.seq_q
  if pass == "backward" then return b * (2 * both + 2 * kv) + 2 * stats end
  return b * (both + kv) + stats
end

-- Queries, keys and values in elements.
local function inputs(s)
  local kv = s.kv_heads * (s.head_dim + (s.value_dim or s.head_dim))
  return (s.batch + 0.0) * (s.seq_q * s.heads * s.head_dim + (s.stored_keys or s.seq_q) * kv)
end

--- Stores q, k and v for recomputation.
function op.recomputed_bytes(s, dtype) return wide_bytes(dtype) * inputs(s) end

--- The output, in 16 bits.
function op.output_bytes(s, dtype)
  return wide_bytes(dtype) * (s.batch + 0.0) * s.heads * s.seq_q * (s.value_dim or s.head_dim)
end

--- Stores q, k and v, in 8 bits if its products have 8 bits, and the fp32 log-sum-exp of each row. The following
--- projection stores the output. Ring attention stores the output once more (Transformer Engine copies the accumulated
--- result).
function op.activation_bytes(s, dtype, stack)
  local wide, eight = wide_bytes(dtype), stack and stack.attention_dtype == "fp8"
  local out = s.ring and wide * (s.value_dim or s.head_dim) or 0
  return (eight and 1 or wide) * inputs(s) + (4.0 + out) * s.batch * s.heads * s.seq_q
end

-- Keys and values, and their gradients, that context parallelism of Transformer Engine holds in a backward pass, over
-- the keys and values of all ranks (context_parallel.py). AttnFuncWithCPAndKVAllGather gathers them again, and has the
-- sums of their gradients and those of its two kernels. AttnFuncWithCPAndKVP2P has two buffers of a rank's keys, values
-- and their gradients, and the gradients of a kernel, once more in one tensor.
local function held_keys(s, stack)
  if not stack or stack.context_parallel ~= "te" then return 1 end
  return s.ring and 6 / s.ring or (s.shards or s.gathered) and 3 or 1
end

--- Gradients of output, queries, keys and values, and the fp32 accumulator of the query gradient (FlashAttention 2,
--- cuDNN).
function op.working_bytes(s, dtype, stack)
  local value = s.value_dim or s.head_dim
  local rows, keys = (s.batch + 0.0) * s.heads * s.seq_q, (s.batch + 0.0) * s.kv_heads * s.seq_k * held_keys(s, stack)
  return wide_bytes(dtype) * (rows + keys) * (s.head_dim + value) + 4.0 * rows * s.head_dim
end

--- Head dimension of a single kernel for both products: equal FLOPs forward, within 4 % backward (DeepSeek: 192 and 128
--- give 160).
local function kernel_dim(s) return s.value_dim and (s.head_dim + s.value_dim) // 2 or s.head_dim end

function op.kernel_shape(s)
  return { batch = s.batch, heads = s.heads, kv_heads = s.kv_heads, seq_q = s.seq_q, seq_k = s.seq_k,
    head_dim = kernel_dim(s), causal = s.causal ~= 0, window = s.window }
end

--- A small shape for checks of outputs. It keeps grouped heads and more keys than queries, in lengths that cuDNN
--- supports.
function op.small(s)
  local small, grouped = merged(s), s.heads > s.kv_heads
  small.batch, small.kv_heads = math.min(s.batch, 2), math.min(s.kv_heads, grouped and 1 or 2)
  small.heads = grouped and 2 or small.kv_heads
  small.seq_q, small.seq_k = math.min(s.seq_q, 64), math.min(s.seq_k, s.seq_k > s.seq_q and 128 or 64)
  small.head_dim, small.value_dim = math.min(s.head_dim, 32), s.value_dim and math.min(s.value_dim, 32)
  small.window = s.window and math.min(s.window, 16)
  return small
end

function op.kernel(k, s, pass)
  local dim = kernel_dim(s)
  local q = { s.batch, s.heads, s.seq_q, dim }
  local kv = { s.batch, s.kv_heads, s.seq_k, dim }
  local call = { q = k.tensor(q), k = k.tensor(kv), v = k.tensor(kv), out = k.tensor(q),
    stats = k.tensor { s.batch, s.heads, s.seq_q, dtype = "fp32" }, batch = s.batch, heads = s.heads,
    kv_heads = s.kv_heads, seq_q = s.seq_q, seq_k = s.seq_k, head_dim = dim,
    causal = s.causal ~= 0, window = s.window, pass = pass }
  if pass == "backward" then
    call.dout, call.dq, call.dk, call.dv = k.tensor(q), k.tensor(q), k.tensor(kv), k.tensor(kv)
  end
  k.attention(call)
end

op.torch = [[
if s.window:
    raise NotImplementedError("scaled_dot_product_attention has no sliding window")
q = tensor(s.batch, s.heads, s.seq_q, s.head_dim)
k = tensor(s.batch, s.kv_heads, s.seq_k, s.head_dim)
v = tensor(s.batch, s.kv_heads, s.seq_k, s.value_dim or s.head_dim)
groups = s.heads // s.kv_heads
if not hasattr(F, "scaled_dot_product_attention"):  # PyTorch 1: written out
    hidden = torch.ones(s.seq_q, s.seq_k, dtype=torch.bool, device=q.device).triu(1 + s.seq_k - s.seq_q)
    def attention():
        keys, values = (x.repeat_interleave(groups, 1) if groups > 1 else x for x in (k, v))
        scores = torch.matmul(q * s.head_dim ** -0.5, keys.transpose(-2, -1))
        return torch.matmul(F.softmax(scores.masked_fill(hidden, float("-inf")) if s.causal else scores, -1), values)
    return attention
grouped = {"enable_gqa": True} if groups > 1 else {}
if s.causal and s.seq_q != s.seq_k:  # is_causal is aligned at the top left
    from torch.nn.attention.bias import causal_lower_right
    return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(s.seq_q, s.seq_k), **grouped)
return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=bool(s.causal), **grouped)
]]

return op
