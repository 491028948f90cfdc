--- Outputs checked before a campaign's first sample: references in double precision, refusals, and the lines that a
--- user reads about it.
local check = require "ett.sampling.check"
local command = require "command"
local ended = command.ended
local doubles = require "ett.operator.doubles"
local find = require "ett.base.find"
local host = require "ett.host"
local operator = require "ett.operator"

describe("references in double precision", function()
  it("of attention: the gradients are those of the forward formula", function()
    local s = { batch = 1, heads = 2, kv_heads = 1, seq_q = 3, seq_k = 5, head_dim = 4, causal = true, first = 2 }
    local function made(count, phase)
      local list = {}
      for i = 1, count do list[i] = math.sin(i * 1.3 + phase) end
      return list
    end
    local given = { q = made(24, 1), k = made(20, 2), v = made(20, 3) }
    local dout = made(24, 4)
    local function loss()
      local sum = 0.0
      for i, o in ipairs((doubles.attention(given.q, given.k, given.v, s))) do sum = sum + o * dout[i] end
      return sum
    end
    local out, stats = doubles.attention(given.q, given.k, given.v, s)
    local dq, dk, dv = doubles.attention_backward(given.q, given.k, given.v, out, stats, dout, s)
    for name, gradient in pairs { q = dq, k = dk, v = dv } do
      local x = given[name]
      for i, got in ipairs(gradient) do
        local kept, h = x[i], 1e-5
        x[i] = kept + h
        local above = loss()
        x[i] = kept - h
        local below = loss()
        x[i] = kept
        assert.near((above - below) / (2 * h), got, 1e-8)
      end
    end
    -- The last query sees every key, the first but for the two that come after it.
    given.k[17], given.v[13] = given.k[17] + 1, given.v[13] + 1
    local moved = doubles.attention(given.q, given.k, given.v, s)
    for i = 1, 4 do assert.equal(out[i], moved[i]) end
    assert.is_true(math.abs(out[12] - moved[12]) > 1e-3)
  end)

  it("of norms, softmax, gelu and swiglu: likewise", function()
    local x, dy, gain, bias = {}, {}, { 1.5, 0.5, -1, 2 }, { 0.1, 0.2, 0.3, 0.4 }
    for i = 1, 8 do x[i], dy[i] = math.sin(i * 2.1), math.cos(i * 1.7) end
    local function slope(f, i)
      local kept, h, sums = x[i], 1e-5, {}
      for _, sign in ipairs { 1, -1 } do
        x[i] = kept + sign * h
        local sum = 0.0
        for j, y in ipairs(f()) do sum = sum + y * dy[j] end
        sums[#sums + 1] = sum
      end
      x[i] = kept
      return (sums[1] - sums[2]) / (2 * h)
    end
    local _, means, inverses = doubles.norm(x, gain, bias)
    local layer = doubles.norm_backward(x, gain, dy, means, inverses)
    local _, _, rms_inverses = doubles.norm(x, gain)
    local rms = doubles.norm_backward(x, gain, dy, nil, rms_inverses)
    local function seen(row) return row + 2 end
    local soft = doubles.softmax_backward(doubles.softmax(x, 4, seen), dy, 4, seen)
    for i = 1, 8 do
      assert.near(slope(function() return (doubles.norm(x, gain, bias)) end, i), layer[i], 1e-8)
      assert.near(slope(function() return (doubles.norm(x, gain)) end, i), rms[i], 1e-8)
      assert.near(slope(function() return doubles.softmax(x, 4, seen) end, i), soft[i], 1e-8)
    end
    local h, up = 1e-5, 0.7
    for _, v in ipairs(x) do
      assert.near((doubles.gelu(v + h) - doubles.gelu(v - h)) / (2 * h), doubles.gelu_slope(v), 1e-8)
      local _, by_gate, by_up = doubles.swiglu(v, up)
      assert.near((doubles.swiglu(v + h, up) - doubles.swiglu(v - h, up)) / (2 * h), by_gate, 1e-8)
      assert.near((doubles.swiglu(v, up + h) - doubles.swiglu(v, up - h)) / (2 * h), by_up, 1e-8)
    end
  end)

  it("round as the precisions do", function()
    for _, x in ipairs { 1 / 3, -1e-41, 65504.0, 3.14159e20, 2.0 ^ -126, 0.1 } do
      assert.equal(string.unpack("f", string.pack("f", x)), doubles.round(x, "fp32"))
    end
    assert.equal(1.0, doubles.round(1 + 2 ^ -8, "bf16")) -- ties go to even
    assert.equal(1 + 2 ^ -6, doubles.round(1 + 3 * 2 ^ -8, "bf16"))
    assert.equal(2.0 ^ -24, doubles.round(0.9 * 2.0 ^ -24, "fp16"))
    assert.equal(2048.0, doubles.round(2049.0, "fp16"))
    assert.equal(7.3, doubles.round(7.3, "int64"))
  end)
end)

describe("the shape of a check", function()
  it("is small, and one that the operator can have", function()
    local flash = operator.get "flash_attention"
    local s = check.small(flash, { batch = 8, heads = 40, kv_heads = 8, seq_q = 2048, seq_k = 8192, head_dim = 128,
      causal = 1 })
    assert.equal(0, s.heads % s.kv_heads)
    assert.is_true(s.heads > s.kv_heads and s.seq_k > s.seq_q and s.causal == 1)
    assert.is_true(s.batch * s.heads * s.seq_q * s.head_dim <= 8192)
    assert.same({ tokens = 5, width = 7 }, check.small(operator.get "gelu", { tokens = 5, width = 7 }))
    local gemm = check.small(operator.get "linear_qkv", { tokens = 4096, in_features = 5120, out_features = 15360 })
    for _, dimension in pairs(gemm) do assert.equal(0, dimension % 16) end
  end)

  it("finds the worst element, and reports NaN as an error", function()
    local error_, at = check.worst({ 1.0, -2.0, 0.0 }, { 1.0, -2.1, 1e-9 })
    assert.near(0.05, error_, 1e-12)
    assert.equal(2, at)
    error_, at = check.worst({ 1.0, 2.0 }, { 1.0, 0 / 0 })
    assert.equal(math.huge, error_)
    assert.equal(2, at)
    assert.is_true((check.worst({ 0.0, 0.0 }, { 0.0, 1e-6 })) > 1)
  end)
end)

describe("a check's verdict", function()
  local op = operator.get "gelu"
  local s = { tokens = 4, width = 8 }

  it("names operator, pass, precision, tensor, index, result and reference", function()
    local session = { check = function(_, _, pass)
      return { { name = "tensor 2 'y' of gelu_" .. pass, want = { 1.0, 2.0 },
        got = { 1.0, pass == "backward" and 3.5 or 2.0 } } }
    end }
    local verdict = check.operator(session, op, s, "bf16")
    assert.equal("gelu backward in bf16 computes a wrong result: tensor 2 'y' of gelu_backward, element 2 of 2, is "
      .. "3.5, must be 2 (relative error 0.75, at most 0.04 is rounding) at tokens=4 width=8", verdict.failure)
    assert.matches("^wrong: ", verdict.text)
  end)

  it("says what was left out, runs each shape once, and knows back ends that compute elsewhere", function()
    local runs = 0
    local session = { check = function(_, _, pass)
      runs = runs + 1
      if pass == "backward" then return nil, "kernel 'k' has no reference" end
      return { { name = "y", want = { 1.0 }, got = { 1.0 + 1e-3 } } }
    end }
    for _ = 1, 2 do
      local verdict = check.operator(session, op, s, "bf16")
      assert.equal("in part, worst relative error 1.0e-03 at tokens=4 width=8; not backward: kernel 'k' has no "
        .. "reference", verdict.text)
      assert.is_nil(verdict.failure)
    end
    assert.equal(2, runs)
    assert.matches("^wrong: ", check.operator(session, op, { tokens = 4, width = 9 }, "fp32").text)
    assert.matches("^no: another program", check.operator({}, op, s, "bf16").text)
  end)
end)

if not require("needs").cpu("the CPU back end's outputs", _ENV) then return end
local backend = find.load("samplers", "cpu")

describe("the CPU back end's outputs", function()
  local folder = command.each_folder(_ENV)

  local function write(name, text) command.write(folder, name, text) end
  local function run(arguments) return command.ett(folder, arguments) end
  local function table_text()
    return command.read(folder .. "/out", require("ett.base.folder").names(folder .. "/out", "%.csv$")[1])
  end

  it("agree with double precision for every operator of the library", function()
    local measured = require "measured_operators"
    local c = measured.configuration { tp = 2, cp = 1, ep = 1, micro_batch = 2, seq = 1600,
      hidden = 3200, heads = 32, kv_heads = 8,
      head_dim = 80, ffn = 6400, vocab = 30000, experts = 4, top_k = 2, layers = 2, dtype = "fp32", causal = true,
      q_lora_rank = 24, kv_lora_rank = 16, qk_nope_head_dim = 8, qk_rope_head_dim = 8, v_head_dim = 16 }
    local session = assert(backend.open { cold_bytes = 1 << 20 })
    finally(session.close)
    for _, op in ipairs(measured.list()) do
      if not op.path:find("fixture", 1, true) then
        local verdict = check.operator(session, op, op.shape(c), "fp32")
        local worst = tonumber(verdict.text:match("^yes, worst relative error (%S+) at"))
        assert(worst and worst < 1e-5, op.name .. ": " .. verdict.text)
      end
    end
  end)

  it("agree for attention with more and with fewer queries than keys", function()
    local session = assert(backend.open { cold_bytes = 1 << 20 })
    finally(session.close)
    local flash = operator.get "flash_attention"
    for _, rows in ipairs { { 9, 5, 0 }, { 5, 9, 0 }, { 5, 9, 1 }, { 7, 1, 0 } } do
      local verdict = check.operator(session, flash, { batch = 2, heads = 4, kv_heads = 2, head_dim = 6,
        seq_q = rows[1], seq_k = rows[2], causal = rows[3] }, "fp32")
      local worst = tonumber(verdict.text:match("^yes, worst relative error (%S+) at"))
      assert(worst and worst < 1e-5, verdict.text)
    end
  end)

  it("refuse an operator that computes something else, until it is mended", function()
    write("c.lua", "return { name = 'c', visits = 1, cold_bytes = 1 << 20, "
      .. "max_repeats = 2, min_repeats = 1, samples = { "
      .. "{ operator = 'gelu', shapes = { tokens = { 16, 32 }, width = 8 } } } }\n")
    os.execute(("mkdir -p '%s/samplers/cpu'"):format(folder))
    local mended = ("return dofile '%s/samplers/cpu/doubles.lua'\n"):format(host.root)
    write("samplers/cpu/doubles.lua", ("local kinds = dofile '%s/samplers/cpu/doubles.lua'\n"):format(host.root)
      .. "local gelu = kinds.gelu\nfunction kinds.gelu(d, v, pass)\n  local out = gelu(d, v, pass)\n"
      .. "  if out.dx then out.dx[5] = out.dx[5] + 1 end\n  return out\nend\nreturn kinds\n")
    local text = ended(1, run "sample c.lua --out out --quiet")
    local sentence = "gelu backward in fp32 computes a wrong result: operand 3 'dx' of kind gelu, element 5 of 96, is "
    assert.is_truthy(text:find("0 measured, 2 failed", 1, true), text)
    assert.is_truthy(text:find("not measured: " .. sentence, 1, true), text)
    assert.is_truthy(table_text():find("\n# checked: wrong: " .. sentence, 1, true), table_text())
    assert.is_truthy(table_text():find("\n#! failed: all: wrong: " .. sentence, 1, true))
    -- It stays refused with a message and is not run again; no row is written.
    text = ended(1, run "sample c.lua --out out --quiet")
    assert.is_truthy(text:find("not measured: " .. sentence, 1, true), text)
    ended(1, run "sample c.lua --out out --quiet --retry-failed")
    assert.equal(1, select(2, table_text():gsub("#! failed", "")))
    write("samplers/cpu/doubles.lua", mended)
    assert.matches(": 2 measured, 0 failed", ended(0, run "sample c.lua --out out --quiet --retry-failed"))
    assert.matches("\n#! checked: yes, worst relative error %S+ at tokens=12 width=8\n", table_text())
    ended(0, run "sample c.lua --out out --quiet")
  end)

  it("are looked at with the back end's own parts, whatever stands beside the campaign", function()
    write("c.lua", "return { name = 'c', visits = 1, cold_bytes = 1 << 20, "
      .. "max_repeats = 2, min_repeats = 1, samples = { "
      .. "{ operator = 'gelu', shapes = { tokens = 16, width = 8 } } } }\n")
    for _, name in ipairs { "check", "doubles", "timing" } do write(name .. ".lua", "error 'this is the user\'s'\n") end
    ended(0, run "sample c.lua --out out --quiet")
    assert.matches("\n# checked: yes, worst relative error ", table_text())
  end)

  it("are not checked with --no-check, and the header says so", function()
    write("c.lua", "return { name = 'c', visits = 1, cold_bytes = 1 << 20, "
      .. "max_repeats = 2, min_repeats = 1, samples = { "
      .. "{ operator = 'gelu', shapes = { tokens = 16, width = 8 } } } }\n")
    ended(0, run "sample c.lua --out out --quiet --no-check")
    assert.matches("\n# checked: no: %-%-no%-check\n", table_text())
  end)
end)
