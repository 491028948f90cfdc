-- The commands of the root README print exactly what it shows.
-- `ETT_UPDATE=1 build/bin/ett spec spec/readme_slow_spec.lua` rewrites its blocks, except those with "...", and its
-- figures of `ett bench literature`.
local command = require "command"
local files = require "ett.io"
local host = require "ett.host"
local tree = require "tree"

local path = tree.root .. "/README.md"
local update = os.getenv "ETT_UPDATE"
-- An empty line ends the output of a command in a transcript; "." stands for an empty line of output.
local function transcript(code) return (code:gsub("\n\n", "\n.\n"):gsub("\n\n", "\n.\n")) .. "\n" end

local function replace(text, old, new)
  local start, stop = text:find(old, 1, true)
  return text:sub(1, start - 1) .. new .. text:sub(stop + 1)
end

--- The block of a console with the output and the exit status of today.
local function printed(code)
  local typed = code:match "^%$ [^\n]*"
  for line in code:sub(#typed + 1):gmatch "\n([^\n]*)" do
    if line:sub(1, 1) ~= ">" then break end
    typed = typed .. "\n" .. line
  end
  local folder = command.folder()
  command.write(folder, "words.sh", typed:gsub("^%$ ", ""):gsub("\n> ?", "\n") .. "\n")
  local output, status = command.shell(("cd '%s' && PATH='%s/bin':$PATH sh words.sh"):format(folder, host.prefix))
  command.remove(folder)
  return (typed .. "\n" .. output .. (status ~= 0 and "?" .. status or "")):gsub("\n$", "")
end

describe("README.md", function()
  local text = tree.read "README.md"
  local updated, count = text, 0
  for code in text:gmatch "\n```console\n(.-)\n```" do
    count = count + 1
    it(("command %d prints what it shows"):format(count), function()
      if update and not code:find("%.%.%.\n") then
        updated = replace(updated, code, printed(code))
        assert(files.write(path, updated))
        return
      end
      local folder = command.folder()
      command.write(folder, "page.t", transcript(code))
      local output, status = command.ett(folder, "transcript page.t")
      command.remove(folder)
      assert.equal(0, status, output)
    end)
  end

  it("states the errors of today's ett bench literature", function()
    local output = command.ett(tree.root, "bench literature")
    local steps, error_of_all, inside = output:match "\n  all, (%d+) +([%d.]+) %%,.- inside (%d+)"
    local error_of_megatron = output:match "\n  kind: NVIDIA since A100; Megatron[^\n]-([%d.]+) %%"
    local share = ("%.0f"):format(100 * inside / steps)
    for _, figure in ipairs {
      { "For ()%d+() steps of other papers", steps },
      { "papers and issues the error is ()%d+() %%", ("%.0f"):format(error_of_all) },
      { "()%d+() %% of them lie inside their intervals", share },
      { "since A100 the error is ()[%d.]+() %%", error_of_megatron },
      { "Of ()%d+() steps of other papers", steps },
      { "with some settings unknown, ()%d+() %% lie inside", share },
    } do
      local start, stop = updated:match(figure[1])
      assert.is_number(start, figure[1])
      if not update then assert.equal(figure[2], updated:sub(start, stop - 1), figure[1]) end
      updated = updated:sub(1, start - 1) .. figure[2] .. updated:sub(stop)
    end
    if update then assert(files.write(path, updated)) end
    local page = tree.read "spec/bench/README.md"
    for name, rows, off, bias, within in
      output:gmatch "\n  (%l[^\n]-), (%d+) +([%d.]+) %%, median [%d.]+, bias ([+-][%d.]+), inside (%d+)" do
      if name == "all" or name:find "^kind: " then
        assert.matches(("| %s | %s %% | %s %% | %.0f %% |"):format(rows, off, bias, 100 * within / rows), page, 1, true)
      end
    end
  end)

  it("begins with three sentences, then a command and its step time", function()
    assert.is_true(count >= 4)
    assert.matches("^# ett\n\n[^`#]+```console\n%$ ett predict [^\n]+\n[^`]-\nstep time", text)
  end)
end)
