--- The collectives of a lane in order, with kind, bytes and process group.
--
-- Kind: the row's "Collective name" argument; else the annotation that encloses its launch on
-- the host ("nccl:all_to_all", linked by correlation); else the kernel's own name. On TPU the
-- hlo_category, else the opcode. Bytes: elements x dtype from the row's arguments, else from
-- the record_param_comms or nccl: row that encloses the launch (Input Dims, Input type), else
-- unknown; never bytes_accessed, which is another unit.
local align = require "ett.trace.align"
local comm = require "ett.trace.comm"
local stats = require "ett.trace.stats"
local trace_view = require "ett.trace.view"

local collective = {}
local Lane, View = trace_view.Lane, trace_view.View

--- Args that must be kept while reading for collectives to be told apart.
collective.args = { "Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "Process Group Name",
  "Process Group Description", "Process Group Ranks", "Input Dims", "Input type", "hlo_category", "long_name",
  "shape_with_layout", "device_duration_ps" }

local row_args = { "Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "Process Group Name",
  "Process Group Description", "Process Group Ranks" }

---@class ett.Collective
---@field ts integer start in ticks
---@field stop integer end in ticks
---@field dur integer duration in ticks
---@field name string
---@field kind string AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv, Send, Recv, …
---@field kernel_type string what the kernel itself is
---@field bytes number? message size S of nccl-tests
---@field group string? key of the process group
---@field group_size integer?
---@field group_description string?
---@field launch_tid any? host thread that launched it

local function first_type(text)
  if type(text) ~= "string" then return nil end
  for word in text:gmatch('"([^"]*)"') do
    if comm.dtype_bytes(word) then return word end
  end
  return nil
end

local function number(value)
  if value == false or value == nil then return nil end
  return tonumber(value)
end

--- Host rows that say which collective a launch belongs to.
local function host_rows(view)
  return view:cached("collective_host_rows", function()
    return {
      -- nccl:NAME ranges, and operators of one tensor that are the collective themselves.
      annotations = view:named_rows("collectives", { "annotation", "cpu_op" }, function(name)
        return (name:find("^[nrh]ccl:") or name:find("^symm_mem::") or name:find("^vllm::all_")
          or name:find("nccl%u%l")) ~= nil -- NVTX ranges of NCCL itself: ncclAllReduce
      end),
      params = view:class_rows("cpu_op"):where{ name = "record_param_comms" },
    }
  end)
end

