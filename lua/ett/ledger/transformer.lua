--- A whole training run of a transformer, metered: the mathematics of `ett transformer`.
--
-- Symbols: L layers, d model width, f feed-forward width, h heads of width c, e experts, l tokens per sample (t = l/e
-- for each expert), b samples per batch. Six axes: data, pipeline (rotational), expert, sequence, and two of tensors:
-- over the model width (external) and over heads and feed-forward width (internal). Not modelled: embeddings, router,
-- norms, residual addition, causal mask, optimizer. Source: the public ml_par_sim programs, restated as operations on
-- a ledger.
local ledger = require "ett.ledger"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"

local transformer = {}

--- Parameters and their defaults. Switches change the structure, so they stay Lua values.
transformer.parameters = {
  batch_size = 2048, num_experts = 1, seq_len = 2048, dataset_size = 3e11, num_layers = 96, d_model = 12288,
  d_ffn = 49152, num_heads = 192, d_head = 64,
  p_data = 1, p_pipe = 1, p_exp = 1, p_seq = 1, p_tensor_int = 1, p_tensor_ext = 1,
}
transformer.switches = { use_glu = true, no_multi_query_attn = true, consecutive_attn_and_ffn = true }

--- Limits for an efficient run, all recorded as checks. Returns the least and the greatest microbatch size (samples
--- over all replicas).
local function efficiency(L, m, t)
  local lt, select = ledger.lt, ledger.select
  L:label("efficiency")
  L:check("at_most", "batch_size x seq_len / num_experts (tokens per expert per batch)", m.batch_size * t,
    "gradient noise scale: 4096 x 2048 tokens", 4096 * 2048)
  local deep = lt(1, m.p_pipe)
  L:check("at_least", "batch_size / p_data (samples of one replica)", m.batch_size / m.p_data,
    "4 microbatches for each of p_pipe stages", select(deep, 4 * m.p_pipe, 0))
  local most = select(deep, ledger.floor(m.batch_size / (4 * m.p_pipe)), m.batch_size)
  -- 1024 tokens per matmul; the order of these divisions affects rounding.
  local least = ledger.ceil((1024 / (t / (m.p_data * m.p_seq))) / m.p_data) * m.p_data
  L:check("at_most", "least microbatch size with 1024 tokens a matmul", least,
    "greatest with 4 microbatches a stage", most)
  L:check("at_most", "p_tensor_int", m.p_tensor_int, "d_ffn / 1024", m.d_ffn / 1024)
  L:check("at_most", "p_tensor_int", m.p_tensor_int, "num_heads x d_head / 1024", m.num_heads * m.d_head / 1024)
  L:check("at_most", "p_tensor_ext", m.p_tensor_ext, "d_model / 1024", m.d_model / 1024)
  return least, most
end

