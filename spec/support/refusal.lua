--- Checks a refusal: one line on standard error that names the error, the right exit status, no traceback,
-- no standard output, no remaining files.
local assert = require "luassert"
local command = require "command"
local files = require "ett.io"
local host = require "ett.host"

local ett = host.prefix .. "/bin/ett"
local folder = command.folder()

local refusal = { folder = folder }

--- Writes a file of the folder in which commands run.
function refusal.write(name, text)
  local path = folder .. "/" .. name
  assert(files.make_folder(path:match("^(.*)/")))
  assert(files.write(path, text))
  return path
end

local function listing()
  return table.concat(require("ett.base.folder").names(folder, "^[^.]"), " ") -- less what run() writes
end

--- Runs ett in the folder: status, standard output, standard error.
function refusal.run(words)
  local out, err = folder .. "/.out", folder .. "/.err"
  local list = command.words(words)
  local status = list and command.forked(folder, list, out, err)
  if not list then
    status = select(3, os.execute(("cd %s && %s timeout 300 %s %s >%s 2>%s"):format(folder,
      "unset ETT_PATH;", ett, words, out, err)))
  end
  return status, assert(files.read(out)), assert(files.read(err))
end

--- Checks one refusal; `wanted` is the whole message, or a pattern when it begins with ^.
function refusal.refused(words, wanted, status)
  local before = listing()
  local got, out, err = refusal.run(words)
  local message = err:match("^ett: ([^\n]*)\n$")
  assert.is_not_nil(message, ("wanted one line, got:\n%s%s"):format(out, err))
  assert.is_nil(message:find("stack traceback", 1, true))
  assert.is_nil(message:find("lua/ett/", 1, true), "names a file of ett itself: " .. message)
  if wanted:sub(1, 1) == "^" then assert.matches(wanted, message) else assert.equal(wanted, message) end
  assert.equal(status or 1, got)
  assert.equal("", out)
  assert.equal(before, listing())
end

--- Removes the folder.
function refusal.clean() os.execute("rm -rf " .. folder) end

return refusal
