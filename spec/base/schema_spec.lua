local raised = require "raised"
local schema = require "ett.base.schema"

describe("ett.schema", function()
  it("reports every violation at once", function()
    local found = schema.violations({ hiden = 3, tp = -1 }, { hidden = "count", tp = "degree" })
    assert.same({
      "unknown field 'hiden'; did you mean 'hidden'?",
      "missing field 'hidden' (a positive integer)",
      "field 'tp' must be a positive integer, got -1",
    }, found)
  end)

  it("raises for the first wrong rule by name, and copies what it checks", function()
    for _ = 1, 5 do -- each spec is read at its first use
      assert.matches("^unknown kind 'nope' of field 'a'", raised(schema.check_rules, { b = "cuont", a = "nope",
        c = "count" }))
    end
    assert.is_false(pcall(schema.check_rules, { "count" }))
    local spec = { n = "count", share = { "fraction", default = 0.5 }, how = { "string", one_of = { "a", "b" } } }
    for n, whole in pairs { [2] = 2, [4.0] = 4 } do
      local given = { n = n, how = "b" }
      local clean = schema.check(given, spec)
      assert.same({ n = whole, share = 0.5, how = "b" }, clean)
      assert.equal("integer", math.type(clean.n))
      assert.is_nil(given.share)
    end
  end)

  it("checks the values of its kinds, not only their types", function()
    for kind, cases in pairs { fraction = { 0, 1, 0.5, { 2, -0.1, "x" } }, count = { 1, 7, { 0, -1, 1.5, "1" } } } do
      local wrong = table.remove(cases)
      for _, value in ipairs(cases) do assert.same({}, (schema.violations({ v = value }, { v = kind }))) end
      for _, value in ipairs(wrong) do assert.equal(1, #schema.violations({ v = value }, { v = kind })) end
    end
  end)

  it("checks tables inside tables", function()
    local intra = { "table", optional = true, fields = { rate = "positive" } }
    local spec = { links = { "table", fields = { intra = intra } } }
    assert.same({ links = { intra = { rate = 1 } } }, schema.check({ links = { intra = { rate = 1 } } }, spec))
    assert.same({ "links: intra: unknown field 'raet'; did you mean 'rate'?",
      "links: intra: missing field 'rate' (a positive number)" },
      (schema.violations({ links = { intra = { raet = 1 } } }, spec)))
  end)

  it("suggests a field by its name in other software", function()
    local plan, hyper = require("ett.plan").schema, require("ett.model.hyper").fields
    for name, meant in pairs { ["tensor-model-parallel-size"] = "tp", tensor_parallel_degree = "tp", seq_len = "seq",
      ["seq-length"] = "seq", train_batch_size = "global_batch", gbs = "global_batch", micro_batch_size = "micro_batch",
      expert_tensor_parallel_size = "etp", hidden_size = "hidden", num_attention_heads = "heads", vocab_size = "vocab",
      intermediate_size = "ffn", num_query_groups = "kv_heads", sp = "sequence_parallel", vpp = "vp", fp8 = "dtype=fp8",
      lora = "lora_rank", hsdp = "shard", sequ = "seq", recomput = "recompute" } do
      assert.equal(("; did you mean '%s'?"):format(meant), schema.suggestion(name, plan, hyper))
    end
    assert.equal("", schema.suggestion("qqqqqqqq", plan, hyper))
    assert.equal("", schema.suggestion("bfloat16", plan)) -- no field is named bf16
    for value, text in pairs { [print] = "a function", [coroutine.create(print)] = "a thread",
      [io.stdout] = tostring(io.stdout) } do
      assert.equal(text, schema.describe(value))
    end
    assert.same({ "unknown field 'fsdp'; did you mean 'zero=3'?" }, (schema.violations({ fsdp = 8 },
      { dp = "degree?", zero = { "natural", default = 0, also = "zero_stage fsdp=3" } })))
    assert.same({ "unknown field 'pue'; did you mean 'power.pue'?" }, (schema.violations({ pue = 1.2 },
      { power = { "table", optional = true, fields = { pue = "positive?" } } })))
    assert.same({ "unknown field 'zero_stage'; did you mean 'zero'?" }, (schema.violations({ zero_stage = 1 },
      { zero = plan.zero })))
  end)

  it("suggests a precision by its name in other software", function()
    for name, meant in pairs { bfloat16 = "bf16", half = "fp16", float8 = "fp8", fp4 = "nvfp4", fp31 = "fp32" } do
      assert.matches(("got '%s'; did you mean '%s'?"):format(name, meant),
        schema.violations({ d = name }, { d = "dtype" })[1], 1, true)
    end
    assert.same({ "unknown field 'fp4'; did you mean 'nvfp4'?" }, (schema.violations({ fp4 = 4e15 },
      { fp64 = "positive?", nvfp4 = "positive?" })))
  end)

  it("checks limits and choices, and describes what a rule requires", function()
    assert.same({ "field 'n' must be at most 8, got 9" }, (schema.violations({ n = 9 }, { n = { "count", most = 8 } })))
    assert.same({ "field 'n' must be at least 2, got 1" },
      (schema.violations({ n = 1 }, { n = { "count", least = 2 } })))
    local choice = { "string", one_of = { "flash", "unfused" } }
    assert.same({ "field 'a' must be one of flash, unfused, got 'falsh'; did you mean 'flash'?" },
      (schema.violations({ a = "falsh" }, { a = choice })))
    assert.same({ "field 'a' must be one of flash, unfused, got true" },
      (schema.violations({ a = true }, { a = choice })))
    assert.equal("one of flash, unfused", schema.sentence(choice))
    assert.equal("a positive integer", schema.sentence "count?")
  end)

  it("checks what a user's function returns, by its file and line", function()
    local make = assert(load("local op = {}\nfunction op.f(x) return x end\nreturn op", "@/x/mine.lua"))
    local f = schema.returning(make().f, "natural", "operator 'mine': f", "/x/mine.lua")
    assert.equal("integer", math.type(f(3.0)))
    assert.equal("mine.lua:2: operator 'mine': f must return an integer of at least 0, got 2.5", raised(f, 2.5))
    assert.equal("other.lua", schema.place(make().f, "/x/other.lua")) -- the function is defined in another file
  end)

  it("makes integral floats integers and fills defaults", function()
    local clean = schema.check({ n = 4.0 }, { n = "count", m = { "count", default = 2 } })
    assert.equal("integer", math.type(clean.n))
    assert.equal(2, clean.m)
  end)

  it("has checkers with the findings of check; a correct table is returned unchanged", function()
    local spec = { n = "count", k = "natural?", x = "positive?", b = "boolean?",
      s = { "string", one_of = { "a", "b" }, optional = true }, m = { "count", most = 5, optional = true } }
    local pick = require("random_plans").generator(9)
    local values = { n = { 1, 7, 2.0, 0, "1" }, k = { 0, 3, 1.0, -1 }, x = { 0.5, 2, 0 }, b = { true, false, 1 },
      s = { "a", "c" }, m = { 5, 6 }, other = { 1 } }
    local check, kept, refused = schema.checker(spec, "t"), 0, 0
    for _ = 1, 600 do
      local given = { n = pick { 1, 7 } }
      for name, list in pairs(values) do
        if pick { 1, 2, 3, 4 } == 1 then given[name] = pick(list) end
      end
      local ok, wanted = pcall(schema.check, given, spec, "t")
      local good, found = pcall(check, given)
      assert.equal(ok, good)
      if not ok then
        refused = refused + 1
        assert.equal(tostring(wanted), tostring(found))
      else
        assert.same(wanted, found)
        assert.equal("integer", math.type(found.n))
        assert.equal(given.k and "integer", found.k and math.type(found.k))
        if found == given then kept = kept + 1 end
      end
    end
    assert.is_true(kept > 50 and refused > 50)
  end)
end)
