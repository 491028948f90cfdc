--- Wrong calls of the public functions: each raises one sentence of the
--- library that names the argument or field, not an error of Lua about a line of ett.
local error_module = require "ett.base.error"
local ett = require "ett"
local merged = require "ett.base.merged"
local raised = require "raised"

local function llama() return ett.model.new("llama", { layers = 4, hidden = 512, heads = 8, vocab = 32000 }) end
local cluster = ett.cluster.get "dgx_h100"
local step = { seq = 1024, micro_batches = 2 }

--- Each with arguments that are right.
local functions = {
  { "ett.estimate", ett.estimate.new, { model = llama(), cluster = "dgx_h100", plan = step, tokens = 1e9,
    units = true, profile = false } },
  { "ett.sweep", ett.sweep.new, { model = llama(), cluster = "dgx_h100", plan = step, over = { pp = { 1, 2 } },
    devices = 2, objective = "memory_bytes", profile = false } },
  { "ett.model.new", ett.model.new, "llama", { layers = 4, hidden = 512, heads = 8, vocab = 32000 } },
  { "ett.model.list", ett.model.list, { "gelu" }, { layers = 4, hidden = 512, heads = 8, vocab = 32000 } },
  { "ett.model.huggingface", ett.model.huggingface, "config.json" },
  { "ett.architecture.new", ett.architecture.new, "llama", { layers = 4, hidden = 512, heads = 8, vocab = 32000 } },
  { "ett.plan.new", ett.plan.new, step },
  { "ett.plan.deepspeed_split", ett.plan.deepspeed_split, 32, 4 },
  { "ett.cluster.get", ett.cluster.get, "dgx_h100" },
  { "ett.cluster.collective", ett.cluster.collective, cluster, "all_reduce", 1e6, { nodes = 1, gpus_per_node = 2 } },
  { "ett.collective.kind", ett.collective.kind, "all_reduce" },
  { "ett.operator.get", ett.operator.get, "gelu" },
  { "ett.profile.open", ett.profile.open, "dgx_h100" },
  { "ett.profile.from_samples", ett.profile.from_samples, { "samples" }, { cache = false } },
  { "ett.samples.index", ett.samples.index, "samples" },
  { "ett.trace.view.open", require("ett.trace.view").open, "run" },
  { "ett.reference.read", ett.reference.read, "config.yml" },
  { "ett.reference.predict", ett.reference.predict, { plan = {} }, {} },
  { "ett.campaign.load", ett.campaign.load, "cpu_30s" },
  { "ett.options", ett.options, { pp = "degree" } },
}

local wrong = { false, 0, -1, 0 / 0, math.huge, 1 << 62, 1e30, 1.5, "", "x", {}, { 1, 2, "x" },
  { a = { b = {} } }, type,
  io.stdout, ("x"):rep(1000) }

