--- Hyper-parameters: checks, and what follows from them.
local hyper = require "ett.model.hyper"
local merged = require "ett.base.merged"
local raised = require "raised"

local function given(more) return merged({ layers = 2, hidden = 512, heads = 8, vocab = 1000 }, more) end

local function message(more) return raised(hyper.check, given(more), nil, "m") end

describe("hyper-parameters", function()
  it("fill in heads, their width and the gate", function()
    local h = hyper.check(given { activation = "swiglu" }, nil, "m")
    assert.same({ 8, 64, true }, { h.kv_heads, h.head_dim, h.gated_mlp })
    h = hyper.check(given { kv_lora_rank = 64, qk_nope_head_dim = 32, qk_rope_head_dim = 16, v_head_dim = 32 }, nil,
      "m")
    assert.equal(48, h.head_dim)
  end)

  it("join the fields that an architecture declares", function()
    assert.equal(3, hyper.check(given(), { every = { "count", default = 3 } }, "m").every)
    assert.is_nil(hyper.fields.every)
  end)

  it("are refused where they contradict each other or exceed what can be counted", function()
    for wanted, more in pairs {
      ["m: activation = 'gelu' contradicts gated_mlp = true; give one of them"] =
        { activation = "gelu", gated_mlp = true },
      ["m: multi-head latent attention also needs 'qk_nope_head_dim', 'qk_rope_head_dim', 'v_head_dim'"] =
        { kv_lora_rank = 64 },
      ["m: heads = 8 must divide hidden = 500, or give head_dim"] = { hidden = 500 },
      ["m: kv_heads = 3 must divide heads = 8 (1, 2, 4, 8)"] = { kv_heads = 3 },
      ["m: field 'layers' must be at most 65536, got 65537"] = { layers = 65537 },
      ["m: unknown field 'hiden'; did you mean 'hidden'?"] = { hiden = 1 },
    } do
      assert.equal(wanted, message(more))
    end
  end)
end)
