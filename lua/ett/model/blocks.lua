--- Parts of architectures: attention, MLPs, embedding and head.
--
-- Each function takes hyper-parameters and returns a list of entries; blocks.join concatenates lists.
local error_module = require "ett.base.error"
local layer_kinds = require "ett.model.layer_kinds"
local merged = require "ett.base.merged"
local mixers = require "ett.model.mixers"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"

local blocks = {}

--- Appends entries and lists of entries to a list; nil is skipped.
function blocks.append(list, ...)
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    if type(part) == "string" or (type(part) == "table" and (part.op or part.collective)) then
      list[#list + 1] = part
    elseif type(part) == "table" and (part[1] ~= nil or next(part) == nil) then
      table.move(part, 1, #part, #list + 1, list)
    elseif part then
      error_module.raise("model", "%sa part of a layer must be an operator's name, an entry or a list of them, got %s",
        error_module.line(2), schema.describe(part))
    end
  end
  return list
end

--- Concatenates lists of entries; nil is skipped.
function blocks.join(...) return blocks.append({}, ...) end

local enter, leave = { collective = "tensor_enter" }, { collective = "tensor_leave" }
blocks.enter, blocks.leave = enter, leave
local enter_head = { collective = "tensor_enter", with = { unquantised = true } }

--- The entries, with fields laid over the configuration that their operators receive.
---@param fields table|fun(c: table): table
function blocks.with(entries, fields)
  local list = {}
  for i, entry in ipairs(blocks.join(entries)) do
    local own = merged(type(entry) == "string" and { op = entry } or entry)
    local inner = own.with
    own.with = function(c)
      local all, seen = {}, setmetatable({}, { __index = c })
      for key, value in pairs(type(fields) == "function" and fields(c) or fields) do
        all[key], seen[key] = value, value
      end
      for key, value in pairs(type(inner) == "function" and inner(seen) or inner or {}) do all[key] = value end
      return all
    end
    list[i] = own
  end
  return list
end

--- Copies of layers that run forward alone, among the layers between embedding and head: a reference, a teacher, an
--- encoder. Their outputs have no gradients.
---@param layers table[]
---@param fields table|fun(c: table): table|nil fields of blocks.with, such as another width
function blocks.forward_only(layers, fields)
  local list = {}
  for i, layer in ipairs(layers) do
    list[i] = merged(layer, { name = layer.name .. " (forward only)", place = "middle", frozen = "layer",
      ops = fields and blocks.with(layer.ops, fields) or layer.ops })
  end
  return list
end

--- The entries on windows of a sequence, each a sequence of its own: windows of an image, frames of a video, or all
--- frames at one place. Only the number of tokens matters, not their order.
---@param tokens integer|fun(c: table): integer tokens of a window
---@param fields table? further fields, as in blocks.with
function blocks.windows(entries, tokens, fields)
  return blocks.with(entries, function(c)
    local given, own = type(tokens) == "function" and tokens(c) or tokens, shapes.divide("seq", c.seq, "cp", c.cp or 1)
    local size = math.tointeger(given)
    if not size or size < 1 then
      error_module.raise("model", "blocks.windows: the tokens of a window must be an integer of at least 1, got %s",
        schema.describe(given))
    end
    if own % size ~= 0 then
      error_module.raise("plan", "windows of %d tokens must divide the %d tokens of a %s", size, own,
        (c.cp or 1) > 1 and "context rank" or "sequence")
    end
    return merged({ seq = size, key_seq = size, cp = 1, micro_batch = c.micro_batch * (own // size) }, fields or {})
  end)
end

--- The entries, with the weights of an earlier run of the same operators (ALBERT, Zamba2).
function blocks.reused(entries)
  local list = {}
  for i, entry in ipairs(blocks.join(entries)) do
    local named = type(entry) == "string" and { op = entry } or entry
    list[i] = named.op and merged(named, { reused = true }) or named
  end
  return list
end

-- An entry that selective recomputation may recompute as one of Megatron-LM's modules.
local function of_module(module, op, with, same_input)
  return { op = op, module = module, with = with, same_input = same_input }
end

-- Whether Megatron-LM's kernel of scale, mask and softmax runs; else it falls back to PyTorch's operators in fp32
-- (megatron/core/fusions/fused_softmax.py, is_kernel_available).
local function fuses_softmax(c)
  local heads, _, rows = shapes.attention(c)
  local keys = shapes.keys(c)
  return c.dtype ~= "fp32" and 16 < keys and keys <= 16384 and keys % 4 == 0 and rows % 4 == 0
    and c.micro_batch * heads % 4 == 0
end

local function unfused_softmax(c) return not fuses_softmax(c) end
local function casts_softmax(c) return c.dtype ~= "fp32" and not fuses_softmax(c) end

--- The attention core, whose operators selective recomputation recomputes. with: fields of the operators' shapes.
function blocks.attention_core(h, with)
  local function core(name, more) return merged({ op = name, with = with }, more or {}) end
  local exchange = { collective = "context_exchange", with = with }
  if (h.attention or "flash") == "flash" then return { exchange, core "flash_attention" } end
  local softmax = { core "fill_mask", core "softmax" }
  if h.attention == "fused_softmax" then
    local alone = { when = unfused_softmax }
    softmax = { core("masked_softmax", { when = fuses_softmax }),
      core("softmax_cast", { when = casts_softmax, times = 3 }), core("fill_mask", alone), core("softmax", alone) }
  end
  local cap = h.attention_softcap and { op = "softcap", selective = true, with = { scores = true } } or nil
  return blocks.join(exchange, core "bmm_qk", cap, softmax, h.dropout and core "dropout" or nil, core "bmm_pv",
    "head_copies")
end

--- Norms of queries and keys: per head with one gain (Qwen 3), over all heads with qk_norm_whole (OLMo 2), or per head
--- without gains where positions are rotated (qk_l2_norm: transformers, modeling_llama4.py, Llama4TextL2Norm). They run
--- inside the tensor-parallel region, on every token and the local heads.
local function query_key_norms(h)
  local plain = h.qk_l2_norm and (h.position or "rope") == "rope" or nil
  if not (h.qk_norm or plain) then return nil end
  local norm, list = h.norm or "rms_norm", {}
  local function add(count, gainless)
    list[#list + 1] = { op = norm, with = function(c)
      local heads = count(c)
      local rows = h.qk_norm_whole and 1 or heads
      return { hidden = heads // rows * c.head_dim, micro_batch = c.micro_batch * rows, sequence_parallel = false,
        gainless = gainless }
    end }
  end
  add(shapes.local_heads, plain)
  if h.borrowed_keys then return list end
  add(shapes.local_kv_heads, plain)
  if h.value_norm then add(shapes.local_kv_heads, true) end
  return list
end

--- Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434). Keys and values are compressed before the
--- tensor-parallel region; with q_lora_rank the queries are too.
local function latent_attention(h)
  local dim = h.qk_nope_head_dim + h.qk_rope_head_dim
  local latent = h.kv_lora_rank + h.qk_rope_head_dim
  local queries = h.q_lora_rank
    and { "linear_q_down", { op = h.norm or "rms_norm", with = { hidden = h.q_lora_rank }, tensor = "mla_q" } } or nil
  local index -- DeepSeek sparse attention: the indexer chooses keys
  if h.index_heads then
    index = { "linear_index_q", { op = "linear_index_k", same_input = true },
      { op = "layer_norm", with = { hidden = h.index_head_dim, norm_bias = true } }, "lightning_indexer" }
  end
  -- Both compressions read the norm's output; so do the queries without q_lora_rank.
  return blocks.join(queries, { op = "linear_kv_down", same_input = queries ~= nil },
    { op = h.norm or "rms_norm", with = { hidden = h.kv_lora_rank }, tensor = "mla_kv" },
    index,
    { collective = "tensor_enter", with = { hidden = (h.q_lora_rank or h.hidden) + latent } },
    of_module("mla_up_proj", "linear_q_up", nil, h.index_heads ~= nil or not h.q_lora_rank),
    of_module("mla_up_proj", "linear_kv_up"),
    (h.position or "rope") == "rope"
      and of_module("mla_up_proj", "rope", { head_dim = h.qk_rope_head_dim, kv_heads = 1 }) or nil,
    blocks.attention_core(h, { head_dim = dim, kv_heads = h.heads, window = h.index_top_k }),
    { op = "linear_proj", with = { head_dim = h.v_head_dim } })
end

--- Multi-matrix factorization attention (arXiv 2412.19255): compressed queries, and keys and values of few heads, which
--- every tensor rank computes.
local function factorized_attention(h)
  local values = 2 * h.kv_heads * h.head_dim
  return blocks.join("linear_q_down", { op = h.norm or "rms_norm", with = { hidden = h.q_lora_rank } },
    "linear_key_value", { collective = "tensor_enter", with = { hidden = h.q_lora_rank + values } },
    { op = "linear_q_up", with = { qk_nope_head_dim = h.head_dim, qk_rope_head_dim = 0 } },
    (h.position or "rope") == "rope" and "rope" or nil, blocks.attention_core(h), "linear_proj")
end

-- The sliding window with as many query-key pairs as chunks of a sequence, the last of them shorter.
local function window_of_chunks(seq, chunk)
  local rest = seq % chunk
  local pairs_of_chunks = ((seq - rest) * (chunk + 0.0) + rest * (rest + 0.0)) / 2
  return math.floor(seq - math.sqrt(seq * (seq + 0.0) - 2 * pairs_of_chunks) + 0.5)
end

--- Fields of a layer's attention core: no window, or each chunk of a sequence as a separate sequence. If a context rank
--- does not hold whole chunks, a window stands for them.
local function core_fields(h)
  if h.chunked then
    return function(c)
      local chunk, tokens = h.attention_chunk, c.seq // (c.cp or 1)
      if c.seq <= chunk then return {} end
      if tokens % chunk ~= 0 then return { window = window_of_chunks(c.seq, chunk) } end
      return { seq = chunk, cp = 1, micro_batch = c.micro_batch * (tokens // chunk) }
    end
  end
  return h.window and h.full_attention and { window = false } or nil
end

--- Projection to queries, keys and values; positions; core; output projection.
function blocks.attention(h)
  return blocks.join("linear_qkv", query_key_norms(h), (h.position or "rope") == "rope" and "rope" or nil,
    blocks.attention_core(h, core_fields(h)), h.attention_sinks and "attention_sinks" or nil,
    (h.attention_gate or h.head_gate) and "attention_gate" or nil,
    h.v_head_dim and { op = "linear_proj", with = { head_dim = h.v_head_dim } } or "linear_proj")
end

--- Attention, another mixer, or both side by side (Falcon-H1), after the collective that opens their tensor-parallel
--- region; blocks.leave closes the region.
function blocks.attention_region(h)
  if h.mixer then return blocks.join(enter, table.unpack(mixers.entries(h, h.mixer))) end
  if h.kv_lora_rank then return latent_attention(h) end
  if h.q_lora_rank then return factorized_attention(h) end
  local beside = h.parallel_mixer and blocks.join(table.unpack(mixers.entries(h, h.parallel_mixer))) or nil
  if beside then beside[1].same_input = true end
  return blocks.join(enter, blocks.attention(h), beside, beside and "residual_add" or nil)
end

--- Dense MLP, gated or not. same_input: as in an entry.
function blocks.mlp(h, same_input)
  return { of_module("mlp", "linear_up", nil, same_input), of_module("mlp_act", h.gated_mlp and "swiglu" or "gelu"),
    of_module("mlp", "linear_down") }
end

--- The operator that adds a block to the residual stream.
function blocks.residual(h) return h.dropout and "bias_dropout_add" or "residual_add" end

--- Pre-norm transformer layer. `feed`: the entries between the second norm and the residual, with their collectives.
function blocks.layer(h, feed)
  local name = h.norm or "layer_norm"
  local norm = of_module("layernorm", name)
  if h.parallel_block then
    -- Parallel block: both branches read the residual stream, and their outputs are summed. With separate norms
    -- (GPT-NeoX) there are two collectives backward and one forward; with shared_norm (GPT-J, Falcon, Phi, Cohere) one
    -- in each pass.
    local second = not h.shared_norm and { of_module("layernorm", name, nil, true), enter } or nil
    return blocks.join(norm, blocks.attention_region(h), second, blocks.mlp(h, h.shared_norm), "residual_add", leave,
      blocks.residual(h))
  end
  local post = h.post_norms and name or nil -- Gemma 2 also has a norm after both blocks
  if not (feed or h.no_mlp) then
    error_module.raise("model", "%sblocks.layer(h, feed): 'feed' is missing; it may be blocks.dense_feed(h) or "
      .. "blocks.moe_feed(h)", error_module.line(2))
  end
  local first = not h.no_attention and blocks.join(norm, blocks.attention_region(h), leave, post, blocks.residual(h))
  local second = not h.no_mlp and blocks.join(norm, feed, post, blocks.residual(h))
  return blocks.join(first or nil, second or nil)
end

function blocks.dense_feed(h) return blocks.join(enter, blocks.mlp(h), leave) end

--- The entries as parts of a module of Megatron-LM, but those that name one.
local function inside(module, entries)
  local list = {}
  for i, entry in ipairs(entries) do
    list[i] = merged({ module = module }, type(entry) == "string" and { op = entry } or entry)
  end
  return list
end

--- `with` of an activation between products of experts: the experts' width, of top_k copies of each token.
function blocks.expert_width(h)
  return function(c)
    local width = (h.moe_ffn or c.ffn) * h.top_k
    return { ffn = (c.expert_load or 1) == 1 and width or c.tp * shapes.loaded(c, width // c.tp) }
  end
end

--- Feed-forward half of a mixture-of-experts layer: router, permutation, exchange, experts, exchange back, return to
--- the order of tokens. Every token also passes through the shared experts: shared_experts experts of the routed
--- experts' width, or one MLP of width shared_ffn.
function blocks.moe_feed(h)
  shapes.need(h, "blocks.moe_feed", "experts", "top_k")
  local ffn = h.moe_ffn or h.ffn or 4 * h.hidden
  local exchange, activation = { collective = "expert_exchange" }, h.gated_mlp and "swiglu" or "gelu"
  local biased, shared = shapes.bias(h, "mlp_bias"), nil
  local shared_ffn = h.shared_ffn or ffn * (h.shared_experts or 0)
  if shared_ffn > 0 then
    local with, beside = { ffn = shared_ffn }, { beside_experts = true }
    shared = inside("shared_experts", blocks.join({ collective = "tensor_enter", with = beside },
      { op = "linear_up", with = with, beside = "dispatch", same_input = true },
      { op = activation, with = with, beside = "dispatch" },
      { op = "linear_down", with = with, beside = "combine" },
      h.shared_gate and { op = "shared_gate", beside = "combine" } or nil,
      { op = "residual_add", module = "moe" }, { collective = "tensor_leave", with = beside }))
  end
  local routed = blocks.join("moe_permute", exchange, { collective = "expert_enter" }, "expert_linear1",
    { op = activation, module = "moe_act", with = blocks.expert_width(h) },
    "expert_linear2", biased and "expert_bias" or nil, { collective = "expert_leave" }, exchange, "moe_unpermute")
  if h.moe_latent then -- narrow experts, between a compression and an expansion of each token
    routed = blocks.join({ op = "linear_latent_down", same_input = true },
      blocks.with(routed, { hidden = h.moe_latent }), "linear_latent_up")
  end
  return inside("moe", blocks.join("moe_router", routed, shared))
end

--- The kind of layer i (layer_types, else window and window_every), or nil if all layers are alike.
function blocks.type_of(h, i)
  local list = h.layer_types
  if not list then
    if not (h.window and h.window_every) then return nil end
    return i % h.window_every == 0 and "full_attention" or "sliding_attention"
  end
  local kind = list[(i - 1) % math.max(1, #list) + 1]
  if not layer_kinds[kind] then
    error_module.raise("model", "layer_types: %s", error_module.unknown("kind", kind, schema.keys(layer_kinds)))
  end
  local needed = layer_kinds[kind].needs
  if needed and not h[needed] then
    error_module.raise("model", "layer_types: '%s' needs the field '%s'", kind, needed)
  end
  return kind
end

-- Hyper-parameters that layer_fields may change in a layer.
local own_fields = { heads = "count?", kv_heads = "count?", head_dim = "count?", v_head_dim = "count?", ffn = "count?",
  moe_ffn = "count?", rotary_fraction = "fraction?", attention_sinks = "boolean?", keys_as_values = "boolean?",
  borrowed_keys = "boolean?", no_attention = "boolean?", no_mlp = "boolean?" }

-- Those that only decide which blocks a layer has; operators do not read them.
local block_fields = { no_attention = true, no_mlp = true }

--- The fields in which layer i differs from the model, and their text; nil if there are none.
local function fields_of(h, i)
  local own = h.layer_fields and h.layer_fields[i]
  if own == nil or own == false then return nil end
  own = schema.check(own, own_fields, ("layer_fields: entry %d"):format(i))
  local words = {}
  for _, key in ipairs(schema.keys(own)) do words[#words + 1] = ("%s %s"):format(key, tostring(own[key])) end
  if #words > 0 then return own, table.concat(words, ", ") end
end

--- The entries of a kind of layer. Operators see the fields `own` of the layer, too.
local function made_of(h, kind, of, own, ops_of)
  if not (of or own) then return ops_of(kind, h) end
  local seen = setmetatable(merged(of and layer_kinds[of].fields, own), { __index = h })
  local ops, with = ops_of(kind, seen), {}
  for key, value in pairs(own or {}) do if not block_fields[key] then with[key] = value end end
  return next(with) and blocks.with(ops, with) or ops
end

--- Every layer of a model in order; equal neighbours are counted. kind_of(i) names the kind of layer i. ops_of(name,
--- fields) makes the entries of a kind from the layer's hyper-parameters. Layers differ by layer_types, or by window
--- and window_every = n: each n-th layer has no window (Gemma 2 and 3, Cohere 2, gpt-oss); and by layer_fields.
function blocks.runs(h, kind_of, ops_of)
  local made, layers, last = {}, {}, nil
  for i = 1, h.layers do
    local kind, of = kind_of(i), blocks.type_of(h, i)
    local type = layer_kinds[of] or {}
    if type.alone and kind ~= of then
      error_module.raise("model",
        "layer_types: '%s' is a layer of one block; only the architecture 'hybrid' has it", of)
    end
    local own, words = fields_of(h, i)
    local name = table.concat({ kind, type.name or words, type.name and words or nil }, ", ")
    if last and last.name == name then
      last.count = last.count + 1
    else
      made[name] = made[name] or made_of(h, kind, of, own, ops_of)
      last = { name = name, count = 1, ops = made[name] }
      layers[#layers + 1] = last
    end
  end
  return layers
end

--- Raises if layer_types or layer_fields is given, for architectures with one kind of layer.
function blocks.refuse_types(h)
  for _, field in ipairs { "layer_types", "layer_fields" } do
    if h[field] then error_module.raise("model", "%s: the layers of this architecture are all alike", field) end
  end
end

--- blocks.runs for a model with dense layers only.
function blocks.dense_layers(h)
  return blocks.runs(h, function() return "decoder" end,
    function(_, seen) return blocks.layer(seen, blocks.dense_feed(seen)) end)
end

--- Dropout of embeddings (Megatron-LM, LanguageModelEmbedding), or nil.
function blocks.embedding_dropout(h)
  return h.dropout and { op = "dropout", selective = false, with = { stream = true } } or nil
end

--- Embedding layer: lookup, learned positions, sum over tensor ranks, norm (Bloom), dropout.
function blocks.embedding(h)
  local positions
  if h.position == "learned" then
    -- A second table, replicated on every tensor rank; omitted if its length is unknown.
    local table_of = h.max_positions
      and { op = "embedding", with = { vocab = h.max_positions, vocab_multiple = 1, tp = 1 } } or nil
    positions = blocks.join(table_of, "residual_add")
  end
  return { name = "embedding", place = "first", ops = blocks.join("embedding", leave, positions,
    h.embedding_norm and (h.norm or "layer_norm") or nil, blocks.embedding_dropout(h)) }
end

function blocks.head(h)
  return { name = "head", place = "last", ops = blocks.join(h.norm or "layer_norm", enter_head, "lm_head",
    h.logit_softcap and "softcap" or nil, "cross_entropy", { collective = "vocabulary_reduce" }) }
end

--- Multi-token prediction (DeepSeek-V3, section 2.2): norms of the residual stream and of the next token's embedding, a
--- linear layer that joins both, and a transformer layer. It sends the outputs of the model and of all these layers to
--- the head (Megatron-Core, multi_token_prediction.py: MultiTokenPredictionBlock.forward).
---@param copied boolean whether the layer counts the copy of the embedding's table
local function multi_token(h, layer, count, copied)
  local norm = h.norm or "rms_norm"
  return { name = "multi-token prediction", place = "prediction", count = count,
    reads = function(c) return 2 * c.seq end, sends = function(c) return (1 + h.mtp_layers) * c.seq end,
    ops = blocks.join({ op = "shared_embedding", with = { copied = copied } }, leave, norm, norm, "linear_mtp",
      layer.ops, norm) }
end

-- The embedding and the given layers; nil is skipped. The caller is two functions up, for messages.
local function body_of(h, ...)
  local layers, where = { blocks.embedding(h) }, error_module.line(3)
  for i = 1, select("#", ...) do
    local layer = select(i, ...)
    if type(layer) == "table" and layer[1] ~= nil then
      error_module.raise("model", "%sblocks.decoder(h, …): layer %d must be a layer { name =, count =, ops = }, got a "
        .. "list; table.unpack(list) gives its elements one by one", where, i)
    end
    layers[#layers + 1] = layer
  end
  if #layers == 1 then error_module.raise("model", "%sblocks.decoder(h, …): no layer is given after h", where) end
  return layers
end

--- The layers of a decoder: embedding, the given layers, head.
function blocks.decoder(h, ...)
  local layers = body_of(h, ...)
  local layer, further = layers[#layers], h.mtp_layers or 0
  if further > 0 then
    layers[#layers + 1] = multi_token(h, layer, 1, true)
    further = further - 1
  end
  if further > 0 then layers[#layers + 1] = multi_token(h, layer, further, false) end
  local head = blocks.head(h)
  for _ = 1, h.mtp_layers or 0 do
    head.ops = blocks.join(enter_head, "mtp_head", "cross_entropy", { collective = "vocabulary_reduce" }, head.ops)
  end
  layers[#layers + 1] = head
  return { layers = layers }
end

return setmetatable(blocks, { __index = function(_, name)
  error_module.raise("missing", "%sett.model.blocks has no function '%s'%s", error_module.line(2), tostring(name),
    error_module.suggestion(name, schema.keys(blocks)))
end })