--- Calls; an error must be an error object of ett.
local function call(label, fn, arguments, count)
  local ok, why = pcall(function() return tostring(fn(table.unpack(arguments, 1, count))) end)
  if ok then return end
  local text = tostring(why)
  assert.is_true(error_module.is(why), label .. ": raised " .. text)
  assert.is_true(not text:find("attempt to", 1, true) and not text:find("%.lua:%d+: "), label .. ": " .. text)
  assert.is_true(#text > 5 and #text < 1500, label .. ": " .. text)
end

local function describe_value(value) return require("ett.base.schema").describe(value) end

--- Changes one field after the other; `value` nil takes it away.
local function each_field(given, value, visit)
  for key in pairs(given) do
    local copy = merged(given)
    copy[key] = value
    visit(copy, key)
  end
end

describe("the library, called wrongly,", function()
  for _, entry in ipairs(functions) do
    local name, fn, arguments = entry[1], entry[2], { table.unpack(entry, 3) }
    it("reports the fault: " .. name, function()
      call(name, fn, {}, 0)
      for i = 1, #arguments do
        local changed = { table.unpack(arguments) }
        changed[i] = nil
        call(("%s without argument %d"):format(name, i), fn, changed, #arguments)
        for _, value in ipairs(wrong) do
          changed[i] = value
          call(("%s with argument %d %s"):format(name, i, describe_value(value)), fn, changed, #arguments)
        end
        if type(arguments[i]) == "table" then
          for w = 0, #wrong do
            each_field(arguments[i], wrong[w], function(copy, key)
              changed[i] = copy
              call(("%s with %s = %s"):format(name, tostring(key), describe_value(wrong[w])), fn, changed, #arguments)
            end)
          end
        end
      end
    end)
  end


  it("with a colon, is told to use a dot", function()
    for _, name in ipairs { "estimate", "search", "sweep", "options" } do
      local ok, why = pcall(function() return ett[name](ett, {}) end) -- what ett:NAME {} calls
      assert.is_false(ok)
      assert.matches("got the module ett; write ett.NAME with a dot, not with a colon$", tostring(why))
    end
  end)

  it("names the nearest module", function()
    for name, near in pairs { modl = "model", predict = "estimate", Plan = "plan" } do
      local _, why = pcall(function() return ett[name] end)
      assert.equal(("ett has no module '%s'; did you mean '%s'?"):format(name, near), tostring(why))
    end
  end)

  it("names the missing input and the alternatives", function()
    assert.equal("ett.estimate: missing field 'cluster' (a cluster's name, file or table, see `ett list clusters`); "
      .. "missing field 'model' (a model of ett.model.new, .list or .huggingface); missing field 'plan' (a table)",
      raised(ett.estimate, {}))
    assert.equal("ett.estimate: must be a table of named fields, got nil", raised(ett.estimate))
    assert.equal("ett.sweep: missing field 'over' (a table)", raised(ett.sweep,
      { model = llama(), cluster = "dgx_h100", plan = step }))
    assert.equal("ett.estimate: unknown field 'modle'; did you mean 'model'?", raised(ett.estimate,
      { model = llama(), modle = 1, cluster = "dgx_h100", plan = step }))
    assert.equal("ett.estimate: field 'model' must be a model of ett.model.new, .list or .huggingface, got 'llama'",
      raised(ett.estimate, { model = "llama", cluster = "dgx_h100", plan = step }))
    assert.equal("ett.estimate: field 'tokens' must be a positive number, got NaN",
      raised(ett.estimate, { model = llama(), cluster = "dgx_h100", plan = step, tokens = 0 / 0 }))
    assert.equal("an architecture must be a name (encoder, encoder_decoder, gemma3n, gpt, hybrid, llama, longcat, "
      .. "mixtral) or a function of hyper-parameters, got nil",
      raised(ett.model.new))
    assert.equal("ett.model.huggingface: argument 'path' must be a string, got nil", raised(ett.model.huggingface))
    assert.equal("unknown cluster 'nowhere'; `ett list clusters` names them all", raised(ett.cluster.get, "nowhere"))
    assert.equal("the rule of field 'x' must be a kind such as 'count', or { kind, default = … }, got 5",
      raised(ett.options, { x = 5 }))
    assert.equal("the rule of field 'x': unknown field 'defualt'; did you mean 'default'?",
      raised(ett.options, { x = { "count", defualt = 5 } }))
    assert.equal("rules are named fields, NAME = KIND, got 'tokens' without a name", raised(ett.options, { "tokens" }))
  end)

  it("estimates in int8 with other gradients, and in no precision that the device has not", function()
    local function in_precision(name, dtype, gradient_dtype)
      return raised(ett.estimate, { model = llama(), cluster = name, plan = { seq = 1024, micro_batches = 2,
        dtype = dtype, gradient_dtype = gradient_dtype } })
    end
    assert.equal("plan: field 'dtype' must be one of bf16, fp16, fp32, fp64, fp8, fp8_block, int8, mxfp4, mxfp8, "
      .. "nvfp4, tf32, got 'int4'; did you mean 'int8'?", in_precision("dgx_h100", "int4"))
    -- AQT of MaxText and Paxml; TPU v5p has an int8 rate and none in fp8.
    local function seconds(dtype)
      return ett.estimate({ model = llama(), cluster = "tpu_v5p", plan = { seq = 4096, micro_batches = 2,
        dtype = dtype } }).step_seconds
    end
    assert.is_true(seconds "int8" < seconds "bf16")
    assert.matches("field 'gradient_dtype' must be one of bf16", in_precision("dgx_h100", "bf16", "int8"))
    assert.equal("plan: dtype = 'fp8' needs a rate in the device's peak_flops; NVIDIAA100-SXM4-80GB has only "
      .. "bf16, fp16, fp32, int8, tf32", in_precision("perlmutter", "fp8"))
  end)

  it("sweeps the same fields as single estimates: schedules from files, checked splits", function()
    local given = { model = llama(), cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 4 }, profile = false,
      over = { pp = { 2 }, schedule = { "1f1b", "zb_h1", "gpipe" } } }
    local rows = ett.sweep(given).rows
    assert.equal(3, #rows)
    for _, row in ipairs(rows) do
      local e = ett.estimate { model = llama(), cluster = "dgx_h100", profile = false,
        plan = { seq = 1024, micro_batches = 4, pp = 2, schedule = row.schedule } }
      assert.equal(e.step_seconds, row.step_seconds)
    end
    given.over.schedule[2] = "zbh1"
    assert.equal("sweep: plan: field 'schedule': unknown schedule 'zbh1'; did you mean 'zb_h1'?; known are 1f1b, "
      .. table.concat(require("ett.plan.schedules").names(), ", ", 2), raised(ett.sweep, given))
    given.over = { pp = { 2 }, split = { { 2, 2 }, { 1, "x" } } }
    assert.equal("sweep: plan: field 'split[2]' must be an integer of at least 0, got 'x'", raised(ett.sweep, given))
  end)
end)
