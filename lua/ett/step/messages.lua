--- Collectives of a layer under a plan: bytes, placement, time, and the products that overlap them.
--
-- `state` is that of ett.step.lower; `items` is a layer's list of operators and collectives.
local expert_spread = require "ett.step.expert_spread"
local in_step = require "ett.profile.in_step"
local merged = require "ett.base.merged"
local operators = require "ett.operator"
local plan_fields = require "ett.plan.fields"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"
local step_core = require "ett.step"

local messages = {}

local product = operators.products

--- Whether a collective overlaps a product after it in the layer's list. A backward pass runs this product before it.
function messages.overlaps_next(item)
  return item.overlapped or (item.name == "all_gather") == (item.pass == "forward")
end

--- The product next to collective i of a list of items; for a gather, the product whose operand it brings.
local function neighbour(items, i)
  local next_one = messages.overlaps_next(items[i])
  for k = next_one and i + 1 or i - 1, next_one and #items or 1, next_one and 1 or -1 do
    if items[k].kind == "operator" and product[items[k].operator.family] then return items[k] end
  end
  return nil
end

--- Whether a stack quantises what collective i gathers.
local function is_quantised(state, items, i)
  local gathers = state.software.quantised_gathers
  local o = items[i].operand and gathers ~= "none" and neighbour(items, i)
  local dtype = o and stacks.dtype_of(state.software, o.operator, state.plan.dtype)
  return o and schema.dtype_bytes[dtype] < 2 and (gathers == "all" or gathers == dtype) or false
end

--- Placement of a send to the next rank of a group: one message per group leaves each unit.
local function neighbours(topology)
  local tiers = {}
  for k, t in ipairs(topology.tiers) do
    tiers[k] = { units = math.min(t.units, 2), members = 1, most = 1, groups = t.groups, cards = 1,
      sharing = t.sharing }
  end
  return { nodes = math.min(topology.nodes, 2), gpus_per_node = topology.nodes > 1 and 1 or 2, ranks = 2,
    tiers = tiers, lanes = topology.lanes }
end

