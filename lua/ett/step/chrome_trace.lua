--- Writes a predicted step as a Chrome trace in PyTorch's format, for Perfetto and `ett trace`.
--
-- Each pipeline stage is a process and a device with these streams:
--   7   compute                  32  gradients
--   20  links of a node          34  weights; these share links with gradients
--   24  network                  36  transfers to the host
--   28  sends to other stages    40  transfers from the host
-- With more than two tiers, streams from 44 on are the links of each tier, in place of 20 and 24.
-- Every operator and collective of every micro-batch is a kernel. Waits for an update on the host are ranges in the
-- process of the step's marker, one thread per stage. Above `most_events`, the kernels of a unit are merged: one for
-- compute, and one for each kind of collective.
local files = require "ett.base.folder"
local json = require "ett.json"
local ranks = require "ett.plan.ranks"
local schema = require "ett.base.schema"
local timeline = require "ett.step.timeline"

local chrome_trace = {}

chrome_trace.most_events = 300000

local base_streams = { compute = 7, wait = 7, node = 20, network = 24, sends = 28, gradients = 32, weights = 34,
  update = 7, ["to host"] = 36, ["from host"] = 40 }
local base_names = { [7] = "compute", [20] = "links of the node", [24] = "network", [28] = "sends between stages",
  [32] = "gradients", [34] = "weights", [36] = "to the host", [40] = "from the host" }
local copies = { ["to host"] = "Memcpy DtoH (Device -> Pinned)", ["from host"] = "Memcpy HtoD (Pinned -> Device)" }
local unit_names = { F = "forward", B = "backward", W = "weight gradient" }
local kernel_words = { all_reduce = "AllReduce", all_gather = "AllGather", reduce_scatter = "ReduceScatter",
  all_to_all = "AllToAll", send_recv = "SendRecv", broadcast = "Broadcast" }
local torch_types = { bf16 = "BFloat16", fp16 = "Half", fp32 = "Float", fp8 = "Float8_e4m3fn" }

--- Microseconds with nanosecond digits.
local function us(seconds) return math.floor(seconds * 1e9 + 0.5) / 1e3 end

