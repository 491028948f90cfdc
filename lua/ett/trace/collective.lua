--- The collectives of a lane in order, with kind, bytes and process group.
--
-- Kind: the row's argument "Collective name"; else the host annotation that encloses its launch
-- ("nccl:all_to_all", linked by correlation); else the kernel's name. On TPU: the hlo_category, else the opcode.
-- An asynchronous collective of a TPU lasts from the start of its "-start" row to the end of its "-done" row
-- (ett.trace.xla). If one of these was not recorded, the other counts with its own time and without bytes. On a GPU
-- the kernel of the library is the collective, also in traces of XLA. Bytes: elements x dtype from the row's arguments,
-- else from the record_param_comms or nccl: row that encloses the launch (Input Dims, Input type), else unknown.
-- bytes_accessed is never used: it counts memory traffic, not the message.
-- Group size: the argument, the listed ranks, distributedInfo's process groups, the comm_groups.json beside a Chakra
-- trace, the sizes of input and output of a gather or a scatter, or the world's size when all its ranks ran the
-- collective together; else unknown.
local align = require "ett.trace.align"
local comm = require "ett.trace.comm"
local json = require "ett.json"
local sequence = require "ett.sequence"
local xla = require "ett.trace.xla"

local collective = {}

--- Args of a collective row on a GPU, and those with its size.
local row_args = { "Collective name", "dtype", "Group size", "Process Group Name", "Process Group Description",
  "Process Group Ranks", "Src Rank", "Dst Rank" }
local size_args = { "In msg nelems", "Out msg nelems" }
local size_keys = { "arg:" .. size_args[1], "arg:" .. size_args[2] }

--- Args to keep while reading, so that collectives can be described.
collective.args = { "Input Dims", "Input type", "hlo_category", "long_name", "shape_with_layout",
  "device_duration_ps", table.unpack(size_args) }
