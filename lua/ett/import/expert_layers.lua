--- Layers with experts in ett's terms: first_dense_layers, then the last layer of each group of moe_every.
--
--   expert_layers { false, true, true, true } --> 1, 1, true
---@param list boolean[] whether each layer has experts
---@return integer first_dense_layers, integer moe_every, boolean exact: every layer agrees with the list
return function(list)
  local first, every = 0, 1
  while list[first + 1] == false do first = first + 1 end
  while list[first + 1 + every] == false do every = every + 1 end
  first = math.max(0, first - (every - 1))
  for i, sparse in ipairs(list) do
    if sparse ~= (i > first and (i - first - 1) % every == every - 1) then return first, every, false end
  end
  return first, every, true
end
