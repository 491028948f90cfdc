--- Shapes in campaign files: accepted and refused descriptions.
local campaign = require "ett.sampling.campaign"
local merged = require "ett.base.merged"
local operator = require "ett.operator"
local raised = require "raised"
local sample = require "ett.sample"
local sample_limit = require "ett.sampling.limit"
local space = require "ett.sampling.space"

local function of(entry)
  entry.operator = entry.operator or "gelu"
  return campaign.resolve({ name = "c", samples = { entry } }, "c.lua").targets[1]
end

local function all(target)
  local list = {}
  for i = 1, target.total do list[i] = table.concat(target.values(i), ",") end
  return list
end

local function refusal(entry) return raised(of, entry) end

describe("a grid", function()
  it("holds only the shapes that satisfy 'where'", function()
    local target = of { shapes = { tokens = { 16, 32, 64 }, width = { 16, 32 } },
      where = function(s) return s.tokens <= s.width end }
    assert.same({ "16,16", "16,32", "32,32" }, all(target))
  end)

  it("applies 'with' before 'where', and contains each shape once", function()
    local target = of { shapes = { tokens = { 16, 32, 64 }, width = { 1, 2 } },
      with = function(s) s.width = 4 * s.tokens end, where = function(s) return s.width < 200 end }
    assert.same({ "16,64", "32,128" }, all(target))
  end)

  it("takes its dimensions in the order of columns", function()
    local target = of { columns = { "width", "tokens" }, shapes = { tokens = { 1, 2 }, width = { 8, 9 } } }
    assert.same({ "8,1", "8,2", "9,1", "9,2" }, all(target))
  end)

  it("accepts 0 only for dimensions that allow it", function()
    local function flash(shapes)
      local whole = merged({ batch = 1, heads = 2, kv_heads = 2, seq_q = 64, seq_k = 64, head_dim = 32 }, shapes)
      return { operator = "flash_attention", columns = { "seq_q", "causal", "batch", "heads", "kv_heads", "seq_k",
        "head_dim" }, shapes = whole }
    end
    assert.same({ "64,0,1,2,2,64,32" }, all(of(flash { causal = { 0 } })))
    assert.same({ "64,0,1,2,2,64,32" }, all(of(flash { causal = 0 })))
    assert.same({ "64,0,1,2,2,64,32", "64,1,1,2,2,64,32" }, all(of(flash { causal = { start = 0, stop = 1 } })))
    local target = of(flash { causal = { 0, 1 } })
    assert.equal(2, target.total)
    assert.equal(0, target.shape(target.values(1)).causal)
    local random = flash { causal = { 0, 1 }, seq_q = { from = 16, to = 64 } }
    random.design, random.count = "random", 8
    assert.equal(8, of(random).total)
    assert.matches("dimension 'causal': value 1 must be an integer of at least 0, got %-1",
      refusal(flash { causal = { -1 } }))
    assert.matches("dimension 'batch': value 2 must be a positive integer, got 0", refusal(flash { causal = 1,
      batch = { 1, 0 } }))
    assert.matches("dimension 'batch' must be a positive integer, got 0", refusal(flash { causal = 1, batch = 0 }))
    assert.matches("dimension 'heads': start must be a positive integer, got 0", refusal(flash { causal = 1,
      heads = { start = 0, stop = 4 } }))
  end)

  it("is refused if no shape remains", function()
    assert.matches("c.lua: sample 1: tokens, width: none of 1 shapes satisfies 'where'", refusal {
      shapes = { tokens = 1, width = 1 }, where = function() return false end }, 1, true)
  end)

  it("of a collective supports 'where'", function()
    local target = campaign.resolve { name = "c", backend = "mpi", samples = { { collective = "all_reduce",
      shapes = { shape = { 1, 2, 3, 4 } }, where = function(s) return s.shape % 2 == 0 end } } }.targets[1]
    assert.same({ "2", "4" }, all(target))
  end)
end)

describe("a design", function()
  for _, design in ipairs { "random", "halton" } do
    it(design .. " takes values of ranges with a step, and multiples", function()
      local seen = {}
      local target = of { design = design, count = 40, shapes = {
        tokens = { start = 3, stop = 400, step = 2, op = "mul" }, width = { from = 70, to = 500, multiple = 64 } } }
      for i = 1, target.total do
        local values = target.values(i)
        seen[values[1]] = true
        assert.equal(0, values[2] % 64, values[2])
        assert.is_true(values[2] >= 70 and values[2] <= 500, values[2])
      end
      for value in pairs(seen) do assert.is_true(({ [3] = 1, [6] = 1, [12] = 1, [24] = 1, [48] = 1, [96] = 1,
        [192] = 1, [384] = 1 })[value] ~= nil, tostring(value)) end
    end)
  end
end)

