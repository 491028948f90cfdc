--- Every operator's PyTorch code, run forward and backward by real PyTorch in fp32 on a small shape, against the double
--- precision that checks the CPU back end (ett.operator.doubles, samplers/cpu/doubles.lua).
local check = require "ett.sampling.check"
local doubles = require "ett.operator.doubles"
local find = require "ett.base.find"
local gemm = require "ett.operator.gemm"
local host = require "ett.host"
local json = require "ett.json"
local measured = require "measured_operators"
local operator = require "ett.operator"
local quote = require("ett.base.shell").quote

local kinds = find.part("samplers/cpu", "doubles")
local python, reason = find.load("samplers", "torch").interpreter()

local configuration = measured.configuration { tp = 1, cp = 1, ep = 1, micro_batch = 2, seq = 24, hidden = 32,
  heads = 4, kv_heads = 2,
  head_dim = 16, ffn = 48, moe_ffn = 40, vocab = 90, experts = 8, top_k = 2, layers = 2, gated_mlp = true,
  q_lora_rank = 24, kv_lora_rank = 16, qk_nope_head_dim = 8, qk_rope_head_dim = 8, v_head_dim = 16, causal = true,
  dtype = "fp32" }

local function map(list, f)
  local out = {}
  for i, v in ipairs(list) do out[i] = f(v, i) end
  return out
end

local function product(a, b, m, n, k, how)
  local c = {}
  doubles.gemm(a, b, c, { m = m, n = n, k = k, batch = how and how.batch, trans_a = how and how.ta,
    trans_b = how and how.tb })
  return c
end

local function causal(s) return function(row) return row % s.seq_q + 1 end end

-- Zero of the output marks what was dropped; the rest is divided by nine tenths.
local function dropped(v, dy, value, base)
  local y, d = {}, {}
  for i, out in ipairs(v.y) do
    local kept = math.abs(out - base(i)) > 1e-7 and 1 or 0
    y[i], d[i] = base(i) + kept * value(i) / 0.9, kept * dy[i] / 0.9
  end
  return y, d
end

-- operator or family -> function(s, v, dy): the output, the gradients by the names in the Python source
local references = {}

function references.gemm(s, v, dy)
  local m, n, k, batch = s.tokens, s.out_features, s.in_features, s.batch
  if batch then
    return product(v.x, v.w, m, n, k, { batch = batch }), { x = product(dy, v.w, m, k, n, { batch = batch, tb = true }),
      w = product(v.x, dy, k, n, m, { batch = batch, ta = true }) }
  end
  local bias = v.bias and {}
  for j = 1, bias and n or 0 do
    bias[j] = 0.0
    for row = 0, m - 1 do bias[j] = bias[j] + dy[row * n + j] end
  end
  local y = product(v.x, v.w, m, n, k, { tb = true })
  return v.bias and map(y, function(x, i) return x + v.bias[(i - 1) % n + 1] end) or y,
    { x = product(dy, v.w, m, k, n), w = product(dy, v.x, n, k, m, { ta = true }), bias = bias }
end

function references.flash_attention(s, v, dy)
  local d = { batch = s.batch, heads = s.heads, kv_heads = s.kv_heads, seq_q = s.seq_q, seq_k = s.seq_k,
    head_dim = s.head_dim, causal = s.causal == 1, first = s.seq_k - s.seq_q }
  local out, stats = doubles.attention(v.q, v.k, v.v, d)
  local dq, dk, dv = doubles.attention_backward(v.q, v.k, v.v, out, stats, dy, d)
  return out, { q = dq, k = dk, v = dv }
end

function references.softmax(s, v, dy)
  local y = doubles.softmax(v.x, s.seq_k)
  return y, { x = doubles.softmax_backward(y, dy, s.seq_k) }
end

function references.masked_softmax(s, v, dy)
  local y = doubles.softmax(v.x, s.seq_k, causal(s))
  return y, { x = doubles.softmax_backward(y, dy, s.seq_k, causal(s)) }
end

function references.fill_mask(s, v, dy)
  return kinds.mask_fill(s, { x = v.x }, "forward").y, { x = kinds.mask_fill(s, { dy = dy }, "backward").dx }
end

function references.layer_norm(_, v, dy)
  local y, means, inverses = doubles.norm(v.x, v.gain, v.bias)
  local dx, dgain, dbias = doubles.norm_backward(v.x, v.gain, dy, means, inverses)
  return y, { x = dx, gain = dgain, bias = dbias }
end

function references.rms_norm(_, v, dy)
  local y, _, inverses = doubles.norm(v.x, v.gain)
  local dx, dgain = doubles.norm_backward(v.x, v.gain, dy, nil, inverses)
  return y, { x = dx, gain = dgain }
