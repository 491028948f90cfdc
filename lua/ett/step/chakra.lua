--- Writes a predicted step as Chakra execution traces, one file per rank, for ASTRA-sim and other simulators.
--
--   chakra.write(estimate.new { …, units = true }, "traces")  -- traces/step.0.et, …, traces/comm_groups.json
--
-- Format: mlcommons/chakra, schema/protobuf/et_def.proto; attributes as read by its src/feeder/et_feeder_node.cpp. A
-- node is an operator, a collective, a send or a receive. Nodes of a unit run in order; a unit waits for the unit
-- before it on its rank and for the message with its input. duration_micros is the predicted time. A collective that
-- overlaps an operator has its whole time; the operator is divided into two nodes, of which one runs at the same time.
-- Messages of gradients and weights have only their exposed time and bytes; the part that overlaps passes is left out.
-- Under ZeRO-3 a unit begins with the gathers for which it waits, those that overlap no computing. If the host delays
-- units, these are the gathers of the unit's first layer. The rest of the wait, such as the time by which gathers slow
-- computing (communication_share), is a compute node, "gathers of weights".
local by = require "ett.base.by"
local error_module = require "ett.base.error"
local files = require "ett.base.folder"
local json = require "ett.json"
local merged = require "ett.base.merged"
local operators = require "ett.operator"
local ranks = require "ett.plan.ranks"
local schedules = require "ett.plan.schedules"
local slices = require "ett.step.slices"
local timeline = require "ett.step.timeline"

local chakra = {}

chakra.most_nodes = 4000000 -- over all ranks

local node_types = { compute = 4, send = 5, receive = 6, collective = 7 }
local collective_types = { all_reduce = 0, all_gather = 2, broadcast = 5, all_to_all = 6, reduce_scatter = 7 }

-- Protobuf -----------------------------------------------------------------------------

