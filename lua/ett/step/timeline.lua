--- The activity of every resource of every pipeline stage during a predicted step.
--
--   local e = estimate.new { …, units = true }
--   local t = timeline.of(e)
--   t.stages[1].units[1]      -- { kind = "F", micro_batch, chunk, start, seconds, parts }
--   t.stages[1].runs[1]       -- { units = one or a pair, parts = of both in order }
--   t.stages[1].messages[1]   -- { name, lane = "sends" | "gradients" | "weights" | "update" | "to host" | "from host",
--                             --   start, seconds, link, … }; host = true: time on the host, not on the device
--
-- Units, sends and the collectives that overlap units come from the event engine (runtime/step/links.h). The parts of a
-- unit are its operators and collectives in the order of the layer; in reverse order in the backward pass. A part lists
-- the resources that it occupies: "compute", "node" (links inside a node) or "network"; with more than two tiers "links
-- of" the outermost tier. Each part begins at `start`, after the `seconds` of the part before it; a pair of units has
-- one such row of parts. `from` and `length` include hidden time: a collective that overlaps computing begins earlier
-- or ends later.
local lower = require "ett.step.lower"
local merged = require "ett.base.merged"
local plan_fields = require "ett.plan.fields"
local ranks = require "ett.plan.ranks"
local schema = require "ett.base.schema"
local schedules = require "ett.plan.schedules"
local slices = require "ett.step.slices"
local stacks = require "ett.operator.stack"

local timeline = {}

local function link_of(operation)
  if operation.kind ~= "collective" then return "compute" end
  return operation.link
end

--- A shape as text; nil for an operation without one.
function timeline.shape_text(shape)
  local keys = schema.keys(shape or {})
  for i, key in ipairs(keys) do keys[i] = ("%s=%s"):format(key, tostring(shape[key])) end
  return #keys > 0 and table.concat(keys, " ") or nil
end

-- Share of an operation's model FLOPs in a pass. Repeated forward passes have none.
local function flops_share(operation, pass, share, repeated)
  if repeated then return 0 end
  local forward = operation.forward_share or 1 / 3
  return pass == "forward" and forward or (1 - forward) * share
end

--- Sets `from` and `length` of a unit's parts, with their hidden times. A message with `later` ends during the product
--- after it. Other messages begin during the product before them; the first message of a row begins earlier by the
--- hidden time of the whole row. Messages of one link do not overlap and stay within `seconds`.
local function span(parts, seconds)
  local free, last, hidden = {}, {}, 0.0
  for i = #parts, 1, -1 do
    local part = parts[i]
    hidden = (part.later or part.hidden <= 0) and 0.0 or hidden + part.hidden
    part.from, part.length = part.start - hidden, part.seconds + part.hidden
  end
  for _, part in ipairs(parts) do
    part.from = math.max(part.from, free[part.resource] or 0.0)
    free[part.resource] = part.from + part.length
  end
  for i = #parts, 1, -1 do
    local part = parts[i]
    part.from = math.max(0.0, math.min(part.from, (last[part.resource] or seconds) - part.length))
    last[part.resource] = part.from
  end
  return parts
end

--- One part: an operation that runs several times in a row.
---@param item table { operation, number of runs }
---@param how table share: of the pass's time (default 1); repeated: by recomputation; split: weight gradients are units
---  of their own, and hide no communication
local function add(parts, item, pass, how)
  local operation, times, share = item[1], item[2], how.share or 1
  local seconds, more = operation[pass] and operation[pass].seconds * times * share, how.split and operation.split
  local hidden = math.max(0, (operation.beside_seconds or 0) - (more and more.seconds or 0))
  if seconds and how.split then
    local later = operation.split_weight -- in another unit
    seconds = seconds + ((more and more.seconds or 0) - (later and later.seconds or 0)) * times
  end
  if not seconds or seconds <= 0 and hidden <= 0 then return end
  parts.seconds = parts.seconds + seconds
  parts[#parts + 1] = { name = operation.name, resource = link_of(operation), role = operation.role,
    group = operation.group, members = operation.members, degree = operation.degree, bytes = operation.bytes,
    shape = operation.shape, quantised = operation.quantised, pass = pass == "repeated" and "forward" or pass,
    flops = (operation.flops or 0) * flops_share(operation, pass, share, how.repeated) * times,
    times = times, seconds = seconds, hidden = hidden * times * share, later = operation.beside_later }
end

