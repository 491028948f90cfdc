-- The files to copy of lua/architectures/README.md give the estimates of bundled architectures.
local architecture = require "ett.model.architecture"
local blocks = require "ett.model.blocks"
local estimate = require "ett.step.estimate"
local folder = require "ett.base.folder"
local schema = require "ett.base.schema"
local tree = require "tree"

local text = tree.read "lua/architectures/README.md"

--- The model of the n-th Lua block of lua/architectures/README.md.
local function of_page(n, own)
  local at = 0
  for code in text:gmatch "\n```lua\n(.-)\n```" do
    at = at + 1
    if at == n then
      return folder.within(function(path)
        return architecture.new(folder.write(path .. "/page.lua", code), own)
      end)
    end
  end
end

describe("the files to copy", function()
  local function same(own, bundled, plan)
    local function run(model) return estimate { model = model, cluster = "dgx_h100", plan = plan } end
    local mine, theirs = run(own), run(bundled)
    assert.equal(theirs.step_seconds, mine.step_seconds)
    assert.equal(theirs.memory_bytes, mine.memory_bytes)
    assert.equal(theirs.model_flops_per_step, mine.model_flops_per_step)
    assert.equal(theirs.model.parameters, mine.model.parameters)
    assert.same(theirs.warnings, mine.warnings)
  end

  it("give the estimate of llama", function()
    local dense = { layers = 4, hidden = 1024, heads = 8, vocab = 32000, ffn = 4096, gated_mlp = false }
    for _, tp in ipairs { 1, 4 } do
      same(of_page(1, dense), architecture.new("llama", dense), { tp = tp, micro_batches = 4, seq = 2048 })
    end
  end)

  it("give the estimate of mixtral, with grouped queries and with latent attention", function()
    local base = { layers = 4, hidden = 1024, heads = 8, kv_heads = 4, vocab = 32000, ffn = 4096, experts = 16,
      top_k = 4, moe_ffn = 768, shared_experts = 2 }
    local latent = { layers = 4, hidden = 1024, heads = 8, vocab = 32000, experts = 16, top_k = 4, moe_ffn = 768,
      shared_experts = 1, q_lora_rank = 512, kv_lora_rank = 256, qk_nope_head_dim = 64, qk_rope_head_dim = 32,
      v_head_dim = 64 }
    for _, h in ipairs { base, latent } do
      for _, plan in ipairs { { tp = 1, dp = 8, ep = 8 }, { tp = 2, dp = 4, ep = 4 },
        { tp = 2, dp = 4, ep = 4, etp = 1, sequence_parallel = true },
        { tp = 2, dp = 4, ep = 2, recompute = "selective" } } do
        plan.micro_batches, plan.seq = 4, 2048
        same(of_page(2, h), architecture.new("mixtral", h), plan)
      end
    end
  end)
end)

it("the cross-attention to copy has the FLOPs, weights and messages of its text", function()
  local function run(text_seq, plan)
    plan.seq, plan.micro_batches = 1024, 2
    return estimate { plan = plan, cluster = "dgx_h100", model = of_page(3, { layers = 4, hidden = 1024, heads = 8,
      vocab = 32000, ffn = 4096, text_seq = text_seq }) }
  end
  local short, long = run(256, {}), run(512, {})
  local more = 4 * (2.0 * 256 * 1024 * 2048 + 4.0 * 1024 * 256 * 1024) -- keys and values; scores and their products
  assert.near(2 * 3 * more, long.model_flops_per_step - short.model_flops_per_step, 1)
  assert.equal(4 * (12 * 1024 * 1024 + 4 * 1024 * 1024 + 3 * 1024) + 2 * 32000 * 1024 + 1024, short.model.parameters)
  local stream = 2.0 * 256 * 1024 -- once for all layers; keys and values in each
  assert.equal(stream + 4 * 2 * stream, long.stages[1].activation_bytes - short.stages[1].activation_bytes)
  local split = run(512, { pp = 2, tp = 2, cp = 2 })
  assert.near(long.model_flops_per_step, split.model_flops_per_step, 1)
  assert.same({}, split.warnings)
end)

it("the page lists every function of blocks", function()
  local rows = {}
  for row in text:match("## Functions of `blocks`(.-)\n## "):gmatch "\n| ([^|]+) |" do
    for name in row:gmatch "`([%w_]+)" do rows[name] = true end
  end
  rows["function"] = nil
  assert.same(schema.keys(blocks), schema.keys(rows))
end)
