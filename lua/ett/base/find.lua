--- Finds description files by name under the roots. Files need not be registered.
--
-- The roots, in order: the running script's folder, each `--path DIR`, each entry of ETT_PATH, the installed tree. The
-- current folder is never searched, because it may hold untrusted files. `find.path("operators", "gelu")` looks for
-- gelu.lua and the file init.lua of a folder gelu, in operators/ of each root. In the script's folder and in a
-- `--path` it looks for gelu.lua, too.
local error_module = require "ett.base.error"
local host = require "ett.host"

local find = {}
local script_folder, script_path
local given_folders = {} -- folders of --path
local roots -- of find.roots; nil after a change

--- Kinds of description files: kind -> folder under the roots.
find.folders = {
  architectures = "lua/architectures", benchmarks = "spec/bench", campaigns = "samplers/campaigns",
  clusters = "clusters",
  collectives = "lua/collectives",
  communication = "lua/ett/trace/communication", devices = "clusters/devices", examples = "examples",
  metrics = "lua/ett/metrics", models = "lua/models",
  operators = "operators", schedules = "lua/schedules", stacks = "lua/stacks",
}

--- Counts changes of the roots. Results of find.path are valid while it is unchanged.
find.generation = 0

--- The roots; the first that has a file wins.
---@return string[] which the caller must not change
function find.roots()
  if roots then return roots end
  local found = { script_folder }
  table.move(given_folders, 1, #given_folders, #found + 1, found)
  for entry in (os.getenv "ETT_PATH" or ""):gmatch "[^:]+" do
    if entry:sub(1, 1) ~= "/" then
      error_module.raise("usage", "ETT_PATH: '%s' must be an absolute folder", entry)
    end
    found[#found + 1] = entry
  end
  found[#found + 1] = host.root
  roots = found
  return found
end

-- Modules are searched under the same roots.
local function roots_changed()
  find.generation = find.generation + 1
  roots = nil
  local front = {}
  for _, root in ipairs(find.roots()) do
    if root ~= host.root then
      front[#front + 1] = ("%s/?.lua;%s/?/init.lua;%s/lua/?.lua"):format(root, root, root)
    end
  end
  find.default_path = find.default_path or package.path
  front[#front + 1] = find.default_path
  package.path = table.concat(front, ";")
end

--- Sets the folder of the running script; its files are found first.
---@param path string? of the script itself, which describes nothing
function find.set_script_folder(folder, path)
  script_folder, script_path = folder, path
  roots_changed()
end

--- Sets the folders that the command line names with `--path`; nil: none.
---@param folders string[]?
function find.set_folders(folders)
  local lfs = require "lfs"
  given_folders = {}
  for i, folder in ipairs(folders or {}) do
    if lfs.attributes(folder, "mode") ~= "directory" then
      error_module.raise("usage", "--path: '%s' is not a folder", folder)
    end
    folder = folder:sub(1, 1) == "/" and folder or ("%s/%s"):format(lfs.currentdir(), folder)
    given_folders[i] = #folder > 1 and folder:gsub("/%.?$", "") or folder
  end
  roots_changed()
end

--- The name of a description: that of its file, or of its folder if the file is init.lua: "gelu" of
--- "operators/gelu.lua".
function find.name_of(path)
  if path:sub(-9) == "/init.lua" then path = path:sub(1, -10) end
  local name = path:match "^.*/(.*)$" or path
  return name:sub(-4) == ".lua" and name:sub(1, -5) or name
end

--- A description's file in messages: "gelu.lua"; with its folder if the file is init.lua.
function find.label(path)
  local name = path:match(path:sub(-9) == "/init.lua" and "^.*/(.*/.*)$" or "^.*/(.*)$") or path
  return name:find "%c" and name:gsub("%c", function(c) return ("\\x%02x"):format(c:byte()) end) or name
end

-- Whether a path is a regular file; opening a named pipe would block. The error of a file that cannot be opened comes
-- from its loading.
local function is_file(path) return require("lfs").attributes(path, "mode") == "file" end

-- Whether a root is a folder of the user, where description files may also lie at the top level.
local function is_own(root)
  if root == script_folder then return true end
  for _, folder in ipairs(given_folders) do if folder == root then return true end end
  return false
end

-- Where a root has a description, without the top level of a user's folder.
local function candidates(root, kind, name)
  local places = { ("%s/%s/%s.lua"):format(root, kind, name), ("%s/%s/%s/init.lua"):format(root, kind, name) }
  local leaf = is_own(root) and kind:match "^.*/(.*)$" -- nil for "operators"
  if leaf then
    places[3], places[4] = ("%s/%s/%s.lua"):format(root, leaf, name), ("%s/%s/%s/init.lua"):format(root, leaf, name)
  end
  return places
end

-- Where the top level of a user's folder has a description. A cluster's folder also holds its profile.
local function at_top_of(root, kind, name)
  return { ("%s/%s.lua"):format(root, name), kind == "clusters" and ("%s/%s/init.lua"):format(root, name) or nil }
end

-- Kinds that plans name by default (the stack plain, the model ring). For these, a file plain.lua at the top of the
-- user's folder does not replace ett's own; one in stacks/ does.
local kept = { ["lua/stacks"] = true, ["lua/collectives"] = true, ["lua/schedules"] = true }

local valid_name = "^[%w_][%w_%-%.]*$"

--- Path of the file that describes `name`, or nil.
---@param kind string folder under the roots, such as "operators" or "lua/architectures"
function find.path(kind, name)
  if type(name) ~= "string" or not name:find(valid_name) then return nil end
  local function exists(path) return path ~= script_path and is_file(path) end
  local at_top
  for _, root in ipairs(find.roots()) do
    for _, path in ipairs(candidates(root, kind, name)) do if exists(path) then return path end end
    for _, path in ipairs(is_own(root) and at_top_of(root, kind, name) or {}) do
      local found = exists(path)
      if found and not kept[kind] then return path end
      at_top = at_top or found and path or nil
    end
  end
  return at_top
end

-- The folders in which find.list looks, in order.
local function folders_of(kind)
  local folders = {}
  for _, root in ipairs(find.roots()) do
    folders[#folders + 1] = root .. "/" .. kind
    if is_own(root) then folders[#folders + 1] = root .. "/" .. kind:match("([^/]+)$") end
  end
  return folders
end

--- Whether find.list(kind) can find files of the installed tree alone.
---@param kind string
function find.only_installed(kind)
  local lfs = require "lfs"
  for _, folder in ipairs(folders_of(kind)) do
    if folder ~= host.root .. "/" .. kind and lfs.attributes(folder, "mode") == "directory" then return false end
  end
  return true
end

--- Every name found under the roots for a kind, sorted: list of {name=, path=}.
---@param kind string
function find.list(kind)
  local lfs = require "lfs"
  local seen, entries = {}, {}
  for _, folder in ipairs(folders_of(kind)) do
    if lfs.attributes(folder, "mode") == "directory" then
      for entry in lfs.dir(folder) do
        local name = entry:match("^([%w_][%w_%-%.]*)%.lua$")
        local path = folder .. "/" .. entry
        if not name and entry:sub(1, 1) ~= "." and lfs.attributes(path .. "/init.lua", "mode") == "file" then
          name, path = entry, path .. "/init.lua"
        end
        if name and not seen[name] and lfs.attributes(path, "mode") == "file" then
          seen[name] = true
          entries[#entries + 1] = { name = name, path = path }
        end
      end
    end
  end
  table.sort(entries, function(a, b) return a.name < b.name end)
  return entries
end

--- The Lua files at the top of the user's folders, and init.lua of the folders there, of any kind: list of {name=,
--- path=}.
function find.at_top()
  local lfs, entries = require "lfs", {}
  local function add_all(root)
    for entry in lfs.dir(root) do
      for _, path in ipairs { root .. "/" .. entry, ("%s/%s/init.lua"):format(root, entry) } do
        local name = path:find "%.lua$" and find.name_of(path)
        if name and name:find(valid_name) and is_file(path) then
          entries[#entries + 1] = { name = name, path = path }
        end
      end
    end
  end
  for _, root in ipairs(find.roots()) do
    if is_own(root) and lfs.attributes(root, "mode") == "directory" then add_all(root) end
  end
  return entries
end

function find.names(kind)
  local names = {}
  for i, entry in ipairs(find.list(kind)) do names[i] = entry.name end
  return names
end

--- Kinds whose names are matched without regard to case and punctuation.
local tolerant = { clusters = true, ["clusters/devices"] = true, ["lua/models"] = true }

--- A name without case and punctuation: "Llama-3.1_8B" -> "llama318b".
function find.plain(name) return (name:lower():gsub("[%-_%.%s]", "")) end

local plain = find.plain

--- Whether consecutive words of a name form the given plain text: "h100" in "dgx_h100". The second result: whether
--- they do with a number behind it: "qwen" in "qwen3-8b".
local function has_words(name, text)
  local words, numbered = {}, false
  for word in name:gmatch "[^%-_%.]+" do words[#words + 1] = word end
  for first = 1, #words do
    for last = first, #words do
      local joined = plain(table.concat(words, "", first, last))
      if joined == text then return true, false end
      numbered = numbered or joined:sub(1, #text) == text and joined:find("^%d", #text + 1) ~= nil
    end
  end
  return false, numbered and text:find "%a$" ~= nil
end

-- The name that all others continue (dgx_a100: dgx_a100_40gb), or nil.
local function root_of(names)
  table.sort(names, function(a, b) return #a < #b end)
  for i = 2, #names do if names[i]:sub(1, #names[1] + 1) ~= names[1] .. "_" then return nil end end
  return names[1]
end

--- Resolves a name: an exact name first. For clusters, devices and models also the only name that differs just in case
--- and punctuation, then the only name with these words (h100: dgx_h100), or the name that all others with these words
--- continue. Otherwise nil and the candidates: names with these words, or with a number behind them (qwen: qwen3-8b).
function find.meant(kind, name)
  if find.path(kind, name) then return name, {} end
  if not tolerant[kind] or type(name) ~= "string" or plain(name) == "" then return nil, {} end
  local text, same, within, similar = plain(name), {}, {}, {}
  for _, known in ipairs(find.names(kind)) do
    local has, numbered = has_words(known, text)
    if plain(known) == text then same[#same + 1] = known end
    if has then within[#within + 1] = known end
    if has or numbered then similar[#similar + 1] = known end
  end
  local list = #same > 0 and same or within
  local root = root_of { table.unpack(list) }
  if root then return root, {} end
  return nil, #same > 0 and same or similar
end

--- Up to twelve names for a message.
function find.shown(names)
  local shown = table.move(names, 1, math.min(#names, 12), 1, {})
  if #names > #shown then shown[#shown + 1] = "…" end
  return table.concat(shown, ", ")
end

local restricted -- the globals of user files in the sandbox

--- Whether a file belongs to ett.
local function is_installed(path) return path:sub(1, #host.root + 1) == host.root .. "/" end
find.is_installed = is_installed

--- Environment of a description or script: it can read globals but not create them. The error names the line, because
--- the function may run long after the file was loaded.
---@param path string
function find.environment(path)
  return setmetatable({}, {
    __index = restricted and not is_installed(path) and restricted or _G,
    __metatable = false,
    __newindex = function(_, name, _)
      error_module.raise("model", "%sassignment to undeclared global '%s'; write 'local %s'", error_module.line(2),
        tostring(name), tostring(name))
    end,
  })
end

--- After this call user files have restricted globals, and `require` loads only text files.
function find.restrict()
  local search = package.searchers[2]
  local function is_users(name)
    local _, path = search(name)
    return path ~= nil and not is_installed(path)
  end
  restricted = require "ett.base.restricted"(is_users)
  package.searchers[2] = function(name)
    local chunk, path = search(name)
    if path and not is_installed(path) then debug.setupvalue(chunk, 1, restricted) end
    return chunk, path
  end
end

--- After this call modules cannot create globals either.
function find.protect_globals()
  local meta = getmetatable(_G) or {}
  meta.__newindex = function(_, name)
    error_module.raise("model", "assignment to undeclared global '%s'; write 'local %s'",
      tostring(name), tostring(name))
  end
  setmetatable(_G, meta)
end

local running = {} -- path of each file that is being loaded -> the file that asked for it, or "" for the first
local innermost = "" -- the last of them

local function finish(path, ok, ...)
  innermost, running[path] = running[path], nil
  if ok then return ... end
  error(..., 0)
end

--- Loads and runs a Lua file (text only, never bytecode) in its environment; returns its value.
function find.load_file(path)
  if path == innermost then
    error_module.raise("model", "%s: needs '%s' before it is loaded, and finds itself by that name; rename the file",
      path, find.name_of(path))
  elseif running[path] then
    error_module.raise("model", "%s and %s load each other; remove one of these two loads", path, innermost)
  end
  local chunk, why = loadfile(path, "t", find.environment(path))
  if not chunk then
    why = tostring(why)
    local reason = why:match "^cannot open .*: ([^:]+)$"
    if reason then error_module.raise("io", "cannot read '%s': %s", path, (reason:gsub("^%u", string.lower))) end
    error_module.raise("model", "%s", why:find(path, 1, true) == 1 and why or ("%s: %s"):format(path, why))
  end
  running[path], innermost = innermost, path
  return finish(path, pcall(error_module.wrap, find.label(path), chunk))
end

--- Loads another file of a description's folder, such as `check` of "samplers/cpu". Only files at the full path under a
--- root are used, never a file of that name beside a script.
function find.part(folder, name)
  for _, root in ipairs(find.roots()) do
    local path = ("%s/%s/%s.lua"):format(root, folder, name)
    if is_file(path) then return find.load_file(path) end
  end
  error_module.raise("missing", "%s has no file %s.lua", folder, name)
end

-- The same for the path of a file. The text names a folder under which find.path finds the file by its name.
local function of_file(leaf, path)
  local own = find.name_of(path)
  if not own:find(valid_name) then return nil end
  local function above(inner) return inner:match "^(.+)/" or inner:match "^/" or "." end
  local has_folder = path:sub(-9) == "/init.lua"
  local known = kept[find.folders[leaf]] and find.path(find.folders[leaf], own)
  local is_other = known and is_installed(known)
  local folder = above(has_folder and above(path) or path)
  if has_folder and leaf ~= "clusters" or is_other then -- not found at the top of a user's folder
    if folder:match "[^/]*$" ~= leaf then
      return is_other and ("; '%s' is a name of ett's: rename the file, or put it in %s/ of a folder of `--path`")
        :format(own, leaf) or ("; in a folder of `--path`, %s/%s/init.lua has the name '%s'"):format(leaf, own, own)
    end
    folder = above(folder)
  end
  return ("; the name is '%s', which `--path %s` finds"):format(own, folder)
end

--- Text that a message adds for an unknown name. nil, unless a folder that is not searched has a file of that name, or
--- the name is the path of a file.
---@param leaf string such as "operators"
---@param folder string? default: the current folder
function find.beside(leaf, name, folder)
  local file = name:match "%.lua$" and name or name:match "^(.-%.lua):" -- a stack's fields follow
  if file and is_file(file) then return of_file(leaf, file) end
  for _, path in ipairs { ("%s/%s.lua"):format(leaf, name), ("%s.lua"):format(name),
    leaf == "clusters" and ("%s/init.lua"):format(name) or nil } do
    if folder then path = ("%s/%s"):format(folder, path) end
    if name:find(valid_name) and is_file(path) then return ("; `--path %s` finds %s"):format(folder or ".", path) end
  end
end

--- Text on clusters of the device of that name, or nil.
local function clusters_of(name)
  local device = find.meant("clusters/devices", name)
  if not device then return nil end
  local found = {}
  for _, entry in ipairs(find.list "clusters") do
    if is_installed(entry.path) and find.load_file(entry.path).device == device then found[#found + 1] = entry.name end
  end
  return #found > 0 and ("; '%s' is a device, its clusters are %s"):format(device, find.shown(found))
    or ("; '%s' is a device, and a file with device = \"%s\" describes a cluster of it"):format(device, device)
end

local function hint_for(kind, leaf, name, similar)
  local of_device = kind == "clusters" and clusters_of(name)
  if of_device then return of_device end
  local nearest = similar and ("; did you mean '%s'?"):format(similar)
    or error_module.suggestion(name, find.names(kind))
  if find.folders[leaf] ~= kind then return nearest end -- of ett itself, not of users
  local beside = find.beside(leaf, name)
  if beside then return beside end
  return nearest ~= "" and nearest or ("; `ett list %s` names them all"):format(leaf)
end

--- Finds and loads the description of `name` (find.meant); raises with the nearest valid name.
---@return any value, string path
function find.load(kind, name)
  local path = find.path(kind, name)
  if not path then
    local meant, several = find.meant(kind, name)
    if meant then
      path = find.path(kind, meant)
      return find.load_file(path), path
    end
    local leaf = kind:match("([^/]+)$")
    if #several > 1 then
      error_module.raise("missing", "the %s '%s' may be %s; give one of them", (leaf:gsub("s$", "")), name,
        find.shown(several))
    end
    error_module.raise("missing", "unknown %s '%s'%s", (leaf:gsub("s$", "")), tostring(name),
      hint_for(kind, leaf, tostring(name), several[1]))
  end
  return find.load_file(path), path
end

--- Loads a description and checks it against the rules of its fields (ett.base.schema). Its name is that of its file.
function find.described(kind, name, fields)
  local value, path = find.load(kind, name)
  local label, own = find.label(path), find.name_of(path)
  local clean = require("ett.base.schema").check(value, fields, label)
  if clean.name and clean.name ~= own then
    error_module.raise("model", "%s: field 'name' must be '%s' as the file's, got '%s'", label, own, clean.name)
  end
  return clean, path, label
end

return find
