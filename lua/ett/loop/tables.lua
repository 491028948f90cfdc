--- Makes sample tables from recorded runs: one row per shape.
--
-- A row's time is the mean of the middle half of all runs, ranks and traces. Products of all layers are in one table:
-- they share a model. Times of collectives exclude the wait for late ranks, so only collectives matched over their
-- ranks are used.
local against = require "ett.loop.against"
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"
local host = require "ett.host"
local operators = require "ett.trace.operators"
local roofline = require "ett.trace.operators.roofline"
local sample_table = require "ett.samples.table"
local schema = require "ett.base.schema"
local stats = require "ett.trace.stats"
local trace_samples = require "ett.trace.samples"
local wires = require "ett.loop.wires"
local names = require "ett.base.collective"

local tables = {}

--- Passes of a row, in the order of a table's columns.
local passes = { "forward", "backward" }

--- An empty collection: gather adds traces, list makes tables.
function tables.new() return { operators = {}, collectives = {}, traces = {}, dtypes = {}, device = nil } end

local function entry_of(list, key, make)
  local entry = list[key]
  if not entry then
    entry = make()
    list[key] = entry
  end
  return entry
end

--- A shape as the fields of its columns; fields without a value get no column.
local function shape_key(op, shape)
  local words = {}
  for _, name in ipairs(op.columns or schema.keys(op.schema)) do
    words[#words + 1] = ("%s=%s"):format(name, tostring(shape[name]))
  end
  return table.concat(words, " ")
end

--- The type of most products; nil without products.
local function type_of_products(devices)
  local dtypes = {}
  for _, device in ipairs(devices) do
    for _, run in ipairs(device.runs) do
      if run.operation and run.operation.family == "gemm" and run.dtype then stats.count(dtypes, run.dtype) end
    end
  end
  local dtype = stats.keys(dtypes)[1]
  for name, n in pairs(dtypes) do if n > dtypes[dtype] then dtype = name end end
  return dtype
end

--- The precision in the name of a row's table. The loss has that of the plan, which is the products': its logits are
--- often fp32.
local function precision_of(row, op, products)
  return op.family == "cross_entropy" and products and schema.wide(products) or row.dtype
end

local function gather_runs(into, view, runs, products)
  for _, row in ipairs(operators.by_shape(runs)) do
    local op, shape = roofline.operator(row.operation)
    local pass = row.pass == "recompute" and "forward" or row.pass
    local dtype = op and row.dtype and row.dtype ~= "fp64" and precision_of(row, op, products)
    if dtype and dtype ~= "fp64" and (pass == "forward" or pass == "backward") then
      local table_key = op.name .. " " .. dtype
      local rows = entry_of(into.operators, table_key, function() return { op = op, dtype = dtype, rows = {} } end).rows
      local entry = entry_of(rows, shape_key(op, shape), function()
        return { shape = shape, forward = {}, backward = {} }
      end)
      for _, ticks in ipairs(row.list) do
        if ticks > 0 then table.insert(entry[pass], view:us(ticks)) end
      end
    end
  end
end

--- Ranks of a node: the number of devices in the trace, else of the cluster.
local function node_size(view, cluster)
  local root = view.trace.files[1].root
  local text = root and root.deviceProperties
  local count = type(text) == "string" and select(2, text:gsub('"name"%s*:', "")) or 0
  return cluster and cluster.gpus_per_node or count > 0 and count or 1
end

--- Adds the collectives of a trace; returns their number.
local function gather_collectives(into, view, cluster, dtype)
  local count = 0
  local width = schema.dtype_bytes[dtype] or 2
  local per_node = node_size(view, cluster)
  for _, found in ipairs(view:transfers()) do
    local first = found.each
    local kind = names.find(first.kind)
    if kind and first.bytes and first.group_size and first.group_size > 1 then
      local topology = wires.topology(first, { gpus_per_node = per_node })
      local elements = first.bytes / width / (kind == "all_gather" and first.group_size or 1)
      local key = ("%s %d %d"):format(kind, topology.nodes, topology.gpus_per_node)
      local entry = entry_of(into.collectives, key, function()
        return { kind = kind, dtype = dtype, topology = topology, rows = {} }
      end)
      local times = entry_of(entry.rows, elements, function() return {} end)
      for _, ticks in ipairs(found.ticks) do times[#times + 1] = view:us(ticks) end
      count = count + #found.ticks
    end
  end
  return count
end

--- Adds a trace.
---@param into table of tables.new
---@param path string
---@param options table { ranks = function(rank) -> boolean?, cluster?, device?, view options }
function tables.gather(into, path, options)
  local view <close> = assert(require("ett.trace.view").open(path, { args = against.args, align = options.align,
    step = options.step, threads = options.threads }))
  local devices = operators.of_view(view, true)
  local gpu = options.device or trace_samples.device_name(view.trace) or "unknown"
  if into.device and into.device ~= gpu then
    error_module.raise("format", "recorded on '%s', the traces before on '%s'; give the traces of each device "
      .. "separately", gpu, into.device)
  end
  into.device, into.traces[#into.traces + 1] = gpu, path
  local dtype = type_of_products(devices)
  if dtype then into.dtypes[dtype] = true end
  for _, device in ipairs(devices) do
    if not options.ranks or options.ranks(device.rank) then gather_runs(into, view, device.runs, dtype) end
  end
  local count = #view:lane_list() > 1 and gather_collectives(into, view, options.cluster, dtype or "bf16") or 0
  if count == 0 then operators.of_view(view) end -- a trace without either: the error says what it lacks
end

local function header(into, name, note)
  return { { "ett", host.version }, { "traces", table.concat(into.traces, " ") }, { "device", into.device }, name,
    { "time", note } }
end

--- The time of a row: the mean of the middle half of its runs. Older profilers record whole microseconds; a median
--- would keep that rounding.
function tables.middle(list)
  local sorted = stats.sorted(list)
  local cut = #sorted // 4
  return stats.mean(table.move(sorted, cut + 1, #sorted - cut, 1, {}))
end

local function operator_table(into, entry, rows, measured)
  for _, row in ipairs(rows) do
    row.microseconds = {}
    for _, pass in ipairs(measured) do row.microseconds[pass] = tables.middle(row[pass]) end
  end
  local what = into.device == "cpu" and "host time, the profiler's included" or "device rows"
  local head = header(into, { "operator", entry.op.name }, what .. " of the recorded runs, mean of the middle half")
  return sample_table.of_shapes(head, entry.op, rows, measured)
end

--- Whether plans with the types of the recorded products use a table of `dtype`. fp16 and bf16 share tables.
local function used(into, dtype)
  local sixteen = { fp16 = true, bf16 = true }
  for products in pairs(into.dtypes) do
    local wide = schema.wide(products)
    if dtype == products or dtype == wide or sixteen[dtype] and sixteen[wide] then return true end
  end
  return next(into.dtypes) == nil
end

local function add_operator_tables(into, list)
  for _, key in ipairs(schema.keys(into.operators)) do
    local entry = into.operators[key]
    local both, one = {}, {}
    for _, id in ipairs(schema.keys(entry.rows)) do
      local row = entry.rows[id]
      if #row.forward > 0 and #row.backward > 0 then both[#both + 1] = row
      elseif #row.forward > 0 then one[#one + 1] = row end
    end
    local file = sample_table.name(into.device, entry.op.name, entry.dtype)
    local other = not used(into, entry.dtype) and entry.dtype or nil
    if #both > 0 then
      list[#list + 1] = { name = file, text = operator_table(into, entry, both, passes), rows = #both, other = other }
    end
    if #one > 0 then -- rows without a backward pass: a table of their own
      list[#list + 1] = { name = (#both > 0 and "operator/" or "") .. file, rows = #one, other = other,
        text = operator_table(into, entry, one, { "forward" }) }
    end
  end
end

local function add_collective_tables(into, list)
  for _, key in ipairs(schema.keys(into.collectives)) do
    local entry, lines, sizes = into.collectives[key], {}, {}
    for elements in pairs(entry.rows) do sizes[#sizes + 1] = elements end
    table.sort(sizes)
    for i, elements in ipairs(sizes) do
      lines[i] = ("%s,%s"):format(sample_table.number(math.tointeger(elements) or elements),
        sample_table.number(tables.middle(entry.rows[elements])))
    end
    list[#list + 1] = { name = sample_table.name(into.device, entry.kind, entry.dtype,
      { entry.topology.nodes, entry.topology.gpus_per_node }), rows = #lines,
      text = sample_table.header(header(into, { "collective", entry.kind },
        "from the last start to the first end over the ranks, mean of the middle half"), { "shape", "dur(us)" })
        .. table.concat(lines, "\n") .. "\n" }
  end
end

--- The tables of the gathered runs: { name (of the file), text, rows, other }. `other` is the table's precision if
--- plans with the products' types do not use it. Raises if there are none.
function tables.list(into)
  local list = {}
  add_operator_tables(into, list)
  add_collective_tables(into, list)
  if #list == 0 then
    error_module.raise("missing", "no operator of a known shape and no collective of known size in %s",
      table.concat(into.traces, ", "))
  end
  return list
end

--- Writes the tables of the gathered runs into a folder; returns the result of tables.list.
function tables.write(into, folder)
  local list = tables.list(into)
  for _, each in ipairs(list) do folders.write_in(folder, each.name, each.text) end
  return list
end

return tables