local function varint(n)
  local bytes = {}
  repeat
    local low = n & 127
    n = n >> 7
    bytes[#bytes + 1] = string.char(n ~= 0 and low | 128 or low)
  until n == 0
  return table.concat(bytes)
end

local function number(field, n) return varint(field << 3) .. varint(n) end
local function text(field, s) return varint(field << 3 | 2) .. varint(#s) .. s end

--- An attribute; kind: the field of its value (int32 7, int64 9, uint64 13, bool 27, string 29).
local function attribute(name, kind, value)
  return text(10, text(1, name) .. (kind == 29 and text(29, value) or number(kind, value)))
end

-- Nodes of a stage ------------------------------------------------------------------------

local function bytes_of(part, dtype)
  local ok, op = pcall(operators.get, part.name)
  local good, bytes = false, nil
  if ok and op.bytes and part.shape then good, bytes = pcall(op.bytes, part.shape, dtype) end
  return good and type(bytes) == "number" and math.floor(bytes) or 0
end

--- Adds a node; returns its id. End times of computing and of messages are rounded, so that sums stay exact.
local function add(nodes, node, seconds, deps)
  node.id, node.deps = #nodes + 1, deps
  local clock = node.type == "compute" and nodes.computing or nodes.sending
  clock.seconds = clock.seconds + seconds
  local stop = math.floor(clock.seconds * 1e6 + 0.5)
  node.micros, clock.micros = stop - clock.micros, stop
  nodes[node.id] = node
  return node.id
end

---@param share number? of one run of the part; default 1
local function part_node(part, dtype, share)
  if collective_types[part.name] then
    -- comm_size of a gather is the input of one rank (ASTRA-sim: Ring::Ring in native_collectives).
    local inputs = part.name == "all_gather" and part.degree or 1
    return { type = "collective", name = part.name, collective = collective_types[part.name], group = part.group,
      members = part.members, degree = part.degree, stages = part.stages, shard = part.shard,
      bytes = math.floor((part.bytes or 0) / inputs) }
  end
  return { type = "compute", name = part.name, host = part.host,
    flops = math.floor((share or 1) * (part.flops or 0) / part.times),
    bytes = math.floor((share or 1) * bytes_of(part, dtype)) }
end

local function key_of(kind, to, slice, micro_batch) return ("%s %d %d %d"):format(kind, to, slice, micro_batch) end

--- The messages between stages: by direction, stage and slice of the receiver, and micro-batch.
local function sends_of(stages)
  local list = {}
  for _, stage in ipairs(stages) do
    for _, m in ipairs(stage.messages) do
      if m.lane == "sends" then list[key_of(m.kind, m.to, m.slice, m.micro_batch)] = m end
    end
  end
  return list
end

--- The stage from which a unit receives its input (step -1) or to which it sends its output (step 1); the tag of the
--- message, which names the receiver; the message, nil if it takes no time. All nil if the data stays on the stage.
local function other_end(state, stage, unit, stages, step)
  local p, slice = state.plan, state.slices[(unit.chunk - 1) * state.plan.pp + stage]
  if unit.kind == "W" then return nil end
  local other = slice + (unit.kind == "F" and step or -step)
  local at = stages[("%d %d"):format((unit.chunk - 1) // p.vp, other)]
  if not at or at == stage then return nil end
  local receiver, kind = step == 1 and other or slice, unit.kind == "F" and "forward" or "backward"
  return at, ((receiver * 2 + (unit.kind == "F" and 0 or 1)) * (p.micro_batches + 1) + unit.micro_batch) & 0x7fffffff,
    state.sends[key_of(kind, step == 1 and at or stage, receiver, unit.micro_batch)]
end

local function ticks(seconds) return math.floor(seconds * 1e12 + 0.5) end

--- The computing of a run of units, and the points at which its messages start and are waited for, in ticks of
--- computing. Each message overlaps its own part of the computing: the part after it (`later`) or before it.
local function axis_of(parts)
  local computing, marks, at, taken = {}, {}, 0.0, 0.0
  local before = {} -- hidden seconds of a part and of the parts that follow it directly and hide before them
  for i = #parts, 1, -1 do
    local part = parts[i]
    before[i] = (part.later or part.hidden <= 0) and 0.0 or part.hidden + (before[i + 1] or 0.0)
  end
  for i, part in ipairs(parts) do
    if part.resource == "compute" or part.resource == "wait" then
      for _ = 1, part.times do
        local from = ticks(at)
        at = at + part.seconds / part.times
        computing[#computing + 1] = { part = part, from = from, to = ticks(at) }
      end
    else
      local start = math.max(at - before[i], taken)
      taken = part.later and start + part.hidden or math.max(start, math.min(start + part.hidden, at))
      marks[#marks + 1] = { part = part, at = ticks(start), order = i }
      marks[#marks + 1] = { part = part, at = ticks(taken), order = i + 0.5, waits = true }
    end
  end
  table.sort(marks, by("at", "order"))
  return computing, marks
end

--- Adds the gathers of weights for which a unit waits: the first gathers, as many as the seconds of the wait allow.
--- Returns the nodes after which the unit runs, and the seconds of the wait that are not gathers.
---@param stages number[]? that share the weights in a two-way schedule
local function add_gathers(nodes, wait, after, dtype, stages)
  local left = math.min(wait.seconds, wait.gathers.seconds)
  local others = wait.seconds - left
  for _, g in ipairs(wait.gathers) do
    local seconds = math.min(g.seconds, left)
    if seconds <= 1e-12 then break end
    local own = merged(g, { bytes = g.bytes * seconds / g.seconds, stages = stages })
    after = { add(nodes, part_node(own, dtype), seconds, after) }
    left = left - seconds
  end
  return after, others
end

--- Adds the parts of a run of units after some nodes; returns the nodes for which the next run waits.
---@param stages number[]? that share the weights in a two-way schedule
local function add_run(nodes, parts, after, dtype, stages)
  local wait = parts[1]
  if wait.gathers then
    local others
    after, others = add_gathers(nodes, wait, after, dtype, stages)
    parts = table.move(parts, 2, #parts, 2, { merged(wait, { seconds = others }) })
  end
  local computing, marks = axis_of(parts)
  local next_one, done, ends, started = 1, 0, {}, {}
  local function compute(to)
    while computing[next_one] and done < to do
      local one = computing[next_one]
      local stop = math.min(to, one.to)
      if stop > done then
        local node = part_node(one.part, dtype, (stop - done) / (one.to - one.from))
        after = { add(nodes, node, (stop - done) / 1e12, after) }
      end
      done = stop
      if stop == one.to then next_one = next_one + 1 end
    end
  end
  for _, mark in ipairs(marks) do
    local part = mark.part
    compute(mark.at)
    if not mark.waits then
      started[part], ends[part] = after, after
      for _ = 1, part.times do
        local seconds = (part.seconds + part.hidden) / part.times
        ends[part] = { add(nodes, part_node(part, dtype), seconds, ends[part]) }
      end
    elseif started[part] == after then
      after = ends[part]
    else
      after = table.move(after, 1, #after, 1, {})
      after[#after + 1] = ends[part][1]
    end
  end
  compute(math.huge)
  return after
end

--- The nodes of one stage, in the order of its rank.
local function nodes_of(state, stage, stages)
  local p, last = state.plan, {}
  local nodes = { computing = { seconds = 0.0, micros = 0 }, sending = { seconds = 0.0, micros = 0 } }
  for _, run in ipairs(stage.runs) do
    local deps = table.move(last, 1, #last, 1, {})
    for _, unit in ipairs(run.units) do
      local from, tag, received = other_end(state, stage.number, unit, stages, -1)
      if from then
        deps[#deps + 1] = add(nodes, { type = "receive", name = "receive", peer = from, tag = tag,
          bytes = math.floor(received and received.bytes or 0) }, 0.0, {})
      end
    end
    last = add_run(nodes, run.parts, deps, p.dtype, stage.copies)
    for _, unit in ipairs(run.units) do
      local to, out, message = other_end(state, stage.number, unit, stages, 1)
      if to then
        local node = add(nodes, { type = "send", name = "send", peer = to, tag = out,
          bytes = math.floor(message and message.bytes or 0) }, message and message.seconds or 0.0, last)
        if not p.overlap_sends then last = { node } end
      end
    end
  end
  for _, m in ipairs(stage.messages) do
    if m.exposed then last = { add(nodes, part_node({ name = m.name, group = m.group, members = m.members,
      degree = m.degree, stages = m.stages, shard = m.shard, bytes = m.bytes, host = m.host, times = 1 }, p.dtype),
      m.seconds, last) }
    end
  end
  return nodes
end

-- Ranks -------------------------------------------------------------------------------------

--- The number of the group of rank r in which a node communicates. known: the numbers found for this rank.
local function group_of(state, node, r, known)
  local id = ("%s %d %d"):format(node.members or node.group, node.degree or 1, node.shard or 0)
  if known[id] then return known[id] end
  local list = timeline.ranks(state.plan, node, r)
  local key = table.concat(list, ",")
  if not state.groups[key] then
    state.group_count = state.group_count + 1
    state.groups[key] = state.group_count
    state.lists[tostring(state.group_count)] = json.array(list)
  end
  known[id] = state.groups[key]
  return known[id]
end

--- A node as bytes for rank r. pipeline: the ranks of r's pipeline.
local function encode(state, node, r, pipeline, known)
  local parts = { number(1, node.id - 1), text(2, node.name), number(3, node_types[node.type]) }
  for _, dep in ipairs(node.deps) do parts[#parts + 1] = number(5, dep - 1) end
  parts[#parts + 1] = number(7, node.micros)
  parts[#parts + 1] = attribute("is_cpu_op", 27, node.host and 1 or 0)
  if node.type == "compute" then
    parts[#parts + 1] = attribute("num_ops", 9, node.flops) .. attribute("tensor_size", 13, node.bytes)
  else
    parts[#parts + 1] = attribute("comm_size", 9, node.bytes)
    if node.type == "collective" then
      parts[#parts + 1] = attribute("comm_type", 9, node.collective)
      parts[#parts + 1] = attribute("pg_name", 29, tostring(group_of(state, node, r, known)))
    else
      local other = pipeline[node.peer]
      local from, to = r, other
      if node.type == "receive" then from, to = other, r end
      parts[#parts + 1] = attribute("comm_src", 7, from) .. attribute("comm_dst", 7, to)
        .. attribute("comm_tag", 7, node.tag)
    end
  end
  local bytes = table.concat(parts)
  return varint(#bytes) .. bytes
end

---@param nodes table of each stage
local function check(e, nodes)
  local sum = 0
  for _, list in ipairs(nodes) do sum = sum + #list end
  sum = sum * e.devices // #nodes
  if sum > chakra.most_nodes then
    error_module.raise("limit", "chakra: %d nodes on %d ranks are more than %d; give fewer micro-batches or devices",
      sum, e.devices, chakra.most_nodes)
  end
end

--- Writes step.RANK.et for every rank, and comm_groups.json: the ranks of each process group.
---@param e table an estimate made with units = true
function chakra.write(e, folder)
  if e.plan.rank_map then error_module.raise("plan", "chakra: execution traces cannot state a rank_map") end
  local t = timeline.of(e)
  local state = { plan = e.plan, slices = schedules.slices(e.plan), groups = {}, lists = {}, group_count = 0,
    sends = sends_of(t.stages) }
  local stages, nodes = slices.stages(e.plan, state.slices), {}
  local head = text(1, "0.0.4")
  head = varint(#head) .. head
  for i, stage in ipairs(t.stages) do nodes[i] = nodes_of(state, stage, stages) end
  check(e, nodes)
  for r = 0, e.devices - 1 do
    local out, pipeline, known = { head }, ranks.group(e.plan, "pp", r), {}
    for i, node in ipairs(nodes[ranks.stage_of(e.plan, r)]) do out[i + 1] = encode(state, node, r, pipeline, known) end
    files.write_in(folder, ("step.%d.et"):format(r), table.concat(out))
  end
  files.write_in(folder, "comm_groups.json", json.encode(state.lists))
end

return chakra
