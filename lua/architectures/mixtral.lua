--- Sparse mixture of experts (Jiang et al. 2024): a llama whose MLP is a router and experts.
-- A router may first choose top_groups of expert_groups and then experts among them (DeepSeek-V2, -V3).
-- first_dense_layers, moe_every and dense_layers leave layers dense; shared_experts see every token (DeepSeekMoE).
local blocks = require "ett.model.blocks"
local error_module = require "ett.base.error"

return function(hyper)
  if not (hyper.experts and hyper.top_k) then
    error_module.raise("model", "a mixture of experts needs the fields 'experts' and 'top_k'")
  end
  if hyper.top_k > hyper.experts then
    error_module.raise("model", "top_k = %d must not exceed experts = %d", hyper.top_k, hyper.experts)
  end
  local groups, top = hyper.expert_groups, hyper.top_groups
  if top and not groups then error_module.raise("model", "top_groups = %d needs expert_groups", top) end
  if groups then
    top = top or groups
    if hyper.experts % groups ~= 0 then
      error_module.raise("model", "expert_groups = %d must divide experts = %d", groups, hyper.experts)
    elseif top > groups then
      error_module.raise("model", "top_groups = %d must not exceed expert_groups = %d", top, groups)
    elseif hyper.top_k > top * hyper.experts // groups then
      error_module.raise("model", "top_k = %d must not exceed the %d experts of top_groups = %d", hyper.top_k,
        top * hyper.experts // groups, top)
    end
  end
  hyper.norm = hyper.norm or "rms_norm"
  hyper.position = hyper.position or "rope"
  if hyper.gated_mlp == nil then hyper.gated_mlp = true end
  hyper.ffn = hyper.ffn or hyper.moe_ffn or 4 * hyper.hidden
  hyper.moe_ffn = hyper.moe_ffn or hyper.ffn
  local first, every, named = hyper.first_dense_layers or 0, hyper.moe_every or 1, {}
  for _, i in ipairs(hyper.dense_layers or {}) do named[i] = true end
  local layers = blocks.runs(hyper, function(i)
    return (named[i] or i <= first or (i - first - 1) % every ~= every - 1) and "dense" or "sparse"
  end, function(name, seen)
    return blocks.layer(seen, name == "dense" and blocks.dense_feed(seen) or blocks.moe_feed(seen))
  end)
  return blocks.decoder(hyper, table.unpack(layers))
end
