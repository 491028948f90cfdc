--- Error objects: one line that says what is wrong, where, and what to do.
--
-- A fault of a model, plan, cluster or file is raised as { kind, message, context }. Each caller on the way up may add
-- one label:
--   llama.lua: layer 3: linear_qkv: field 'hidden' must be a positive integer, got -4096
local error_module = {}

---@class ett.Error
---@field kind string "usage", "argument", "model", "plan", "io", "format", "limit", "missing", "memory", "internal"
---@field message string lower case, no full stop
---@field context string[] labels, outermost first
---@field traceback string?
local Error = { __name = "ett.error" }
Error.__index = Error

function Error:__tostring()
  local labels = rawget(self, "context")
  local message = tostring(rawget(self, "message"))
  if labels and #labels > 0 then return table.concat(labels, ": ") .. ": " .. message end
  return message
end

-- C (runtime/bind/common.c) gives this metatable to its error objects.
require("ett.host").error_class(Error)

local function has_newline(value, ...)
  if type(value) == "string" and value:find("\n", 1, true) then return true end
  return select("#", ...) > 0 and has_newline(...)
end

--- string.format for messages: newlines in a quoted value ('%s') appear as \n, so that a message stays one line.
---@return string
function error_module.message(format, ...)
  if not has_newline(...) then return format:format(...) end
  local values, i = table.pack(...), 0
  for quote, kind in format:gmatch "('?)%%[%-+ #%d%.]*([%a%%])'?" do
    if kind ~= "%" then i = i + 1 end
    if kind == "s" and quote == "'" then values[i] = tostring(values[i]):gsub("\n", "\\n") end
  end
  return format:format(table.unpack(values, 1, values.n))
end

--- Makes an error object without raising it.
---@return ett.Error
function error_module.new(kind, format, ...)
  local message = select("#", ...) > 0 and error_module.message(format, ...) or format
  return setmetatable({ kind = kind, message = message, context = {} }, Error)
end

--- Raises an error object: error.raise("plan", "pp must divide %d", layers).
function error_module.raise(kind, format, ...) error(error_module.new(kind, format, ...), 0) end

function error_module.is(value) return getmetatable(value) == Error end

--- Any raised value as an error object; strings become kind "internal".
function error_module.from(value)
  if error_module.is(value) then return value end
  -- Lua's string buffers put a position in front of this message.
  local bare = type(value) == "string" and value:match "^.*: (not enough memory)$" or value
  if bare == "not enough memory" then
    return error_module.new("memory", "not enough memory: Lua may use %d MiB (ETT_MEMORY_LIMIT sets the limit)",
      require("ett.host").memory_limit >> 20)
  end
  local text = value == nil and "nil was raised" or tostring(value)
  local meta = getmetatable(value)
  if type(value) == "table" and not (type(meta) == "table" and meta.__tostring) then
    text = require("ett.base.pretty").inline(value)
  end
  local missing = text:match("^(.*module '[^']+' not found):\n\tno field")
  if missing then -- without Lua's list of every file that it tried
    local folder = require("ett.host").prefix .. "/lib/ett/ett"
    if missing:find("module 'ett.", 1, true) and not require("lfs").attributes(folder) then
      return error_module.new("missing", "%s; this tree lacks the folder %s of ett's modules", missing, folder)
    end
    return error_module.new("missing",
      "%s; it is not in the script's folder, --path, ETT_PATH or the installed tree", missing)
  end
  return error_module.new("internal", "%s", text)
end

--- The value of a call that returns nil and an error when it fails; the error is raised.
function error_module.must(value, failure)
  if value == nil then error(failure, 0) end
  return value
end

