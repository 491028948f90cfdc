--- What products and attention compute, against formulas in double precision; gradients against finite differences of
--- those.
local cuda_results = require "cuda_results"
local find = require "ett.base.find"
local operator = require "ett.operator"

if not require("needs").gpu(cuda_results.missing(), "CUDA products and attention", _ENV) then return end

local backend = find.load("samplers", "cuda")
local gradient, map = cuda_results.gradient, cuda_results.map

describe("CUDA products and attention", function()
  local function near(wanted, got, tolerance, what)
    assert.equal(#wanted, #got)
    for i = 1, #wanted do
      if math.abs(wanted[i] - got[i]) > tolerance * math.max(1, math.abs(wanted[i])) then
        error(("%s: element %d is %.6g, must be %.6g"):format(what, i, got[i], wanted[i]))
      end
    end
  end

  -- The stand-in computes no fp16: its conversions are instructions of a GPU.
  for precision, tolerance in pairs { fp32 = 1e-4, bf16 = 2e-2, fp8 = 2e-2,
    fp16 = not os.getenv "ETT_GPU_EXECUTE" and 2e-3 or nil } do
    it("products of every orientation in " .. precision .. " are right", function()
      local m, cols, depth, batch = 16, 32, 48, 2
      for _, turned in ipairs { { false, false }, { false, true }, { true, false }, { true, true } } do
        local trans_a, trans_b = turned[1], turned[2]
        local a_sizes = trans_a and { batch, depth, m } or { batch, m, depth }
        local b_sizes = trans_b and { batch, cols, depth } or { batch, depth, cols }
        local op = { name = "product", kernel = function(k)
          k.gemm { a = k.tensor(a_sizes), b = k.tensor(b_sizes), c = k.tensor { batch, m, cols }, m = m, n = cols,
            k = depth, batch = batch, trans_a = trans_a, trans_b = trans_b, accumulate = true }
        end }
        local ran = cuda_results.run(backend, op, {}, "forward", nil, precision)
        -- Under fp8 the operands are copies with k innermost, whatever the call requests.
        local fp8 = precision == "fp8"
        local a, b = ran.before[fp8 and 4 or 1], ran.before[fp8 and 5 or 2]
        local ta, tb = trans_a and not fp8, trans_b or fp8
        local wanted = map(batch * m * cols, function(i)
          local s, row, column = (i - 1) // (m * cols), (i - 1) // cols % m, (i - 1) % cols
          local sum = ran.before[3][i]
          for j = 0, depth - 1 do
            local x = a[s * m * depth + (ta and j * m + row or row * depth + j) + 1]
            local y = b[s * cols * depth + (tb and column * depth + j or j * cols + column) + 1]
            sum = sum + x * y
          end
          return sum
        end)
        near(wanted, ran.after[3], tolerance, ("%s, %s"):format(trans_a, trans_b))
      end
    end)
  end

  --- One query's output and statistic into out and stats.
  local function attend_query(s, before, b, h, i, out, stats)
    local q, keys, v = before[1], before[2], before[3]
    local d = s.head_dim
    local kv = (b * s.kv_heads + h // (s.heads // s.kv_heads)) * s.seq_k * d
    local at = ((b * s.heads + h) * s.seq_q + i)
    local seen = s.causal ~= 0 and i or s.seq_k - 1
    local weight, sum = {}, 0
    for j = 0, seen do
      local dot = 0
      for c = 1, d do dot = dot + q[at * d + c] * keys[kv + j * d + c] end
      weight[j] = math.exp(dot / math.sqrt(d))
      sum = sum + weight[j]
    end
    stats[at + 1] = math.log(sum)
    for c = 1, d do
      local value = 0
      for j = 0, seen do value = value + weight[j] * v[kv + j * d + c] end
      out[at * d + c] = value / sum
    end
  end

  local function attend(s, before)
    local out, stats = {}, {}
    for b = 0, s.batch - 1 do
      for h = 0, s.heads - 1 do
        for i = 0, s.seq_q - 1 do attend_query(s, before, b, h, i, out, stats) end
      end
    end
    return out, stats
  end

  --- The output of the queries that see one element of q (which = 1), k or v; an element of q is of one query.
  local function attend_of(s, before, which, element)
    local out, place = {}, (element - 1) // s.head_dim
    if which == 1 then
      local head = place // s.seq_q
      attend_query(s, before, head // s.heads, head % s.heads, place % s.seq_q, out, {})
      return out
    end
    local head, group = place // s.seq_k, s.heads // s.kv_heads
    for h = head % s.kv_heads * group, head % s.kv_heads * group + group - 1 do
      for i = 0, s.seq_q - 1 do attend_query(s, before, head // s.kv_heads, h, i, out, {}) end
    end
    return out
  end

  -- fp32: kernels of ett's own (lua/ett/operator/attention.lua); bf16: cuDNN.
  local function attention_right(s, name, precision, tolerance)
    local op = operator.get "flash_attention"
    it(("%s, forward, in %s are right"):format(name, precision), function()
      local ran = cuda_results.run(backend, op, s, "forward", nil, precision)
      local out, stats = attend(s, ran.before)
      near(out, ran.after[4], tolerance, "out")
      near(stats, ran.after[5], tolerance / 10, "stats")
    end)
    it(("%s, backward, in %s are right"):format(name, precision), function()
      -- Its output and statistics must belong to q, k and v: run once to learn these, then again with them.
      local first = cuda_results.run(backend, op, s, "backward", nil, precision)
      local out, stats = attend(s, first.before)
      local ran = cuda_results.run(backend, op, s, "backward", { [4] = out, [5] = stats }, precision)
      local q, keys, v, dout = ran.before[1], ran.before[2], ran.before[3], ran.before[6]
      local function loss_of(which)
        return function(x, element)
          local operands = { q, keys, v }
          operands[which] = x
          return attend_of(s, operands, which, element)
        end
      end
      near(gradient(q, dout, loss_of(1)), ran.after[7], 2 * tolerance, "dq")
      near(gradient(keys, dout, loss_of(2)), ran.after[8], 2 * tolerance, "dk")
      near(gradient(v, dout, loss_of(3)), ran.after[9], 2 * tolerance, "dv")
    end)
  end
  for _, masked in ipairs { 0, 1 } do
    local s = { batch = 2, heads = 4, kv_heads = 2, seq_q = 6, seq_k = 6, head_dim = 8, causal = masked }
    local name = masked == 1 and "causal attention" or "attention"
    attention_right(s, name, "fp32", 1e-4)
    attention_right(s, name, "bf16", 1e-2)
  end
  -- More keys than a block has threads, fewer than a whole tile at the end, more dimensions than threads.
  attention_right({ batch = 1, heads = 1, kv_heads = 1, seq_q = 2, seq_k = 260, head_dim = 2, causal = 0 },
    "attention over several tiles", "fp32", 1e-4)
  attention_right({ batch = 1, heads = 2, kv_heads = 1, seq_q = 4, seq_k = 4, head_dim = 40, causal = 1 },
    "causal attention of wide heads", "fp32", 1e-4)
end)
