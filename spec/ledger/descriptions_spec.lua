--- The bundled descriptions of users' own layers, against formulas worked out by hand.
local command = require "command"
local host = require "ett.host"

--- Totals that `ett run examples/NAME.lua` prints: { flop = {forward, backward}, tx =, rx = }.
local function totals(name)
  local text, status = command.ett("/", { "run", ("%s/examples/ledger_%s.lua"):format(host.root, name) })
  assert.equal(0, status, text)
  local found = {}
  for what, forward, backward in text:gmatch("(%w+) +forward +(%S+) +backward +(%S+)") do
    found[what] = { tonumber(forward), tonumber(backward) }
  end
  return found
end

local function near(wanted, got)
  assert.is_true(math.abs(wanted - got) <= 6e-5 * math.abs(wanted), ("wanted %.6e, got %.6e"):format(wanted, got))
end

describe("a description", function()
  it("of grouped queries", function()
    local b, l, d, h, g, c, p = 16, 2048, 4096, 32, 8, 128, 8
    local t = totals "gqa"
    -- Projections: query and output with h heads, key and value with g; sums over d and over c, heads.
    local product = b * l * d * h * c * 2 + b * l * d * g * c * 2 + 2 * b * h * l * l * c + b * h * l * l
    local sums = b * l * (h + 2 * g) * c * (d - 1) + b * h * l * l * (c - 1) + b * h * l * (l - 1)
      + b * h * c * l * (l - 1) + b * l * d * (h * (c - 1) + g * (h / g - 1) + g - 1)
    near(product + sums, t.flop[1])
    -- Only the output is summed over ranks: an all-reduce of the residual.
    near(2 * b * l * d * (p - 1), t.rx[1])
  end)

  it("of a causal mask", function()
    local b, l, h, c = 16, 2048, 32, 128
    local t = totals "causal_mask"
    local product = 2 * b * h * l * l * c + b * h * l * l
    local sums = b * h * l * l * (c - 1) + b * h * l * (l - 1) + b * h * c * l * (l - 1)
    near((product + sums) * (l + 1) / (2 * l), t.flop[1])
    assert.same({ 0, 0 }, t.rx)
  end)

  it("of a gated feed-forward layer", function()
    local b, l, d, f, dp, p = 16, 2048, 4096, 14336, 4, 8
    local t = totals "glu"
    near(3 * b * l * d * f + b * l * f + 2 * b * l * f * (d - 1) + b * l * d * (f - 1), t.flop[1])
    near(3 * d * f * (dp - 1) + 2 * b * l * d * (p - 1), t.rx[1])
    near(3 * d * f + b * l * d * (p - 1) + b * l * d, t.tx[1])
  end)

  it("of top-k routing", function()
    local b, l, d, f, e, k, capacity, p, x = 16, 4096, 4096, 14336, 8, 2, 1.25, 2, 8
    local t = totals "topk_routing"
    local visits = b * l * k * capacity -- places in experts
    local moved = visits * d
    -- The router runs on all tensor ranks; there and back, 7 of 8 words leave their rank.
    near(2 * moved * p * (1 - 1 / x) + 2 * moved * (p - 1), t.rx[1])
    near(b * l * d * e * p + b * l * e * p * (d - 1) + 2 * visits * d * f + visits * f * (d - 1)
      + visits * d * (f - 1), t.flop[1])
  end)

  it("of embedding and logits", function()
    local b, l, d, v, p = 16, 2048, 4096, 128256, 8
    local t = totals "embedding"
    near(2 * b * l * d * (p - 1) + 4 * b * l * (p - 1), t.rx[1])
    near(b * l * d * v + b * l * v * (d - 1) + b * l * d * (p - 1) + 2 * b * l * (v - 1), t.flop[1])
  end)
end)

describe("ett compare", function()
  local function compare(words)
    local text, status = command.ett("/", "compare --model gpt --cluster dgx_h100 --json " .. words)
    assert.equal(0, status, text)
    return require("ett.json").decode(text)
  end

  it("shows three views of one step", function()
    local doc = compare("layers=24 hidden=2048 heads=16 seq=2048 vocab=51200 pp=2 tp=4 dp=2 micro_batch=2 "
      .. "micro_batches=8")
    assert.equal(3, #doc.views)
    assert.equal(16, doc.devices)
    for _, view in ipairs(doc.views) do
      assert.is_true(view.step_seconds > 0 and view.mfu_percent > 0 and view.mfu_percent < 100, view.view)
      assert.is_true(view.step_seconds >= view.compute_seconds)
    end
    assert.is_true(#doc.reasons >= 6)
    -- Same model: without vocabulary and attention scores the views count the same FLOP.
    local layers, d, f, tokens = 24, 2048, 8192, 32 * 2048
    local matrices = layers * (4 * d * d + 2 * d * f)
    assert.is_true(math.abs(doc.views[2].flop / (6 * matrices * tokens) - 1) < 1e-12)
    local scores = 12 * layers * d * 2048 * tokens
    assert.is_true(math.abs(doc.views[1].flop / (6 * matrices * tokens + scores) - 1) < 2e-3)
  end)

  it("has no traffic on one device", function()
    local doc = compare "layers=4 hidden=512 heads=8 seq=256 vocab=1024 micro_batches=2"
    for _, view in ipairs(doc.views) do
      assert.equal(0, view.tensor_seconds + view.pipeline_seconds + view.data_seconds, view.view)
    end
  end)
end)
