-- Operators with shapes: dims and kinds, passes by sequence numbers, rows that belong to no operator.
local kinds = require "ett.trace.operators.kinds"
local maker = require "trace_maker"
local operators = require "ett.trace.operators"
local trace_gpt = require "trace_gpt"

local function with_runs(recordings, fn)
  local view <close> = maker.view(recordings, { args = require("ett.loop.against").args })
  fn(operators.of_view(view), view)
end

describe("ett.trace.operators.kinds", function()
  it("reads shapes: scalars, lists of tensors, damage", function()
    assert.same({ { 2, 3 }, {}, { 4 } }, kinds.dims "[[2, 3], [], [4]]")
    assert.same({ { 5 }, { 6 } }, kinds.dims "[[[5], [7]], [6]]")
    assert.same({}, kinds.dims "[]")
    assert.is_nil(kinds.dims "[[0, 3]]")
    assert.is_nil(kinds.dims(nil))
    assert.same({ { 2 } }, kinds.dims "[[2")
  end)

  it("recognises products, attention and norms by name and shape", function()
    local function of(name, dims) return (kinds.of(name, dims, '["float", "float"]') or {}).key end
    assert.equal("gemm 1 6 5 4", of("aten::linear", "[[2,3,4],[5,4],[5]]"))
    assert.equal("gemm 1 6 5 4", of("aten::addmm", "[[5],[6,4],[4,5],[],[]]"))
    assert.equal("gemm 1 6 5 4", of("aten::matmul", "[[2,3,4],[4,5]]"))
    assert.equal("bmm 6 7 8 4", of("aten::matmul", "[[2,3,7,4],[2,3,4,8]]"))
    assert.equal("bmm 6 7 8 4", of("aten::matmul", "[[7,4],[6,4,8]]"))
    assert.equal("bmm 6 7 8 4", of("aten::matmul", "[[2,1,7,4],[3,4,8]]"))
    assert.equal("bmm 6 7 8 4", of("aten::baddbmm", "[[6,7,8],[6,7,4],[6,4,8],[],[]]"))
    assert.equal("gemm 1 6 5 4", of("LinearWithGradAccumulationAndAsyncCommunication", "[[2,3,4],[5,4],[5]]"))
    assert.equal("attention 2 4 1 16 16 8", of("flash_attn::_flash_attn_forward", "[[2,16,4,8],[2,16,1,8],[2,16,1,8]]"))
    local function attention(name, values)
      local o = kinds.of(name, "[[2,4,16,8],[2,4,16,8],[2,4,16,8]]", '["float", "float"]', values)
      return o.key, require("ett.trace.operators.roofline").rates({ operation = o, count = 1 }, 1).flops
    end
    local sdpa, flash = "aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention"
    local key, half = attention(sdpa, '["", "", "", "", "0.", "True", "", "False"]')
    assert.equal("attention 2 4 4 16 16 8 causal", key)
    local same_key, whole = attention(flash, '["","","","0.","False","False","0.125"]')
    assert.equal("attention 2 4 4 16 16 8 full", same_key)
    assert.same({ 2 * 2 * 2 * 4 * 16 * 16 * 8, whole / 2 }, { whole, half })
    assert.same({ "attention 2 4 4 16 16 8", half }, { attention(sdpa) })
    assert.equal("norm rms_norm 6 4", of("aten::rms_norm", "[[2,3,4],[],[4]]"))
    assert.equal("norm add_rms_norm 6 4", of("_C::fused_add_rms_norm", "[[6,4],[6,4],[4]]"))
    -- The gate lies beside the other half; vLLM's first argument is the output.
    assert.equal("elementwise swiglu 6 4", of("SwiGLUFunction", "[[2,3,8],[],[]]"))
    assert.equal("elementwise swiglu 6 4", of("_C::silu_and_mul", "[[6,4],[6,8]]"))
    assert.is_nil(of("SwiGLUFunction", "[[2,3,7],[],[]]"))
    assert.equal("embedding 6 4 100", of("aten::embedding", "[[100,4],[2,3],[],[],[]]"))
    assert.equal("router moe_permute 8 4", of("_moe_permute_mask_map", "[[8,4],[8,16],[],[8,16]]"))
    assert.equal("router moe_permute 8 4", of("PermuteMoE_topK", "[[8,4],[8,2],[],[]]"))
    assert.equal("router moe_unpermute 16 4", of("_moe_unpermute_mask_map", "[[16,4],[8,33],[8,16],[]]"))
    -- Shapes that do not fit together are no product.
    assert.is_nil(of("aten::mm", "[[2,3],[4,5]]"))
    assert.is_nil(of("aten::linear", "[[2,3,4],[5,6]]"))
    assert.is_nil(of("aten::unknown", "[[2,3]]"))
    assert.equal("bf16", kinds.of("aten::mm", "[[2,3],[3,4]]", '["c10::BFloat16", "c10::BFloat16"]').dtype)
  end)
end)

