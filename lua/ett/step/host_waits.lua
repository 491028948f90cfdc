--- Waits of a device for the kernel launches of its host, in a layer and its passes.
local fields = require "ett.plan.fields"
local in_step = require "ett.profile.in_step"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"

local host_waits = {}

-- Launches of a quantised expert product per launch of a 16-bit one: separate kernels quantise both operands.
local quantised_launches = 3

-- Least and most time of launches over their time, for the interval; assumed.
local least_launch, most_launch = 0.5, 1.5

--- Seconds of all-to-alls that hide behind shared experts in one pass, as in runtime/step/program.c.
local function hidden_by_shared(state, pass)
  if state.plan.overlap_all_to_all ~= "shared_experts" then return 0.0 end
  local share = stacks.exchange_communication_share(state.times.stack)
  local each = (1 - share) * (pass.exchange or 0) / 2
  return math.min(each, pass.beside_dispatch or 0) + math.min(each, pass.beside_combine or 0)
end

local function seconds_outside(pass)
  return (pass.outside or 0) + (pass.beside_dispatch or 0) + (pass.beside_combine or 0)
end

--- Exposed all-to-all seconds of a pair of micro-batches, as computed by `hide` of runtime/step/program.c.
local function exposed_exchange(by_role, share)
  local forward, backward = by_role.forward, by_role.backward
  local f, b = (1 - share) * (forward.exchange or 0) / 2, (1 - share) * (backward.exchange or 0) / 2
  local outside_forward, outside_backward = seconds_outside(forward), seconds_outside(backward)
  return (forward.exchange or 0) + (backward.exchange or 0) - math.min(f, backward.expert or 0)
    - math.min(f, outside_backward) - math.min(b, outside_forward) - math.min(b, forward.expert or 0)
end

--- Seconds of one launch on the host, and of the launches of one expert's kernels. A loop over experts reads positions
--- of tokens from the device (torch.where), which no CUDA graph can hold.
local function launch_seconds(state)
  local stack = state.times.stack
  if not stack then return 0, 0 end
  local slower = in_step.host[state.times.cluster.device.host] or 1
  local quantised = schema.dtype_bytes[state.plan.dtype] < 2 and stack.quantised_products ~= "dense"
  local expert = slower * stack.expert_seconds * (quantised and quantised_launches or 1)
  if stack.graphs then return 0, stack.grouped == "loop" and expert or 0 end
  return slower * stack.launch_seconds, expert
end

--- Seconds of the host in which ZeRO-3 gathers one weight and releases it. Hooks of the host do so also beside a CUDA
--- graph.
local function gather_seconds(state)
  local p, stack = state.plan, state.times.stack
  if not (stack and fields.gathers_weights(p)) then return 0.0 end
  return (in_step.host[state.times.cluster.device.host] or 1) * stack.gather_seconds
end

--- Seconds of the host in a layer: of a launch, of an expert's kernels, and of routing for each product of experts.
---@return table { each, expert, routing, together (one kernel computes a product of all experts), eager = of a launch
---  outside graphs, gather = of a weight that ZeRO-3 gathers by itself, sharded = launches for which one of an operator
---  with weights counts }
local function launches_of_layer(state, uses)
  local stack, each, expert = state.times.stack, launch_seconds(state)
  local launch = { each = each, expert = expert, routing = stack.moe_launches * each,
    together = stack.grouped == "kernel", eager = each, gather = gather_seconds(state),
    sharded = state.plan.tp > 1 and stack.tensor_launches or 1 }
  if not stack.graphed then return launch end
  local has_experts = false
  for index in pairs(uses) do has_experts = has_experts or state.operations[index].experts ~= nil end
  local left, routed = stacks.launches_left(stack, has_experts)
  launch.each, launch.routing = left * each, math.max(0.0, (stack.moe_launches + 1) * routed - left) * each
  return launch
end

--- Kernels of an operation: one for each local expert, unless one kernel computes all.
local function products_of(o, launch) return o.experts and not launch.together and o.shape.batch or 1 end