describe("a design with too few possible shapes", function()
  it("says how many shapes there are", function()
    local shapes = { tokens = { start = 1, stop = 9 }, width = { from = 16, to = 160, multiple = 16 } }
    assert.matches("c.lua: sample 1: tokens, width: count is 100, there are 90 such shapes",
      refusal { design = "random", count = 100, shapes = shapes }, 1, true)
    assert.equal(90, of { design = "random", count = 90, shapes = shapes }.total)
  end)

  local wide = { from = 1, to = 1 << 20 }
  local function nowhere(design)
    return { design = design, count = 10000000, shapes = { tokens = wide, width = wide },
      where = function() return false end }
  end

  it("is given up when the last half of the tries, or one in 2000, found nothing new", function()
    local least = space.least_tries
    assert.equal(100000, least) -- a few seconds
    finally(function() space.least_tries = least end)
    space.least_tries = 5000
    for _, design in ipairs { "random", "halton" } do
      assert.matches("only 0 of 10000000 shapes satisfy the constraints after 5000 tries", refusal(nowhere(design)), 1,
        true)
    end
    local found, tries = refusal { design = "random", count = 10000000, shapes = { tokens = wide, width = wide },
      where = function(s) return s.tokens == s.width end }
      :match "only (%d+) of 10000000 shapes satisfy the constraints after (%d+) tries"
    assert.equal(2000 * found, tonumber(tries)) -- fewer than one try in 2000 found one
    assert.is_true(tonumber(tries) > 5000)
    assert.matches("only 100 of 1000000 shapes satisfy the constraints after 5000 tries", refusal { design = "random",
      count = 1000000, shapes = { tokens = wide, width = wide }, with = function(s)
        s.tokens, s.width = s.tokens % 100 + 1, 1 end }, 1, true)
  end)
end)

describe("a campaign's own function", function()
  local try, rep = pcall, string.rep -- what the limit stops is in this file then, and not in busted's environment
  local shapes, limit = { tokens = { 16, 32 }, width = 8 }, sample_limit.seconds
  before_each(function() sample_limit.seconds = 0.02 end)
  after_each(function() sample_limit.seconds = limit end)

  for design, fields in pairs { grid = {}, random = { design = "random", count = 2 } } do
    it("of a " .. design .. " that never ends, or fails, is named with its file and target", function()
      for name in pairs { where = true, with = true } do
        local function refused_by(fn)
          return refusal { shapes = shapes, design = fields.design, count = fields.count, [name] = fn }
        end
        for _, fn in ipairs { function() while true do end end,
          function() while true do try(rep, "x", 1) end end,
          function() try(function() while true do end end) return true end } do
          assert.matches(("^c%%.lua: sample 1: '%s' of gelu: .*campaign_space_spec.lua:%%d+: this Lua code ran longer "
            .. "than 0.02 seconds %%(ETT_KERNEL_SECONDS sets the limit%%)$"):format(name), refused_by(fn))
        end
        assert.matches(("^c%%.lua: sample 1: '%s' of gelu: .*campaign_space_spec.lua:%%d+: attempt to "):format(name),
          refused_by(function(s) return s.tokens.x end))
      end
    end)
  end

  it("may take its time over all shapes", function()
    local now, seconds = sample.now, 0.0
    finally(function() sample.now = now end)
    function sample.now() -- the limit reads this clock every million instructions
      seconds = seconds + 0.01
      return seconds
    end
    sample_limit.seconds = 0.05
    local target = of { shapes = { tokens = { start = 1, stop = 20 }, width = 8 }, where = function()
      for _ = 1, 2500000 do end
      return true
    end }
    assert.equal(20, target.total)
    assert.is_true(seconds > 0.2, seconds)
  end)

  it("that never ends only when a shape is asked for is named, too", function()
    local calls = 0
    local target = of { shapes = { tokens = 1, width = 8 }, with = function()
      calls = calls + 1
      while calls > 1 do end
    end }
    assert.matches("^'with' of gelu: .*: this Lua code ran longer than 0.02 seconds", raised(target.values, 1))
  end)

  it("looks at a grid that can be gone through", function()
    assert.matches("c.lua: sample 1: tokens, width: 'where' and 'with' are called for every shape of a grid, at most "
      .. "67108864; this grid has 1099511627776; use design 'random' or 'halton' with count",
      refusal { where = print, shapes = { tokens = { start = 1, stop = 1 << 20 },
        width = { start = 1, stop = 1 << 20 } } }, 1, true)
  end)
end)

