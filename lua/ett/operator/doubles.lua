--- Reference results of operators in double precision, on flat lists of numbers; ett.sampling.check compares a
--- campaign's outputs with them. They are written from the formulas, independently of the kernels, for shapes of a few
--- thousand elements.
local doubles = {}

--- Copies a list into another: a reference kernel writes its output tensor with this.
function doubles.set(to, from) table.move(from, 1, #from, 1, to) end

--- Constants of gelu in its tanh form (Hendrycks & Gimpel 2016).
local ROOT_2_PI, CUBIC = math.sqrt(2 / math.pi), 0.044715

function doubles.sigmoid(x) return 1 / (1 + math.exp(-x)) end
local sigmoid = doubles.sigmoid

local function tanh(x) return 2 * sigmoid(2 * x) - 1 end

function doubles.gelu(x) return 0.5 * x * (1 + tanh(ROOT_2_PI * (x + CUBIC * x ^ 3))) end

function doubles.gelu_slope(x)
  local t = tanh(ROOT_2_PI * (x + CUBIC * x ^ 3))
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT_2_PI * (1 + 3 * CUBIC * x * x)
end

--- gate * sigmoid(gate) * up, and its two derivatives.
function doubles.swiglu(gate, up)
  local s = sigmoid(gate)
  return gate * s * up, up * s * (1 + gate * (1 - s)), gate * s
end

--- Writes C[m,n] = op(A) op(B) (+ C), `batch` times, row-major with dense strides.
---@param g table m, n, k, batch = 1, trans_a, trans_b, accumulate
function doubles.gemm(a, b, c, g)
  local m, n, depth = g.m, g.n, g.k
  local a_row, a_step = g.trans_a and 1 or depth, g.trans_a and m or 1
  local b_step, b_col = g.trans_b and 1 or n, g.trans_b and depth or 1
  for i = 0, (g.batch or 1) - 1 do
    for row = 0, m - 1 do
      for col = 0, n - 1 do
        local at, sum = (i * m + row) * n + col + 1, 0.0
        local x, y = i * m * depth + row * a_row + 1, i * depth * n + col * b_col + 1
        for _ = 1, depth do
          sum = sum + a[x] * b[y]
          x, y = x + a_step, y + b_step
        end
        c[at] = g.accumulate and c[at] + sum or sum
      end
    end
  end
end

--- Softmax of every row of x. seen(row), row from 0: the number of unmasked columns; masked columns become 0.
function doubles.softmax(x, cols, seen)
  local y = {}
  for row = 0, #x // cols - 1 do
    local at, open, top, sum = row * cols, seen and math.min(cols, seen(row)) or cols, -math.huge, 0.0
    for j = at + 1, at + open do top = math.max(top, x[j]) end
    for j = at + 1, at + open do sum = sum + math.exp(x[j] - top) end
    for j = at + 1, at + cols do y[j] = j <= at + open and math.exp(x[j] - top) / sum or 0.0 end
  end
  return y
end

--- Gradient through a softmax with the output y: y (dy - sum(y dy)); 0 in masked columns.
function doubles.softmax_backward(y, dy, cols, seen)
  local dx = {}
  for row = 0, #y // cols - 1 do
    local at, open, sum = row * cols, seen and math.min(cols, seen(row)) or cols, 0.0
    for j = at + 1, at + open do sum = sum + y[j] * dy[j] end
    for j = at + 1, at + cols do dx[j] = j <= at + open and y[j] * (dy[j] - sum) or 0.0 end
  end
  return dx
end

--- (x - mean) r gain + bias of every row, with r = 1 / sqrt(variance + 1e-5). Without a bias the mean is not subtracted
--- (rms_norm). Returns y, the means and the values of r.
function doubles.norm(x, gain, bias)
  local cols, y, means, inverses = #gain, {}, {}, {}
  for row = 0, #x // cols - 1 do
    local at, mean, square = row * cols, 0.0, 0.0
    if bias then for j = 1, cols do mean = mean + x[at + j] / cols end end
    for j = 1, cols do square = square + (x[at + j] - mean) ^ 2 / cols end
    local r = 1 / math.sqrt(square + 1e-5)
    for j = 1, cols do y[at + j] = (x[at + j] - mean) * r * gain[j] + (bias and bias[j] or 0.0) end
    means[row + 1], inverses[row + 1] = mean, r
  end
  return y, means, inverses
end

--- Gradients of a norm from its saved statistics: dx, dgain, dbias. means = nil: rms_norm. With h = (x - mean) r and
--- g = gain dy: dx = r (g - mean(g) - h mean(g h)).
function doubles.norm_backward(x, gain, dy, means, inverses)
  local cols, dx, dgain, dbias = #gain, {}, {}, {}
  for j = 1, cols do dgain[j], dbias[j] = 0.0, 0.0 end
  for row = 0, #x // cols - 1 do
    local at, m, r, sum, product = row * cols, means and means[row + 1] or 0.0, inverses[row + 1], 0.0, 0.0
    for j = 1, cols do
      local g, h = gain[j] * dy[at + j], (x[at + j] - m) * r
      sum, product = sum + (means and g or 0.0), product + g * h
      dgain[j], dbias[j] = dgain[j] + dy[at + j] * h, dbias[j] + dy[at + j]
    end
    for j = 1, cols do
      local h = (x[at + j] - m) * r
      dx[at + j] = r * (gain[j] * dy[at + j] - sum / cols - h * product / cols)
    end
  end
  return dx, dgain, dbias
end

--- Calls each(row, q_offset, kv_offset, seen) for every query; the query attends to the first `seen` keys.
local function queries(s, each)
  local d, group = s.head_dim, s.heads // s.kv_heads
  for b = 0, s.batch - 1 do
    for h = 0, s.heads - 1 do
      local kv = (b * s.kv_heads + h // group) * s.seq_k * d
      for i = 0, s.seq_q - 1 do
        local row = (b * s.heads + h) * s.seq_q + i
        each(row, row * d, kv, s.causal and math.min(s.seq_k, i + 1 + (s.first or 0)) or s.seq_k)
      end
    end
  end
end

local function score(s, q, k, at, key)
  local sum = 0.0
  for c = 1, s.head_dim do sum = sum + q[at + c] * k[key + c] end
  return sum / math.sqrt(s.head_dim)
end

--- Scaled-dot-product attention over [batch, heads, seq, head_dim]: out, and the log-sum-exp of each row.
---@param s table batch, heads, kv_heads, seq_q, seq_k, head_dim, causal; first: keys before the first query's own
function doubles.attention(q, k, v, s)
  local out, stats, d = {}, {}, s.head_dim
  queries(s, function(row, at, kv, seen)
    local scores, sum = {}, 0.0
    for j = 0, seen - 1 do
      scores[j] = math.exp(score(s, q, k, at, kv + j * d))
      sum = sum + scores[j]
    end
    stats[row + 1] = math.log(sum)
    for c = 1, d do out[at + c] = 0.0 end
    for j = 0, seen - 1 do
      local p, value = scores[j] / sum, kv + j * d
      for c = 1, d do out[at + c] = out[at + c] + p * v[value + c] end
    end
  end)
  return out, stats
end

--- Gradients dq, dk, dv from out and stats. With P = exp(scores - stats) and D = sum(dout out): dS = P (dout V' - D).
function doubles.attention_backward(q, k, v, out, stats, dout, s)
  local dq, dk, dv, d = {}, {}, {}, s.head_dim
  for i = 1, #q do dq[i] = 0.0 end
  for i = 1, #k do dk[i], dv[i] = 0.0, 0.0 end
  local scale = 1 / math.sqrt(d)
  queries(s, function(row, at, kv, seen)
    local own = 0.0
    for c = 1, d do own = own + dout[at + c] * out[at + c] end
    for j = 0, seen - 1 do
      local key, dp = kv + j * d, 0.0
      local p = math.exp(score(s, q, k, at, key) - stats[row + 1])
      for c = 1, d do dp = dp + dout[at + c] * v[key + c] end
      local ds = p * (dp - own) * scale
      for c = 1, d do
        dq[at + c] = dq[at + c] + ds * k[key + c]
        dk[key + c] = dk[key + c] + ds * q[at + c]
        dv[key + c] = dv[key + c] + p * dout[at + c]
      end
    end
  end)
  return dq, dk, dv
end

--- x rounded to a number of bits (ties either way): Veltkamp's splitting with 2^(53 - bits) + 1 (Dekker 1971).
local function split(x, factor)
  local c = x * factor
  return c - (c - x)
end

-- Per format: fraction bits, exponent of the smallest normal number, that number, the splitting factor.
local formats = {}
for name, format in pairs { fp32 = { 23, -126 }, bf16 = { 7, -126 }, fp16 = { 10, -14 } } do
  formats[name] = { format[1], format[2], 2.0 ^ format[2], 2.0 ^ (52 - format[1]) + 1 }
end

--- x rounded to fp32, bf16 or fp16 (ties to even); unchanged in other precisions.
function doubles.round(x, precision)
  local format = formats[precision]
  if not format or x == 0 or x ~= x or x == math.huge or x == -math.huge then return x end
  local a = x < 0 and -x or x
  if a >= format[3] and a < 2.0 ^ 900 then
    local near = split(x, format[4])
    local other = near + 2 * (x - near)
    if near == x or split(other, format[4]) ~= other then return near end -- no tie
  end
  local e = math.floor(math.log(a, 2))
  if 2.0 ^ e > a then e = e - 1 elseif 2.0 ^ (e + 1) <= a then e = e + 1 end
  local step = 2.0 ^ (math.max(e, format[2]) - format[1])
  local units = a / step
  local low = math.floor(units)
  local rest = units - low
  if rest > 0.5 or rest == 0.5 and low % 2 == 1 then low = low + 1 end
  return (x < 0 and -1 or 1) * low * step
end

return doubles
