--- The collectives of a lane in order, with kind, bytes and process group.
--
-- Kind: the row's "Collective name" argument; else the annotation that encloses its launch on
-- the host ("nccl:all_to_all", linked by correlation); else the kernel's own name. On TPU the
-- hlo_category, else the opcode. Bytes: elements x dtype from the row's arguments, else from
-- the record_param_comms or nccl: row that encloses the launch (Input Dims, Input type), else
-- unknown; never bytes_accessed, which is another unit.
local comm = require "ett.trace_comm"
local stats = require "ett.trace_stats"
local trace_view = require "ett.trace_view"

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
        return (name:find("^[nrh]ccl:") or name:find("^symm_mem::") or name:find("^vllm::all_")) ~= nil
      end),
      params = view:class_rows("cpu_op"):where{ name = "record_param_comms" },
    }
  end)
end

--- Columns of the host rows that enclose the launches of `rows` (each as long as `rows`).
local function launch_columns(lane)
  local host = host_rows(lane.view)
  local _, launch = lane:comm_launches()
  local annotation = launch:enclosing(host.annotations)
  local params = launch:enclosing(host.params)
  local wanted = { "Input Dims", "Input type" }
  local a = stats.columns(annotation, { "name", table.unpack(wanted) })
  local p = stats.columns(params, row_args)
  return a, p
end

local function gpu_collectives(lane, rows)
  local own = stats.columns(rows, { "ts", "dur", "name", table.unpack(row_args) })
  local named = true
  for i = 1, #rows do named = named and own["Collective name"][i] ~= false end
  local annotation, params
  if not named then annotation, params = launch_columns(lane) end
  local list, kinds, dims = {}, {}, {}
  for i = 1, #rows do
    local name = own.name[i]
    local function arg(key)
      local value = own[key][i]
      if value == false and params then value = params[key][i] end
      return value ~= false and value or nil
    end
    local kernel_type = kinds[name]
    if not kernel_type then
      kernel_type = comm.kernel_type(name)
      kinds[name] = kernel_type
    end
    local said = arg("Collective name")
    local around = annotation and annotation.name[i] or nil
    local kind = said and comm.kind_of(said) or around and comm.kind_of(around) or kernel_type
    local elements_in, elements_out = number(arg("In msg nelems")), number(arg("Out msg nelems"))
    local dtype = arg("dtype")
    if not elements_in and around then
      local text = annotation["Input Dims"][i]
      if text then
        local known = dims[text]
        if known == nil then
          known = comm.elements(text) or false
          dims[text] = known
        end
        elements_in = known or nil
        dtype = dtype or first_type(annotation["Input type"][i])
      end
    end
    local size = number(arg("Group size")) or (lane.process.world_size)
    local ranks, group_name = arg("Process Group Ranks"), arg("Process Group Name")
    list[i] = {
      ts = own.ts[i], dur = own.dur[i], stop = own.ts[i] + own.dur[i], name = name,
      kind = kind, kernel_type = kernel_type,
      bytes = comm.message_bytes(kind, elements_in, elements_out, dtype, size),
      group = group_name and (tostring(group_name) .. "|" .. tostring(ranks or "")) or nil,
      group_ranks = ranks, group_size = size and math.tointeger(size),
      group_description = arg("Process Group Description"),
    }
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

return collective
