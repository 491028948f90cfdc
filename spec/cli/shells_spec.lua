--- The completion scripts in their shells: what Tab inserts.
local command = require "command"
local host = require "ett.host"

-- Reads the words, presses Tab, and prints the line: zsh completes only in its line editor.
local zsh = [=[
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT=; fpath=($PWD \$fpath); autoload -U compinit; compinit -u -D"
zpty -w z "show() { print -r -- \"<<\$BUFFER>>\"; exit }; zle -N show; bindkey '^I' complete-word '^X' show"
zpty -w -n z "$1"$'\t\x18'
while zpty -r z line; do
  [[ $line != *BUFFER* && $line = *"<<"*">>"* ]] && print -r -- "${${line##*<<}%%>>*}"
done
]=]

-- Bash splits words at "=", too.
local bash = [[
. ./_ett
COMP_WORDS=($(printf '%s' "$1" | sed 's/=/ = /g'))
case $1 in *' ') COMP_WORDS+=('') ;; esac
COMP_CWORD=$((${#COMP_WORDS[@]}-1))
_ett_or_name
echo "${COMPREPLY[@]}"
]]

local shells = {
  bash = { bash, "bash ./run.bash '%s'" },
  fish = { "source _ett; complete -C $argv[1] | cut -f1 | string join ' '", "fish ./run.fish '%s'" },
  zsh = { zsh, "zsh ./run.zsh '%s'" },
}

-- Words, what bash offers, and how the other shells write it: the whole word, or the whole line.
local lines = {
  { "ett predict --model llama3-7", "llama3-70b" },
  { "ett sweep --cluster dgx_h2", "dgx_h200" },
  { "ett search stack=megatron_2", "megatron_2021", "stack=" },
  { "ett compare schedule=interleaved_", "interleaved_zb", "schedule=" },
  { "ett optimize --model po", "pods" },
  { "ett list mode", "models" },
  { "ett show-example llemm", "llemma_7b" },
  { "ett cluster ad", "add-curve" },
  { "ett samples cpu", "", none = true }, -- campaigns are of ett sample
  { "ett samples fr", "from-trace" },
  { "ett sample --fresh x --out y cpu_3", "cpu_30s" },
  { "ett predict --model llama3-8b micro_batches", "micro_batches=" },
  { "ett search --objective doll", "dollars" },
  { "ett predict --model conf", "config.json", file = true },
  { "ett run con", "config.json", file = true },
}

describe("the completion of", function()
  local folder = command.each_folder(_ENV)

  for shell, of in pairs(shells) do
    it(shell .. " knows names of models, clusters, stacks, schedules, fields and arguments, and files", function()
      local script = command.ett(".", "completion " .. shell)
      assert.is_nil(script:find("@%a+@"), "a mark without its list")
      for _, kind in ipairs { "stacks", "schedules" } do assert.matches("ett list " .. kind .. " ", script) end
      if command.shell("command -v " .. shell) == "" then pending("no " .. shell) return end
      command.write(folder, "_ett", script)
      command.write(folder, "config.json", "{}")
      command.write(folder, "run." .. shell, of[1])
      for _, line in ipairs(lines) do
        local output = command.shell(("cd '%s' && PATH='%s/bin':$PATH timeout 300 "):format(folder, host.prefix)
          .. of[2]:format(line[1]))
        local wanted = line.none and (shell == "zsh" and line[1] or "")
          or shell == "bash" and (line.file and "" or line[2]) -- readline completes the files
          or shell == "fish" and (line[3] or "") .. line[2] or line[1]:gsub("%S+$", "") .. (line[3] or "") .. line[2]
        assert.equal(wanted, (output:gsub("%s+$", "")))
      end
    end)
  end
end)
