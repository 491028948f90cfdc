-- Warnings of layers that can be built but give wrong times.
local command = require "command"
local architecture = require "ett.model.architecture"
local estimate = require "ett.step.estimate"
local faults = require "ett.model.faults"
local find = require "ett.base.find"
local model_module = require "ett.model"

local blocks = require "ett.model.blocks"
local exchange = { collective = "expert_exchange" }
local hyper = { layers = 2, hidden = 512, heads = 8, vocab = 1000, ffn = 3072, experts = 4, top_k = 2, moe_ffn = 768,
  shared_experts = 1, norm = "rms_norm", gated_mlp = true }

local function warnings(model, plan)
  local c = architecture.configuration(model.hyper, plan or { tp = 2, ep = 2, micro_batch = 1, seq = 64 })
  return faults(model, c)
end

local function of(ops, plan)
  return warnings(architecture.new(function(h)
    return { layers = { { name = "block", count = h.layers, ops = ops } } }
  end, hyper), plan)
end

describe("a bundled model", function()
  for _, name in ipairs(find.names "lua/models") do
    it(name .. " has no warning", function()
      local model = model_module.new(name)
      for _, degrees in ipairs { { 1, 1 }, { 2, 1 }, { 2, 2 } } do
        local tp, etp = table.unpack(degrees)
        assert.same({}, warnings(model, { tp = tp, ep = 1, etp = etp, micro_batch = 1, seq = 2048 }))
      end
    end)
  end
end)

