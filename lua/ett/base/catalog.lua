--- Lists description files: operators, architectures, clusters, …, with their summaries.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local folder_module = require "ett.base.folder"
local schema = require "ett.base.schema"

local catalog = {}

function catalog.kinds() return schema.keys(find.folders) end

--- First line of the comment at the start of a file, or the title of a page.
local function first_comment(path, is_page)
  for line in io.lines(path) do
    local text = line:match(is_page and "^#%s*(.*)$" or "^%-%-+%s*(.-)%s*$")
    if text then
      if text ~= "" then return text end
    elseif not line:match("^#!") then
      break
    end
  end
  return nil
end

-- Texts in each file of a kind, as lists of alternatives. A file at the top of the user's folder may be of another kind
-- or a program. It is recognized by these texts and not run.
local summarised, built_operator = { "%f[%w]summary%s*=" }, "require *%(?[\"']ett%.operator%."
local copied_operator, copied_cluster = "%f[%w]operator%.get%f[%W]", "load%s*%(%s*[\"']clusters[\"']"
local marks = {
  architectures = { { "\nreturn function%s*%(", "[%s.]build%s*[=(]" }, { "%f[%w]layers%f[%W]", "[\"']ett%.model%." } },
  clusters = { { "%f[%w]links%s*=", "%f[%w]tiers%s*=", copied_cluster }, summarised },
  collectives = { { "[%s.,{]seconds%s*[=(]", "[%s.,{]timer%s*[=(]" }, { "%f[%w]kinds%s*=" }, summarised },
  metrics = { { "[%s.]compute%s*[=(]", "[%s.]value%s*[=(]" }, { "%f[%w]definition%s*=" }, summarised },
  models = { { "%f[%w]architecture%s*=" }, { "%f[%w]hyper%s*=" } },
  operators = { { "[%s.]shape%s*[=(]", built_operator, copied_operator },
    { "%f[%w]schema%s*=", built_operator, copied_operator }, summarised },
  schedules = { { "[%s.]order%s*%(", "[%s.,{]order%s*=%s*function", "[%s.]activations%s*%(",
    "[%s.,{]activations%s*=%s*function" }, summarised },
  stacks = { { "\nreturn%s*{%s*base%s*=%s*[\"']", ",%s*base%s*=%s*[\"']", "%f[%w_]launch_seconds%s*=[^=]",
    "%f[%w_]cross_entropy%s*=[^=]", "%f[%w]graphs%s*=[^=]",
    "%f[%w]attention%s*=%s*[\"']flash%d", "%f[%w]attention%s*=%s*[\"']cudnn", "[%s,{]norm%s*=%s*[\"'][fct]" },
    summarised } }

local function is_of(kind, path)
  local file <close> = assert(io.open(path))
  local text = "\n" .. (file:read(1 << 18) or "")
  if not text:find "\nreturn%f[%W]" then return false end
  for _, alternatives in ipairs(marks[kind]) do
    local found = false
    for _, pattern in ipairs(alternatives) do found = found or text:find(pattern) ~= nil end
    if not found then return false end
  end
  return true
end

--- Folders of pages among the examples: each has a README.md in place of a script.
local function page_folders()
  local lfs, list = require "lfs", {}
  for _, root in ipairs(find.roots()) do
    local folder = root .. "/examples"
    for _, name in ipairs(folder_module.names(folder, "^[%w_]")) do
      local path = ("%s/%s/README.md"):format(folder, name)
      if lfs.attributes(path, "mode") == "file"
        and not lfs.attributes(("%s/%s/init.lua"):format(folder, name)) then
        list[#list + 1] = { name = name, path = path, page = true }
      end
    end
  end
  return list
end

--- The files of a kind: list of {name, path, at_top?, page?}, sorted.
function catalog.entries(kind)
  local list, index = find.list(find.folders[kind]), {}
  for i, entry in ipairs(list) do index[entry.name] = i end
  for _, entry in ipairs(marks[kind] and find.at_top() or {}) do
    if find.path(find.folders[kind], entry.name) == entry.path and is_of(kind, entry.path) then
      entry.at_top = true
      list[index[entry.name] or #list + 1] = entry
    end
  end
  for _, entry in ipairs(kind == "examples" and page_folders() or {}) do list[#list + 1] = entry end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- Examples and benchmarks are programs: listing must not run them.
local runs = { examples = true, benchmarks = true }

--- The fault of a field that a list shows, or nil.
local function fault_of(value)
  local aliases, summary = value.aliases or {}, value.summary or ""
  local names = type(aliases) == "table" and aliases or { aliases }
  for _, name in ipairs(names) do
    if names ~= aliases or type(name) ~= "string" then
      return ("field 'aliases' must be a list of strings, got %s"):format(schema.describe(name))
    end
  end
  return type(summary) ~= "string" and ("field 'summary' must be a string, got %s"):format(schema.describe(summary))
    or nil
end

local function describe(kind, entry)
  local described = { name = entry.name, path = entry.path, summary = first_comment(entry.path, entry.page) }
  if runs[kind] or entry.at_top then return described end
  local ok, value = pcall(find.load_file, entry.path)
  if not ok then
    described.fault = tostring(value)
  elseif type(value) == "table" then
    described.fault = fault_of(value)
    if described.fault then return described end
    described.summary = value.summary or described.summary
    local copied = value.path and value.path ~= entry.path -- a loaded operator's table, with its aliases
    described.aliases = value.aliases and #value.aliases > 0 and not copied and value.aliases or nil
    described.source = type(value.source) == "string" and value.source or nil
  end
  return described
end

--- Every file of a kind: list of {name, path, summary, aliases?, source?, fault?}, sorted.
---@param kind string
function catalog.list(kind)
  if not find.folders[kind] then
    error_module.raise("usage", "%s", error_module.unknown("kind", kind, catalog.kinds()))
  end
  local list = {}
  for i, entry in ipairs(catalog.entries(kind)) do list[i] = describe(kind, entry) end
  return list
end

return catalog
