--- Layers with experts in ett's terms: first_dense_layers, then the last layer of each group of moe_every; or, for any
--- other order, a list of the dense layers.
--
--   expert_layers { false, true, true, true } --> 1, 1, nil
---@param list boolean[] whether each layer has experts
---@return integer first_dense_layers, integer moe_every, integer[]? dense_layers
return function(list)
  local first, every, dense, exact = 0, 1, {}, true
  while list[first + 1] == false do first = first + 1 end
  while list[first + 1 + every] == false do every = every + 1 end
  first = math.max(0, first - (every - 1))
  for i, sparse in ipairs(list) do
    exact = exact and sparse == (i > first and (i - first - 1) % every == every - 1)
    if not sparse then dense[#dense + 1] = i end
  end
  if exact then return first, every, nil end
  return 0, 1, dense
end
