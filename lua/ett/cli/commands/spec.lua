--- Runs busted specs inside the host, with the same environment as scripts. A file also fails if, after its specs, a
-- library still references ett objects.

--- Removes the references held by busted and the spec files.
local function forget(loaded_before, globals_before)
  for name in pairs(package.loaded) do
    if not loaded_before[name] and not name:match("^ett%.") then package.loaded[name] = nil end
  end
  for name in pairs(_G) do if not globals_before[name] then _G[name] = nil end end
end

local function keys(t)
  local set = {}
  for key in pairs(t) do set[key] = true end
  return set
end

-- Whether the words contain --help; busted's own parser would print its usage and exit with 1.
local function wants_help(argv)
  for _, word in ipairs(argv) do
    if word == "--" then return false end
    if word == "--help" or word == "-h" then return true end
  end
  return false
end

return {
  name = "spec",
  starts = true,
  summary = "run busted specs inside the host",
  usage = "spec FILE ...",
  description = "Accepts the options of busted, such as --filter PATTERN and --list.",
  hidden = true,
  raw = true,
  asks_help = wants_help,
  run = function(argv)
    collectgarbage("incremental", 400) -- specs are short: trade memory for fewer collections
    -- Insulation would remove the libraries' references before they are counted.
    table.insert(argv, 1, "--no-auto-insulate")
    _G.arg = argv
    _G.arg[0] = "ett spec"
    local host = require "ett.host"
    if not require("lfs").attributes(host.root .. "/spec/support") then
      local error_module = require "ett.base.error"
      error_module.raise("missing", "spec: spec/support is part of the source tree, not of an installed one")
    end
    package.path = package.path .. ";" .. host.root .. "/spec/support/?.lua"
    local loaded_before, globals_before = keys(package.loaded), keys(_G)
    require("standard_names").install()
    local real_exit = os.exit
    local status
    os.exit = function(code) -- luacheck: ignore
      status = code == true and 0 or code == false and 1 or code or 0
      error(setmetatable({}, { __tostring = function() return "exit" end }), 0)
    end
    local ok, why = pcall(require "busted.runner", { standalone = false })
    os.exit = real_exit -- luacheck: ignore
    if status == nil and not ok then error(why, 0) end
    local open = require "handles".open
    forget(loaded_before, globals_before)
    local left = open()
    if #left > 0 and (status or 0) == 0 then
      io.stderr:write("still open after the last spec: ", table.concat(left, ", "), "\n")
      return 1
    end
    return status or 0
  end,
}
