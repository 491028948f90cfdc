-- Damaged numbers give n/a and a warning, never a value. Times in microseconds.
local json = require "ett.json"
local maker = require "trace_maker"
local metrics = require "ett.trace.metrics"

local nccl = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)"

local function recording(args)
  local r = maker.new{ rank = 0, world = 8 }
  for i = 1, 3 do
    local all = { ["Collective name"] = "_allgather_base", dtype = "Float", ["Group size"] = 4,
      ["In msg nelems"] = 1000 * i, ["Out msg nelems"] = 4000 * i, ["Process Group Name"] = "0" }
    if i == 2 then
      for key, value in pairs(args) do all[key] = value end
    end
    r:kernel(nccl, 1000 * i, 100, { args = all })
  end
  return r
end

it("damaged numbers of one collective make no metric fail, and no size below 1 is reported", function()
  for _, args in ipairs{ { ["Group size"] = 0 }, { ["Group size"] = -4 }, { ["Group size"] = 1e300 },
    { ["Group size"] = 2.5 }, { ["In msg nelems"] = -1000, ["Out msg nelems"] = -4000 },
    { ["In msg nelems"] = 1e300, ["Out msg nelems"] = 1e308 } } do
    maker.with({ recording(args) }, function(folder)
      local view <close> = assert(require("ett.trace.view").open(folder,
        { args = metrics.args(metrics.load_all(metrics.names())) }))
      for _, metric in ipairs(metrics.load_all(metrics.names())) do
        local result, reason = metrics.compute(metric, view)
        assert.is_true(result ~= nil or type(reason) == "string")
        if result then assert.is_string(json.encode(result)) end
      end
      for _, row in ipairs(metrics.compute(metrics.load("collective_table"), view).collectives) do
        assert.is_true(row.bytes == json.null or row.bytes == 16000 or row.bytes == 32000 or row.bytes == 48000)
        assert.is_true(row.group_size == json.null or row.group_size == 4)
      end
    end)
  end
end)

describe("damaged times", function()
  it("are excluded and counted", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:kernel("gemm", 100, 50):kernel("gemm", 200, 1.8e13):kernel("gemm", 300, 50):kernel("gemm", 400, 50)
    r.events[3].ts = json.null
    r.events[4].ts = nil
    local view <close> = maker.view({ r })
    assert.equal(50, metrics.compute(metrics.load("device_time"), view).ranks["0"].busy_us)
    local counts = {}
    for _, warning in ipairs(view.trace.warnings) do counts[warning.code] = warning.count end
    assert.same({ long_dur = 1, no_ts = 2 }, counts)
  end)

  it("of complete events without a duration count as 0 and are named", function()
    local r = maker.new{ rank = 0, world = 1 }
    for i = 1, 5 do r:kernel("gemm", 100 * i, 50) end
    r.events[2].dur = nil
    r.events[3].dur = json.null
    r:add{ ph = "i", cat = "cpu_instant_event", name = "[memory]", pid = 100, tid = 1, ts = 500 } -- has none
    local view <close> = maker.view({ r })
    local found = metrics.compute(metrics.load("device_time"), view).ranks["0"]
    assert.same({ 150, 450, 5 }, { found.busy_us, found.gpu_span_us, found.kernels })
    local counts = {}
    for _, warning in ipairs(view.trace.warnings) do counts[warning.code] = warning.count end
    assert.same({ no_dur = 2 }, counts)
  end)
end)
