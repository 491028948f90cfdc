--- Stacks whose files change another stack.
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local raised = require "raised"
local stacks = require "ett.operator.stack"

describe("a stack with a base", function()
  local folder = require("command").each_folder(_ENV)
  before_each(function()
    folders.make(folder .. "/stacks")
    find.set_folders { folder }
  end)
  after_each(function()
    package.loaded.reads_of_stacks = nil
    find.set_folders {}
  end)

  local function write(name, fields)
    folders.write(("%s/stacks/%s.lua"):format(folder, name),
      ("return { name = '%s', summary = 's', source = 's', %s }"):format(name, fields))
  end

  it("has the fields of its base except those that it states, also false and defaults", function()
    local base = stacks.get "megatron"
    write("one", "base = 'megatron', hides_sums = false, attention = 'flash2'")
    write("two", "base = 'one', workspace_bytes = 33.6e6, attention = 'flash3'")
    local two = stacks.get "two"
    -- Steps of the base's software say nothing about this one's.
    local own = { name = "two", base = "one", summary = "s", source = "s", hides_sums = false,
      attention = "flash3", workspace_bytes = 33.6e6, compared = "none" }
    for field, value in pairs(base) do
      if own[field] == nil then assert.same(value, two[field], field) end
    end
    for field, value in pairs(own) do assert.same(value, two[field], field) end
    assert.is_true(base.hides_sums)
    assert.equal("flash2", stacks.get("two:attention=flash2").attention)
    write("three", "base = 'megatron', compared = 'hopper'")
    assert.same({ hopper = true }, stacks.compared_on(stacks.get "three:attention=flash2"))
    assert.same({}, stacks.compared_on(stacks.get "three:compared=none"))
    write("cast", "base = 'transformers', autocast = true")
    for _, name in ipairs { "cast", "cast:norm=torch", "transformers:autocast:zero_stages=3" } do
      assert.equal("0", stacks.get(name).zero_stages)
    end
    write("four", "compared = 'amper'")
    assert.matches("compared: unknown generation 'amper'; did you mean 'ampere'", tostring(select(2, pcall(stacks.get,
      "four"))), 1, true)
    assert.same({ "efficient", "flash2" }, stacks.other_attention(
      stacks.get "megatron:other_attention=flash2+efficient", "megatron"))
    assert.same({}, stacks.other_attention(stacks.get "megatron", "megatron:attention=cudnn"))
    assert.same({ "flash2" }, stacks.other_attention(stacks.get "megatron", "megatron", "hopper"))
    assert.same({}, stacks.other_attention(stacks.get "megatron", "megatron", "blackwell"))
    local graphs = "megatron:other_graphs=none step attn+mlp"
    assert.same({ ":graphed=", ":graphs", ":graphed=attn+mlp" }, stacks.other_graphs(stacks.get(graphs), graphs))
    for _, text in ipairs { "megatron:graphs", "megatron:graphed=attn" } do
      assert.same({}, stacks.other_graphs(stacks.get(text), text))
    end
    assert.same({}, stacks.other_graphs({ graphs = true, other_graphs = "step" }, "of a file"))
    for text, said in pairs { stpe = "did you mean 'step'", ["attn+none"] = "unknown part 'none'; known are attn" } do
      assert.matches(said, tostring(select(2, pcall(stacks.get, "megatron:other_graphs=" .. text))), 1, true)
    end
    assert.matches("other_attention: unknown kernel 'flash9'; did you mean 'flash1'", tostring(select(2, pcall(
      stacks.get, "megatron:other_attention=flash9"))), 1, true)
  end)

  it("is read once until one of its files changes or another file takes the name", function()
    local reads = { count = 0 }
    package.loaded.reads_of_stacks = reads
    folders.write(folder .. "/stacks/one.lua", "local reads = require 'reads_of_stacks'\n"
      .. "reads.count = reads.count + 1\nreturn { name = 'one', summary = 's', source = 's', slowdown = 1.5 }\n")
    write("two", "base = 'one'")
    local first = stacks.get "two:graphs"
    assert.equal(1.5, first.slowdown)
    first.slowdown = 4.5 -- a table of one's own
    assert.equal(1.5, stacks.get("two:graphs").slowdown)
    assert.equal(1, reads.count)
    write("one", "slowdown = 2.5")
    assert.equal(2.5, stacks.get("two:graphs").slowdown)
    write("one", "slowdown = 3.5") -- as long as before
    assert.equal(3.5, stacks.get("two:graphs").slowdown)
    do
      local _ <close> = stacks.hold() -- an estimate has one state of the files
      assert.equal(3.5, stacks.get("two:graphs").slowdown)
      write("one", "slowdown = 4.5")
      assert.equal(3.5, stacks.get("two:graphs").slowdown)
    end
    assert.equal(4.5, stacks.get("two:graphs").slowdown)
    write("megatron", "slowdown = 3.5")
    assert.equal(3.5, stacks.get("megatron").slowdown)
    os.remove(folder .. "/stacks/megatron.lua")
    assert.equal(1, stacks.get("megatron").slowdown)
  end)

  it("is refused if its base leads back to it, is missing, or has a wrong field", function()
    local function fault(name) return raised(stacks.get, name) end
    write("one", "base = 'two'")
    write("two", "base = 'one'")
    write("self", "base = 'self'")
    assert.matches("two.lua: its base 'one' leads back to it", fault "one", 1, true)
    assert.matches("self.lua: its base 'self' leads back to it", fault "self", 1, true)
    write("three", "base = 'megatrn'")
    assert.matches("unknown stack 'megatrn'; did you mean 'megatron'", fault "three", 1, true)
    write("four", "base = 'five'")
    write("five", "attention = 'slow'")
    assert.matches("five.lua: field 'attention'", fault "four", 1, true)
  end)
end)