--- Numbers of elements that a rank sends and receives in a collective of `bytes` (nccl-tests' convention).
local function elements(kind, bytes, degree, width)
  local all = math.floor(bytes / width + 0.5)
  if kind == "all_gather" then return all // degree, all end
  if kind == "reduce_scatter" then return all, all // degree end
  return all, all
end

local function first_rank(p, stage) return (stage - 1) * ranks.stride(p, "pp") end

--- The ranks of the collective group that contains the first rank of a stage, as text.
local function ranks_of(state, stage, part)
  if part.group == "pp" or part.group == "tied embedding" or not part.degree then return nil end
  local key = ("%d %s %d %d"):format(stage, part.members or part.group, part.degree, part.shard or 0)
  if not state.members[key] then
    local list = timeline.ranks(state.plan, part, first_rank(state.plan, stage))
    for i = #list, 65, -1 do list[i] = i == 65 and "..." or nil end
    state.members[key] = "[" .. table.concat(list, ", ") .. "]"
  end
  return state.members[key]
end

--- Source and destination of a message between stages.
local function pair_of(args, p, stage, part)
  args["Src Rank"], args["Dst Rank"] = first_rank(p, stage), first_rank(p, part.to)
end

local function collective_args(args, part, dtype)
  local width = schema.dtype_bytes[dtype] or 2
  args["Collective name"], args["Group size"], args["Process Group Name"] = part.name, part.degree, part.group
  args["Process Group Description"], args.dtype = part.group, torch_types[dtype] or dtype
  if part.bytes and part.degree then
    args["In msg nelems"], args["Out msg nelems"] = elements(part.name, part.bytes, part.degree, width)
  end
  args["Micro-batch"], args.Direction = part.micro_batch, part.direction
  return args
end

local function kernel(state, stage, part, start, seconds)
  local stream = state.streams[part.lane or part.resource]
  local args = { device = stage - 1, stream = stream, Pass = part.pass, Link = part.link,
    Shape = timeline.shape_text(part.shape) }
  local name, words = part.name, kernel_words[part.name]
  if words then
    name = ("ncclDevKernel_%s(%s)"):format(words, part.group or "")
    local p = state.plan
    collective_args(args, part, part.lane == "gradients" and (p.reduce_dtype or p.gradient_dtype)
      or part.quantised and p.dtype or schema.wide(p.dtype))
    args["Process Group Ranks"] = ranks_of(state, stage, part)
    if part.direction then pair_of(args, state.plan, stage, part) end
  elseif part.flops and part.flops > 0 then
    args.model_flops = math.floor(part.flops / part.times)
  end
  local copy = copies[part.lane]
  if copy then name, args.bytes, args.Holds = copy, math.floor(part.bytes + 0.5), part.name end
  state.events[#state.events + 1] = { ph = "X", cat = copy and "gpu_memcpy" or "kernel", name = name,
    pid = stage - 1, tid = stream, ts = us(start), dur = us(start + seconds) - us(start), args = args }
end

local function on_host(events, stage, stages, part)
  local thread = 1 + stage
  events[#events + 1] = { ph = "M", name = "thread_name", pid = stages, tid = thread, ts = 0,
    args = { name = "host of stage " .. stage } }
  events[#events + 1] = { ph = "X", cat = "user_annotation", name = part.name, pid = stages, tid = thread,
    ts = us(part.start), dur = us(part.start + part.seconds) - us(part.start), args = { Stage = stage } }
end

--- The parts of a unit or pair, merged: compute of each, then each kind of collective.
local function joined(run)
  local list, by_name, at = {}, {}, nil
  for _, part in ipairs(run.parts) do
    if part.resource ~= "wait" then
      local words = kernel_words[part.name]
      local key = words and ("%s %s %s"):format(part.name, part.members or part.group, part.quantised)
        or ("computing %d"):format(part.unit or 1)
      at = at or part.start
      local one = by_name[key]
      if not one then
        local unit = run.units[part.unit or 1]
        one = { name = words and part.name or unit_names[unit.kind], resource = part.resource, group = part.group,
          members = part.members, degree = part.degree, quantised = part.quantised, bytes = words and 0 or nil,
          seconds = 0.0, hidden = 0.0, times = 1, flops = 0 }
        by_name[key], list[#list + 1] = one, one
      end
      one.seconds, one.hidden = one.seconds + part.seconds, one.hidden + part.hidden
      one.flops = one.flops + (part.flops or 0)
      if words then one.bytes = one.bytes + (part.bytes or 0) * part.times end
    end
  end
  for _, one in ipairs(list) do one.from, one.length, at = at, one.seconds, at + one.seconds end
  -- The messages of a link, with their hidden times, follow each other until the end of the unit.
  local ends = {}
  for i = #list, 1, -1 do
    local one = list[i]
    if one.resource ~= "compute" then
      one.length = one.seconds + one.hidden
      one.from = (ends[one.resource] or at) - one.length
      ends[one.resource] = one.from
    end
  end
  return list
end

local function add_run(state, stage, run, join)
  for _, unit in ipairs(run.units) do
    local chunk = unit.chunk > 1 and "." .. unit.chunk or ""
    state.events[#state.events + 1] = { ph = "X", cat = "gpu_user_annotation", pid = stage - 1,
      tid = base_streams.compute, name = ("Stage %d %s%d%s"):format(stage, unit.kind, unit.micro_batch, chunk),
      ts = us(unit.start), dur = us(unit.start + unit.seconds) - us(unit.start),
      args = { device = stage - 1, stream = base_streams.compute, ["Micro-batch"] = unit.micro_batch,
        Chunk = unit.chunk } }
  end
  for _, part in ipairs(join and joined(run) or run.parts) do
    if part.resource ~= "wait" then
      local start, each = run.units[1].start + part.from, part.length / part.times
      for i = 1, part.times do kernel(state, stage, part, start + (i - 1) * each, each) end
    end
  end
end

local function count(t)
  local events = 0
  for _, stage in ipairs(t.stages) do
    for _, run in ipairs(stage.runs) do
      for _, part in ipairs(run.parts) do events = events + part.times end
    end
  end
  return events
end

local function add_metadata(events, stages, stream_names)
  local function meta(name, pid, tid, args)
    events[#events + 1] = { ph = "M", name = name, pid = pid, tid = tid, ts = 0, args = args }
  end
  for stage = 1, stages do
    meta("process_name", stage - 1, 0, { name = "stage " .. stage })
    meta("process_sort_index", stage - 1, 0, { sort_index = stage })
    for stream, name in pairs(stream_names) do
      meta("thread_name", stage - 1, stream, { name = ("stream %d: %s"):format(stream, name) })
    end
  end
end

--- The streams of each resource, and their names.
local function streams_of(e)
  if #e.lanes <= 2 then return base_streams, base_names end
  local streams, names = {}, {}
  for resource, stream in pairs(base_streams) do
    if resource ~= "node" and resource ~= "network" then
      streams[resource], names[stream] = stream, base_names[stream]
    end
  end
  for k, lane in ipairs(e.lanes) do streams[lane], names[40 + 4 * k] = 40 + 4 * k, lane end
  return streams, names
end

--- The trace as a table for ett.json.
---@param e table an estimate made with units = true
function chrome_trace.of(e)
  local t = timeline.of(e)
  local join = count(t) > chrome_trace.most_events
  local streams, names = streams_of(e)
  local state = { events = {}, plan = e.plan, streams = streams, members = {} }
  add_metadata(state.events, #t.stages, names)
  state.events[#state.events + 1] = { ph = "X", cat = "user_annotation", name = "ProfilerStep#1", pid = #t.stages,
    tid = 1, ts = 0.0, dur = us(t.seconds), args = { ["External id"] = 1 } }
  local devices = {}
  for number, stage in ipairs(t.stages) do
    local s = e.stages[number]
    devices[number] = { id = number - 1, name = s.device or e.device,
      totalGlobalMem = math.floor(s.memory_limit_bytes or e.memory_limit_bytes) }
    for _, run in ipairs(stage.runs) do add_run(state, number, run, join) end
    for _, message in ipairs(stage.messages) do
      if message.host then
        on_host(state.events, number, #t.stages, message)
      else
        kernel(state, number, message, message.start, message.seconds)
      end
    end
  end
  return { schemaVersion = 1, displayTimeUnit = "ms", traceName = e.model.name, deviceProperties = json.array(devices),
    distributedInfo = { backend = "nccl", rank = 0, world_size = e.devices },
    predictedBy = { program = "ett", joined = join, cluster = e.cluster, model = e.model.name },
    traceEvents = json.array(state.events) }
end

--- The workload card of an estimate, in the format that `ett trace` reads.
local function card(e)
  local p = e.plan
  local name = json.encode(e.model.name):gsub("%s+$", "")
  return ("# The plan of this predicted step, for ett trace.\nmodel: %s\nnum_params: %d\nworld_size: %d\ntp: %d\n"
    .. "pp: %d\ndp: %d\ncp: %d\nep: %d\nbatch_size: %d\nseq_len: %d\nprecision: %s\n%s"):format(name,
    math.floor(e.model.parameters), e.devices, p.tp, p.pp, p.dp, p.cp, p.ep, p.global_batch, p.seq, p.dtype,
    e.peak_flops_per_second and ("peak_flops: %.17g\n"):format(e.peak_flops_per_second) or "")
end

--- Writes the trace to a file and creates its folder. A path that ends with "/" is a folder: it gets step.json and
--- workload_card.yaml, from which `ett trace` reads batch, sequence and parameters.
---@return string path of the trace
function chrome_trace.write(e, path)
  if path:sub(-1) == "/" then
    local folder = #path > 1 and path:sub(1, -2) or path
    files.write_in(folder, "workload_card.yaml", card(e))
    return files.write_in(folder, "step.json", json.encode(chrome_trace.of(e)))
  end
  return files.write_with_folder(path, json.encode(chrome_trace.of(e)))
end

return chrome_trace
