--- The CPU kernels against plain double-precision Lua and against finite differences.
if not require("needs").cpu("the CPU kernels", _ENV) then return end
local find = require "ett.base.find"
local backend, outputs = find.load("samplers", "cpu"), find.part("samplers/cpu", "check")
local check = require "ett.sampling.check"
local cpu = require "ett.cpu"
local merged = require "ett.base.merged"
local sample = require "ett.sample"

--- Tensors for every operand of a call, inputs random, plus a table by name.
local function operands(kind, pass, d, seed)
  local list, named = {}, {}
  for i, o in ipairs(cpu.operands(kind, pass, d)) do
    local t = sample.tensor(o.count)
    if o.role == "i" then t:normal(seed + i, 1) end
    if o.role == "p" then for k = 1, o.count do t:set(k, 0.5 + (k * 37 % 100) / 100) end end
    if o.role == "x" then
      local index = {}
      for k = 1, o.count do index[k] = (k * 7 + seed) % o.limit end
      t:integers(index)
    end
    list[i], named[o.name] = t, t
  end
  return list, named
end

local function values(t)
  local out = {}
  for i = 1, #t do out[i] = t:get(i) end
  return out
end

local function near(expected, tensor, tolerance, what)
  for i = 1, #expected do
    local got = tensor:get(i)
    local error_ = math.abs(got - expected[i]) / (1 + math.abs(expected[i]))
    assert(error_ <= tolerance, ("%s[%d]: %.9g wanted, %.9g came"):format(what, i, expected[i], got))
  end
end

local shapes = {
  linear = { batch = 2, m = 5, n = 7, k = 9 },
  bmm = { batch = 3, m = 4, n = 5, k = 6 },
  attention = { batch = 2, seq_q = 5, seq_k = 5, heads = 4, kv_heads = 2, head_dim = 6, visible = 2 },
  layer_norm = { rows = 3, cols = 19 },
  rms_norm = { rows = 3, cols = 19 },
  softmax = { batch = 2, rows = 6, cols = 6, visible = 2 },
  cross_entropy = { rows = 4, vocab = 11 },
  embedding = { rows = 6, cols = 5, vocab = 9 },
  gelu = { rows = 3, cols = 21 },
  swiglu = { rows = 3, cols = 11 },
  add = { rows = 3, cols = 11 },
  mask_fill = { batch = 2, seq_q = 4, seq_k = 6 },
}

