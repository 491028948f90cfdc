--- Notes the sizes of a trainer's file that differ from those of the given model. Its model is not read.
---@param names table<string, string> hyper-parameter by the file's name
---@param size_of fun(name: string): number? the file's size
---@param model table
---@param note fun(format: string, ...)
return function(names, size_of, model, note)
  local words = {}
  for theirs, ours in pairs(names) do
    local size, own = size_of(theirs), model.hyper[ours]
    if size and own and size ~= own then words[#words + 1] = ("%s = %s, not %s"):format(theirs, size, own) end
  end
  table.sort(words)
  if words[1] then note("the file's model differs from the given one: %s", table.concat(words, ", ")) end
end
