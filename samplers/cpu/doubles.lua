--- Each compiled kind in double precision: kind -> function(d, v, pass) -> { operand = values }.
--
-- d: its dimensions; v: its operands before the run by name, lists of numbers (bytes of a mask, integers of an index).
-- Checks of operators (ett.sampling.check) and of the kinds (spec/samplers/cpu_spec.lua) compare with these.
local doubles = require "ett.operator.doubles"

local kinds = {}

local function map(list, f)
  local out = {}
  for i, v in ipairs(list) do out[i] = f(v, i) end
  return out
end

local function product(a, b, g)
  local c = {}
  for i = 1, (g.batch or 1) * g.m * g.n do c[i] = 0.0 end
  doubles.gemm(a, b, c, g)
  return c
end

--- y[m,n] = x[m,k] w[n,k]'
function kinds.linear(d, v, pass)
  local m, n, k, batch = d.m, d.n, d.k, d.batch
  if pass == "forward" then return { y = product(v.x, v.w, { m = m, n = n, k = k, batch = batch, trans_b = true }) } end
  return { dx = product(v.dy, v.w, { m = m, n = k, k = n, batch = batch }),
    dw = product(v.dy, v.x, { m = n, n = k, k = m, batch = batch, trans_a = true }) }
end

--- Bits of layout - 1: 1 transposes the second operand, 2 the first, 4 adds to c.
function kinds.gemm(d, v)
  local bits, c = d.layout - 1, map(v.c, function(x) return x end)
  doubles.gemm(v.a, v.b, c, { m = d.m, n = d.n, k = d.k, batch = d.batch, trans_b = bits & 1 ~= 0,
    trans_a = bits & 2 ~= 0, accumulate = bits & 4 ~= 0 })
  return { c = c }
end

function kinds.bmm(d, v, pass)
  local m, n, k, batch = d.m, d.n, d.k, d.batch
  if pass == "forward" then return { c = product(v.a, v.b, { m = m, n = n, k = k, batch = batch }) } end
  return { da = product(v.dc, v.b, { m = m, n = k, k = n, batch = batch, trans_b = true }),
    db = product(v.a, v.dc, { m = k, n = n, k = m, batch = batch, trans_a = true }) }
end

--- Calls f(packed index, [batch, heads, seq, head_dim] index) for `heads` heads from head `first` on of a packed
--- row-major buffer.
local function unpacked(d, first, heads, rows, width, f)
  local dim = d.head_dim
  for b = 0, d.batch - 1 do
    for h = 0, heads - 1 do
      for row = 0, rows - 1 do
        for c = 1, dim do
          f((b * rows + row) * width + (first + h) * dim + c, ((b * heads + h) * rows + row) * dim + c)
        end
      end
    end
  end
end

--- Queries are the last seq_q rows of qkv [batch, max(seq_q, seq_k), (heads + 2 kv_heads) head_dim], keys and values
--- the last seq_k. visible: 1 all keys, 2 causal.
function kinds.attention(d, v, pass)
  local width, dim, rows = (d.heads + 2 * d.kv_heads) * d.head_dim, d.head_dim, math.max(d.seq_q, d.seq_k)
  local s = { batch = d.batch, heads = d.heads, kv_heads = d.kv_heads, seq_q = d.seq_q, seq_k = d.seq_k,
    head_dim = d.head_dim, causal = d.visible == 2, first = d.seq_k - d.seq_q }
  --- The last `seq` rows of some heads, as [batch, heads, seq, head_dim].
  local function part(first, heads, seq)
    local all, out = {}, {}
    unpacked(d, first, heads, rows, width, function(from, to) all[to] = v.qkv[from] end)
    for head = 0, d.batch * heads - 1 do
      table.move(all, (head * rows + rows - seq) * dim + 1, (head + 1) * rows * dim, head * seq * dim + 1, out)
    end
    return out
  end
  local q, k = part(0, d.heads, d.seq_q), part(d.heads, d.kv_heads, d.seq_k)
  local values = part(d.heads + d.kv_heads, d.kv_heads, d.seq_k)
  local out, stats = doubles.attention(q, k, values, s)
  if pass == "forward" then
    local o = {}
    unpacked(d, 0, d.heads, d.seq_q, d.heads * dim, function(to, from) o[to] = out[from] end)
    return { o = o }
  end
  local dout = {}
  unpacked(d, 0, d.heads, d.seq_q, d.heads * dim, function(from, to) dout[to] = v["do"][from] end)
  local dqkv = {}
  --- Adds gradients to the last `seq` rows; earlier rows have none.
  local function put(gradient, first, heads, seq)
    unpacked(d, first, heads, rows, width, function(to, from)
      local vector = (from - 1) // dim
      local head, row = vector // rows, vector % rows - (rows - seq)
      dqkv[to] = row < 0 and 0.0 or gradient[(head * seq + row) * dim + (from - 1) % dim + 1]
    end)
  end
  local dq, dk, dv = doubles.attention_backward(q, k, values, out, stats, dout, s)
  put(dq, 0, d.heads, d.seq_q)
  put(dk, d.heads, d.kv_heads, d.seq_k)
  put(dv, d.heads + d.kv_heads, d.kv_heads, d.seq_k)
  return { dqkv = dqkv }
