--- Damaged tables and visits, tables of another back end, and options without effect.
local command = require "command"
local ended = command.ended
local lfs = require "lfs"

if not require("needs").cpu("ett sample", _ENV) then return end

local folder = command.each_folder(_ENV)
local function run(arguments, before) return command.ett(folder, arguments, before) end
local function write(name, text) command.write(folder, name, text) end

local function campaign(fields, shapes)
  return ("return { name = 'c', min_repeats = 1, max_repeats = 2, budget_seconds = 0.001, cold_bytes = 1 << 20, "
    .. "%s samples = { { "
    .. "operator = 'gelu', shapes = %s } } }\n"):format(fields, shapes or "{ tokens = { 16, 32 }, width = 8 }")
end

--- The name of the one table in a folder.
local function table_in(name)
  return name .. "/" .. require("ett.base.folder").names(folder .. "/" .. name, "^[^.].*%.csv$")[1]
end

--- The lines of a table that are neither comments nor empty.
local function rows(name)
  local list = {}
  for line in command.read(folder, name):gmatch("[^\n]+") do
    if line:sub(1, 1) ~= "#" then list[#list + 1] = line end
  end
  return list
end

describe("ett sample continues", function()
  before_each(function() write("c.lua", campaign "visits = 1,") end)

  local function measured()
    ended(0, run "sample c.lua --out out --quiet")
    local name = table_in "out"
    return name, command.read(folder, name)
  end

  it("after a table that was cut before its first row, and writes the names of the columns", function()
    local name, whole = measured()
    local columns = whole:find("tokens,width,", 1, true)
    for _, length in ipairs { 0, 10, 60, columns - 1, columns + 8 } do
      write(name, whole:sub(1, length))
      assert.matches(": 2 measured", ended(0, run "sample c.lua --out out --quiet"))
      local found = rows(name)
      assert.equal("tokens,width,F_dur(us),B_dur(us)", found[1])
      assert.equal(3, #found)
    end
  end)

  it("in a table whose lines end as on Windows, and still sees that the campaign was edited", function()
    local name, whole = measured()
    write(name, (whole:gsub("\n", "\r\n")))
    assert.matches(": 0 measured", ended(0, run "sample c.lua --out out --quiet"))
    write("c.lua", campaign("visits = 1,", "{ tokens = { 16, 32, 64 }, width = 8 }"))
    assert.matches("was started by another version of this campaign", ended(1, run "sample c.lua --out out --quiet"))
  end)

  it("not after a damaged row, which would count as measured", function()
    local name, whole = measured()
    for _, row in ipairs { "32,8,1.5", "32,8,1.5,", "32,8,foo,1", "\0\0\0\0", "32,8,1,2,3" } do
      write(name, (whole:gsub("\n32,8,[^\n]*\n", "\n" .. row .. "\n")))
      local text = ended(1, run "sample c.lua --out out --quiet")
      assert.matches("ett: 'out/%S+' line %d+ is damaged: expected 4 numbers separated by commas, got '[^\n]*'; "
        .. "remove the line to measure its shape again\n$", text)
    end
  end)

  it("not if a folder has the name of the table", function()
    local name = measured()
    os.remove(folder .. "/" .. name)
    lfs.mkdir(folder .. "/" .. name)
    local text = ended(1, run "sample c.lua --out out --quiet")
    assert.matches("^ett: expected a sample table at 'out/%S+', found a folder; move it away\n$", text)
  end)

  it("not with a table that another back end measured", function()
    local name, whole = measured()
    write(name, (whole:gsub("# backend: cpu", "# backend: torch")))
    local text = ended(1, run "sample c.lua --out out --quiet --continue-changed")
    assert.matches("holds samples of the back end 'torch', not 'cpu'; name another folder with %-%-out", text)
  end)

  it("not with another number of threads, unless allowed; then a line above the rows notes it", function()
    local name = measured()
    write(name, (command.read(folder, name):gsub("\n32,8,[^\n]*\n", "\n")))
    local text = ended(1, run "sample c.lua --out out --quiet --threads 2")
    assert.matches("^ett: 'out/%S+' was started with threads: 1, now 2; give %-%-continue%-changed to continue, or "
      .. "%-%-out for a new folder\n$", text)
    ended(0, run "sample c.lua --out out --quiet --threads 2 --continue-changed")
    local made = command.read(folder, name):gsub("#~[^\n]*\n", "")
    assert.matches("\n16,8,[^\n]*\n# threads: 2 pinned to processors [^\n]*\n32,8,[^\n]*\n$", made)
    assert.matches("was started with threads: 2, now 1; give", (run "sample c.lua --out out --quiet"))
  end)

  it("not with a table that was timed in another way", function()
    local name, whole = measured()
    write(name, (whole:gsub("rotate through 1 MB", "rotate through 8 MB")))
    local text = ended(1, run "sample c.lua --out out --quiet")
    assert.matches("was started with timing: 5th to 15th percentile, operands rotate through 8 MB, now 5th to "
      .. "15th percentile, operands rotate through 1 MB; give --continue-changed", text, 1, true)
    write(name, (whole:gsub("# libraries: OpenBLAS core", "# libraries: OpenBLAS older core")))
    text = ended(1, run "sample c.lua --out out --quiet")
    assert.matches("was started with libraries: OpenBLAS older core", text, 1, true)
  end)

  it("not with a table without a campaign's name, unless allowed", function()
    local name, whole = measured()
    write(name, (whole:gsub("# campaign: [^\n]*\n", "")))
    local text = ended(1, run "sample c.lua --out out --quiet")
    assert.matches("^ett: 'out/%S+' has no line '# campaign: NAME HASH'; give "
      .. "%-%-continue%-changed to continue, or %-%-out for a new folder\n$", text)
    ended(0, run "sample c.lua --out out --quiet --continue-changed")
    assert.equal(0, (select(2, run "sample c.lua --out out --quiet")))
  end)

  it("with a campaign whose name has two lines", function()
    write("c.lua", (campaign("visits = 1,"):gsub("'c'", "'c\\nd'")))
    local name = measured()
    write("c.lua", (campaign("visits = 1,", "{ tokens = { 16, 32, 64 }, width = 8 }"):gsub("'c'", "'c\\nd'")))
    ended(0, run "sample c.lua --out out --quiet --continue-changed")
    assert.equal(4, #rows(name))
    assert.matches(": 0 measured", ended(0, run "sample c.lua --out out --quiet"))
  end)

  it("without the visits that were damaged", function()
    write("c.lua", campaign("visits = 2,"))
    local name = measured()
    local visits = name:gsub("%.csv$", ".visits")
    local whole = command.read(folder, name)
    local fingerprint = whole:match("# campaign: c (%x+)")
    local io_module = require "ett.io"
    local good = '{"shape":"32,8","results":{"forward":3}}'
    for _, line in ipairs { good, "0123 " .. good, io_module.hash(good) .. " " .. good:gsub("3}", "4}"), "{", "[1]" } do
      write(name, (whole:gsub("\n32,8,[^\n]*\n", "\n"):gsub("#~[^\n]*\n", "")))
      write(visits, "# visits: c " .. fingerprint .. "\n" .. line .. "\n")
      assert.matches(": 1 measured", ended(0, run "sample c.lua --out out --quiet"))
    end
  end)
end)

it("ett samples and ett fit report options without effect, and a cut last line of a table", function()
  for arguments, sentence in pairs {
    ["merge a --output b --shape 1"] = "samples merge: %-%-shape has no effect here",
    ["merge a --output b --precision fp16"] = "samples merge: %-%-precision has no effect here",
    ["from-trace a b.yml --json"] = "samples from%-trace: %-%-json has no effect with a CONFIG.yml",
  } do
    assert.matches("^ett: " .. sentence .. "\n$", ended(2, run("samples " .. arguments)))
  end
  write("D_gelu_fp32.csv", "# ett: 0.1.0\ntokens,width,F_dur(us),B_dur(us)\n8,8,1,2\n16,8,2,4.")
  local entry = require("ett.profile.samples").index(folder)[1]
  local read, why = require("ett.profile.samples").read(entry)
  assert.is_nil(read)
  assert.matches("D_gelu_fp32.csv:4: the last line is cut off; run its campaign again", why.message)
end)

describe("ett sample", function()
  before_each(function() write("c.lua", campaign "visits = 1,") end)

  it("measures --limit shapes of a grid of any size, and reports grids that are too large", function()
    write("c.lua", campaign("visits = 1,", "{ tokens = { start = 1, stop = 1 << 30 }, "
      .. "width = { start = 1, stop = 1 << 30 } }"))
    assert.matches(": 2 measured", ended(0, run("sample c.lua --out out --quiet --limit 2", "timeout -k 1 300")))
    local text = ended(1, run("sample c.lua --out out --quiet", "timeout -k 1 300"))
    assert.matches("^ett: gelu: 1152921504606846976 shapes are more than the limit of %d+ for one run; give "
      .. "%-%-limit, %-%-parts, or a design with count\n$", text)
    text = ended(1, run("sample c.lua --out out2 --quiet --active --limit 2", "timeout -k 1 300"))
    assert.matches("; give %-%-parts, or a design with count\n$", text)
  end)

  it("refuses options without effect", function()
    for option, sentence in pairs {
      ["--run get_one --active"] = "%-%-active needs %-%-run get_all; get_one measures one shape and writes no "
        .. "table",
      ["--run get_one --parts 2"] = "%-%-parts needs %-%-run get_all",
      ["--run run_function --limit 2"] = "%-%-limit needs %-%-run get_all",
      ["--run get_profiler --retry-failed"] = "%-%-retry%-failed needs %-%-run get_all",
      ["--device 0 --device_num 1"] = "%-%-device 0 and %-%-device_num 1 are the same option; give one",
      ["--threads 100000"] = "option '%-%-threads' must be at most 1024, got '100000'",
    } do
      assert.matches("^ett: sample: " .. sentence, ended(2, run("sample c.lua " .. option)))
    end
  end)

  it("refuses samples of which it would leave some out", function()
    for samples, sentence in pairs {
      ["one, nil, one"] = "field 'samples': value 2 is nil",
      ["one, extra = one"] = "field 'samples': a list cannot have the field 'extra'",
    } do
      write("c.lua", "local one = { operator = 'gelu', shapes = { tokens = 1, width = 1 } }\n"
        .. "return { name = 'c', samples = { " .. samples .. " } }\n")
      assert.matches("^ett: c.lua: " .. sentence .. "\n$", ended(1, run "sample c.lua --out out"))
    end
  end)

  it("refuses samples that the back end does not measure", function()
    for _, mode in ipairs { "", "--run get_one", "--active" } do
      write("c.lua", "return { name = 'c', backend = 'cpu', samples = { { collective = 'all_reduce', "
        .. "shapes = { shape = 16 } } } }\n")
      local text = ended(1, run("sample c.lua --out out " .. mode))
      assert.matches("^ett: c.lua: sample 1: all_reduce is a collective, the back end cpu measures operators; mpi and "
        .. "nccl measure collectives\n$", text)
      write("c.lua", campaign "")
      text = ended(1, run("sample c.lua --out out --backend mpi " .. mode))
      assert.matches("^ett: c.lua: sample 1: gelu is an operator, the back end mpi measures collectives\n$", text)
    end
  end)

  it("prints one shape as JSON", function()
    local text = ended(0, run "sample c.lua --run get_profiler --json")
    local doc = require("ett.json").decode(text)
    assert.same({ tokens = 16, width = 8 }, doc.shape)
    assert.is_true(doc.passes.forward.seconds > 0 and doc.passes.backward.repeats >= 1)
    assert.is_true(#doc.passes.forward.repeats_seconds >= 1)
  end)

  it("names the error of an empty campaign", function()
    lfs.mkdir(folder .. "/folder.yml")
    local text = ended(1, run "sample folder.yml")
    assert.matches("^ett: cannot read 'folder.yml': is a directory\n$", text)
    for fields, sentence in pairs {
      ["precision = {},"] = "field 'precision' must be a name such as \"fp32\" or a list of names",
      ["precision = 5,"] = "field 'precision' must be a name such as \"fp32\" or a list of names, got 5",
      ["precision = { fp32 = 1 },"] = "field 'precision' must be a name",
      ["precision = { 'fp32', 7 },"] = "field 'precision' must be a name",
      ["threads = 5000,"] = "field 'threads' must be at most 1024, got 5000",
      ["cold_bytes = 1 << 60,"] = "field 'cold_bytes' must be at most 68719476736, got 1152921504606846976",
      ["visits = 10^9 // 1 | 0,"] = "field 'visits' must be at most 1000, got 1000000000",
      ["precision = { 'fp32', 'fp16', 'fp32' },"] = "field 'precision' names 'fp32' twice",
    } do
      write("c.lua", campaign(fields))
      assert.matches("^ett: c.lua: " .. sentence, ended(1, run "sample c.lua --out out"))
    end
    for shapes, sentence in pairs {
      ["{ tokens = {}, width = 8 }"] = "dimension 'tokens': the list is empty",
      ["{ tokens = 16, width = 8 }, with = function(s) s.width = -4 end"] =
        "with: dimension 'width' must be at least 0, it was set to %-4",
      ["{ tokens = { from = 1, to = 1e300 }, width = 8 }, design = 'halton', count = 3"] =
        "dimension 'tokens': to must be at most 9007199254740992, got 1e%+300",
      ["{ tokens = { from = 1, to = 9 }, width = 8 }, design = 'random', count = 10^12 // 1 | 0"] =
        "count must be at most 16777216, got 1000000000000",
    } do
      write("c.lua", campaign("", shapes))
      assert.matches("^ett: c.lua: sample 1: [^\n]*" .. sentence .. "\n$", ended(1, run "sample c.lua --out out"))
    end
    write("c.lua", "return { name = 'c', samples = {} }\n")
    text = ended(1, run "sample c.lua --out out")
    assert.matches("c.lua: field 'samples' is empty: there is nothing to measure", text)
  end)
end)
