--- Memory of a pipeline stage by hand, from papers and the software: parameters, states, stored activations.
-- Decoders of Megatron-Core, dense or of experts, with flash attention or a fused softmax, under one-way schedules.
-- Only names of hyper-parameters and plan fields come from ett.
local memory_oracle = {}

local function ceil_to(x, unit) return (x + unit - 1) // unit * unit end

--- Dense and expert parameters of a layer on one rank, and those of its norms, biases and router, which run in 16 bits.
local function parameters(h, p, experts)
  local hidden, heads, t, one = h.hidden, h.heads, p.tp, h.bias and 1 or 0
  local dim, gates = h.head_dim or hidden // heads, h.gated_mlp and 2 or 1
  local own, n = heads // t, 2 * (h.norm == "layer_norm" and 2 * hidden or hidden)
  local wide = n
  if h.kv_lora_rank then
    local queries, latent = h.qk_nope_head_dim + h.qk_rope_head_dim, h.kv_lora_rank
    n = n + (h.q_lora_rank and hidden * h.q_lora_rank + h.q_lora_rank + h.q_lora_rank * own * queries
      or hidden * own * queries)
    wide = wide + latent + (h.q_lora_rank or 0)
    n = n + hidden * (latent + h.qk_rope_head_dim) + latent
      + latent * own * (h.qk_nope_head_dim + h.v_head_dim) + own * h.v_head_dim * hidden
  else
    local width = (own + 2 * math.max(1, (h.kv_heads or heads) // t)) * dim
    n, wide = n + (hidden + one) * width + own * dim * hidden + one * hidden, wide + one * (width + hidden)
  end
  if not experts then
    local width = h.ffn // t
    return n + (hidden + one) * width * gates + width * hidden + one * hidden, 0, wide + one * (width * gates + hidden)
  end
  local shared, width = h.moe_ffn * (h.shared_experts or 0) // t, h.moe_ffn // p.etp
  return n + hidden * h.experts + shared * hidden * (gates + 1), h.experts // p.ep * hidden * width * (gates + 1),
    wide + hidden * h.experts
end

--- Bytes that attention and its norm store for a micro-batch. b: bytes of an operand; copies: of an input that two
--- products read; s: tokens outside tensor-parallel regions.
local function attention(h, p, tokens, s, b, copies)
  local own, dim = h.heads // p.tp, h.head_dim or h.hidden // h.heads
  local bytes = 2 * s * h.hidden + copies * b * s * h.hidden * (h.kv_lora_rank and 1 or 0)
  if h.kv_lora_rank then
    local queries, value = h.qk_nope_head_dim + h.qk_rope_head_dim, h.v_head_dim
    bytes = bytes + (2 + b) * s * ((h.q_lora_rank or 0) + h.kv_lora_rank)
      + 2 * tokens * own * (2 * queries + value) + 2 * tokens * own * value
  else
    local keys = math.max(1, (h.kv_heads or h.heads) // p.tp)
    bytes = bytes + b * s * h.hidden + 2 * tokens * (own + 2 * keys) * dim + 2 * tokens * own * dim
  end
  if p.recompute == "selective" then return bytes end
  if h.attention == "fused_softmax" then
    -- Probabilities; with dropout also its mask and output. Without Megatron-LM's kernel they are in fp32, too.
    local fused = p.micro_batch * own % 4 == 0 and p.seq % 4 == 0 and p.seq // p.cp % 4 == 0
      and p.seq > 16 and p.seq <= 16384
    return bytes + tokens * p.seq * own * ((h.dropout and 5 or 2) + (fused and 0 or 4))
  end
  -- The rows' statistics; the ring of the stack megatron stores the output once more.
  local width = h.kv_lora_rank and h.v_head_dim or h.head_dim or h.hidden // h.heads
  return bytes + (4 + (p.cp > 1 and 2 * width or 0)) * tokens * own
end

--- Rows of the busiest expert-parallel rank over those of the mean rank: each expert's tokens, the busiest experts
-- first, dealt to the ranks in turn. A token chooses an expert once. An expert drops what exceeds its capacity, or
-- computes its whole capacity.
local function busiest(h, p)
  local weights, shares, rest, most = {}, {}, 0.0, 0.0
  for i = 1, h.experts do
    weights[i] = i ^ -(p.expert_skew or 0)
    rest = rest + weights[i]
  end
  local left, ranks = h.top_k * 1.0, {} -- of a token's choices
  for i = 1, h.experts do
    shares[i] = math.min(1, left * weights[i] / rest)
    left, rest = left - shares[i], rest - weights[i]
    local capacity = p.capacity_factor and p.capacity_factor * h.top_k / h.experts or math.huge
    local rank = (i - 1) % p.ep
    ranks[rank] = (ranks[rank] or 0) + (p.pad_to_capacity and capacity or math.min(capacity, shares[i]))
    most = math.max(most, ranks[rank])
  end
  for rank = 0, p.ep - 1 do most = math.max(most, ranks[rank]) end
  return most * p.ep / h.top_k
end

--- Bytes that a layer stores for a micro-batch (Korthikanti et al. 2022, with flash attention, gates and experts).
local function stored(h, p, experts)
  local tokens = 1.0 * p.micro_batch * p.seq // p.cp
  local s, b = p.sequence_parallel and tokens / p.tp or tokens, p.dtype == "fp8" and 1 or 2
  local gates, hidden = h.gated_mlp and 2 or 1, h.hidden
  local bytes = attention(h, p, tokens, s, b, b == 1 and 2 or 1) + 2 * s * hidden
    + (h.dropout and 2 * s * hidden or 0)
  local function mlp(rows, width) return rows * width * (2 * gates + b) end
  if not experts then return bytes + b * s * hidden + mlp(tokens, h.ffn // p.tp) end
  bytes = bytes + 2 * s * hidden + 4 * s * h.experts + 4 * s * h.top_k -- router; weights of the activations
  if h.shared_experts then
    bytes = bytes + (b == 1 and s * hidden or 0) + mlp(tokens, h.moe_ffn * h.shared_experts // p.tp)
  end
  local rows, own = tokens * h.top_k * p.etp / p.tp, h.experts // p.ep
  if not p.expert_skew then return bytes + b * rows * hidden + mlp(rows, h.moe_ffn // p.etp) end
  rows = math.ceil(rows * busiest(h, p) - 1e-9)
  local whole, width = own * math.ceil(rows / own), h.moe_ffn // p.etp -- operands of products have whole tokens
  return bytes + b * whole * hidden + (2 * gates * rows + b * whole) * width
end

--- Most bytes of the slices of a rank in flight, by walking its order. of: bytes of each slice of the rank.
local function in_flight(p, rank, of)
  local stages, chunks, count = p.pp, #of, p.micro_batches
  if p.schedule == "gpipe" then return count * of[1] end
  local warm = chunks == 1 and stages - 1 - rank or (stages - 1 - rank) * 2 + (chunks - 1) * stages
  local held, most, total = 0, 0, count * chunks
  local function chunk(i, backward)
    local k = i % (stages * chunks) // stages
    return of[backward and chunks - k or k + 1]
  end
  for i = 0, total - 1 do
    held = held + chunk(i)
    most = math.max(most, held)
    if i >= warm then held = held - chunk(i - warm, true) end
  end
  return most
end

local function split(layers, slices)
  local list, left = {}, layers % slices
  for v = 1, slices do list[v] = layers // slices end
  for v = 2, slices - 1 do if left > 0 then list[v], left = list[v] + 1, left - 1 end end
  list[1] = list[1] + left
  return list
end

--- Adds a layer. more: parameters and stored bytes beside those of the transformer layer; `narrow`: of a product.
local function add_layer(one, h, p, layer, more)
  local experts, frozen = h.experts and layer >= (h.first_dense_layers or 0), layer < (p.frozen_layers or 0)
  local dense, expert, wide = parameters(h, p, experts)
  local eight = p.dtype == "fp8" and 1 or 0
  if frozen then
    one.frozen, one.frozen_expert = one.frozen + dense, one.frozen_expert + expert
    return
  end
  one.narrow = one.narrow + eight * (dense - wide + more.narrow)
  one.quantised = one.quantised + eight * (dense + expert - wide + more.narrow)
  one.dense, one.expert = one.dense + dense + more.wide + more.narrow, one.expert + expert
  local bytes = stored(h, p, experts) + more.bytes
  if p.recompute == "full" then -- keeps the input; one layer at a time stores the rest
    local input = 2.0 * p.micro_batch * p.seq // p.cp * h.hidden / (p.sequence_parallel and p.tp or 1)
    one.again, bytes = math.max(one.again, bytes - input), input
  end
  one.bytes = one.bytes + bytes
end

local nothing = { wide = 0, narrow = 0, bytes = 0 }

--- Dense and expert parameters, dense weights and all weights of 8-bit products, and stored bytes, of each slice.
-- Slices with uses of the embedding's table have `table`: "owner" or "copy".
local function slices_of(h, p)
  local list, layer, count, predicted = {}, 0, p.pp * (p.vp or 1), h.mtp_layers or 0
  local tokens = 1.0 * p.micro_batch * p.seq // p.cp
  local s, b = p.sequence_parallel and tokens / p.tp or tokens, p.dtype == "fp8" and 1 or 2
  local rows, norm = ceil_to(h.vocab, 128 * p.tp) // p.tp, h.norm == "layer_norm" and 2 * h.hidden or h.hidden
  -- Norms of the stream, of the embedding and of the output; the product that joins the first two; numbers of tokens.
  local mtp = { wide = 3 * norm, narrow = 2 * h.hidden * h.hidden,
    bytes = 3 * 2 * s * h.hidden + 2 * b * s * h.hidden + 8 * tokens }
  for v, layers in ipairs(p.split or split(h.layers, count)) do
    local one = { dense = 0, expert = 0, narrow = 0, quantised = 0, frozen = 0, frozen_expert = 0, bytes = 0,
      again = 0, rows = rows * h.hidden }
    for _ = 1, layers do
      add_layer(one, h, p, layer, nothing)
      layer = layer + 1
    end
    if v == 1 then -- tables; 64-bit numbers of tokens and positions; the mask of the embedding's dropout
      local to = p.frozen_layers and "frozen" or "dense"
      one[to] = one[to] + (rows + (h.max_positions or 0)) * h.hidden
      one.bytes = one.bytes + (p.frozen_layers and 0 or 8 * tokens * (h.max_positions and 2 or 1)
        + (h.dropout and s * h.hidden or 0))
      one.table = "owner"
    end
    if v == (p.mtp_slice or count) and predicted > 0 then
      for _ = 1, predicted do add_layer(one, h, p, h.layers - 1 + (p.frozen_layers or 0), mtp) end
      one.table = one.table or "copy"
    end
    one.ends = v == count or v == (p.mtp_slice or count) and predicted > 0
    if v == count then -- final norm, head, 16-bit logits; the head of each layer of multi-token prediction
      one.dense = one.dense + norm + (h.tied_embeddings and 0 or rows * h.hidden)
      local input = p.frozen_layers and h.tied_embeddings and 0 or 2 * s * h.hidden -- for gradients of the head
      one.bytes = one.bytes + 2 * s * h.hidden + (1 + predicted) * (input + 2 * tokens * rows)
      one.table = one.table or h.tied_embeddings and "copy"
    end
    list[v] = one
  end
  return list
end

--- The weights of a stage: a copy of the embedding's table only if the embedding is on another stage.
local function weights_of(p, slices, rank)
  local sum, owner, copy = { dense = 0, expert = 0, narrow = 0, quantised = 0, frozen = 0, frozen_expert = 0 }, false,
    false
  for v = rank + 1, #slices, p.pp do
    for name in pairs(sum) do sum[name] = sum[name] + slices[v][name] end
    owner, copy = owner or slices[v].table == "owner", copy or slices[v].table == "copy"
  end
  local to = p.frozen_layers and "frozen" or "dense"
  if copy and not owner then sum[to] = sum[to] + slices[1].rows end
  return sum
end

--- Each stage: { parameters, weight_bytes, gradient_bytes, optimizer_bytes, activation_bytes }. With full recomputation
-- a stage of a head has no activation_bytes: its logits are free again when a layer runs.
function memory_oracle.stages(h, p)
  local slices, list = slices_of(h, p), {}
  local data, expert_data = p.dp * p.cp, p.dp * p.cp * p.tp // (p.ep * p.etp)
  for rank = 0, p.pp - 1 do
    local w, of = weights_of(p, slices, rank), {}
    local again, ends = 0, false
    for v = rank + 1, #slices, p.pp do
      of[#of + 1] = slices[v].bytes
      again, ends = math.max(again, slices[v].again), ends or slices[v].ends
    end
    local dense, expert, narrow, quantised = w.dense, w.expert, w.narrow, w.quantised
    local frozen = p.zero >= 3 and w.frozen / data + w.frozen_expert / expert_data or w.frozen + w.frozen_expert
    local whole, shard = dense + expert, dense / data + expert / expert_data
    -- Transformer Engine on Hopper: a quantised copy of each weight for each pass, beside the 16-bit weights or in
    -- their place. Shards of 16-bit weights have none, and those of quantised weights are one copy.
    local copies = p.stack == "megatron" and 2 * quantised or 0
    if p.zero >= 3 then
      local experts = quantised - narrow
      copies = p.stack == "megatron" and 2 * ((data == 1 and narrow or 0) + (expert_data == 1 and experts or 0))
        or -(data > 1 and narrow / data or 0) - (expert_data > 1 and experts / expert_data or 0)
    end
    list[rank + 1] = { parameters = whole, weight_bytes = 2 * (p.zero >= 3 and shard or whole) + 2 * frozen + copies,
      gradient_bytes = (p.gradient_dtype == "bf16" and 2 or 4) * (p.zero >= 2 and shard or whole),
      optimizer_bytes = 12 * (p.zero >= 1 and shard or whole),
      activation_bytes = not (ends and p.recompute == "full") and in_flight(p, rank, of) + again or nil }
  end
  return list
end

--- A random model: architecture and hyper-parameters.
function memory_oracle.model(random)
  local h = { layers = random { 8, 11, 16, 24 }, hidden = random { 1024, 2048 }, heads = 16,
    vocab = random { 32000, 50257 }, tied_embeddings = random { true, false }, mtp_layers = random { nil, nil, 1, 2 } }
  local kind = random { "llama", "gpt", "mixtral", "mixtral" }
  if kind == "gpt" then
    h.ffn, h.norm, h.position, h.max_positions, h.bias, h.dropout = 4 * h.hidden, "layer_norm", "learned", 4096, true,
      random { true, false }
    h.attention = random { "flash", "fused_softmax" }
    return kind, h
  end
  h.norm, h.position, h.gated_mlp, h.ffn = "rms_norm", "rope", true, 2816
  h.kv_heads = random { 8, 16 }
  if kind == "llama" then return kind, h end
  h.experts, h.top_k, h.moe_ffn = 16, random { 1, 2, 6 }, random { 1024, 2048 }
  h.shared_experts, h.first_dense_layers = random { nil, 1, 2 }, random { 0, 1 }
  if random { true, false } then
    h.kv_heads, h.kv_lora_rank, h.qk_nope_head_dim, h.qk_rope_head_dim, h.v_head_dim = nil, 256, 64, 32, 64
    h.q_lora_rank = random { nil, 512 }
  end
  return kind, h
end

--- A random plan of a model under the stack `megatron`.
function memory_oracle.plan(random, h)
  local tp = random { 1, 2, 4, 8 }
  local p = { tp = tp, pp = random { 1, 2, 3, 4 }, dp = random { 1, 2, 8 }, cp = h.attention and 1 or random { 1, 2 },
    ep = h.experts and random { 1, 2, 4 } or 1, etp = h.experts and random { 1, tp } or tp, seq = random { 1024, 2048 },
    micro_batch = random { 1, 2 }, micro_batches = 12 * random { 1, 2 }, zero = random { 0, 1, 2, 3 },
    sequence_parallel = tp > 1 and random { true, false }, recompute = random { "none", "selective", "full" },
    schedule = random { "gpipe", "1f1b", "interleaved" }, gradient_dtype = random { "fp32", "bf16" },
    dtype = random { "bf16", "fp8" }, stack = random { "megatron", "megatron:quantised_weights=only" },
    fused_accumulation = true }
  if p.schedule == "interleaved" then
    p.schedule, p.vp = p.pp > 1 and "interleaved" or "1f1b", p.pp > 1 and 2 or nil
  end
  local slices, left = p.pp * (p.vp or 1), h.layers
  if slices > 1 and random { true, false } then -- unlike stages; layers of multi-token prediction before the head
    local last = h.mtp_layers and random { slices, slices - 1, math.max(1, slices - 2) } or slices
    p.split, p.mtp_slice = {}, h.mtp_layers and last or nil
    for v = 1, slices do
      p.split[v] = v == last and left or v > last and 0 or math.min(left, random { 0, 1, 2, 3, 5 })
      left = left - p.split[v]
    end
  end
  if h.experts and random { true, false } then
    p.expert_skew, p.capacity_factor = random { 0, 0.5, 1 }, random { nil, 1.25, 2 }
    p.pad_to_capacity = p.capacity_factor and random { true, false } or nil
  end
  if p.dtype == "bf16" and random { true, false, false } then p.frozen_layers = random { 1, 2, 7 } end
  return p
end

return memory_oracle
