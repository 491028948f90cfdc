--- The prompt.
return {
  name = "repl",
  finds = true,
  summary = "a prompt: type Lua and see its value",
  usage = "repl",
  words = false,
  run = function() return require("ett.cli.repl").run() end,
}
