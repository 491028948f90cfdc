--- The examples that estimate run, and their errors are those that their comments state.
local command = require "command"
local find = require "ett.base.find"
local host = require "ett.host"

local function run(name, words)
  local path = ("%s/examples/%s"):format(host.root, name)
  local text, status = command.shell(("'%s/bin/ett' run '%s' %s --json"):format(host.prefix, path, words or ""))
  assert.equal(0, status, text)
  local value, err = require("ett.json").decode(text)
  assert.is_truthy(value, tostring(err))
  return value
end

describe("examples", function()
  it("of own operators, clusters and architectures need nothing but their folder", function()
    assert.is_true(run("own_operator/init.lua").step_seconds > 0)
    assert.equal("lab", run("own_cluster/init.lua").cluster)
    assert.is_true(run("own_architecture/init.lua").step_seconds > 0)
    assert.is_nil(find.path("operators", "relu2")) -- not in the library
  end)

  it("of a vision-language model and a diffusion transformer have the published sizes", function()
    local e = run "vision_language/init.lua"
    -- Weights of CLIP's tower (303507456) without its unused last layer and norm; of the projector; of Vicuna 7B.
    local layer, projector, decoder = 12 * 1024 ^ 2 + 13 * 1024, 1024 * 4096 + 4096 ^ 2 + 2 * 4096, 6738415616
    assert.equal(303507456 - layer - 2048 + projector + decoder, e.model.parameters)
    assert.equal(303507456 - layer - 2048, e.stages[1].frozen_parameters)
    -- Products of a PyTorch module on the meta device, with half of the pairs under the causal mask. PyTorch does not
    -- compute the gradient of the projector's input.
    assert.near(128 * 8.491998e13, e.model_flops_per_step, 128 * 1e10)
    e = run "diffusion_transformer/init.lua"
    assert.equal(675129632 - 256 * 1152, e.model.parameters) -- the positions are constants
    assert.near(118.64e9, e.model_flops_per_step / (256 * 3 * 2), 0.05e9) -- table 1 of the paper, in multiply-adds
  end)

  it("of a reference model run it forward alone", function()
    local e = run "preference/init.lua"
    local llama = 8030261248
    assert.equal(2 * llama, e.model.parameters)
    assert.same({ llama, llama }, { e.stages[1].parameters, e.stages[1].frozen_parameters })
    assert.same({}, e.warnings)
    local one = require("ett.step.estimate").new { model = require("ett.model").new "llama3-8b", plan = e.plan,
      cluster = "dgx_h100", interval = false }
    assert.near(4 / 3, e.model_flops_per_step / one.model_flops_per_step, 1e-9)
    -- Stages send two streams of the same width from the reference, and one from the trained model.
    local path = host.root .. "/examples/preference/with_reference.lua"
    local function new(frozen)
      return require("ett.model").new(path, require("ett.base.merged")({ layers = 2, hidden = 1024, heads = 16,
        vocab = 4096 }, frozen))
    end
    local sent = {}
    for i, layer in ipairs(new({}).layers) do
      sent[i] = layer.sends and layer.sends { seq = 512, hidden = 1024 } or 512
    end
    assert.same({ 512, 1024, 1024, 512, 512, 512 }, sent)
    for fields, message in pairs { ["frozen_kv_heads 3"] = "frozen_kv_heads = 3 must divide frozen_heads = 16",
      ["frozen_hidden 1000"] = "frozen_heads = 16 must divide frozen_hidden = 1000",
      ["frozen_heads 6"] = "frozen_kv_heads = 16 must divide frozen_heads = 6" } do
      local name, value = fields:match "(%S+) (%d+)"
      local ok, err = pcall(new, { [name] = tonumber(value) })
      assert.is_false(ok)
      assert.is_truthy(tostring(err):find(message, 1, true), tostring(err))
    end
  end)

  it("of the literature's architectures have the published sizes", function()
    local model, architecture = require "ett.model", require "ett.model.architecture"
    local function parameters(name, hyper)
      return architecture.parameters(model.new(("%s/spec/bench/architectures/%s.lua"):format(host.root, name), hyper))
    end
    -- timm 0.6, swin_tiny_patch4_window7_224 and mixer_b16_224; ett counts no tables of Swin's relative positions.
    local tables = (2 * 7 - 1) ^ 2 * (2 * 3 + 2 * 6 + 6 * 12 + 2 * 24)
    assert.equal(28288354 - tables, parameters("swin", { layers = 12, depths = { 2, 2, 6, 2 }, hidden = 96, heads = 3,
      vocab = 1000, vocab_multiple = 1 }))
    assert.equal(59880472, parameters("mlp_mixer", { layers = 12, hidden = 768, ffn = 3072, token_ffn = 384,
      vocab = 1000, vocab_multiple = 1 }))
    local function layers(name, hyper)
      local count = 0
      for _, layer in ipairs(model.new(("%s/spec/bench/architectures/%s.lua"):format(host.root, name), hyper).layers) do
        local kind = layer.name:match "^%a+"
        if kind == "windows" or kind == "shifted" or kind == "space" or kind == "time" then
          count = count + layer.count
        end
      end
      return count
    end
    assert.equal(9, layers("swin", { layers = 9, depths = { 1, 2, 3, 3 }, hidden = 96, heads = 3, vocab = 1000 }))
    for _, count in ipairs { 1, 3 } do
      assert.equal(count, layers("video_dit", { layers = count, hidden = 64, heads = 4, ffn = 256, frames = 4,
        temporal = "alternate" }))
    end
    -- The image encoder of Stable Diffusion with its last product; T5-XXL's encoder without its table and last norm.
    local dit = { layers = 28, hidden = 1152, heads = 16, ffn = 4608, text_tokens = 120 }
    local alone = parameters("video_dit", dit)
    dit.image_side = 256
    assert.equal(34163592 + 72, parameters("video_dit", dit) - alone)
    dit.text_encoder = true
    local layer = 4 * 4096 * 4096 + 3 * 4096 * 10240 + 2 * 4096
    assert.equal(34163592 + 72 + 24 * layer, parameters("video_dit", dit) - alone)
  end)

  it("of unlike nodes give slower stages fewer layers, which is faster", function()
    local e, even = run "unlike_nodes/init.lua", run("unlike_nodes/init.lua", "split=8,8,8,8")
    assert.equal("NVIDIAA100-SXM4-80GB", e.stages[4].device)
    assert.equal("H100-SXM-80GB", e.stages[2].device)
    assert.is_true(e.step_seconds < 0.7 * even.step_seconds)
  end)

  it("come near the steps that were measured", function()
    assert.near(13.75, run("gpt_175b.lua").step_seconds, 13.75 * 0.07)
    assert.near(18.13, run("gpt_175b.lua", "recompute=full sequence_parallel=false").step_seconds, 18.13 * 0.07)
  end)

  it("spread experts over ranks", function()
    local e = run "mixtral_8x7b.lua"
    local seen
    for _, line in ipairs(e.collectives) do seen = seen or (line.name == "all_to_all" and line.seconds > 0) end
    assert.is_true(seen)
  end)

  it("are quick and small: a step takes less than 300,000 instructions of Lua and 10 MB", function()
    local path = os.tmpname()
    assert(require("ett.io").write(path, ([[
      local thousands = 0
      debug.sethook(function() thousands = thousands + 1 end, "", 1000)
      local estimate = dofile "%s/examples/llemma_7b.lua"
      debug.sethook()
      local kilobytes = assert(io.open "/proc/self/status"):read("a"):match "VmHWM:%%s*(%%d+)"
      return { thousands = thousands, seconds = estimate.step_seconds, kilobytes = tonumber(kilobytes) }
      ]]):format(host.root)))
    local text = command.shell(("'%s/bin/ett' run '%s' --json"):format(host.prefix, path))
    local value = require("ett.json").decode(text)
    os.remove(path)
    assert.is_true(value.seconds > 0 and value.thousands > 50)
    assert.is_true(value.thousands < 300, value.thousands .. " thousand")
    local sanitized = not io.open(host.prefix .. "/lib/ett/libett.so")
    assert.is_true(sanitized or value.kilobytes * 1024 < 10e6, value.kilobytes .. " kB")
  end)
end)
