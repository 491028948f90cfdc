-- The Hockney fit on traces whose alpha and beta are known.
local maker = require "trace_maker"

local function args(bytes, ranks)
  return { ["Collective name"] = "allreduce", ["In msg nelems"] = bytes // 4, ["Out msg nelems"] = bytes // 4,
    dtype = "Float", ["Group size"] = ranks, ["Process Group Name"] = "0", ["Process Group Ranks"] = "all" }
end

local nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"

--- Four ranks; each collective of S bytes takes 6 alpha + 1.5 S beta from the last start on.
--- Ranks arrive up to 2 ms apart, which must not affect the fit; `spoil` may lengthen one (microseconds).
local function recordings(alpha_us, beta_us, sizes, spoil)
  local ranks, random = {}, require("random").integers(7)
  for r = 1, 4 do ranks[r] = maker.new{ rank = r - 1, world = 4 } end
  local at = 0
  for turn = 1, 9 do
    for _, bytes in ipairs(sizes) do
      local starts, last = {}, 0
      for r = 1, 4 do
        starts[r] = at + random(2000)
        last = math.max(last, starts[r])
      end
      local stop = last + 6 * alpha_us + 1.5 * bytes * beta_us + (spoil and spoil(bytes, turn) or 0)
      for r = 1, 4 do ranks[r]:kernel(nccl, starts[r], stop - starts[r], { args = args(bytes, 4) }) end
      at = math.ceil(stop) + 500
    end
  end
  return ranks
end

local sizes = { 4096, 65536, 1048576, 4194304, 16777216 }

local function fit(made, options)
  local out
  maker.with(made, function(folder)
    local result, reason = maker.metric(folder, "hockney_alpha_s", options)
    out = result or { reason = reason }
  end)
  return out
end

describe("the Hockney fit", function()
  it("finds alpha and beta without the time that ranks wait", function()
    local found = fit(recordings(5, 1e-5, sizes))
    assert.near(5e-6, found.hockney_alpha_s, 5e-9)
    assert.near(1e-11, found.beta_s_per_byte, 1e-14)
    assert.equal("identified", found.identifiability)
    assert.is_true(found.arrival_skew_removed)
    assert.is_true(found.median_relative_residual < 1e-3)
    assert.equal(#sizes, #found.points)
    for i, point in ipairs(found.points) do
      assert.same({ sizes[i], 4, 9 }, { point.bytes, point.ranks, point.calls })
      assert.near(6 * 5 + 1.5 * sizes[i] * 1e-5, point.time_us, 0.01)
      assert.near(point.time_us, point.model_us, 0.05)
    end
    assert.equal(5, found.sizes)
  end)

  it("is robust against disturbed collectives and one size with wrong times", function()
    local found = fit(recordings(5, 1e-5, sizes, function(bytes, turn)
      return (turn % 3 == 0 and 3000 or 0) + (bytes == 65536 and 400 or 0)
    end))
    assert.near(5e-6, found.hockney_alpha_s, 0.2e-6)
    assert.near(1e-11, found.beta_s_per_byte, 2e-13)
  end)

  it("reports sizes that do not determine the fit", function()
    assert.matches("same size", fit(recordings(5, 1e-5, { 65536 })).reason)
    assert.matches("two sizes", fit(recordings(5, 1e-5, { 4096, 1048576 })).identifiability)
    assert.matches("needs all_gather", fit(recordings(5, 1e-5, sizes), { collective = "AllGather" }).reason)
  end)

  it("takes n_chips where the trace states no group size, and leaves the trace's collectives as they are", function()
    local made = recordings(5, 1e-5, sizes)
    for _, rank in ipairs(made) do
      for _, event in ipairs(rank.events) do
        if event.args then event.args["Group size"], event.args["Process Group Ranks"] = nil, nil end
      end
    end
    local hockney, metrics = require "ett.trace.hockney", require "ett.trace.metrics"
    local read = { args = metrics.args { metrics.load "hockney_alpha_s" } }
    local without <close> = maker.view({ made[1] }, read)
    assert.is_false((pcall(hockney.fit, without, {})))
    local view <close> = maker.view({ made[1] }, read)
    assert.is_true(hockney.fit(view, { n_chips = 4 }).alpha_s > 0)
    for _, each in ipairs(view:lanes()[1]:collectives().sorts) do assert.is_nil(each.group_size) end
  end)

  it("says that only one rank was recorded", function()
    local one = { recordings(5, 1e-5, sizes)[1] }
    assert.is_false(fit(one).arrival_skew_removed)
  end)

  it("does not mix transfers with times that include waiting", function()
    -- Two of four ranks: their tp group is matched, their dp groups have one recorded rank each.
    local function pair(sizes_of_tp, sizes_of_dp)
      local made = { maker.new{ rank = 0, world = 4 }, maker.new{ rank = 1, world = 4 } }
      for r, each in ipairs(made) do
        local at = 0
        local function reduce(group, bytes, dur)
          local given = args(bytes, 2)
          given["Process Group Name"], given["Process Group Ranks"] = group, nil
          each:kernel(nccl, at, dur, { args = given })
          at = at + 5000
        end
        for turn = 1, 5 do
          for _, bytes in ipairs(sizes_of_tp) do reduce("tp", bytes, 10 + bytes // 1000) end
          for _, bytes in ipairs(sizes_of_dp or { 1000, 2000, 4000 }) do
            reduce("dp" .. r, bytes, 10 + bytes // 1000 + (turn > 1 and 1000 or 0)) -- waits, but for the first
          end
        end
      end
      return fit(made)
    end
    for _, list in ipairs{ {}, { 8000 }, { 1000, 2000, 16000 } } do
      local found = pair(list)
      assert.near(5e-6, found.hockney_alpha_s, 1e-9)
      assert.near(1e-9, found.beta_s_per_byte, 1e-12)
      assert.equal(#list > 1, found.arrival_skew_removed)
      assert.equal(#list == 1 and 4 or 3, found.sizes)
    end
    assert.matches("same size %(1000 bytes, 15 calls%)", pair({ 1000 }, { 1000 }).reason) -- 5 of tp, 10 of dp
  end)

  it("takes time in proportion to the number of process groups", function()
    local function instructions(groups)
      local made, count = maker.new { rank = 0, world = groups + 1 }, 0
      for i = 1, groups do
        local own = args(4096 * (1 + i % 2), 2)
        own["Process Group Name"], own["Process Group Ranks"] = tostring(i), ("[0, %d]"):format(i)
        made:kernel(nccl, 100 * i, 50, { args = own })
      end
      debug.sethook(function() count = count + 1 end, "", 1000)
      local found = fit({ made })
      debug.sethook()
      assert.equal(2, found.sizes, found.reason)
      return count
    end
    assert.is_true(instructions(1200) < 5 * instructions(300))
  end)
end)
