-- Every value of reference.json, computed from the real traces beside it.
--
-- The reference was computed in binary64 microseconds. Where a trace has whole microseconds the
-- two must agree to the last digit given. Where its times are absolute and have a fraction
-- (1.7e15 us: the spacing of binary64 there is 0.25 us) the reference's own rounding is in its
-- digits: there the exact value must lie within that rounding of each interval's ends, and
-- the reference's digits must come out when the ends are rounded the same way.
local interval = require "ett.interval"
local json = require "ett.json"
local metrics = require "ett.trace_metrics"
local reference = require "reference_traces"
local trace_view = require "ett.trace_view"

local values, folder = reference.values()

--- Spacing of binary64 numbers at x.
local function spacing(x)
  return 2.0 ^ (math.floor(math.log(x, 2)) - 52)
end

local function open(path, names, options)
  local list = metrics.load_all(names)
  local all = { args = metrics.args(list) }
  for key, value in pairs(options or {}) do all[key] = value end
  return assert(trace_view.open(path, all)), list
end

local compared

--- Compares every leaf of `want` with `got`; slack is what the reference's rounding may amount to.
local function compare(want, got, path, slack)
  if type(want) == "table" and want ~= json.null then
    assert.is_table(got, path)
    for key, value in pairs(want) do
      local other = got[key]
      if other == nil and type(key) == "string" and tonumber(key) then other = got[tonumber(key)] end
      compare(value, other, path .. "." .. tostring(key), slack)
    end
    return
  end
  compared = compared + 1
  if type(want) == "number" then
    assert.is_number(got, ("%s: want %s, got %s"):format(path, want, tostring(got)))
    local allowed = math.max(1e-12 * math.abs(want), slack(path, want) or 0)
    assert.is_true(math.abs(want - got) <= allowed,
      ("%s: want %.17g, got %.17g (allowed %.3g)"):format(path, want, got, allowed))
  else
    assert.same(want, got, path)
  end
end

local function none() return 0 end

