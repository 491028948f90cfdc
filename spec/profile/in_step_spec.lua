--- What kernels in a step have beyond their tables: power, quantisation, experts, gathers of quantised operands.
local devices = require "ett.profile.device"
local device_times = require "ett.profile.device_times"
local estimate = require "ett.step.estimate"
local experts = require "ett.profile.kernels.experts"
local in_step = require "ett.profile.in_step"
local kernels = require "ett.profile.kernels"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"
local stack_module = require "ett.operator.stack"

--- Seconds of one pass of an operator on a device.
local function seconds(device, name, shape, dtype, pass, stack)
  return device_times.new(device, stack):operator(name, shape, dtype, pass or "forward").seconds
end

local large = { tokens = 8192, in_features = 8192, out_features = 16384 }

--- Seconds of the products of experts in one grouped kernel. slower: factor on what grows with the tokens.
local function by_experts(device, x, pass, slower, tile, sums)
  local kernel, sum = kernels.of(device, "gemm", "bf16"), 0.0
  local m, n, k, batch = x.tokens, x.out_features, x.in_features, x.batch
  for _, of in ipairs(pass == "forward" and { { m = m, n = n, k = k } }
    or { { m = m, n = k, k = n }, { m = n, n = k, k = m, sums = true } }) do
    of.batch = batch
    local factor = of.sums and sums or 1.0
    sum = sum + factor * experts.seconds(kernel, of, { ways = "grouped", slower = slower, tile = tile })
  end
  return sum
end

