--- `ett validate`: the choice of the measured time, and the composition of a prediction.
local exactly = require "exactly"
if not require("needs").cpu("ett validate", _ENV) then return end
local near = require "near"
local validate = require "ett.validate"
local view_module = require "ett.validate.view"
local wires = require "ett.validate.wires"

--- A profile that knows one time for everything.
local function constant(seconds)
  return { operator = function()
    return exactly(seconds)
  end }
end

local host = { operator_seconds = 1e-6, call_seconds = 5e-7,
  token_seconds = { embedding = 1e-7, cross_entropy = 2e-7 } }

--- Samples of a collective that costs 10 us and 1 ns a byte, and a hundredth of the stretch before it.
local function rows(group, kind)
  local list = {}
  for i = 0, 6 do
    for k = 0, 4 do
      local elements, stretch = 64 * 4 ^ i // 1 | 0, 40e-6 * 2.5 ^ k
      list[#list + 1] = { group = group, kind = kind, elements = elements, stretch = stretch,
        seconds = 10e-6 + 4e-9 * elements + 0.01 * stretch }
    end
  end
  return list
end

describe("ett validate", function()
  local retained = { { bytes = 1e6, farness = 0.0 }, { bytes = 4e6, farness = 0.5 }, { bytes = 1.6e7, farness = 1.0 } }

  it("finds operands between the near and the far samples, by their reuse distance", function()
    local view = view_module.new(constant(1e-3), constant(4e-3), { host = host, tp = 1, retention = retained })
    local call = host.call_seconds
    local function seconds(configuration, name, pass)
      view:expect(validate.case(configuration))
      return view:alone(name, {}, "fp32", pass).seconds - call
    end
    local tiny, large = { 1, 16, 1, 32, 1, 1, 16 }, { 4, 512, 8, 2048, 2, 1, 256 }
    assert.is_true(math.abs(seconds(tiny, "gelu", "backward") - 1e-3) < 1e-12)
    local update = seconds(large, "optimizer", "update")
    assert.is_true(update > 3.9e-3 and update < 4e-3) -- the last gradients were written a moment ago
    -- Of a gelu's operands one was written a moment ago, the other is as old as the step.
    local function of_gelu() -- farness as the reuse distances say: gone through 4 (n2, up.w, u), and all of a step
      local tokens, hidden = 512, 512
      local fresh = 4 * (tokens * hidden + 4 * hidden * hidden + 4 * tokens * hidden)
      return 0.5 * (require("ett.validate.caches").farness(retained, fresh) + 1.0)
    end
    assert.is_true(math.abs(seconds(large, "gelu", "forward") / (1e-3 * 4 ^ of_gelu()) - 1) < 1e-9)
  end)

  it("counts every rank of a processor, and what the host does", function()
    local view = view_module.new(constant(1e-3), constant(1e-3), { host = host, tp = 2, share = 3 })
    local run = 1e-3 + 1e-6 + 5e-7 -- kernel, recording, call
    near(3 * run, view:operator("gelu", { tokens = 10 }, "fp32", "forward").seconds)
    near(3 * (run + 1e-6), view:operator("embedding", { tokens = 10 }, "fp32", "forward").seconds)
    near(3 * (run + 2e-6), view:operator("cross_entropy", { tokens = 10 }, "fp32", "forward").seconds)
    near(3 * run, view:operator("cross_entropy", { tokens = 10 }, "fp32", "backward").seconds)
    view.tp = 1 -- a whole vocabulary is not put together
    near(3 * run, view:operator("cross_entropy", { tokens = 10 }, "fp32", "forward").seconds)
  end)

  it("looks up a collective by its bytes and by the computation before it", function()
    local view = view_module.new(constant(1e-3), constant(1e-3), { host = host, tp = 2,
      rows = rows("tp", "all_reduce") })
    local within = { nodes = 1, gpus_per_node = 2 }
    for _, stretch in ipairs { 60e-6, 500e-6 } do
      view.stretch = { tp = stretch }
      local expected = 10e-6 + 1e-9 * 20000 + 0.01 * stretch
      local seconds = view:collective("all_reduce", 20000, within).seconds
      assert.is_true(math.abs(seconds / expected - 1) < 0.1, ("%g for %g"):format(seconds, expected))
    end
    assert.is_nil(view:collective("all_reduce", 20000, { nodes = 2, gpus_per_node = 1 })) -- data ranks: not sampled
    for _, held in ipairs(view:held_out()) do assert.is_true(held.median < 0.2, held.name) end
  end)

  it("predicts a step as the sum of its parts", function()
    local folder = require("command").folder()
    local function predict(layout, share)
      local free = { operator_seconds = 0.0, call_seconds = 0.0, token_seconds = { cross_entropy = 0.0 } }
      local view = view_module.new(constant(1e-3), constant(1e-3), { host = free, tp = layout[2], share = share,
        retention = retained,
        rows = rows("tp", "all_reduce") })
      local case = validate.case({ 2, 64, 4, 512, 4, 1, 64 }, layout)
      return validate.predict(case, view, validate.cluster(folder, layout)).step_seconds
    end
    -- 2 layers of 11 operators, embedding, norm, head, loss; forward and backward; the optimizer. The
    -- gradients are added by the products: no kernel of its own is predicted for that.
    assert.is_true(math.abs(predict({ 1, 1, 1 }, 1) - (2 * (2 * 11 + 4) + 1) * 1e-3) < 1e-9)
    -- Two ranks that share a processor take twice as long, and their collectives on top.
    local shared = predict({ 1, 2, 1 }, 2)
    require("command").remove(folder)
    -- 10 sums of the stream behind more computing than was sampled: the longest sampled. 3 for the loss behind nothing
    -- but the host's work on the tokens, here none: the shortest.
    local shortest, longest = 40e-6, 40e-6 * 2.5 ^ 4
    local expected = 2 * 53e-3 + 10 * (10e-6 + 1e-9 * 65536 + 0.01 * longest)
      + 3 * (10e-6 + 1e-9 * 1024 + 0.01 * shortest)
    assert.is_true(math.abs(shared / expected - 1) < 0.01, ("%g for %g"):format(shared, expected))
  end)

  it("names the changes that a layout makes to a configuration", function()
    local odd = { 3, 320, 5, 1280, 1, 2, 96 }
    assert.equal("4 heads instead of 5", validate.changes(odd, validate.case(odd, { 1, 2, 1 })))
    assert.equal("2 layers instead of 3, 4 micro-batches instead of 2",
      validate.changes(odd, validate.case(odd, { 1, 1, 2 })))
    assert.is_nil(validate.changes(odd, validate.case(odd, { 1, 1, 1 })))
  end)

  it("writes what the ranks sampled", function()
    local path = os.tmpname()
    local list = rows("dp", "all_reduce")
    for i, row in ipairs(list) do row.foreign, row.quiet, row.visits = 0.01, i % 9, 8 + i % 3 end
    wires.write(path, list, { dp = 2, tp = 1, pp = 1 }, host, 2)
    local ok, full = pcall(wires.write, "/dev/full", list, { dp = 2, tp = 1, pp = 1 }, host, 2)
    assert.same({ false, true }, { ok, tostring(full):find("no space left", 1, true) ~= nil })
    local lines = {}
    for line in io.lines(path) do lines[#lines + 1] = line end
    os.remove(path)
    assert.equal("# layout: dp 2 tp 1 pp 1", lines[2])
    assert.equal("# host(us): 1.0000 an operator, 0.5000 its call, 0.10000 a token, 0.20000 a token of a split "
      .. "vocabulary", lines[4])
    assert.equal("group,collective,shape,stretch(us),dur(us),foreign,quiet,visits", lines[5])
    assert.equal(5 + #list, #lines)
    local seventh = list[7]
    assert.equal(("dp,all_reduce,%d,%.3f,%.3f,0.0100,7,9"):format(seventh.elements, seventh.stretch * 1e6,
      seventh.seconds * 1e6), lines[12])
    local few = 0
    for _, row in ipairs(list) do few = few + (row.quiet < 3 and 1 or 0) end
    assert.is_true(few > 0)
    assert.equal(few, wires.disturbed(list))
  end)

  it("samples operators a turn at a time", function()
    local campaign = require "ett.sampling.campaign"
    local folder = require("ett.base.folder").temporary()
    local path = require("ett.validate.campaign").write(folder .. "/few.lua", "cpu", 0.01, 4 << 20)
    local turns, least = 0, -1.0
    require("ett.sampling.sampler").run(campaign.load(path), { out = folder, check = false, on_turn = function(progress)
      turns = turns + 1
      assert(progress >= least)
      least = progress
    end })
    require("ett.base.folder").remove(folder)
    assert.is_true(turns >= 120, tostring(turns)) -- of 9 * 8 shapes; most are visited twice
    assert.is_true(least > 0.9)
  end)

  it("samples enough shapes of every operator for a model, at every scale", function()
    local campaigns, least = require "ett.validate.campaign", require("ett.profile.fit").least_shapes
    for _, scale in ipairs { 0.001, 0.2, 1 } do
      for _, given in ipairs { campaigns.cpu(scale, 4 << 20), campaigns.cuda(validate.sizes.cuda, scale, "bf16") } do
        for _, entry in ipairs(given.samples) do
          assert(entry.count >= least, ("%s has %d shapes at scale %g"):format(entry.operator, entry.count, scale))
        end
      end
    end
    assert.equal(least, campaigns.scaled(0.001)(24)) -- sizes of PyTorch: norms have one row a size
  end)

  it("names the operators that it predicts without samples", function()
    local lacking = constant(1e-3)
    local all = lacking.operator
    function lacking.operator(self, name) return name ~= "gelu" and all(self) or nil end
    local view = require("ett.validate.cuda").view(lacking, { alone_seconds = 0.0, chained_seconds = 0.0,
      launch_seconds = 0.0 }, "fp32")
    package.loaded["ett.validate.stand_in"] = { open = function()
      return { close = function() end, view = function() return view, { collectives = {} } end,
        trainer = function()
          return function() return { step_seconds = 1.0, first_loss = 2.0, last_loss = 1.0, records = {} } end
        end }
    end }
    local folder = require("ett.base.folder").temporary()
    local given = { backend = "stand_in", out = folder, layouts = { "1x1" }, on_row = function() end,
      sizes = { { 2, 64, 4, 512, 4, 1, 64 }, { 4, 64, 4, 512, 4, 1, 64 } } }
    local found = validate.run(given).groups[1]
    assert.same({ "no samples of gelu: assumed from the device's rates" }, found.warnings)
    lacking.operator = all
    assert.same({}, validate.run(given).groups[1].warnings)
    require("ett.base.folder").remove(folder)
    package.loaded["ett.validate.stand_in"] = nil
    local command, run, write, lines = require "ett.cli.commands.validate", validate.run, print, {}
    validate.run = function() return { groups = { found } } end
    rawset(_G, "print", function(text) lines[#lines + 1] = text end)
    local ok, raised = pcall(command.run, { backend = "cpu", layouts = { "1x1" }, configurations = 2, out = "unused" },
      {})
    rawset(_G, "print", write)
    validate.run = run
    assert(ok, tostring(raised))
    assert.equal("# 1x1: " .. found.warnings[1], lines[1])
  end)

  it("samples a GPU over the range of its configurations, with the same limits", function()
    local campaigns, model = require "ett.validate.campaign", require "ett.validate.model"
    for _, precision in ipairs { "bf16", "fp32" } do
      local entries = {}
      for _, entry in ipairs(campaigns.cuda(validate.sizes.cuda, 1, precision).samples) do
        entries[entry.operator] = entry
      end
      for i, configuration in ipairs(validate.sizes.cuda) do
        local case = validate.case(configuration)
        assert.is_nil(validate.changes(configuration, case))
        local z = model.sizes(case.hyper, case.plan)
        for name, shape in pairs(model.shapes(z, case.plan)) do
          local entry = assert(entries[name] or entries.linear_qkv, name)
          for dimension, axis in pairs(entry.shapes) do
            local value, inside = shape[dimension], axis == 1 -- 1: follows from others
            if type(axis) == "table" and axis.from then
              inside = axis.from <= value and value <= axis.to
            elseif type(axis) == "table" then
              for _, listed in ipairs(axis) do inside = inside or listed == value end
            end
            assert(inside, ("configuration %d: %s %s = %d is not sampled"):format(i, name, dimension, value))
          end
          assert(not entry.where or entry.where(shape), ("configuration %d: %s is too large"):format(i, name))
        end
      end
    end
  end)

  it("samples all allowed shapes if a few configurations allow fewer than a thorough campaign has", function()
    local sizes = table.move(validate.sizes.cuda, 1, 3, 1, {})
    local given = require("ett.validate.campaign").cuda(sizes, 5, "bf16")
    local rope
    for _, sample in ipairs(given.samples) do rope = sample.operator == "rope" and sample or rope end
    local allowed = 0
    for _, heads in ipairs { 8, 12, 16 } do
      for _, dim in ipairs { 64, 128 } do
        for seq = 816, 1280, 16 do
          if 4 * seq * heads * dim <= 1.25 * 4096 * 1024 then allowed = allowed + 1 end
        end
      end
    end
    assert.equal(allowed, rope.count)
    local shapes = require("ett.sampling.space").of({ "batch", "seq", "heads", "kv_heads", "head_dim", "rotary_dim" },
      rope, 1)
    assert.equal(allowed, shapes.total)
  end)

  it("adds to a step of a GPU what a sample has beyond its launch, and the step's own launch", function()
    local costs = { alone_seconds = 7e-6, chained_seconds = 2e-6, marked_seconds = 3e-6, launch_seconds = 9e-6 }
    local view = require("ett.validate.cuda").view(constant(25e-6), costs, "bf16")
    near(20e-6, view:operator("gelu", {}, "bf16", "forward").seconds)
    near(9e-6, view.launch_seconds)
    -- No operator is shorter than the shortest kernel.
    near(2e-6, require("ett.validate.cuda").view(constant(4e-6), costs, "bf16"):operator("gelu", {}, "bf16",
      "forward").seconds)
    local folder = require("command").folder()
    local case = validate.case { 2, 64, 4, 512, 4, 2, 64 }
    local step = validate.predict(case, view, validate.cluster(folder)).step_seconds
    require("command").remove(folder)
    -- Two micro-batches of 2 layers of 11 operators, embedding, norm, head and loss, forward and backward, and of the
    -- adding of four layers' gradients; the optimizer.
    near((2 * (2 * (2 * 11 + 4) + 4) + 1) * 20e-6, step)
  end)

  it("says after disturbed steps that the samples may be too slow, and names the longer campaign", function()
    local command, run, write, lines = require "ett.cli.commands.validate", validate.run, print, {}
    local function said(scale)
      validate.run = function(options)
        assert.equal(scale, options.scale)
        local rows_of_group = { { disturbed = true } }
        return { groups = { { layout = "1x1", rows = rows_of_group, collectives = {}, warnings = {},
          median_error = 0.1 } } }
      end
      rawset(_G, "print", function(text) lines[#lines + 1] = text end)
      local ok, raised = pcall(command.run, { backend = "cpu", layouts = { "1x1" }, configurations = 1, out = "unused",
        scale = scale }, {})
      rawset(_G, "print", write)
      validate.run = run
      assert(ok, tostring(raised))
      return table.remove(lines, 1)
    end
    local text = "the samples may be too slow. Run it again on an idle machine"
    assert.matches(text .. ", or with `--scale 1`", said(0.2), 1, true)
    lines = {}
    assert.equal(text, said(1):sub(-#text))
  end)

  it("is judged by its benchmark only where most configurations were undisturbed", function()
    local bench, run, passes = dofile(require("ett.host").root .. "/spec/bench/validate.lua"), validate.run, {}
    finally(function() validate.run = run end)
    for disturbed = 1, 2 do
      function validate.run(options)
        options.on_group { layout = "1x1", ranks = 1, median_error = 0.06,
          rows = { { disturbed = true }, { disturbed = disturbed > 1 }, {} } }
      end
      bench.run({ quiet = true }, function(row) passes[disturbed] = { row.value, row.target, row.pass } end)
    end
    assert.same({ { "6.0", "<= 5", false }, { "6.0", "<= 5, idle" } }, passes)
  end)
end)