describe("ett.trace.operators.roofline", function()
  local roofline = require "ett.trace.operators.roofline"
  local function rates(name, dims, type, pass)
    local o = kinds.of(name, dims, ('["%s", "%s"]'):format(type, type))
    return roofline.rates({ name = name, operation = o, dtype = o.dtype, count = 2, pass = pass or "forward" }, 1)
  end

  it("counts a residual addition inside a norm: both inputs are read and written", function()
    local fused = rates("_C::fused_add_rms_norm", "[[6,4],[6,4],[4]]", "c10::BFloat16")
    assert.equal(2 * 4 * 6 * 4 * 2.0, fused.bytes)
    assert.equal(2 * (4 + 1) * 6 * 4.0, fused.flops)
    -- Its time is no sample of a norm.
    assert.is_nil(roofline.operator(kinds.of("_C::fused_add_rms_norm", "[[6,4],[6,4],[4]]")))
    assert.same({}, roofline.rates({ name = "_C::fused_add_rms_norm", count = 1, pass = "forward" }, 1))
  end)

  it("counts the bytes of double precision", function()
    local dims = "[[6,4],[4,5]]"
    assert.equal(2 * 8.0 * (6 * 4 + 4 * 5 + 6 * 5), rates("aten::mm", dims, "double").bytes)
    assert.equal(2 * 4.0 * (6 * 4 + 4 * 5 + 6 * 5), rates("aten::mm", dims, "float").bytes)
  end)

  it("counts PyTorch's loss in the type of the logits, and no cast of fp32 logits in Megatron's", function()
    local logits = 6 * 4.0
    local function bytes(...) return rates(...).bytes / (2 * logits) end
    assert.same({ 8, 16, 4 }, { bytes("aten::cross_entropy_loss", "[[6,4],[6]]", "float"),
      bytes("aten::cross_entropy_loss", "[[6,4],[6]]", "float", "backward"),
      bytes("aten::cross_entropy_loss", "[[6,4],[6]]", "c10::BFloat16") })
    assert.same({ 32, 8, 38, 14 }, { bytes("_VocabParallelCrossEntropy", "[[6,4],[6]]", "float"),
      bytes("_VocabParallelCrossEntropy", "[[6,4],[6]]", "float", "backward"),
      bytes("_VocabParallelCrossEntropy", "[[6,4],[6]]", "c10::BFloat16"),
      bytes("_VocabParallelCrossEntropy", "[[6,4],[6]]", "c10::BFloat16", "backward") })
  end)
end)

