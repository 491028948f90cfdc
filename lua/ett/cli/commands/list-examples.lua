--- `ett list examples` under its name in estimate-train-time.
local list = require "ett.cli.commands.list"

return {
  name = "list-examples",
  summary = "list the bundled examples",
  usage = "list-examples [--json] [--quiet]",
  options = list.options,
  words = false,
  run = function(opts) return list.run(opts, { "examples" }) end,
}