--- The nearest values that satisfy a violated efficiency rule, as text; "" if there are none.
function transformer.nearest(violation, m)
  local subject, t = violation.subject or "", m.seq_len / m.num_experts
  local deep = m.p_pipe > 1 and 4 * m.p_pipe or 1
  local options = {}
  local function add(name, value)
    if value >= 1 and value < 2 ^ 53 then options[#options + 1] = ("%s = %d"):format(name, value) end
  end
  if subject:match("tokens per expert") then
    add("batch_size", 4096 * 2048 // t // m.p_data * m.p_data)
    add("seq_len", 4096 * 2048 // m.batch_size * m.num_experts)
  elseif subject:match("samples of one replica") then
    add("batch_size", deep * m.p_data)
    add("p_pipe", m.batch_size // (4 * m.p_data))
  elseif violation.object == "d_ffn / 1024" and violation.right < 1 then
    add("d_ffn", 1024 * violation.left)
  elseif subject:match("least microbatch") then
    add("batch_size", math.ceil(violation.left * deep / m.p_data) * m.p_data)
  end
  return #options > 0 and ("; nearest passing: " .. table.concat(options, " or ")) or ""
end

--- The batch sizes nearest to m's with an efficient microbatch size, below and above.
function transformer.nearest_batches(m, least)
  local deep = m.p_pipe > 1 and 4 * m.p_pipe or 1
  local function passes(b)
    if b < 1 or b * m.seq_len / m.num_experts > 4096 * 2048 then return false end
    for size = least, b // deep, m.p_data do if b % size == 0 then return true end end
    return false
  end
  local found = {}
  for _, step in ipairs { -m.p_data, m.p_data } do
    local b = m.batch_size
    for _ = 1, 2000 do
      b = b + step
      if passes(b) then
        found[#found + 1] = ("%d"):format(b)
        break
      end
    end
  end
  return found
end

--- Declares the six axes and the dimensions on them: a table by name.
local function dimensions_of(L, m, t)
  L:label("dimensions")
  local a = { DATA = L:axis("DATA", m.p_data), PIPE = L:axis("PIPE", m.p_pipe, { rotational = true }),
    EXP = L:axis("EXP", m.p_exp), SEQ = L:axis("SEQ", m.p_seq), TENSOR_EXT = L:axis("TENSOR_EXT", m.p_tensor_ext),
    TENSOR_INT = L:axis("TENSOR_INT", m.p_tensor_int) }
  local s = { axes = a }
  s.SAMPLE = L:dimension("SAMPLE", m.p_data, { axis = a.DATA })
  s.LAYER = L:dimension("LAYER", m.p_pipe, { axis = a.PIPE, virtual = m.num_layers })
  s.EXPERT = L:dimension("EXPERT", m.num_experts, { axis = a.EXP })
  s.TOKEN = L:dimension("TOKEN", t, { axis = a.SEQ })
  s.WRITE_EXPERT = L:dimension("WRITE_EXPERT", m.num_experts, { autoreduce = true })
  s.WRITE_TOKEN = L:dimension("WRITE_TOKEN", t, { axis = a.TENSOR_EXT, autoreduce = true })
  s.D_MODEL = L:dimension("D_MODEL", m.d_model, { axis = a.TENSOR_EXT, autoreduce = true })
  s.D_FFN = L:dimension("D_FFN", m.d_ffn, { axis = a.TENSOR_INT, autoreduce = true })
  s.HEAD = L:dimension("ATTN_HEAD", m.kv_heads or m.num_heads, { axis = a.TENSOR_INT })
  if m.kv_heads then L:check("divides", "num_heads", m.num_heads, "kv_heads", m.kv_heads) end
  s.GROUP = m.kv_heads and L:dimension("QUERY_GROUP", m.num_heads / m.kv_heads) -- query heads per key head
  s.D_HEAD = L:dimension("D_HEAD", m.d_head, { autoreduce = true })
  return s
end

local weight_names = { "q", "k", "v", "o", "into", "out", "gate" }

--- Declares the weights of a layer: a table by name (see weight_names).
local function weights_of(L, m, s)
  L:label("weights")
  local function weight(name, dimensions, scattered)
    return L:tensor(name, { s.LAYER, s.EXPERT, table.unpack(dimensions) }, { scattered = scattered })
  end
  local a = s.axes
  local both, multi_query = { a.DATA, a.SEQ }, not m.no_multi_query_attn
  local kv = multi_query and { s.D_MODEL, s.D_HEAD } or { s.D_MODEL, s.HEAD, s.D_HEAD }
  local kv_scatter = multi_query and { a.DATA, a.SEQ, a.TENSOR_INT } or both
  local query = { s.D_MODEL, s.HEAD, s.D_HEAD, s.GROUP }
  return {
    q = weight("W_q", query, both), o = weight("W_o", query, both),
    k = weight("W_k", kv, kv_scatter), v = weight("W_v", kv, kv_scatter),
    into = weight("W_in", { s.D_MODEL, s.D_FFN }, both), out = weight("W_out", { s.D_MODEL, s.D_FFN }, both),
    gate = m.use_glu and weight("W_gate", { s.D_MODEL, s.D_FFN }, both) or nil,
  }
end

--- Attention of one token in one layer; the caller sums over the heads. Keeps q, k, v and values.
local function attention_of(L, s, w, x, kept)
  L:label("q projection")
  local q = x:dot(w.q)
  local function write(name, weights)
    L:label(name)
    return x:multiply(weights):reduce(s.D_MODEL, { from = s.TOKEN, to = s.WRITE_TOKEN })
      :scatter_transpose(s.EXPERT, s.WRITE_EXPERT):broadcast()
  end
  local k, v = write("k projection", w.k), write("v projection", w.v)
  L:label("scores")
  local scores = q:dot(k)
  L:label("softmax")
  local normaliser = scores:all_reduce(s.WRITE_EXPERT):all_reduce(s.WRITE_TOKEN)
  scores = scores:multiply(normaliser)
  L:label("values")
  local values = scores:dot(v)
  table.move({ q, k, v, values }, 1, 4, #kept + 1, kept)
  L:label("output projection")
  local attention = values:dot(w.o)
  if not s.GROUP then return attention end
  L:label("query group sum")
  return attention:reduce(s.GROUP)
end

--- Forward pass of one token through one layer; returns the tensors that the backward pass needs.
local function token(L, m, s, w, x)
  local kept = { x }
  local attention = attention_of(L, s, w, x, kept) -- heads are summed together with the residual
  local y = x
  if m.consecutive_attn_and_ffn then
    L:label("attention sum")
    y = attention:all_reduce(s.HEAD)
  end
  L:label("ffn in")
  local inner = y:dot(w.into)
  if m.use_glu then
    L:label("ffn gate")
    local gate = y:dot(w.gate)
    L:label("glu product")
    inner = inner:multiply(gate)
  end
  L:label("ffn out")
  local ffn = inner:multiply(w.out)
  for _ = 1, m.use_glu and 3 or 1 do kept[#kept + 1] = inner end -- with a gate, also both factors of the product
  L:label("residual sum")
  local sum = m.consecutive_attn_and_ffn and ffn:reduce(s.D_FFN) or attention:reduce_with(ffn)
  sum:broadcast { rotate = { s.LAYER, s.EXPERT } }
  return kept
end

local function words_of(tensors)
  local sum = 0
  for _, tensor in ipairs(tensors) do sum = sum + tensor:local_elements() end
  return sum
end

local function listed(w)
  local list = {}
  for _, name in ipairs(weight_names) do list[#list + 1] = w[name] end
  return list
end

--- Describes the run on ledger L.
---@param m table parameters (numbers or expressions of L), switches, and kv_heads for grouped queries (an extension of
--- the public programs; num_heads must be a multiple of it)
---@param options { efficiency: boolean? }? whether to record the efficiency limits
---@return table { N, D, batches, least, most } (words, tokens, batches, microbatch sizes) and held(), words of a rank
function transformer.describe(L, m, options)
  local b, l, e, d = m.batch_size, m.seq_len, m.num_experts, m.d_model
  local t = l / e
  local batches = ledger.round(m.dataset_size / (b * l))
  local kv_width = m.no_multi_query_attn and (m.kv_heads or m.num_heads) * m.d_head or m.d_head
  local run = { t = t, batches = batches, D = batches * b * l,
    N = m.num_layers * e * (2 * d * m.num_heads * m.d_head + 2 * d * kv_width + (m.use_glu and 3 or 2) * d * m.d_ffn) }

  L:label("parameters")
  L:check("divides", "seq_len", l, "num_experts", e)
  L:check("divides", "batch_size", b, "p_data", m.p_data)
  if options and options.efficiency then run.least, run.most = efficiency(L, m, t) end
  local s = dimensions_of(L, m, t)
  local w = weights_of(L, m, s)
  local sharded, kept = listed(w), {}

  L:meter("run", batches, function()
    L:meter("weights", m.num_layers / m.p_pipe, function()
      for _, name in ipairs(weight_names) do
        if w[name] then
          L:label("W_" .. name)
          w[name] = w[name]:broadcast()
        end
      end
    end)
    L:meter("tokens", b * l * (m.num_layers / m.p_pipe) / (m.p_data * l), function()
      kept = token(L, m, s, w, L:tensor("x", { s.SAMPLE, s.LAYER, s.EXPERT, s.TOKEN, s.D_MODEL }))
    end)
  end)
  function run.held()
    local layers = m.num_layers / m.p_pipe
    return { shard = layers * words_of(sharded), weights = layers * words_of(listed(w)),
      input = kept[1]:local_elements(), layer = words_of(kept), layers = layers }
  end
  return run
end

--- Bytes of a rank: { weights, gradients, optimizer, activations, total }, for a described run. Weights are gathered
-- and gradients reduced once per batch, so both are held whole; the optimizer holds the rank's shard. A layer keeps
-- its input, queries, keys, values, mixed values and feed-forward activations (scores are recomputed); with
-- checkpointing only its input. 1F1B holds p_pipe microbatches, GPipe all; the current layer is held once more.
-- options: bytes, gradient_bytes, optimizer_bytes (per word), samples (of a replica's microbatch), gpipe.
function transformer.memory(m, run, options)
  local held = run.held()
  local microbatches = m.batch_size / m.p_data / options.samples
  local in_flight = options.gpipe and microbatches or ledger.min(m.p_pipe, microbatches)
  local each = m.activation_checkpointing and held.input or held.layer
  local r = { weights = held.weights * options.bytes, gradients = held.weights * options.gradient_bytes,
    optimizer = held.shard * options.optimizer_bytes,
    activations = (in_flight * held.layers * each + held.layer) * options.samples * options.bytes }
  r.total = r.weights + r.gradients + r.optimizer + r.activations
  return r
end

--- Forward, backward and total of FLOP, Tx, Rx and net, over the whole run and all ranks. Checkpointing repeats the
--- forward pass in the backward pass; forward_only omits both.
function transformer.costs(L, m)
  local counts = L:totals()
  local costs = {}
  for name, key in pairs { FLOP = "flop", Tx = "tx", Rx = "rx" } do
    costs[name] = { forward = counts[key .. "_forward"], backward = counts[key .. "_backward"] }
  end
  costs.net = { forward = costs.Tx.forward + costs.Rx.forward, backward = costs.Tx.backward + costs.Rx.backward }
  for _, cost in pairs(costs) do
    if m.activation_checkpointing then cost.backward = cost.backward + cost.forward end
    cost.total = m.fwd_only and cost.forward or cost.forward + cost.backward
  end
  return costs
end

--- A compiled run: a program from parameters to counts, evaluated in C. `switches` as in describe; outputs flop_*,
--- tx_*, rx_*, net_*, clusters, n_words, tokens, feasible.
function transformer.compile(switches, options)
  local L = ledger.new()
  local m = merged(switches)
  for _, name in ipairs(schema.keys(transformer.parameters)) do
    m[name] = L:parameter(name, transformer.parameters[name])
  end
  local run = transformer.describe(L, m, options)
  local outputs = { clusters = L:clusters(), n_words = run.N, tokens = run.D }
  for name, cost in pairs(transformer.costs(L, m)) do
    for pass, value in pairs(cost) do outputs[name:lower() .. "_" .. pass] = value end
  end
  local feasible = 1
  for _, check in ipairs(L:checks()) do feasible = feasible * check.ok end
  outputs.feasible = feasible
  return L:compile(outputs), L
end

return transformer