end

function references.gelu(_, v, dy)
  return map(v.x, doubles.gelu), { x = map(v.x, function(x, i) return dy[i] * doubles.gelu_slope(x) end) }
end

function references.swiglu(_, v, dy)
  local y, gate, up = {}, {}, {}
  for i, g in ipairs(v.gate) do
    local by_gate, by_up
    y[i], by_gate, by_up = doubles.swiglu(g, v.up[i])
    gate[i], up[i] = dy[i] * by_gate, dy[i] * by_up
  end
  return y, { gate = gate, up = up }
end

function references.residual_add(_, v, dy) return kinds.add(nil, v).y, { a = dy, b = dy } end

references.expert_bias = references.residual_add

function references.dropout(_, v, dy)
  local y, d = dropped(v, dy, function(i) return v.x[i] end, function() return 0.0 end)
  return y, { x = d }
end

function references.bias_dropout_add(s, v, dy)
  local y, d = dropped(v, dy, function(i) return v.x[i] + v.bias[(i - 1) % s.hidden + 1] end,
    function(i) return v.residual[i] end)
  local dbias = map(v.bias, function() return 0.0 end)
  for i, g in ipairs(d) do dbias[(i - 1) % s.hidden + 1] = dbias[(i - 1) % s.hidden + 1] + g end
  return y, { x = d, residual = dy, bias = dbias }
end

function references.embedding(s, v, dy)
  local d = { rows = s.tokens, cols = s.hidden }
  return kinds.embedding(d, v, "forward").y, { table = kinds.embedding(d, { ids = v.ids, dy = dy,
    dtable = map(v.table, function() return 0.0 end) }, "backward").dtable }
end

