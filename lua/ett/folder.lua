--- Folders.
local error_module = require "ett.error"

local folder = {}

--- Makes a folder and the ones above it; raises when that cannot be.
function folder.make(path)
  local lfs = require "lfs"
  local so_far = path:sub(1, 1) == "/" and "/" or ""
  for part in path:gmatch("[^/]+") do
    so_far = so_far .. part
    if lfs.attributes(so_far, "mode") ~= "directory" then
      local ok, why = lfs.mkdir(so_far)
      if not ok and lfs.attributes(so_far, "mode") ~= "directory" then
        error_module.raise("io", "cannot make folder '%s': %s", so_far, tostring(why))
      end
    end
    so_far = so_far .. "/"
  end
  return path
end

return folder
