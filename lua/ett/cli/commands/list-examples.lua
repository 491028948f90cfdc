--- `ett list examples` under the name the reference's users know.
local list = require "ett.cli.commands.list"

return {
  name = "list-examples",
  summary = "list the bundled examples",
  usage = "list-examples [--json] [--quiet]",
  options = list.options,
  run = function(opts, words)
    if words[1] then
      require("ett.base.error").raise("usage", "list-examples takes no arguments, got '%s'", words[1])
    end
    return list.run(opts, { "examples" })
  end,
}