end

--- Without a bias and means: rms_norm.
function kinds.layer_norm(_, v, pass)
  if pass == "forward" then
    local y, means, inverses = doubles.norm(v.x, v.gain, v.bias)
    return { y = y, mean = v.bias and means, rstd = inverses }
  end
  local dx, dgain, dbias = doubles.norm_backward(v.x, v.gain, v.dy, v.mean, v.rstd)
  return { dx = dx, dgain = dgain, dbias = v.mean and dbias }
end

kinds.rms_norm = kinds.layer_norm

--- visible: 1 all columns, 2 columns up to the row's own index.
function kinds.softmax(d, v, pass)
  local seen = d.visible == 2 and function(row) return row % d.rows + 1 end or nil
  if pass == "forward" then return { y = doubles.softmax(v.x, d.cols, seen) } end
  return { dx = doubles.softmax_backward(v.y, v.dy, d.cols, seen) }
end

--- Targets at or above vocab belong to another tensor rank; gradients are of the mean over the rows.
function kinds.cross_entropy(d, v, pass)
  if pass == "forward" then
    local loss, lses = {}, {}
    for row = 0, d.rows - 1 do
      local top, sum = -math.huge, 0.0
      for j = 1, d.vocab do top = math.max(top, v.logits[row * d.vocab + j]) end
      for j = 1, d.vocab do sum = sum + math.exp(v.logits[row * d.vocab + j] - top) end
      local own = v.targets[row + 1]
      lses[row + 1] = top + math.log(sum)
      loss[row + 1] = lses[row + 1] - (own < d.vocab and v.logits[row * d.vocab + own + 1] or 0.0)
    end
    return { loss = loss, lse = lses }
  end
  return { dlogits = map(v.logits, function(x, i)
    local row, column = (i - 1) // d.vocab + 1, (i - 1) % d.vocab
    return (math.exp(x - v.lse[row]) - (column == v.targets[row] and 1 or 0)) / d.rows
  end) }
end