table.move(row_args, 1, #row_args, #collective.args + 1, collective.args)

--- The collectives of a lane. Times are columns (ett.sequence); shared properties are stored once per sort. A run has
--- thousands of collectives but few sorts.
---@class ett.Collectives
---@field sequence any starts, ends and sorts, in order of start (ties: by row)
---@field sorts ett.Collective[] properties of each sort
---@field rows any the selection of their rows

---@class ett.Collective
---@field name string
---@field kind string all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, send_recv, send, recv, …
---@field kernel_type string kind of the kernel itself
---@field bytes number? message size S of nccl-tests
---@field group string? key of the process group
---@field group_size integer?
---@field part_bytes number? bytes of one rank's input
---@field group_description string?
---@field pair string? source and destination of a send or receive: "0>1"
---@field recording integer? the recording that holds it, if a rank was recorded several times

local function first_type(text)
  if type(text) ~= "string" then return nil end
  for word in text:gmatch('"([^"]*)"') do if comm.dtype_bytes(word) then return word end end
  return nil
end

local function number(value)
  if value == false or value == nil then return nil end
  return tonumber(value)
end

--- A number of elements; nil if it is invalid: negative, or larger than any memory.
local function elements(value)
  local n = number(value)
  return n and n >= 0 and n <= comm.most_elements and n or nil
end

--- Host rows that identify the collective of a launch.
local function host_rows(view)
  return view:cached("collective_host_rows", function()
    return {
      -- nccl:NAME ranges, and operators on one tensor that are collectives themselves.
      annotations = view:named_rows("collectives", { "annotation", "cpu_op" }, function(name)
        return (name:find("^[nrh]ccl:") or name:find("^symm_mem::") or name:find("^vllm::all_")
          or name:find("nccl%u%l")) ~= nil -- NVTX ranges of NCCL itself: ncclAllReduce
      end),
      params = view:class_rows("cpu_op"):where{ name = "record_param_comms" },
      -- Operators whose first two tensors are output and input.
      calls = view:named_rows("collective_calls", { "cpu_op" }, function(name)
        return name:find("^c10d::_?allgather_base_") ~= nil or name:find("^c10d::_?reduce_scatter_base_") ~= nil
          or name:find("^c10d::allgather_into_tensor") ~= nil or name:find("^c10d::reduce_scatter_tensor") ~= nil
      end),
    }
  end)
end

local row_keys = { "name" }
for i, key in ipairs(row_args) do row_keys[i + 1] = "arg:" .. key end
local own_count = #row_args

--- The columns that determine the kind of a collective, and those that determine its size: { {rows=, keys=, fields=} }
--- each. These are its own name and args; for rows without the collective's name or group size, also the host rows
--- around the launch.
local function deciding(lane, rows)
  local kinds = { { rows = rows, keys = row_keys, fields = table.move(row_args, 1, own_count, 2, { "name" }) } }
  local sizes = { { rows = rows, keys = size_keys } }
  local named = rows:where{ has_arg = "Collective name" }
  if #named == #rows and #named:where{ has_arg = "Group size" } == #rows then return kinds, sizes end
  local host = host_rows(lane.view)
  local _, launch = lane:launches "comm"
  local around, params = launch:enclosing(host.annotations), launch:enclosing(host.params)
  kinds[2] = { rows = around, keys = { "name" }, fields = { "name" } }
  kinds[3] = { rows = params, keys = { table.unpack(row_keys, 2) }, fields = row_args }
  sizes[2] = { rows = params, keys = size_keys }
  for i, each in ipairs { launch:enclosing(host.calls), around } do
    sizes[i + 2] = { rows = each, keys = { "arg:Input Dims", "arg:Input type" } }
  end
  return kinds, sizes
end

local function positive_integer(value)
  local n = math.tointeger(number(value))
  return n and n >= 1 and n or nil
end

--- Adds the sizes of the process groups in the comm_groups.json beside a Chakra trace: { "name": [rank, …], … }.
local function add_listed(sizes, process)
  local file = process.kind == "chakra" and io.open((next(process.paths):gsub("[^/]*$", "comm_groups.json")))
  if not file then return end
  local good, groups = pcall(json.decode, file:read "a")
  file:close()
  for name, members in pairs(good and type(groups) == "table" and groups or {}) do
    sizes[tostring(name)] = type(members) == "table" and positive_integer(#members) or nil
  end
end

--- Size of a process group by name, from distributedInfo or the list beside a Chakra trace; nil if missing.
local function configured_size(process, name)
  if not process.group_sizes then
    process.group_sizes = {}
    local info = process.info and json.decode(process.info)
    for _, group in ipairs(type(info) == "table" and type(info.pg_config) == "table" and info.pg_config or {}) do
      if type(group) == "table" and group.pg_name ~= nil then
        process.group_sizes[tostring(group.pg_name)] = positive_integer(group.pg_size)
      end
    end
    add_listed(process.group_sizes, process)
  end
  return process.group_sizes[tostring(name)]
end

--- Number of ranks that send or receive parts of a whole: a / b if both are known and the quotient is an integer.
local function parts(whole, part)
  return whole and part and part > 0 and positive_integer(whole / part) or nil
end

--- Size of a collective's group as the trace states it, or nil.
local function stated_size(lane, given, ranks, name)
  local listed = type(ranks) == "string" and not ranks:find("...", 1, true) and ranks
  return positive_integer(given) or listed and positive_integer(select(2, listed:gsub("%d+", "")))
    or name and configured_size(lane.process, name) or nil
end

--- Size of a group by the elements of a collective, or of a world of two; nil if the trace does not contain it.
local function derived_size(lane, kind, a, b)
  return comm.gathers[kind] and parts(b, a) or comm.scatters[kind] and parts(a, b)
    or lane.process.world_size == 2 and 2 or nil -- a collective has at least two ranks
end

--- Source and destination of a send or receive, from its args or the range around it ("nccl:send 0->1",
--- "nccl:recv 1<-0"): "0>1", or nil. PyTorch writes only the other rank, counted in the world (saveNcclMeta in
--- torch/csrc/profiler/util.cpp); the trace's own rank is the second one.
---@param own integer? the rank of the trace
local function pair_of(kind, own, around, source, destination)
  source, destination = number(source), number(destination)
  if kind == "send" then source = source or own end
  if kind == "recv" then destination = destination or own end
  if around and not (source and destination) then
    source, destination = around:match("send (%d+)%->(%d+)")
    if not source then destination, source = around:match("recv (%d+)<%-(%d+)") end
  end
  return source and destination and ("%s>%s"):format(math.tointeger(source) or source,
    math.tointeger(destination) or destination) or nil
end

--- Describes the collectives with these values of the columns that determine their kind; and their data type.
local function describe(lane, values)
  local name, around = values[1], values[own_count + 2]
  local function arg(key)
    for i, each in ipairs(row_args) do
      if each == key then
        local value = values[i + 1]
        if value == false or value == nil then value = values[own_count + 2 + i] end
        return value ~= false and value or nil
      end
    end
  end
  local kernel_type, said = comm.kernel_type(name), arg("Collective name")
  local kind = said and comm.kind_of(said) or around and comm.kind_of(around) or kernel_type
  local ranks, group_name = arg("Process Group Ranks"), arg("Process Group Name")
  return {
    name = name, kind = kind, kernel_type = kernel_type,
    group = group_name and (tostring(group_name) .. "|" .. tostring(ranks or "")) or nil,
    group_ranks = ranks, group_size = stated_size(lane, arg("Group size"), ranks, group_name),
    group_description = arg("Process Group Description"),
    pair = comm.between_two[kind]
      and pair_of(kind, lane.process.rank, around or nil, arg("Src Rank"), arg("Dst Rank")) or nil,
  }, arg("dtype")
end

--- Elements that a rank sends and receives, and their data type, by the sources of sizes of one row.
local function elements_at(sizes, row, dtype)
  local function of(name)
    local value = sizes[1].rows:get(row, name)
    if not value and sizes[2] then value = sizes[2].rows:get(row, name) end
    return elements(value)
  end
  local sent, received = of(size_args[1]), of(size_args[2])
  if sent or not sizes[2] then return sent, received, dtype end
  local calls, around = sizes[3].rows, sizes[4].rows
  local dims = calls:get(row, "Input Dims")
  if dims then
    received, sent = comm.first_elements(dims)
    return sent, received, dtype or first_type(calls:get(row, "Input type"))
  end
  dims = around:get(row, "Input Dims")
  return dims and comm.elements(dims) or nil, received, dtype or first_type(around:get(row, "Input type"))
end

--- Numbers of kernel types, for matching. The two ends of a point-to-point message are of one type.
local type_numbers = { count = 0 }

local function type_number(kernel)
  kernel = kernel == "recv" and "send" or kernel
  if not type_numbers[kernel] then
    type_numbers.count = type_numbers.count + 1
    type_numbers[kernel] = type_numbers.count
  end
  return type_numbers[kernel]
end

local function typed(list, kinds)
  local types = {}
  for n, each in ipairs(kinds) do types[n] = type_number(each.kernel_type) end
  return list:typed(types)
end

--- The collectives of a lane on a GPU by kind: with `dtypes` of each sort, and `sizes`, the sources of their sizes.
local function gpu_kinds(lane, rows)
  local sources, sizes = deciding(lane, rows)
  local recordings, count = lane.view:recordings()
  if count > 1 then sources[#sources + 1] = { rows = rows, keys = { "file" }, fields = {} } end
  local list, firsts = sequence.of(rows, sources)
  local described, dtypes = {}, {}
  for n, first in ipairs(firsts) do
    local values = {}
    for _, source in ipairs(sources) do
      for _, field in ipairs(source.fields) do values[#values + 1] = source.rows:get(first, field) or false end
    end
    described[n], dtypes[n] = describe(lane, values)
    described[n].recording = count > 1 and recordings[rows:get(first, "file")] or nil
  end
  return { rows = rows, sequence = list, sorts = described, dtypes = dtypes, sizes = sizes }
end

--- Collectives by kind and size: a sort has its bytes and group size, and the fields of its kind.
local function gpu_collectives(lane, kinds)
  local list, firsts = kinds.sequence:refined(kinds.sizes)
  local inherit, described = {}, {}
  for n, kind in ipairs(kinds.sorts) do inherit[n] = { __index = kind } end
  for i, first in ipairs(firsts) do
    local _, _, n = kinds.sequence:at(first)
    local kind = kinds.sorts[n]
    local sent, received, dtype = elements_at(kinds.sizes, first, kinds.dtypes[n])
    local size = kind.group_size or derived_size(lane, kind.kind, sent, received)
    described[i] = setmetatable({ bytes = comm.message_bytes(kind.kind, sent, received, dtype, size),
      part_bytes = comm.message_bytes(kind.kind, sent, nil, dtype, 1), group_size = size,
      element_bytes = comm.dtype_bytes(dtype) }, inherit[n])
    lane.unsized = lane.unsized or not size
  end
  return list, described
end

--- The collectives of a TPU in order of start: their rows (of an asynchronous one the first), its last row or a hole,
--- and their places in xla.pairs.
local function tpu_rows(lane)
  local found, kept, last = lane:asynchronous(), {}, {}
  for _, row in ipairs((lane:rows("comm"):sort("ts"):columns { "row" })) do
    local place = found.place[row]
    if not found.inner[place] then
      kept[#kept + 1] = place
      last[#kept] = found.at[place] and found.at[place].last or false
    end
  end
  return found.rows:pick(kept), found.rows:pick(last), kept
end

--- The sequence with the ends of asynchronous collectives. These have no ticks of their own.
local function with_ends(lane, list, rows, kept)
  local found, scale = lane:asynchronous(), lane.view.trace.ticks_per_second / 1e12
  local starts, ends, sorts, own = {}, {}, {}, (rows:columns { "device_duration_ps" })
  for i, n, from, to in list:iter() do
    local pair, ps = found.at[kept[i]], tonumber(own[i] or nil)
    starts[i], ends[i], sorts[i] = from, pair and pair.stop or to, n
    own[i] = (pair or not ps) and ends[i] - from or ps * scale
  end
  return sequence.new(starts, ends, sorts, own)
end

local function tpu_collectives(lane)
  local rows, last, kept = tpu_rows(lane)
  local shape_key = "arg:shape_with_layout"
  local list, firsts = sequence.of(rows, { { rows = rows, keys = { "name", "arg:hlo_category", "arg:long_name",
    shape_key } }, { rows = last, keys = { "name", shape_key } } })
  local described, halves = {}, lane:asynchronous().half
  for n, first in ipairs(firsts) do
    local name, text = rows:get(first, "name"), rows:get(first, "long_name")
    local opcode = xla.operation(rows:get(first, "hlo_category"), text, name)
    local kind = comm.kind_of(opcode) or "other"
    local size = comm.replica_group_size(text) or lane.view.options.n_chips
    -- The time of half a collective is not that of its message.
    local output = not halves[kept[first]] and comm.shape_bytes(xla.message_shape(opcode,
      rows:get(first, "shape_with_layout"), last:get(first, "shape_with_layout"))) or nil
    described[n] = {
      name = name, kind = kind, kernel_type = opcode or "other", opcode = opcode,
      -- The shape is that of the op's result; the input of a reduce-scatter is n times larger.
      bytes = output and (kind ~= "reduce_scatter" and output or size and output * size) or nil,
      result_bytes = output, group_size = size,
    }
  end
  return rows, with_ends(lane, list, rows, kept), described
end

--- Collectives of a lane that start in its window, by kind and group: without sizes, so that there are few sorts.
function collective.kinds_of_lane(lane)
  if lane.tpu then return lane:collectives() end
  local found = gpu_kinds(lane, (lane:launches "comm"))
  found.sequence = typed(found.sequence, found.sorts)
  return found
end

--- Collectives of a lane that start in its window.
function collective.of_lane(lane)
  local rows, list, described
  if lane.tpu then
    rows, list, described = tpu_collectives(lane)
  else
    rows = lane:launches "comm"
    list, described = gpu_collectives(lane, lane:kinds())
  end
  return { rows = rows, sequence = typed(list, described), sorts = described }
end

--- The key of a collective's group, and whether it is a point-to-point message without named peers.
local function group_key(each)
  local key, alone = each.group or "unnamed", false
  if each.pair then
    key = ("%s, point-to-point %s"):format(key, each.pair)
  elseif each.kind == "send" or each.kind == "recv" then
    key, alone = key .. ", point-to-point", true
  end
  if each.recording then key = ("%s, recording %d"):format(key, each.recording) end
  return key, alone
end

--- The collectives of some lanes by process group: { {group=, size=, description=, members = { {lane=, list= (an
--- ett.sequence), sorts= (those of the group)} }} }, sorted by group. Collectives whose group the trace does not name
--- are in the group "unnamed". Sends and receives are a group for each source and destination (pair=), or, where the
--- trace does not name these, one without match (unpaired=). `kinds`: by kind alone (Lane:kinds).
function collective.groups(lanes, kinds)
  local by_key, order = {}, {}
  for _, lane in ipairs(lanes) do
    local all, homes, members, mine = kinds and lane:kinds() or lane:collectives(), {}, {}, {}
    for n, each in ipairs(all.sorts) do
      local key, alone = group_key(each)
      local home = mine[key]
      if not home then
        home = #members + 1
        mine[key], members[home] = home, { lane = lane, sorts = {} }
        local group = by_key[key]
        if not group then
          group = { group = key, size = each.group_size, description = each.group_description, members = {},
            pair = each.pair, unpaired = alone }
          by_key[key], order[#order + 1] = group, group
        end
        table.insert(group.members, members[home])
      end
      homes[n] = home
      table.insert(members[home].sorts, each)
    end
    for home, list in ipairs(all.sequence:split(homes, #members)) do members[home].list = list end
  end
  table.sort(order, function(a, b) return a.group < b.group end)
  return order
end

--- Sets missing group sizes if all ranks of the world ran the group's collectives together: their ends agree within
--- `agreement`.
function collective.size_groups(view)
  local unsized = false
  for _, lane in ipairs(view:lane_list()) do
    lane:collectives()
    unsized = unsized or lane.unsized
  end
  if not unsized then return end
  local agreement = view.trace.ticks_per_second // 10000 -- 100 us
  for _, group in ipairs(collective.groups(view:lane_list())) do
    local world = group.members[1].lane.process.world_size
    if not group.size and #group.members > 1 and #group.members == world
      and align.match(collective.lists(group), { mode = "auto", tolerance = agreement }) then
      for _, member in ipairs(group.members) do
        for _, each in ipairs(member.sorts) do
          each.group_size = each.group_size or world
          if comm.gathers[each.kind] and not each.bytes and each.part_bytes then
            each.bytes = each.part_bytes * world
          end
        end
      end
    end
  end
end

function collective.lists(group)
  local lists = {}
  for i, member in ipairs(group.members) do lists[i] = member.list end
  return lists
end

--- The groups of two ranks or more, matched (ett.trace.align): { {group=, result=} or {group=, reason=, tried=} },
--- and the number of groups on one rank.
function collective.match(groups, mode, tolerance)
  local list, alone = {}, 0
  for _, group in ipairs(groups) do
    if #group.members < 2 then
      alone = alone + 1
    elseif group.unpaired then
      list[#list + 1] = { group = group, reason = "the trace does not name source and destination of its sends and "
        .. "receives, so they cannot be paired" }
    else
      local result, reason, tried = align.match(collective.lists(group), { mode = mode, tolerance = tolerance })
      list[#list + 1] = { group = group, result = result, reason = reason, tried = tried }
    end
  end
  return list, alone
end

return collective
