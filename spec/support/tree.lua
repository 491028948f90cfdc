--- The files of the source tree, for specs about its shape.
local host = require "ett.host"
local lfs = require "lfs"

local tree = { root = host.root }

local function walk(folder, into)
  local names = {}
  for name in lfs.dir(tree.root .. "/" .. folder) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local path = folder == "" and name or folder .. "/" .. name
    local mode = lfs.symlinkattributes(tree.root .. "/" .. path, "mode")
    if mode == "directory" and not name:match("^%.") and not path:match("^build") then
      walk(path, into)
    elseif mode == "file" then
      into[#into + 1] = path
    end
  end
  return into
end

--- Paths below the root, less build trees and hidden folders, that match a pattern; sorted.
---@param pattern string?
---@return string[]
function tree.files(pattern)
  tree.all = tree.all or walk("", {})
  local found = {}
  for _, path in ipairs(tree.all) do
    if not pattern or path:match(pattern) then found[#found + 1] = path end
  end
  return found
end

local texts = {}

--- Text of a file, which is read once.
function tree.read(path)
  if not texts[path] then
    local file = assert(io.open(tree.root .. "/" .. path))
    texts[path] = file:read("a")
    file:close()
  end
  return texts[path]
end

return tree
