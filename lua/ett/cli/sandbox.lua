--- Runs the rest of a command in a child process that can only compute and print; for untrusted Lua files.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local host = require "ett.host"
local lfs = require "lfs"

local sandbox = {}

local default_seconds, output_bytes = 60, 64 << 20

--- Paths read by libraries: their own files, time zones, the number of processors.
local system = { "/usr/lib", "/usr/lib64", "/usr/share/lua", "/usr/share/zoneinfo", "/usr/local/lib", "/lib", "/lib64",
  "/etc/ld.so.cache", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system",
  "/dev/null", "/dev/urandom" }

local function seconds()
  local text = os.getenv "ETT_SANDBOX_SECONDS"
  if not text or text == "" then return default_seconds end
  local value = math.tointeger(tonumber(text))
  if not value or value < 1 or value > 1e9 then
    error_module.raise("usage", "ETT_SANDBOX_SECONDS must be a positive whole number, got '%s'", text)
  end
  return value
end

--- Files and folders named on the command line: a word, or the value of NAME=VALUE and --name=VALUE. Of several words
--- in one text (--megatron-args "FILE WORD") the first.
local function named(words, list)
  for _, word in ipairs(words) do
    for _, path in ipairs { word, word:match "^%S+" or word, word:match "=(.*)$", word:match "=(%S+)" } do
      if lfs.attributes(path, "mode") then list[#list + 1] = path end
    end
  end
end

--- Whether the environment requests the sandbox: ETT_SANDBOX=1.
function sandbox.asked()
  local text = os.getenv "ETT_SANDBOX"
  if not text or text == "" or text == "0" then return false end
  if text ~= "1" then error_module.raise("usage", "ETT_SANDBOX must be 0 or 1, got '%s'", text) end
  return true
end

--- Enters the sandbox. Readable are only the installed files, the folders of `find.roots` and those named on the
--- command line. The calling process copies the output without control characters and exits with the child's status.
---@param words string[] of the command line
---@param script string? path of the script; its folder is readable
function sandbox.enter(words, script)
  local readable = table.move(system, 1, #system, 1, {})
  table.move(find.roots(), 1, #find.roots(), #readable + 1, readable)
  readable[#readable + 1] = host.prefix
  if script then readable[#readable + 1] = script:match "^(.*)/[^/]*$" or "." end
  named(words, readable)
  local restricted, why = require("ett.sandbox").enter(readable, seconds(), host.memory_limit + (2 << 30), output_bytes)
  if restricted == nil then error(why, 0) end
  if not restricted then
    io.stderr:write("ett: note: this kernel has no Landlock: the sandbox can read every file that you can read\n")
  end
  find.restrict()
end

return sandbox
