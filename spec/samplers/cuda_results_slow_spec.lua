--- What every operator's CUDA kernels compute, against formulas in double precision; backward passes against
--- finite differences of those formulas (products and attention: cuda_products_slow_spec.lua).
local cuda_results = require "cuda_results"
local find = require "ett.base.find"
local operator = require "ett.operator"

if not require("needs").gpu(cuda_results.missing(), "CUDA kernels", _ENV) then return end

local backend = find.load("samplers", "cuda")
local gradient, map = cuda_results.gradient, cuda_results.map

local function check(name, s, pass, expect)
  it(("of %s, %s, are right"):format(name, pass), function()
    local ran = cuda_results.run(backend, operator.get(name), s, pass)
    for tensor, wanted in pairs(expect(ran.before, ran.after)) do
      local got = ran.after[tensor]
      assert.equal(#wanted, #got)
      for i = 1, #wanted do
        local tolerance = 2e-4 * math.max(1, math.abs(wanted[i]))
        assert(math.abs(wanted[i] - got[i]) <= tolerance, ("%s %s: tensor %d element %d is %.9g, must be %.9g"):format(
          name, pass, tensor, i, got[i], wanted[i]))
      end
    end
  end)
end

local function rows_of(f, cols)
  return function(x)
    local y = {}
    for row = 0, #x // cols - 1 do
      local part = table.move(x, row * cols + 1, (row + 1) * cols, 1, {})
      table.move(f(part, row), 1, cols, #y + 1, y)
    end
    return y
  end
end

local function gelu(x)
  local t = math.sqrt(2 / math.pi) * (x + 0.044715 * x ^ 3)
  local e = math.exp(2 * t)
  return 0.5 * x * (1 + (e - 1) / (e + 1))
end
local function silu(x) return x / (1 + math.exp(-x)) end
local function softmax(x)
  local sum = 0
  for _, v in ipairs(x) do sum = sum + math.exp(v) end
  return map(#x, function(i) return math.exp(x[i]) / sum end)
end

describe("CUDA kernels", function()
  local tokens, hidden = 3, 70
  local n = tokens * hidden

  check("gelu", { tokens = tokens, width = hidden }, "forward", function(before)
    return { [2] = map(n, function(i) return gelu(before[1][i]) end) }
  end)
  check("gelu", { tokens = tokens, width = hidden }, "backward", function(before)
    return { [3] = gradient(before[1], before[2], function(x) return map(n, function(i) return gelu(x[i]) end) end) }
  end)

  check("swiglu", { tokens = tokens, width = hidden }, "forward", function(before)
    return { [3] = map(n, function(i) return silu(before[1][i]) * before[2][i] end) }
  end)
  check("swiglu", { tokens = tokens, width = hidden }, "backward", function(before)
    local gate, up, dy = before[1], before[2], before[3]
    return {
      [4] = gradient(gate, dy, function(x) return map(n, function(i) return silu(x[i]) * up[i] end) end),
      [5] = gradient(up, dy, function(x) return map(n, function(i) return silu(gate[i]) * x[i] end) end),
    }
  end)

  for _, pass in ipairs { "forward", "backward" } do
    check("residual_add", { tokens = tokens, hidden = hidden }, pass, function(before)
      return { [3] = map(n, function(i) return before[1][i] + before[2][i] end) }
    end)
  end

  check("dropout", { rows = 40, cols = 50 }, "forward", function(before, after)
    local kept = 0
    for _, m in ipairs(after[1]) do kept = kept + m end
    assert(math.abs(kept / 2000 - 0.9) < 0.03, "10 % must be dropped, kept " .. kept / 2000)
    return { [3] = map(2000, function(i) return after[1][i] * before[2][i] / 0.9 end) }
  end)
  check("dropout", { rows = 40, cols = 50 }, "backward", function(before)
    return { [3] = map(2000, function(i) return before[1][i] * before[2][i] / 0.9 end) }
  end)

  check("bias_dropout_add", { tokens = tokens, hidden = hidden }, "forward", function(before, after)
    return { [5] = map(n, function(i)
      return before[4][i] + after[1][i] * (before[2][i] + before[3][(i - 1) % hidden + 1]) / 0.9
    end) }
  end)
  check("bias_dropout_add", { tokens = tokens, hidden = hidden }, "backward", function(before)
    return { [3] = map(n, function(i) return before[1][i] * before[2][i] / 0.9 end) }
  end)

  local attention = { batch = 2, heads = 2, seq_q = 6, seq_k = 6 }
  for pass, fill in pairs { forward = -10000, backward = 0 } do
    check("fill_mask", attention, pass, function(before)
      return { [2] = map(144, function(i)
        local row, col = (i - 1) // 6, (i - 1) % 6
        return col > row % 6 and fill or before[1][i]
      end) }
    end)
  end

  check("softmax", attention, "forward", function(before) return { [2] = rows_of(softmax, 6)(before[1]) } end)
  check("softmax", attention, "backward", function(before)
    -- The kernel takes the probabilities; any y will do, so take the rule itself in doubles.
    local y, dy, dx = before[1], before[2], {}
    for row = 0, 23 do
      local sum = 0
      for j = row * 6 + 1, row * 6 + 6 do sum = sum + y[j] * dy[j] end
      for j = row * 6 + 1, row * 6 + 6 do dx[j] = y[j] * (dy[j] - sum) end
    end
    return { [3] = dx }
  end)
  it("softmax's backward rule is the gradient of its forward", function()
    local x, dy = map(6, function(i) return math.sin(i) end), map(6, function(i) return math.cos(3 * i) end)
    local y, sum = softmax(x), 0
    for i = 1, 6 do sum = sum + y[i] * dy[i] end
    for i, g in ipairs(gradient(x, dy, softmax)) do assert.near(g, y[i] * (dy[i] - sum), 1e-8) end
  end)

  local function causal(part, row)
    local seen = row % 6 + 1
    local y = softmax(table.move(part, 1, seen, 1, {}))
    for j = seen + 1, 6 do y[j] = 0 end
    return y
  end
  check("masked_softmax", attention, "forward", function(before) return { [2] = rows_of(causal, 6)(before[1]) } end)
  check("masked_softmax", attention, "backward", function(before)
    local y, dy, dx = before[1], before[2], {}
    for row = 0, 23 do
      local sum, seen = 0, row % 6 + 1
      for j = 1, seen do sum = sum + y[row * 6 + j] * dy[row * 6 + j] end
      for j = 1, 6 do dx[row * 6 + j] = j <= seen and y[row * 6 + j] * (dy[row * 6 + j] - sum) or 0 end
    end
    return { [3] = dx }
  end)

  local function rms(gain)
    return rows_of(function(x)
      local sum = 0
      for _, v in ipairs(x) do sum = sum + v * v end
      local r = 1 / math.sqrt(sum / hidden + 1e-5)
      return map(hidden, function(j) return x[j] * r * gain[j] end)
    end, hidden)
  end
  check("rms_norm", { tokens = tokens, hidden = hidden }, "forward", function(before)
    return { [4] = rms(before[1])(before[2]) }
  end)
  it("of rms_norm, backward, are right", function()
    local op = operator.get "rms_norm"
    local s = { tokens = tokens, hidden = hidden }
    -- The statistics must be those of x: run once to learn x, then again with them set.
    local x = cuda_results.run(backend, op, s, "backward").before[2]
    local inverse = map(tokens, function(row)
      local sum = 0
      for j = 1, hidden do sum = sum + x[(row - 1) * hidden + j] ^ 2 end
      return 1 / math.sqrt(sum / hidden + 1e-5)
    end)
    local ran = cuda_results.run(backend, op, s, "backward", { [3] = inverse })
    local gain, dy = ran.before[1], ran.before[4]
    for i, g in ipairs(gradient(x, dy, rms(gain))) do assert.near(g, ran.after[5][i], 2e-4) end
    local gain_gradient = gradient(gain, dy, function(w) return rms(w)(x) end)
    for i, g in ipairs(gain_gradient) do assert.near(g, ran.after[6][i], 2e-4) end
  end)

  local function layer_norm(gain, bias)
    return rows_of(function(x)
      local mean, square = 0, 0
      for _, v in ipairs(x) do mean = mean + v / hidden end
      for _, v in ipairs(x) do square = square + (v - mean) ^ 2 / hidden end
      local r = 1 / math.sqrt(square + 1e-5)
      return map(hidden, function(j) return (x[j] - mean) * r * gain[j] + bias[j] end)
    end, hidden)
  end
  check("layer_norm", { tokens = tokens, hidden = hidden }, "forward", function(before)
    return { [6] = layer_norm(before[1], before[5])(before[2]) }
  end)
  it("of layer_norm, backward, are right", function()
    local op = operator.get "layer_norm"
    local s = { tokens = tokens, hidden = hidden }
    local x = cuda_results.run(backend, op, s, "backward").before[2]
    local means, inverses = {}, {}
    for row = 1, tokens do
      local mean, square = 0, 0
      for j = 1, hidden do mean = mean + x[(row - 1) * hidden + j] / hidden end
      for j = 1, hidden do square = square + (x[(row - 1) * hidden + j] - mean) ^ 2 / hidden end
      means[row], inverses[row] = mean, 1 / math.sqrt(square + 1e-5)
    end
    local ran = cuda_results.run(backend, op, s, "backward", { [3] = means, [4] = inverses })
    local gain, dy, bias = ran.before[1], ran.before[5], map(hidden, function() return 0 end)
    for i, g in ipairs(gradient(x, dy, layer_norm(gain, bias))) do assert.near(g, ran.after[6][i], 2e-4) end
    for i, g in ipairs(gradient(gain, dy, function(w) return layer_norm(w, bias)(x) end)) do
      assert.near(g, ran.after[7][i], 2e-4)
    end
    for i, g in ipairs(gradient(bias, dy, function(w) return layer_norm(gain, w)(x) end)) do
      assert.near(g, ran.after[8][i], 2e-4)
    end
  end)

  local rope = { batch = 2, seq = 3, heads = 2, kv_heads = 1, head_dim = 8, rotary_dim = 6 }
  for pass, sign in pairs { forward = 1, backward = -1 } do
    check("rope", rope, pass, function(before, after)
      local function turned(x, y, heads)
        local wanted = table.move(y, 1, #y, 1, {}) -- values that are not rotated stay unchanged
        for vector = 0, 2 * 3 * heads - 1 do
          for d = 0, 2 do
            local angle = before[1][vector // heads % 3 * 3 + d + 1]
            local at = vector * 8 + d + 1
            local a, b = x[at], x[at + 3]
            wanted[at] = a * math.cos(angle) - sign * b * math.sin(angle)
            wanted[at + 3] = b * math.cos(angle) + sign * a * math.sin(angle)
          end
        end
        return wanted
      end
      return { [3] = turned(before[2], after[3], 2), [5] = turned(before[4], after[5], 1) }
    end)
  end

  check("embedding", { tokens = 7, vocab = 11, hidden = 40 }, "forward", function(before)
    return { [3] = map(280, function(i)
      return before[2][before[1][(i - 1) // 40 + 1] * 40 + (i - 1) % 40 + 1]
    end) }
  end)
  check("embedding", { tokens = 7, vocab = 11, hidden = 40 }, "backward", function(before)
    local sums = map(440, function() return 0 end)
    for token = 1, 7 do
      for j = 1, 40 do
        local at = before[1][token] * 40 + j
        sums[at] = sums[at] + before[3][(token - 1) * 40 + j]
      end
    end
    return { [2] = sums }
  end)

  local function losses(target, vocab)
    return function(logits)
      return map(#target, function(row)
        local sum = 0
        for j = 1, vocab do sum = sum + math.exp(logits[(row - 1) * vocab + j]) end
        return math.log(sum) - logits[(row - 1) * vocab + target[row] + 1]
      end)
    end
  end
  check("cross_entropy", { tokens = 4, vocab = 90 }, "forward", function(before)
    return { [3] = losses(before[1], 90)(before[4]), [2] = rows_of(softmax, 90)(before[4]) }
  end)
  it("of cross_entropy, backward, are right", function()
    local op, s = operator.get "cross_entropy", { tokens = 4, vocab = 90 }
    local logits = map(360, function(i) return math.sin(i * 1.7) end)
    local ran = cuda_results.run(backend, op, s, "backward", { [2] = rows_of(softmax, 90)(logits) })
    local wanted = gradient(logits, ran.before[3], losses(ran.before[1], 90))
    for i, g in ipairs(wanted) do assert.near(g, ran.after[4][i], 1e-5) end
  end)

  local moe = { tokens = 6, hidden = 33, experts = 5, top_k = 2 }
  check("moe_router", moe, "forward", function(before)
    local x, gate = before[1], before[3]
    local scores = map(30, function(i)
      local row, expert, sum = (i - 1) // 5, (i - 1) % 5, 0
      for j = 1, 33 do sum = sum + x[row * 33 + j] * gate[expert * 33 + j] end
      return sum
    end)
    local probability = rows_of(softmax, 5)(scores)
    local weight, chosen = {}, {}
    for row = 0, 5 do
      local order = { 0, 1, 2, 3, 4 }
      table.sort(order, function(a, b) return probability[row * 5 + a + 1] > probability[row * 5 + b + 1] end)
      for k = 1, 2 do
        chosen[row * 2 + k], weight[row * 2 + k] = order[k], probability[row * 5 + order[k] + 1]
      end
    end
    return { [4] = scores, [5] = probability, [6] = weight, [7] = chosen }
  end)

  local moved = { tokens = 6, hidden = 33, top_k = 2 }
  check("moe_permute", moved, "forward", function(before)
    return { [2] = map(12 * 33, function(i)
      return before[1][before[3][(i - 1) // 33 + 1] * 33 + (i - 1) % 33 + 1]
    end) }
  end)
  check("moe_permute", moved, "backward", function(before)
    return { [1] = map(6 * 33, function(i)
      local token, j = (i - 1) // 33, (i - 1) % 33 + 1
      return before[2][before[3][token * 2 + 1] * 33 + j] + before[2][before[3][token * 2 + 2] * 33 + j]
    end) }
  end)
  check("moe_unpermute", moved, "forward", function(before)
    return { [2] = map(6 * 33, function(i)
      local token, j, sum = (i - 1) // 33, (i - 1) % 33 + 1, 0
      for k = 1, 2 do sum = sum + before[3][token * 2 + k] * before[1][before[4][token * 2 + k] * 33 + j] end
      return sum
    end) }
  end)
  check("moe_unpermute", moved, "backward", function(before)
    local function slope(i) return before[2][before[4][(i - 1) // 33 + 1] * 33 + (i - 1) % 33 + 1] end
    return { [5] = map(12 * 33, function(i) return before[3][(i - 1) // 33 + 1] * slope(i) end),
      [6] = map(12, function(copy)
        local sum = 0
        for i = (copy - 1) * 33 + 1, copy * 33 do sum = sum + slope(i) * before[1][i] end
        return sum
      end) }
  end)
  it("of moe_router, backward, give the scores' gradient", function()
    local op = operator.get "moe_router"
    local scores = map(30, function(i) return math.cos(i * 2.3) end)
    local chosen = map(12, function(i) return (i * 2) % 5 end)
    for i = 2, 12, 2 do if chosen[i] == chosen[i - 1] then chosen[i] = (chosen[i] + 1) % 5 end end
    local ran = cuda_results.run(backend, op, moe, "backward",
      { [5] = rows_of(softmax, 5)(scores), [7] = chosen })
    local wanted = gradient(scores, ran.before[6], function(x)
      local p = rows_of(softmax, 5)(x)
      return map(12, function(i) return p[(i - 1) // 2 * 5 + chosen[i] + 1] end)
    end)
    for i, g in ipairs(wanted) do assert.near(g, ran.after[4][i], 1e-5) end
  end)

  check("optimizer", { params = 300, tensors = 1 }, "update", function(before)
    local m = map(300, function(i) return 0.9 * before[3][i] + 0.1 * before[1][i] end)
    local v = map(300, function(i) return 0.95 * before[4][i] + 0.05 * before[1][i] ^ 2 end)
    local w = map(300, function(i)
      return before[2][i] * (1 - 1e-3 * 0.01) - 1e-3 * before[6][1] * m[i] / (math.sqrt(v[i] * before[6][2]) + 1e-8)
    end)
    return { [2] = w, [3] = m, [4] = v, [5] = w }
  end)
end)
