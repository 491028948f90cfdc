--- Checks the arguments that an operator's kernel() passes to the primitives of `k` (samplers/README.md).
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local primitives = {}

local dtypes, fills = { "fp16", "bf16", "fp32", "fp8", "int64" }, { "normal", "uniform", "zero", "index" }

local fields = {
  tensor = { dtype = { "string", optional = true, one_of = dtypes },
    fill = { "string", optional = true, one_of = fills }, high = "count?" },
  gemm = { a = "table", b = "table", c = "table", m = "count", n = "count", k = "count", batch = "count?",
    trans_a = "boolean?", trans_b = "boolean?", accumulate = "boolean?", wide = "boolean?" },
  attention = { q = "table", k = "table", v = "table", out = "table", stats = "table?", dout = "table?", dq = "table?",
    dk = "table?", dv = "table?", batch = "count", heads = "count", kv_heads = "count?", seq_q = "count",
    seq_k = "count", head_dim = "count", causal = "any?", window = "count?",
    pass = { "string", optional = true, one_of = { "forward", "backward" } } },
  kernel = { name = "string", source = "string?", label = "string?", grid = "any", block = "any", shared = "natural?",
    args = "table", cpu = "table?", doubles = "function?" },
}

local function raise(op, name, format, ...)
  error_module.raise("model", "operator '%s': k.%s: " .. format, tostring(op.name), name, ...)
end

local function check(op, name, given)
  local found = schema.violations(given, fields[name])
  if #found > 0 then raise(op, name, "%s", table.concat(found, "; ")) end
end

--- Number of elements of a k.tensor argument.
local function count_of(op, given)
  local count, named = 1, {}
  if type(given) ~= "table" then check(op, "tensor", given) end
  for key, value in pairs(given) do if math.type(key) ~= "integer" then named[key] = value end end
  check(op, "tensor", named)
  if #given == 0 then raise(op, "tensor", "give its dimensions: k.tensor { rows, columns }") end
  for i, size in ipairs(given) do
    if not math.type(size) or not math.tointeger(size) or size < 1 then
      raise(op, "tensor", "dimension %d must be a positive integer, got %s", i, schema.describe(size))
    end
    count = count * size
  end
  if given.fill == "index" and not given.high then
    raise(op, "tensor", "an index needs 'high': its values are 0 to high - 1")
  end
  return count
end

local function check_sizes(op, launch, what)
  local sizes = type(launch[what]) == "table" and launch[what] or { launch[what] }
  local right = #sizes >= 1 and #sizes <= 3
  for _, size in ipairs(sizes) do right = right and math.type(size) and math.tointeger(size) and size >= 1 end
  if not right then
    raise(op, "kernel", "'%s' of '%s' must be a positive integer or a list of up to three, got %s", what, launch.name,
      schema.describe(launch[what]))
  end
end

--- The primitives of a back end, with checked arguments. An unknown primitive raises an error.
---@param op table operator, for messages
---@param k table backend, dtype, tensor, gemm, attention, kernel
function primitives.checked(op, k)
  local elements = setmetatable({}, { __mode = "k" }) -- tensor -> its number of elements
  local checked = { backend = k.backend, dtype = k.dtype }

  function checked.tensor(given)
    local count = count_of(op, given)
    local tensor = k.tensor(given)
    elements[tensor] = count
    return tensor
  end

  local function holds(name, given, field, count)
    local have = elements[given[field]]
    if not have then raise(op, name, "'%s' must be a tensor of k.tensor, got another table", field) end
    if have < count then
      raise(op, name, "'%s' must have at least %d elements, got a tensor of %d", field, count, have)
    end
  end

  function checked.gemm(given)
    check(op, "gemm", given)
    local batch = given.batch or 1
    holds("gemm", given, "a", batch * given.m * given.k)
    holds("gemm", given, "b", batch * given.k * given.n)
    holds("gemm", given, "c", batch * given.m * given.n)
    return k.gemm(given)
  end

  function checked.attention(given)
    check(op, "attention", given)
    for _, field in ipairs { "q", "k", "v", "out", "stats", "dout", "dq", "dk", "dv" } do
      if given[field] then holds("attention", given, field, 1) end
    end
    return k.attention(given)
  end

  function checked.kernel(given)
    check(op, "kernel", given)
    check_sizes(op, given, "grid")
    check_sizes(op, given, "block")
    local last = 0
    for key in pairs(given.args) do last = math.max(last, math.type(key) == "integer" and key or 0) end
    for i = 1, last do
      local arg = given.args[i]
      if type(arg) ~= "number" and not elements[arg] then
        raise(op, "kernel", "argument %d of '%s' must be a tensor of k.tensor or a number, got %s", i, given.name,
          schema.describe(arg))
      end
    end
    return k.kernel(given)
  end

  function checked.graph(fn)
    if type(fn) ~= "function" then raise(op, "graph", "give a function, got %s", schema.describe(fn)) end
    return fn(checked)
  end

  return setmetatable(checked, { __index = function(_, name)
    error_module.raise("model", "operator '%s': k has no primitive '%s'%s", tostring(op.name), tostring(name),
      error_module.suggestion(tostring(name), schema.keys(checked)))
  end })
end

return primitives
