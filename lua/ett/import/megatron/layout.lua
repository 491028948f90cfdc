--- Parses Megatron-LM's --pipeline-model-parallel-layout into the layers of each slice. E is the embedding, t a layer,
--- m a layer of multi-token prediction, L the loss. | starts the next slice; x*3 or (…)*3 repeats.
--- Backslashes before | and parentheses are those of a shell; Megatron-LM's own YAML files have them.
---@param text string such as "Et*4|(t*4|)*14tmL"
---@return integer[]|nil layers of each slice, in the order of the model; nil for other letters
---@return integer|nil the slice with layers of multi-token prediction
return function(text)
  for n in text:gmatch "%d+" do if tonumber(n) > 1024 then return nil end end
  local function again(part, n) return part:rep(tonumber(n)) end
  -- Parentheses may contain repetitions of single letters.
  local plain = text:gsub("[,\\]", ""):gsub("%((.-)%)%*(%d+)", again):gsub("([Etm|L])%*(%d+)", again)
  if plain:find "[^Etm|L]" then return nil end
  local slices, predicted = {}, nil
  for slice in (plain .. "|"):gmatch "(.-)|" do
    slices[#slices + 1] = select(2, slice:gsub("t", ""))
    if slice:find "m" then predicted = #slices end
  end
  return slices, predicted
end
