--- Megatron-LM's placement of attention and MLPs among Mamba layers, from their shares of all layers
--- (megatron/core/ssm/mamba_hybrid_layer_allocation.py): attention evenly, with Mamba at both ends; then MLPs evenly
--- among the Mamba layers that are left, as late as possible.
--
--   hybrid_allocation(8, 0.25, 0) --> "MM*MM*MM"
local function placed(letters, letter, gap)
  local left = gap
  for i, old in ipairs(letters) do
    if old == "M" and left < 0.5 then
      letters[i], left = letter, left + gap
    elseif old == "M" then
      left = left - 1
    end
  end
end

-- Python's round: halves go to the even neighbour.
local function rounded(x)
  local low = math.floor(x)
  if x - low == 0.5 then return low % 2 == 0 and low or low + 1 end
  return math.floor(x + 0.5)
end

---@param attention number share of attention layers
---@param mlp number share of MLP layers
---@return string letters M, * and -, one a layer
return function(layers, attention, mlp)
  local letters = {}
  for i = 1, layers do letters[i] = "M" end
  local attentions, mlps = rounded(layers * attention), rounded(layers * mlp)
  local mambas = layers - attentions
  if attentions > 0 then placed(letters, "*", mambas / (attentions + 1)) end
  if mlps > 0 then placed(letters, "-", (mambas - mlps) / mlps) end
  return table.concat(letters)
end