describe("ett.trace.operators", function()
  it("gives backward runs the shape of their forward operator, and every row's time to one run", function()
    local gpt = trace_gpt.new { hidden = 64, heads = 4, layers = 3, seq = 32, batch = 2, vocab = 512,
      times = function(name, pass) return (#name + (pass == "backward" and 100 or 0)) end }
    with_runs({ gpt:recording { rank = 0 } }, function(devices, view)
      local runs, wanted = devices[1].runs, 0
      for _, op in ipairs(gpt:operators()) do wanted = wanted + 2 * #op.name + 100 end
      local total, rows = 0, operators.by_shape(runs)
      for _, row in ipairs(rows) do total = total + view:us(row.ticks) end
      assert.equal(wanted, total)
      local found = {}
      for _, row in ipairs(rows) do found[row.family .. " " .. row.shape .. " " .. row.pass] = row end
      local qkv = found["gemm 64x192x64 backward"]
      assert.equal(3, qkv.count)
      assert.equal(3 * (#"linear_qkv" + 100), view:us(qkv.ticks))
      assert.equal(7, found["norm 64x64 forward"].count)
      assert.equal(7, found["norm 64x64 backward"].count)
    end)
  end)

  it("distinguishes a recomputed layer from its backward pass", function()
    local r = maker.new { rank = 0 }
    local dims = { ["Input Dims"] = "[[6, 4], [5, 4], []]", ["Input type"] = '["float", "float", ""]',
      ["Sequence number"] = 5 }
    local again = { ["Input Dims"] = dims["Input Dims"], ["Input type"] = dims["Input type"], ["Sequence number"] = 1 }
    r:host("cpu_op", "aten::linear", 100, 10, { args = dims })
    r:kernel("f", 120, 7, { launch = { ts = 102, dur = 2 } })
    local node = "autograd::engine::evaluate_function: "
    r:host("cpu_op", node .. "CheckpointFunctionBackward", 200, 100, { tid = 2, args = { ["Sequence number"] = 4 } })
    r:host("cpu_op", "aten::linear", 210, 10, { tid = 2, args = again })
    r:kernel("f", 220, 7, { launch = { ts = 212, dur = 2, tid = 2 } })
    r:host("cpu_op", node .. "MmBackward0", 250, 20, { tid = 2, args = { ["Sequence number"] = 1 } })
    r:kernel("b1", 260, 3, { launch = { ts = 252, dur = 2, tid = 2 } })
    r:kernel("b2", 264, 4, { launch = { ts = 255, dur = 2, tid = 2 } })
    with_runs({ r }, function(devices, view)
      local seen = {}
      for _, run in ipairs(devices[1].runs) do seen[#seen + 1] = run.pass .. " " .. view:us(run.ticks) end
      assert.same({ "forward 7.0", "recompute 7.0", "backward 7.0" }, seen)
    end)
  end)

  it("gives a product under autocast the type that ran, without the casts", function()
    -- The nesting and the sequence numbers are those of PyTorch 1.13.
    local r = maker.new { rank = 0 }
    local function op(name, ts, dur, dims, type, number, tid)
      r:host("cpu_op", name, ts, dur, { tid = tid, args = { ["Input Dims"] = dims, ["Sequence number"] = number,
        ["Input type"] = dims and ('["%s", "%s"]'):format(type, type) } })
    end
    op("aten::linear", 100, 100, "[[6, 4], [5, 4]]", "float", -1)
    op("aten::to", 105, 20, "[[6, 4]]", "float", 1)
    op("aten::_to_copy", 106, 18, "[[6, 4]]", "float", 1)
    r:kernel("cast", 120, 3, { launch = { ts = 110, dur = 2 } })
    op("aten::linear", 150, 40, "[[6, 4], [5, 4]]", "c10::BFloat16", 2)
    op("aten::mm", 155, 30, "[[6, 4], [4, 5]]", "c10::BFloat16", 3)
    r:kernel("gemm", 170, 7, { launch = { ts = 160, dur = 2 } })
    op("autograd::engine::evaluate_function: MmBackward0", 300, 20, nil, nil, 3, 2)
    r:kernel("gemm", 310, 14, { launch = { ts = 302, dur = 2, tid = 2 } })
    op("autograd::engine::evaluate_function: ToCopyBackward0", 330, 20, nil, nil, 1, 2)
    r:kernel("cast", 340, 5, { launch = { ts = 332, dur = 2, tid = 2 } })
    with_runs({ r }, function(devices, view)
      local seen = {}
      for _, run in ipairs(devices[1].runs) do
        seen[#seen + 1] = ("%s %s %s %s"):format(run.operation and run.operation.key or run.name, run.dtype, run.pass,
          view:us(run.ticks))
      end
      assert.same({ "aten::to nil forward 3.0", "gemm 1 6 5 4 bf16 forward 7.0", "gemm 1 6 5 4 bf16 backward 14.0",
        "autograd::engine::evaluate_function: ToCopyBackward0 nil backward 5.0" }, seen)
      assert.equal("bf16", require("ett.loop.layout").read(view).dtype.value)
    end)
  end)

  it("leaves out the cast of a weight beside an input of the product's type; an output argument is no cast", function()
    local r, b = maker.new { rank = 0 }, "c10::BFloat16"
    local function op(name, ts, dur, dims, ...)
      r:host("cpu_op", name, ts, dur, { args = { ["Input Dims"] = dims,
        ["Input type"] = '["' .. table.concat({ ... }, '", "') .. '"]' } })
    end
    op("aten::linear", 100, 100, "[[6, 4], [5, 4]]", b, "float")
    op("aten::to", 105, 20, "[[5, 4]]", "float")
    r:kernel("cast", 120, 3, { launch = { ts = 110, dur = 2 } })
    op("aten::linear", 150, 40, "[[6, 4], [5, 4]]", b, b)
    r:kernel("gemm", 170, 7, { launch = { ts = 160, dur = 2 } })
    op("aten::mm", 300, 90, "[[6, 4], [4, 5]]", b, b)
    r:kernel("fill", 320, 2, { launch = { ts = 305, dur = 2 } })
    op("aten::mm", 310, 70, "[[6, 4], [4, 5], [6, 5]]", b, b, b)
    r:kernel("gemm", 330, 8, { launch = { ts = 315, dur = 2 } })
    with_runs({ r }, function(devices, view)
      local seen = {}
      for _, run in ipairs(devices[1].runs) do seen[#seen + 1] = run.name .. " " .. view:us(run.ticks) end
      assert.same({ "aten::to 3.0", "aten::linear 7.0", "aten::mm 10.0" }, seen)
    end)
  end)

  it("takes no step of the format of 2021 for an operator", function()
    local r = maker.new { rank = 0 }
    for step = 0, 1 do
      local at = 1000 * step
      r:host("Operator", "ProfilerStep#" .. step, at, 900)
      r:host("Operator", "aten::mm", at + 100, 200,
        { args = { ["Input Dims"] = "[[2, 3], [3, 4]]", ["Input type"] = '["float", "float"]' } })
      for i, name in ipairs { "gemm", "copy" } do -- the copy's call is in no operator
        local id = 10 * step + i
        r:host("Runtime", "cudaLaunchKernel", at + 400 * i - 250, 10, { args = { correlation = id } })
        r:kernel(name, at + 400 * i, 50, { args = { correlation = id } })
      end
    end
    with_runs({ r }, function(devices)
      local names = {}
      for i, row in ipairs(operators.by_shape(devices[1].runs)) do names[i] = row.name .. " " .. row.count end
      table.sort(names)
      assert.same({ "aten::mm 2", "copy 2" }, names)
    end)
  end)

  it("names a trace without shapes", function()
    local r = maker.new { rank = 0 }
    r:kernel("k", 100, 10)
    assert.matches("record_shapes=True", maker.reason({ r }, "operator_table"))
    r:host("cpu_op", "aten::relu", 50, 10, { args = { ["Input Dims"] = "[[64, 16]]" } })
    assert.equal("needs operators with shapes on the host; ett knows none of those recorded (aten::mm …)",
      maker.reason({ r }, "operator_table"))
  end)

  it("notes shares of the peak above 1", function()
    local function note(microseconds)
      local r = maker.new { rank = 0 }
      r:host("cpu_op", "aten::mm", 100, 10, { args = { ["Input Dims"] = "[[4096,4096],[4096,4096]]",
        ["Input type"] = '["c10::BFloat16", "c10::BFloat16"]' } })
      r:kernel("gemm", 120, microseconds, { launch = { ts = 102, dur = 2 } })
      local cluster = require("ett.profile.cluster").get "dgx_h100"
      return maker.computed({ r }, "operator_table", { cluster = cluster }).note
    end
    assert.is_nil(note(200)) -- 0.69 of 989.5 TFLOP/s, 0.15 of 3.35 TB/s
    assert.matches("^more than the peak FLOP/s in 1 of the rows[^;]*$", note(100))
    assert.matches("; more than the memory bandwidth in 1 of the rows", note(25))
  end)

  it("counts FLOPs and bytes of a product by hand", function()
    local gpt = trace_gpt.new { hidden = 64, heads = 4, layers = 1, seq = 32, batch = 2, vocab = 512,
      forward_only = true }
    local cluster = require("ett.profile.cluster").get "dgx_h100"
    local result = maker.computed({ gpt:recording { rank = 0 } }, "operator_table", { top = 50, cluster = cluster })
    for _, row in ipairs(result.operators) do
      if row.shape == "64x192x64" then
        assert.near(row.tflops_per_s / 989.5, row.of_peak_flops, 1e-9)
        assert.near(row.gb_per_s / 3350, row.of_peak_bandwidth, 1e-9)
        assert.near(2 * 64 * 192 * 64 / 10e-6 / 1e12, row.tflops_per_s, 1e-9)
        assert.near(2 * (64 * 64 + 64 * 192 + 64 * 192) / 10e-6 / 1e9, row.gb_per_s, 1e-6)
        return
      end
    end
    error "no row of the product"
  end)
end)
