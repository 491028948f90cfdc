--- Compares every value of reference.json with the metrics of the real traces.
--
-- The reference was computed in binary64 microseconds. If a trace has whole microseconds, all given digits must agree.
-- If its times are large and have a fraction (at 1.7e15 us the spacing of binary64 is 0.25 us), the reference contains
-- rounding errors. Then the exact value must lie within the largest possible rounding error.
local comm = require "ett.trace.comm"
local json = require "ett.json"
local merged = require "ett.base.merged"
local metrics = require "ett.trace.metrics"
local reference = require "reference_traces"
local trace_view = require "ett.trace.view"

local check = {}

--- A view of a trace of the reference with the args of some metrics, and their results.
function check.run(folder, names, options)
  local list = metrics.load_all(names)
  local all = merged({ args = metrics.args(list) }, options)
  local view = assert(trace_view.open(folder, all))
  local results, reasons = {}, {}
  for _, metric in ipairs(list) do results[metric.name], reasons[metric.name] = metrics.compute(metric, view) end
  return view, results, reasons
end

local Tally = {}
Tally.__index = Tally

local function tally(name) return setmetatable({ name = name, compared = 0, exact = 0, wrong = {} }, Tally) end

function Tally:fail(format, ...) self.wrong[#self.wrong + 1] = format:format(...) end

--- Compares every leaf of `want` with `got`. slack(path, value) returns the allowed difference, and true if it is due
-- to the number of decimals of the reference.
function Tally:compare(want, got, path, slack)
  if type(want) == "table" and want ~= json.null then
    if type(got) ~= "table" then
      self:fail("%s: want a table, got %s", path, tostring(got))
      return
    end
    for key, value in pairs(want) do
      local other = got[key]
      if other == nil and type(key) == "string" then
        other = got[tonumber(key) or comm.kind_of(key) or key] -- the reference has NCCL's names of kinds
      end
      self:compare(value, other, path .. "." .. tostring(key), slack)
    end
    return
  end
  self.compared = self.compared + 1
  if type(want) == "number" and type(got) == "number" then
    local off, allowed, decimals = math.abs(want - got), 0, false
    if slack then allowed, decimals = slack(path, want) end
    -- 1e-12: sums of the same numbers in another order.
    if off <= 1e-12 * math.abs(want) or (decimals and off <= allowed) then
      self.exact = self.exact + 1
    elseif off > allowed then
      self:fail("%s: want %.17g, got %.17g", path, want, got)
    end
  elseif want == got then
    self.exact = self.exact + 1
  else
    self:fail("%s: want %s, got %s", path, tostring(want), tostring(got))
  end
end

--- Spacing of binary64 numbers at x.
local function spacing(x) return 2.0 ^ (math.floor(math.log(x, 2)) - 52) end

--- The spacing of the reference's microseconds in a trace, 0 where its times are whole.
local function rounding(view)
  local rows = view:device_rows()
  for i = 1, math.min(#rows, 400) do
    if rows:get(i, "dur") % 1000 ~= 0 then return spacing((view.trace.origin_ns + view.trace.stop) / 1000) end
  end
  return 0
end

--- The values of each rank of one trace; path: its position; exactly: no slack for rounding.
function check.ranks(entry, path, exactly)
  local out = tally(entry.folder)
  local view, result = check.run(path, { "device_time", "step_table" })
  local _ <close> = view
  local q, lanes = exactly and 0 or rounding(view), {}
  for _, lane in ipairs(view:lane_list()) do
    for _, file in ipairs(lane.process.files) do lanes[file] = lane end
  end
  for index, want in pairs(entry.ranks) do
    local file = tonumber(index) + 1 -- keyed by the order of the files
    local lane = lanes[file]
    local key = lane and lane.key or view:processes()[file].key
    local got = merged(result.device_time.ranks[key])
    if lane then
      for name, value in pairs(result.step_table and result.step_table.ranks[key] or {}) do got[name] = value end
    end
    local rows = lane and #lane:rows("all") or 0
    local step = want.step_ms and math.huge or 0
    for _, ms in ipairs(want.step_ms or {}) do step = math.min(step, ms * 1000) end
    out:compare(want, got, ("%s rank %s"):format(entry.folder, index), function(field, value)
      if q == 0 then return 0 end
      -- Each end is off by at most q / 2, so each interval and each gap by q.
      if field:find("_us$") then return math.min(q * (rows + 1), 0.01 * math.abs(value) + q) end
      if field:find("step_ms") then return q / 1000 end
      if field:find("idle_frac$") then return q * (rows + 1) / step end
      if field:find("share$") or field:find("ratio") then return q * rows / math.max(want.busy_us or 1, 1) end
      return 0
    end)
  end
  if entry.collectives_per_rank then
    local counts = {}
    for i, lane in ipairs(view:lanes()) do counts[i] = #lane:rows("comm") end
    out:compare(entry.collectives_per_rank, counts, entry.folder .. " collectives_per_rank")
  end
  return out
end

local straggler_names = { mean_start_lag_us = "mean_lag_us", p50 = "p50_lag_us", p95 = "p95_lag_us", max = "max_lag_us",
  matched = "num_collectives", mean_end_spread_us = "mean_end_spread_us", negative_transfer = "negative_transfer",
  last_arriver_counts = "last_arriver_lowest_tie", wait_us_per_rank = "wait_us_per_rank",
  ["sum_transfer_us(min end - max start)"] = "sum_transfer_us" }

local function by_index(entry, folder)
  local out = tally(entry.folder .. ", matched by index")
  local view, result = check.run(folder .. "/" .. entry.folder, { "straggler_lag" }, { align = "none" })
  local _ <close> = view
  for key, value in pairs(entry.straggler) do
    out:compare(value, result.straggler_lag[assert(straggler_names[key], key)], entry.folder .. " " .. key)
  end
  local types, same = nil, true
  for _, lane in ipairs(view:lanes()) do
    local mine = {}
    local all = lane:collectives()
    for i, n in all.sequence:iter() do mine[i] = all.sorts[n].kernel_type end
    local text = table.concat(mine, " ")
    same = same and (types == nil or types == text)
    types = types or text
  end
  out:compare(entry.same_kernel_type_sequence, same, entry.folder .. " same_kernel_type_sequence")
  return out
end

local aligned_names = { mean_lag_us = "mean_lag_us", p50 = "p50_lag_us", p95 = "p95_lag_us", max = "max_lag_us",
  matched = "num_collectives", mean_end_spread_us = "mean_end_spread_us", negative_transfer = "negative_transfer",
  last_arriver = "last_arriver", sum_transfer_us = "sum_transfer_us", sum_lag_us = "sum_lag_us",
  counts = "collectives_per_rank", offset_vs_rank0 = "offset_vs_first_rank", median_end_diff_us = "median_end_diff_us" }

--- The trace named "sampled" in the reference: it cannot be aligned and is refused.
check.sampled = "hta_trace_filter"

local function aligned(name, want, folder)
  local out = tally(name .. ", aligned")
  local view, result, reasons = check.run(folder .. "/" .. name, { "straggler_lag" })
  if name == check.sampled then
    out:compare(true, (reasons.straggler_lag or ""):find("sampled") ~= nil, name .. " refused as sampled")
    view:close()
    view, result = check.run(folder .. "/" .. name, { "straggler_lag" }, { align = "force" })
  end
  local _ <close> = view
  for key, value in pairs(want) do
    out:compare(value, result.straggler_lag[assert(aligned_names[key], key)], name .. " aligned " .. key, function(path)
      -- The reference gives these two with three and one decimals.
      return path:find("mean_lag_us") and 0.0005 or path:find("mean_end_spread_us") and 0.05 + 1e-9 or 0, true
    end)
  end
  return out
end

local function pipeline(name, want, folder)
  local out = tally("primus_pp/" .. name)
  local view, result = check.run(folder .. "/primus_pp/" .. name, { "pipeline_bubble" })
  local _ <close> = view
  out:compare(want, result.pipeline_bubble, name)
  return out
end

local function tpu(name, want, folder)
  local out = tally("tpu_inference_jax/" .. name)
  local view, result = check.run(folder .. "/tpu_inference_jax/" .. name, { "tpu_device_time" })
  local _ <close> = view
  out:compare(want, result.tpu_device_time.cores, name, function(path)
    return path:find("by_hlo_category_ms") and 0.00005 + 1e-12 or 0, true -- given with four decimals
  end)
  return out
end

--- The checks: array of { name, run = function() -> { compared, exact, wrong = {sentence…} } }, or nil without the
-- reference.
function check.list()
  local values, folder = reference.values()
  if not values then return nil end
  local list = {}
  local function add(name, fn, ...)
    local args = table.pack(...)
    list[#list + 1] = { name = name, run = function() return fn(table.unpack(args, 1, args.n)) end }
  end
  local function sorted(t)
    local names = {}
    for name in pairs(t) do names[#names + 1] = name end
    table.sort(names)
    return names
  end
  for _, entry in ipairs(values.traces) do
    add(entry.folder, check.ranks, entry, folder .. "/" .. entry.folder)
    if entry.straggler then add(entry.folder .. ": collectives matched by index", by_index, entry, folder) end
  end
  for _, name in ipairs(sorted(values.aligned)) do
    add(name .. ": collectives aligned", aligned, name, values.aligned[name], folder)
  end
  for _, name in ipairs(sorted(values.pipeline)) do
    add("primus_pp/" .. name, pipeline, name, values.pipeline[name], folder)
  end
  for _, name in ipairs(sorted(values.tpu)) do
    add("tpu_inference_jax/" .. name, tpu, name, values.tpu[name], folder)
  end
  return list, values, folder
end

--- Number of leaves of the reference's values.
check.Tally = Tally

function check.leaves(value)
  if type(value) ~= "table" or value == json.null then return 1 end
  local count = 0
  for _, each in pairs(value) do count = count + check.leaves(each) end
  return count
end

return check