describe("a campaign's dimensions", function()
  it("are the operator's own, all of them", function()
    assert.matches("operator 'gelu' has no dimension 'with'; did you mean 'width'?; it has tokens, width",
      refusal { shapes = { tokens = 1, with = 1 } }, 1, true)
    assert.matches("operator 'gelu' needs dimension 'width'", refusal { shapes = { tokens = 1 } }, 1, true)
    assert.matches("operator 'flash_attention' needs dimensions 'batch', 'causal', 'head_dim', 'kv_heads', 'seq_k'",
      refusal { operator = "flash_attention", shapes = { heads = 1, seq_q = 1 } }, 1, true)
    assert.matches("dimension 'width' of shapes is not among columns",
      refusal { columns = { "tokens" }, shapes = { tokens = 1, width = 1 } }, 1, true)
  end)

  it("are integers, also where Lua computed them as floats", function()
    local target = of { shapes = { tokens = { 2 ^ 10, 2 ^ 11 }, width = 2 ^ 3 },
      with = function(s) s.width = s.tokens / 2 end }
    assert.same({ "1024,512", "2048,1024" }, all(target))
  end)

  it("are reported once each", function()
    local shapes = { tokens = 1, width = 1 }
    for said, entry in pairs {
      ["field 'columns' names 'tokens' twice"] = { columns = { "tokens", "tokens", "width" } },
      ["field 'columns': value 2 must be a name without commas, got a table"] = { columns = { "tokens", {} } },
      ["field 'columns': value 3 is nil"] = { columns = { "tokens", "width", nil, "x" } },
      ["field 'ranks' is for collectives only"] = { ranks = 2 },
      ["field 'nodes' is for collectives only"] = { nodes = 2 },
      ["field 'in_place' is for collectives only"] = { in_place = false },
    } do
      entry.shapes = shapes
      assert.matches("c.lua: sample 1: " .. said, refusal(entry), 1, true)
    end
    local ok, why = pcall(campaign.resolve, { name = "c", samples = { { collective = "all_reduce",
      columns = { "shape" }, shapes = { shape = 1 } } } }, "c.lua")
    assert.is_false(ok)
    assert.matches("c.lua: sample 1: field 'columns' needs an operator", tostring(why), 1, true)
  end)

  it("have one order in one table", function()
    local shapes = { tokens = 1, width = 1 }
    local function two(first, second)
      return pcall(campaign.resolve, { name = "c", precision = "fp32", samples = {
        { operator = "gelu", shapes = shapes, precision = first },
        { operator = "gelu", shapes = shapes, precision = second, columns = { "width", "tokens" } } } }, "c.lua")
    end
    local ok, why = two(nil, { "fp16", "fp32" })
    assert.is_false(ok)
    assert.matches("c.lua: sample 2: gelu has columns width,tokens, sample 1 has tokens,width, and both have one "
      .. "table; give both the same 'columns'", tostring(why), 1, true)
    assert.is_true((two("fp16", "fp32")))
    assert.is_true((two(nil, "fp16")))
  end)

  it("report options that exclude each other", function()
    for said, entry in pairs {
      ["value 3 repeats 16; list each value once"] = { shapes = { tokens = { 16, 32, 16 }, width = 1 } },
      ["count needs design 'random' or 'halton'"] = { count = 3, shapes = { tokens = 1, width = 1 } },
      ["dimension 'width': step and op need start and stop"] = { design = "random", count = 2,
        shapes = { tokens = 1, width = { from = 1, to = 8, step = 2 } } },
      ["dimension 'width': scale and multiple need from and to"] = { design = "random", count = 2,
        shapes = { tokens = 1, width = { start = 1, stop = 8, scale = "log" } } },
      ["no multiple of 64 lies from 65 to 100"] = { design = "random", count = 2,
        shapes = { tokens = 1, width = { from = 65, to = 100, multiple = 64 } } },
      ["must be one of log, linear, got 'lin'; did you mean 'linear'?"] = { design = "halton", count = 2,
        shapes = { tokens = 1, width = { from = 1, to = 8, scale = "lin" } } },
      ["with: dimension 'width' must be an integer, it was set to 0.5"] = { shapes = { tokens = 1, width = 1 },
        with = function(s) s.width = s.tokens / 2 end },
      ["dimension 'tokens': value 2 is nil"] = { shapes = { tokens = { 16, nil, 32 }, width = 1 } },
      ["dimension 'tokens': a list cannot have the field 'stop'"] =
        { shapes = { tokens = { 16, stop = 32 }, width = 1 } },
      ["sample 1: dimension 'width': range starts at 5 above its end 2"] = { shapes = { tokens = 1,
        width = { start = 5, stop = 2 } } },
      ["sample 1: dimension 'width': step of an 'add' range must be at least 1, got 0"] = { shapes = { tokens = 1,
        width = { start = 1, stop = 2, step = 0 } } },
      ["sample 1: dimension 'width': field 'op' must be one of add, mul, got 'pow'"] = { shapes = { tokens = 1,
        width = { start = 1, stop = 2, op = "pow" } } },
      ["sample 1: dimension 'width' must be an integer, a list or a range, got 1.5"] = { shapes = { tokens = 1,
        width = 1.5 } },
      ["with: dimension 'width' must be an integer, it was set to nil"] = { shapes = { tokens = 1, width = 1 },
        with = function(s) setmetatable(s, { __index = error, __pairs = error }).width = nil end },
      ["with: unknown dimension 'wdth'; did you mean 'width'?"] = { shapes = { tokens = 1, width = 1 },
        with = function(s) s.wdth = 2 end },
    } do assert.matches(said, refusal(entry), 1, true) end
  end)
end)