function kinds.embedding(d, v, pass)
  local y, dtable = {}, pass == "backward" and map(v.dtable, function(x) return x end)
  for i = 1, d.rows * d.cols do
    local at = v.ids[(i - 1) // d.cols + 1] * d.cols + (i - 1) % d.cols + 1
    if dtable then dtable[at] = dtable[at] + v.dy[i] else y[i] = v.table[at] end
  end
  return dtable and { dtable = dtable } or { y = y }
end

--- The top_k largest probabilities, renormalised to sum to one; ties go to the first.
function kinds.router(d, v, pass)
  local top_k = math.min(d.top_k, d.experts)
  if pass == "backward" then
    local dlogits = map(v.probabilities, function() return 0.0 end)
    for row = 0, d.rows - 1 do
      local sum = 0.0
      for k = row * d.top_k + 1, row * d.top_k + top_k do sum = sum + v.weights[k] * v.dweights[k] end
      for k = row * d.top_k + 1, row * d.top_k + top_k do
        local at = row * d.experts + v.experts[k] + 1
        dlogits[at] = dlogits[at] + v.weights[k] * (v.dweights[k] - sum)
      end
    end
    return { dlogits = dlogits }
  end
  local p, weights, experts = doubles.softmax(v.logits, d.experts), {}, {}
  for row = 0, d.rows - 1 do
    local order, sum = {}, 0.0
    for e = 1, d.experts do order[e] = e - 1 end
    table.sort(order, function(a, b)
      local x, y = v.logits[row * d.experts + a + 1], v.logits[row * d.experts + b + 1]
      if x == y then return a < b end
      return x > y
    end)
    for k = 1, top_k do sum = sum + p[row * d.experts + order[k] + 1] end
    for k = 1, top_k do
      experts[row * d.top_k + k], weights[row * d.top_k + k] = order[k], p[row * d.experts + order[k] + 1] / sum
    end
  end
  return { probabilities = p, weights = weights, experts = experts }
end

function kinds.gelu(_, v, pass)
  if pass == "forward" then return { y = map(v.x, doubles.gelu) } end
  return { dx = map(v.x, function(x, i) return v.dy[i] * doubles.gelu_slope(x) end) }
end

--- Each row of x holds gate, then up.
function kinds.swiglu(d, v, pass)
  local y, dx = {}, {}
  for row = 0, d.rows - 1 do
    for j = 1, d.cols do
      local gate, up, at = row * 2 * d.cols + j, row * 2 * d.cols + d.cols + j, row * d.cols + j
      local value, by_gate, by_up = doubles.swiglu(v.x[gate], v.x[up])
      y[at] = value
      if pass == "backward" then dx[gate], dx[up] = v.dy[at] * by_gate, v.dy[at] * by_up end
    end
  end
  return pass == "forward" and { y = y } or { dx = dx }
end

function kinds.add(_, v) return { y = map(v.a, function(a, i) return a + v.b[i] end) } end

function kinds.scale(_, v) return { y = map(v.x, function(x) return 1.25 * x end) } end

--- Keeps 90 % of the elements, selected by a hash of the position.
local KEPT = 58982
local function kept(position)
  local hash = position * 0x9e3779b1 & 0xffffffff
  hash = (hash ~ (hash >> 15)) * 0x85ebca77 & 0xffffffff
  return hash >> 16 < KEPT
end

function kinds.dropout(_, v, pass)
  local mask = pass == "forward" and map(v.x, function(_, i) return kept(i - 1) and 1 or 0 end) or v.mask
  return { mask = pass == "forward" and mask or nil,
    y = map(v.x, function(x, i) return mask[i] * x * 65536 / KEPT end) }
end

function kinds.bias_dropout_add(d, v, pass)
  if pass == "backward" then
    local out, dbias = kinds.dropout(d, v, pass), map(v.dbias, function(x) return x end)
    for i, y in ipairs(out.y) do
      local column = (i - 1) % d.cols + 1
      dbias[column] = dbias[column] + y
    end
    return { y = out.y, dbias = dbias }
  end
  local mask = map(v.x, function(_, i) return kept(i - 1) and 1 or 0 end)
  return { mask = mask, y = map(v.x, function(x, i)
    return v.residual[i] + mask[i] * (x + v.bias[(i - 1) % d.cols + 1]) * 65536 / KEPT
  end) }
end

function kinds.mask_fill(d, v, pass)
  local function filled(x, fill)
    return map(x, function(value, i)
      local row, column = (i - 1) // d.seq_k, (i - 1) % d.seq_k
      return column > row % d.seq_q and fill or value
    end)
  end
  if pass == "forward" then return { y = filled(v.x, -10000) } end
  return { dx = filled(v.dy, 0) }
end

--- Rotates query and key heads of the packed rows in place. table: cosines, then sines, of every position.
function kinds.rope(d, v, pass)
  local x, half, sign = map(v.x, function(value) return value end), d.head_dim // 2, pass == "forward" and 1 or -1
  local width = (d.heads + 2 * d.kv_heads) * d.head_dim
  for row = 0, d.batch * d.seq - 1 do
    for h = 0, d.heads + d.kv_heads - 1 do
      for i = 1, half do
        local at, turn = row * width + h * d.head_dim + i, row % d.seq * half + i
        local c, s = v.table[turn], sign * v.table[d.seq * half + turn]
        x[at], x[at + half] = v.x[at] * c - v.x[at + half] * s, v.x[at + half] * c + v.x[at] * s
      end
    end
  end
  return { x = x }
end

--- The first step with decoupled weight decay and the defaults of point.c; clears the gradients.
function kinds.adam(_, v)
  local rate, b1, b2, epsilon, decay = 1e-3, 0.9, 0.999, 1e-8, 0.01
  local first = map(v.first, function(m, i) return b1 * m + (1 - b1) * v.gradients[i] end)
  local second = map(v.second, function(s, i) return b2 * s + (1 - b2) * v.gradients[i] ^ 2 end)
  return { first = first, second = second, gradients = map(first, function() return 0.0 end),
    weights = map(v.weights, function(w, i)
      return (1 - rate * decay) * w - rate / (1 - b1) * first[i] / (math.sqrt(second[i] / (1 - b2)) + epsilon)
    end) }
end

return kinds
