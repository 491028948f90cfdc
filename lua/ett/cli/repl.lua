--- The prompt.
return {
  name = "repl",
  summary = "type Lua and see what it comes to",
  usage = "repl",
  run = function() return require("ett.repl").run() end,
}
