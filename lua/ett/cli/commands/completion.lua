--- `ett completion`: the completion script of a shell.
local commands = require "ett.cli.commands"
local error_module = require "ett.base.error"
local options = require "ett.base.options"

local shells = { "bash", "fish", "zsh" }

return {
  name = "completion",
  offers = shells,
  summary = "print the completion script of a shell",
  usage = "completion bash|fish|zsh",
  description = "bash: source <(ett completion bash)\n"
    .. "fish: ett completion fish > ~/.config/fish/completions/ett.fish\n"
    .. "zsh: ett completion zsh > FOLDER/_ett, where FOLDER is in $fpath",
  run = function(_, words)
    for _, shell in ipairs(shells) do
      if words[1] == shell and #words == 1 then
        io.write(options.completion(commands.all(), shell))
        return 0
      end
    end
    error_module.raise("usage", "completion: give one of the shells %s", table.concat(shells, ", "))
  end,
}
