-- Operator samples from a trace: nested targets, device time, the mean of the middle.
local maker = require "trace_maker"
local samples = require "ett.trace.samples"
local targets = require "ett.import.estimate_train_time.targets"

--- Ten iterations of linear (10 + i us on the device) and its backward (20 + 2 i us, another thread).
local function recording()
  local r = maker.new{ rank = 0 }
  for i = 1, 10 do
    local at = 1000 * i
    r:host("cpu_op", "aten::linear", at, 50)
    r:host("cpu_op", "aten::addmm", at + 5, 40)
    r:kernel("gemm", at + 200, 4, { launch = { ts = at + 10, dur = 3 } })
    r:kernel("bias", at + 206, 4 + i, { launch = { ts = at + 20, dur = 3 } })
    r:host("cpu_op", "aten::linear_other", at + 60, 5)
    r:host("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f>", at + 300, 200)
    r:host("cpu_op", "AddmmBackward0", at + 320, 100, { tid = 2 })
    r:kernel("gemm_b", at + 600, 20 + 2 * i, { launch = { ts = at + 330, dur = 3, tid = 2 } })
    r:kernel("outside", at + 800, 100, { launch = { ts = at + 700, dur = 3 } })
  end
  return r
end

describe("ett.trace.samples", function()
  it("measures from the first start to the last end of an occurrence's kernels", function()
    local t <close> = maker.trace({ recording() })
    local list = samples.durations(t, { "aten::linear" })
    assert.equal(10, #list)
    assert.equal(11, list[1])
    assert.equal(20, list[10])
    -- The path: a prefix of a name with an object address, then a row on another thread inside it.
    local back = samples.durations(t, { "built-in method run_backward of torch", "AddmmBackward0" })
    assert.equal(10, #back)
    assert.equal(22, back[1])
    -- A list at the end: all of its names together are one occurrence.
    local both = samples.durations(t, { "built-in method run_backward of torch", { "AddmmBackward0", "Nothing" } })
    assert.same(back, both)
    local none, absent = samples.durations(t, { "aten::linear", "aten::conv" })
    assert.same({}, none)
    assert.equal("aten::conv", absent)
  end)

  it("measures each rank of a folder by its own kernels", function()
    local late = recording()
    late.rank = 1
    for _, event in ipairs(late.events) do event.ts = event.ts + 7 end
    local t <close> = maker.trace({ recording(), late })
    local list = samples.durations(t, { "aten::linear" })
    assert.same({ 20, 11, 11, 20, 20 }, { #list, list[1], list[2], list[19], list[20] })
    local none, absent = samples.durations(t, { "aten::linear", "aten::conv" })
    assert.same({ {}, "aten::conv" }, { none, absent })
  end)

  it("gives the row of the sample file: third to seventh smallest", function()
    local config = { kernel_name = "linear1", columns_name = { "mp", "b", "l", "dim", "F_dur(us)", "B_dur(us)" },
      targets = { { "aten::linear" }, { "AddmmBackward0" } } }
    local t <close> = maker.trace({ recording() })
    local row, counts = samples.row(t, config, { 1, 2, 1024, 5632 })
    assert.same({ 1, 2, 1024, 5632, 15.0, 30.0 }, row)
    assert.same({ 10, 10 }, counts)
    assert.has_error(function() samples.row(t, config, { 1, 2 }) end)
  end)

  it("refuses to pool several shapes in one row", function()
    local config = { kernel_name = "linear1", columns_name = { "mp", "F_dur(us)" }, targets = { { "aten::linear" } } }
    local function check(widths)
      local r = maker.new{ rank = 0 }
      for i, width in ipairs(widths) do
        r:host("cpu_op", "aten::linear", 1000 * i, 50, { args = width > 0 and { ["Input Dims"] = { { 4, width } } } })
        r:kernel("gemm", 1000 * i + 200, 4, { launch = { ts = 1000 * i + 10, dur = 3 } })
      end
      local ok, why
      local t <close> = maker.trace({ r }, { args = { "Input Dims" } })
      ok, why = pcall(samples.check_one_shape, t, config)
      return ok, tostring(why)
    end
    assert.is_true(check{ 8, 8, 8 })
    assert.is_true(check{ 0, 0, 0 }) -- shapes were not recorded
    local ok, why = check{ 8, 16, 8 }
    assert.is_false(ok)
    assert.matches("'aten::linear', ran with 2 shapes of inputs", why, 1, true)
    assert.matches("[[4,8]] (2 runs), [[4,16]] (1 runs)", why, 1, true)
  end)

  it("takes the shape from a name", function()
    assert.same({ 1, 8, 8, 2048 }, samples.shape_of_name("a/NVIDIAA100_Softmax_fp16_1_8_8_2048", 4))
    assert.same({ 2, 4 }, samples.shape_of_name("x_2_4.pt.trace.json", 2))
    assert.is_nil(samples.shape_of_name("trace", 4))
    assert.is_nil(samples.shape_of_name("run_a_b_c_d", 4))
  end)

  it("reads the sampling configurations", function()
    local reference = require("reference_traces").folder()
    if not reference then
      pending("the reference is not at hand (set ETT_REFERENCE)")
      return
    end
    local folder, read = reference .. "/../estimate-train-time/configs/", 0
    for _, kind in ipairs{ "kernel_sampling/collect", "kernel_sampling/test", "kernel_sampling/profilers",
      "nccl_sampling/test" } do
      for _, name in ipairs(require("ett.base.folder").names(folder .. kind, "%.yml$")) do
        local config = targets.read(folder .. kind .. "/" .. name)
        assert.is_true(#config.targets >= 1, name)
        read = read + 1
      end
    end
    assert.is_true(read > 60)
  end)
end)
