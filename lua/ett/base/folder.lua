--- Creates, writes and removes folders and files.
local error_module = require "ett.base.error"

local folder = {}

--- Creates a folder and its parents; raises on failure.
function folder.make(path)
  if path == "" then error_module.raise("usage", "the name of a folder is empty") end
  local ok, why = require("ett.io").make_folder(path)
  if not ok then error(error_module.from(why), 0) end
  return path
end

--- Writes a file atomically; on failure the old file remains and an error is raised.
---@param path string
---@param text string
---@return string path
function folder.write(path, text)
  local ok, why = require("ett.io").write(path, text)
  if not ok then error(error_module.from(why), 0) end
  return path
end

--- The same for a name that ett chose; also creates the folder. A link of that name is replaced, because other users
--- may have put it there.
---@return string path
function folder.write_in(path, name, text)
  local own = ("%s/%s"):format(folder.make(path), name)
  local ok, why = require("ett.io").write(own, text, "derived")
  if not ok then error(error_module.from(why), 0) end
  return own
end

--- Writes a file that the user named; also creates its folder.
function folder.write_with_folder(path, text)
  local parent = path:match("^(.+)/[^/]*$")
  if parent then folder.make(parent) end
  return folder.write(path, text)
end

--- Names in a folder that match a pattern, sorted; empty if there is no such folder.
---@return string[]
function folder.names(path, pattern)
  local lfs, names = require "lfs", {}
  if lfs.attributes(path, "mode") ~= "directory" then return names end
  for name in lfs.dir(path) do if name:match(pattern) then names[#names + 1] = name end end
  table.sort(names)
  return names
end

-- The folder of temporary folders: TMPDIR or /tmp.
local function parent()
  local under = os.getenv "TMPDIR"
  return under and require("lfs").attributes(under, "mode") == "directory" and under or "/tmp"
end

--- A new empty folder under TMPDIR or /tmp. The caller removes it.
---@return string path
function folder.temporary()
  local lfs, under, why = require "lfs", parent(), nil
  for _ = 1, 100 do
    local path = ("%s/ett-%08x"):format(under, math.random(0, 0xffffffff))
    local ok
    ok, why = lfs.mkdir(path)
    if ok then return path end
    if not lfs.attributes(path) then break end
  end
  return error_module.raise("io", "cannot make a temporary folder in '%s': %s", under, tostring(why))
end

--- Calls work(path) with a new temporary folder. It is removed afterwards, also when this process is killed. Returns
--- what work returns.
---@param work fun(path: string): ...
function folder.within(work)
  local own <close> = error_module.must(require("ett.io").temporary(parent()))
  return work(own:path())
end

--- Removes a folder and its contents; links are removed without following them.
function folder.remove(path)
  local lfs = require "lfs"
  if lfs.symlinkattributes(path, "mode") == "directory" then
    for entry in lfs.dir(path) do
      if entry ~= "." and entry ~= ".." then folder.remove(path .. "/" .. entry) end
    end
    lfs.rmdir(path)
  else
    os.remove(path)
  end
end

return folder
