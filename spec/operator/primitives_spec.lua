--- ett.primitives: the arguments of an operator's kernel() are checked before a back end records them.
local primitives = require "ett.operator.primitives"

local recorded
local function k()
  recorded = {}
  local raw = { backend = "cpu", dtype = "fp32" }
  for _, name in ipairs { "tensor", "gemm", "attention", "kernel" } do
    raw[name] = function(given)
      recorded[#recorded + 1] = name
      return name == "tensor" and { row = given.wide } or nil
    end
  end
  return primitives.checked({ name = "own" }, raw)
end

describe("ett.primitives", function()
  it("passes valid calls on, also those of a graph", function()
    local p = k()
    assert.same({ "cpu", "fp32" }, { p.backend, p.dtype })
    p.graph(function(g)
      local a, b, c = g.tensor { 2, 3, 4 }, g.tensor { 2, 4, 5, fill = "uniform" }, g.tensor { 2, 3, 5, dtype = "fp32" }
      g.gemm { a = a, b = b, c = c, m = 3, n = 5, k = 4, batch = 2, trans_b = true, accumulate = false, wide = true }
      g.kernel { name = "f", source = "", grid = { 1, 2 }, block = 32, shared = 0, args = { a, 3, 2.5 },
        cpu = { kind = "scale", rows = 1, cols = 1 }, doubles = function() end }
      g.attention { q = a, k = b, v = b, out = c, batch = 1, heads = 1, seq_q = 2, seq_k = 2, head_dim = 2,
        causal = true }
    end)
    assert.equal("tensor tensor tensor gemm kernel attention", table.concat(recorded, " "))
  end)

  it("names the wrong field and its primitive", function()
    local cases = {
      { "unknown field 'trans_B'; did you mean 'trans_b'?",
        function(p, t) p.gemm { a = t, b = t, c = t, m = 2, n = 2, k = 2, trans_B = true } end },
      { "missing field 'k' (a positive integer)", function(p, t) p.gemm { a = t, b = t, c = t, m = 2, n = 2 } end },
      { "missing field 'b' (a table)", function(p, t) p.gemm { a = t, c = t, m = 2, n = 2, k = 2 } end },
      { "k.gemm: 'c' must have at least 9 elements, got a tensor of 4",
        function(p, t) p.gemm { a = p.tensor { 9 }, b = p.tensor { 9 }, c = t, m = 3, n = 3, k = 3 } end },
      { "'a' must have at least 8 elements",
        function(p, t) p.gemm { a = t, b = p.tensor { 8 }, c = p.tensor { 8 }, m = 2, n = 2, k = 2, batch = 2 } end },
      { "'a' must be a tensor of k.tensor", function(p, t) p.gemm { a = {}, b = t, c = t, m = 1, n = 1, k = 1 } end },
      { "k.tensor: dimension 2 must be a positive integer, got 0", function(p) p.tensor { 2, 0 } end },
      { "k.tensor: dimension 1 must be a positive integer, got 1.5", function(p) p.tensor { 1.5 } end },
      { "k.tensor: dimension 1 must be a positive integer, got '8'", function(p) p.tensor { "8" } end },
      { "k.tensor: give its dimensions", function(p) p.tensor { dtype = "fp32" } end },
      { "k.tensor: must be a table of named fields, got 3", function(p) p.tensor(3) end },
      { "field 'dtype' must be one of fp16, bf16, fp32, fp8, int64, got 'int8'",
        function(p) p.tensor { 2, dtype = "int8" } end },
      { "field 'fill' must be one of normal, uniform, zero, index, got 'random'",
        function(p) p.tensor { 2, fill = "random" } end },
      { "an index needs 'high'", function(p) p.tensor { 2, fill = "index" } end },
      { "unknown field 'arg'; did you mean 'args'?",
        function(p) p.kernel { name = "f", grid = 1, block = 1, arg = {} } end },
      { "'grid' of 'f' must be a positive integer or a list of up to three, got 0",
        function(p) p.kernel { name = "f", grid = 0, block = 1, args = {} } end },
      { "'block' of 'f' must be a positive integer",
        function(p) p.kernel { name = "f", grid = 1, block = { 1, 1, 1, 1 }, args = {} } end },
      { "argument 2 of 'f' must be a tensor of k.tensor or a number, got nil",
        function(p, t) p.kernel { name = "f", grid = 1, block = 1, args = { t, nil, 3 } } end },
      { "argument 1 of 'f' must be a tensor of k.tensor or a number, got 'x'",
        function(p) p.kernel { name = "f", grid = 1, block = 1, args = { "x" } } end },
      { "missing field 'head_dim'", function(p, t)
        p.attention { q = t, k = t, v = t, out = t, batch = 1, heads = 1, seq_q = 2, seq_k = 2 } end },
      { "k.graph: give a function, got 1", function(p) p.graph(1) end },
      { "k has no primitive 'gem'; did you mean 'gemm'?", function(p) p.gem {} end },
    }
    for _, case in ipairs(cases) do
      local p = k()
      local t = p.tensor { 2, 2 }
      local ok, err = pcall(case[2], p, t)
      assert.is_false(ok, case[1])
      assert.equal("model", err.kind, case[1])
      assert.matches(case[1], err.message, 1, true)
      assert.matches("^operator 'own': ", err.message)
      for i, name in ipairs(recorded) do assert(name == "tensor", ("%d: %s was recorded"):format(i, name)) end
    end
  end)
end)
