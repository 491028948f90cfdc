--- Words of `ett submit` that hold quotes, newlines and commands. bash reads the script with an `srun` that only prints
--- its arguments; no other command may run, and Slurm may find no directive that the user did not give.
local command = require "command"
local quote = require("ett.base.shell").quote

describe("ett submit", function()
  local folder
  setup(function()
    folder = command.folder()
    command.write(folder, "c.lua", 'return { name = "c", samples = { { operator = "gelu", '
      .. 'shapes = { tokens = 8, width = 8 } } } }')
    os.execute(("cd '%s' && cp c.lua \"c'; touch PWN; ' .lua\""):format(folder))
  end)
  teardown(function() command.remove(folder) end)

  local function refused(option, text, sentence)
    local output, status = command.ett(folder, ("submit c.lua --print --%s %s"):format(option, quote(text)))
    assert.equal(2, status, output)
    assert.equal(("ett: submit: %s\n"):format(sentence), output)
  end

  it("refuses what a directive of Slurm cannot hold", function()
    local name = "must be a name of letters, digits and ._-,+:@"
    refused("mpi", "none true; touch PWN; true", ('mpi %s, got "none true; touch PWN; true"'):format(name))
    refused("partition", "a\n#SBATCH --wrap=x", ('partition %s, got "a\\n#SBATCH --wrap=x"'):format(name))
    refused("account", "a b", ('account %s, got "a b"'):format(name))
    refused("backend", "$(touch PWN)", ('backend %s, got "$(touch PWN)"'):format(name))
    refused("out", 'a"\ntouch PWN\n"',
      [[out must not hold control characters or begin with '-', got "a\"\ntouch PWN\n\""]])
    refused("out", 'a" --wrap="x', [[out must not hold quotes or backslashes, got "a\" --wrap=\"x"]])
  end)

  it("refuses a value with a command in every other option, in one line", function()
    local evil = "fp32;touch PWN\n$(touch PWN)"
    for _, option in ipairs { "nodes", "ranks", "gpus", "minutes" } do
      refused(option, evil, ("option '--%s' must be a whole number of at most 2^53, in digits, got '%s'"):format(option,
        (evil:gsub("\n", "\\n"))))
    end
    for _, text in ipairs { "fp32;touch PWN", evil } do
      local output, status = command.ett(folder, "submit c.lua --print --precision " .. quote(text))
      assert.equal("ett: the back end 'cpu' measures fp32, not 'fp32;touch'\n", output)
      assert.equal(2, status)
    end
    refused("out", "", 'out must not be empty, got ""')
    command.write(folder, "search.lua", "return ett.search {}")
    for _, option in ipairs { "precision", "backend" } do
      local output, status = command.ett(folder, ("submit search.lua --print --%s cpu"):format(option))
      assert.equal(("ett: submit: --%s needs a campaign; 'search.lua' is a script that searches\n"):format(option),
        output)
      assert.equal(2, status)
    end
    assert.is_nil(command.read(folder, "PWN"))
  end)

  it("refuses numbers with a suffix, and options without effect beside --print", function()
    for _, option in ipairs { "nodes", "ranks", "gpus", "minutes" } do
      refused(option, "5M",
        ("option '--%s' must be a whole number of at most 2^53, in digits, got '5M'"):format(option))
      refused(option, "0", ("option '--%s' must be at least 1, got '0'"):format(option))
    end
    for _, option in ipairs { "csv", "json", "quiet", "wait" } do
      assert.same({ ("ett: submit: --%s needs a job; --print submits none\n"):format(option), 2 },
        { command.ett(folder, "submit c.lua --print --" .. option) })
    end
  end)

  it("refuses back ends and precisions that no sampler has", function()
    local output, status = command.ett(folder, "submit c.lua --print --backend nan")
    assert.equal("ett: unknown back end 'nan'; known are cpu, cuda, mpi, nccl, torch\n", output)
    assert.equal(2, status)
    output, status = command.ett(folder, "submit c.lua --print --precision fp32,nan")
    assert.equal("ett: the back end 'cpu' measures fp32, not 'nan'\n", output)
    assert.equal(2, status)
  end)

  it("quotes the rest: bash runs srun alone, with the words as given", function()
    local words = { "--out", "o'; touch PWN; $(touch PWN) `touch PWN`" }
    local campaign = "c'; touch PWN; ' .lua"
    local line = { "submit", quote(campaign), "--print" }
    for _, word in ipairs(words) do line[#line + 1] = quote(word) end
    local text, status = command.ett(folder, table.concat(line, " "))
    assert.equal(0, status, text)
    local count = select(2, text:gsub("\n#SBATCH ", ""))
    assert.equal(4, count, text) -- job-name, nodes, ntasks-per-node, output
    command.write(folder, "job", "srun() { printf '%s\\n' \"$@\"; }\n" .. text)
    local output = command.shell(("cd '%s' && SLURM_NNODES=1 bash job"):format(folder))
    assert.equal(table.concat({ "sample", campaign, "--out", words[2] }, "\n") .. "\n",
      output:match("\n(sample\n.*)$"))
    assert.is_nil(command.read(folder, "PWN"))
  end)
end)
