-- The bindings of runtime/trace and runtime/comm with every allocation failing in turn.
local comm = require "ett.comm"
local interval = require "ett.interval"
local maker = require "trace_maker"
local oom = require "oom"
local trace = require "ett.trace"

local function recording()
  local r = maker.new { rank = 0 }
  for i = 1, 8 do
    r:kernel("k" .. i % 3, 100 * i, 40, { launch = { ts = 100 * i - 20, dur = 5 }, args = { bytes = i } })
  end
  return r
end

describe("with failing allocations", function()
  it("ett.trace opens, selects and closes", function()
    maker.with({ recording() }, function(folder)
      oom.every_allocation(function()
        local t, err = trace.open(folder)
        if not t then return nil, err end
        local rows = t:events { class = "kernel" }:sort("ts")
        local calls = rows:match(t:events { class = "runtime" }, "correlation")
        local busy = rows:intervals()
        local measure = busy:measure()
        t:close()
        return #calls + measure
      end)
    end)
  end)

  it("ett.interval combines sets", function()
    oom.every_allocation(function()
      local a, b = interval.new { { 0, 5 }, { 8, 12 } }, interval.new { { 3, 9 } }
      return #(a | b) + #(a & b) + #(a - b) + a:union(b):measure() + #tostring(a)
    end)
  end)

  it("ett.comm estimates", function()
    oom.every_allocation(function()
      return comm.estimate { kind = "all_reduce", bytes = 1e6, nodes = 2, ranks_per_node = 4,
        links = { intra_bandwidth = 200e9, intra_latency = 3e-6, inter_per_gpu = 25e9, inter_per_node = 200e9,
          inter_latency = 10e-6, base_latency = 5e-6 } }
    end)
  end)
end)
