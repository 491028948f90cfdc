--- Laws of the ledger, and its counts against closed forms written independently.
local ledger = require "ett.ledger"
local raised = require "raised"
local transformer = require "ett.ledger.transformer"

local counts = { "flop_forward", "tx_forward", "rx_forward", "flop_backward", "tx_backward", "rx_backward" }

--- A seeded function f(n) of random integers from 1 to n.
local function generator(seed)
  local integer = require("random").integers(seed)
  return function(n) return integer(n) + 1 end
end

local function near(expected, got, what)
  local scale = math.max(math.abs(expected), math.abs(got))
  assert.is_true(scale == 0 or math.abs(expected - got) <= 1e-12 * scale,
    ("%s: wanted %.17g, got %.17g"):format(what, expected, got))
end

--- A random run that breaks no rule, as parameters and switches.
local function random_run(pick)
  local function power(n) return 2.0 ^ (pick(n) - 1) end
  local m = { p_data = power(4), p_pipe = power(4), p_exp = power(3), p_seq = power(3), p_tensor_int = power(4),
    p_tensor_ext = power(3) }
  m.num_experts = m.p_exp * power(3)
  m.num_layers = m.p_pipe * pick(5)
  m.d_model = 512.0 * m.p_tensor_ext * pick(4)
  m.d_head = 64.0 * m.p_seq * m.p_exp
  m.num_heads = m.p_tensor_int * pick(6)
  m.d_ffn = 1024.0 * m.p_tensor_int * m.p_tensor_ext * pick(3)
  m.seq_len = m.num_experts * m.p_seq * m.p_tensor_ext * m.p_tensor_int * 16 * pick(4)
  m.batch_size = m.p_data * 8 * pick(8)
  m.dataset_size = m.batch_size * m.seq_len * (pick(50) + 0.3)
  m.use_glu, m.no_multi_query_attn, m.consecutive_attn_and_ffn = pick(2) == 1, pick(2) == 1, pick(2) == 1
  return m
end

--- The six counts by the formulas of the model, written out with no ledger.
local function closed_form(m)
  local total = { 0, 0, 0, 0, 0, 0 }
  local b, l, e, d, f, h, c = m.batch_size, m.seq_len, m.num_experts, m.d_model, m.d_ffn, m.num_heads, m.d_head
  local L, t, x, i, pp = m.num_layers, m.seq_len / m.num_experts, m.p_tensor_ext, m.p_tensor_int, m.p_pipe
  local factor
  local function add(...)
    for k, value in ipairs { ... } do total[k] = total[k] + factor * value end
  end
  local function mul(s) add(s, 0, 0, 4 * s, 0, 0) end
  local function red(I, J, K) add(I * (J - 1), I * (K - 1), I * (K - 1), 0, K > 1 and I or 0, I * (K - 1)) end
  local function bc(I, J, K, nu)
    nu = nu or 0
    local r = I * J * (K + nu - 1)
    add(0, I * math.max(K > 1 and 1 or 0, nu), r, r, r, r)
  end
  local batches = m.dataset_size / (b * l)
  batches = math.floor(batches + 0.5)
  factor = batches * L / pp
  local scatter = m.p_data * m.p_seq
  bc(pp * e * d * h * c, 1, scatter)
  bc(pp * e * d * h * c, 1, scatter)
  for _ = 1, 2 do
    if m.no_multi_query_attn then bc(pp * e * d * h * c, 1, scatter) else bc(pp * e * d * c, 1, scatter * i) end
  end
  for _ = 1, m.use_glu and 3 or 2 do bc(pp * e * d * f, 1, scatter) end
  factor = batches * b * l * (L / pp) / (m.p_data * l)
  local X = pp * e * m.p_data * t
  local A = X * h * e * t
  mul(X * d * h * c) red(X * h * c, d, x) bc(X * h * c, 1, x)
  local H, g = 1, i
  if m.no_multi_query_attn then H, g = h, 1 end
  for _ = 1, 2 do mul(X * d * H * c * g) red(X * H * c * g, d, x) bc(X * H * c, g, m.p_seq * m.p_exp) end
  mul(A * c) red(A, c, 1)
  red(X * h * t, e, 1) red(X * h, t, x) bc(X * h, 1, x) mul(A)
  mul(A * c) red(X * h * c * t, e, 1) red(X * h * c, t, x) bc(X * h * c, 1, x)
  mul(X * d * h * c) red(X * d * h, c, 1)
  if m.consecutive_attn_and_ffn then red(X * d, h, i) bc(X * d, 1, i) end
  for _ = 1, m.use_glu and 2 or 1 do mul(X * d * f) red(X * f, d, x) bc(X * f, 1, x) end
  if m.use_glu then mul(X * f * x) end
  mul(X * d * f)
  red(X * d, m.consecutive_attn_and_ffn and f or h + f, i)
  bc(X * d, 1, i, 1 - (1 - (pp - 1) / L) / m.p_exp)
  return total