describe("the CPU kernels", function()
  for kind, d in pairs(shapes) do
    it(kind .. " equals the formulas in doubles", function()
      for _, pass in ipairs { "forward", kind ~= "add" and "backward" or nil } do
        for _, each in ipairs(assert(outputs { merged({ kind = kind, pass = pass }, d) })) do
          local error_, at = check.worst(each.want, each.got)
          assert(error_ <= 2e-5, ("%s[%d]: %.9g wanted, %.9g came"):format(each.name, at, each.want[at], each.got[at]))
        end
      end
    end)
  end

  for layout = 1, 8 do
    it("gemm of layout " .. layout .. " equals the formula in doubles", function()
      local d = { batch = 2, m = 3, n = 4, k = 5, layout = layout }
      local transposed_a, transposed_b = (layout - 1) % 4 >= 2, layout % 2 == 0
      local list, named = operands("gemm", "forward", d, 11)
      if layout > 4 then named.c:fill(0.5) end
      local a, b, c = values(named.a), values(named.b), {}
      for i = 0, d.batch - 1 do for row = 0, d.m - 1 do for col = 0, d.n - 1 do
        local sum = layout > 4 and 0.5 or 0
        for k = 0, d.k - 1 do
          local x = a[i * d.m * d.k + (transposed_a and k * d.m + row or row * d.k + k) + 1]
          local y = b[i * d.k * d.n + (transposed_b and col * d.k + k or k * d.n + col) + 1]
          sum = sum + x * y
        end
        c[(i * d.m + row) * d.n + col + 1] = sum
      end end end
      cpu.run("gemm", "forward", d, list)
      near(c, named.c, 2e-5, "c")
    end)
  end

  local function dot(a, b)
    local sum = 0.0
    for i = 1, #a do sum = sum + a:get(i) * b:get(i) end
    return sum
  end

  --- Checks d(sum y.w)/dx against the backward pass, one input at a time; of other kinds, spec/sampling/check_spec.lua
  --- checks the gradients in doubles.
  local function gradient(kind, input, output, gradient_in, gradient_out, tolerance)
    local d = shapes[kind]
    local forward, f = operands(kind, "forward", d, 5)
    cpu.run(kind, "forward", d, forward)
    local backward, b = operands(kind, "backward", d, 5)
    for name, t in pairs(b) do if f[name] and name ~= gradient_in then t:copy(f[name]) end end
    local weight
    if gradient_in then
      weight = sample.tensor(#f[output])
      weight:normal(99, 1)
      b[gradient_in]:copy(weight)
    end
    b[gradient_out]:fill(0)
    cpu.run(kind, "backward", d, backward)
    local function objective()
      cpu.run(kind, "forward", d, forward)
      return weight and dot(f[output], weight) or f[output]:sum() / #f[output]
    end
    local step = 1e-2
    for i = 1, #f[input] do
      local x = f[input]:get(i)
      f[input]:set(i, x + step)
      local above = objective()
      f[input]:set(i, x - step)
      local below = objective()
      f[input]:set(i, x)
      local slope, got = (above - below) / (2 * step), b[gradient_out]:get(i)
      assert(math.abs(slope - got) <= tolerance * (1 + math.abs(slope)),
        ("%s: d%s[%d]: %.6g by differences, %.6g by the kernel"):format(kind, input, i, slope, got))
    end
  end

  it("linear backward", function()
    gradient("linear", "x", "y", "dy", "dx", 2e-3)
    gradient("linear", "w", "y", "dy", "dw", 2e-3)
  end)
  it("bmm backward", function()
    gradient("bmm", "a", "c", "dc", "da", 2e-3)
    gradient("bmm", "b", "c", "dc", "db", 2e-3)
  end)
  it("cross_entropy backward", function()
    gradient("cross_entropy", "logits", "loss", nil, "dlogits", 5e-3)
  end)
  it("embedding backward", function()
    gradient("embedding", "table", "y", "dy", "dtable", 2e-3)
  end)
  it("rope's backward pass inverts its forward pass, and keeps lengths", function()
    local d = { batch = 2, seq = 3, heads = 2, kv_heads = 1, head_dim = 8 }
    local list, named = operands("rope", "forward", d, 5)
    named.x:normal(4, 1)
    local half = d.head_dim // 2
    for p = 0, d.seq - 1 do
      for i = 0, half - 1 do
        named.table:set(p * half + i + 1, math.cos(p * 10 ^ (-i / 2)))
        named.table:set(d.seq * half + p * half + i + 1, math.sin(p * 10 ^ (-i / 2)))
      end
    end
    local before, length = values(named.x), dot(named.x, named.x)
    cpu.run("rope", "forward", d, list)
    assert.is_true(math.abs(dot(named.x, named.x) / length - 1) < 1e-5)
    assert.is_true(math.abs(named.x:get(d.head_dim * 4 + 1) - before[d.head_dim * 4 + 1]) > 1e-3)
    cpu.run("rope", "backward", d, list)
    near(before, named.x, 1e-5, "x")
  end)

  it("adam takes the textbook step", function()
    local list, named = operands("adam", "update", { count = 9 }, 3)
    named.weights:fill(2)
    local gradients = {}
    for i = 1, 9 do
      gradients[i] = (i - 4.5) / 3
      named.gradients:set(i, gradients[i])
    end
    cpu.run("adam", "update", { count = 9 }, list, { 0.1, 0.9, 0.999, 1e-8, 0, 1 })
    for i = 1, 9 do -- the first step is rate * sign(gradient)
      local sign = gradients[i] > 0 and 1 or -1
      assert.is_true(math.abs(named.weights:get(i) - (2 - 0.1 * sign)) < 1e-4)
      assert.equal(0, named.gradients:get(i))
    end
  end)

  it("dropout keeps nine tenths, scaled, and its mask serves the backward", function()
    local d = { rows = 40, cols = 50 }
    local list, named = operands("bias_dropout_add", "forward", d, 3)
    named.x:fill(1)
    named.bias:fill(0)
    named.residual:fill(2)
    cpu.run("bias_dropout_add", "forward", d, list)
    local kept = 0
    for i = 1, 2000 do
      local y = named.y:get(i)
      if y > 2 then kept = kept + 1 end
      assert.is_true(y == 2 or math.abs(y - 2 - 1 / 0.9) < 1e-4)
    end
    assert.is_true(math.abs(kept / 2000 - 0.9) < 0.03, tostring(kept))
    local back, b = operands("bias_dropout_add", "backward", d, 3)
    b.mask:copy(named.mask)
    b.x:fill(1)
    cpu.run("bias_dropout_add", "backward", d, back)
    for i = 1, 2000 do assert.equal(named.y:get(i) > 2, b.y:get(i) > 0) end
    assert.is_true(math.abs(b.dbias:sum() - b.y:sum()) < 1e-2)
  end)

  it("router keeps the top experts with weights that sum to one", function()
    local d = { rows = 5, experts = 7, top_k = 3 }
    local list, named = operands("router", "forward", d, 3)
    cpu.run("router", "forward", d, list)
    for r = 0, d.rows - 1 do
      local sum, least = 0, math.huge
      for k = 1, d.top_k do
        sum = sum + named.weights:get(r * d.top_k + k)
        least = math.min(least, named.probabilities:get(r * d.experts + named.experts:integer(r * d.top_k + k) + 1))
      end
      assert.is_true(math.abs(sum - 1) < 1e-5)
      local above = 0
      for e = 1, d.experts do
        if named.probabilities:get(r * d.experts + e) > least then above = above + 1 end
      end
      assert.equal(d.top_k - 1, above)
    end
  end)

  it("names the kernels of OpenBLAS by the processor's instructions, not by its model", function()
    local machine = require "ett.sampling.machine"
    local processor, set, core = machine.processor, sample.default_environment, nil
    finally(function() machine.processor, sample.default_environment = processor, set end)
    function sample.default_environment(name, value) core = name == "OPENBLAS_CORETYPE" and value or core end
    for flags, expected in pairs { ["avx2 avx512vl "] = { GenuineIntel = "SkylakeX", AuthenticAMD = "SkylakeX" },
      ["avx avx2 "] = { GenuineIntel = "Haswell" }, ["avx "] = {} } do
      for _, vendor in ipairs { "GenuineIntel", "AuthenticAMD" } do
        function machine.processor() return { flags = flags, vendor = vendor } end
        core = nil
        backend.available()
        assert.equal(expected[vendor], core, vendor .. " " .. flags)
      end
    end
  end)

  it("finds the kind of an operator by its declared fields, not by its name", function()
    local operator = require "ett.operator"
    local function renamed(name, s)
      local op = setmetatable({ name = "mine" }, { __index = operator.get(name) })
      return backend.calls(op, s, "forward")[1]
    end
    assert.equal("rms_norm", renamed("rms_norm", { tokens = 4, hidden = 8 }).kind)
    assert.equal("gelu", renamed("gelu", { tokens = 4, width = 8 }).kind)
    local scores = { batch = 1, heads = 2, seq_q = 4, seq_k = 4 }
    assert.equal(2, renamed("masked_softmax", scores).visible)
    assert.equal(1, renamed("softmax", scores).visible)
    assert.equal("mask_fill", renamed("fill_mask", scores).kind)
  end)

  it("refuses impossible shapes and sizes beyond memory by name", function()
    local pool = assert(cpu.pool(1 << 20, 1))
    local none = { kind = "linear", pass = "forward", batch = 1, m = 0, n = 1, k = 1 }
    local result, raised = pool:measure({ none })
    assert.is_nil(result)
    assert.matches("dimension 'm' must be a positive integer, got 0", raised.message)
    local nine = { kind = "linear", pass = "forward", batch = 1, m = 9, n = 9, k = 9 }
    result, raised = pool:measure({ nine }, { limit_bytes = 100 })
    assert.is_nil(result)
    assert.equal("memory", raised.kind)
  end)

  it("has one workspace for all repeats, and counts it", function()
    local d = { kind = "attention", pass = "forward", batch = 1, seq_q = 256, seq_k = 256, heads = 1, kv_heads = 1,
      head_dim = 8, visible = 1 }
    for _, pass in ipairs { "forward", "backward" } do
      local described = cpu.operands("attention", pass, d)
      for i, operand in ipairs(described) do assert.equal(i == #described, operand.role == "s") end
    end
    local pool = cpu.pool(1 << 20, 1)
    local few = { max_repeats = 1, min_repeats = 1, limit_bytes = 4 * 256 * 256 } -- the workspace alone
    local result, err = pool:measure({ d }, few)
    assert.is_nil(result)
    assert.matches("the operands need 0%.000 GB", tostring(err.message or err))
    few.limit_bytes = few.limit_bytes + 4 * 256 * 32 + 4096
    assert(pool:measure({ d }, few))
    -- Larger than all that operands rotate through: nothing else of the arena would hold it.
    d.pass, d.seq_q, d.seq_k, few.limit_bytes = "backward", 2500, 2500, 1 << 30
    assert(pool:measure({ d }, few))
    pool:close()
  end)

  it("times the given work: twice the sleep takes twice the time", function()
    local pool = assert(cpu.pool(1 << 20, 1))
    -- The quickest of many, up to 40 times: on a busy machine most sleeps end late.
    local patient = { min_repeats = 25, max_repeats = 25, budget_seconds = 60 }
    local function time(us)
      local least = math.huge
      for _ = 1, 40 do
        local result = pool:measure({ { kind = "sleep", pass = "forward", microseconds = us } }, patient)
        assert.equal(25, result.repeats)
        least = math.min(least, result.min_seconds)
        if least < 2e-6 * us then break end
      end
      return least
    end
    local one, two = time(4000), time(8000)
    assert.is_true(one >= 4e-3 and one < 8e-3, tostring(one))
    assert.is_true(two >= 8e-3 and two < 16e-3, tostring(two))
  end)

  it("marks a shape as preempted if lost processor time left fewer repeats than the minimum", function()
    assert(cpu.pin(-1, 1))
    finally(cpu.unpin)
    local pool <close> = assert(cpu.pool(1 << 20, 1))
    local alone = assert(pool:measure({ { kind = "gelu", pass = "forward", rows = 64, cols = 2048 } }))
    -- Another program on the same processor, which it inherits from this thread.
    local busy = assert(io.popen "exec timeout 300 sh -c 'echo $$; while :; do :; done'")
    local id = busy:read "l"
    finally(function()
      os.execute("kill " .. id)
      busy:close()
      cpu.unpin()
    end)
    local numbers = {}
    -- The number of lost runs depends on the time slices of the system. On a busy machine they get longer, so runs of
    -- several lengths are tried.
    for i, milliseconds in ipairs { 2, 2, 2, 2, 4, 4, 8, 8, 16, 1, 1, 32, 2, 4, 8, 16 } do
      local rows = math.max(1, math.floor(64 * milliseconds * 1e-3 / alone.min_seconds))
      local result = assert(pool:measure({ { kind = "gelu", pass = "forward", rows = rows, cols = 2048 } },
        { budget_seconds = 10, target = 0, min_repeats = 40, max_repeats = 40 }))
      local kept = result.repeats - result.dropped
      numbers[i] = kept
      local lost_many, lost_none = kept <= 35, result.dropped == 0
      if lost_many or lost_none then assert.equal(lost_many, result.preempted, kept .. " of 40 repeats kept") end
      if kept >= 3 and lost_many then return end
    end
    error("of 40 repeats kept: " .. table.concat(numbers, ", "))
  end)

  it("makes the minimum number of repeats also if the duration of a repeat is known", function()
    local pool <close> = assert(cpu.pool(1 << 20, 1))
    local calls = { { kind = "sleep", pass = "forward", microseconds = 1000 } }
    local options = { budget_seconds = 0.02, min_repeats = 30, known_seconds = 2e-3 }
    local start = sample.now()
    local repeats = assert(pool:measure(calls, options)).repeats
    assert(repeats == 30 or sample.now() - start > 4 * options.budget_seconds, repeats .. " repeats")
  end)

  it("refuses indices that the kernel would overwrite", function()
    local rows = sample.tensor(64 * 64)
    assert.error_matches(function()
      cpu.run("embedding", "backward", { rows = 64, cols = 64, vocab = 64 },
        { rows:view(1, 64), sample.tensor(64 * 64), rows })
    end, "embedding: operands 'ids' and 'dtable' share memory")
  end)

  it("refuses a shape whose number of elements exceeds 64 bits", function()
    -- The product is 2^64 + 4.
    local _, err = pcall(cpu.operands, "softmax", "forward", { batch = 769546, rows = 494770, cols = 48448661,
      visible = 1 })
    assert.equal("limit", err.kind)
    assert.matches("the product of the dimensions is 1.84e%+19, at most 1e%+18", err.message)
  end)

  it("keeps the memory of a view after its tensor is closed", function()
    local tensor = sample.tensor(1 << 23):fill(3)
    local view = tensor:view(5, 10)
    tensor:close()
    local _ = sample.tensor(1 << 23) -- the block of new tensors; nothing else holds the old one
    collectgarbage()
    collectgarbage()
    assert.equal(3, view:get(1))
    assert.error_matches(function() tensor:get(1) end, "the tensor is closed")
  end)

  it("runs every operator of the library, each pass", function()
    local pool = assert(cpu.pool(1 << 20, 1))
    local c = { tp = 2, cp = 1, ep = 1, micro_batch = 2, seq = 16, hidden = 32, heads = 4, kv_heads = 4, head_dim = 8,
      ffn = 64, vocab = 300, experts = 4, top_k = 2, layers = 2, dtype = "fp32", causal = true,
      q_lora_rank = 24, kv_lora_rank = 16, qk_nope_head_dim = 8, qk_rope_head_dim = 8, v_head_dim = 16 }
    c = require("measured_operators").configuration(c)
    local ran = 0
    for _, op in ipairs(require("measured_operators").list()) do
      if not op.path:find("fixture", 1, true) then
        local s = op.shape(c)
        for _, pass in ipairs(op.passes) do
          local result, err = pool:measure(backend.calls(op, s, pass), { max_repeats = 2, min_repeats = 1 })
          assert(result, ("%s %s: %s"):format(op.name, pass, err and err.message or ""))
          assert.is_true(result.seconds > 0)
          ran = ran + 1
        end
      end
    end
    assert.is_true(ran >= 50, tostring(ran))
  end)
end)
