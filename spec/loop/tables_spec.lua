-- Sample tables from traces: one row a shape, read back by a profile; few rows scale the device's own model.
local maker = require "trace_maker"
local merged = require "ett.base.merged"
local scale = require "ett.profile.scale"
local tables = require "ett.loop.tables"
local trace_gpt = require "trace_gpt"

local size = { hidden = 512, heads = 8, layers = 3, seq = 128, batch = 4, vocab = 8192 }

local function gpt(more)
  local options = merged(size, more or {})
  return trace_gpt.new(options)
end

local function rows_of(text)
  local rows = {}
  for line in text:gmatch "[^\n]+" do if line:match "^%d" then rows[#rows + 1] = line end end
  return rows
end

local function gathered(recordings, options)
  local into, by_name = tables.new(), {}
  maker.with(recordings, function(folder)
    tables.gather(into, folder, merged({ device = "NVIDIAH100" }, options or {}))
  end)
  for _, each in ipairs(tables.list(into)) do by_name[each.name] = each.text end
  return by_name
end

local eight = { cluster = { gpus_per_node = 8 } }

describe("ett.loop.tables", function()
  it("writes one row a shape with the middle of each pass", function()
    local model = gpt { times = function(name, pass, layer)
      return (name == "linear_up" and 40 + layer or 10) * (pass == "backward" and 2 or 1)
    end }
    local found = gathered({ model:recording { rank = 0 } })
    assert.same({ "512,1536,512,10,20", "512,2048,512,42,84", "512,512,512,10,20", "512,8192,512,10,20",
      "2048,512,512,10,20" }, (function(list)
        table.sort(list, function(a, b) return #a < #b or #a == #b and a < b end)
        table.sort(list)
        return { list[2], list[3], list[4], list[5], list[1] }
      end)(rows_of(found["NVIDIAH100_linear_up_bf16.csv"])))
    assert.equal(1, #rows_of(found["NVIDIAH100_layer_norm_bf16.csv"]))
  end)

  it("keeps forward-only shapes apart, and joins traces", function()
    local training, serving = gpt(), gpt { hidden = 1024, forward_only = true }
    maker.with({ training:recording { rank = 0 } }, function(first)
      maker.with({ serving:recording { rank = 0 } }, function(second)
        local into = tables.new()
        tables.gather(into, first, { device = "X" })
        tables.gather(into, second, { device = "X" })
        local names = {}
        for _, each in ipairs(tables.list(into)) do names[each.name] = each.text end
        assert.matches("F_dur%(us%),B_dur", names["X_linear_up_bf16.csv"])
        assert.matches("F_dur%(us%)\n", names["operator/X_linear_up_bf16.csv"])
        assert.has_error(function() tables.gather(into, first, { device = "Y" }) end)
      end)
    end)
  end)

  it("puts a loss over fp32 logits into the table of the products' type, and names tables that such plans do not use",
    function()
      local model = gpt { type_of = function(name)
        return (name == "cross_entropy" or name == "layer_norm") and "float" or nil
      end }
      maker.with({ model:recording { rank = 0 } }, function(folder)
        local into, other = tables.new(), {}
        tables.gather(into, folder, { device = "NVIDIAH100" })
        for _, each in ipairs(tables.list(into)) do
          other[each.name:match "^NVIDIAH100_([%w_]+)"] = each.other or "used"
        end
        assert.equal("used", other.cross_entropy_bf16)
        assert.is_nil(other.cross_entropy_fp32)
        assert.equal("fp32", other.layer_norm_fp32)
        assert.equal("used", other.linear_up_bf16)
      end)
    end)

  it("writes collectives without the wait for the late rank", function()
    local model = gpt { tp = 2 }
    local starts = {}
    local function transfer(late) -- both ranks see the transfer end 30 us after the later of them
      return function(i, at)
        starts[i] = math.max(starts[i] or 0, at + late)
        return starts[i] + 30
      end
    end
    -- Rank 1 is recorded first: rank 0 waits for it.
    local second = model:recording { rank = 1, world = 2, late = function(name) return name == "all_reduce"
      and 200 or 0 end,
      transfer = transfer(0) }
    local first = model:recording { rank = 0, world = 2, transfer = function(i, at)
      assert(at <= starts[i])
      return starts[i] + 30
    end }
    local text = assert(gathered({ first, second }, eight)["NVIDIAH100_all_reduce_bf16_1_2.csv"])
    assert.same({ ("%d,30"):format(size.hidden * size.seq * size.batch) }, rows_of(text))
  end)

  it("writes the collectives of a trace without shapes; without collectives the trace is refused", function()
    local recordings = gpt({ tp = 2 }):recordings()
    for _, r in ipairs(recordings) do
      for _, event in ipairs(r.events) do event.args["Input Dims"] = nil end
    end
    assert.same({ "NVIDIAH100_all_reduce_bf16_1_2.csv" }, require("ett.base.schema").keys(gathered(recordings, eight)))
    assert.has_error(function() gathered { recordings[1] } end,
      "needs operators with shapes on the host; record with record_shapes=True, and a PyTorch with Kineto")
  end)

  it("gives recorded shapes their time, and scales the device's tables for others", function()
    local model = gpt { times = function(_, pass) return pass == "backward" and 50 or 25 end }
    local found = gathered({ model:recording { rank = 0 } })
    local folder = maker.folder()
    for name, text in pairs(found) do
      require("ett.base.folder").write(folder .. "/" .. name:gsub("/", "_"), text)
    end
    local subject = require "ett.loop.subject"
    local cluster = subject.with_samples(require("ett.profile.cluster").get "dgx_h100", folder)
    local profile = require("ett.profile.of_cluster").open(cluster)
    local shape = { tokens = 512, in_features = 512, out_features = 2048 }
    local exact = profile:operator("linear_up", shape, "bf16", "forward")
    assert.near(25e-6, exact.seconds, 2.5e-7)
    assert.equal("measured", exact.provenance)
    assert.near(50e-6, profile:operator("linear_up", shape, "bf16", "backward").seconds, 5e-7)
    local other = profile:operator("linear_up", { tokens = 4096, in_features = 4096, out_features = 4096 }, "bf16",
      "forward")
    assert.equal("calibrated", other.provenance)
    -- Times that were not recorded come from the tables of the device.
    local plain = require("ett.profile.of_cluster").open(require("ett.profile.cluster").get "dgx_h100")
    local missing = { tokens = 512, width = 2048 }
    assert.equal(plain:operator("swiglu", missing, "bf16", "forward").seconds,
      profile:operator("swiglu", missing, "bf16", "forward").seconds)
    maker.remove(folder)
  end)
end)

describe("ett.profile.scale", function()
  it("is the sample at its own shape, and the mean of equal distances between", function()
    local points = { { dims = { 1, 1 }, factor = 2 }, { dims = { 4, 1 }, factor = 8 } }
    local base = { seconds = 1 }
    assert.near(2, scale.answer(points, { 1, 1 }, base).seconds, 1e-3)
    assert.near(8, scale.answer(points, { 4, 1 }, base).seconds, 1e-3)
    assert.near(4, scale.answer(points, { 2, 1 }, base).seconds, 1e-6)
    assert.near(2.06, scale.answer(points, { 1, 1 }, base).high_seconds, 1e-3)
    assert.same({ 0.75, 3.0 }, (function()
      local errors = scale.errors(points)
      for i, e in ipairs(errors) do errors[i] = math.floor(e * 1e6 + 0.5) / 1e6 end
      return errors
    end)())
  end)

  it("is no surer of a shape sampled once than its caller, nor of collectives than between their sizes", function()
    local points = { { dims = { 1 }, factor = 2 }, { dims = { 4 }, factor = 2.4 }, { dims = { 16 }, factor = 2 } }
    local errors, at = scale.errors(points), scale.noise(points)
    assert.same({ errors[3], 3 }, { at, #errors }) -- twice the median is more than the largest
    local answer = scale.answer(points, { 4 }, { seconds = 1, name = "the time of the links" }, at)
    local between = scale.answer(points, { 8 }, { seconds = 1 }, at)
    assert.near(2.4 * (1 + at), answer.high_seconds, 1e-2)
    assert.is_true(between.high_seconds / between.seconds >= answer.high_seconds / answer.seconds - 1e-9)
    assert.equal("3 samples on the time of the links, 2.40 times it", answer.detail)
    points[2].rows, points[2].spread = 2, 0.05
    assert.near(2.4 * 1.05, scale.answer(points, { 4 }, { seconds = 1 }, at).high_seconds, 1e-2)
    assert.equal(scale.assumed_spread, scale.noise { points[1] })
    for i = 4, 9 do points[i] = { dims = { 4 ^ i }, factor = 2 * 1.01 ^ (i % 3) } end
    errors = scale.errors(points)
    assert.near(2 * errors[5], scale.noise(points), 1e-12)
    assert.is_true(2 * errors[5] < errors[9])
  end)

  it("covers repeats of a shape that disagree", function()
    local points = scale.joined({ { dims = { 1, 1 }, factor = 2 }, { dims = { 4, 1 }, factor = 8 },
      { dims = { 1, 1 }, factor = 4 } }, "factor")
    assert.same({ { dims = { 1, 1 }, factor = 3, rows = 2, spread = 0.5 },
      { dims = { 4, 1 }, factor = 8, rows = 1, spread = 0 } }, points)
    local answer = scale.answer(points, { 1, 1 }, { seconds = 1 })
    assert.equal("measured", answer.provenance)
    assert.near(3, answer.seconds, 1e-3)
    assert.is_true(answer.low_seconds <= 2.001 and answer.high_seconds >= 4, answer.high_seconds)
    assert.matches("^3 samples", answer.detail)
    points = { points[1] }
    answer = scale.answer(points, { 2, 1 }, { seconds = 1 })
    assert.equal("calibrated", answer.provenance)
    assert.near(4.5, answer.high_seconds, 1e-3)
  end)
end)
