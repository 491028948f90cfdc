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
      return #(a | b) + #(a & b) + #(a - b) + (a | b):measure() + #tostring(a)
    end)
  end)

  it("ett.comm reads curves", function()
    oom.every_allocation(function() return comm.curve_at({ 1e6, 20e9, 1e8, 180e9 }, 1e7) end)
  end)

  it("ett.step places ranks, aligned or not", function()
    local core = require "ett.step"
    local p = { pp = 2, tp = 3, cp = 1, ep = 1, etp = 3, dp = 4, gpus_per_node = 4,
      tiers = { 4, 1, 12, 1, math.maxinteger, 1 } }
    p.rank_order = require("ett.plan.ranks").code "tp-cp-ep-dp-pp"
    oom.every_allocation(function()
      p.rank_map = core.map { 3, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 }
      local mapped = core.place(p, "data").tiers[2].members
      p.rank_map = nil
      return mapped + core.place(p, "tp").tiers[2].groups + core.place(p, "pp").tiers[1].units
    end)
  end)
end)