describe("a layer warns of", function()
  it("an odd number of exchanges", function()
    local experts = { "moe_router", exchange, "expert_linear1", "expert_linear2", { collective = "expert_leave" } }
    assert.same({ "layer 'block': 1 expert_exchange: the number must be even, since tokens go to the experts and come "
      .. "back" }, of(experts))
    assert.same({}, of(blocks.join(experts, exchange)))
  end)

  it("partial sums that no tensor_leave adds", function()
    local up = blocks.join(blocks.enter, "linear_up", "swiglu")
    local attention = { blocks.enter, "linear_qkv", "flash_attention", "linear_proj" }
    local mlp = blocks.dense_feed(hyper)
    local warning = { "layer 'block': no tensor_leave follows linear_proj, so its partial sums over tp ranks are not "
      .. "added" }
    assert.same(warning, of(attention))
    local model = architecture.new(function(h)
      return blocks.decoder(h, { name = "block", count = h.layers, ops = attention })
    end, hyper)
    local e = estimate { model = model, cluster = "dgx_h100", plan = { tp = 2, micro_batches = 4, seq = 2048 } }
    assert.equal(warning[1], e.warnings[1])
    assert.same(warning, of(blocks.join("rms_norm", attention, "residual_add", "rms_norm", mlp, "residual_add")))
    assert.same({}, of(blocks.join("rms_norm", attention, blocks.leave, "residual_add", "rms_norm", mlp)))
    assert.same({}, of(blocks.join(attention, { collective = "all_reduce", group = "tp",
      elements = function(c) return c.hidden end })))
    assert.same({}, of(attention, { tp = 1, micro_batch = 1, seq = 64 }))
    local alone = { tp = 1 }
    assert.same({}, of(blocks.with({ "linear_up", "swiglu", "linear_down" }, alone)))
    assert.same({ "layer 'block': rms_norm reads the partial sums of linear_down: tensor_leave must precede it" },
      of(blocks.join(up, "linear_down", "rms_norm", blocks.leave)))
    assert.same({ "layer 'block': rms_norm reads the partial sums of linear_down: tensor_leave must precede it" },
      of(blocks.join(up, "linear_down", "rms_norm", "residual_add", blocks.leave)))
    local parallel = blocks.join(blocks.enter, "linear_qkv", "flash_attention", "linear_proj", "rms_norm", up,
      "linear_down", "residual_add", blocks.leave)
    assert.same({}, of(parallel)) -- the norm of the MLP reads the layer's input
    assert.same({}, of(blocks.join(up, "linear_down", blocks.leave, "rms_norm")))
  end)

  it("a product before its tensor_enter, and a region that closes twice", function()
    local function missing(name)
      return ("layer 'block': no tensor_enter precedes %s, so the gradient of its input is not added over tp ranks")
        :format(name)
    end
    local attention, mlp = { "linear_qkv", "flash_attention", "linear_proj" }, { "linear_up", "swiglu", "linear_down" }
    assert.same({ missing "linear_qkv" }, of(blocks.join(attention, blocks.leave, blocks.enter, mlp, blocks.leave)))
    assert.same({ missing "linear_up" }, of(blocks.join(blocks.enter, attention, blocks.leave, mlp, blocks.leave)))
    assert.same({}, of(blocks.join(blocks.enter, attention, mlp, "residual_add", blocks.leave)))
    assert.same({}, of(blocks.join(attention, blocks.leave), { tp = 1, micro_batch = 1, seq = 64 }))
    assert.same({}, of(blocks.join({ collective = "all_reduce", group = "tp", pass = "backward",
      elements = function(c) return c.hidden end }, attention, blocks.leave)))
    local twice = { "layer 'block': tensor_leave follows tensor_leave without an operator between them: sums are "
      .. "added twice" }
    assert.same(twice, of(blocks.join(blocks.enter, mlp, blocks.leave, blocks.leave)))
    assert.same({}, of(blocks.join(blocks.enter, mlp, blocks.leave, blocks.enter, mlp, blocks.leave)))
    assert.same({ "layer 'block': tensor_leave follows linear_up, but no product with partial sums is between them" },
      of { blocks.enter, "linear_up", "swiglu", blocks.leave })
    assert.same({}, of { { op = "linear_up", with = { tp = 1 } }, "swiglu", blocks.leave })
    assert.same({}, of { "embedding", blocks.leave, blocks.enter, "lm_head" })
  end)

  it("the same of products whose files state no region: tensor ranks split their outputs or inputs", function()
    local folder = command.folder()
    for name, widths in pairs { own_up = 'inputs = "hidden", outputs = shapes.local_ffn',
      own_down = 'inputs = shapes.local_ffn, outputs = "hidden"',
      own_whole = 'inputs = "hidden", outputs = "hidden"' } do
      local file <close> = assert(io.open(("%s/%s.lua"):format(folder, name), "w"))
      file:write(([[
local gemm, shapes = require "ett.operator.gemm", require "ett.operator.shapes"
return gemm.linear({ name = "%s", summary = "s" }, { place = "inside", %s })]]):format(name, widths))
    end
    find.set_script_folder(folder)
    local found = { of { "own_whole", blocks.enter, "own_up", "own_down", blocks.leave, "own_whole" },
      of { "own_whole", blocks.enter, "own_up", "own_down" }, of { "own_up", "own_down", blocks.leave } }
    find.set_script_folder(nil)
    require("ett.operator").forget()
    command.remove(folder)
    assert.same({ {},
      { "layer 'block': no tensor_leave follows own_down, so its partial sums over tp ranks are not added" },
      { "layer 'block': no tensor_enter precedes own_up, so the gradient of its input is not added over tp ranks" } },
      found)
  end)

  it("partial sums that a user's residual addition adds to the stream", function()
    local found
    require("ett.base.folder").within(function(folder)
      require("ett.base.folder").write(folder .. "/own_add.lua", [[
local op = {}
for key, value in pairs(require("ett.operator").get "residual_add") do op[key] = value end
op.name, op.aliases = "own_add", nil
return op]])
      find.set_script_folder(folder)
      found = of(blocks.join(blocks.enter, "linear_up", "swiglu", "linear_down", "rms_norm", "own_add", blocks.leave))
      find.set_script_folder(nil)
      require("ett.operator").forget()
    end)
    assert.same({ "layer 'block': rms_norm reads the partial sums of linear_down: tensor_leave must precede it" },
      found)
  end)

  it("an operator that reads more values than the one before gives", function()
    local function mlp(one, two, three)
      return of { blocks.enter, { op = "linear_up", with = one }, { op = "swiglu", with = two },
        { op = "linear_down", with = three }, blocks.leave }
    end
    local narrow = { ffn = 2048 }
    assert.same({}, mlp(narrow, narrow, narrow))
    assert.same({ "layer 'block': linear_up gives 2048 values of a token on a tensor rank, but swiglu reads 3072" },
      mlp(narrow, nil, nil))
    assert.same({ "layer 'block': swiglu gives 1024 values of a token on a tensor rank, but linear_down reads 1536" },
      mlp(nil, narrow, nil))
    assert.same({}, mlp(nil, nil, narrow)) -- a part
    local function beside(width) -- the other input of the gated activation is not a product's
      return of { { op = "linear_side", with = { side_out = width } }, { op = "swiglu", with = { ffn = 256, tp = 1 } } }
    end
    assert.same({}, beside(256))
    assert.same({ "layer 'block': linear_side gives 128 values of a token on a tensor rank, but swiglu reads 256" },
      beside(128))
    -- A convolution reads the channels of a pixel, not a whole patch. Kernels with sizes of their own are not compared.
    local function convolution(channels)
      return of { { op = "gelu", with = { ffn = 64, tp = 1 } },
        { op = "convolution", with = { conv_in = channels, conv_out = 8, conv_outputs = 4, conv_size = 9 } } }
    end
    assert.same({}, convolution(64))
    assert.same({ "layer 'block': gelu gives 64 values of a token on a tensor rank, but convolution reads 65" },
      convolution(65))
    assert.same({}, of { { op = "linear_side", with = { side_out = 8 } },
      { op = "elementwise", with = { element_width = 16 } } })
  end)

  it("a product of gate and up before an activation that is not gated", function()
    local function mlp(first, activation, with)
      return of { blocks.enter, { op = first, with = with }, activation, "linear_down", blocks.leave }
    end
    local single = { gated_mlp = false } -- the model's MLP is gated
    assert.same({}, mlp("linear_up", "gelu", single))
    assert.same({ "layer 'block': linear_up gives gate and up, because gated_mlp is true, but gelu is not gated; "
      .. "with = { gated_mlp = false } gives one of them" }, mlp("linear_up", "gelu", nil))
    local experts = { exchange, "expert_linear1", { op = "gelu", with = blocks.expert_width(hyper) }, "expert_linear2",
      { collective = "expert_leave" }, exchange }
    assert.matches("^layer 'block': expert_linear1 gives gate and up", of(experts)[1])
  end)

  it("a field of 'with' that no one knows and the operator does not read", function()
    local function up(with)
      return of { blocks.enter, { op = "linear_up", with = with }, "linear_down", blocks.leave }
    end
    assert.same({ "layer 'block': linear_up does not read 'feedforward', which its 'with' sets" },
      up { feedforward = 99 })
    assert.same({ "layer 'block': linear_up does not read 'fnn', which its 'with' sets; did you mean 'ffn'?" },
      up { fnn = 99, ffn = 1024 })
    assert.same({}, up { window = 64 }) -- known, though linear_up does not read it
    assert.same({}, up(function() return { feedforward = 99 } end)) -- may be for several operators
  end)

  it("a stream of another size without 'sends'", function()
    local function run(with, sends, place)
      return warnings(architecture.new(function(h)
        local ops = blocks.with({ "rms_norm", "residual_add" }, with)
        return { layers = { { name = "block", count = h.layers, ops = ops, sends = sends, place = place } } }
      end, hyper))
    end
    local warning = "layer 'block': 'with' changes its stream (seq = 64, hidden = 256, micro_batch = 1), but it has no "
      .. "'sends'. Set 'sends' to the number of tokens that a stage sends; recomputed layers store as many."
    assert.same({ warning }, run { hidden = 256 })
    assert.same({}, run({ hidden = 256 }, function(c) return c.seq / 2 end))
    assert.same({}, run({ hidden = 256 }, nil, "last"))
    assert.same({}, run { seq = 32, micro_batch = 2 }) -- windows of the same tokens
  end)

  it("operators with 'reused' without an earlier run", function()
    local function run(...)
      local layers = { ... }
      return warnings(architecture.new(function()
        for i, ops in ipairs(layers) do layers[i] = { name = "layer " .. i, count = 1, ops = ops } end
        return { layers = layers }
      end, hyper))
    end
    local ops = { "rms_norm", blocks.enter, "linear_up", "swiglu", "linear_down", blocks.leave, "residual_add" }
    local warning = "layer 'layer 1': no earlier entry without 'reused' has the weights of rms_norm, linear_up, "
      .. "linear_down, so they count as 0. Remove 'reused' from the first run."
    assert.same({ warning }, run(blocks.reused(ops), ops))
    assert.same({}, run(ops, blocks.reused(ops)))
  end)

  it("partial sums of experts, only if they are split", function()
    local experts = { "expert_linear1", "expert_linear2" }
    assert.same({ "layer 'block': no expert_leave follows expert_linear2, so its partial sums over etp ranks are not "
      .. "added" }, of(experts))
    assert.same({}, of(experts, { tp = 2, etp = 1, ep = 2, micro_batch = 1, seq = 64 }))
  end)

  it("an activation of experts with the dense width", function()
    local function experts(activation)
      local with = { gated_mlp = activation == "swiglu" or activation.op == "swiglu" }
      return { exchange, { op = "expert_linear1", with = with }, activation, "expert_linear2",
        { collective = "expert_leave" }, exchange }
    end
    for _, name in ipairs { "swiglu", "gelu" } do
      assert.same({ ("layer 'block': %s between products of experts has the width of the dense MLP; with = "
        .. "blocks.expert_width(hyper) gives the experts' width"):format(name) }, of(experts(name)))
      assert.same({}, of(experts { op = name, with = blocks.expert_width(hyper) }))
    end
  end)
end)

describe("a model warns of a window", function()
  local function of_model(name, own)
    return warnings(model_module.new(name, own), { tp = 1, micro_batch = 1, seq = 1024 })
  end

  it("that no layer has", function()
    local idle = { "window = 64 has no effect: no layer has it; in layer_types it is 'sliding_attention'" }
    assert.same(idle, of_model("nemotron-h-8b", { window = 64 }))
    assert.same(idle, of_model("llama3-8b", { window = 64, mixer = "mamba2" }))
    assert.same(idle, of_model("llama3-8b", { window = 64, window_every = 1 }))
  end)

  it("in no other model: it shortens attention", function()
    for _, own in ipairs { { window = 64 }, { window = 64, window_every = 32 },
      { window = 64, layer_types = { "full_attention", "sliding_attention" } } } do
      assert.same({}, of_model("llama3-8b", own))
      local model = model_module.new("llama3-8b", own)
      local plan, whole = { seq = 1024, micro_batches = 1 }, model_module.new "llama3-8b"
      local a = estimate.new { model = model, cluster = "dgx_h100", plan = plan }
      local b = estimate.new { model = whole, cluster = "dgx_h100", plan = plan }
      assert.is_true(a.step_seconds < b.step_seconds)
    end
  end)
end)