it("a stack has fewer launches with CUDA graphs of modules that a layer has, each counted once", function()
  local function left(graphed, has_experts)
    return stacks.launches_left(stacks.get("megatron_hybridep:graphed=" .. graphed), has_experts)
  end
  for graphed, wanted in pairs { attn = { 1 / 2, 1 / 2, 1 }, ["attn+attn"] = { 1 / 2, 1 / 2, 1 },
    mlp = { 7 / 12, 1, 1 }, ["attn+moe_router+moe_preprocess"] = { 1 / 2, 1 / 3, 1 / 4 },
    ["attn+mlp+moe_router+moe_preprocess"] = { 1 / 12, 1 / 3, 1 / 4 } } do
    local experts, routing = left(graphed, true)
    assert.near(wanted[1], left(graphed, false), 1e-12, graphed)
    assert.near(wanted[2], experts, 1e-12, graphed)
    assert.equal(wanted[3], routing)
  end
  assert.equal(1, (stacks.launches_left(stacks.get "megatron", true)))
  assert.matches("graphed: unknown part 'atn'; did you mean 'attn'", raised(stacks.get, "megatron:graphed=atn"),
    1, true)
end)

it("a stack takes the text of a number for a field of text", function()
  assert.equal("3", stacks.get("transformers:zero_stages=3").zero_stages)
end)

it("a stack whose dispatcher has almost no bandwidth is refused", function()
  assert.equal("stack 'megatron:exchange_share=1e-30': field 'exchange_share' must be 0 (NCCL's all-to-alls) or at "
    .. "least 0.01, got 1e-30", raised(stacks.get, "megatron:exchange_share=1e-30"))
  assert.equal(0, stacks.get("megatron_hybridep:exchange_share=0").exchange_share)
end)

it("the page lists every field of a stack with its values and default", function()
  local fields = require "ett.base.merged"(stacks.fields)
  fields.name, fields.summary, fields.source = nil, nil, nil -- in the file to copy
  for line in require("tree").read("lua/stacks/README.md"):gmatch "[^\n]+" do
    local names, values, default = line:match "^| (`[^|]+) | ([^|]+) |([^|]+)| [^|]+ |$"
    for name in (names or ""):gmatch "`([%w_]+)`" do
      local rule, allowed = fields[name], {}
      fields[name] = nil
      for value in values:gmatch "`([^`]+)`" do allowed[value] = true end
      for _, value in ipairs(rule.one_of or {}) do
        assert.is_true(allowed[value], name)
        allowed[value] = nil
      end
      assert.is_nil(next(allowed), name)
      default = default:match "^%s*`?(.-)`?%s*$"
      local wanted = rule.default
      if wanted == nil then
        assert.is_true(default == "" or stacks.fields[default] ~= nil, name)
      else
        assert.equal(type(wanted) == "number" and wanted or tostring(wanted), tonumber(default) or default, name)
      end
    end
  end
  assert.same({}, fields)
end)
