--- The 3-D composition of estimate-train-time, including its errors, so that its users can compare.
--
-- Times are in the caller's unit (the tool uses microseconds), sizes in elements. Lists have the tool's three stages:
-- first, middle (all between), last. The formulas reproduce the tool's observed behaviour (golden.json).
local error_module = require "ett.base.error"

local composition = {}

local head, middle, tail = 1, 2, 3
local stages = 3

--- The vocabulary of every model of the tool.
composition.vocabulary = 50257

local function ceil_div(a, b) return -(-a // b) end

--- Splits `parameters` into `full` messages of `bucket` elements and one of `rest` elements.
local function cut(parameters, bucket)
  if parameters <= 0 then return { full = 0, rest = 0 } end
  local full = ceil_div(parameters, bucket) - 1
  return { full = full, rest = parameters - full * bucket }
end

-- The tool divides both biases by mp although only one is sharded. It counts twice the hidden size for both norms (also
-- for RMS norms), and takes the up-projection as 4 * dim wide.
local function encoder_parameters(dim, mp)
  return 4 * dim + 3 * dim * (dim + 1) // mp + dim * (dim + 1) // mp + 4 * dim * (dim + 1) // mp
    + dim * (4 * dim + 1) // mp
end

--- Distributes layers and parameters over the stages and lists the messages to be timed.
---@param p table pp, mp, dp, b (micro-batch), h, l (sequence), dim, gpus_per_node, comm_bucket, encoders: integers
---@return table layout layers (may be negative, as in the tool), parameters, all_reduce, all_gather: a list of three
--- each; p2p_, mp_, dp_ with elements, nodes and gpus
function composition.layout(p)
  local elements = (p.b + 0.0) * p.l * p.dim
  if elements > 9e18 then
    error_module.raise("limit", "micro-batch * sequence length * model width (b * l * dim) must be at most 9e18, got "
      .. "%g", elements)
  end
  -- Embedding, head and three more count as five layers. All stages get the rounded-down quotient. Unless pp divides
  -- encoders + 5, layers are lost or added, and the last stage of a deep pipeline gets a negative number.
  local slots = p.encoders + 5
  local layers = { ceil_div(slots, p.pp) - 2, slots // p.pp, slots // p.pp - 3 }
  local encoder = encoder_parameters(p.dim, p.mp)
  local table_elements = ceil_div(composition.vocabulary, 128 * p.mp) * 128 * p.dim
  local parameters = { layers[head] * encoder + table_elements, layers[middle] * encoder,
    layers[tail] * encoder + table_elements + 2 * p.dim }
  local all_reduce, all_gather = {}, {}
  for i = 1, stages do -- comm_bucket counts elements, also for gathered shards
    all_reduce[i] = cut(parameters[i], p.comm_bucket)
    all_gather[i] = cut(parameters[i] // p.dp, p.comm_bucket)
  end
  -- A job that fills exactly one node counts as two nodes.
  local across = (p.mp + 0.0) * p.dp * p.pp >= p.gpus_per_node
  local mp_gpus = p.mp < p.gpus_per_node and p.mp or p.gpus_per_node
  local dp_gpus = math.max(1, p.gpus_per_node // p.mp) -- all GPUs of the node for one group, for any dp
  return {
    layers = layers, parameters = parameters, all_reduce = all_reduce, all_gather = all_gather,
    mp_elements = p.b * p.l * p.dim, mp_gpus = mp_gpus, mp_nodes = math.max(1, p.mp // mp_gpus),
    p2p_elements = p.b * p.l * p.dim // p.mp, p2p_nodes = across and 2 or 1, p2p_gpus = across and 1 or 2,
    dp_gpus = dp_gpus, dp_nodes = math.max(1, p.dp // dp_gpus),
  }
end

--- Seconds of all messages of one buffer.
local function pieces_time(pieces, full, rest)
  local time = pieces.full > 0 and pieces.full * full or 0.0
  return pieces.rest > 0 and time + rest or time
end

--- Composes one step from the times of its parts.
---@param p table the argument of composition.layout, and steps_per_update, fwd_syncs, bwd_syncs
---@param layout table from composition.layout
---@param t table encoder (a list of { fwd, bwd }), embedding, norm, linear_final, cross_entropy ({ fwd, bwd } each),
---  p2p, mp_all_reduce, all_reduce_full, all_gather_full; all_reduce_rest, all_gather_rest, optimizer: three each
---@return table every intermediate and `total`
function composition.compose(p, layout, t)
  local encoder_fwd, encoder_bwd = 0.0, 0.0
  for _, time in ipairs(t.encoder) do
    encoder_fwd, encoder_bwd = encoder_fwd + time.fwd, encoder_bwd + time.bwd
  end
  encoder_fwd = encoder_fwd + p.fwd_syncs * t.mp_all_reduce
  encoder_bwd = encoder_bwd + p.bwd_syncs * t.mp_all_reduce + encoder_fwd -- the tool assumes full recomputation
  local r = { encoder_fwd = encoder_fwd, encoder_bwd = encoder_bwd, fwd = {}, bwd = {}, fwd_with_p2p = {},
    bwd_with_p2p = {}, all_reduce = {}, all_gather = {}, optimizer = {}, update = {} }
  for i = 1, stages do
    r.fwd[i], r.bwd[i] = encoder_fwd * layout.layers[i], encoder_bwd * layout.layers[i]
  end
  r.fwd[head] = t.embedding.fwd + t.mp_all_reduce + r.fwd[head]
  r.bwd[head] = r.bwd[head] + t.embedding.bwd
  r.fwd[tail] = r.fwd[tail] + (t.norm.fwd + t.linear_final.fwd + t.cross_entropy.fwd)
  r.bwd[tail] = r.bwd[tail] + (t.norm.bwd + t.linear_final.bwd + t.cross_entropy.bwd)
  for i = 1, stages do
    -- The sender pays. With pp = 2 the middle stage is counted too, although it does not exist.
    r.fwd_with_p2p[i] = r.fwd[i] + (i ~= tail and t.p2p or 0)
    r.bwd_with_p2p[i] = r.bwd[i] + (i ~= head and t.p2p or 0)
    r.all_reduce[i], r.all_gather[i], r.optimizer[i] = 0.0, 0.0, 0.0
    if p.dp > 1 then -- without data parallelism the tool counts no optimizer
      r.all_reduce[i] = pieces_time(layout.all_reduce[i], t.all_reduce_full, t.all_reduce_rest[i])
      r.all_gather[i] = pieces_time(layout.all_gather[i], t.all_gather_full, t.all_gather_rest[i])
      r.optimizer[i] = t.optimizer[i] + 0.0
    end
    r.update[i] = r.all_gather[i] + r.optimizer[i]
  end
  r.pipeline = (p.steps_per_update - 1 + p.pp)
    * (math.max(table.unpack(r.fwd_with_p2p)) + math.max(table.unpack(r.bwd_with_p2p)))
  r.head_all_reduce = r.all_reduce[head]
  r.max_update = math.max(table.unpack(r.update))
  r.total = r.pipeline + r.head_all_reduce + r.max_update
  return r
end

return composition
