--- The prompt.
return {
  name = "repl",
  summary = "type Lua and see what it comes to",
  usage = "repl",
  run = function(_, words)
    if words[1] then require("ett.base.error").raise("usage", "repl: takes no arguments, got '%s'", words[1]) end
    return require("ett.cli.repl").run()
  end,
}
