--- Helpers that compute a shape from a configuration.
--
-- The configuration `c` describes one layer on one device of a plan (operators/README.md lists its fields). The shape
-- `s` holds plain integers, already divided by tp, cp and ep.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local shapes = {}

--- value / degree. Raises if the quotient is not an integer.
function shapes.divide(what, value, by, degree)
  if value % degree ~= 0 then
    error_module.raise("plan", "%s = %d must be divisible by %s = %d", what, value, by, degree)
  end
  return value // degree
end

--- Tokens of one micro-batch on one context rank.
function shapes.tokens(c) return c.micro_batch * shapes.divide("seq", c.seq, "cp", c.cp or 1) end

--- Tokens outside tensor-parallel regions: split over tp under sequence parallelism.
function shapes.norm_tokens(c)
  local tokens = shapes.tokens(c)
  if not c.sequence_parallel then return tokens end
  if tokens % c.tp ~= 0 then -- tokens of the plan's own sequence pass its rules
    error_module.raise("plan", "tp = %d must divide tokens = %d under sequence_parallel; with = { sequence_parallel = "
      .. "false } gives every tensor rank all of them", c.tp, tokens)
  end
  return tokens // c.tp
end

--- Tokens whose copies a tensor-parallel rank sends to experts: those outside tensor-parallel regions. If the software
--- gathers the stream before the router, all (whole_tokens; see around_experts of collective.lua).
function shapes.routed_tokens(c)
  return c.whole_tokens and c.whole_tokens ~= "router" and shapes.tokens(c) or shapes.norm_tokens(c)
end

--- Tokens whose copies come back to a tensor-parallel rank.
function shapes.returned_tokens(c) return c.whole_tokens == "both" and shapes.tokens(c) or shapes.norm_tokens(c) end

--- Vocabulary padded to a multiple of `multiple` rows on every tensor rank (Megatron and NeoX:
--- make_vocab_size_divisible_by = 128).
function shapes.padded_vocab(vocab, tp, multiple)
  local unit = (multiple or 128) * tp
  return (vocab + unit - 1) // unit * unit
end

--- Rows of the padded vocabulary on one tensor rank.
function shapes.local_vocab(c) return shapes.padded_vocab(c.vocab, c.tp, c.vocab_multiple) // c.tp end

--- Key/value heads on one tensor rank: at least one, replicated if tp exceeds them (Megatron).
function shapes.local_kv_heads(c)
  local kv = c.kv_heads or c.heads
  if kv >= c.tp then return shapes.divide("kv_heads", kv, "tp", c.tp) end
  return 1
end

--- Share of the local key/value heads that the model has: less than 1 if tensor ranks hold replicas.
function shapes.kv_share(c) return (c.kv_heads or c.heads) / (shapes.local_kv_heads(c) * c.tp) end

function shapes.local_heads(c) return shapes.divide("heads", c.heads, "tp", c.tp) end

--- Context ranks that exchange tokens for heads: each has all rows of their chunks, for its share of the heads (Jacobs
--- et al. 2023, arXiv 2309.14509; in a ring: Fang and Zhao 2024, arXiv 2405.07719).
function shapes.ulysses(c)
  local cp = c.cp or 1
  return c.cp_method == "ulysses" and cp or math.min(cp, c.cp_ulysses or 1)
end

--- Heads, key/value heads and query rows of one rank in the attention core.
function shapes.attention(c)
  local heads, kv, ulysses = shapes.local_heads(c), shapes.local_kv_heads(c), shapes.ulysses(c)
  return shapes.divide("heads / tp", heads, "ulysses ranks", ulysses), math.max(1, kv // ulysses),
    shapes.divide("seq", c.seq, "cp", c.cp or 1) * ulysses
end

--- Keys of the attention core: key_seq of cross-attention, else seq. Raises if a causal mask leaves queries without
--- keys.
function shapes.keys(c)
  if c.causal ~= false and c.key_seq and c.key_seq < c.seq then
    error_module.raise("model", "a causal mask needs at least as many keys as queries, got key_seq = %d and seq = %d; "
      .. "causal = false removes the mask", c.key_seq, c.seq)
  end
  return c.key_seq or c.seq
end

function shapes.head_dim(c) return c.head_dim or shapes.divide("hidden", c.hidden, "heads", c.heads) end

--- Raises if `c` lacks a field that an operator needs.
function shapes.need(c, who, ...)
  local missing = {}
  for _, name in ipairs { ... } do
    if c[name] == nil then missing[#missing + 1] = ("'%s'"):format(name) end
  end
  if #missing > 0 then
    error_module.raise("model", "%s needs the field%s %s", who, #missing > 1 and "s" or "",
      table.concat(missing, ", "))
  end
end

--- 1 if a linear layer has biases, else nil. The first of the named fields of `c` that is set decides, else `bias`. The
--- values false and 0 mean none.
function shapes.bias(c, ...)
  for _, name in ipairs { ... } do if c[name] ~= nil then return c[name] and c[name] ~= 0 and 1 or nil end end
  return c.bias and 1 or nil
end

--- The number of token copies on the busiest expert-parallel rank, computed from the number with balanced routing.
function shapes.loaded(c, count)
  local load = c.expert_load or 1
  return load == 1 and count or math.max(1, math.ceil(count * load - 1e-9))
end

--- Number of token copies that the experts of a rank receive with balanced routing. The etp ranks of a group receive
--- the same copies.
function shapes.copies(c) return shapes.tokens(c) * c.top_k * (c.etp or c.tp) / c.tp end

--- Experts of one rank, tokens per expert, and the width of an expert on one tensor rank. With balanced routing the
--- experts of a rank receive as many token copies as the rank sends: top_k per token. The busiest rank receives
--- expert_load times as many.
function shapes.experts(c)
  local etp = c.etp or c.tp
  local experts = shapes.divide("experts", c.experts, "ep", c.ep or 1)
  local copies = shapes.loaded(c, math.floor(shapes.copies(c)))
  return experts, math.max(1, (copies + experts - 1) // experts),
    shapes.divide("moe_ffn", c.moe_ffn or c.ffn, "etp", etp)
end

--- Two numbers of one mask: places for copies of tokens in the buffers of all experts, and tokens. nil, unless products
--- with one-hot masks move tokens to experts of a fixed capacity. A mask is of one sequence (MaxText, layers/moe.py,
--- generate_masks) or of all tokens that a rank routes (DeepSpeed, moe/sharded_moe.py, top1gating).
function shapes.mask(c)
  if not c.mask_capacity then return nil end
  local tokens = shapes.routed_tokens(c) * c.mask_sequences // c.micro_batch
  return c.experts * math.max(1, math.floor(tokens * c.top_k / c.experts * c.mask_capacity)), tokens
end

--- Bytes of the one-hot mask of a shape, which the backward pass of its product reads; 0 without one. MaxText's mask to
--- the experts is boolean (generate_masks). It is assumed that its cast for the product is what stays.
function shapes.mask_bytes(s, dtype) return s.slots and schema.wide_bytes(dtype) * s.tokens * (s.slots + 0.0) or 0.0 end

--- Width of the dense MLP on one tensor rank.
function shapes.local_ffn(c) return shapes.divide("ffn", c.ffn or 4 * c.hidden, "tp", c.tp) end

return shapes