--- Adds one label in front of an error object's context and returns the object. Messages that start with a line of that
--- file, or with a file error that quotes its name, need no label.
function error_module.label(value, label)
  local object = error_module.from(value)
  object.context, label = object.context or {}, tostring(label)
  local text = #object.context == 0 and tostring(object.message) or ""
  local file = text:match "^([^:]+):%d[%d:]*: "
  if file and (file == label or file:sub(-#label - 1) == "/" .. label) then return object end
  if text:sub(1, #label + 7) == label .. ": line " then return object end -- of YAML
  if text:match "^cannot %l+ '(.*)': " == label or text:match "^'(.*)' is larger than" == label then return object end
  table.insert(object.context, 1, label)
  return object
end

--- A module that is built only if its library is installed; otherwise nil and a message.
---@param module string such as "ett.dist"
---@param what string "the MPI back end"
---@param remedy string "install libopenmpi-dev and openmpi-bin"
---@return any? module, string? why
function error_module.part(module, what, remedy)
  local ok, value = pcall(require, module)
  if ok then return value end
  if error_module.is(value) then error(value, 0) end -- raised by a signal
  local why = tostring(value)
  if why:find("module '" .. module .. "' not found", 1, true) then
    return nil, ("%s is not built: %s and build again"):format(what, remedy)
  end
  -- Lua's first line names the file, the second the missing library.
  why = why:gsub("^error loading module '[^']*' from file '[^']*':%s*", "")
  return nil, ("%s cannot be loaded: %s; %s"):format(what, why:match("^[^\n]*"), remedy)
end

local function unless_missing(ok, ...)
  if ok then return ... end
  local why = error_module.from(...)
  if why.kind ~= "missing" then error(why, 0) end
  return nil
end

--- The results of fn(...); nil if it raises an error of kind "missing". Other errors propagate.
function error_module.unless_missing(fn, ...) return unless_missing(pcall(fn, ...)) end

local function finish(label, ok, ...)
  if ok then return ... end
  error(error_module.label(..., label), 0)
end

--- "FILE:LINE: " of the function at a level of the stack, 1 for the caller; "" if unknown.
function error_module.line(level)
  local place = debug.getinfo(level + 1, "Sl")
  local file = place and place.currentline > 0 and place.source:match "^@(.*)$"
  return file and ("%s:%d: "):format(file, place.currentline) or ""
end

--- A handler for xpcall: the raised value as an error object with a traceback.
function error_module.traced(value)
  local object = error_module.from(value)
  object.traceback = object.traceback or debug.traceback(nil, 2)
  return object
end

--- Calls fn(...); an error is raised again with `label` in front.
function error_module.wrap(label, fn, ...) return finish(label, xpcall(fn, error_module.traced, ...)) end

-- The edit distance of two lists of bytes, where two exchanged neighbours are one edit; nil if it exceeds the limit.
local function distance(a, b, limit)
  if math.abs(#a - #b) > limit then return nil end
  local before, previous = nil, {}
  for j = 0, #b do previous[j] = j end
  for i = 1, #a do
    local byte, left, least = a[i], i, i
    local current = { [0] = i }
    for j = 1, #b do
      local value = previous[j - 1] + (byte == b[j] and 0 or 1)
      if left + 1 < value then value = left + 1 end
      if previous[j] + 1 < value then value = previous[j] + 1 end
      if before and byte == b[j - 1] and a[i - 1] == b[j] then value = math.min(value, before[j - 2] + 1) end
      if value < least then least = value end
      current[j], left = value, value
    end
    if least > limit then return nil end
    before, previous = previous, current
  end
  return previous[#b] <= limit and previous[#b] or nil
end

--- The candidate with the most similar spelling, or nil if none is similar.
---@param name string
---@param candidates string[]
---@param most integer? the largest edit distance; default: a third of the name's length. At least 2, but less than half
--- of the length; names of 2 and 3 letters have 1.
---@return string?
function error_module.nearest(name, candidates, most)
  local lower = tostring(name):lower()
  if #lower > 100 then return nil end
  local bytes, best = { lower:byte(1, -1) }, nil
  local limit = math.min(most or math.max(1, #lower // 3, math.min(2, (#lower - 1) // 2)), #lower - 1)
  for _, candidate in ipairs(candidates) do
    local found = #candidate <= 100 and distance(bytes, { candidate:lower():byte(1, -1) }, limit)
    if found and (not best or found < limit or candidate < best) then best, limit = candidate, found end
  end
  return best
end

--- The only candidate that begins with `name`, or nil.
local function completed(name, candidates)
  local found
  for _, candidate in ipairs(candidates) do
    if #name >= 3 and candidate:sub(1, #name) == name then
      if found then return nil end
      found = candidate
    end
  end
  return found
end

-- Names of other software, where spelling misleads.
local synonyms = { gpu = "cuda", nvidia = "cuda", predict = "estimate" }

local function synonym(name, candidates)
  for _, candidate in ipairs(candidates) do if candidate == synonyms[name] then return candidate end end
end

--- Text for the end of a message: "; did you mean 'x'?" or "".
function error_module.suggestion(name, candidates)
  local near = synonym(name, candidates) or error_module.nearest(name, candidates, #tostring(name) > 3 and 1 or 0)
    or completed(tostring(name), candidates) or error_module.nearest(name, candidates)
  return near and ("; did you mean '%s'?"):format(near) or ""
end

--- The candidate of which a name is a misspelling, or nil: at most two edits, and a quarter of its length.
function error_module.misspelt(name, candidates)
  return error_module.nearest(name, candidates, math.min(2, #name // 4))
end

--- The names of a list that nothing reads, each with the candidate of which it is a misspelling.
---@param names string[]
---@param candidates string[] names that are read
---@return string such as "heads, seq_lenn (did you mean seq_len?)"
function error_module.ignored(names, candidates)
  local list = {}
  for i, name in ipairs(names) do
    local near = error_module.misspelt(name, candidates)
    list[i] = near and ("%s (did you mean %s?)"):format(name, near) or name
  end
  return table.concat(list, ", ")
end

--- "unknown objective 'x'; did you mean 'y'?; known are y, z".
---@param known string[] in the order of the message
function error_module.unknown(what, name, known)
  name = tostring(name)
  return ("unknown %s '%s'%s; known are %s"):format(what, name, error_module.suggestion(name, known),
    table.concat(known, ", "))
end

return error_module
