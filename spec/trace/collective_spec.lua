-- Bytes and group sizes of collectives, by arithmetic. Times in microseconds.
local maker = require "trace_maker"
local near = require "near"

local gather = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
local reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"

local function table_of(recordings, options)
  return maker.computed(recordings, "collective_table", options).collectives
end

--- One all-gather of 632 us whose operator has the dims given.
local function all_gather(dims, range)
  local r = maker.new{ rank = 0, world = 16 }
  r:host("cpu_op", "c10d::_allgather_base_", 10, 50, { args = { ["Input Dims"] = dims,
    ["Input type"] = { "float", "float", "", "Scalar" } } })
  r:host("user_annotation", "nccl:_all_gather_base", 20, 30, { args = range })
  r:kernel(gather, 100, 632, { launch = { ts = 30, dur = 5 } })
  return r
end

describe("group size of a collective", function()
  it("is that of the shapes, not the world's", function()
    local dims = { { 65536, 384 }, { 8192, 384 }, {}, {} }
    for _, range in ipairs{ {}, { ["Input Dims"] = { { 8192, 384 } }, ["Input type"] = { "float" } } } do
      local row = table_of({ all_gather(dims, range) })[1]
      local bytes = 65536 * 384 * 4
      near({ group_size = 8, bytes = bytes, algbw_GBps = bytes / 632e-6 / 1e9 }, row)
    end
  end)

  it("is n/a if the shapes are not lists", function()
    local null = require("ett.json").null
    for _, dims in ipairs { 5, true, "x", "[[]]" } do
      local row = table_of({ all_gather(dims, {}) })[1]
      assert.same({ null, null }, { row.group_size, row.bytes })
    end
  end)

  it("is n/a if the trace does not state it", function()
    local null = require("ett.json").null
    local r = maker.new{ rank = 0, world = 16 }
    r:host("user_annotation", "nccl:all_reduce", 20, 30, { args = { ["Input Dims"] = { { 1000 } },
      ["Input type"] = { "float" } } })
    r:kernel(reduce, 100, 10, { launch = { ts = 30, dur = 5 } })
    local row = table_of({ r })[1]
    near({ group_size = null, busbw_GBps = null, bytes = 4000 }, row)
  end)

  it("is that of the ranks listed, or of distributedInfo's process groups", function()
    local r = maker.new{ rank = 0, world = 16 }
    local function args(name, ranks)
      return { ["Collective name"] = "allreduce", ["In msg nelems"] = 1000, dtype = "Float",
        ["Process Group Name"] = name, ["Process Group Ranks"] = ranks }
    end
    r:kernel(reduce, 100, 10, { args = args("7", "[0, 4, 8]") })
    r:kernel(reduce, 200, 10, { args = args("8", "[0, 1, ..., 9]") })
    r:kernel(reduce, 300, 10, { args = args("9") })
    function r.document(self)
      local out = maker.document(self)
      out.distributedInfo.pg_config = { { pg_name = "8", pg_size = 4 }, { pg_name = "9", pg_size = 0 } }
      return out
    end
    local rows = table_of({ r })
    assert.equal(3, #rows)
    assert.equal(3, rows[2].group_size)
    assert.equal(4, rows[3].group_size)
    assert.equal(require("ett.json").null, rows[1].group_size)
  end)

  it("is the world's where all its ranks ran it together", function()
    local function rank(number, shift)
      local r = maker.new{ rank = number, world = 2 + shift // 1000 }
      for i = 1, 8 do r:kernel(reduce, 1000 * i + i * i + shift * (i % 3), 100 + number) end
      return r
    end
    assert.equal(2, table_of({ rank(0, 0), rank(1, 0) })[1].group_size)
    local four = {}
    for i = 0, 3 do
      four[i + 1] = rank(i, 0)
      four[i + 1].world = 4
    end
    assert.equal(4, table_of(four)[1].group_size)
    local collective = require "ett.trace.collective"
    local view = maker.view(four, { args = collective.args })
    local real, lane = collective.size_groups, view:lanes()[1]
    collective.size_groups = function() error("interrupted", 0) end
    assert.is_false(pcall(lane.collectives, lane))
    collective.size_groups = real
    assert.equal(4, lane:collectives().sorts[1].group_size)
    view:close()
    four[3] = rank(2, 7000) -- rank 2 ran something else
    four[3].world = 4
    assert.equal(require("ett.json").null, table_of(four)[1].group_size)
  end)
end)

it("bandwidth of a collective is given with and without waiting for the last rank", function()
  local function rank(number, starts, groups)
    local r = maker.new{ rank = number, world = 2 }
    for i, start in ipairs(starts) do
      r:all_reduce(groups and groups[i] or "0", start, 1000 * i, { args = { ["In msg nelems"] = 1000000 } })
    end
    return r
  end
  -- Durations 900 and 600, and 100 twice; transfers 100 and 100.
  local recordings = { rank(0, { 100, 1900 }), rank(1, { 900, 1400 }) }
  local GBps = 4e6 / 100e-6 / 1e9
  near({ algbw_GBps = 4 * 4e6 / 1.7e-3 / 1e9, algbw_without_waiting_GBps = GBps, busbw_without_waiting_GBps = GBps,
    transfer_p50_us = 100 }, table_of(recordings)[1])
  local groups = { "0", "1" }
  for _, each in ipairs { recordings, { rank(0, { 100, 1900 }, groups), rank(1, { 900, 1400 }, groups) } } do
    assert.near(40, maker.computed(each, "avg_comm_bandwidth_GBps").without_waiting_GBps, 1e-9)
  end
  local mean = maker.computed(recordings, "avg_comm_bandwidth_GBps")
  assert.is_true(mean.avg_comm_bandwidth_GBps < 11)
  local alone = table_of({ recordings[1] })[1]
  assert.equal(require("ett.json").null, alone.algbw_without_waiting_GBps)
end)

describe("point-to-point", function()
  local kernel = "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"

  --- A pipeline of 3 stages: stage r sends to r + 1 and receives from r - 1, eight times; with args or ranges.
  --- "peer": only the rank on the other side, as PyTorch writes it.
  local function stages(how)
    local out = {}
    for rank = 0, 2 do
      local r = maker.new{ rank = rank, world = 3 }
      local function message(source, destination, start, stop)
        local sending = source == rank
        local args = { ["Collective name"] = sending and "send" or "recv", ["In msg nelems"] = 1000, dtype = "Float",
          ["Group size"] = 3, ["Process Group Name"] = "pp" }
        if how == "args" then
          args["Src Rank"], args["Dst Rank"] = source, destination
        elseif how == "peer" then
          if sending then args["Dst Rank"] = destination else args["Src Rank"] = source end
        elseif how == "ranges" then
          r:host("user_annotation", sending and ("nccl:send %d->%d"):format(source, destination)
            or ("nccl:recv %d<-%d"):format(destination, source), start - 500, 50)
        end
        r:kernel(kernel, start, stop - start, { stream = 20 + source, args = how ~= "ranges" and args or nil,
          launch = { ts = start - 490, dur = 5 } })
      end
      local at = 0
      for i = 1, 8 do
        at = at + 2000 + i * i * 10
        if rank < 2 then message(rank, rank + 1, at + 700 * rank + 600, at + 700 * rank + 650) end
        if rank > 0 then message(rank - 1, rank, at + 700 * (rank - 1) + 630, at + 700 * (rank - 1) + 651) end
      end
      out[rank + 1] = r
    end
    return out
  end

  it("is paired by source and destination", function()
    for _, how in ipairs{ "args", "ranges", "peer" } do
      local lag = maker.computed(stages(how), "straggler_lag")
      near({ groups = 2, num_collectives = 16, max_lag_us = 30, sum_transfer_us = 16 * 20, negative_transfer = 0 }, lag)
    end
  end)

  it("is not matched if the trace does not name the peers, without a warning on clocks", function()
    assert.matches("does not name source and destination", maker.reason(stages("none"), "straggler_lag"))
  end)
end)

it("collectives of many sizes are counted and charged without a sort for each size", function()
  local ranks = {}
  for rank = 0, 1 do
    ranks[rank + 1] = maker.new{ rank = rank, world = 2 }
    for i = 1, 60 do
      local gathers = i % 3 == 0
      ranks[rank + 1]:kernel(gathers and gather or reduce, 1000 * i - 7 * rank, 50 + 7 * rank + i % 5, { args = {
        ["Collective name"] = gathers and "allgather" or "allreduce", ["In msg nelems"] = 8 * i,
        ["Out msg nelems"] = 16 * i, dtype = "Float", ["Group size"] = 2, ["Process Group Name"] = "0" } })
    end
  end
  local exposed, metrics = require "ett.trace.exposed", require "ett.trace.metrics"
  local args = require("ett.trace.collective").args
  local view <close> = maker.view(ranks, { args = args })
  local lane = view:lanes()[1]
  local quick = exposed.causes(view)
  local calls = assert(metrics.compute(metrics.load "coll_call_num", view))
  assert.same({ all_gather = 40, all_reduce = 80 }, calls.calls_by_type)
  assert.is_nil(lane.cache.collectives)
  assert.equal(2, #lane:kinds().sorts)
  local whole = exposed.causes(view, true)
  assert.equal(60, #lane:collectives().sorts)
  assert.equal(16 * 60 * 4, lane:collectives().sorts[60].bytes)
  for _, name in ipairs{ "headline", "whole", "wait", "transfer", "ranks", "waiting" } do
    assert.same(whole[name], quick[name])
  end
  assert.is_true(quick.wait > 0 and quick.transfer > 0)
  -- The page has those that took the longest.
  local html, totals = require "ett.trace.html", {}
  local most <const> = html.most_collectives
  html.most_collectives = 10
  finally(function() html.most_collectives = most end)
  local rows = assert(metrics.compute(metrics.load "collective_table", view)).collectives
  for i, row in ipairs(rows) do totals[i] = row.total_ms end
  table.sort(totals, function(a, b) return a > b end)
  local shown = html.page(view).data.collective_table.collectives
  assert.same({ 60, 10 }, { #rows, #shown })
  for i, row in ipairs(shown) do assert.equal(totals[i], row.total_ms) end
end)

it("collectives of many shapes on the host have one kind, and one sort per size", function()
  local r = maker.new{ rank = 0, world = 4 }
  for i = 1, 30 do
    r:host("user_annotation", "nccl:all_reduce", 1000 * i, 30, { args = { ["Input Dims"] = { { 10 * i, 2 } },
      ["Input type"] = { "c10::Half" } } })
    r:kernel(reduce, 1000 * i + 100, 10, { launch = { ts = 1000 * i + 5, dur = 5 } })
  end
  local args = require("ett.trace.collective").args
  local view <close> = maker.view({ r }, { args = args })
  local lane = view:lanes()[1]
  assert.equal(1, #lane:kinds().sorts)
  local all = lane:collectives()
  assert.equal(30, #all.sorts)
  for i, each in ipairs(all) do assert.same({ "all_reduce", 2 * 10 * i * 2 }, { each.kind, each.bytes }) end
end)

it("collectives of a lane are columns and a list", function()
  local r = maker.new{ rank = 0, world = 2 }
  for i = 1, 3 do
    r:kernel(i == 2 and gather or reduce, 100 * i, 10 + i, { args = { ["Collective name"] = i == 2 and
      "allgather" or "allreduce", ["In msg nelems"] = 1000 * i, dtype = "Float", ["Group size"] = 2 } })
  end
  local view = maker.view({ r }, { args = require("ett.trace.collective").args })
  local lane, seen = view:lanes()[1], {}
  local all, dimensions = lane:collectives(), lane:dimensions()
  for i, each in ipairs(all) do
    seen[i] = ("%s %d %g %g"):format(each.kind, each.bytes, view:us(each.ts), view:us(each.dur))
    assert.equal(each.ts + each.dur, each.stop)
    assert.equal(each.kind, dimensions[i].each.kind)
  end
  assert.same({ "all_reduce 4000 0 11", "all_gather 16000 100 12", "all_reduce 12000 200 13" }, seen)
  assert.equal(3, #all)
  assert.is_nil(all[0])
  assert.is_nil(all[4])
  assert.is_nil(all.no_such_field)
end)
