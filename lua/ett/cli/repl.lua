--- The REPL: reads Lua and prints its value. Errors do not end the session.
--
-- The modules of ett have their short names (`model`, `json`, …) and are loaded at their first use. `_` is the last
-- result. Incomplete input continues on the next line.
local completion = require "ett.cli.completion"
local error_module = require "ett.base.error"
local host = require "ett.host"
local pretty = require "ett.base.pretty"

-- Local copies: a session that overwrites globals must not break the REPL.
local load, pcall, print, rawget, table, tostring, type, xpcall = load, pcall, print, rawget, table, tostring, type,
  xpcall
local io, os, require, setmetatable, math_type = io, os, require, setmetatable, math.type

local repl = {}

local guide = [[
Type Lua: its value is printed, and `_` is the last result. The modules of ett (json, model, plan, …) are loaded
when you write their names. An example:
  ett.estimate { model = ett.model.new "llama3-8b", cluster = "dgx_h100",
    plan = { tp = 8, seq = 4096, micro_batches = 4 } }
A `local` is lost after its input: leave the word out, or run a whole script with `ett run` in the shell.
Tab completes names, the arrow keys recall inputs, Ctrl-C stops the running code, Ctrl-D or `exit` leaves.]]

--- The environment of a session: its own globals, then Lua's, then ett's modules.
function repl.environment()
  local env = {}
  return setmetatable(env, {
    __index = function(_, name)
      local value = _G[name]
      if name == "ett" and value == nil then return require "ett" end
      if value ~= nil or type(name) ~= "string" or not name:match("^%a[%w_]*$") then return value end
      local module = name ~= "error" and require("ett").module(name)
      return module and require(module) or nil
    end,
  })
end

--- Compiles an expression or statements. The third result is true if the input is incomplete.
---@return function? chunk, string? why, boolean? incomplete
function repl.compile(text, env)
  local chunk, unlike_value = load("return " .. text, "=prompt", "t", env)
  if chunk then return chunk end
  local why
  chunk, why = load(text, "=prompt", "t", env)
  if chunk then return chunk end
  if unlike_value:sub(-5) == "<eof>" then why = unlike_value end -- 1 +
  local open = why:find ": unfinished string near <eof>$" and not text:find "\\z?%s*$" -- only a backslash continues it
  return nil, why, why:sub(-5) == "<eof>" and not open
end

--- Whether a text is a command of the shell, such as `ett list models` or `predict --model llama3-8b`, which is a value
--- and a comment in Lua.
---@param chunk function? the text compiled
local function is_command(text, env, chunk)
  local prefix, name, rest = text:match "^%s*(ett%s+)(%l[%l-]*)(.*)$"
  if not prefix then name, rest = text:match "^%s*(%l[%l-]*)(.*)$" end
  if not name or not (rest:find "^%s+[%w-]" or rest:find "^%s*$") or not require("ett.cli.commands").path(name) then
    return false
  end
  if prefix then return not chunk end
  return rawget(env, name) == nil and (not chunk or rest:find "^%s+%-%-%a" ~= nil or env[name] == nil)
end

local function describe(value)
  local object = value
  if type(value) ~= "table" then object = error_module.from(value) end
  local ok, text = pcall(function()
    if error_module.is(object) then return tostring(object) end
    return pretty.value(object)
  end)
  return ok and text or "error without a description"
end

-- A result as text. A number alone has as many digits as `print` gives; in a table six are enough.
local function shown(value)
  if math_type(value) == "float" and value - value == 0 then return ("%.14g"):format(value) end
  return pretty.value(value)
end

--- Runs a chunk and prints its results or its error; never raises.
---@return boolean ok
function repl.evaluate(chunk, env)
  local results = table.pack(xpcall(chunk, function(value)
    if type(value) == "table" and error_module.is(value) then return value end
    return value == nil and "nil was raised" or value
  end))
  if not results[1] then
    print("ett: " .. pretty.plain(describe(results[2])))
    return false
  end
  if results.n == 1 then return true end
  env._ = results[2]
  local parts = {}
  for i = 2, results.n do
    local ok, text = pcall(shown, results[i])
    parts[#parts + 1] = ok and text or ("a %s that cannot be shown: %s"):format(type(results[i]), describe(text))
  end
  print(pretty.plain(table.concat(parts, "\t")))
  return true
end

local function history_path()
  local state = os.getenv("XDG_STATE_HOME")
  local home = os.getenv("HOME")
  if not state or state:sub(1, 1) ~= "/" then
    if not home then return nil end
    state = home .. "/.local/state"
  end
  local folder = state .. "/ett"
  if not require("ett.io").make_folder(folder) then return nil end
  return folder .. "/history"
end

--- A reader of lines from a terminal, or from a pipe without prompts.
---@return fun(prompt: string): string?, string? read
---@return fun(text: string) remember
---@return fun() close
---@return boolean terminal
local function open_input(env)
  local terminal
  if host.terminal then terminal = require("ett.line").open() end
  if not terminal then
    return function() return io.read("L"), "end" end, function() end, function() end, false
  end
  local path = history_path()
  if path then terminal:load(path) end
  local function complete(text) return completion.complete(text, env) end
  return function(prompt) return terminal:read(prompt, complete) end,
    function(text)
      terminal:remember(text)
      if path then terminal:save(path) end
    end,
    function() terminal:close() end, true
end

--- Reads lines until the input is complete. Returns the text, or nil and "end" or "interrupted".
local function read_piece(read, env)
  local piece
  while true do
    io.stdout:flush()
    local line, why = read(piece and ".. " or "> ")
    if not line then
      if piece and why == "end" then return piece end
      return nil, why
    end
    line = line:gsub("[\r\n]+$", "")
    piece = piece and piece .. "\n" .. line or line
    local _, _, incomplete = repl.compile(piece, env)
    if not incomplete then return piece end
  end
end

--- Reads, runs and prints one input.
---@return boolean more false at the end of the session
---@return boolean? fault true if the input failed
local function step(read, remember, env, terminal)
  local piece, why = read_piece(read, env)
  if not piece then
    if why ~= "interrupted" then return false end
    if host.interrupt_reset() and terminal then io.write("\n") end
    return true
  end
  if piece:match("^%s*$") then return true end
  remember(piece)
  local word = piece:match "^%s*(%a+)%s*$" or piece:match "^%s*(%a+)%s*%(%s*%)%s*$" -- exit, exit()
  if word == "exit" or word == "quit" then return false end
  if word == "help" then
    print(guide)
    return true
  end
  local chunk, fault = repl.compile(piece, env)
  if is_command(piece, env, chunk) then
    print "ett: commands are typed in the shell, not at this prompt; `exit` leaves it"
    return true, true
  elseif not chunk then
    print("ett: " .. fault:gsub("^prompt:", "line "))
    return true, true
  end
  local fine = repl.evaluate(chunk, env)
  if host.interrupt_reset() and terminal then io.write("\n") end
  return true, not fine
end

local function print_fault(value) print("ett: " .. describe(value)) end

--- Runs a session until the end of input; returns the exit status: 1 if input from a pipe failed.
function repl.run()
  local env = repl.environment()
  local read, remember, close, terminal = open_input(env)
  host.interrupt_patience(4)
  if terminal then print(("ett %s; `help` explains the input"):format(host.version)) end
  local failed = false
  while true do
    local ok, more, fault = host.interrupt_within(step, read, remember, env, terminal)
    if ok and not more then break end
    if not ok then host.interrupt_within(print_fault, more) end
    failed = failed or not ok or fault
  end
  close()
  if terminal then print() end
  return failed and not terminal and 1 or 0
end

return repl