describe("an impossible shape", function()
  it("is rejected with the constraint named", function()
    for said, entry in pairs {
      ["moe_router: impossible shape: top_k must be at most experts, got experts = 2"] =
        { operator = "moe_router", shapes = { tokens = 1, hidden = 1, experts = 2, top_k = 4 } },
      ["flash_attention: impossible shape: heads must be divisible by kv_heads; causal must be 0 or 1, got batch = 1"] =
        { operator = "flash_attention", shapes = { batch = 1, heads = 4, kv_heads = 3, seq_q = 1, seq_k = 1,
          head_dim = 1, causal = 2 } },
      ["rope: impossible shape: rotary_dim must be even; rotary_dim must be at most head_dim, got"] =
        { operator = "rope", shapes = { batch = 1, seq = 1, heads = 1, kv_heads = 1, head_dim = 16, rotary_dim = 17 } },
    } do
      local target = of(entry)
      assert.matches(said, raised(target.shape, target.values(1)), 1, true)
    end
  end)

  it("is one that an operator's file says is", function()
    local ok, why = pcall(operator.check, { name = "o", summary = "s", schema = {}, shape = print,
      flops = print, bytes = print, constraints = { { "always" } } }, "o.lua")
    assert.is_false(ok)
    assert.matches('o.lua: constraint 1 must be { "what must hold", function(s)', tostring(why), 1, true)
  end)

  it("of the reference's ranges is told from those that its tables hold", function()
    local fields = { kernel_name = "RoPE", first_n_column = 5,
      columns_name = { "mp", "b", "h", "l", "dim", "F_dur(us)" },
      starts = { 1, 4, 16, 1024, 2048 }, steps = { 2, 2, 8, 512, 512 }, ends = { 16, 8, 80, 5120, 8192 },
      operators = { "mul", "mul", "add", "add", "add" } }
    local target = campaign.of_document(fields, "RoPE.yml").targets[1]
    local possible, why = 0, {}
    for i = 1, target.total do
      local ok, err = pcall(target.shape, target.values(i))
      if ok then possible = possible + 1 else why[tostring(err):gsub("%d+", "N")] = true end
    end
    assert.equal(10530, target.total)
    assert.equal(4860, possible) -- the rows of both of its tables
    assert.same({ ["dim = N must be divisible by h = N"] = true, ["h = N must be divisible by mp = N"] = true }, why)
  end)

  it("of moe.yml has more choices than experts", function()
    local op = operator.get "moe"
    local row = { mp = 1, b = 4, l = 1024, dim = 2048, moe_num_experts = 8, intermediate_size = 2, top_k = 2 }
    assert.same({ tokens = 4096, hidden = 2048, experts = 8, top_k = 2 }, op.sample_row.shape(row))
    row.top_k = 9
    assert.matches("top_k must be at most experts", raised(op.sample_row.shape, row), 1, true)
  end)
end)

it("the CPU back end refuses shapes that its kernels do not support", function()
  local backend = require("ett.base.find").load("samplers", "cpu")
  local rope, attention = operator.get "rope", operator.get "flash_attention"
  local s = { batch = 1, seq = 8, heads = 2, kv_heads = 2, head_dim = 64, rotary_dim = 16 }
  assert.matches("rotary_dim must be head_dim = 64, got 16", raised(backend.calls, rope, s, "forward"),
    1, true)
  s = { batch = 1, heads = 2, kv_heads = 2, seq_q = 64, seq_k = 64, head_dim = 16, causal = 1, window = 8 }
  assert.matches("no sliding window: omit window = 8", raised(backend.calls, attention, s, "forward"), 1,
    true)
end)
