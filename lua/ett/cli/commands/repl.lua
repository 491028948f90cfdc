--- `ett repl`: an interactive Lua session.
return {
  name = "repl",
  finds = true,
  summary = "run an interactive Lua session",
  usage = "repl",
  words = false,
  run = function() return require("ett.cli.repl").run() end,
}