--- Placement of a group on the tiers; with `sends`, the placement of a send to the group's next rank.
function messages.topology(state, group, sends)
  local known = sends and state.send_topologies or state.topologies
  local topology = known[group]
  if not topology then
    topology = sends and neighbours(messages.topology(state, group, false)) or step_core.place(state.ranks, group)
    if not sends then state.groups[#state.groups + 1] = group end
    known[group] = topology
  end
  return topology
end

-- Assumed interval of a dispatcher's own kernels, relative to the time.
local dispatched_low, dispatched_high = 0.8, 1.25

--- Time of an experts' all-to-all inside a node if the stack has its own kernels for it (DeepEP); else nil.
local function dispatched(state, item, bytes, nodes)
  local share, links = state.software.exchange_share, state.times.cluster.links
  if share == 0 or item.role ~= "exchange" or nodes > 1 or not (links and links.intra) then return nil end
  local seconds = bytes / (share * links.intra.bandwidth) / state.times.node_gain
  return { seconds = seconds, low_seconds = dispatched_low * seconds, high_seconds = dispatched_high * seconds,
    provenance = "calibrated", model = "dispatcher",
    detail = "share of the node's links, stack " .. state.software.name }
end

--- Placement of a group's ranks in one node. If there are more than two lanes, it occupies that of the node's tier.
local function in_node(state, group, topology)
  local id = group .. " in a node"
  if not state.topologies[id] then
    local found, cluster = { nodes = 1, gpus_per_node = topology.gpus_per_node }, state.times.cluster
    if topology.lanes then
      found.lanes = { outermost = cluster.node_tier, exchange = {} }
      for k = 1, #cluster.tiers do found.lanes.exchange[k] = k == cluster.node_tier and 1 or 0 end
    end
    state.topologies[id] = found
  end
  return state.topologies[id]
end

--- The same placement for an all_to_all whose messages a rank of each node forwards to the others.
local function forwarded(state, group, topology)
  local id = group .. " forwarded"
  local found = state.topologies[id]
  if not found then
    found = merged(topology, { forwarded = true })
    state.topologies[id] = found
  end
  return found
end

--- Bytes and time of an exchange of experts' tokens that sends each token once to a node, and the placement whose links
--- it occupies. Inside the node the token is forwarded once to each rank that holds its experts, except to the rank
--- that received it. Sending and forwarding run at the same time (DeepEP), so the time is that of the slower.
local function exchanged_once(state, item, topology)
  local p, c, nodes, gpus = state.plan, state.configuration, topology.nodes, topology.gpus_per_node
  local function time(places, on)
    local bytes = item.bytes * expert_spread.expected(places, c) / c.top_k
    return bytes, dispatched(state, item, bytes, on.nodes) or state.times:collective(item.name, bytes, on, p.dtype)
  end
  local over = nodes > 1 and forwarded(state, item.group, topology) or topology
  local bytes, answer = time(nodes > 1 and nodes or gpus, over)
  if nodes > 1 and gpus > 1 then
    local node = in_node(state, item.group, topology)
    local _, inside = time(item.degree, node)
    if inside.seconds > answer.seconds then return bytes, inside, node end
  end
  return bytes, answer, topology
end

--- Bytes of collective i of a list of items, whether it is quantised, its placement, and the placement whose links it
--- occupies. answer: its time if the stack has its own kernels for it.
function messages.of(state, items, i)
  local p, item, quantised = state.plan, items[i], is_quantised(state, items, i)
  local members = item.members or item.stride and "shares" or item.group
  local topology = messages.topology(state, members, item.name == "send_recv")
  local bytes, answer, links = item.bytes, nil, topology
  if item.role == "exchange" and plan_fields.sends_once(p, state.software) then
    bytes, answer, links = exchanged_once(state, item, topology)
  end
  if quantised then bytes = bytes * schema.dtype_bytes[p.dtype] / state.width end
  return { bytes = bytes, answer = answer or dispatched(state, item, bytes, topology.nodes), quantised = quantised,
    members = members, topology = topology, links = links }
end

function messages.time(state, item, m)
  return m.answer or state.times:collective(item.name, m.bytes, m.topology, state.plan.dtype)
end

--- Seconds of PyTorch's kernels beside a collective of tensor ranks along the sequence, its second dimension. Whole
--- shards are exchanged, so a copy follows a gather and precedes a reduce-scatter (_functional_collectives.py:
--- torch.cat of torch.chunk). A gather of a single sequence is in order (_maybe_view_chunk_cat). Beside a product, a
--- sum over the ranks' parts follows the reduce-scatter (_symmetric_memory, _fused_matmul_reduce_scatter_impl). DTensor
--- does not repeat gathers beside weight gradients (`overlapped`).
---@param beside boolean whether a product overlaps the collective
function messages.copy_seconds(state, item, bytes, beside)
  local p, moved = state.plan, 0
  if not (state.software.copies_sequence and p.sequence_parallel and item.group == "tp") then return 0.0 end
  if item.name == "reduce_scatter" then
    moved = beside and 1 + 1 / item.degree or 2
  elseif item.name == "all_gather" and not (item.overlapped or beside or p.micro_batch == 1) then
    moved = 2
  end
  return moved * bytes / (in_step.stream_share * state.times.cluster.device.memory_bandwidth)
end

--- Seconds of a collective that a product of `hides` seconds overlaps.
---@param whole boolean? the whole collective may overlap, not only chunks of it
function messages.hidden_seconds(state, item, answer, hides, whole)
  local hidden = math.min(hides, (1 - state.software.communication_share) * answer.seconds)
  -- The first or the last chunk of a chunked collective cannot overlap the product.
  if not (item.overlapped or whole) then hidden = math.min(hidden, answer.seconds * (1 - 1 / item.degree)) end
  return hidden
end

--- Whether one product computes the operand of collective i of a list of items, or products read its result without a
--- change. In a backward pass several products of one input give a sum of gradients: queries, keys and values, or gates
--- and up projections. The result of a gather in 16 bits is quantised before products of fewer bits read it.
local function is_direct(state, items, i)
  local item, o = items[i], neighbour(items, i)
  if not o then return false end
  if item.name == "all_gather" then
    local dtype = stacks.dtype_of(state.software, o.operator, state.plan.dtype)
    return schema.dtype_bytes[dtype] >= 2 or is_quantised(state, items, i)
  end
  if item.pass == "forward" then return true end
  local parts = o.operator.parts and o.operator.parts(state.configuration) or {}
  for k = i + 1, #items do
    if #parts > 1 or items[k].same_input and product[items[k].operator.family] then return false end
    if items[k].kind == "collective" then break end
  end
  return true
end

--- Seconds of the product that overlaps collective i of a list of items (0: none), and whether the whole collective may
--- overlap, not only chunks of it.
---
--- In a forward pass, the gather of a tensor-parallel region overlaps the next product, and the reduce-scatter the
--- previous product. In a backward pass it is the reverse. A backward pass has two gradient products, of which one
--- overlaps the collective, so half of their time counts. Some software also overlaps the all-reduce of the input
--- gradient with the weight-gradient product, which does not depend on it (stack field hides_sums).
---
--- In a split backward pass the weight-gradient product runs later, and the sum is exposed
--- (sail-sg/zero-bubble-pipeline-parallelism, layers.py: async_op=wgrad_compute). Transformer Engine refuses a
--- reduce-scatter beside a delayed weight-gradient product (module/linear.py, wgrad_gemm_kwargs). Then the
--- reduce-scatter can only overlap the input-gradient product (ub_overlap_rs_dgrad), as the repeated gather does.
---@return number seconds, boolean? whole, number? late seconds of the product in a split backward pass, if fewer
function messages.beside_product(state, items, i)
  local p, item = state.plan, items[i]
  if item.blocking then return 0 end
  local gathers = item.name == "all_gather"
  local in_pieces = p.overlap_tensor and p.sequence_parallel and item.group == "tp"
    and (gathers or item.name == "reduce_scatter")
    and not (state.software.overlaps_direct and not is_direct(state, items, i))
  local sums = item.group == "tp" and item.pass == "backward" and not (in_pieces or gathers)
  if sums and state.software.hides_sums then
    local k = i + 1
    while items[k] and items[k].kind == "collective" do k = k + 1 end
    local o = items[k]
    if not o or o.frozen or o.operator.family ~= "gemm" then return 0 end
    return state.times:operator(o.operator, o.shape, p.dtype, "backward", o.key).seconds / 2, true, 0
  end
  if not (item.overlapped or in_pieces) then return 0 end
  local o = neighbour(items, i)
  if not o then return 0 end
  local seconds = state.times:operator(o.operator, o.shape, p.dtype, item.pass, o.key).seconds
  if item.pieces then return seconds / item.pieces end -- one step of a ring overlaps both gradients
  if item.pass == "forward" then return seconds end
  local again = not gathers and items[i + 1]
  local late = again and again.overlapped and again.name == "all_gather" and again.pass == "backward"
    and math.max(0, seconds / 2 - messages.hidden_seconds(state, again, messages.time(state, again,
      messages.of(state, items, i + 1)), seconds / 2))
  return seconds / 2, false, late or nil
end

return messages