--- Operations of one layer in order, { { operation, times, index } }, and operations appended by lowering.
local function items_of(kind, operations)
  local list, rest, seen = {}, {}, {}
  for _, item in ipairs(kind.order) do
    list[#list + 1] = { operations[item[1]], item[2], item[1] }
    seen[item[1]] = true
  end
  for index in pairs(kind.uses) do if not seen[index] then rest[#rest + 1] = index end end
  table.sort(rest)
  for i, index in ipairs(rest) do rest[i] = { operations[index], kind.uses[index], index } end
  return list, rest
end

---@param repeats (fun(operation: table, index: integer): number)? runs that recomputation repeats; nil: the pass itself
---@param waits boolean? the pass is that of selective recomputation
local function add_forward(parts, items, repeats, waits)
  for _, item in ipairs(items) do
    local share = repeats and repeats(item[1], item[3]) or 1
    if share > 0 then add(parts, item, "forward", { share = share, repeated = repeats ~= nil }) end
    if waits and item[1].repeated then add(parts, item, "repeated", { repeated = true }) end
  end
end

--- The backward pass of a layer; for a split one, without the work that only weight gradients need.
local function add_backward(parts, items, rest, whole)
  local function put(item)
    local share = whole and 1 or 1 - item[1].weight_share
    if share > 0 then add(parts, item, "backward", { share = share, split = not whole }) end
  end
  for i = #items, 1, -1 do put(items[i]) end
  for _, item in ipairs(rest) do put(item) end
end

--- The part of a split backward pass that computes weight gradients.
local function add_weights(parts, items)
  for _, item in ipairs(items) do
    if item[1].weight_share > 0 then add(parts, item, "backward", { share = item[1].weight_share }) end
    if item[1].split_weight then add(parts, item, "split_weight", {}) end
  end
end

--- Moves the shared experts of a pass of a layer (the parts from `from` on) before the all-to-all beside which they
--- run: the up projection to the dispatch, the down projection to the combine, which is first in a backward pass.
local function beside_exchanges(parts, from, backward)
  local beside, others, exchanges = { beside_dispatch = {}, beside_combine = {} }, {}, 0
  for i = from, #parts do
    local part = parts[i]
    table.insert(beside[part.role] or others, part)
    if part.role == "exchange" then exchanges = exchanges + 1 end
  end
  if exchanges == 0 then return end
  local first, second = beside.beside_dispatch, beside.beside_combine
  if backward then first, second = second, first end
  local at, seen = from - 1, 0
  local function put(part) at, parts[at + 1] = at + 1, part end
  for _, part in ipairs(others) do
    if part.role == "exchange" then
      for _, list in ipairs { seen == 0 and first or {}, seen == exchanges // 2 and second or {} } do
        for _, own in ipairs(list) do
          put(own)
          part.beside = (part.beside or 0.0) + own.seconds
        end
      end
      seen = seen + 1
    end
    put(part)
  end
end

--- The first and the last layer that are repeated before the backward pass of layer i: itself, or all layers of the
--- group with one stored input that it closes; none before other layers of a group.
---@param repeated table? of slices.repeated
local function repeated_before(repeated, i)
  local first = i
  if not repeated then return first, i end
  if repeated[i + 1] and repeated[i + 1].opens == false then return i + 1, i end
  while repeated[first].opens == false do first = first - 1 end
  return first, i
end

--- The parts of one unit of a slice. kind: F, B, W, or "input": a backward pass of input gradients only.
---@param lowered table of the cluster part of the stage
local function parts_of(e, lowered, layers, kind)
  local parts, operations = { seconds = 0.0 }, lowered.operations
  local first, last, step, repeated = 1, #layers, 1, slices.repeated(e.plan, layers)
  if kind ~= "F" then first, last, step = #layers, 1, -1 end
  local function run(backward, add_run)
    local from = #parts + 1
    add_run()
    if e.plan.overlap_all_to_all == "shared_experts" then beside_exchanges(parts, from, backward) end
  end
  for i = first, last, step do
    local items, rest = items_of(layers[i], operations)
    if kind == "F" then
      run(false, function()
        add_forward(parts, items)
        add_forward(parts, rest)
      end)
    elseif kind == "W" then
      add_weights(parts, items)
      add_weights(parts, rest)
    else
      local from, to = repeated_before(repeated, i)
      for k = from, to do
        run(false, function()
          local own, others = items_of(layers[k], operations)
          local function repeats(o, index)
            return lower.repeats(e.plan.recompute, o, layers[k], index, repeated and repeated[k])
          end
          local waits = e.plan.recompute == "selective"
          add_forward(parts, own, repeats, waits)
          add_forward(parts, others, repeats, waits)
        end)
      end
      run(true, function() add_backward(parts, items, rest, kind == "B") end)
    end
  end
  return parts
end

--- A unit's parts up to each of its all-to-alls of experts, and those after the last.
---@param number integer of the unit in its pair
local function chunks_of(parts, number)
  local list, chunk = {}, { seconds = 0.0 }
  for _, part in ipairs(parts) do
    part = merged(part, { unit = number })
    if part.role == "exchange" then
      chunk.exchange, list[#list + 1] = part, chunk
      chunk = { seconds = 0.0 }
    else
      chunk[#chunk + 1] = part
      chunk.seconds = chunk.seconds + (part.role ~= "alone" and part.seconds or 0.0)
    end
  end
  list[#list + 1] = chunk
  return list
end

--- The parts of a pair in order. Each all-to-all follows the computing of the other unit beside which it runs
--- (the columns of `hide` in runtime/step/program.c).
local function pair_of(forward, backward)
  local f, b, list = chunks_of(forward, 1), chunks_of(backward, 2), {}
  local function put(chunk, exchange)
    table.move(chunk or {}, 1, chunk and #chunk or 0, #list + 1, list)
    if exchange then exchange.beside, list[#list + 1] = chunk and chunk.seconds, exchange end
  end
  put(b[1])
  for k = 1, math.max(#f, #b) do
    put(f[k], b[k] and b[k].exchange)
    put(b[k + 1], f[k] and f[k].exchange)
  end
  return list
end

--- Hides `seconds` of all-to-alls of experts. Each first overlaps the computing beside it, as long as that lasts.
--- Returns the hidden seconds.
---@param share number share of the device that they take from that computing
---@param waits boolean the unit also waits: they are hidden at least for the computing beside them
local function hide(parts, seconds, share, waits)
  local all, most, exchanges = 0.0, 0.0, {}
  for _, part in ipairs(parts) do
    if part.role == "exchange" then
      exchanges[#exchanges + 1] = part
      part.room = math.min((1 - share) * part.seconds, part.beside or 0.0)
      all, most = all + part.seconds, most + part.room
    end
  end
  seconds = math.max(0.0, math.min(waits and math.max(seconds, most) or seconds, all))
  for _, part in ipairs(seconds > 0 and exchanges or {}) do
    local own = seconds <= most and part.room * seconds / most
      or part.room + (part.seconds - part.room) * (seconds - most) / (all - most)
    part.seconds, part.hidden = part.seconds - own, part.hidden + own
  end
  return seconds
end

--- Places parts in `seconds`: first what the unit waits for, then its parts, without the hidden part of all-to-alls of
--- experts.
---@param waits string? what units of this plan wait for
---@param gathers table[] of the unit's weights
local function place_parts(parts, seconds, waits, gathers, share)
  local at, laid, all = 0.0, {}, 0.0
  for i, part in ipairs(parts) do laid[i], all = merged(part), all + part.seconds end
  local wait = seconds - all + hide(laid, all - seconds, share, waits ~= nil)
  if wait > 1e-9 * all + 1e-12 then
    table.insert(laid, 1, { name = waits or "waits", resource = "wait", seconds = wait, times = 1, hidden = 0.0,
      gathers = gathers })
  end
  for _, part in ipairs(laid) do part.start, at = at, at + part.seconds end
  return span(laid, seconds)
end

--- Adds a message, if it takes time.
local function put(stage, name, lane, start, seconds, more)
  if seconds <= 0 then return end
  stage.messages[#stage.messages + 1] = merged({ name = name, lane = lane, start = math.max(0.0, start),
    seconds = seconds }, more)
end

--- Bytes of the message from each slice to the next; the last layer that states them decides.
local function sent_bytes(lowered, layers)
  local list, boundary = {}, 1
  for v, kinds in ipairs(layers) do
    for _, kind in ipairs(kinds) do if kind.boundary > 0 then boundary = kind.boundary end end
    list[v] = boundary * lowered.boundary_bytes
  end
  return list
end

--- Messages to other stages, from the event engine of links.
local function add_sends(state, stage, transfers)
  for _, t in ipairs(transfers) do
    local forward = t.kind == "forward"
    if forward or t.kind == "backward" then
      local slice = state.slices[t.slot]
      put(stage, "send_recv", "sends", t.start_seconds, t.seconds, { group = "pp", degree = 2, link = t.link,
        bytes = state.on.sent[forward and slice or slice - 1], micro_batch = t.micro_batch, to = t.to,
        slice = forward and slice + 1 or slice - 1, kind = t.kind,
        direction = ("%s to stage %d"):format(forward and "activations" or "gradients", t.to) })
    end
  end
end

-- The groups that share weights, as traces name them.
local groups = { data = "dp", ["expert data"] = "expert dp" }

--- Numbers of weights of a stage by kind: those with gradients to reduce, and those to gather after the update.
local function shared_weights(state, stage)
  local layers, lowered, sharing = {}, state.on.lowered, state.sharing
  for slot = stage.number, #state.slices, state.e.plan.pp do
    local own = state.on.layers[state.slices[slot]]
    table.move(own, 1, #own, #layers + 1, layers)
  end
  local reduced = slices.shared_parameters(sharing, lowered, layers)
  local gathered = slices.shared_parameters(sharing, lowered, layers, true)
  local kind = lowered.kinds[1].frozen_table and "frozen_dense" or "dense"
  for _, sums in ipairs(sharing.dense > 1 and { reduced, gathered } or {}) do
    sums[kind] = sums[kind] - slices.removed_copies(lowered, layers)
  end
  return reduced, gathered
end

--- Adds the message of one kind of weights, and that between the replicas of their shards.
---@param name string of the message; unsharded weights are all-reduced
---@param group table members, shard (ranks of a shard) and all (ranks with these weights)
---@param message table share of the seconds, bytes, replicas (part of this share for the message between replicas)
---@param copies integer of ett.step.slices.sharing
local function add_message(list, name, group, message, copies)
  local unsharded = group.shard == 1 -- the message goes only between replicas
  local between = unsharded and 0.0 or message.replicas or 0.0
  list[#list + 1] = { name = unsharded and "all_reduce" or name, members = group.members,
    degree = unsharded and group.all or group.shard, share = message.share * (1 - between), bytes = message.bytes }
  if between > 0 then
    list[#list + 1] = { name = "all_reduce", members = group.members, degree = group.all // group.shard,
      shard = group.shard // copies, share = message.share * between,
      bytes = name == "reduce_scatter" and message.bytes / group.shard or message.bytes }
  end
end

--- The messages of a stage's gradients, and of its gathers after the update, for dense weights and for experts, which
--- have groups of their own. If a shard has replicas, its gradients are also summed over these; `shard` is then the
--- number of ranks of a shard. { { name, members, degree, bytes, share = share of the seconds, shard? }, … }.
local function messages_of(state, stage)
  local p, s, sharing = state.e.plan, state.e.stages[stage.number], state.sharing
  local reduced, gathered = shared_weights(state, stage)
  local dense = { members = "data", shard = sharing.dense_shard, all = sharing.dense }
  local experts = { members = "expert data", shard = sharing.expert_shard, all = sharing.expert }

  local every = p.zero >= 2 and not state.whole -- each micro-batch reduces its gradients
  local width = (every and p.micro_batches / sharing.copies or 1)
    * schema.dtype_bytes[p.reduce_dtype or p.gradient_dtype]
  local reduce = (p.zero > 0 and not p.gradient_all_reduce) and "reduce_scatter" or "all_reduce"
  local gradients = {}
  add_message(gradients, reduce, dense, { share = 1 - s.expert_gradient_share, bytes = width * reduced.dense,
    replicas = s.replica_share }, sharing.copies)
  add_message(gradients, reduce, experts, { share = s.expert_gradient_share, bytes = width * reduced.expert,
    replicas = s.expert_replica_share }, sharing.copies)

  local wide, frozen, gathers = schema.wide_bytes(p.dtype), p.zero == 3 and 1 or 0, {}
  add_message(gathers, "all_gather", dense, { share = 1 - s.expert_gather_share,
    bytes = wide * (gathered.dense + frozen * gathered.frozen_dense) }, sharing.copies)
  add_message(gathers, "all_gather", experts, { share = s.expert_gather_share,
    bytes = wide * (gathered.expert + frozen * gathered.frozen_expert) }, sharing.copies)
  return gradients, gathers
end

--- Adds `seconds` of messages that take `all` seconds in a step, one group's after the other's.
---@param shares number[]? of these seconds, one a message (default: the messages' shares of `all`)
local function put_messages(stage, messages, lane, start, seconds, all, more, shares)
  start = math.max(0.0, start)
  for i, m in ipairs(messages) do
    local group = groups[m.members] .. (m.shard and " replicas" or "")
    local own = seconds * (shares and shares[i] or m.share)
    put(stage, m.name, lane, start, own, merged({ group = group, members = m.members,
      degree = m.degree, shard = m.shard, stages = not m.shard and stage.copies or nil,
      bytes = m.bytes * own / (all * m.share) }, more))
    start = start + own
  end
end

--- The shares of each message of gradients in the seconds that overlap passes, and in the exposed seconds. nil: as in
--- all seconds. Where reduce-scatters block the device, only the other messages overlap (runtime/step/messages.c,
--- ett_messages_overlaps_replicas).
local function shares_of_gradients(state, messages, hidden, exposed)
  local beside = 0.0
  for _, m in ipairs(messages) do beside = beside + (m.name ~= "reduce_scatter" and m.share or 0.0) end
  if not state.on.lowered.blocking_reductions or hidden <= 0 or beside <= 0 then return nil, nil end
  local early, late = {}, {}
  for i, m in ipairs(messages) do
    early[i] = m.name ~= "reduce_scatter" and m.share / beside or 0.0
    late[i] = exposed > 0 and ((hidden + exposed) * m.share - hidden * early[i]) / exposed or 0.0
  end
  return early, late
end

--- Collectives of one kind from the event engine: up to the last backward, and after it. Returns whether there are any.
local function add_collectives(state, stage, transfers, kind, messages, lane)
  local all, finish = 0.0, state.e.stages[stage.number].pipeline_seconds
  for _, t in ipairs(transfers) do all = all + (t.kind == kind and t.seconds or 0.0) end
  for _, t in ipairs(transfers) do
    if t.kind == kind then
      local hidden = math.max(0.0, math.min(t.seconds, finish - t.start_seconds))
      put_messages(stage, messages, lane, t.start_seconds, hidden, all, { link = t.link })
      put_messages(stage, messages, lane, t.start_seconds + hidden, t.seconds - hidden, all,
        { link = t.link, exposed = true })
    end
  end
  return all > 0
end

--- The update: Muon's messages and iterations, kernels of the device, then its wait for the host that updates the other
--- weights at the same time.
local function add_optimizer(stage, s, finish, zero)
  local start, on_host = finish - s.optimizer_seconds, slices.host_seconds(s)
  put(stage, zero == 3 and "all_to_all" or "all_gather", "gradients", start, s.newton_message_seconds,
    { group = "dp momenta", exposed = true })
  put(stage, "newton_schulz", "update", start + s.newton_message_seconds, s.newton_seconds, { exposed = true })
  start = finish - on_host - s.optimizer_kernel_seconds
  put(stage, "optimizer", "update", start, s.optimizer_kernel_seconds, { exposed = true })
  put(stage, "optimizer (host)", "update", finish - on_host, on_host, { exposed = true, host = true })
end

--- Gradients, the update and weights: from the event engine if it has them. Otherwise the overlapped part is placed at
--- the end or start of the passes, the exposed part after the pipeline.
local function add_update(state, stage, transfers)
  local gradients, weights = messages_of(state, stage)
  local s, exposed = state.e.stages[stage.number], { exposed = true }
  if not add_collectives(state, stage, transfers, "reduce", gradients, "gradients") then
    local all, late = s.gradient_seconds, s.gradient_exposed_seconds
    local hidden = math.max(0.0, all - late)
    local early, after = shares_of_gradients(state, gradients, hidden, late)
    put_messages(stage, gradients, "gradients", s.pipeline_seconds - hidden, hidden, all, nil, early)
    put_messages(stage, gradients, "gradients", s.pipeline_seconds, late, all, exposed, after)
  end
  put(stage, "all_reduce", "gradients", s.pipeline_seconds + s.gradient_exposed_seconds, s.tied_embedding_seconds,
    { group = "tied embedding", degree = #state.tied, stages = state.tied, exposed = true })
  local first = add_collectives(state, stage, transfers, "gather", weights, "weights")
  local last = first and 0.0 or s.gather_exposed_seconds
  add_optimizer(stage, s, s.end_seconds - last, state.e.plan.zero)
  if not first then
    put_messages(stage, weights, "weights", 0.0, s.gather_seconds - last, s.gather_seconds)
    put_messages(stage, weights, "weights", s.end_seconds - last, last, s.gather_seconds, exposed)
  end
end

--- The gathers of the weights of units in order. seconds: time of all gathers; first: time of those of the first
--- layers.
local function gathers_of(state, stage, units)
  local e, list = state.e, { seconds = 0.0, first = 0.0 }
  for _, unit in ipairs(e.gathers and units or {}) do
    local gathers = e.gathers[(unit.chunk - 1) * e.plan.pp + stage.number][unit.kind]
    for _, g in ipairs(gathers or {}) do
      list[#list + 1] = merged(g, { name = "all_gather", group = groups[g.members] })
    end
    if gathers then list.seconds, list.first = list.seconds + gathers.seconds, list.first + gathers.first end
  end
  return list
end

--- Seconds of a wait in which gathers overlap no computing. The others slow computing by communication_share, so the
--- wait is alone + share * (all - alone). If the wait may also be for the host, only the gathers of the first layers
--- are certain.
local function exposed_gather_seconds(state, gathers, wait)
  local p, share = state.e.plan, stacks.gather_communication_share(state.on.lowered.stack)
  if not (p.overlap_parameters and p.prefetch > 0) then return math.min(wait, gathers.seconds) end
  if state.e.host_bandwidth then return math.min(wait, gathers.first) end
  return math.max(0.0, math.min(wait, (wait - share * gathers.seconds) / (1 - share), gathers.seconds))
end

--- The gathers of all units. The gather of a layer follows the gather of the layer before. Units last at least as long.
local function add_gathers(state, stage)
  for _, unit in ipairs(stage.units) do
    local at = unit.start
    for _, g in ipairs(gathers_of(state, stage, { unit })) do
      put(stage, g.name, "weights", at, g.seconds, merged(g, { micro_batch = unit.micro_batch, stages = stage.copies }))
      at = at + g.seconds
    end
  end
end

--- Three numbers of bytes for a slice: activations that a micro-batch stores; weights on a rank that a unit F or B
--- reads; gradients. Under ZeRO-2 and 3 only the gradients that the rank keeps count.
local function bytes_of_slice(state, layers)
  local p, lowered, sharing = state.e.plan, state.on.lowered, state.sharing
  local activations, shared, forward, backward, gradients = 0.0, 0.0, 0.0, 0.0, 0.0
  local function held(from, dense, expert)
    if p.zero < from then return dense + expert end
    return dense / sharing.dense_shard + expert / sharing.expert_shard
  end
  local repeated = slices.repeated(p, layers)
  for i, kind in ipairs(layers) do
    local none, selective = 0.0, 0.0
    for index, n in pairs(kind.uses) do
      local o = lowered.operations[index]
      none = none + n * o.activation_bytes
      selective = selective + n * (o.activation_bytes - (o.selective and o.dropped_bytes or 0))
      local narrow = 1 - o.spared_share -- of frozen weights
      local read = n * held(3, o.dense_parameters + narrow * o.frozen_dense,
        o.expert_parameters + narrow * o.frozen_expert)
      forward, backward = forward + read, backward + (kind.forward_only and 0.0 or read)
      gradients = gradients + n * held(2, o.dense_parameters, o.expert_parameters)
    end
    local again = repeated and repeated[i]
    local full = again and (again.layers == 0 and none or not again.opens and 0.0) or kind.input_bytes
    local by = { none = none, selective = selective, full = full, policy = kind.place == "prediction" and none
      or kind.policy_bytes > 0 and kind.policy_bytes or (none + kind.input_bytes) / 2 }
    activations = activations + (slices.is_repeated_place[kind.place] and by[p.recompute] or none)
    shared = math.max(shared, kind.shared_bytes)
  end
  local width = schema.wide_bytes(p.dtype)
  return { activations = activations + shared, weights = { F = forward * width, B = backward * width },
    gradients = gradients * schema.dtype_bytes[p.gradient_dtype] }
end

--- Weights that a rank of a stage updates.
local function updated_weights(state, stage)
  local p, dense, expert = state.e.plan, 1, 1
  if p.zero > 0 then dense, expert = state.sharing.dense_shard, state.sharing.expert_shard end
  return math.ceil((stage.parameters - stage.expert_parameters) / dense + stage.expert_parameters / expert)
end

--- Transfers over the host link, during the units and the update that wait for them (runtime/step). Activations go to
--- the host in forward passes and return in backward passes. Weights arrive for both passes. Gradients go to the host
--- in the units that make them. In the update the host sends the weights that it updates. Gradients move to the side
--- that updates their weights.
local function add_host(state, stage)
  local e = state.e
  local p, s, bandwidth = e.plan, e.stages[stage.number], e.host_bandwidth[e.stages[stage.number].part or 1]
  local free, known = { ["to host"] = 0.0, ["from host"] = 0.0 }, {}
  local function pass(lane, holds, at, bytes, micro_batch)
    if bytes <= 0 then return end
    local start = math.max(at, free[lane])
    free[lane] = start + bytes / bandwidth
    put(stage, holds .. " " .. lane, lane, start, bytes / bandwidth, { bytes = bytes, micro_batch = micro_batch })
  end
  for _, unit in ipairs(stage.units) do
    local slice = unit.slice
    known[slice] = known[slice] or bytes_of_slice(state, state.on.layers[slice])
    local bytes = known[slice]
    if unit.kind ~= "W" then
      pass(unit.kind == "F" and "to host" or "from host", "activations", unit.start,
        p.offload_activations * bytes.activations, unit.micro_batch)
      pass("from host", "weights", unit.start, p.offload_weights * bytes.weights[unit.kind], unit.micro_batch)
    end
    if unit.kind ~= "F" and unit.work ~= "input" and not state.whole then
      pass("to host", "gradients", unit.start, p.offload_gradients * bytes.gradients, unit.micro_batch)
    end
  end
  local weights, update = updated_weights(state, s), nil
  for _, m in ipairs(stage.messages) do update = update or m.lane == "update" and m.start end
  if not update then return end
  local there = state.whole and 0 or p.offload_gradients
  local moved = (p.offload_optimizer - there) * weights * schema.dtype_bytes[p.gradient_dtype]
  pass("to host", "gradients", update, moved)
  pass("from host", "gradients", update, -moved)
  pass("from host", "weights", update, p.offload_optimizer * weights * schema.wide_bytes(p.dtype))
end

--- The transfers of each stage, with the names of their outermost lanes.
local function by_stage(e)
  local lists = {}
  for number in ipairs(e.units) do lists[number] = {} end
  for _, t in ipairs(e.transfers) do
    t.link = e.lanes[t.lane]
    table.insert(lists[t.stage], t)
  end
  return lists
end

--- The layers of each slice as text: slices with equal layers share their parts.
local function names_of(layers)
  local names = {}
  for v, list in ipairs(layers) do
    local words = {}
    for i, kind in ipairs(list) do words[i] = ("%p"):format(kind) end
    names[v] = table.concat(words, " ")
  end
  return names
end

local function plain_parts(state, unit, slice)
  local plain = unit.work .. " " .. state.on.names[slice]
  state.plain[plain] = state.plain[plain] or parts_of(state.e, state.on.lowered, state.on.layers[slice], unit.work)
  return state.plain[plain]
end

--- The gather of a unit's input, which arrives in parts from another stage (scatter_sends; add_gather of lower.lua);
--- else nil.
local function gathered_input(state, stage, unit)
  local p, gather = state.e.plan, state.on.lowered.gather
  if not gather or unit.kind == "W" then return nil end
  local forward = unit.kind == "F"
  local other = state.stages[("%d %d"):format((unit.chunk - 1) // p.vp, unit.slice + (forward and -1 or 1))]
  if not other or other == stage.number then return nil end
  local pass = forward and "forward" or "backward"
  local once = gather.forward.seconds
  local times = once > 0 and math.floor(gather[pass].seconds / once + 0.5) or 1
  local boundary = state.on.sent[forward and unit.slice - 1 or unit.slice] / state.on.lowered.boundary_bytes
  return { name = gather.name, resource = link_of(gather), role = "alone", group = gather.group, degree = gather.degree,
    bytes = gather.bytes * boundary, pass = pass, flops = 0, times = times, seconds = gather[pass].seconds * boundary,
    hidden = 0.0 }
end

local function parts_with_input(state, stage, unit)
  local parts, input = plain_parts(state, unit, unit.slice), gathered_input(state, stage, unit)
  if not input then return parts end
  local list = table.move(parts, 1, #parts, 2, { input })
  list.seconds = parts.seconds + input.seconds
  return list
end

--- The parts of a unit, or of both units of a pair in order; and the parts of each unit.
---@param units table[] with their slices
local function parts_in(state, stage, units)
  local key = ("%.9g"):format(units[1].seconds)
  for _, unit in ipairs(units) do key = ("%s %s %s"):format(key, unit.work, state.on.names[unit.slice]) end
  if not state.laid[key] then
    local parts, lowered, own = parts_with_input(state, stage, units[1]), state.on.lowered, { {}, {} }
    if units[2] then parts = pair_of(parts, parts_with_input(state, stage, units[2])) end
    local waits = state.e.gathers and "gathers of weights" or state.e.host_bandwidth and "waits" or nil
    local gathers = gathers_of(state, stage, units)
    local share = stacks.exchange_communication_share(lowered.stack)
    local laid = place_parts(parts, units[1].seconds, waits, gathers, share)
    local wait = laid[1]
    if wait and wait.gathers then wait.gathers.seconds = exposed_gather_seconds(state, wait.gathers, wait.seconds) end
    for _, part in ipairs(laid) do table.insert(own[part.unit or 1], part) end
    state.laid[key] = { laid, own }
  end
  return table.unpack(state.laid[key])
end

--- Adds the parts of a stage's units. Two paired units share their time.
local function add_parts(state, stage)
  local units, i = stage.units, 1
  for _, unit in ipairs(units) do unit.slice = state.slices[(unit.chunk - 1) * state.e.plan.pp + stage.number] end
  while i <= #units do
    local a, b = units[i], units[i + 1]
    local paired = b and b.start == a.start and b.seconds == a.seconds and a.seconds > 0
    local run = { units = { a, paired and b or nil } }
    local own
    run.parts, own = parts_in(state, stage, run.units)
    for k, unit in ipairs(run.units) do unit.parts, unit.paired = own[k], paired or nil end
    stage.runs[#stage.runs + 1] = run
    i = i + #run.units
  end
end

--- The stages that reduce the gradient of the embedding's table together.
local function tied_stages(e)
  local list = {}
  for number, stage in ipairs(e.stages) do
    if stage.tied_embedding_seconds > 0 then list[#list + 1] = number end
  end
  return list
end

--- The stages that hold the first slice of a stage, in a two-way schedule; nil: only this stage.
local function copies_of(state, number)
  if state.sharing.copies == 1 then return nil end
  local pp, list = state.e.plan.pp, {}
  for slot, slice in ipairs(state.slices) do
    if slice == state.slices[number] then list[#list + 1] = (slot - 1) % pp + 1 end
  end
  table.sort(list)
  return list
end

--- The ranks of the group in which a rank takes part in a part or message, in the group's order.
---@param part table { members or group, degree, stages?, shard? } of a unit or a stage's messages
function timeline.ranks(p, part, rank)
  if part.group == "tied embedding" then
    local stages, list = ranks.group(p, "pp", rank), {}
    for i, stage in ipairs(part.stages) do list[i] = stages[stage] end
    return list
  end
  if part.shard then return ranks.replicas(p, part.members, rank, part.shard) end
  local list = {}
  local stages, between = part.stages or { ranks.stage_of(p, rank) }, ranks.stride(p, "pp")
  for _, stage in ipairs(stages) do
    local own = rank + (stage - ranks.stage_of(p, rank)) * between
    local block = ranks.group(p, part.members or part.group, own, (part.degree or 1) // #stages)
    table.move(block, 1, #block, #list + 1, list)
  end
  return list
end

--- The timeline of an estimate made with units = true.
function timeline.of(e)
  local state, of_part = { e = e, slices = schedules.slices(e.plan), sharing = slices.sharing(e.plan), plain = {},
    laid = {}, whole = plan_fields.stay_whole(e.plan) or plan_fields.defers_gradients(e.plan) }, {}
  state.stages, state.tied = slices.stages(e.plan, state.slices), tied_stages(e)
  for k, lowered in ipairs(e.lowered.parts) do
    local layers = slices.layers(e.plan, lowered.kinds)
    of_part[k] = { lowered = lowered, layers = layers, names = names_of(layers), sent = sent_bytes(lowered, layers) }
  end
  local transfers, stages = by_stage(e), {}
  for number, units in ipairs(e.units) do
    local stage = { number = number, units = {}, runs = {}, messages = {}, copies = copies_of(state, number) }
    local split = false
    for _, u in ipairs(units) do split = split or u[1] == "W" end
    for i, u in ipairs(units) do
      local kind = u[1] == "BW" and "B" or u[1]
      stage.units[i] = { kind = kind, work = split and u[1] == "B" and "input" or kind, micro_batch = u[2],
        chunk = u[3], start = u.start_seconds, seconds = u.seconds }
    end
    state.on = of_part[e.stages[number].part or 1]
    add_parts(state, stage)
    add_sends(state, stage, transfers[number])
    add_update(state, stage, transfers[number])
    add_gathers(state, stage)
    if e.host_bandwidth then add_host(state, stage) end
    stages[number] = stage
  end
  return { stages = stages, seconds = e.step_seconds }
end

return timeline
