--- Runs busted specs inside the host, so that they see exactly what scripts see.
return {
  name = "spec",
  summary = "run busted specs inside the host",
  usage = "spec FILE ...",
  hidden = true,
  raw = true,
  run = function(argv)
    _G.arg = argv
    _G.arg[0] = "ett spec"
    local host = require "ett.host"
    package.path = package.path .. ";" .. host.root .. "/spec/support/?.lua"
    local real_exit = os.exit
    local status
    os.exit = function(code) -- luacheck: ignore
      status = code == true and 0 or code == false and 1 or code or 0
      error(setmetatable({}, { __tostring = function() return "exit" end }), 0)
    end
    local ok, why = pcall(require "busted.runner", { standalone = false })
    os.exit = real_exit -- luacheck: ignore
    if status == nil and not ok then error(why, 0) end
    return status or 0
  end,
}