describe("kernels in a step", function()
  it("are slower under a power limit, if they need the power", function()
    local free, held = devices.get "h100_sxm", devices.get "h100_sxm"
    held.power_limit_watts = free.power_watts / 2
    local function ratio(name, shape) return seconds(held, name, shape, "bf16") / seconds(free, name, shape, "bf16") end
    local slower = 2 ^ in_step.power_exponent
    assert.near(1, ratio("rms_norm", { tokens = 8192, hidden = 8192 }), 1e-12)
    assert.near(slower, ratio("flash_attention", { batch = 4, heads = 32, kv_heads = 32, seq_q = 4096, seq_k = 4096,
      head_dim = 128 }), 1e-9)
    assert.near(slower, ratio("linear_up", large), 1e-9)
    local spare = devices.get "h20" -- a tenth of the rate at the same power
    spare.power_limit_watts = spare.power_watts * 0.8
    assert.near(seconds(devices.get "h20", "linear_up", large, "bf16"), seconds(spare, "linear_up", large, "bf16"),
      1e-12)
  end)

  it("are slowed once by a power limit that their rate alone respects", function()
    local function factor(name, dtype)
      local times = device_times.new(devices.get(name))
      return times:operator("linear_up", large, dtype, "forward").seconds
        / times:at_burst():operator("linear_up", large, dtype, "forward").seconds
    end
    assert.near(factor("h100_sxm", "bf16"), factor("h100_pcie", "bf16"), 1e-9)
    assert.near((700 / 350) ^ in_step.power_exponent, factor("h100_pcie", "fp8") / factor("h100_sxm", "fp8"), 1e-3)
    -- MI350X has MI355X's table; products of MI325X follow from the rate that it sustains.
    assert.near((1400 / 1000) ^ in_step.power_exponent, factor("mi350x", "bf16") / factor("mi355x", "bf16"), 1e-3)
    for _, dtype in ipairs { "bf16", "fp8" } do
      assert.near(factor("mi300x", dtype), factor("mi325x", dtype), 1e-3)
    end
    local device = devices.get "h100_pcie"
    local free = seconds(device, "linear_up", large, "bf16")
    device.power_limit_watts = 250
    assert.near((350 / 250) ^ in_step.power_exponent, seconds(device, "linear_up", large, "bf16") / free, 1e-9)
    -- RTX PRO 6000 has tables of its own at its 600 W: neither its products nor its attention are slowed again.
    local rtx = devices.get "rtx_pro_6000"
    assert.near(in_step.products.blackwell.bf16, factor("rtx_pro_6000", "bf16"), 1e-9)
    assert.near((1200 / 600) ^ in_step.power_exponent * in_step.products.blackwell.other,
      factor("rtx_pro_6000", "fp8"), 1e-3)
    local laws = kernels.laws(rtx).laws
    local x = { batch = 4, heads = 32, kv_heads = 8, seq_q = 8192, seq_k = 8192, head_dim = 128, value_dim = 128,
      causal = 1, window = 0 }
    local alone = require("ett.profile.kernels.attention_training").seconds(rtx, laws, "bf16", "forward", x)
    assert.near(in_step.attention.cudnn.blackwell[1], seconds(rtx, "flash_attention", x, "bf16") / alone, 1e-9)
  end)

  it("of attention on TPUs follow the matrix units and the kernel; products and other devices do not", function()
    local x = { batch = 4, heads = 32, kv_heads = 8, seq_q = 8192, seq_k = 8192, head_dim = 128 }
    local function ratio(name, kernel, pass)
      local stack = stack_module.get "maxtext"
      stack.attention = kernel
      return seconds(devices.get(name), "flash_attention", x, "bf16", pass)
        / seconds(devices.get(name), "flash_attention", x, "bf16", pass, stack)
    end
    for _, kernel in ipairs { "splash", "tokamax", "pallas_flash" } do
      assert.equal(1, ratio("tpu_v5p", kernel, "forward"))
      assert.equal(1, ratio("h100_sxm", kernel, "backward"))
    end
    local v7x, stack = devices.get "tpu_v7x", stack_module.get "maxtext"
    local pairs_of_blocks = 4 * 32 * 8192 * (4096 + 1024)
    local least = 2 * 2 * 128 * pairs_of_blocks / v7x:peak "bf16"
    assert.near(0.245, least / seconds(v7x, "flash_attention", x, "bf16", "forward", stack), 1e-3)
    assert.near(0.408, 2.5 * least / seconds(v7x, "flash_attention", x, "bf16", "backward", stack), 1e-3)
    -- Neither another kernel nor one in 8 bits was measured on large matrix units.
    local wide = seconds(v7x, "flash_attention", x, "bf16", "forward", stack)
    for _, other in ipairs { { "cudnn", "bf16" }, { "flash2", "bf16" }, { "splash", "fp8" }, { "cudnn", "fp8" } } do
      stack.attention, stack.attention_dtype = table.unpack(other)
      assert.equal(wide, seconds(v7x, "flash_attention", x, "bf16", "forward", stack), other[1])
    end
    stack.attention_dtype = "bf16"
    stack.attention = "tokamax"
    assert.near(0.372, least / seconds(v7x, "flash_attention", x, "bf16", "forward", stack), 1e-3)
    local function factor(name)
      local times = device_times.new(devices.get(name))
      return times:operator("linear_up", large, "bf16", "forward").seconds
        / times:at_burst():operator("linear_up", large, "bf16", "forward").seconds
    end
    assert.near(in_step.products.tpu.bf16, factor "tpu_v6e", 1e-9)
    assert.near(in_step.products.other.bf16, factor "tpu_v5p", 1e-9)
  end)

  it("of attention are at most as fast as cuDNN's; FlashAttention 3 and 4 are as fast", function()
    local shape = { batch = 4, heads = 32, kv_heads = 32, seq_q = 4096, seq_k = 4096, head_dim = 128 }
    for _, name in ipairs { "a100_sxm", "h100_sxm", "b200_sxm", "gb300", "tpu_v5p", "mi300x", "mi355x" } do
      for _, pass in ipairs { "forward", "backward" } do
        local function by(kernel)
          local stack = setmetatable({ attention = kernel }, { __index = stack_module.get "plain" })
          return seconds(devices.get(name), "flash_attention", shape, "bf16", pass, stack)
        end
        local least = by "cudnn"
        assert.equal(least, by "flash3", name)
        assert.equal(least, by "flash4", name)
        local amd = devices.get(name).generation:find "^cdna" -- PyTorch has cuDNN on NVIDIA's devices alone
        assert.equal(amd and by "flash2" or least, by "sdpa", name)
        for _, kernel in ipairs { "flash1", "flash1_triton", "flash2" } do
          assert.is_true(by(kernel) >= least, ("%s %s %s"):format(name, kernel, pass))
        end
      end
    end
  end)

  it("of FlashAttention 2 reach the rates that were measured on H100", function()
    -- Tokens, TFLOP/s forward with a causal mask and backward without one: arXiv 2407.08608, figures 5 and 6.
    local stack = setmetatable({ attention = "flash2" }, { __index = stack_module.get "plain" })
    for _, row in ipairs { { 2048, 298, 291 }, { 4096, 319, 310 }, { 8192, 333, 318 }, { 16384, 335, 322 } } do
      local seq = row[1]
      local function rate(pass, causal, flops)
        return flops * 2048.0 * 16384 * seq / 1e12 / seconds(devices.get "h100_sxm", "flash_attention",
          { batch = 16384 // seq, heads = 16, kv_heads = 16, seq_q = seq, seq_k = seq, head_dim = 128,
            causal = causal }, "bf16", pass, stack)
      end
      assert.near(row[2], rate("forward", 1, 2), 0.06 * row[2])
      assert.near(row[3], rate("backward", 0, 10), 0.06 * row[3])
    end
  end)

  it("of FlashAttention 2 compute heads whose dimension is the next multiple of 32", function()
    local function of(name, kernel, head_dim)
      local stack = setmetatable({ attention = kernel }, { __index = stack_module.get "plain" })
      return seconds(devices.get(name), "flash_attention", { batch = 8, heads = 16, kv_heads = 16, seq_q = 4096,
        seq_k = 4096, head_dim = head_dim, causal = 0 }, "bf16", "forward", stack)
    end
    assert.equal(of("a100_sxm", "flash2", 96), of("a100_sxm", "flash2", 72))
    assert.is_true(of("h100_sxm", "flash2", 64) < of("h100_sxm", "flash2", 65))
    assert.is_true(of("a100_sxm", "cudnn", 72) < of("a100_sxm", "cudnn", 96))
    assert.is_true(of("mi300x", "flash2", 72) < of("mi300x", "flash2", 96))
  end)

  it("of FlashAttention 2 reach the rates that were measured on B200, and those of B300 are no higher", function()
    local stack = setmetatable({ attention = "flash2" }, { __index = stack_module.get "plain" })
    local function rate(name, seq, head_dim, pass, flops)
      local width = head_dim * (head_dim == 128 and 8 * 16 or 32 * 16384 // seq) -- over all sequences and heads
      return flops * width * seq ^ 2 / 1e12 / seconds(devices.get(name), "flash_attention",
        { batch = width // head_dim // 16, heads = 16, kv_heads = 16, seq_q = seq, seq_k = seq, head_dim = head_dim,
          causal = 0 }, "bf16", pass, stack)
    end
    -- Tokens, TFLOP/s forward with heads of 128 and 64, and backward with heads of 64: in_step.attention_rate.
    for _, row in ipairs { { 2048, 352, 381, 302 }, { 4096, 354, 307, 315 }, { 8192, 362, 343, 329 },
      { 16384, 331, 379, 334 } } do
      local seq = row[1]
      assert.near(row[2], rate("b200_sxm", seq, 128, "forward", 4), 0.06 * row[2])
      assert.near(row[3], rate("b200_sxm", seq, 64, "forward", 4), 0.15 * row[3])
      assert.near(row[4], rate("b200_sxm", seq, 64, "backward", 10), 0.07 * row[4])
      assert.near(rate("b200_sxm", seq, 128, "forward", 4), rate("b300_sxm", seq, 128, "forward", 4), 1e-6)
    end
    -- RTX PRO 6000 has no other instructions: its newest kernel is below these rates.
    local cudnn = setmetatable({ attention = "cudnn" }, { __index = stack_module.get "plain" })
    local shape = { batch = 8, heads = 16, kv_heads = 16, seq_q = 4096, seq_k = 4096, head_dim = 128 }
    local rtx = devices.get "rtx_pro_6000"
    local least = seconds(rtx, "flash_attention", shape, "bf16", "forward", cudnn)
    assert.is_true(seconds(rtx, "flash_attention", shape, "bf16", "forward", stack) <= least * 1.0001)
  end)

  it("of PyTorch's memory-efficient attention with a mask take the measured times, with any mask", function()
    local stack = setmetatable({ attention = "efficient" }, { __index = stack_module.get "plain" })
    local function milliseconds(heads, seq, pass, causal, window)
      return 1e3 * seconds(devices.get "a100_sxm", "flash_attention", { batch = heads // 16, heads = 16, kv_heads = 16,
        seq_q = seq, seq_k = seq, head_dim = 128, causal = causal, window = window }, "bf16", pass, stack)
    end
    assert.near(49.8, milliseconds(160, 8096, "forward", 1), 0.05 * 49.8) -- facebookresearch/xformers#389
    assert.near(56.5, milliseconds(160, 4096, "backward", 1), 0.1 * 56.5) -- #557
    assert.near(93.6, milliseconds(320, 4096, "backward", 1), 0.1 * 93.6)
    for _, pass in ipairs { "forward", "backward" } do
      assert.equal(milliseconds(160, 4096, pass, 0), milliseconds(160, 4096, pass, 1))
      assert.equal(milliseconds(160, 4096, pass, 0), milliseconds(160, 4096, pass, 1, 512))
    end
  end)

  it("of PyTorch's memory-efficient attention are on no device faster than FlashAttention 2", function()
    local compared = 0
    for _, name in ipairs(devices.names()) do
      local device = devices.get(name)
      for _, pass in ipairs { "forward", "backward" } do
        for _, window in ipairs { 0, 1024 } do
          local function of(kernel)
            return seconds(device, "flash_attention", { batch = 2, heads = 32, kv_heads = 8, seq_q = 4096, seq_k = 4096,
              head_dim = 128, causal = 1, window = window > 0 and window or nil }, "bf16", pass,
              setmetatable({ attention = kernel }, { __index = stack_module.get "plain" }))
          end
          local masked, flash2 = of "efficient", of "flash2"
          assert.is_true(masked >= flash2, ("%s, %s: %g and %g s"):format(name, pass, masked, flash2))
          compared = compared + 1
        end
      end
    end
    assert.is_true(compared > 80)
  end)

  it("of AITER reach the rates that were measured on AMD, and PyTorch's kernels on AMD are slower", function()
    local function rate(device, kernel, seq, pass, batch, heads, kv_heads)
      local stack = setmetatable({ attention = kernel }, { __index = stack_module.get "plain" })
      local shape = { batch = batch or 16, heads = heads or 16, kv_heads = kv_heads or 16, seq_q = seq, seq_k = seq,
        head_dim = 128, causal = 1 }
      return (pass == "forward" and 2 or 5) * shape.batch * shape.heads * seq ^ 2 * 128 / 1e12
        / seconds(devices.get(device), "flash_attention", shape, "bf16", pass, stack)
    end
    -- TFLOP/s forward with a causal mask, measured alone: HazyResearch/HipKittens, analysis/attn/fwd/plot.py.
    for seq, measured in pairs { [2048] = 698, [4096] = 953, [8192] = 909, [16384] = 953 } do
      local alone = rate("mi350x", "cudnn", seq, "forward") * in_step.attention.cudnn.cdna4[1]
      assert.near(measured, alone, 0.13 * measured)
    end
    -- In a step of Qwen3-30B: AMD-AGI/Primus, agent/workspace/qwen3_fp8_tw_gfx950_20261010/prompt.md.
    assert.near(1082, rate("mi355x", "cudnn", 4096, "forward", 8, 32, 4), 0.05 * 1082)
    assert.near(888, rate("mi355x", "cudnn", 4096, "backward", 8, 32, 4), 0.04 * 888)
    -- AMD on Primus: AITER's kernels take 47 and 75 % less time.
    for _, name in ipairs { "mi300x", "mi325x", "mi355x" } do
      local function share(pass) return rate(name, "flash2", 8192, pass) / rate(name, "cudnn", 8192, pass) end
      assert.near(0.53, share "forward", 0.01)
      assert.near(0.25, share "backward", 0.01)
    end
    -- AITER has no kernels for MI250X: the share of the peak rate is that of the other kernels on MI300X.
    for _, pass in ipairs { "forward", "backward" } do
      local here, there = devices.get "mi250x_die", devices.get "mi300x"
      assert.near(rate("mi300x", "flash2", 8192, pass) / there:peak "bf16",
        rate("mi250x_die", "cudnn", 8192, pass) / here:peak "bf16", 0.01)
    end
  end)

  it("merge attention to the blocks of other context-parallel ranks", function()
    -- 8 ranks of 16384 queries, 32 heads of 128 values, 8 of keys; the bytes are those of in_step.merge.
    local shape = { batch = 1, heads = 32, kv_heads = 8, seq_q = 16384, seq_k = 8 * 16384, head_dim = 128, shards = 8 }
    local ring = setmetatable({ ring = 8 }, { __index = shape })
    local queries, keys = 16384 * 32 * 128.0, 16384 * 8 * 256.0
    for pass, bytes in pairs { forward = { 6 * queries + 2 * keys, 46 * queries },
      backward = { 9 * queries + 6 * keys, 60 * queries } } do
      local device = devices.get "h100_sxm"
      local stream = device.memory_bandwidth * in_step.stream_share
      local function by(merge, s)
        local stack = setmetatable({ context_parallel = merge }, { __index = stack_module.get "plain" })
        return seconds(device, "flash_attention", s, "bf16", pass, stack)
      end
      local alone = by("te", ring) - 7 * bytes[1] / stream
      assert.near(7 * bytes[2] / stream, by("torch", ring) - alone, 1e-9 * alone)
      assert.near(by("torch", ring), by("torch", shape), 1e-9 * alone)
    end
    for _, name in ipairs { "torchtitan", "fsdp_eager", "transformers" } do
      assert.equal("torch", stack_module.get(name).context_parallel)
    end
  end)

  it("leave multiprocessors idle at the end of a ring's last kernel, or in one stream of each", function()
    local device, training = devices.get "b200_sxm", require "ett.profile.kernels.attention_training"
    local laws = require("ett.profile.kernels").laws(device).laws
    local rows, cp = 4096, 4
    local x = { batch = 1, heads = 2, head_dim = 128, value_dim = 128, causal = 0, window = 0, seq_q = rows,
      seq_k = cp * rows, shards = cp, blocks = cp }
    local one = setmetatable({ seq_k = rows, shards = false }, { __index = x })
    local function launched(n) return n * 4e-6 end
    local busy = training.seconds(device, laws, "bf16", "forward", one, true) - launched(1)
    local idle = (training.seconds(device, laws, "bf16", "forward", one) - launched(1)) / busy
    assert.is_true(idle > 1.2)
    local function ring(filled) return training.by_blocks(device, laws, "bf16", "forward", x, filled) - launched(cp) end
    assert.near(cp * idle * busy, ring(false), 1e-9)
    assert.near((cp - 1 + idle) * busy, ring(true), 1e-9)
    -- Transformer Engine's forward pass has two streams, its backward pass and PyTorch one.
    local function by(software, pass, shards)
      local shape = { batch = 1, heads = 2, kv_heads = 2, seq_q = rows, seq_k = (shards or 1) * rows, head_dim = 128,
        causal = 0, shards = shards, ring = shards }
      local stack = setmetatable({ context_parallel = software }, { __index = stack_module.get "plain" })
      local stream = device.memory_bandwidth * in_step.stream_share
      local bytes, values = in_step.merge[software][pass], rows * 2 * 128.0
      return seconds(device, "flash_attention", shape, "bf16", pass, stack)
        - (shards and (cp - 1) * (bytes[1] + 2 * bytes[2]) * values / stream or 0)
    end
    assert.is_true(by("te", "forward", cp) < 0.95 * cp * by("te", "forward"))
    assert.near(cp * by("te", "backward"), by("te", "backward", cp), 1e-9)
    for _, pass in ipairs { "forward", "backward" } do
      assert.near(cp * by("torch", pass), by("torch", pass, cp), 1e-9)
    end
  end)

  it("attend to each block of a ring in a kernel of its own", function()
    local plain = stack_module.get "plain"
    local cp, rows, heads = 4, 2048, 32
    local device = devices.get "h100_sxm"
    local stream = device.memory_bandwidth * in_step.stream_share
    for pass, bytes in pairs { forward = 6 + 2 * 2, backward = 9 + 6 * 2 } do -- of in_step.merge, as many heads of keys
      local function by(queries, keys, causal, more)
        return seconds(device, "flash_attention", merged({ batch = 1, heads = heads, kv_heads = heads, seq_q = queries,
          seq_k = keys, head_dim = 128, causal = causal }, more), "bf16", pass, plain)
      end
      local merging = (cp - 1) * bytes * rows * heads * 128 / stream
      -- The last rank: half of the keys of each other block, for all its queries.
      local each = by(rows, rows, 1) + (cp - 1) * by(rows, rows // 2, 0)
      assert.near(each + merging, by(rows, cp * rows, 1, { shards = cp, ring = cp }), 1e-9)
      assert.is_true(each > 1.1 * by(rows, cp * rows, 1, { shards = cp })) -- one kernel after a gather
      -- One chunk of the sequence on each rank: the last rank needs all pairs of every other block.
      local single = by(rows, cp * rows, 1, { ring = cp })
      assert.near(by(rows, rows, 1) + (cp - 1) * by(rows, rows, 0) + merging, single, 1e-9)
      -- Without a mask, every block is whole. On H100, no multiprocessor waits at the end of such kernels.
      assert.near(cp * by(rows, rows, 0) + merging, by(rows, cp * rows, 0, { shards = cp, ring = cp }), 1e-9)
    end
  end)

  it("of attention time heads of 72 values as heads of 80", function()
    for _, name in ipairs { "h100_sxm", "h200_sxm", "b200_sxm", "l40s" } do
      local function by(head_dim, pass)
        return seconds(devices.get(name), "flash_attention", { batch = 4, heads = 16, kv_heads = 16, seq_q = 4096,
          seq_k = 4096, head_dim = head_dim }, "bf16", pass)
      end
      for _, pass in ipairs { "forward", "backward" } do
        assert.near(by(80, pass), by(72, pass), 1e-2 * by(80, pass))
        assert.near(by(112, pass), by(100, pass), 1e-2 * by(112, pass))
      end
    end
  end)

  it("are those of the tables' neighbours in order: more power and a higher peak are never slower", function()
    for _, dtype in ipairs { "bf16", "fp8", "nvfp4" } do
      local b200, gb200, gb300 = seconds(devices.get "b200_sxm", "linear_up", large, dtype),
        seconds(devices.get "gb200", "linear_up", large, dtype), seconds(devices.get "gb300", "linear_up", large, dtype)
      assert.is_true(gb300 < gb200 and gb200 < b200, dtype)
    end
  end)

  it("take mxfp8's products from the tables of quantised blocks, with its own factor; so do blocks of fp8", function()
    local device, x = devices.get "gb300", { m = 8192, n = 16384, k = 8192 }
    local table_seconds = require("ett.profile.kernels").of(device, "gemm", "fp8_block"):predict(x)
    local power = (in_step.reference_watts.blackwell / device.power_watts) ^ in_step.power_exponent
    assert.near(in_step.products.blackwell.mxfp8 * power * table_seconds, seconds(device, "linear_up", large, "mxfp8"),
      1e-9)
    assert.near(seconds(device, "linear_up", large, "mxfp8"), seconds(device, "linear_up", large, "fp8_block"), 1e-9)
  end)

  it("take mxfp4's products from AMD's tables, elsewhere from those of nvfp4", function()
    assert.equal(seconds(devices.get "gb300", "linear_up", large, "nvfp4"),
      seconds(devices.get "gb300", "linear_up", large, "mxfp4"))
    -- TFLOP/s of AITER's kernels on MI355X: AMD-AGI/Primus-Turbo pull request 514.
    for shape, rate in pairs { ["32768 6144 4096"] = 4454, ["32768 4096 4096"] = 4495, ["32768 28672 4096"] = 4490,
      ["32768 4096 14336"] = 5254, ["32768 4096 6144"] = 4696 } do
      local m, n, k = shape:match "(%d+) (%d+) (%d+)"
      local found = kernels.of(devices.get "mi355x", "gemm", "mxfp4"):predict { m = m + 0, n = n + 0, k = k + 0 }
      assert.near(1, 2.0 * m * n * k / found / (rate * 1e12), 0.07, shape)
    end
    assert.equal("mi355x", kernels.of(devices.get "mi350x", "gemm", "mxfp4").from)
    for name, has in pairs { h200_sxm = false, mi325x = false, mi350x = true, b200_sxm = true, l40s = false } do
      assert.equal(has, table.concat(devices.get(name):dtypes(), " "):find("mxfp4", 1, true) ~= nil, name)
    end
  end)

  it("quantise operands besides the two products of a backward pass", function()
    local device, m, k, n = devices.get "b200_sxm", 8192, 8192, 16384
    local bytes = { fp8 = 2 * m * k, nvfp4 = 2 * 0.5625 * m * k + 4 * (m * k + m * n),
      mxfp4 = 2 * 0.53125 * m * k }
    for dtype, moved in pairs(bytes) do
      local products = seconds(device, "linear_up", { tokens = m, in_features = n, out_features = k }, dtype)
        + seconds(device, "linear_up", { tokens = n, in_features = m, out_features = k }, dtype)
      local all = seconds(device, "linear_up", large, dtype, "backward")
      assert.near(moved / (device.memory_bandwidth * in_step.stream_share), all - products, 1e-9 * all)
    end
  end)

  it("cast each operand once on AMD, whose tables lack it", function()
    local m, k, n = 8192, 8192, 16384
    for name, tables in pairs { mi300x = "cdna3", mi325x = "cdna3", mi355x = "cdna4" } do
      local device = devices.get(name)
      local times = device_times.new(device)
      for pass, x in pairs { forward = { values = m * k, { m, n, k } },
        backward = { values = m * n, { m, k, n }, { n, k, m } } } do
        local products = 0.0
        for _, of in ipairs(x) do
          products = products + kernels.of(device, "gemm", "fp8"):predict { m = of[1], n = of[2], k = of[3] }
        end
        local found = times:at_burst():operator("linear_up", large, "fp8", pass)
        local cast = 4.0 * x.values / (device.memory_bandwidth * in_step.cast_share[tables])
        assert.near(products + cast, found.seconds, 1e-9 * found.seconds)
        assert.near(cast / found.seconds, found.quantisation_share, 1e-9)
      end
    end
  end)

  it("give the share of quantisation in their time, and keep the head in 16 bits", function()
    local model = require("ett.model").new("llama", { layers = 2, hidden = 4096, heads = 32, ffn = 16384,
      vocab = 32000 })
    local function lines(dtype)
      local of = {}
      for _, line in ipairs(require("ett.step.estimate").new { model = model, cluster = "dgx_b200",
        plan = { seq = 4096, micro_batches = 2, dtype = dtype } }.operators) do of[line.name] = line end
      return of
    end
    local wide = lines "bf16"
    assert.is_nil(wide.linear_up.quantisation_seconds)
    for _, dtype in ipairs { "fp8", "mxfp8", "nvfp4" } do
      local of = lines(dtype)
      local share = of.linear_up.quantisation_seconds / of.linear_up.seconds
      assert.is_true(share > 0.02 and share < 0.6, dtype .. tostring(share))
      assert.is_nil(of.lm_head.quantisation_seconds)
      assert.equal(wide.lm_head.seconds, of.lm_head.seconds)
    end
  end)

  it("of attention heads slow down with the clock by their arithmetic share; misaligned rows are slower", function()
    local device, scores = devices.get "a100_sxm", { batch = 256, tokens = 2048, in_features = 64, out_features = 2048 }
    local burst = device_times.new(device):at_burst()
    local function slower(shape)
      return seconds(device, "bmm_qk", shape, "fp16") / burst:operator("bmm_qk", shape, "fp16", "forward").seconds
    end
    local short = slower(scores)
    scores.in_features = 1024
    assert.is_true(1 < short and short < slower(scores) and slower(scores) < in_step.products.ampere.bf16)
    -- TFLOP/s of fp16 products of 8192 rows on A100, alone: EleutherAI/cookbook, sizing/results. Odd rows: 71 to 76
    -- there; the factor is a mean with two other sources.
    for _, row in ipairs { { 51200, 14336, 261 }, { 51200, 14338, 172.6 }, { 51202, 14336, 139.7 },
      { 51204, 14336, 141.7 }, { 51208, 14336, 226.4 }, { 51201, 14336, 100 }, { 51200, 14337, 100 } } do
      local head = { tokens = 8192, in_features = row[1], out_features = row[2] }
      local alone = burst:operator("lm_head", head, "fp16", "forward").seconds
      assert.near(row[3], 2.0 * 8192 * row[1] * row[2] / alone / 1e12, 0.05 * row[3])
    end
    local function extra(width) -- of both products of a backward pass, over the time of their FLOPs at the peak
      local function time(n)
        return burst:operator("lm_head", { tokens = 8192, in_features = 4096, out_features = n }, "fp16",
          "backward").seconds
      end
      return (time(width) - time(51200)) / (2.0 * 8192 * 4096 * 51200 / 312e12)
    end
    assert.near(1.65, extra(51202), 0.05)
    assert.near(3.8, extra(51201), 0.05)
    local function on_tpu(width)
      local head = { tokens = 4096, in_features = 1024, out_features = width }
      return seconds(devices.get "tpu_v6e", "lm_head", head, "bf16")
    end
    assert.is_true(on_tpu(50257) < 1.1 * on_tpu(50256))
  end)

  it("take as long in a step on TPUs as in the profile of a step of Qwen3-8B on eight v6e", function()
    local device, stack, sum = devices.get "tpu_v6e", stack_module.get "maxtext", 0.0
    local function layer(inputs, outputs, forwards)
      local x = { tokens = 3 * 8192, in_features = inputs, out_features = outputs }
      sum = sum + 36 * (forwards * seconds(device, "linear_up", x, "bf16", "forward", stack)
        + seconds(device, "linear_up", x, "bf16", "backward", stack))
    end
    layer(4096, 4096 + 2 * 1024, 1) -- stored on the host, not repeated
    layer(4096, 4096, 1)
    layer(4096, 2 * 12288, 2)
    layer(12288, 4096, 1)
    local head = { tokens = 3 * 8192, in_features = 4096, out_features = 151936 }
    for _, pass in ipairs { "forward", "backward" } do
      sum = sum + seconds(device, "lm_head", head, "bf16", pass, stack)
    end
    assert.near(1.791, sum, 0.03 * 1.791)
  end)

  it("of heads use no tensor cores under BLOOM's software if their dimension is not a multiple of 8", function()
    local function times(stack, width, pass)
      local heads = { batch = 48, tokens = 2048, in_features = width, out_features = 2048 }
      return device_times.new(devices.get "a100_sxm", stack):operator("bmm_qk", heads, "fp16", pass)
    end
    local old, plain = require("ett.operator.stack").get "megatron_deepspeed", require("ett.operator.stack").get "plain"
    for pass, products in pairs { forward = 1, backward = 2 } do
      assert.equal(times(plain, 144, pass).seconds, times(old, 144, pass).seconds)
      local slow = times(old, 150, pass)
      assert.is_true(slow.seconds > 5 * times(plain, 150, pass).seconds)
      local rate = products * 2.0 * 48 * 2048 * 150 * 2048 / slow.seconds
      assert.is_true(rate > 0.5 * 19.5e12 and rate < 19.5e12)
      assert.is_true(slow.low_seconds < slow.seconds and slow.seconds < slow.high_seconds)
    end
  end)

  it("take the time of their bytes in dropout, and that of instructions in a scan", function()
    local device = devices.get "a100_sxm"
    local rate = device.memory_bandwidth * in_step.stream_share
    assert.near(5 * 8192 * 2048, (seconds(device, "dropout", { rows = 8192, cols = 2048 }, "fp16") - 2e-6) * rate, 1e3)
    local scan = { tokens = 4096, channels = 4096, state = 64 }
    -- 128 instructions in each of 0.6 cycles, each as long as two FLOPs.
    local other = devices.get "mi300x"
    local flops = 2 * 128 * 0.6 * 4096 * 4096 * 64
    assert.near(flops / other.peak_flops.fp32, seconds(other, "selective_scan", scan, "bf16") - 2e-6, 1e-5)
  end)

  it("include small kernels: bias gradients, streams, norms and copies of gradients", function()
    local device, stack = devices.get "a100_sxm", stack_module.get "plain"
    local rate = device.memory_bandwidth * in_step.stream_share
    local function more(name, shape, dtype, pass, change)
      local before = seconds(device, name, shape, dtype, pass, stack)
      change()
      return (seconds(device, name, shape, dtype, pass, stack) - before) * rate
    end
    local up = { tokens = 8192, in_features = 8192, out_features = 16384 }
    assert.near(2 * 8192 * 16384, more("linear_up", up, "fp16", "backward", function() up.bias = 1 end), 1e3)
    stack.fused_bias_gradients = true
    assert.near(0, more("linear_up", up, "fp16", "backward", function() up.bias = nil end), 1e3)
    local update = { params = 1000000 }
    local whole = seconds(device, "optimizer", update, "fp16", "update", stack) * rate
    assert.near((30 + 24) * 1e6, whole - 2e-6 * rate, 1e3)
    assert.near(28e6, more("optimizer", update, "fp16", "update", function() stack.gradient_copy_bytes = 28 end), 1e3)
    stack.gradient_copy_bytes = 0
    assert.near(52e6, more("optimizer", update, "bf16", "update", function() stack.update = "foreach" end), 1e3)
    local stream = { tokens = 4096, hidden = 4096 }
    local added = seconds(device, "bias_dropout_add", stream, "fp16", "backward") * rate
    assert.near(11 * 4096 * 4096, added - 2e-6 * rate, 1e3)
  end)

  it("compute a tile that two experts share for both, in each partition of a device", function()
    local device, stack = devices.get "tpu_v7x", stack_module.get "maxtext"
    local expert = { batch = 4, tokens = 2048, in_features = 4096, out_features = 4096 }
    for _, pass in ipairs { "forward", "backward" } do
      local function of_products(tile)
        return by_experts(device, expert, pass, in_step.products.tpu.bf16, tile, in_step.grouped.tpu_sums)
      end
      local shared = seconds(device, "expert_linear1", expert, "bf16", pass, stack)
      assert.near(1, shared / of_products(1024), 1e-9)
      stack.grouped_tile = 0
      local alone = seconds(device, "expert_linear1", expert, "bf16", pass, stack)
      assert.near(1, alone / of_products(0), 1e-9)
      assert.near(1 + 3 / 4 * 512 / 1024, shared / alone, 0.04) -- of the arithmetic; the weights are read once
      stack.grouped_tile = 512
    end
  end)

  it("move tokens to experts of a fixed capacity by products with one-hot masks under MaxText", function()
    local model = require("ett.model").new("mixtral", { layers = 2, hidden = 2048, heads = 16, ffn = 4096,
      vocab = 32000, experts = 8, top_k = 2 })
    local function of(stack, padded)
      local lines = {}
      for _, line in ipairs(estimate.new { model = model, cluster = "tpu_v6e", plan = { seq = 4096, micro_batch = 4,
        micro_batches = 1, stack = stack, capacity_factor = padded and 1.25 or nil, pad_to_capacity = padded or nil,
        recompute = "none" } }.operators) do lines[line.name] = line.seconds end
      return lines
    end
    local free, padded, other = of("maxtext", false), of("maxtext", true), of("maxtext:one_hot_experts=none", true)
    -- Four sequences of 4096 tokens with 10240 places: two products of the tokens, three of the outputs, in two layers.
    local function products(m, n, k)
      return seconds(devices.get "tpu_v6e", "linear_up", { tokens = 4 * m, in_features = k, out_features = n }, "bf16",
        "forward", stack_module.get "maxtext")
    end
    local there, back = products(10240, 2048, 4096), products(4096, 2048, 10240)
    assert.near(1, 2 * (there + back) / padded.moe_permute, 1e-9)
    assert.near(1, 2 * (back + there + products(4096, 10240, 2048)) / padded.moe_unpermute, 1e-9)
    assert.equal(free.moe_permute, other.moe_permute)
    -- One mask of all 16384 tokens, as in DeepSpeed, has four times the work.
    local whole = of("maxtext:one_hot_experts=micro_batch", true)
    local function one(m, n, k)
      return seconds(devices.get "tpu_v6e", "linear_up", { tokens = m, in_features = k, out_features = n }, "bf16",
        "forward", stack_module.get "maxtext")
    end
    assert.near(1, 2 * (one(40960, 2048, 16384) + one(16384, 2048, 40960)) / whole.moe_permute, 1e-9)
    assert.near(4, whole.moe_unpermute / padded.moe_unpermute, 0.3)
    -- Experts compute their whole capacity, without tiles that two experts share and without Megablox's sums.
    assert.is_true(other.expert_linear1 > 1.15 * free.expert_linear1)
    assert.is_true(padded.expert_linear1 < 0.9 * other.expert_linear1)
  end)

  it("of experts on TPUs take the time of a profiled step of DeepSeek-V3 on v7x", function()
    local device, stack = devices.get "tpu_v7x", stack_module.get "maxtext"
    local forward, backward = 0.0, 0.0
    for _, size in ipairs { { 7168, 2048 }, { 7168, 2048 }, { 2048, 7168 } } do
      -- On both devices of a chip, in two parts.
      local x = { batch = 64, tokens = 2 * 131072 / 64, in_features = size[1], out_features = size[2] }
      forward = forward + 2 * 58 * seconds(device, "expert_linear1", x, "bf16", "forward", stack)
      backward = backward + 2 * 58 * seconds(device, "expert_linear1", x, "bf16", "backward", stack)
    end
    assert.near(1.833, forward, 0.03 * 1.833)
    assert.near(1.801 + 3.028, backward, 0.03 * 4.829)
  end)

  it("of experts never take less time with more tokens, and never less than memory takes for their operands", function()
    local function grow(name, software, pass, dtype, size)
      local device, stack, last = devices.get(name), stack_module.get(software), 0.0
      local batch, inputs, outputs = table.unpack(size)
      for _, count in ipairs { 1, 8, 16, 32, 48, 64, 80, 88, 90, 112, 127, 128, 129, 152, 160, 192, 256, 320, 384, 512,
        4096, 16384 } do
        local expert = { batch = batch, tokens = count, in_features = inputs, out_features = outputs }
        local now = seconds(device, "expert_linear1", expert, dtype, pass, stack)
        local what = ("%s %s %s %s %d"):format(name, software, dtype, pass, count)
        assert.is_true(now >= last, what)
        last = now
        -- The weight, an input and an output; backward twice.
        local bytes = batch * (schema.dtype_bytes[dtype] * (outputs + count) * inputs + 2.0 * count * outputs)
        assert.is_true(now >= (pass == "backward" and 2 or 1) * bytes / device.memory_bandwidth, what)
      end
    end
    for _, name in ipairs { "h100_sxm", "h20", "l40s", "gb300", "mi300x", "tpu_v6e" } do
      for _, dtype in ipairs { "bf16", "fp8", "nvfp4" } do
        for _, pass in ipairs(devices.get(name):peak(dtype) and { "forward", "backward" } or {}) do
          for _, software in ipairs { "torchtitan", "megatron", "maxtext" } do
            grow(name, software, pass, dtype, { 16, 4096, 3072 })
          end
          grow(name, "maxtext", pass, dtype, { 8, 5120, 16384 })
        end
      end
    end
  end)

  it("of experts have an interval, also if they only start", function()
    local times = device_times.new(devices.get "h100_sxm")
    for _, count in ipairs { 1, 64, 4096 } do
      local found = times:operator("expert_linear1", { batch = 2, tokens = count, in_features = 64, out_features = 64 },
        "bf16", "forward")
      assert.is_true(found.low_seconds < 0.95 * found.seconds and found.high_seconds > 1.05 * found.seconds, count)
    end
  end)

  it("copy rows by index at their own rate where a device states one", function()
    local device = devices.get "tpu_v5p"
    local tokens = { tokens = 16384, hidden = 4096, top_k = 8, experts = 64 }
    for _, name in ipairs { "moe_permute", "moe_unpermute", "moe_router" } do
      local slow = seconds(device, name, tokens, "bf16", "forward")
      device.gather_share = nil
      local ratio = slow / seconds(device, name, tokens, "bf16", "forward")
      device.gather_share = 0.035
      assert.near(name == "moe_router" and 1 or 0.8 / 0.035, ratio, 0.4, name)
    end
  end)

  it("gather rows of experts' biases, and add their gradients by index at the rate of a device's profile", function()
    -- ultrons/jax-gpt, iter4_moe_gmm_ag_bisection.md: 1684.9 ms for 58 layers of 2 parts. model.py,
    -- _expert_mlp_gmm_ag_body: one of 2 devices adds 131072 rows of 7168 values in each.
    local device, tokens, columns = devices.get "tpu_v7x", 2 * 131072, 7168
    local function beside(pass)
      local shape = { tokens = tokens, hidden = 2880, gathered = columns }
      local plain = seconds(device, "expert_bias", { tokens = tokens, hidden = 2880 }, "bf16", pass)
      return seconds(device, "expert_bias", shape, "bf16", pass) - plain
    end
    assert.near(1.6849 / 58 / 2, beside "backward", 0.01 * 1.6849 / 58 / 2)
    local bytes = 2.0 * tokens * columns -- written by the gather, read by the addition
    assert.near(bytes / device.memory_bandwidth * (1 / 0.235 + 1 / in_step.stream_share), beside "forward", 1e-6)
    device.gather_share, device.scatter_share = nil, nil
    assert.near(2 * bytes / device.memory_bandwidth / in_step.stream_share, beside "forward", 1e-6)
    assert.near(bytes / device.memory_bandwidth / in_step.stream_share, beside "backward", 1e-6)
  end)

  it("repeat tokens before their copies are gathered, if the stack does", function()
    local op = require("ett.operator").get "moe_permute"
    local c = { hidden = 4096, experts = 64, top_k = 8, micro_batch = 2, seq = 4096, tp = 1, ep = 1 }
    assert.is_nil(op.shape(c).repeated)
    c.repeats_tokens = true
    local shape = op.shape(c)
    assert.equal(1, shape.repeated)
    for _, name in ipairs { "tpu_v7x", "tpu_v6e", "h100_sxm" } do
      local device = devices.get(name)
      local function more(pass, exchange)
        local stack = setmetatable({ routing_factor = exchange or 1 }, { __index = stack_module.get "plain" })
        shape.repeated = 1
        local whole = seconds(device, "moe_permute", shape, "bf16", pass, stack)
        shape.repeated = nil
        return whole - seconds(device, "moe_permute", shape, "bf16", pass, stack)
      end
      local time = 2.0 * 8192 * 4096 * (1 + 8) / device.memory_bandwidth / in_step.stream_share
      assert.near(time, more "forward", 0.1 * time, name)
      assert.near(2 * time, more("forward", 2), 0.2 * time, name)
      assert.near(0, more "backward", 1e-12, name)
    end
    c.top_k = 1
    assert.is_nil(op.shape(c).repeated)
    local function step(stack)
      local e = estimate.new { model = require("ett.model").new "mixtral-8x7b", cluster = "tpu_v7x",
        plan = { seq = 4096, micro_batch = 1, micro_batches = 1, dp = 64, zero = 3, gradient_dtype = "bf16",
          stack = stack } }
      for _, line in ipairs(e.operators) do if line.name == "moe_permute" then return line.seconds end end
    end
    assert.is_true(step "maxtext" > 1.1 * step "maxtext:repeats_tokens=false")
  end)

  it("move the bytes of each of PyTorch's operators that pad, weight and sum the copies of tokens", function()
    -- Bytes for each value of the copies, forward and backward, and of the tokens.
    local counted = { pads_copies = { moe_permute = { 8, 8 }, moe_unpermute = { 4, 18 } },
      ["combine=scatter_add"] = { moe_unpermute = { 20, 34 }, tokens = { 6, 0 } },
      ["combine=bmm"] = { moe_unpermute = { 14, 14 }, tokens = { 8, 12 } } }
    local function times(words)
      local out, plan = {}, { seq = 4096, micro_batch = 4, micro_batches = 1, dp = 8, ep = 8, zero = 3,
        stack = "plain" .. words }
      local e = estimate.new { model = require("ett.model").new "qwen3-30b-a3b", cluster = "dgx_h200", plan = plan }
      for _, line in ipairs(e.operators) do out[line.name] = line.seconds end
      return out
    end
    local device, fused, op = devices.get "h200_sxm", times "", require("ett.operator").get "moe_unpermute"
    for _, way in ipairs { "scattered", "batched" } do -- the product stores its input in fp32
      local shape = { tokens = 4096, hidden = 512, top_k = 8, [way] = 1 }
      assert.equal(4.0 * 4096 * 512 * 8, op.activation_bytes(shape, "bf16"))
    end
    for words, more in pairs(counted) do
      local found = times(":" .. words)
      for _, name in ipairs { "moe_permute", "moe_unpermute" } do
        local bytes = 0.0
        for pass = 1, more[name] and 2 or 0 do
          bytes = bytes + 16384.0 * 2048 * (8 * more[name][pass] + (more.tokens or { 0, 0 })[pass])
        end
        local time = 48 * bytes / device.memory_bandwidth / in_step.stream_share
        assert.near(time, found[name] - fused[name], 1e-9 + 0.02 * time, name .. words)
      end
    end
  end)

  it("add the input gradients of separate gates, and no sum of gathered biases' gradients", function()
    local device, stack = devices.get "tpu_v7x", stack_module.get "maxtext"
    local x = { batch = 64, tokens = 4096, in_features = 4096, out_features = 3072 }
    local function backward(fields)
      local shape = {}
      for _, source in ipairs { x, fields } do for name, value in pairs(source) do shape[name] = value end end
      return seconds(device, "expert_linear1", shape, "bf16", "backward", stack)
    end
    local bytes = 3 * 2.0 * 64 * 4096 * 4096 -- two gradients are read, their sum is written
    assert.near(bytes / device.memory_bandwidth / in_step.stream_share, backward { separate = 1 } - backward {}, 1e-5)
    assert.near(backward {}, backward { bias = 1 }, 1e-12)
    stack.gathers_biases = false
    assert.near(2.0 * 64 * 4096 * 3072 / device.memory_bandwidth / in_step.stream_share,
      backward { bias = 1 } - backward {}, 1e-5)
    local op = require("ett.operator").get "expert_linear1"
    local c = { hidden = 4096, moe_ffn = 1536, experts = 64, top_k = 8, micro_batch = 1, seq = 4096, tp = 1, ep = 1,
      gated_mlp = true, separate_gates = true }
    assert.equal(1, op.shape(c).separate)
    c.gated_mlp = false
    assert.is_nil(op.shape(c).separate)
    c.gated_mlp, c.mask_capacity = true, 1.25
    assert.is_nil(op.shape(c).separate)
  end)

  it("copy the heads of latent attention, if the stack joins them", function()
    local op = require("ett.operator").get "rope"
    local c = { micro_batch = 2, seq = 4096, tp = 4, heads = 128, kv_heads = 1, head_dim = 64, kv_lora_rank = 512,
      qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128 }
    assert.is_nil(op.shape(c).joined)
    c.joins_heads = true
    local heads = 128 // 4
    local queries, keys, values = 2 * 128, 128 + 128 + 64, 2 * 128 -- read and written
    assert.equal(heads * (queries + keys + values), op.shape(c).joined)
    local device, shape = devices.get "tpu_v7x", op.shape(c)
    for _, pass in ipairs { "forward", "backward" } do
      local whole = seconds(device, "rope", shape, "bf16", pass)
      local joined = shape.joined
      shape.joined = nil
      assert.near(2 * 4096 * joined * 2 / device.memory_bandwidth / in_step.stream_share,
        whole - seconds(device, "rope", shape, "bf16", pass), 2e-6)
      shape.joined = joined
    end
    c.kv_lora_rank = nil
    assert.is_nil(op.shape(c).joined)
    local function step(name, stack)
      local e = estimate.new { model = require("ett.model").new "deepseek-v3", cluster = "tpu_v7x", plan = { seq = 4096,
        micro_batch = 1, micro_batches = 1, dp = 128, zero = 3, gradient_dtype = "bf16", stack = stack } }
      for _, line in ipairs(e.operators) do if line.name == name then return line.seconds end end
    end
    assert.is_true(step("rope", "maxtext") > 4 * step("rope", "maxtext:joins_heads=false"))
    local apart = step("expert_linear1", "maxtext") - step("expert_linear1", "maxtext:separate_gates=false")
    assert.near(58 * 3 * 2.0 * 4096 * 8 * 7168 / device.memory_bandwidth / in_step.stream_share, apart, 0.01 * apart)
  end)

  it("multiply the table of an embedding with one-hot rows, if its shape says so", function()
    local sizes = { tokens = 16384, vocab = 128256, hidden = 4096 }
    local one_hot = { tokens = 16384, vocab = 128256, hidden = 4096, one_hot = 1 }
    for _, name in ipairs { "tpu_v6e", "tpu_v7x", "h100_sxm" } do
      local device = devices.get(name)
      for pass, x in pairs { forward = { tokens = 16384, in_features = 128256, out_features = 4096 },
        backward = { tokens = 128256, in_features = 16384, out_features = 4096 } } do
        assert.near(seconds(device, "linear_up", x, "bf16"), seconds(device, "embedding", one_hot, "bf16", pass), 1e-9)
        assert.is_true(seconds(device, "embedding", sizes, "bf16", pass) < 2e-3, name)
      end
    end
    local e = estimate.new { model = require("ett.model").new "llama3-8b", cluster = "tpu_v6e",
      plan = { seq = 8192, micro_batch = 1, micro_batches = 1, dp = 8, zero = 3, gradient_dtype = "bf16",
        stack = "maxtext:one_hot_embedding" } }
    local time = {}
    for _, line in ipairs(e.operators) do time[line.name] = line.seconds end
    assert.near(2 / 3, time.embedding / time.lm_head, 0.05) -- indices have no gradient
  end)

  it("use the factor of grouped kernels for one local expert, and of streams only the fixed time", function()
    local device = devices.get "h100_sxm"
    for grouped, factor in pairs { streams = 1.0, kernel = in_step.grouped.kernel } do
      local stack = stack_module.get "plain"
      stack.grouped = grouped
      local expert = { batch = 1, tokens = 8192, in_features = 8192, out_features = 16384 }
      local one = by_experts(device, expert, "forward", in_step.products.hopper.bf16, 0)
      local start = grouped == "streams" and in_step.streams_start or 0.0
      assert.near(factor * one + start, seconds(device, "expert_linear1", expert, "bf16", nil, stack),
        1e-12)
      assert.near(1, one / seconds(device, "linear_up", large, "bf16"), 0.06)
    end
  end)

  it("gather operands of tensor-parallel products in the products' data type, if the stack does", function()
    local asked, most
    local profile = {
      operator = function() return { seconds = 1e-3, provenance = "measured" } end,
      collective = function(_, kind, bytes, topology)
        if topology.ranks == 4 then
          asked[kind], most = math.min(asked[kind] or bytes, bytes), math.max(most, bytes)
        end
        return { seconds = 1e-6, provenance = "measured" }
      end,
    }
    local model = require("ett.model").new("llama", { layers = 2, hidden = 512, heads = 8, vocab = 1024 })
    for dtype, size in pairs { bf16 = 2, fp8 = 1, mxfp8 = 33 / 32, nvfp4 = 9 / 16, mxfp4 = 17 / 32 } do
      for stack, gathered in pairs { plain = 2, megatron = size } do
        asked, most = {}, 0.0
        estimate.new { model = model, cluster = "dgx_b200", profile = profile, plan = { seq = 1024, tp = 4,
          sequence_parallel = true, micro_batches = 1, dtype = dtype, stack = stack } }
        assert.same({ all_gather = gathered * 1024 * 512, reduce_scatter = 2.0 * 1024 * 512,
          all_reduce = asked.all_reduce }, asked)
        assert.equal(2.0 * 1024 * 512, most) -- the head's
      end
    end
  end)
end)

it("sharding slows every operator of a micro-batch by the same factor, and no update", function()
  local device = require("ett.profile.device").get "h100_sxm"
  local stack = require "ett.operator.stack"
  local times = require "ett.profile.device_times"
  local sharded, whole = times.new(device, stack.get "plain:gathers_slow"), times.new(device, stack.get "plain")
  local slower = times.new(device, stack.get "plain:slowdown=2")
  local function factor(name, shape, pass)
    return sharded:operator(name, shape, "bf16", pass or "forward").seconds
      / whole:operator(name, shape, "bf16", pass or "forward").seconds
  end
  assert.equal(1, factor("optimizer", { params = 1000000 }, "update"))
  assert.same(whole:operator("optimizer", { params = 1000000 }, "bf16", "update"),
    slower:operator("optimizer", { params = 1000000 }, "bf16", "update"))
  for _, tokens in ipairs { 8192, 65536 } do
    local one = factor("residual_add", { tokens = tokens, hidden = 4096 })
    assert.near(one, factor("rope", { batch = 2, seq = tokens // 2, heads = 32, kv_heads = 8, head_dim = 128,
      rotary_dim = 128 }), 1e-9)
    assert.near(one, factor("ssd_scan", { batch = 2, seq = tokens // 2, heads = 64, head_dim = 64, groups = 8,
      state = 128, chunk = 256 }), 1e-9)
    assert.near(1 + (require("ett.profile.in_step").sharded.hopper - 1) * math.min(1, 16384 / tokens), one, 1e-9)
  end
end)

it("registered buffers slow computing by 4.5 of 24 multiprocessors' share", function()
  local device, stack = require("ett.profile.device").get "h100_sxm", require "ett.operator.stack"
  local times, shape = require "ett.profile.device_times", { tokens = 8192, hidden = 4096 }
  local function time(words)
    return times.new(device, stack.get(words)):operator("residual_add", shape, "bf16", "forward").seconds
  end
  local alone = time "plain"
  assert.near(4.5 / 24 * (time "plain:gathers_slow" - alone),
    time "plain:gathers_slow:registered_buffers" - alone, 1e-15)
  local model = require("ett.model").new("llama3-8b", {})
  local function step(words, on)
    local plan = { seq = 8192, micro_batch = 1, micro_batches = 4, dp = 8, zero = 3, overlap_gradients = true,
      overlap_parameters = true, stack = (on and "maxtext" or "plain") .. words }
    return estimate.new { model = model, cluster = on or "dgx_h100", plan = plan }.step_seconds
  end
  assert.equal(step ":communication_share=0.06", step ":communication_share=0.32:registered_buffers")
  assert.is_true(step ":communication_share=0.32" > 1.01 * step ":communication_share=0.06")
  assert.equal(step(":communication_share=0", "tpu_v5p"), step("", "tpu_v5p"))
  assert.is_true(step(":communication_share=0.32", "tpu_v5p") > step("", "tpu_v5p"))
  local function warned(ranks)
    local plan = { seq = 8192, micro_batch = 1, micro_batches = 4, dp = ranks, zero = 3,
      stack = "plain:registered_buffers" }
    return table.concat(estimate.new { model = model, cluster = "dgx_h100", plan = plan }.warnings, "\n")
      :find("registered_buffers", 1, true) ~= nil
  end
  assert.is_false(warned(8))
  assert.is_true(warned(16))
end)
