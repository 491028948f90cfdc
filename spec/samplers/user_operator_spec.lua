--- A new operator is one Lua file: the one that samplers/README.md prints is sampled on the CPU, fitted and
--- predicted with, by the commands a user would type.
local command = require "command"
local ended = command.ended
local find = require "ett.base.find"
local lfs = require "lfs"

if not require("needs").cpu("a user's operator", _ENV) then return end
local backend = find.load("samplers", "cpu")

local folder
local function write(name, text) command.write(folder, name, text) end
local function run(arguments) return command.ett(folder, arguments, ("ETT_PATH='%s' timeout 300"):format(folder)) end

--- The first block of Lua of the page that makes an operator of that name.
local function example(page, name)
  local path = find.path("samplers", "cpu"):gsub("cpu/init%.lua$", "") .. page
  local file = assert(io.open(path, "r"))
  local text = file:read("a")
  file:close()
  for block in text:gmatch("```lua\n(.-)```") do
    if block:find(('name = "%s"'):format(name), 1, true) then return block end
  end
  error("no operator " .. name .. " in " .. path)
end

describe("a user's operator", function()
  setup(function()
    folder = command.folder()
    lfs.mkdir(folder .. "/operators")
    lfs.mkdir(folder .. "/lua")
    lfs.mkdir(folder .. "/lua/architectures")
    write("operators/adapter.lua", example("README.md", "adapter"))
    write("operators/low_rank.lua", example("cpu/README.md", "low_rank"))
  end)
  teardown(function() command.remove(folder) end)

  it("is sampled, fitted and predicted with", function()
    write("c.lua", [[return { name = "c", budget_seconds = 0.004, visits = 2, cold_bytes = 8388608, samples = {
      { operator = "adapter", shapes = { tokens = { 64, 96, 128, 256, 384 }, width = { 64, 128, 192, 256 } } },
      { operator = "low_rank", shapes = { tokens = { 64, 128 }, width = { 64, 128 }, rank = 16 } } } }
]])
    local text = ended(0, run "sample c.lua --backend cpu --out out --quiet")
    assert.matches("_adapter_fp32%.csv: 20 measured, 0 failed", text)
    assert.matches("_low_rank_fp32%.csv: 4 measured, 0 failed", text)
    text = ended(0, run "fit out")
    assert.matches("adapter fp32 forward", text)
    assert.matches("adapter fp32 backward", text)

    -- An architecture with the operator in it, on a cluster whose profile is those samples.
    write("lua/architectures/thin.lua", [[return function()
      return { layers = { { name = "adapters", count = 4, place = "middle", ops = { "adapter" } } } }
    end
]])
    write("ask.lua", [[
      local profile = require("ett.profile").from_samples({ "out" }, { cache = false })
      local one = profile:operator("adapter", { tokens = 200, width = 160 }, "fp32", "forward")
      print(("one %.9g %s"):format(one.seconds, one.provenance))
      local cluster = require("ett.validate").cluster(".")
      local model = require("ett.model").new("thin", { layers = 4, hidden = 160, heads = 1, vocab = 100 })
      local e = require("ett.step.estimate").new { model = model, cluster = cluster, profile = profile, plan = {
        dp = 1, tp = 1, pp = 1, micro_batch = 1, micro_batches = 1, seq = 200, dtype = "fp32", gradient_dtype = "fp32",
        clip_gradients = false } }
      print(("step %.9g"):format(e.step_seconds))
]])
    text = ended(0, run "run ask.lua")
    local one, provenance = text:match("one (%S+) (%S+)")
    assert.equal("interpolated", provenance)
    one = tonumber(one)
    assert.is_true(one > 1e-7 and one < 1e-2, text)
    local step = tonumber(text:match("step (%S+)"))
    assert.is_true(step >= 4 * one, text) -- four forward passes and the rest
  end)

  it("is known to fit, predict and list where --path names its folder", function()
    local here = command.folder()
    finally(function() command.remove(here) end)
    local function ett(arguments) return command.ett(here, arguments) end
    lfs.mkdir(here .. "/operators")
    lfs.mkdir(here .. "/lua")
    lfs.mkdir(here .. "/lua/architectures")
    command.write(here, "adapter.lua", example("README.md", "adapter"))
    command.write(here, "lua/architectures/thin.lua", [[return function()
      return { layers = { { name = "adapters", count = 4, place = "middle", ops = { "adapter", "gelu" } } } }
    end
]])
    command.write(here, "c.lua", [[return { name = "c", budget_seconds = 0.004, visits = 1, cold_bytes = 8388608,
      samples = { { operator = "adapter", shapes = { tokens = { 64, 128, 256, 384 }, width = { 64, 128, 256 } } } } }
]])
    ended(0, ett "sample c.lua --quiet")
    assert.matches("adapter fp32 forward", ended(0, ett "fit samples --path ."))
    local text = ended(0, ett("predict --path . --cluster dgx_h100 --model thin layers=4 hidden=128 heads=1 "
      .. "ffn=128 vocab=100 seq=64 micro_batches=1"))
    assert.matches("\n  adapter +%d", text)
    command.write(here, "operators/other.lua",
      (example("README.md", "adapter"):gsub('name = "adapter"', 'name = "other"')))
    assert.matches("\n *other +low%-rank adapter", (ett "list operators --path ."))
  end)

  it("may be edited while its table has no rows, afterwards only with --continue-changed", function()
    local here = command.folder()
    finally(function() command.remove(here) end)
    local function ett(arguments) return command.ett(here, arguments) end
    local function operator(products)
      command.write(here, "own.lua", ([[local op = { name = "own", summary = "x", schema = { n = "count" } }
function op.shape() return { n = 8 } end
function op.flops() return 1.0 end
function op.bytes() return 8.0 end
function op.kernel(k, s)
  local x = k.tensor { s.n, s.n }
  k.gemm { a = x, b = k.tensor { s.n, s.n }, c = k.tensor { s.n, s.n }, m = s.n, n = s.n, k = s.n%s }
end
return op
]]):format(products))
    end
    local function campaign(sizes)
      command.write(here, "c.lua", ([[return { name = "c", budget_seconds = 0.002, visits = 1, cold_bytes = 8388608,
        samples = { { operator = "own", shapes = { n = { %s } } } } }]]):format(sizes))
    end
    campaign "8, 16"
    operator ", trans_B = true"
    local text = ended(1, ett "sample c.lua --quiet")
    assert.matches("last failure: 16: operator 'own': k.gemm: unknown field 'trans_B'; did you mean 'trans_b'?", text,
      1, true)
    text = ended(1, ett "sample c.lua --quiet")
    assert.matches("0 measured, 0 failed.*\n  2 skipped, because they failed before %(#! failed%); "
      .. "%-%-retry%-failed measures them again", text)
    operator ", trans_b = true"
    assert.matches("2 measured, 0 failed", ended(0, ett "sample c.lua --quiet"))
    operator ", trans_a = true"
    text = ended(1, ett "sample c.lua --quiet")
    assert.matches("was started with another version of %./own%.lua %(%x+, now %x+%); give %-%-continue%-changed "
      .. "to continue, or %-%-out for a new folder", text)
    campaign "8, 16, 32"
    assert.matches("1 measured, 0 failed", ended(0, ett "sample c.lua --quiet --continue-changed"))
    local files = 0
    for name in lfs.dir(here .. "/samples") do
      if name:match "%.csv$" then
        local _, count = command.read(here, "samples/" .. name):gsub("# operator file: %x+\n", "")
        files = files + count
      end
    end
    assert.equal(3, files) -- as it began, as it was mended, as it was changed
  end)

  it("names the valid kinds and dimensions", function()
    local session = assert(backend.open { visits = 1, budget_seconds = 0.002, cold_bytes = 8 << 20 })
    finally(session.close)
    local function refused(call)
      local op = { name = "own", passes = { "forward" }, cpu = function() return call end }
      local ok, err = pcall(session.measure, op, { n = 4 })
      assert.is_false(ok)
      return err.message
    end
    assert.matches("no kernel 'scal'; it has linear, gemm, .*scale, .*sleep$", refused { { kind = "scal" } })
    assert.matches("scale: it has no dimension 'vocab'", refused { { kind = "scale", rows = 2, cols = 2, vocab = 3 } })
    local many = {}
    for i = 1, 17 do many[i] = { kind = "scale", rows = 2, cols = 2 } end
    assert.matches("a pass needs 1 to 16 calls of compiled kinds, got 17", refused(many))
    -- And its page lists them as they are.
    local file = assert(io.open((find.path("samplers", "cpu"):gsub("init%.lua$", "README.md"))))
    local page = file:read("a")
    file:close()
    for _, kind in ipairs(require("ett.cpu").kinds()) do
      local row = page:match("\n| [^|\n]*`" .. kind.name .. "`[^|\n]*| `([^`]+)`")
      assert.equal(table.concat(kind.dims, ", "), row, kind.name)
    end
  end)

  it("says which line of a function sets a global", function()
    write("operators/loose.lua", "local op = { name = 'loose', summary = 's', schema = { n = 'count' } }\n"
      .. "function op.shape() return { n = 1 } end\n"
      .. "function op.flops() return 1.0 end\nfunction op.bytes() return 1.0 end\nfunction op.cpu()\n"
      .. "  calls = { { kind = 'scale', rows = 1, cols = 1 } }\n  return calls\nend\nreturn op\n")
    write("l.lua", "return { name = 'l', samples = { { operator = 'loose', shapes = { n = 1 } } } }\n")
    local text = ended(1, run "sample l.lua --out loose --quiet")
    assert.matches("/operators/loose%.lua:6: assignment to undeclared global 'calls'; write 'local calls'", text)
  end)

  it("with launch.map runs on the CPU if it names a compiled kind", function()
    local op = { name = "doubled", summary = "x", schema = { rows = "count", cols = "count" },
      shape = function() return { rows = 4, cols = 8 } end, flops = function() return 1.0 end,
      bytes = function() return 8.0 end, kernel_shape = function(s) return s end }
    local pass = { takes = { "x" }, gives = { "y" }, code = "y = 2.0f * x;", double = function(x) return 2 * x end }
    require("ett.operator.launch").map(op, { forward = pass, backward = pass })
    op.cpu = function(s) return { { kind = "scale", rows = s.rows, cols = s.cols } } end
    local calls = backend.calls(require("ett.operator").check(op, "doubled.lua"), { rows = 4, cols = 8 }, "forward")
    assert.same({ "scale", 4, 8 }, { calls[1].kind, calls[1].rows, calls[1].cols })
  end)

  it("says which launch has no counterpart on the CPU", function()
    local op = require("ett.operator").check({ name = "doubled", summary = "x", schema = { n = "count" },
      shape = function() return { n = 1 } end,
      flops = function() return 1.0 end, bytes = function() return 8.0 end,
      kernel = function(k, s) k.kernel { name = "twice", source = "", grid = 1, block = 1, args = { s.n } } end },
      "doubled.lua")
    local ok, err = pcall(backend.calls, op, { n = 4 }, "forward")
    assert.is_false(ok)
    assert.matches("its launch of 'twice' names no compiled kind that does the same", err.message, 1, true)
    assert.matches("or the operator a function cpu(s) that returns a list of kinds", err.message, 1, true)
    op.kernel = function(k, s)
      k.kernel { name = "twice", source = "", grid = 1, block = 1, args = {},
        cpu = { kind = "scale", rows = s.n, cols = 1 } }
    end
    local calls = backend.calls(op, { n = 4 }, "backward")
    assert.same({ { kind = "scale", rows = 4, cols = 1, pass = "backward" } }, calls)
  end)
end)
