--- Operators of a recorded run with their shapes, passes and device time.
--
--   local runs = require("ett.trace.operators").of_lane(lane)
--   for _, row in ipairs(operators.by_shape(runs)) do print(row.name, row.shape, row.pass, row.count) end
--
-- A run is one execution of one operator in one pass: { operation (ett.trace.operators.kinds) or nil, name, pass,
-- dtype, ticks (of its device rows together), ts, stop, rows = number, kernels = { [name] = ticks }, node, place }.
-- `place` counts the runs of a lane in order of their first device row. Communication is left out:
-- ett.trace.collective has it. Where no row ran on a device, a run is a host operator and its duration.
local by = require "ett.base.by"
local calls = require "ett.trace.operators.calls"
local kinds = require "ett.trace.operators.kinds"
local stats = require "ett.trace.stats"
local trace_view = require "ett.trace.view"

local operators = {}

operators.args = calls.args

-- The format of 2021 has steps as operators. They are none.
local function host_rows(view, process)
  local updates = view:named_rows("updates", { "annotation" }, function(name)
    return name:find("^Optimizer%.step") ~= nil
  end)
  local steps = view:named_rows("step_operators", { "cpu_op" }, trace_view.is_step)
  return (view:class_rows("cpu_op") - steps + updates):where { file = process.files }
end

