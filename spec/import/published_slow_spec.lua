--- The targets of published measured steps; skipped, saying so, where the reference data is absent.
local published = require "published"

describe("published measured steps", function()
  local rows, why = published.rows()
  if not rows then
    pending("skipped: " .. tostring(why))
    return
  end

  it("are estimated within their targets, with nothing fitted on them", function()
    local bench = require("ett.base.find").load_file(require("ett.host").root .. "/spec/bench/published.lua")
    local targets = 0
    for _, row in ipairs(bench.run {}) do
      if row.pass ~= nil then
        targets = targets + 1
        assert.is_true(row.pass, row.measure .. ": " .. row.value)
      end
    end
    assert.equal(4, targets)
  end)

  it("are read for what they state", function()
    local by_id = {}
    for _, row in ipairs(rows) do by_id[row.id] = row end
    local plan = published.plan(by_id["neox_A100_GPT_20B_8-4-4"], "fp16")
    assert.same({ 5, 6, 6, 6, 6, 6, 6, 3 }, plan.split)
    assert.equal(1, plan.zero)
    local interleaved = published.plan(by_id.korth22_175B_selSP, "fp16")
    assert.equal("interleaved", interleaved.schedule)
    assert.equal("selective", interleaved.recompute)
    assert.is_true(interleaved.sequence_parallel)
    local overlapped = published.plan(by_id.moezoo_qwen3_235b_h100_1, "bf16") -- "DeepEP, 1F1B A2A overlap"
    assert.same({ "batch", true }, { overlapped.overlap_all_to_all, overlapped.deduplicate_tokens })
    assert.is_nil(published.plan(by_id.moezoo_qwen3_235b_h100_3, "bf16").deduplicate_tokens) -- "NCCL A2A dispatcher"
    assert.equal(85e9, published.cluster(by_id.vtrain_multi_0000).links.inter.bandwidth_per_node)
    assert.is_nil(published.dtype { precision = "nvfp4 (recipe _fp4)" })
    assert.equal("fp8", published.dtype { precision = "MXFP8" })
  end)
end)