--- Columns that decide what a collective is: its name and args, and (where some row does not name
--- its collective) those of the host rows around its launch. Each array is as long as the rows.
local function deciding_columns(lane, rows)
  local columns = table.pack(rows:columns{ "name", table.unpack(row_args) })
  local named = true
  for i = 1, #rows do
    if columns[2][i] == false then
      named = false
      break
    end
  end
  if not named then
    local host = host_rows(lane.view)
    local _, launch = lane:comm_launches()
    local around = launch:enclosing(host.annotations)
    for _, column in ipairs(table.pack(around:columns{ "name", "Input Dims", "Input type" })) do
      columns[#columns + 1] = column
    end
    for _, column in ipairs(table.pack(launch:enclosing(host.params):columns(row_args))) do
      columns[#columns + 1] = column
    end
  end
  return columns
end

--- What all collectives with these values of the deciding columns are.
local function describe(lane, values)
  local name, count = values[1], #row_args
  local around, dims, types = values[count + 2], values[count + 3], values[count + 4]
  local function arg(key)
    for i, each in ipairs(row_args) do
      if each == key then
        local value = values[i + 1]
        if value == false or value == nil then value = values[count + 4 + i] end
        return value ~= false and value or nil
      end
    end
  end
  local kernel_type, said = comm.kernel_type(name), arg("Collective name")
  local kind = said and comm.kind_of(said) or around and comm.kind_of(around) or kernel_type
  local elements_in, elements_out = number(arg("In msg nelems")), number(arg("Out msg nelems"))
  local dtype = arg("dtype")
  if not elements_in and dims then
    elements_in = comm.elements(dims)
    dtype = dtype or first_type(types)
  end
  local size = number(arg("Group size")) or lane.process.world_size
  local ranks, group_name = arg("Process Group Ranks"), arg("Process Group Name")
  return {
    name = name, kind = kind, kernel_type = kernel_type,
    bytes = comm.message_bytes(kind, elements_in, elements_out, dtype, size),
    group = group_name and (tostring(group_name) .. "|" .. tostring(ranks or "")) or nil,
    group_ranks = ranks, group_size = size and math.tointeger(size),
    group_description = arg("Process Group Description"),
  }
end

--- Each collective holds its times; the rest it shares with all that have the same values (a run has
--- thousands of collectives of few sorts).
local function gpu_collectives(lane, rows)
  local ts, dur = rows:columns{ "ts", "dur" }
  local columns = deciding_columns(lane, rows)
  local list, sorts, width = {}, {}, #columns
  for i = 1, #rows do
    local node = sorts
    for c = 1, width do
      local value = columns[c][i]
      local below = node[value]
      if not below then
        below = {}
        node[value] = below
      end
      node = below
    end
    if not node.__index then
      local values = {}
      for c = 1, width do values[c] = columns[c][i] end
      node.__index = describe(lane, values)
    end
    list[i] = setmetatable({ ts = ts[i], dur = dur[i], stop = ts[i] + dur[i] }, node)
  end
  return list
end

local function tpu_collectives(lane, rows)
  local columns = stats.columns(rows, { "ts", "dur", "name", "hlo_category", "long_name", "shape_with_layout",
    "device_duration_ps" })
  local ticks_per_ps = lane.view.trace.ticks_per_second / 1e12
  local chips = lane.view.options.n_chips
  local list = {}
  for i = 1, #rows do
    local opcode = columns.hlo_category[i] or comm.opcode(columns.long_name[i] or nil)
    local kind = comm.kind_of(opcode) or "other"
    local n = comm.replica_group_size(columns.long_name[i] or nil) or chips
    local output = comm.shape_bytes(columns.shape_with_layout[i] or nil)
    local device = number(columns.device_duration_ps[i])
    list[i] = {
      ts = columns.ts[i], dur = columns.dur[i], stop = columns.ts[i] + columns.dur[i], name = columns.name[i],
      kind = kind, kernel_type = opcode or "other", opcode = opcode,
      device_ticks = device and device * ticks_per_ps or columns.dur[i] + 0.0,
      -- The shape is the op's result; a reduce-scatter hands in n times that.
      bytes = output and (kind == "ReduceScatter" and (n and output * n) or kind ~= "ReduceScatter" and output) or nil,
      result_bytes = output, group_size = n,
    }
  end
  return list
end

--- Collectives that start in the window, by start (ties: by row).
---@return ett.Collective[]
function Lane:collectives()
  return self:cached("collectives", function()
    if self.tpu then return tpu_collectives(self, self:rows("comm"):sort("ts")) end
    return gpu_collectives(self, (self:comm_launches()))
  end)
end

--- Every lane's collectives, keyed by the process group they ran in:
--- { {group=, size=, description=, members = { {lane=, list=} }} }, groups in sorted order.
--- Collectives whose group the trace does not name form one group per lane set, "unnamed".
function View:collective_groups()
  return self:cached("collective_groups", function()
    local by_key, order = {}, {}
    for _, lane in ipairs(self:lanes()) do
      local mine = {}
      for _, each in ipairs(lane:collectives()) do
        local key = each.group or "unnamed"
        local list = mine[key]
        if not list then
          list = {}
          mine[key] = list
          local group = by_key[key]
          if not group then
            group = { group = key, size = each.group_size, description = each.group_description, members = {} }
            by_key[key] = group
            order[#order + 1] = group
          end
          table.insert(group.members, { lane = lane, list = list })
        end
        list[#list + 1] = each
      end
    end
    table.sort(order, function(a, b) return a.group < b.group end)
    return order
  end)
end

--- Every group of two ranks or more with its collectives matched (ett.trace.align):
--- { {group=, result=} or {group=, reason=, tried=} }, and the number of groups on one rank.
---@param mode string "auto", "none" or "force"
---@param tolerance integer greatest median difference of ends, in ticks
function View:matched_groups(mode, tolerance)
  local found = self:cached(("matched_%s_%d"):format(mode, tolerance), function()
    local list, alone = {}, 0
    for _, group in ipairs(self:collective_groups()) do
      if #group.members < 2 then
        alone = alone + 1
      else
        local lists = {}
        for i, member in ipairs(group.members) do lists[i] = member.list end
        local result, reason, tried = align.match(lists, { mode = mode, tolerance = tolerance })
        list[#list + 1] = { group = group, result = result, reason = reason, tried = tried }
      end
    end
    return { list, alone }
  end)
  return found[1], found[2]
end

--- The tolerance of matching in ticks: options.tolerance_us, else 1 ms.
function View:tolerance()
  return math.floor((self.options.tolerance_us or 1000) * (self.trace.ticks_per_second // 1000000))
end

return collective
