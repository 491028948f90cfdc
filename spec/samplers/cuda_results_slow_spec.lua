--- Results of every operator's CUDA kernels against formulas in double precision; backward passes against
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

local function softmax(x)
  local sum = 0
  for _, v in ipairs(x) do sum = sum + math.exp(v) end
  return map(#x, function(i) return math.exp(x[i]) / sum end)
end

describe("CUDA kernels", function()
  local tokens, hidden = 3, 70
  local n = tokens * hidden

  -- ett.operator.doubles computes these: spec/sampling/check_spec.lua checks its gradients by finite differences.
  local attention = { batch = 2, heads = 2, seq_q = 6, seq_k = 6 }
  for name, s in pairs { gelu = { tokens = tokens, width = hidden }, swiglu = { tokens = tokens, width = hidden },
    softmax = attention, masked_softmax = attention } do
    it(("of %s are right"):format(name), function() cuda_results.right(operator.get(name), s, "fp32", 1e-5) end)
  end

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

  for pass, fill in pairs { forward = -10000, backward = 0 } do
    check("fill_mask", attention, pass, function(before)
      return { [2] = map(144, function(i)
        local row, col = (i - 1) // 6, (i - 1) % 6
        return col > row % 6 and fill or before[1][i]
      end) }
    end)
  end

  --- A norm of rows; without a bias it is not centred.
  local function norm(gain, bias)
    return rows_of(function(x)
      local mean, square = 0, 0
      for _, v in ipairs(bias and x or {}) do mean = mean + v / hidden end
      for _, v in ipairs(x) do square = square + (v - mean) ^ 2 / hidden end
      local r = 1 / math.sqrt(square + 1e-5)
      return map(hidden, function(j) return (x[j] - mean) * r * gain[j] + (bias and bias[j] or 0) end)
    end, hidden)
  end
  for name, centred in pairs { rms_norm = false, layer_norm = true } do
    local s, moved = { tokens = tokens, hidden = hidden }, centred and 1 or 0
    check(name, s, "forward", function(before)
      return { [centred and 6 or 4] = norm(before[1], centred and before[5] or nil)(before[2]) }
    end)
    it(("of %s, backward, are right"):format(name), function()
      local op = operator.get(name)
      -- The statistics must be those of x: run once to learn x, then again with them set.
      local x, ones = cuda_results.run(backend, op, s, "backward").before[2], map(hidden, function() return 1 end)
      local zeroes, means, inverses = map(hidden, function() return 0 end), {}, {}
      for row = 1, tokens do
        local part = table.move(x, (row - 1) * hidden + 1, row * hidden, 1, {})
        local centre, square = 0, 0
        for _, v in ipairs(centred and part or {}) do centre = centre + v / hidden end
        for _, v in ipairs(part) do square = square + (v - centre) ^ 2 / hidden end
        means[row], inverses[row] = centre, 1 / math.sqrt(square + 1e-5)
      end
      local ran = cuda_results.run(backend, op, s, "backward",
        { [3] = centred and means or inverses, [4] = centred and inverses or nil })
      local gain, dy, bias = ran.before[1], ran.before[4 + moved], centred and zeroes or nil
      local wanted = { gradient(x, dy, norm(gain, bias)), gradient(gain, dy, function(w) return norm(w, bias)(x) end),
        centred and gradient(zeroes, dy, function(w) return norm(ones, w)(x) end) or nil }
      for place, list in ipairs(wanted) do
        for i, g in ipairs(list) do assert.near(g, ran.after[4 + moved + place][i], 2e-4) end
      end
    end)
  end

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
