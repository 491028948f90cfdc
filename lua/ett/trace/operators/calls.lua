--- Host operators of one process as a tree, and the operation that each device row belongs to.
--
-- A device row belongs to the host operator that launched it (by correlation, innermost on its thread). Its operation
-- is the outermost of that operator's ancestors with a known shape (ett.trace.operators.kinds). In the backward pass
-- the operation is that of the forward operator with the same sequence number (assigned by PyTorch's autograd).
-- Of two nested operators with equal shapes and unlike data types, the inner one ran. PyTorch's autocast casts the
-- inputs of an operator and calls it again; the casts are operators without a shape.
local kinds = require "ett.trace.operators.kinds"
local remembered = require "ett.base.remembered"
local stats = require "ett.trace.stats"
local table_at = require "ett.base.table_at"

local calls = {}

calls.args = { "Input Dims", "Input dims", "Input type", "Concrete Inputs", "Sequence number", "Fwd thread id" }

local fields = { "row", "ts", "end", "track", "name", "Input Dims", "Input dims", "Input type", "Concrete Inputs",
  "Sequence number" }

local function is_backward(name)
  return name:find("^autograd::engine::evaluate_function") ~= nil or name:find("Backward%d*$") ~= nil
end

--- The words of a backward node's name that also occur in its forward operator: "AddmmBackward0" -> "addmm".
local function stem(name)
  return (name:gsub("^autograd::engine::evaluate_function: ", ""):gsub("Backward%d*$", ""):gsub("_", ""):lower())
end

local function normalised(name) return (name:gsub("^%w+::", ""):gsub("_", ""):lower()) end

--- Host operators by thread and start, with the parent of each: arrays by node. Times are rounded, so a child may end
--- up to `slack` ticks after its parent.
local function read_nodes(rows, slack)
  local ordered, parent = rows:nested(slack)
  local columns = stats.columns(ordered, fields)
  local tree = { count = #ordered, name = columns.name, parent = parent, ts = columns.ts, stop = columns["end"],
    track = columns.track, dims = columns["Input Dims"], types = columns["Input type"],
    values = columns["Concrete Inputs"], sequence = columns["Sequence number"], of_row = {}, backward = {} }
  local dims, sequence = columns["Input dims"], tree.sequence
  for n, row in ipairs(columns.row) do
    tree.dims[n] = tree.dims[n] or dims[n]
    local number = sequence[n] and math.tointeger(tonumber(sequence[n]))
    sequence[n] = number and number >= 0 and number or false
    tree.of_row[row] = n
  end
  return tree
end

--- The known operation of each node, or false; equal names, shapes and relevant values share one.
local function recognise(tree)
  local known, found = {}, {}
  for n = 1, tree.count do
    local name, dims, types = tree.name[n], tree.dims[n], tree.types[n]
    local values = kinds.reads_values(name) and tree.values[n] or false
    local by_types = table_at(table_at(table_at(known, name), dims), values)
    local operation = by_types[types]
    if operation == nil then
      operation = dims and kinds.of(name, dims, types or nil, values or nil)
        or name:find("^Optimizer%.step") and { family = "optimizer", key = "optimizer", dims = {} } or false
      by_types[types] = operation
    end
    found[n] = operation
  end
  return found
end

--- Takes the operation from each node that holds the same one with inputs of other data types; marks these nodes in
--- tree.cast. The chain of nodes ends at one with other dimensions. A variant with an output argument is no other type.
local function leave_out_casts(tree)
  local operation, parent = tree.operation, tree.parent
  tree.cast = {}
  for n = 1, tree.count do
    local inner, p = operation[n], parent[n]
    while inner and inner.dtype and p > 0 and (tree.cast[p] or not operation[p] or operation[p].key == inner.key) do
      local outer = operation[p]
      local same_call = tree.name[p] == tree.name[n] and tree.dims[p] == tree.dims[n]
      if outer and (outer.dtype ~= inner.dtype or same_call and tree.types[p] ~= tree.types[n]) then
        operation[p], tree.cast[p] = false, true
      end
      p = parent[p]
    end
  end
end

--- Sorts a list of nodes by start. Those of one thread are in this order.
local function sort_by_start(tree, list)
  local ts = tree.ts
  for i = 2, #list do
    if ts[list[i]] < ts[list[i - 1]] then
      table.sort(list, function(a, b)
        if ts[a] ~= ts[b] then return ts[a] < ts[b] end
        return a < b
      end)
      break
    end
  end
end

--- The last node of a sorted list that starts at or before a time; without one the last node.
local function last_before(tree, list, at)
  local low, high = 0, #list
  while low < high do
    local middle = (low + high + 1) // 2
    if tree.ts[list[middle]] <= at then low = middle else high = middle - 1 end
  end
  return list[low > 0 and low or #list]
end

--- The forward operator of each backward node, if any: the last one to start with its sequence number. Those that have
--- its name come first, because two threads may use equal numbers.
local function link_passes(tree)
  local all, named, forward, stem_of, plain_of = {}, {}, {}, remembered(stem), remembered(normalised)
  for n = 1, tree.count do
    local number = tree.sequence[n]
    if number and not tree.backward[n] then
      local list, own = table_at(all, number), table_at(table_at(named, number), plain_of(tree.name[n]))
      list[#list + 1], own[#own + 1] = n, n
    end
  end
  for number, list in pairs(all) do
    sort_by_start(tree, list)
    for _, own in pairs(named[number]) do sort_by_start(tree, own) end
  end
  for n = 1, tree.count do
    local number = tree.sequence[n]
    if number and tree.backward[n] and all[number] then
      forward[n] = last_before(tree, named[number][stem_of(tree.name[n])] or all[number], tree.ts[n])
    end
  end
  return forward
end

--- Attributes the work of one node to itself or to an ancestor with a shape. State: owner, pass, source, inside by
--- node. A node of tree.cast owns nothing: its casts are operators of their own.
local function attribute_node(tree, n, state)
  local owner, source, inside = state.owner, state.source, state.inside
  local p, backward, operation = tree.parent[n], tree.backward[n], tree.operation[n]
  inside[n] = backward and "backward" or p > 0 and inside[p] or "forward"
  local above = p > 0 and owner[p] or nil
  -- A differentiable forward operator inside a backward node is a recomputation.
  local again = not backward and inside[n] == "backward" and operation and tree.sequence[n]
  if again then
    owner[n], source[n], state.pass[n], inside[n] = n, n, "recompute", "recompute"
  elseif above and source[above] then
    owner[n] = above
  elseif backward and tree.forward[n] then
    local f = tree.forward[n]
    owner[n], source[n], state.pass[n] = n, source[owner[f] or f], "backward"
  elseif operation then
    owner[n], source[n] = n, n
    state.pass[n] = operation.family == "optimizer" and "update" or inside[n]
  elseif above and tree.name[above]:find("^aten::") then -- without a shape: the outermost operator of PyTorch
    owner[n] = above
  elseif not tree.cast[n] then
    owner[n], state.pass[n] = n, inside[n]
  end
end

--- For each node, the node to which its work is attributed (owner). For owners, the pass and the node that defines the
--- operation (source; none for an operator without a shape). Forward nodes come first, because backward nodes refer to
--- them.
local function attribute(tree)
  local state, within = { owner = {}, pass = {}, source = {}, inside = {} }, {}
  for n = 1, tree.count do -- parents come before their children
    within[n] = tree.backward[n] or within[tree.parent[n]] or false
    if not within[n] then attribute_node(tree, n, state) end
  end
  for n = 1, tree.count do if within[n] then attribute_node(tree, n, state) end end
  return state
end

--- The tree of a process: by node name, ts, stop, track, parent, owner, pass, source, operation (or false); of_row, the
--- node of a row.
---@param rows any selection of host rows of one process
---@param slack integer? ticks by which rounding may move an end
function calls.tree(rows, slack)
  local tree = read_nodes(rows, slack or 0)
  local backward = remembered(is_backward)
  for n, name in ipairs(tree.name) do tree.backward[n] = backward(name) end
  tree.operation = recognise(tree)
  leave_out_casts(tree)
  tree.forward = link_passes(tree)
  local found = attribute(tree)
  tree.owner, tree.pass, tree.source = found.owner, found.pass, found.source
  return tree
end

return calls