-- Elements up to which ZeRO-3 does not shard a weight (DeepSpeed, stage3_param_persistence_threshold).
local persistent = 1e5

--- Whether recomputation gathers the weights of an operation again. Hooks of layers are outside of checkpoints. With
--- ranks of experts, routed experts have hooks of their own within (torchtitan, models/llama4/infra/parallelize.py).
local function gathers_again(state, o)
  return not state.times.stack.gathers_layers or o.experts ~= nil and state.plan.ep > 1
end

--- Seconds in which the host gathers the weights of n runs of a product in a forward pass, and again in a backward
--- pass, as in ett_messages_gathers_every. Queries, keys and values have a weight each;
--- gates and up projections, too. If one kernel computes the products of all experts, their weights are one tensor.
local function gathering(state, o, n, launch)
  local s, p = o.shape, state.plan
  if launch.gather == 0 or o.family ~= "gemm" or state.is_repeated and not gathers_again(state, o) then
    return 0.0, 0.0
  end
  local fused = o.experts and launch.together
  local parts = not fused and o.operator.parts and math.max(1, #o.operator.parts(state.configuration)) or 1
  local elements = (s.in_features + 0.0) * s.out_features * (fused and s.batch or 1) / parts
  local seconds = elements > persistent and n * products_of(o, launch) * parts * launch.gather or 0.0
  local whole = fields.stay_whole(p)
  return (p.reshard or not whole) and seconds or 0.0, p.reshard and not whole and seconds or 0.0
end

--- Launches of one run of an operation. An operator with `joins` has no host cost of its own: the other operator's
--- includes it. Experts compute with the local parts of their weights (torchtitan, models/moe.py: to_local). A head in
--- chunks has the launches of each chunk.
local function launches_of(o, launch)
  if not o.operator or o.experts then return o.launches or 1 end
  return o.operator.joins and 0 or (o.chunks or 1) * (o.operator.parameters and launch.sharded or 1)
end

--- Seconds in which the host launches n forward runs of an operation, and the seconds of routing launches.
---@param launch table of launches_of_layer
local function launching(o, n, launch)
  local launched = n * launches_of(o, launch) * launch.each
  if not o.experts then return launched, 0.0 end
  return launched + n * products_of(o, launch) * launch.expert, n * launch.routing
end

--- The work of a layer in each pass: seconds of the device without hidden all-to-alls, seconds of the host, and
--- seconds of the device by role. `split`: the backward pass in two units; `weight`: its unit of weight gradients.
---@return table { device, host, by_role, computing = seconds of operators in the forward pass }
local function work_of_layer(state, uses, repeated)
  local launch = launches_of_layer(state, uses)
  local device = { forward = 0.0, backward = 0.0, split = 0.0, weight = 0.0, repeated = 0.0 }
  local host = { forward = 0.0, backward = 0.0, weight = 0.0, repeated = 0.0 }
  local by_role, computing = { forward = {}, backward = {}, split = {}, repeated = {} }, 0.0
  local batch = state.plan.overlap_all_to_all == "batch"
  local function count(pass, o, seconds, late) -- late: weight gradients in a unit of their own, which hide nothing
    local of = by_role[pass]
    of[o.role] = (of[o.role] or 0.0) + seconds - late
    device[pass] = device[pass] + (batch and o.role == "exchange" and 0.0 or seconds)
  end
  for index, n in pairs(uses) do
    local o, again = state.operations[index], (repeated[index] or 0) / n
    local forward, backward = o.forward and n * o.forward.seconds or 0.0, o.backward and n * o.backward.seconds or 0.0
    local launched, routed = launching(o, n, launch)
    local gathered, regathered = gathering(state, o, n, launch)
    if o.forward then
      count("forward", o, forward, 0.0)
      host.forward = host.forward + (launched + routed) + gathered
      computing = computing + (o.kind == "operator" and forward or 0.0)
    end
    if o.forward and again > 0 then
      count("repeated", o, again * forward, 0.0)
      host.repeated = host.repeated + again * (launched + routed + (gathers_again(state, o) and regathered or 0.0))
    end
    if o.backward then
      local launches = o.backward_launches or o.kind == "collective" and 1 or 2
      count("backward", o, backward, 0.0)
      count("split", o, backward + (o.split and n * o.split.seconds or 0.0), o.weight_share * backward)
      device.weight = device.weight + o.weight_share * backward
      host.backward = host.backward + launches * (launched + routed) + regathered
      host.weight = host.weight + o.weight_share * launches * launched
    end
  end
  for pass, of in pairs(by_role) do device[pass] = device[pass] - hidden_by_shared(state, of) end
  return { device = device, host = host, by_role = by_role, computing = computing }
end

--- Three items of a layer's order: the first that the host launches after it has read the experts' numbers of tokens,
--- the last of the routed experts, and the first that the device runs meanwhile. nil if the host reads no numbers. Also
--- nil if all-to-alls run beside another micro-batch: batch_launches then includes the wait.
local function place_of_counts(state, order)
  local p, reads, first, last, beside = state.plan, state.times.stack.reads_counts, nil, #order, nil
  if reads == "none" or p.pad_to_capacity or p.overlap_all_to_all == "batch" then return nil end
  -- Megatron-Core needs the sum of tokens that are not dropped before it permutes (token_dispatcher.py,
  -- MoEAlltoAllTokenDispatcher.preprocess). A graph that contains the permutation cannot copy the numbers to the host,
  -- so the copy begins behind it (cuda_dtoh_point of that dispatcher).
  if reads == "beside_permute" then
    local graphed = (state.times.stack.graphed or ""):find("moe_preprocess", 1, true)
    reads = p.capacity_factor and "before_permute" or graphed and "before_exchange" or reads
  end
  for k, run in ipairs(order) do
    local o = state.operations[run[1]]
    if not first and o.name == "moe_permute" then beside = k end
    local waits = o.experts or o.group == "ep" or reads == "before_permute" and o.name == "moe_permute"
    first = first or waits and k or nil
    if o.name == "moe_unpermute" then last = k end
  end
  return first, last, reads == "beside_permute" and beside or first
end

-- Share of routing's launches behind the numbers of tokens: permuting tokens and returning them. stacks.launches_left
-- has the same share.
local routed_after = 1 / 4

--- The items of a forward pass between two reads of the experts' numbers of tokens, in order. Each is { seconds of the
--- host, seconds of the device, those of operators, those of all-to-alls }; the first has the index `first`. nil
--- without such reads. The next layer is assumed to be alike. Launches outside the graphs of modules are first those of
--- the routed experts. A product of experts has `parts`, one for each expert. `later` are its seconds of the host after
--- the first part. `running` are the items that the device still has when the host has read the numbers.
---@param by_role table seconds of the device in the pass
local function segment_of_layer(state, uses, order, by_role)
  local first, last, beside = place_of_counts(state, order)
  if not first then return nil end
  local launch, own, runs = launches_of_layer(state, uses), {}, { after = 0.0, before = 0.0 }
  local hidden = hidden_by_shared(state, by_role) / math.max(by_role.exchange or 0.0, 1e-30)
  local routing, eager, products = 0.0, 0.0, 0
  for k, run in ipairs(order) do
    local o, n = state.operations[run[1]], run[2]
    local _, routed = launching(o, n, launch)
    local parts = products_of(o, launch)
    local kernels = (o.experts and n * parts * launch.expert or 0.0) + (gathering(state, o, n, launch))
    local seconds = o.forward and n * o.forward.seconds or 0.0
    local exchange = o.role == "exchange" and seconds or 0.0
    own[k] = { o.forward and kernels or 0.0, o.role == "exchange" and (1 - hidden) * seconds or seconds,
      o.kind == "operator" and seconds or 0.0, exchange, parts = parts, later = (1 - 1 / parts) * kernels,
      side = k >= first and k <= last and "after" or "before",
      runs = o.forward and launch.each > 0 and n * launches_of(o, launch) or 0 }
    runs[own[k].side] = runs[own[k].side] + own[k].runs
    if o.experts and o.forward then
      products, routing = products + n, routing + routed
      eager = eager + routed_after * n * state.times.stack.moe_launches * launch.eager
    end
  end
  -- launches_of_layer counts a share of each product's launch outside routing. A product behind the point is launched
  -- whole, so the rest of that launch is part of routing's launches.
  local whole = math.min(routing, products * (launch.eager - launch.each))
  local all = (runs.after + runs.before) * launch.each + whole
  routing = routing - whole
  local each = { after = math.min(launch.eager, all / runs.after) } -- without such runs no item takes it
  each.before = runs.before > 0 and (all - runs.after * each.after) / runs.before or 0.0
  for _, item in ipairs(own) do item[1] = item[1] + item.runs * each[item.side] end
  local after = math.min(routing, eager)
  own[first][1], own[last][1] = own[first][1] + after / 2, own[last][1] + after / 2
  local router = own[(first - 2) % #own + 1]
  router[1] = router[1] + routing - after
  own.first, own.running = first, table.move(own, beside, first - 1, 1, {})
  return table.move(own, 1, first - 1, #own + 1, own)
end

--- The points of a forward pass at which the device may wait for the host. Each is { seconds of the host until it has
--- launched an item, seconds of the device before this item, those of operators and of all-to-alls }. The pass waits
--- for the largest difference of the first two. The first point is the end of a layer. In a segment an item starts when
--- the host has launched it, or its first part. Its last part starts when it is launched.
---@param segment table? of segment_of_layer
local function points_of(work, segment)
  if not segment then return {} end
  local points = { { work.host.forward, work.device.forward, work.computing, work.by_role.forward.exchange or 0.0 } }
  local launched, device, computing, exchanges = 0.0, 0.0, 0.0, 0.0
  local function run(item, share)
    device, computing, exchanges = device + share * item[2], computing + share * item[3], exchanges + share * item[4]
  end
  for _, item in ipairs(segment.running) do run(item, 1) end
  for k = segment.first, #segment do
    local item, last = segment[k], 1 / segment[k].parts
    launched = launched + item[1]
    points[#points + 1] = { launched - item.later, device, computing, exchanges }
    run(item, 1 - last)
    if last < 1 then points[#points + 1] = { launched, device, computing, exchanges } end
    run(item, last)
  end
  return points
end

--- Seconds that the device waits for launches in each pass, if launches take `times` as long.
---@param work table of work_of_layer, with the points of points_of
local function launch_waits(state, work, times)
  local stack, device, host = state.times.stack, work.device, work.host
  if state.plan.overlap_all_to_all == "batch" and not stack.blocking then
    -- Repeated experts are missing here, because rules.lua refuses them.
    local both = times * stack.batch_launches * (host.forward + host.backward) - device.forward - device.backward
      - exposed_exchange(work.by_role, stacks.exchange_communication_share(stack))
    return { forward = math.max(0.0, both / 3), backward = math.max(0.0, both * 2 / 3), split = 0.0, weight = 0.0,
      repeated = 0.0 }
  end
  local hidden = stack.blocking and 0 or 1
  local function wait(launches, computing) return math.max(0.0, times * launches - hidden * computing) end
  local backward, weight = wait(host.backward, device.backward), wait(host.weight, device.weight)
  local input = wait(host.backward - host.weight, device.split - device.weight)
  local forward = wait(host.forward, device.forward)
  for _, point in ipairs(work.points) do forward = math.max(forward, times * point[1] - point[2]) end
  return { forward = forward, backward = backward, split = input + weight - backward,
    weight = weight, repeated = wait(host.repeated, device.repeated) }
end

--- Work of a layer with the points of its forward pass, and its waits for launches of the usual, least and most time.
local function waits_of(state, uses, repeated, order)
  local blocking, work = state.times.stack.blocking, work_of_layer(state, uses, repeated)
  work.points = points_of(work, not blocking and segment_of_layer(state, uses, order, work.by_role.forward))
  return work.points, launch_waits(state, work, 1), launch_waits(state, work, least_launch),
    launch_waits(state, work, most_launch)
end

--- The operations in which a device waits for kernel launches of its host in a layer. None if it would not wait for
--- launches of `most_launch` times their time either. The host launches ahead. So the wait is the launch time of the
--- layer minus its device time without hidden all-to-alls, if that is positive. A pair of micro-batches
--- (overlap_all_to_all = "batch") is launched together. A split backward pass is longer by the communication that it
--- exposes, so it waits less. Its input gradients and weight gradients wait for their own launches. The host reads the
--- experts' numbers of tokens from the device (Megatron-Core, token_dispatcher.py, _maybe_dtoh_and_synchronize). So
--- launches of a repeated module of experts begin after the pass before it. In the forward pass of such a layer the
--- host is not ahead behind this point (points_of). The backward pass has the numbers already. The ends of a wait's
--- interval are the waits for launches of `least_launch` and `most_launch` times their time. Hooks of layers
--- (gathers_layers) are outside of checkpoints. The wait for them in a forward pass is an operation of its own, which
--- recomputation does not repeat (gathers_again).
---@param state table of ett.step.lower: plan, times, and the operations of the layers
---@param uses table<integer, number> runs of each operation in the layer
---@param repeated table runs of the operations that selective recomputation repeats in the module `moe`
---@param order table[] { index of an operation, runs } in the order of the layer
---@return table[] operations
function host_waits.of_layer(state, uses, repeated, order)
  local each, expert = launch_seconds(state)
  local gathers = gather_seconds(state) > 0
  if each == 0 and expert == 0 and not gathers then return {} end
  local stack = state.times.stack
  local points, waits, least, most = waits_of(state, uses, repeated, order)
  if most.forward == 0 and most.backward == 0 and most.split == 0 and most.weight == 0 and most.repeated == 0 then
    return {}
  end
  local function answer(seconds, low, high)
    return { seconds = seconds, low_seconds = low, high_seconds = high, provenance = "assumed",
      detail = "launches of the stack " .. stack.name }
  end
  local function answer_of(pass) return answer(waits[pass], least[pass], most[pass]) end
  local function operation(own)
    return merged({ name = "host", kind = "operator", family = "elementwise", role = "alone", shape = {} }, own)
  end
  local forward, hooks = answer_of "forward", nil
  if gathers and stack.gathers_layers then
    local own_points, own, own_least, own_most = waits_of(merged(state, { is_repeated = true }), uses, repeated, order)
    forward, points = answer(own.forward, own_least.forward, own_most.forward), own_points
    local seconds = waits.forward - own.forward
    -- Slower operators shorten the wait for launches before that for hooks.
    hooks = operation { never_again = true, host = (stack.blocking or own.forward > 0) and "blocking" or "ahead",
      forward = answer(seconds, math.min(seconds, least.forward - own_least.forward),
        math.max(seconds, most.forward - own_most.forward)) }
  end
  local listed = {} -- of each point's wait its seconds, and those of operators and all-to-alls before it
  for _, point in ipairs(points) do
    if point[1] > point[2] then
      listed[#listed + 1], listed[#listed + 2], listed[#listed + 3] = point[1] - point[2], point[3], point[4]
    end
  end
  return { operation { host = stack.blocking and "blocking" or "ahead", points = listed,
    hides_exchanges = state.plan.overlap_all_to_all == "shared_experts",
    forward = forward, backward = answer_of "backward",
    split = (waits.split ~= 0 or most.split ~= 0) and answer_of "split" or nil,
    split_weight = most.weight > 0 and answer_of "weight" or nil,
    repeated = most.repeated > 0 and answer_of "repeated" or nil }, hooks }
end

return host_waits