function references.cross_entropy(s, v, dy)
  local d, own = { rows = s.tokens, vocab = s.vocab }, { logits = v.logits, targets = v.target }
  local forward = kinds.cross_entropy(d, own, "forward")
  own.lse = forward.lse
  return forward.loss, { logits = map(kinds.cross_entropy(d, own, "backward").dlogits, function(x, i) -- of the mean
    return x * s.tokens * dy[(i - 1) // s.vocab + 1]
  end) }
end

-- The output is [batch, seq, heads of q, then of k, head_dim]; every head turns by the angle of its position.
function references.rope(s, v, dy)
  local half, width, all = s.rotary_dim // 2, s.head_dim, s.heads + s.kv_heads
  local function turned(list, heads, sign)
    local out = map(list, function(x) return x end)
    for vector = 0, #list // width - 1 do
      local position = vector // heads % s.seq
      for i = 1, half do
        local at, turn = vector * width + i, position * s.rotary_dim + i
        out[at] = list[at] * v.cos[turn] - sign * list[at + half] * v.sin[turn]
        out[at + half] = list[at + half] * v.cos[turn] + sign * list[at] * v.sin[turn]
      end
    end
    return out
  end
  local q, k, y, back = turned(v.q, s.heads, 1), turned(v.k, s.kv_heads, 1), {}, turned(dy, all, -1)
  local dq, dk = {}, {}
  for token = 0, s.batch * s.seq - 1 do
    local from, q_at, k_at = token * all * width, token * s.heads * width, token * s.kv_heads * width
    table.move(q, q_at + 1, q_at + s.heads * width, from + 1, y)
    table.move(k, k_at + 1, k_at + s.kv_heads * width, from + s.heads * width + 1, y)
    table.move(back, from + 1, from + s.heads * width, q_at + 1, dq)
    table.move(back, from + s.heads * width + 1, from + all * width, k_at + 1, dk)
  end
  return y, { q = dq, k = dk }
end

function references.moe_router(s, v, dy)
  local n, e, h = s.tokens, s.experts, s.hidden
  local p, y, slope = doubles.softmax(product(v.x, v.gate, n, e, h, { tb = true }), e), {}, {}
  for t = 0, n - 1 do
    local order, given, along = {}, {}, 0.0
    for i = 1, e do order[i] = i end
    table.sort(order, function(a, b) return p[t * e + a] > p[t * e + b] end)
    for k = 1, s.top_k do
      local at = t * s.top_k + k
      y[at], given[order[k]] = p[t * e + order[k]], dy[at]
      along = along + dy[at] * y[at]
    end
    for i = 1, e do slope[t * e + i] = p[t * e + i] * ((given[i] or 0.0) - along) end
  end
  return y, { x = product(slope, v.gate, n, h, e), gate = product(slope, v.x, e, h, n, { ta = true }) }
end

function references.moe_permute(s, v, dy)
  local y, dx = {}, map(v.x, function() return 0.0 end)
  for i = 1, #dy do
    local at = v.token[(i - 1) // s.hidden + 1] * s.hidden + (i - 1) % s.hidden + 1
    y[i], dx[at] = v.x[at], dx[at] + dy[i]
  end
  return y, { x = dx }
end

function references.moe_unpermute(s, v, dy)
  local y, back = map(dy, function() return 0.0 end), { copies = {}, weight = map(v.weight, function() return 0.0 end) }
  for i = 1, #v.copies do
    local slot, j = (i - 1) // s.hidden + 1, (i - 1) % s.hidden + 1
    local from, to = v.place[slot] * s.hidden + j, (slot - 1) // s.top_k * s.hidden + j
    y[to] = y[to] + v.weight[slot] * v.copies[from]
    back.copies[from] = v.weight[slot] * dy[to]
    back.weight[slot] = back.weight[slot] + dy[to] * v.copies[from]
  end
  return y, back
end

local requests, answers = {}, nil -- of every operator below, answered by one Python process

local function answer_to(request)
  if answers then return answers[request] end
  local path = os.tmpname()
  finally(function() os.remove(path) end)
  local file = assert(io.open(path, "w"))
  for _, each in ipairs(requests) do file:write(json.encode(each), "\n") end
  file:close()
  answers = {}
  local count, pipe = 0, assert(io.popen(("%s -B %s %s <%s"):format(quote(python),
    quote(host.root .. "/spec/support/torch_values.py"), quote(host.root .. "/samplers/torch"), quote(path))))
  for line in pipe:lines() do
    count = count + 1
    answers[requests[count]] = assert(json.decode(line))
  end
  pipe:close()
  assert.equal(#requests, count, "PyTorch failed at " .. (requests[count + 1] or { operator = "?" }).operator)
  return answers[request]
end

local function same(want, got, what)
  assert.is_table(want, what .. " has no reference")
  assert.equal(#want, #got, what)
  local error_, at = check.worst(want, got)
  assert.is_true(error_ <= check.tolerance.fp32, ("%s, element %d: %s, must be %s (relative error %.2g)"):format(what,
    at, got[at], want[at], error_))
end

local function request_of(op, changes)
  local s = op.shape(configuration)
  for name, value in pairs(changes or {}) do s[name] = value end
  local request = { operator = op.name, source = op.torch, shape = operator.check_shape(op, s), passes = op.passes }
  requests[#requests + 1] = request
  return request
end

local function compare(request)
  local op, answer = operator.get(request.operator), answer_to(request)
  local what = op.name .. ": "
  answer.v.y = answer.y
  local reference = references[op.name] or op.torch == gemm.torch and references.gemm
    or error("no reference of " .. op.name)
  local y, gradients = reference(request.shape, answer.v, answer.dy)
  same(y, answer.y, what .. "output")
  for name, got in pairs(answer.d) do same(gradients[name], got, what .. "gradient of " .. name) end
  for name in pairs(gradients) do assert.is_table(answer.d[name], what .. "no gradient of " .. name) end
end

describe("PyTorch code of the operators", function()
  local plain, updates, attention, products = {}, {}, {}, {}
  for _, op in ipairs(measured.list()) do
    assert.is_string(op.torch, op.name .. " has no field 'torch'")
    if op.family == "optimizer" then
      updates[#updates + 1] = request_of(op, { params = 300, tensors = 7 }) -- of 42 or 43 elements
    else
      plain[#plain + 1] = request_of(op)
    end
  end
  for i, changes in ipairs { { causal = 0 }, { kv_heads = 4 }, { seq_q = 10 }, { kv_heads = 1, seq_q = 1 } } do
    attention[i] = request_of(operator.get "flash_attention", changes)
  end
  for i, changes in ipairs { { bias = 1 }, { batch = 3 } } do
    products[i] = request_of(operator.get "linear_qkv", changes)
  end

  local function compares(what, list)
    it(what, function()
      if not python then pending(reason) return end
      for _, request in ipairs(list) do compare(request) end
    end)
  end
  compares("computes what the references in double precision do, forward and backward", plain)
  compares("computes attention with and without a mask, of fewer queries than keys, and grouped", attention)
  compares("adds a bias and forms batches of products", products)

  it("updates parameters by Adam with decoupled weight decay", function()
    if not python then pending(reason) return end
    local constants = require "ett.operator.optimizer"
    for _, request in ipairs(updates) do
      local answer = answer_to(request)
      local function copied(scale) return map(answer.before, function(x) return scale * x end) end
      local master = copied(1)
      constants.doubles.adam(answer.gradient, master, copied(0), copied(0), {}, constants.corrections(1),
        constants.rate, constants.decay, constants.epsilon)
      same(master, answer.after, request.operator)
    end
  end)
end)
