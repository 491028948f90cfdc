--- LongCat-Flash (arXiv 2509.01322): each layer has two blocks of attention and dense MLP. Its experts read the input
--- of the first MLP and are added behind the second, so that their all-to-alls may run beside the dense blocks.
-- A router also has zero_experts, which return their input: a token uses top_k of all, hence fewer real experts.
local blocks = require "ett.model.blocks"
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"

local architecture = { summary = "LongCat-Flash: experts beside two dense blocks" }

architecture.schema = {
  zero_experts = { "natural", default = 0, most = 1 << 16, help = "experts that return their input" },
}

--- Experts that a token uses on average, if all are equally likely.
local function real_top_k(h)
  local share = h.top_k * h.experts / (h.experts + h.zero_experts)
  return math.max(1, math.floor(share + 0.5))
end

-- The entries, marked as independent of the routed experts.
local function beside(part, entries)
  local list = {}
  for i, entry in ipairs(entries) do
    list[i] = type(entry) == "string" and { op = entry } or entry
    if list[i].op then list[i] = merged({ beside = part }, list[i]) end
  end
  return list
end

local function layer(h)
  local attention = blocks.join(h.norm, blocks.attention_region(h), blocks.leave, blocks.residual(h))
  local routed = blocks.moe_feed(setmetatable({ top_k = real_top_k(h) }, { __index = h }))
  routed[1] = merged(routed[1], { with = { experts = h.experts + h.zero_experts } })
  for i = 2, #routed do routed[i] = blocks.with({ routed[i] }, { top_k = real_top_k(h) })[1] end
  local first = blocks.join(blocks.dense_feed(h), blocks.residual(h))
  local second = blocks.join(attention, h.norm, blocks.dense_feed(h), blocks.residual(h), blocks.residual(h))
  return blocks.join(attention, h.norm, routed, beside("dispatch", first), beside("combine", second))
end

function architecture.build(hyper)
  blocks.refuse_types(hyper)
  if not (hyper.experts and hyper.top_k) then
    error_module.raise("model", "LongCat-Flash needs the fields 'experts' and 'top_k'")
  end
  hyper.norm, hyper.position = hyper.norm or "rms_norm", hyper.position or "rope"
  if hyper.gated_mlp == nil then hyper.gated_mlp = true end
  return blocks.decoder(hyper, { name = "two blocks and experts", count = hyper.layers, ops = layer(hyper) })
end

return architecture