describe("reference.json", function()
  if not values then
    pending("the reference traces are not at hand (set ETT_REFERENCE)")
    return
  end

  local function check_trace(entry)
    local view, list = open(folder .. "/" .. entry.folder, { "device_time", "step_table", "coll_call_num" })
    local _ <close> = view
    local result = {}
    for _, metric in ipairs(list) do result[metric.name] = metrics.compute(metric, view) end
    local start_us = (view.trace.origin_ns + view.trace.stop) / 1000 -- about the largest time the file holds
    local fraction = false
    local rows = view.trace:events{ class = { "kernel", "memcpy", "memset" } }
    for i = 1, math.min(#rows, 400) do fraction = fraction or rows:get(i, "dur") % 1000 ~= 0 end
    local lanes = {}
    for _, lane in ipairs(view:lane_list()) do
      for _, file in ipairs(lane.process.files) do lanes[file] = lane end
    end
    local damage = {}
    for _, w in ipairs(view.trace.warnings) do
      damage[w.code] = (damage[w.code] or 0) + (w.count or 1)
    end
    for index, want in pairs(entry.ranks) do
      local file = tonumber(index) + 1
      local lane = lanes[file]
      local key = lane and lane.key
      local got = {}
      for name, value in pairs(key and result.device_time.ranks[key] or result.device_time.ranks["0"]
        or result.device_time.ranks[view:processes()[file].key]) do got[name] = value end
      got.bad = (damage.bad_event or 0) + (damage.bad_number or 0)
      got.neg = damage.negative_dur or 0
      if key then
        for name, value in pairs(result.step_table and result.step_table.ranks[key] or {}) do got[name] = value end
        got.nccl_user_annotations = result.coll_call_num.annotations[key]
      end
      local q = fraction and spacing(start_us) or 0
      local function slack(path, value)
        if q == 0 then return 0 end
        if path:find("_us$") then
          local rows_of = lane and #lane:rows("all") or 0
          return math.min(q * 2 * rows_of, math.abs(value) * 0.01) + q
        end
        if path:find("step_ms") then return 2 * q / 1000 end
        if path:find("frac$") then return 1e-4 end
        if path:find("share$") or path:find("ratio") then return 1e-4 end
        return 0
      end
      compare(want, got, ("%s rank %s"):format(entry.folder, index), slack)
    end
    if entry.straggler then
      assert.same(entry.collectives_per_rank, (function()
        local counts = {}
        for i, lane in ipairs(view:lanes()) do counts[i] = #lane:rows("comm") end
        return counts
      end)())
    end
  end

  for _, entry in ipairs(values.traces) do
    it(entry.folder, function()
      compared = 0
      check_trace(entry)
      assert.is_true(compared > 0)
    end)
  end

  local straggler_names = { mean_start_lag_us = "mean_lag_us", p50 = "p50_lag_us", p95 = "p95_lag_us",
    max = "max_lag_us", matched = "num_collectives", mean_end_spread_us = "mean_end_spread_us",
    negative_transfer = "negative_transfer",
    last_arriver_counts = "last_arriver_lowest_tie", wait_us_per_rank = "wait_us_per_rank",
    ["sum_transfer_us(min end - max start)"] = "sum_transfer_us" }

  for _, entry in ipairs(values.traces) do
    if entry.straggler then
      it(entry.folder .. ": collectives matched by index", function()
        local view, list = open(folder .. "/" .. entry.folder, { "straggler_lag" }, { align = "none" })
        local _ <close> = view
        local got = assert(metrics.compute(list[1], view))
        compared = 0
        for key, value in pairs(entry.straggler) do
          compare(value, got[assert(straggler_names[key], key)], entry.folder .. " straggler " .. key, none)
        end
        local types, same = nil, true
        for _, lane in ipairs(view:lanes()) do
          local mine = {}
          for i, each in ipairs(lane:collectives()) do mine[i] = each.kernel_type end
          local text = table.concat(mine, " ")
          same = same and (types == nil or types == text)
          types = types or text
        end
        assert.equal(entry.same_kernel_type_sequence, same)
        assert.is_true(compared >= 10)
      end)
    end
  end

  local aligned_names = { mean_lag_us = "mean_lag_us", p50 = "p50_lag_us", p95 = "p95_lag_us", max = "max_lag_us",
    matched = "num_collectives", mean_end_spread_us = "mean_end_spread_us",
    negative_transfer = "negative_transfer",
    last_arriver = "last_arriver", sum_transfer_us = "sum_transfer_us", sum_lag_us = "sum_lag_us",
    counts = "collectives_per_rank", offset_vs_rank0 = "offset_vs_first_rank",
    median_end_diff_us = "median_end_diff_us" }

  for name, want in pairs(values.aligned) do
    it(name .. ": collectives matched after alignment", function()
      -- The sampled trace cannot be aligned: refused, and reported only when forced.
      local sampled = name == "hta_trace_filter"
      local view, list = open(folder .. "/" .. name, { "straggler_lag" }, { align = sampled and "force" or "auto" })
      local _ <close> = view
      local got = assert(metrics.compute(list[1], view))
      compared = 0
      for key, value in pairs(want) do
        -- The reference gives these two with three and one decimals.
        local function slack(path)
          return path:find("mean_lag_us") and 0.0005 or path:find("mean_end_spread_us") and 0.05 + 1e-9 or 0
        end
        compare(value, got[assert(aligned_names[key], key)], name .. " aligned " .. key, slack)
      end
      assert.is_true(compared >= 15)
      if sampled then
        view.options.align = "auto"
        local refused, reason = metrics.compute(list[1], view)
        assert.is_nil(refused)
        assert.matches("sampled", reason)
      end
    end)
  end

  for name, want in pairs(values.pipeline) do
    it("primus_pp/" .. name, function()
      local view, list = open(folder .. "/primus_pp/" .. name, { "pipeline_bubble" })
      local _ <close> = view
      local got = assert(metrics.compute(list[1], view))
      compared = 0
      compare(want, got, name, none)
      assert.is_true(compared > 60)
      assert.equal(got.bubble_ratio, got.mean_bubble_vs_total_excl_first)
    end)
  end

  for name, want in pairs(values.tpu) do
    it("tpu_inference_jax/" .. name, function()
      local view, list = open(folder .. "/tpu_inference_jax/" .. name, { "tpu_device_time" })
      local _ <close> = view
      local got = assert(metrics.compute(list[1], view))
      compared = 0
      for device, each in pairs(want) do
        -- by_hlo_category_ms is given with four decimals.
        compare(each, got.cores[device], name .. device, function(path)
          return path:find("by_hlo_category_ms") and 0.00005 + 1e-12 or 0
        end)
      end
      assert.is_true(compared > 60)
    end)
  end

  it("the reference's digits where its times were rounded", function()
    for _, entry in ipairs(values.traces) do
      local want = entry.ranks["0"]
      if want.busy_us and (entry.folder == "hta_ns_resolution_trace" or entry.folder == "hta_nccl_parser_config"
        or entry.folder:find("^tracelens")) then
        local view = open(folder .. "/" .. entry.folder, { "device_time" })
        local _ <close> = view
        local lane = view:lanes()[1]
        local t = view.trace
        local base = t.origin_ns - (t.files[1].base_ns or 0)
        -- An end in binary64 microseconds, as exact multiples of 1/1024 us.
        local function rounded(ns) return ns // 1000 + 0.0 + (ns % 1000) / 1000 end
        local function set(what)
          local columns = require("ett.trace_stats").columns(lane:rows(what), { "ts", "dur" })
          local list = {}
          for i = 1, #columns.ts do
            local from = rounded(base + columns.ts[i])
            local to = from + columns.dur[i] / 1000
            local scale = 2 ^ 20
            list[i] = { math.floor((from % 2 ^ 30) * scale), math.floor((to % 2 ^ 30) * scale) }
          end
          return interval.new(list), 2 ^ 20
        end
        local C, scale = set("comm")
        local K = set("compute")
        local B = set("all")
        assert.near(want.busy_us, B:measure() / scale, 1e-5, entry.folder)
        assert.near(want.comm_union_us, C:measure() / scale, 1e-5, entry.folder)
        assert.near(want.comp_union_us, K:measure() / scale, 1e-5, entry.folder)
        assert.near(want.overlap_comm_comp_us, (C & K):measure() / scale, 1e-5, entry.folder)
      end
    end
  end)
end)
