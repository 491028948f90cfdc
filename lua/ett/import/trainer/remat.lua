--- MaxText's policies of recomputation (layers/decoders.py, get_remat_policy; configs/base.yml, remat_policy): names of
--- tensors that are stored, on the device or on the host. All else is repeated.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local remat = {}

local attention = { "query_proj", "key_proj", "value_proj", "qkv_proj" }

-- Names that a policy stores on the device.
local on_device = {
  save_qkv_proj = attention, save_out_proj = { "out_proj" },
  save_dot_except_mlp = { "out_proj", table.unpack(attention) },
  save_dot_except_mlpwi = { "out_proj", "mlpwo", table.unpack(attention) },
}

--- Policies that store most outputs, as the modules that selective recomputation repeats. `minimal` stores all products
--- but those of attention, with_context also the core of attention.
remat.repeated = { minimal = { "core_attn", "layernorm", "mlp_act" },
  minimal_with_context = { "layernorm", "mlp_act" },
  save_dot_with_context_except_mlp = { "layernorm", "mlp" } }

-- An operator (or a name of ett.operator.modules.tensors) whose output consists of tensors of some names, these names,
-- and its values per token.
local function head_dim(h) return h.head_dim or h.hidden // h.heads end
local function up_values(h)
  local ffn = h.ffn or 4 * h.hidden
  return (h.gated_mlp and 2 or 1) * (h.experts and h.top_k * (h.moe_ffn or ffn) or ffn)
end
local stored = {
  { op = "linear_qkv", names = { "query_proj", "key_proj", "value_proj" }, whole = "qkv_proj",
    values = function(h) return (h.heads + 2 * (h.kv_heads or h.heads)) * head_dim(h) end },
  -- Of latent attention (layers/attention_mla.py): outputs of the compressions, and of the norms after them.
  { op = "linear_q_down", names = { "query_wa_proj" }, latent = true,
    values = function(h) return h.q_lora_rank or 0 end },
  { op = "mla_q", names = { "mla_q" }, latent = true, values = function(h) return h.q_lora_rank or 0 end },
  { op = "linear_kv_down", names = { "kv_wa_proj" }, latent = true,
    values = function(h) return h.kv_lora_rank + h.qk_rope_head_dim end },
  { op = "mla_kv", names = { "mla_kv" }, latent = true, values = function(h) return h.kv_lora_rank end },
  { op = "flash_attention", names = { "context" },
    values = function(h) return h.heads * (h.v_head_dim or head_dim(h)) end },
  { op = "linear_proj", names = { "out_proj" }, values = function(h) return h.hidden end },
  { op = "linear_up", experts = "expert_linear1", names = { "mlpwi_0", "mlpwi_1" }, whole = "mlpwi",
    values = up_values },
  { op = "linear_down", experts = "expert_linear2", names = { "mlpwo" },
    values = function(h) return (h.experts and h.top_k or 0) * h.hidden end }, -- a dense one is never repeated
}

local places = { "device", "offload", "remat" }

-- Where `custom` stores the tensors. Reads all their names, because a file may state them for any policy.
local function places_of_custom(config)
  local custom = { decoder_layer_input = config("", "decoder_layer_input", "device") }
  for _, each in ipairs(stored) do
    for _, name in ipairs(each.names) do custom[name] = config("", name, "remat") end
    if each.whole then custom[each.whole] = config("", each.whole, "remat") end
  end
  return custom
end

-- Where a policy stores the tensor of a name, one of `places`.
local function place_of(policy, custom)
  if policy == "custom" then
    return function(name)
      for _, place in ipairs(places) do if custom[name] == place then return place end end
      error_module.raise("format", "%s: %s", name, error_module.unknown("value", custom[name], places))
    end
  end
  local there = { decoder_layer_input = "device" }
  for _, name in ipairs(policy == "qkv_proj_offloaded" and attention or {}) do there[name] = "offload" end
  for _, name in ipairs(on_device[policy] or {}) do there[name] = "device" end
  return function(name) return there[name] or "remat" end
end

-- Where most of an operator's output is stored; the second result is whether all of it is there.
local function majority(each, place)
  local count, all = {}, each.whole and place(each.whole)
  if all and all ~= "remat" then return all, true end
  for _, name in ipairs(each.names) do count[place(name)] = (count[place(name)] or 0) + 1 end
  for _, where in ipairs(schema.keys(count)) do
    if 2 * count[where] > #each.names then return where, count[where] == #each.names end
  end
  return "remat", false
end

--- Sets a plan's recomputation and its offloaded share of the activations.
---@param p table of the plan
---@param config fun(section: string, name: string, default: any?): any
---@param h table hyperparameters of the model
---@param note fun(format: string, ...)
---@param replaced boolean an argument replaces the policy
function remat.set(p, config, h, note, replaced)
  local policy, custom = config("", "remat_policy", "full"), places_of_custom(config)
  if replaced then return end
  if policy == "none" then p.recompute = "none" return end
  p.recompute_modules = remat.repeated[policy]
  if p.recompute_modules then p.recompute = "selective" return end
  p.recompute = "full"
  if not (policy == "full" or policy == "custom" or policy == "qkv_proj_offloaded" or on_device[policy]) then
    note("remat_policy = %s is modelled as full, which stores less and repeats more%s", policy,
      policy:find "offload" and "; copies to the host are not modelled" or "")
    return
  end
  local place = place_of(policy, custom)
  local keeps, kept, away = {}, 0, 0
  local function count(where, values)
    kept = kept + values
    away = away + (where == "offload" and values or 0)
  end
  count(place "decoder_layer_input", h.hidden)
  for _, each in ipairs(stored) do
    local where, whole = majority(each, place)
    local names = table.concat(each.names, ", ")
    if each.op == "linear_qkv" and h.kv_lora_rank then
      if where ~= "remat" or not whole then note("%s of latent attention are modelled as remat", names) end
    elseif not each.latent or h.kv_lora_rank and each.values(h) > 0 then
      if not whole then note("%s are modelled as %s", names, where) end
      if where ~= "remat" then
        keeps[#keeps + 1] = h.experts and each.experts or each.op
        count(where, each.values(h))
      end
    end
  end
  if keeps[1] then p.recompute, p.recompute_keeps = "policy", keeps end
  if away > 0 then p.offload_activations = away / kept end
end

return remat
