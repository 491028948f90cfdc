--- `ett sample` over several runs: headers, changed campaigns, and parts of a campaign.
local command = require "command"
local ended = command.ended
local lfs = require "lfs"

if not require("needs").cpu("ett sample", _ENV) then return end

local folder = command.each_folder(_ENV)
local function run(arguments, before) return command.ett(folder, arguments, before) end
local function write(name, text) command.write(folder, name, text) end

--- The only table of a folder: its text.
local function table_in(name)
  local place = folder .. "/" .. name
  return command.read(place, require("ett.base.folder").names(place, "^[^.].*%.csv$")[1])
end

local function rows(text)
  local list = {}
  for line in text:gmatch("[^\n]+") do
    if line:match("^%d") then list[#list + 1] = line:match("^(%d+,%d+),") end
  end
  table.sort(list)
  return list
end

local function campaign(fields, samples)
  return ("return { name = 'c', visits = 1, cold_bytes = 1 << 20, "
    .. "min_repeats = 1, max_repeats = 2, %s samples = { %s } }\n"):format(fields,
    samples)
end

local gelu = "{ operator = 'gelu', shapes = { tokens = { 16, 32, 48 }, width = 8 } },"

describe("ett sample", function()
  it("writes the back end's settings into the header", function()
    write("c.lua", campaign("", gelu))
    ended(0, run "sample c.lua --out s --quiet --budget 0.003 --limit 2")
    local made = table_in "s"
    assert.matches("\n# clock: %S+ MHz nominal", made)
    assert.matches("\n# options: backend cpu, parts 1, part 1, budget 0.003 s, target 1 %, at least 1 repeats "
      .. "unless they take 4 budgets, at most 2 repeats, 1 visits, at most 2 shapes\n", made, 1, true)
  end)

  it("chooses from all shapes with --active and --limit, in every run", function()
    write("c.lua", campaign("", "{ operator = 'gelu', shapes = { tokens = { start = 8, stop = 80, step = 8 }, "
      .. "width = { start = 8, stop = 80, step = 8 } } },"))
    for run_number = 1, 2 do
      local text = ended(0, run "sample c.lua --out s --quiet --active --target-error 1e-6 --limit 9")
      assert.matches(" with " .. 9 * run_number .. " of 100 shapes\n", text)
      local shapes = rows(table_in "s")
      assert.equal(9 * run_number, #shapes)
      local known = " " .. table.concat(shapes, " ") .. " "
      for _, corner in ipairs { "8,8", "8,80", "80,8", "80,80" } do
        assert.is_truthy(known:find(" " .. corner .. " ", 1, true), known)
      end
    end
    local text = run "sample c.lua --out p --active --target-error 1e-6 --limit 9"
    assert.matches("^gelu: 9 shapes to measure, 0 measured before\n", text)
  end)

  it("reports how it treats the schedule of estimate-train-time's files, and shapes that do not fit", function()
    write("g.yml", "{ kernel_name: gelu, first_n_column: 4, columns_name: [mp, b, l, dim, 'F_dur(us)', 'B_dur(us)'],\n"
      .. " starts: [1, 1, 8, 16], steps: [2, 2, 8, 16], ends: [1, 1, 16, 16], operators: [mul, mul, add, add],\n"
      .. " targets: [[a], [b]], wait: 4, warmup: 6, active: 12, warmup_shapes: [1, 1, 8, 16], shapes: [1, 1] }\n")
    local text = ended(0, run "sample g.yml --backend cpu --precision fp32 --out s")
    assert.matches("ett: note: shapes has 2 values for 4 dimensions: get_one, get_profiler and run_function take the "
      .. "first shape of the ranges\n", text, 1, true)
    assert.matches("\n# schedule: warmed until stable in place of wait 4, warmup 6 and warmup_shapes; active 12: "
      .. "at least this many repeats unless they take 4 budgets\n", table_in "s", 1, true)
    assert.matches(", at least 12 repeats unless they take 4 budgets, ", table_in "s", 1, true)
    assert.matches("shape: mp=1 b=1 l=8 dim=16\n", (run
      "sample g.yml --backend cpu --precision fp32 --run get_one"), 1, true)
  end)

  it("repeats a single shape min_repeats times whatever the time, and prints an unknown interval for one", function()
    write("c.lua", "return { name = 'c', cold_bytes = 1 << 20, budget_seconds = 1e-4, min_repeats = 9, samples = { "
      .. "{ operator = 'gelu', shapes = { tokens = 512, width = 2048 } } } }\n")
    local made = run "sample c.lua --run get_one"
    for _, pass in ipairs { "forward", "backward" } do
      local repeats, dropped = made:match(pass .. " .- us, (%d+) repeats, (%d+) dropped")
      local lost = ("%s: lost the processor in %s of %s repeats"):format(pass, dropped, repeats)
      assert(repeats and (repeats - dropped >= 9 or made:find(lost, 1, true)), made)
    end
    assert.matches("forward +[%d.]+ us  %+%- unknown, 1 repeats", (run "sample c.lua --run run_function"))
  end)

  it("lists no shapes of an unknown operator", function()
    write("c.lua", "return { name = 'c', samples = { { operator = 'nosuch', shapes = { b = { 1, 2 } } } } }\n")
    assert.matches("unknown operator 'nosuch'", ended(1, run "sample c.lua --list"))
  end)

  it("continues an edited campaign only with --continue-changed, and then refuses the old version", function()
    write("c.lua", campaign("", gelu))
    write("d.lua", campaign("", gelu .. " "))
    run "sample c.lua --out s --quiet --limit 1"
    assert.matches("was started by another version of this campaign", ended(1, run "sample d.lua --out s --quiet"))
    assert.equal(0, (select(2, run "sample d.lua --out s --quiet --continue-changed --limit 1")))
    assert.equal(0, (select(2, run "sample d.lua --out s --quiet")))
    assert.equal(1, (select(2, run "sample c.lua --out s --quiet")))
    local made = table_in "s"
    assert.same({ "16,8", "32,8", "48,8" }, rows(made))
    -- The second line stands above the rows of the second version.
    local first, second = made:match("^.-\n# campaign: c (%x+)\n.-\n16,8,[^\n]*\n# campaign: c (%x+)\n")
    assert.is_true(second ~= nil and first ~= second, made)
    assert.matches("3 rows of 1 tables", ended(0, run "samples merge s --output m"))
  end)

  it("fails when every shape does", function()
    lfs.mkdir(folder .. "/operators")
    write("operators/broken.lua", "local op = { name = 'broken', summary = 's', schema = { n = 'count' } }\n"
      .. "function op.shape() return { n = 1 } end\n"
      .. "function op.flops() return 1.0 end\nfunction op.bytes() return 1.0 end\n"
      .. "function op.cpu(s)\nif s.n > 1 then error 'too many' end\n"
      .. "return { { kind = 'scale', rows = 1, cols = 1 } } end\n"
      .. "return op\n")
    write("c.lua", campaign("", "{ operator = 'broken', shapes = { n = { 2, 3 } } }"))
    local text = ended(1, run "sample c.lua --out s --quiet")
    assert.matches("0 measured, 2 failed", text)
    assert.matches("ett: no shape could be measured; the tables give the reasons %(#! failed%)\n", text)
    write("d.lua", campaign("", "{ operator = 'broken', shapes = { n = { 1, 2 } } }"))
    assert.equal(0, (select(2, run "sample d.lua --out t --quiet")))
  end)

  it("lists the shapes of a part", function()
    write("c.lua", campaign("", gelu))
    assert.same({ "# gelu: 2 shapes of 3, part 1 of 2\ntokens,width\n16,8\n48,8\n", 0 },
      { run "sample c.lua --list --parts 2" })
    assert.same({ "# gelu: 1 shapes of 3, part 2 of 2\ntokens,width\n32,8\n", 0 },
      { run "sample c.lua --list --parts 2 --part 2" })
    local text = ended(2, run "sample c.lua --list --parts 2 --part 3")
    assert.matches("--part must be 1 to 2 (--parts), got 3\n", text, 1, true)
  end)

  it("fills one table from two entries of a campaign, also where tables take turns", function()
    for _, fields in ipairs { "", "interleave = true," } do
      write("c.lua", campaign(fields, gelu .. "{ operator = 'gelu', shapes = { tokens = { 48, 64 }, width = 8 } }, "
        .. "{ operator = 'residual_add', shapes = { tokens = 16, hidden = 8 } }"))
      os.execute(("rm -rf '%s/s'"):format(folder))
      local text = ended(0, run "sample c.lua --out s --quiet")
      assert.matches("gelu_fp32.csv: 3 measured.+gelu_fp32.csv: 1 measured", text)
      assert.matches("residual_add_fp32.csv: 1 measured", text)
    end
  end)

  it("refuses repeats that no back end makes", function()
    for said, fields in pairs {
      ["c.lua: field 'max_repeats' must be at most 4000, got 100000"] = "max_repeats = 100000,",
      ["c.lua: min_repeats = 9 is more than max_repeats = 3"] = "min_repeats = 9, max_repeats = 3,",
    } do
      write("c.lua", ("return { name = 'c', %s samples = { %s } }"):format(fields, gelu))
      assert.matches(said, ended(1, run "sample c.lua --out s --quiet"), 1, true)
    end
  end)
end)

it("the header's driver is the kernel's, of either module, and the CUDA version that it serves", function()
  local machine = require "ett.sampling.machine"
  local path = os.tmpname()
  finally(function() os.remove(path) end)
  for said, text in pairs {
    ["580.65.06, CUDA 13.0"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:06:06\n",
    ["570.86.15, CUDA 13.0"] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n",
    ["CUDA 13.0"] = "no such thing\n",
  } do
    require("ett.base.folder").write(path, text)
    assert.equal(said, machine.driver_text(13000, path))
  end
end)