--- The host operators of a process as a tree (ett.trace.operators.calls).
function operators.tree(view, process)
  return view:cached("operator_tree_" .. process.index, function()
    return calls.tree(host_rows(view, process), 2 * (view.trace.ticks_per_second // 1000000))
  end)
end

local function new_run(tree, node, name, place)
  local source = node and tree.source[node]
  local operation = source and tree.operation[source] or nil
  return { operation = operation, name = source and tree.name[source] or name,
    pass = node and tree.pass[node] or "forward", dtype = operation and operation.dtype, ticks = 0, rows = 0,
    kernels = {}, node = node, source = source, place = place }
end

local function add_row(run, name, ts, stop)
  run.ts, run.stop = math.min(run.ts or ts, ts), math.max(run.stop or stop, stop)
  run.ticks, run.rows = run.ticks + stop - ts, run.rows + 1
  run.kernels[name] = (run.kernels[name] or 0) + stop - ts
end

--- The run of a node in a list, added if new. Several backward nodes of one forward operator are one run.
local function run_of(list, by_owner, tree, node)
  local id = tree.pass[node] == "backward" and tree.source[node] and -tree.source[node] or node
  local run = by_owner[id]
  if not run then
    run = new_run(tree, node, tree.name[node], #list + 1)
    list[#list + 1], by_owner[id] = run, run
  end
  return run
end

--- Runs of a lane that start in its window, by their first device row.
function operators.of_lane(lane)
  return lane:cached("operator_runs", function()
    local tree = operators.tree(lane.view, lane.process)
    local rows = (lane:rows("compute") + lane:rows("memory")):sort("ts")
    local host = rows:match(lane.view:launch_calls(), "correlation"):enclosing(host_rows(lane.view, lane.process))
    local columns = stats.columns(rows, { "ts", "end", "name" })
    local home = (host:columns { "row" })
    local list, by_owner = {}, {}
    for i = 1, #rows do
      local node = home[i] and tree.of_row[home[i]]
      node = node and tree.owner[node]
      local run = node and run_of(list, by_owner, tree, node)
      if not run then
        run = new_run(tree, nil, columns.name[i], #list + 1)
        list[#list + 1] = run
      end
      add_row(run, columns.name[i], columns.ts[i], columns["end"][i])
    end
    return list
  end)
end

--- The outermost nodes inside a window, in order of start: those with a shape; with `all` also those between them.
local function outermost(tree, from, to, all)
  local nodes, holds, covered = {}, {}, {}
  for n = tree.count, 1, -1 do -- whether a node without a shape has one inside
    local p = tree.parent[n]
    if p > 0 and (holds[n] or tree.source[tree.owner[n]]) then holds[p] = true end
  end
  for n = 1, tree.count do
    local p, shaped = tree.parent[n], tree.source[n] ~= nil
    local mine = tree.owner[n] == n and shaped or all and not holds[n] and not tree.source[tree.owner[n]]
    local inside = p > 0 and covered[p]
    covered[n] = inside or mine
    if mine and not inside and (not from or (tree.ts[n] >= from and tree.ts[n] < to)) then nodes[#nodes + 1] = n end
  end
  table.sort(nodes, function(a, b)
    if tree.ts[a] ~= tree.ts[b] then return tree.ts[a] < tree.ts[b] end
    return a < b
  end)
  return nodes
end

--- Runs of a process whose operators ran on the host.
function operators.of_host(view, process)
  return view:cached("host_runs_" .. process.index, function()
    local tree = operators.tree(view, process)
    local list, by_owner = {}, {}
    for _, n in ipairs(outermost(tree, view:window(process))) do
      add_row(run_of(list, by_owner, tree, n), tree.name[n], tree.ts[n], tree.stop[n])
    end
    return list
  end)
end

--- The runs of an interval of a host process; their durations sum to the interval. Time between two outermost operators
--- belongs to the first, and operators without a shape are runs too. charge(events): profiler overhead in ticks for a
--- number of recorded operators.
function operators.of_stretch(view, process, from, to, charge)
  local tree = operators.tree(view, process)
  local nodes, starts = outermost(tree, from, to, true), {}
  for n = 1, tree.count do
    if tree.ts[n] >= from and tree.ts[n] < to then starts[#starts + 1] = tree.ts[n] end
  end
  table.sort(starts)
  local list, by_owner, at = {}, {}, 1
  for i, n in ipairs(nodes) do
    local stop, events = nodes[i + 1] and tree.ts[nodes[i + 1]] or to, 0
    while starts[at] and starts[at] < stop do at, events = at + 1, events + 1 end
    local run = run_of(list, by_owner, tree, n)
    add_row(run, tree.name[n], i == 1 and from or tree.ts[n], stop)
    run.ticks = math.max(0, run.ticks - charge(events))
  end
  return list, #starts
end

--- The runs of every device, or of every process where nothing ran on a device: { { key, rank, lane, process, runs } }.
--- Raises "missing" where no operator of a known shape is in the trace, unless `any` is given.
function operators.of_view(view, any)
  local found = view:cached(any and "any_operators_of_view" or "operators_of_view", function()
    local list, shaped = {}, 0
    if #view:class_rows("cpu_op") == 0 and not any then return { list, 0 } end
    for _, lane in ipairs(view:lane_list()) do
      if not lane.tpu then
        list[#list + 1] = { key = lane.key, rank = lane.rank, lane = lane, process = lane.process,
          runs = operators.of_lane(lane) }
      end
    end
    if #view:lane_list() == 0 then
      for _, process in ipairs(view:processes()) do
        list[#list + 1] = { key = process.key, rank = process.rank, process = process,
          runs = operators.of_host(view, process) }
      end
    end
    for _, each in ipairs(list) do
      for _, run in ipairs(each.runs) do
        if run.operation and run.operation.family ~= "optimizer" then shaped = shaped + 1 end
      end
    end
    return { list, shaped }
  end)
  if found[2] == 0 and not any then
    local shaped = #view:class_rows("cpu_op"):where { has_arg = "Input Dims" } > 0
    view:missing("needs operators with shapes on the host; %s", shaped
      and "ett knows none of those recorded (aten::mm …)"
      or "record with record_shapes=True, and a PyTorch with Kineto")
  end
  return found[1]
end

--- Runs by shape, pass and precision, longest first: { name, family, what, shape, pass, dtype, count, ticks, list
--- (ticks of each run), kernels = { [name] = ticks }, operation }. Runs without a shape are one row for each name and
--- pass.
function operators.by_shape(runs)
  local by_key, list = {}, {}
  for _, run in ipairs(runs) do
    local o = run.operation
    local key = ("%s %s %s"):format(o and o.key or "?" .. run.name, run.pass, o and o.dtype or "")
    local row = by_key[key]
    if not row then
      row = { name = run.name, family = o and o.family or "other", what = o and o.what, shape = o
        and kinds.text(o) or "",
        pass = run.pass, dtype = o and o.dtype, count = 0, ticks = 0, list = {}, kernels = {}, operation = o }
      by_key[key], list[#list + 1] = row, row
    end
    row.count, row.ticks = row.count + 1, row.ticks + run.ticks
    row.list[#row.list + 1] = run.ticks
    for name, ticks in pairs(run.kernels) do row.kernels[name] = (row.kernels[name] or 0) + ticks end
  end
  table.sort(list, by("-ticks", "name", function(row) return row.shape .. row.pass end))
  return list
end

return operators
