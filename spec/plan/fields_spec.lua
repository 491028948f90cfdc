--- The fields of a plan are declared once: everything else follows.
local fields = require "ett.plan.fields"
local host = require "ett.host"
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"

local from_zero = { nonnegative = true, natural = true }

--- The row of a field in lua/ett/plan/README.md.
local function row(field)
  local range = field.one_of and table.concat(field.one_of, ", ")
    or field.most and ("%s to %d"):format(field.least or from_zero[field[2]] and 0 or 1, field.most)
    or field.least and ("at least %s"):format(field.least) or ""
  local of_stack = field.help:find("default: as in the stack", 1, true)
  local default = field.default ~= nil and not of_stack and schema.describe(field.default):gsub("'", "") or ""
  return ("| `%s` | %s | %s | %s | %s |"):format(field[1], field[2], range, default, field.help)
end

describe("the fields of a plan", function()
  it("match the table of the README", function()
    local listed, declared = {}, {}
    for line in io.lines(host.root .. "/lua/ett/plan/README.md") do
      if line:match("^| `[%w_]+` | [%w_]+ | [^|]*| [^|]*| [^|]*|$") then listed[#listed + 1] = line end
    end
    for i, field in ipairs(fields.list) do declared[i] = row(field) end
    assert.equal(table.concat(declared, "\n"), table.concat(listed, "\n"))
  end)

  it("match the members that C reads", function()
    local core, declared = require("ett.step").plan_fields(), {}
    for _, field in ipairs(fields.list) do
      local c = field.c == true and field[1] or field.c and field.c[1]
      if c and field[2] ~= "list" then declared[#declared + 1] = c end -- lists are read by themselves
    end
    table.sort(core)
    table.sort(declared)
    assert.same(declared, core)
  end)

  it("compares lengths that are multiples of 1000 with powers of 2", function()
    local decimals = require("ett.plan.fields").decimals
    for seq, said in pairs { [8000] = "8Ki is 8192", [128000] = "128Ki is 131072", [1000000] = "1Mi is 1048576" } do
      assert.same({ ("seq = %d; %s"):format(seq, said) }, decimals({ seq }, {}))
    end
    for _, seq in ipairs { 8192, 131072, 500, 1001 } do assert.same({}, decimals({ seq }, {})) end
    assert.same({ "window = 4000; 4Ki is 4096" }, decimals({ 8192 }, { window = 4000 }))
    assert.same({ "seq = 8000; 8Ki is 8192", "seq = 4000; 4Ki is 4096" }, decimals({ 8000, 8192, 4000, 8000 }, {}))
  end)

  it("have other values where a plan leaves them open, save those that memory or the stack decides", function()
    local model = require("ett.model").new("llama", { layers = 8, hidden = 512, heads = 8, vocab = 1000 })
    local stacks = require "ett.operator.stack"
    local function others(changes, experts)
      local given = merged({ seq = 512, pp = 2, dp = 2, micro_batches = 4, stack = "megatron" }, changes)
      return fields.other_values(given, require("ett.plan").new(given, model), stacks.get(given.stack), 8, experts)
    end
    local kernel = { { stack = "megatron:attention=flash2" } }
    local interleaved = { { schedule = "interleaved", vp = 2 }, { schedule = "interleaved", vp = 4 } }
    assert.same({ { { gradient_dtype = "bf16" } }, interleaved, { { overlap_gradients = true } }, kernel }, others {})
    local stated = { schedule = "1f1b", gradient_dtype = "bf16", overlap_gradients = false }
    assert.same({ kernel }, others(stated))
    stated.stack = "megatron:attention=cudnn"
    assert.same({}, others(stated))
    local graphed = { { stack = "megatron:attention=cudnn:graphed=attn+moe_router+moe_preprocess" } }
    assert.same({ graphed }, others(stated, 8)) -- with experts
    stated.recompute = "full"
    assert.same({}, others(stated, 8))
  end)

  it("a new field needs one declaration: it is checked, shown in help, swept and part of the program's key", function()
    local rooms = { "^ett%.plan", "^ett%.step%.", "^ett%.search%.", "^ett%.cli%.fields$" }
    local function reload(module)
      local kept = {}
      for name, value in pairs(package.loaded) do
        for _, room in ipairs(rooms) do
          if name:match(room) then kept[name], package.loaded[name] = value, nil end
        end
      end
      return kept, module and require(module)
    end
    local before, own = reload "ett.plan.fields"
    -- What the module makes of its list, made again with one entry more.
    local path = package.searchpath("ett.plan.fields", package.path)
    local file = assert(io.open(path))
    local text = file:read("a"):gsub("list = {\n", [[list = {
      { "flavour", "string", default = "plain", one_of = { "plain", "salted" }, program = true, help = "of a spec" },
]], 1)
    file:close()
    package.loaded["ett.plan.fields"] = assert(load(text, "@fields.lua"))()
    local ok, raised = pcall(function()
      local plan, sweep = require "ett.plan", require "ett.search.sweep"
      local model = require("ett.model").new("llama", { layers = 8, hidden = 512, heads = 8, vocab = 1000 })
      assert.equal("plain", plan.new({ seq = 512, micro_batches = 1 }, model).flavour)
      assert.same({ "field 'flavour' must be one of plain, salted, got 'sweet'" },
        (plan.violations({ seq = 512, micro_batches = 1, flavour = "sweet" })))
      local s = sweep.new { model = model, cluster = "perlmutter", profile = false,
        plan = { seq = 512, micro_batches = 1 }, over = { flavour = { "plain", "salted" }, dp = { 1, 2 } } }
      assert.equal(4, #s.rows)
      assert.matches("flavour +of a spec %(default plain%)", require("ett.cli.fields").help {})
      local function key(p) return require("ett.plan.fields").program_keys(p, {})(p) end
      assert.not_equal(key { flavour = "plain" }, key { flavour = "salted" })
      assert.equal(#own.list + 1, #require("ett.plan.fields").list)
    end)
    reload()
    for name, value in pairs(before) do package.loaded[name] = value end
    assert(ok, raised)
  end)
end)
