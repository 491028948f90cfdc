--- Whole commands with failing allocations: every nth of a prediction, a trace, a search and a campaign, each in a
--- child process. Each ends in its result or in a memory error, and leaves no block behind. ETT_OOM_STRIDE=1 fails
--- every allocation in turn, ETT_OOM_ALIKE=8 the first eight of each chain of C callers.
local command = require "command"
local folders = require "ett.base.folder"
local maker = require "trace_maker"
local oom = require "oom"

local model = require("ett.model").new("llama", { layers = 2, hidden = 256, heads = 4, vocab = 1000 })

local function each(fn, stride)
  local count, failed = oom.forked(fn, tonumber(os.getenv "ETT_OOM_STRIDE") or stride,
    tonumber(os.getenv "ETT_OOM_ALIKE"))
  assert.equal(0, failed, ("of %d allocations"):format(count))
  assert.is_true(count > stride)
end

describe("with failing allocations", function()
  it("a step is predicted and printed", function()
    each(function()
      return tostring(require("ett.step.estimate").new { model = model, cluster = "dgx_h100",
        plan = { tp = 2, pp = 2, seq = 512, micro_batches = 2 } })
    end, 421)
  end)

  it("a compiled file of ett is loaded", function()
    local path = require("ett.host").root .. "/lua/ett/base/median.lua"
    assert.is_true(oom.every_allocation(function() return loadfile(path) end) > 3)
  end)

  it("a trace is read and its metrics are computed", function()
    local metrics, recording = require "ett.trace.metrics", maker.new { rank = 0 }
    for i = 1, 8 do recording:kernel("k" .. i % 3, 100 * i, 40, { launch = { ts = 100 * i - 20, dur = 5 } }) end
    maker.with({ recording }, function(folder)
      local chosen = metrics.load_all { "device_time", "temporal_breakdown", "comm_comp_overlap" }
      each(function()
        local opened, why = require("ett.trace.view").open(folder, { args = metrics.args(chosen) })
        if not opened then return nil, why end
        local view <close> = opened
        local sum = 0
        for _, metric in ipairs(chosen) do sum = sum + (metrics.compute(metric, view) and 1 or 0) end
        return sum
      end, 47)
    end)
  end)

  it("plans are searched", function()
    each(function()
      return #require("ett.search.search").new({ model = model, cluster = "dgx_h100", devices = 2, share = false,
        plan = { seq = 512, global_batch = 2, zero = 1, recompute = "none", tp = 1, cp = 1 }, keep = 3 }).rows
    end, 4001)
  end)

  it("a campaign is measured", function()
    if not require("ett.base.find").load("samplers", "cpu").available() then pending "no CPU back end" end
    local given = require("ett.sampling.campaign").resolve({ name = "c", backend = "cpu", precision = "fp32", seed = 1,
      budget_seconds = 0.0002, cold_bytes = 1 << 16, visits = 1,
      samples = { { operator = "gelu", shapes = { tokens = 16, width = 16 } } } }, "c")
    given.fingerprint = "0"
    local folder = command.folder()
    each(function()
      folders.remove(folder .. "/out")
      folders.make(folder .. "/out")
      return #require("ett.sampling.sampler").run(given, { out = folder .. "/out" })
    end, 211)
    folders.remove(folder)
  end)
end)
