--- Tensors on parallel axes, and the cost of every operation on them. README.md lists the calls.
--
-- An axis has a degree. P, the product of all degrees, is the number of ranks. A dimension has a global size and at
-- most one axis. Its local size is size / degree, which must be an integer. On a rotational axis (a pipeline), the
-- size is the degree and the local size is 1. Its virtual size (the layers) must be a multiple of the degree.
-- A tensor is a set of dimensions and a set of axes over which it is scattered. For each tensor, an axis is carried,
-- scattered or broadcast. A dimension carries it; or the elements are split without a dimension; or every rank has a
-- full copy.
--
-- Counts are over all ranks, in FLOP and in words sent (Tx) and received (Rx), forward and backward. I is a product of
-- global sizes, J a product of broadcast degrees, K a product of scattered degrees, nu a crossing frequency:
--
--   multiply   FLOP S, backward 4 S;
--              S = |union| x degrees of the axes that no dimension carries
--   broadcast  Tx I max([K > 1], nu), Rx I J (K + nu - 1);
--              backward FLOP = Tx = Rx = the forward Rx
--   reduce     FLOP I (J - 1), Tx = Rx = I (K - 1);
--              backward Tx I [K > 1], Rx I (K - 1);
--              J is the size of the reduced dimension, K the degree of its axis
--
-- (source: the public ml_par_sim programs' model, restated.)
--
-- Any number may be an expression of parameters. A ledger therefore has counts at the current values and can be
-- compiled for other values. Violated value rules (divisibility, two dimensions on one axis, limits) are recorded as
-- checks, so that all are reported at once. Impossible requests (an unknown dimension) fail.
local error_module = require "ett.base.error"
local expression = require "ett.ledger.expression"
local merged = require "ett.base.merged"

local most = 64 -- axes of one ledger; also its dimensions: a set of them is an integer
local counts = { "flop_forward", "tx_forward", "rx_forward", "flop_backward", "tx_backward", "rx_backward" }

local x = expression.operations
local ledger = { value = expression.value }
for name, fn in pairs(x) do ledger[name] = fn end

local function class(kind)
  local methods = { __name = "ett.ledger." .. kind }
  methods.__index = methods
  return methods
end

local Ledger, Axis, Dimension, Tensor = class "ledger", class "axis", class "dimension", class "tensor"
local kind_of = { [Axis] = "axis", [Dimension] = "dimension", [Tensor] = "tensor" }

local function fail(...) error_module.raise("argument", ...) end

local function expect(wanted, value, call)
  if type(value) ~= wanted then fail("%s: expected a %s, got %s", call, wanted, type(value)) end
  return value
end

--- The handle; raises if it has another class or ledger.
local function handle(L, of, value)
  if getmetatable(value) ~= of then
    error(("expected a handle of kind %s, got %s"):format(kind_of[of], type(value)), 0)
  elseif value.ledger ~= L then
    error(("the %s belongs to another ledger"):format(kind_of[of]), 0)
  end
  return value
end

local function ledger_of(t) return handle(type(t) == "table" and t.ledger, Tensor, t).ledger end

--- A list of handles as a set, one bit each.
local function set_of(L, of, list)
  local set = 0
  for i, item in ipairs(expect("table", list or {}, kind_of[of] .. "s")) do
    if getmetatable(item) ~= of or item.ledger ~= L then
      error(("element %d must be an %s of this ledger, got %s"):format(i, kind_of[of], type(item)), 0)
    end
    set = set | item.bit
  end
  return set
end

--- The items of a list that are in a set, in order of creation.
local function members(list, set)
  local found = {}
  while set ~= 0 do
    local bit = set & -set
    found[#found + 1], set = list.of_bit[bit], set ~ bit
  end
  return found
end

local function product(list, set, field)
  local result, rest = 1.0, set
  while rest ~= 0 do
    local bit = rest & -rest
    result, rest = result * list.of_bit[bit][field], rest ~ bit
  end
  return result
end

local function names_of(list, set)
  local names = {}
  for i, item in ipairs(members(list, set)) do names[i] = item.name end
  return names
end

function ledger.new()
  local whole = { name = "total", multiplier = 1.0, factor = 1.0, counts = {} }
  for i in ipairs(counts) do whole.counts[i] = 0.0 end
  return setmetatable({ graph = expression.new_graph(), all_axes = { of_bit = {} },
    all_dimensions = { of_bit = {} }, records = {}, rules = {},
    by_name = { axis = {}, dimension = {} }, has_tensors = false, open = whole, whole = whole, part = "" }, Ledger)
end

--- Does nothing: a ledger is memory of Lua. Scripts may close it.
function Ledger.close() end
Ledger.__close = Ledger.close

--- A parameter with its current value, as an expression.
function Ledger:parameter(name, value)
  return expression.parameter(self.graph, expect("string", name, "parameter"), expect("number", value, "parameter"))
end

function Ledger:compile(outputs) return expression.compile(self.graph, expect("table", outputs, "compile")) end

local holds = {
  divides = function(left, right) return x.eq(x.mod(left, right), 0) end,
  at_most = x.le,
  at_least = function(left, right) return x.le(right, left) end,
  equal = x.eq,
  disjoint = function() return 0.0 end, -- on sets: recorded only if violated
}

--- Records a rule, satisfied or violated.
function Ledger:check(relation, subject, left, object, right)
  if not holds[relation] then
    fail("check: a relation is divides, at_most, at_least, equal or disjoint, got '%s'", tostring(relation))
  end
  left, right = expression.operand(self.graph, left), expression.operand(self.graph, right)
  table.insert(self.rules, { relation = relation, subject = expect("string", subject, "check"), left = left,
    object = expect("string", object, "check"), right = right, stage = self.part, ok = holds[relation](left, right) })
end

--- Sets the label of later entries and rules.
function Ledger:label(text) self.part = expect("string", text, "label") end

--- Adds an axis or a dimension with a new name.
local function add(L, list, of, plural, fields)
  local kind, name = kind_of[of], expect("string", fields.name, kind_of[of])
  if #list == most then
    error_module.raise("limit", "%s '%s': a ledger holds at most %d %s", kind, name, most, plural)
  end
  if L.by_name[kind][name] then fail("%s '%s' exists already", kind, name) end
  fields.ledger, fields.bit = L, 1 << #list
  L.by_name[kind][name], list.of_bit[fields.bit] = fields, fields
  list[#list + 1] = setmetatable(fields, of)
  return fields
end

function Ledger:axis(name, degree, options)
  if self.has_tensors then fail("axis '%s': axes must be made before the first tensor", tostring(name)) end
  local axis = add(self, self.all_axes, Axis, "axes", { name = name, ranks = expression.operand(self.graph, degree),
    rotational = expect("table", options or {}, "axis").rotational or false })
  self:check("at_least", name, axis.ranks, "1", 1)
  return axis
end

function Ledger:dimension(name, size, options)
  options = expect("table", options or {}, "dimension")
  local axis = options.axis and handle(self, Axis, options.axis)
  local virtual = options.virtual and expression.operand(self.graph, options.virtual)
  size = expression.operand(self.graph, size)
  if axis and axis.rotational and not virtual then
    fail("dimension '%s' is on the rotational axis '%s' and needs a virtual size", tostring(name), axis.name)
  end
  local d = add(self, self.all_dimensions, Dimension, "dimensions", { name = name, axis = axis, whole = size,
    each = size, virtual = virtual, autoreduce = options.autoreduce or false })
  if axis and axis.rotational then
    self:check("equal", name, size, axis.name, axis.ranks)
    self:check("divides", name, virtual, axis.name, axis.ranks)
    d.each = 1.0
  elseif axis then
    self:check("divides", name, size, axis.name, axis.ranks)
    d.each = size / axis.ranks
  end
  return d
end

function Axis:degree() return self.ranks end
function Dimension:size() return self.whole end

--- Axes of the dimensions, as a set. Records a violation for two dimensions on one axis, and for scattered axes that a
--- dimension carries.
local function carried_by(L, dimensions, scattered)
  local owner, carried = {}, 0
  for _, d in ipairs(members(L.all_dimensions, dimensions)) do
    local axis = d.axis
    if axis then
      local other = owner[axis] or scattered & axis.bit ~= 0 and axis
      if other then L:check("disjoint", d.name, 0, other.name, 0) end
      owner[axis], carried = d, carried | axis.bit
    end
  end
  return carried
end

--- A result (without a name) is named by its label.
local function new_tensor(L, name, dimensions, scattered)
  local t = setmetatable({ ledger = L, name = name or L.part, set = dimensions, scattered = scattered,
    carried = carried_by(L, dimensions, scattered) }, Tensor)
  if scattered ~= 0 then
    local held = name or table.concat(names_of(L.all_dimensions, dimensions), " ")
    L:check("divides", ("%s: elements a rank holds of %s"):format(L.part, held),
      product(L.all_dimensions, dimensions, "each"), table.concat(names_of(L.all_axes, scattered), " "),
      product(L.all_axes, scattered, "ranks"))
  end
  L.has_tensors = true
  return t
end

function Ledger:tensor(name, dimensions, options)
  return new_tensor(self, expect("string", name, "tensor"),
    set_of(self, Dimension, expect("table", dimensions, "tensor")),
    set_of(self, Axis, expect("table", options or {}, "tensor").scattered))
end

--- Number of elements per rank.
function Tensor:local_elements()
  local L = self.ledger
  return product(L.all_dimensions, self.set, "each") / product(L.all_axes, self.scattered, "ranks")
end

function Tensor:dimensions() return names_of(self.ledger.all_dimensions, self.set) end

local function all(list) return #list == most and -1 or (1 << #list) - 1 end

local function copies(L, t) return product(L.all_axes, all(L.all_axes) & ~t.carried & ~t.scattered, "ranks") end

--- Adds an entry, and adds its six counts to the open meter.
local function record(L, operation, operands, result, values, fields)
  local entry = fields or {}
  entry.operation, entry.operands, entry.result, entry.counts = operation, operands, result, values
  entry.label, entry.meter, entry.shares = L.part, L.open, entry.shares or {}
  for i, value in ipairs(values) do L.open.counts[i] = L.open.counts[i] + value end
  for _, t in ipairs(operands) do t[operation == "multiply" and "multiplied" or "passed_on"] = true end
  L.records[#L.records + 1] = entry
  return result
end

--- The traffic of an entry that one axis causes; the shares of all axes sum to the entry.
local function share(axis, tx_forward, rx_forward, tx_backward, rx_backward)
  return { axis = axis, counts = { false, tx_forward, rx_forward, false, tx_backward, rx_backward } }
end

function Tensor:multiply(other)
  local L = ledger_of(self)
  handle(L, Tensor, other)
  if self.scattered ~= 0 or other.scattered ~= 0 then
    fail("%s: cannot multiply a scattered tensor; broadcast it first", L.part)
  end
  local set = self.set | other.set
  local result = new_tensor(L, nil, set, 0)
  local flop = product(L.all_dimensions, set, "whole") * copies(L, result)
  return record(L, "multiply", { self, other }, result, { flop, 0.0, 0.0, 4 * flop, 0.0, 0.0 })
end
Tensor.__mul = Tensor.multiply

--- Fraction of steps in which the data stays on its rank when it moves along a dimension's axis.
local function staying(d)
  if not d.axis.rotational then return 1 / d.axis.ranks end
  return 1 - (d.axis.ranks - 1) / d.virtual
end

--- Splits a broadcast's traffic among its axes. Of the K - 1 copies, the first axis causes (K1 - 1), the next K1 (K2 -
--- 1), and so on. Of the crossings 1 - s1 s2, the first causes 1 - s1, the next s1 (1 - s2).
local function broadcast_shares(scattered, rotated, each, units, sent)
  local shares, brought, stay, none = {}, 1.0, 1.0, x.eq(units, 0)
  local function add_share(axis, part)
    local received = each * part
    shares[#shares + 1] = share(axis, sent * x.select(none, 0, part / units), received, received, received)
  end
  for _, axis in ipairs(scattered) do
    add_share(axis, brought * (axis.ranks - 1))
    brought = brought * axis.ranks
  end
  for _, d in ipairs(rotated) do
    local s = staying(d)
    add_share(d.axis, stay * (1 - s))
    stay = stay * s
  end
  return shares
end

--- Gathers the scattered axes; options.rotate: dimensions along whose axes the data moves.
function Tensor:broadcast(options)
  local L = ledger_of(self)
  local rotate = set_of(L, Dimension, expect("table", options or {}, "broadcast").rotate)
  if rotate & ~self.set ~= 0 then fail("%s: can rotate only along dimensions of the tensor", L.part) end
  local result = new_tensor(L, self.name, self.set, 0)
  local rotated, stay = {}, 1.0
  for _, d in ipairs(members(L.all_dimensions, rotate)) do
    if d.axis then rotated[#rotated + 1], stay = d, stay * staying(d) end
  end
  local nu, size = 1 - stay, product(L.all_dimensions, self.set, "whole")
  local scattered = product(L.all_axes, self.scattered, "ranks")
  local each, units = size * copies(L, self), scattered + nu - 1
  local received = each * units
  local sent = size * x.max(x.lt(1, scattered), nu)
  return record(L, "broadcast", { self }, result, { 0.0, sent, received, received, received, received },
    { shares = broadcast_shares(members(L.all_axes, self.scattered), rotated, each, units, sent) })
end

--- The sum over a dimension. options.from, options.to: two dimensions of equal size, `to` on the axis of the reduced
--- dimension. After the sum, `to` replaces `from` at no cost.
function Tensor:reduce(reduced, options)
  local L = ledger_of(self)
  local d, axis = handle(L, Dimension, reduced), reduced.axis
  local from, to = expect("table", options or {}, "reduce").from, options and options.to
  if self.set & d.bit == 0 then fail("%s: the tensor has no dimension '%s'", L.part, d.name) end
  local kept, scattered = self.set & ~d.bit, self.scattered | (axis and axis.bit or 0)
  local set = kept
  if from or to then
    handle(L, Dimension, from)
    handle(L, Dimension, to)
    if kept & from.bit == 0 or kept & to.bit ~= 0 or not to.axis or to.axis ~= axis then
      fail("%s: cannot transpose '%s' to '%s' while reducing '%s': the first must be in the tensor, the second not, "
        .. "and on the reduced axis", L.part, from.name, to.name, d.name)
    end
    L:check("equal", from.name, from.whole, to.name, to.whole)
    set = kept & ~from.bit | to.bit
    scattered = scattered & ~to.axis.bit | (from.axis and from.axis.bit or 0)
  end
  local result = new_tensor(L, nil, set, scattered)
  local degree = axis and axis.ranks or 1.0
  local each = product(L.all_dimensions, kept, "whole") * copies(L, self)
  local words, back = each * (degree - 1), each * x.lt(1, degree)
  return record(L, "reduce", { self }, result, { each * (d.whole - 1), words, words, 0.0, back, words },
    { reduced = d, shares = { axis and share(axis, words, words, back, words) } })
end

--- The sum over a dimension, on all ranks.
function Tensor:all_reduce(reduced, options) return self:reduce(reduced):broadcast(options) end

--- Renames `from` to a dimension of equal size without an axis, and scatters the axis of `from`. No cost.
function Tensor:scatter_transpose(from, to)
  local L = ledger_of(self)
  handle(L, Dimension, from)
  handle(L, Dimension, to)
  if self.set & from.bit == 0 or self.set & to.bit ~= 0 or to.axis then
    fail("%s: cannot scatter '%s' to '%s': the first must be in the tensor, the second not, and without an axis",
      L.part, from.name, to.name)
  end
  L:check("equal", from.name, from.whole, to.name, to.whole)
  return new_tensor(L, nil, self.set & ~from.bit | to.bit, self.scattered | (from.axis and from.axis.bit or 0))
end

--- Concatenates two unscattered tensors. They differ in one dimension each, both on the same axis. No cost.
---@return table tensor, table joint dimension
local function concatenate(L, a, b)
  local only_a, only_b = members(L.all_dimensions, a.set & ~b.set), members(L.all_dimensions, b.set & ~a.set)
  if a.scattered ~= 0 or b.scattered ~= 0 or #only_a ~= 1 or #only_b ~= 1 then
    fail("%s: can join only unscattered tensors that differ in one dimension each", L.part)
  end
  local p, q = only_a[1], only_b[1]
  if p.axis ~= q.axis or p.axis and p.axis.rotational then
    fail("%s: '%s' and '%s' must be on the same axis to be joined", L.part, p.name, q.name)
  end
  local name, size = p.name .. "+" .. q.name, p.whole + q.whole
  local joint = L.by_name.dimension[name]
  if not joint then
    joint = L:dimension(name, size, { axis = p.axis, autoreduce = true })
  elseif joint.whole ~= size or joint.axis ~= p.axis then
    fail("%s: the joint dimension '%s' exists already with another size or axis", L.part, name)
  end
  return new_tensor(L, nil, a.set & b.set | joint.bit, 0), joint
end

--- The sum of both tensors over the one dimension that differs.
function Tensor:reduce_with(other)
  local L = ledger_of(self)
  local both, joint = concatenate(L, self, handle(L, Tensor, other))
  return both:reduce(joint)
end

--- The product, then an all-reduce over each autoreduce dimension of both, those without an axis first.
function Tensor:dot(other)
  local result = self:multiply(other)
  local common = members(self.ledger.all_dimensions, self.set & other.set)
  for _, on_axis in ipairs { false, true } do
    for _, d in ipairs(common) do
      if d.autoreduce and (d.axis ~= nil) == on_axis then result = result:all_reduce(d) end
    end
  end
  return result
end

--- Adds the counts of a meter to the enclosing one. Runs also if the meter's function raised an error.
local function close_meter(meter)
  local outer = meter.outer
  for i, value in ipairs(meter.counts) do outer.counts[i] = outer.counts[i] + value * meter.multiplier end
  meter.ledger.open = outer
end

--- Records the operations of fn, times multiplier. Returns the values of fn.
function Ledger:meter(name, multiplier, fn)
  multiplier = expression.operand(self.graph, multiplier)
  expect("function", fn, "meter")
  local meter <close> = setmetatable({ ledger = self, name = expect("string", name, "meter"), outer = self.open,
    multiplier = multiplier, factor = self.open.factor * multiplier, counts = {} }, { __close = close_meter })
  for i in ipairs(counts) do meter.counts[i] = 0.0 end
  self.open = meter
  return fn()
end

local function set_counts(row, values, factor)
  for i, name in ipairs(counts) do if values[i] then row[name] = values[i] * factor end end
  return row
end

--- Current sums, by count.
function Ledger:totals() return set_counts({}, self.whole.counts, 1.0) end

--- The rules: { relation, subject, left, object, right, stage, ok }, in order.
function Ledger:checks()
  local list = {}
  for i, rule in ipairs(self.rules) do list[i] = merged(rule) end
  return list
end

--- { name, degree } of the axes, in order of creation.
function Ledger:axes()
  local list = {}
  for i, axis in ipairs(self.all_axes) do list[i] = { name = axis.name, degree = axis.ranks } end
  return list
end

--- P, the number of ranks.
function Ledger:clusters() return product(self.all_axes, all(self.all_axes), "ranks") end

--- Words of memory that a rank accesses in one forward run of an entry. A product reads its inputs and is not stored. A
--- sum or copy writes its result, unless only another sum or copy reads it (both form one kernel).
local function touched(entry)
  local left, right, result = entry.operands[1], entry.operands[2], entry.result
  if entry.operation == "multiply" then return left:local_elements() + right:local_elements() end
  return result.passed_on and not result.multiplied and 0.0 or result:local_elements()
end

--- The cost of each operation, with multipliers applied, and its traffic by axis. `tensors` names the operands; `left`,
--- `right` and `result` list their dimensions.
function Ledger:entries()
  local list = {}
  for i, entry in ipairs(self.records) do
    local factor, left, right = entry.meter.factor, entry.operands[1], entry.operands[2]
    local row = set_counts({ operation = entry.operation, label = entry.label, meter = entry.meter.name,
      factor = factor, dimension = entry.reduced and entry.reduced.name, left = left:dimensions(),
      right = right and right:dimensions(), result = entry.result:dimensions(),
      tensors = { left.name, right and right.name }, rank_words = touched(entry) * factor, axes = {} },
      entry.counts, factor)
    for k, part in ipairs(entry.shares) do
      row.axes[k] = set_counts({ axis = part.axis.name, degree = part.axis.ranks }, part.counts, factor)
    end
    list[i] = row
  end
  return list
end

return ledger
