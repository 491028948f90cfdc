--- Expressions of a ledger's parameters: numbers that can be compiled and evaluated for other parameter values.
--
-- Every expression has a value at the parameters' current values. Equal operations on equal operands share one
-- expression; operations on plain numbers give plain numbers. The arithmetic is that of ett.ledger_program in doubles,
-- so a program gives bit-identical results.
local error_module = require "ett.base.error"
local program = require "ett.ledger_program"

local expression = {}

--- The operations as functions of numbers and expressions: add, sub, …, select.
expression.operations = {}

local Expression = { __name = "ett.ledger.expression" }

--- The state shared by all expressions of one ledger.
function expression.new_graph() return { nodes = {}, shared = {}, parameters = {} } end

local function is_expression(x) return getmetatable(x) == Expression end

--- A number as a float, or an expression of this graph.
function expression.operand(graph, x)
  if type(x) == "number" then return x + 0.0 end
  if not is_expression(x) then error(("expected a number or an expression, got %s"):format(type(x)), 0) end
  if x.graph ~= graph then error("an expression of another ledger", 0) end
  return x
end

--- The value of x at the parameters' current values.
function expression.value(x)
  if type(x) == "number" then return x end
  if not is_expression(x) then error(("expected a number or an expression, got %s"):format(type(x)), 0) end
  return x.value
end

local function key_of(x) return is_expression(x) and x.id or ("%a"):format(x) end

--- The unique expression with this key; created from fields if it is new.
local function share(graph, key, fields)
  local node = graph.shared[key]
  if not node then
    node = setmetatable(fields, Expression)
    graph.nodes[#graph.nodes + 1] = node
    node.graph, node.id, graph.shared[key] = graph, #graph.nodes, node
  end
  return node
end

--- A parameter with its current value. A name has only one value.
function expression.parameter(graph, name, value)
  local old = graph.parameters[name]
  if old and old.value ~= value and (old.value == old.value or value == value) then
    error_module.raise("argument", "parameter '%s' has the value %.17g, cannot also be %.17g", name, old.value, value)
  elseif not old then
    old = share(graph, "parameter " .. name, { name = name, value = value + 0.0 })
    graph.parameters[name], graph.parameters[#graph.parameters + 1] = old, old
  end
  return old
end

--- Exact identities only: x 1 = x, x / 1 = x, x + 0 = x, x - 0 = x.
local function simplified(name, a, b)
  if name == "mul" and a == 1 or name == "add" and a == 0 then return b end
  if (name == "mul" or name == "div") and b == 1 then return a end
  if (name == "add" or name == "sub") and b == 0 then return a end
  if (name == "min" or name == "max") and rawequal(a, b) then return a end
end

--- The function of one operation; op: its number in a program.
local function apply(op, name, operands)
  return function(a, b, c)
    if type(a) == "number" and (operands < 2 or type(b) == "number") and (operands < 3 or type(c) == "number") then
      return program.value(op, a, b, c)
    end
    local owner = is_expression(a) and a or is_expression(b) and b or is_expression(c) and c
    local graph = owner and owner.graph
    a = expression.operand(graph, a)
    b = operands > 1 and expression.operand(graph, b) or 0.0
    c = operands > 2 and expression.operand(graph, c) or 0.0
    if name == "select" and not is_expression(a) then return a ~= 0 and b or c end
    local known = simplified(name, a, b)
    if known then return known end
    local key = ("%d %s %s %s"):format(op, key_of(a), key_of(b), key_of(c))
    return graph.shared[key] or share(graph, key, { op = op, operands = { a, b, c },
      value = program.value(op, expression.value(a), expression.value(b), expression.value(c)) })
  end
end

local metamethods = { add = "__add", sub = "__sub", mul = "__mul", div = "__div", idiv = "__idiv", mod = "__mod",
  pow = "__pow" }

for i, operation in ipairs(program.operations) do
  local fn = apply(i - 1, operation.name, operation.operands)
  expression.operations[operation.name] = fn
  if metamethods[operation.name] then Expression[metamethods[operation.name]] = fn end
end

function Expression.__unm(x) return 0 - x end

function Expression.__lt()
  error("expressions cannot be compared with <, <=, > or >=; use ledger.lt, ledger.le or ledger.value", 0)
end
Expression.__le = Expression.__lt

function Expression:__tostring() return ("expression (now %s)"):format(self.value) end

--- Marks the expressions that the outputs need. Operands precede their operation.
local function needed_by(graph, outputs)
  local needed = {}
  local function mark(x)
    if is_expression(x) then needed[x.id] = true end
  end
  for _, x in ipairs(outputs) do mark(x) end
  for id = #graph.nodes, 1, -1 do
    for _, x in ipairs(needed[id] and graph.nodes[id].operands or {}) do mark(x) end
  end
  return needed
end

--- Compiles { name = expression } to a program (ett.ledger_program).
function expression.compile(graph, outputs)
  local names, values = {}, {}
  for name in pairs(outputs) do
    if type(name) ~= "string" then error(("names must be strings, got %s"):format(type(name)), 0) end
    names[#names + 1] = name
  end
  table.sort(names)
  for i, name in ipairs(names) do values[i] = expression.operand(graph, outputs[name]) end
  local p = { inputs = {}, defaults = {}, constants = {}, code = {}, outputs = names, registers = {} }
  local register, needed = {}, needed_by(graph, values)
  local next_register = 0
  local function add(key)
    register[key] = next_register
    next_register = next_register + 1
  end
  for i, parameter in ipairs(graph.parameters) do
    p.inputs[i], p.defaults[i] = parameter.name, parameter.value
    add(parameter.id)
  end
  local function add_constants(list)
    for _, x in ipairs(list) do
      if not is_expression(x) and not register[key_of(x)] then
        p.constants[#p.constants + 1] = x
        add(key_of(x))
      end
    end
  end
  add_constants(values)
  for id, node in ipairs(graph.nodes) do
    if needed[id] then add_constants(node.operands or {}) end
  end
  for id, node in ipairs(graph.nodes) do
    if needed[id] and node.op then
      table.insert(p.code, node.op)
      for _, x in ipairs(node.operands) do table.insert(p.code, register[key_of(x)]) end
      add(id)
    end
  end
  for i, x in ipairs(values) do p.registers[i] = register[key_of(x)] end
  return program.new(p)
end

return expression