end

local function describe_run(m)
  local L = ledger.new()
  transformer.describe(L, m)
  return L
end

describe("a ledger", function()
  it("equals independent closed forms on 100 random runs", function()
    local pick = generator(1)
    for case = 1, 100 do
      local m = random_run(pick)
      local L = describe_run(m)
      for _, check in ipairs(L:checks()) do assert.equal(1.0, check.ok, check.subject) end
      local got, wanted = L:totals(), closed_form(m)
      for k, name in ipairs(counts) do near(wanted[k], got[name], ("case %d %s"):format(case, name)) end
    end
  end)

  it("gives the same bits when compiled as when described directly", function()
    local pick = generator(2)
    local programs = {}
    for _ = 1, 50 do
      local m = random_run(pick)
      local key = ("%s%s%s"):format(m.use_glu, m.no_multi_query_attn, m.consecutive_attn_and_ffn)
      programs[key] = programs[key] or transformer.compile(m)
      local values = {}
      for name in pairs(transformer.parameters) do values[name] = m[name] end
      local compiled = programs[key]:evaluate(values)
      local lists = {}
      for name, value in pairs(values) do lists[name] = { value, value, value } end
      local columns = programs[key]:columns(lists, 3)
      local direct = transformer.costs(describe_run(m), m)
      for name, cost in pairs(direct) do
        for pass, value in pairs(cost) do
          local output = name:lower() .. "_" .. pass
          assert.equal(value, compiled[output])
          assert.equal(value, columns[output][1])
          assert.equal(value, columns[output][3])
        end
      end
      assert.equal(1.0, compiled.feasible)
    end
    local _, program = next(programs)
    local name = next(transformer.parameters)
    assert.matches("must have 3 values, got 1", raised(program.columns, program, { [name] = { 1 } }, 3))
  end)

  it("has no traffic when all degrees are 1", function()
    local pick = generator(3)
    for _ = 1, 20 do
      local m = random_run(pick)
      for name in pairs(m) do if name:match("^p_") then m[name] = 1.0 end end
      local got = describe_run(m):totals()
      assert.is_true(got.flop_forward > 0)
      for _, name in ipairs { "tx_forward", "rx_forward", "tx_backward", "rx_backward" } do
        assert.equal(0.0, got[name])
      end
    end
  end)

  it("receives as much in the backward of a broadcast as in its forward", function()
    local pick = generator(4)
    local seen = 0
    for _ = 1, 20 do
      for _, entry in ipairs(describe_run(random_run(pick)):entries()) do
        if entry.operation == "broadcast" then
          seen = seen + 1
          assert.equal(entry.rx_forward, entry.rx_backward)
        end
      end
    end
    assert.is_true(seen > 200)
  end)

  it("doubles every count when every batch doubles", function()
    local pick = generator(5)
    for _ = 1, 20 do
      local m = random_run(pick)
      local L = ledger.new()
      local tokens_before
      transformer.describe(L, m)
      local before = L:totals()
      tokens_before = m.batch_size
      m.batch_size, m.dataset_size = tokens_before * 2, m.dataset_size * 2
      local twice, weights, weights_before = describe_run(m), 0, 0
      for _, entry in ipairs(twice:entries()) do
        if entry.meter == "weights" then weights = weights + entry.rx_forward end
      end
      for _, entry in ipairs(L:entries()) do
        if entry.meter == "weights" then weights_before = weights_before + entry.rx_forward end
      end
      near(weights_before, weights, "weights move once a batch") -- the number of batches is the same
      near(2 * (before.rx_forward - weights_before), twice:totals().rx_forward - weights, "tokens' traffic")
      -- Twice as many batches double everything.
      m.batch_size, m.dataset_size = tokens_before, m.dataset_size
      m.dataset_size = 2 * (ledger.round(m.dataset_size / 2 / (m.batch_size * m.seq_len)) * m.batch_size * m.seq_len)
      local more = describe_run(m):totals()
      for _, name in ipairs(counts) do near(2 * before[name], more[name], name) end
    end
  end)

  it("attributes all traffic of an entry to axes of degree above 1", function()
    local pick = generator(6)
    for _ = 1, 20 do
      for _, entry in ipairs(describe_run(random_run(pick)):entries()) do
        local sums = { tx_forward = 0, rx_forward = 0, tx_backward = 0, rx_backward = 0 }
        for _, part in ipairs(entry.axes) do
          for name in pairs(sums) do sums[name] = sums[name] + part[name] end
          if part.degree == 1 then assert.equal(0.0, part.rx_forward) end
        end
        if entry.operation == "broadcast" then sums.tx_backward = entry.tx_backward end
        for name, sum in pairs(sums) do
          assert.is_true(math.abs(sum - entry[name]) <= 1e-9 * math.abs(entry[name]), entry.label .. " " .. name)
        end
      end
    end
  end)

  --- A small layer on axes made in a given order.
  local function small(order, degrees)
    local L = ledger.new()
    local axes = {}
    for _, name in ipairs(order) do axes[name] = L:axis(name, degrees[name]) end
    local sample = L:dimension("sample", 64, { axis = axes.data })
    local width = L:dimension("width", 256, { axis = axes.tensor, autoreduce = true })
    local inner = L:dimension("inner", 512, { axis = axes.inner, autoreduce = true })
    local weight = L:tensor("w", { width, inner }, { scattered = { axes.data } }):broadcast()
    L:tensor("x", { sample, width }):dot(weight):multiply(weight):all_reduce(inner)
    return L
  end

  it("does not change when axes are made in another order", function()
    local degrees = { data = 4, tensor = 8, inner = 2 }
    local first = small({ "data", "tensor", "inner" }, degrees):totals()
    local orders = { { "inner", "tensor", "data" }, { "tensor", "data", "inner" }, { "data", "inner", "tensor" } }
    for _, order in ipairs(orders) do assert.same(first, small(order, degrees):totals()) end
  end)

  it("remembers operation, tensors and axis of every entry", function()
    local wanted = { ["ffn in multiply"] = "x * W_in", ["scores multiply"] = "q projection * k projection",
      ["W_k broadcast"] = "W_k", ["ffn out multiply"] = "ffn in * W_out", ["residual sum broadcast"] = "residual sum" }
    local m, seen = random_run(generator(8)), 0
    m.use_glu, m.consecutive_attn_and_ffn = false, false
    for _, e in ipairs(describe_run(m):entries()) do
      local key = e.label .. " " .. e.operation
      assert.equal(e.right and 2 or 1, #e.tensors)
      if wanted[key] then
        seen = seen + 1
        assert.equal(wanted[key], table.concat(e.tensors, " * "))
      end
    end
    assert.equal(5, seen)
  end)

  it("closes a meter whose function raises, and keeps its counts", function()
    local L = ledger.new()
    local d = L:dimension("d", 8)
    local x = L:tensor("x", { d })
    local ok, why = pcall(L.meter, L, "outer", 3, function()
      x:multiply(x)
      L:meter("inner", 5, function()
        x:multiply(x)
        error({ said = "enough" })
      end)
    end)
    assert.is_false(ok)
    assert.equal("enough", why.said)
    assert.equal(3 * 8.0 + 15 * 8.0, L:totals().flop_forward)
    local one, two = L:meter("again", 2, function()
      x:multiply(x)
      return "a", "b"
    end)
    assert.same({ "a", "b" }, { one, two })
    assert.equal(160.0, L:totals().flop_forward)
    assert.equal("again", L:entries()[3].meter)
    assert.equal(2.0, L:entries()[3].factor)
  end)

  it("folds numbers and shares equal expressions", function()
    local L <close> = ledger.new() -- scripts may close it
    local x = L:parameter("x", 3)
    assert.equal(x, L:parameter("x", 3))
    assert.has_error(function() L:parameter("x", 4) end, "parameter 'x' has the value 3, cannot also be 4")
    assert.equal(x + 2, x + 2.0)
    assert.equal(5.0, ledger.value(x + 2))
    for _, same in ipairs { x * 1, 1 * x, x / 1, x + 0, 0 + x, x - 0, ledger.min(x, x) } do assert.equal(x, same) end
    assert.equal(1024.0, ledger.pow(2, 10))
    assert.equal(-3.0, ledger.value(-x))
    assert.has_error(function() return x < 1 end)
    assert.has_error(function() return x + {} end, "expected a number or an expression, got table")
  end)

  it("costs as the rules of the operations define", function()
    local L = ledger.new()
    local data, tensor = L:axis("data", 4), L:axis("tensor", 8)
    local sample = L:dimension("sample", 100, { axis = data })
    local width = L:dimension("width", 16, { axis = tensor, autoreduce = true })
    local inner = L:dimension("inner", 3)
    local x, w = L:tensor("x", { sample, width }), L:tensor("w", { width, inner }, { scattered = { data } })
    assert.has_error(function() return x * w end, ": cannot multiply a scattered tensor; broadcast it first")
    local sum = (x * w:broadcast()):reduce(width) -- I = 48, J = 1, K = 4; 100 x 16 x 3; I = 300, J = 16, K = 8
    local wanted = { { 0, 48, 144, 144, 144, 144 }, { 4800, 0, 0, 19200, 0, 0 }, { 4500, 2100, 2100, 0, 300, 2100 } }
    for i, entry in ipairs(L:entries()) do
      for k, name in ipairs(counts) do assert.equal(wanted[i][k], entry[name]) end
    end
    assert.equal(75 / 8, sum:local_elements()) -- not whole: recorded, not fatal
    local checks = L:checks()
    assert.same({ "divides", 0.0 }, { checks[#checks].relation, checks[#checks].ok })
    assert.has_error(function() return sum:reduce(width) end)
    for i = 4, 64 do L:dimension("d" .. i, 2) end
    assert.has_error(function() L:dimension("d65", 2) end,
      "dimension 'd65': a ledger holds at most 64 dimensions")
  end)

  it("keeps many ledgers apart", function()
    local a, b = ledger.new(), ledger.new()
    local axis = a:axis("data", 2)
    assert.has_error(function() b:dimension("sample", 4, { axis = axis }) end)
    local x = a:parameter("x", 3)
    assert.has_error(function() b:axis("data", x) end)
    assert.has_error(function() return x + b:parameter("y", 2) end)
    assert.equal(2, b:axis("data", 2):degree())
  end)
end)

describe("violations", function()
  local violations = require "ett.ledger.violations"

  it("are reported together, with names, limit and nearest valid values", function()
    local L = ledger.new()
    local data = L:axis("DATA", 5)
    L:axis("TENSOR", 0)
    local sample = L:dimension("SAMPLE", 96, { axis = data })
    local other = L:dimension("OTHER", 10, { axis = data })
    L:tensor("x", { sample, other })
    for _ = 1, 2 do L:check("at_most", "p_tensor", 8, "d_ffn / 1024", 3.5) end -- reported once
    local texts = {}
    for i, violation in ipairs(violations.list(L)) do texts[i] = violation.text end
    assert.same({
      "TENSOR must be at least 1, got 0",
      "SAMPLE = 96 must be divisible by DATA = 5; nearest passing: 4 or 6",
      "OTHER and SAMPLE of one tensor are on the same axis",
      "p_tensor = 8 must be at most d_ffn / 1024 = 3.5; greatest passing: 3",
    }, texts)
  end)

  it("refuses impossible descriptions", function()
    local L = ledger.new()
    local data = L:axis("DATA", 2)
    local pipe = L:axis("PIPE", 2, { rotational = true })
    assert.has_error(function() L:axis("DATA", 4) end, "axis 'DATA' exists already")
    L:label "here"
    local a, b, c = L:dimension("A", 4, { axis = data }), L:dimension("B", 4), L:dimension("C", 4)
    local joint = L:dimension("B+C", 9)
    local scattered = L:tensor("s", { b }, { scattered = { data } })
    local plain = L:tensor("p", { b })
    for message, refused in pairs {
      ["axis 'X': axes must be made before the first tensor"] = function() L:axis("X", 2) end,
      ["dimension 'LAYER' is on the rotational axis 'PIPE' and needs a virtual size"] =
        function() L:dimension("LAYER", 2, { axis = pipe }) end,
      ["check: a relation is divides, at_most, at_least, equal or disjoint, got 'less'"] =
        function() L:check("less", "a", 1, "b", 2) end,
      ["here: cannot multiply a scattered tensor; broadcast it first"] = function() scattered:multiply(plain) end,
      ["here: can rotate only along dimensions of the tensor"] = function() plain:broadcast { rotate = { a } } end,
      ["here: the tensor has no dimension 'A'"] = function() plain:reduce(a) end,
      ["here: cannot transpose 'A' to 'A' while reducing 'B': the first must be in the tensor, the second not, and on "
        .. "the reduced axis"] = function() plain:reduce(b, { from = a, to = a }) end,
      ["here: cannot scatter 'A' to 'C': the first must be in the tensor, the second not, and without an axis"] =
        function() plain:scatter_transpose(a, c) end,
      ["here: can join only unscattered tensors that differ in one dimension each"] =
        function() plain:reduce_with(plain) end,
      ["here: 'B' and 'A' must be on the same axis to be joined"] =
        function() plain:reduce_with(L:tensor("a", { a })) end,
      ["here: the joint dimension 'B+C' exists already with another size or axis"] =
        function() plain:reduce_with(L:tensor("c", { c })) end,
    } do
      assert.equal(message, raised(refused))
    end
    assert.equal(9, joint:size())
    assert.has_error(function() return L:tensor("q", { 3 }) end)
    assert.matches("expected a handle of kind axis, got number", raised(L.dimension, L, "D", 4, { axis = 3 }))
  end)
end)
