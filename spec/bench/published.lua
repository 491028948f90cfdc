--- Published measured steps against ett's estimates.
--
-- Scored rows have grade A or A-, are whole training steps and no duplicates. Other uses and packed sequences are
-- groups of their own. A row that the in-step factors were fitted on is estimated with factors fitted without its
-- source.
local left_out = require "published_left_out"
local median = require "ett.base.median"
local published = require "published"

local bench = { summary = "published measured steps: errors by hardware, source, architecture and precision",
  options = { "rows", "page" } }

--- { row, answer } or { row, refused = sentence } of each row.
local function estimates(rows)
  local factors, shipped, out = published.factors, published.factors.shipped(), {}
  for i, row in ipairs(rows) do
    local without = published.is_fitted(row) and left_out.factors[published.source(row)]
    factors.apply(without or shipped)
    local ok, answer = pcall(published.estimate, row)
    out[i] = { row = row, answer = ok and answer or nil, refused = not ok and tostring(answer):match "^[^\n]*" or nil }
  end
  factors.apply(shipped)
  return out
end

local function error_of(entry)
  return entry.answer.step_seconds / (entry.row.step_median or entry.row.step_seconds) - 1
end

local function inside(entry)
  local measured = entry.row.step_median or entry.row.step_seconds
  return entry.answer.low_seconds <= measured and measured <= entry.answer.high_seconds
end

--- n, answered and errors of a group, in percent.
local function figures(entries)
  local sum, signed, covered, sizes, halves = 0.0, 0.0, 0, {}, {}
  for _, entry in ipairs(entries) do
    if entry.answer then
      local e, a = error_of(entry), entry.answer
      sum, signed, sizes[#sizes + 1] = sum + math.abs(e), signed + e, 100 * math.abs(e)
      halves[#halves + 1] = 50 * (a.high_seconds - a.low_seconds) / a.step_seconds
      if inside(entry) then covered = covered + 1 end
    end
  end
  local n = #sizes
  if n == 0 then return { rows = #entries, answered = 0 } end
  return { rows = #entries, answered = n, mape_percent = 100 * sum / n, bias_percent = 100 * signed / n,
    median_percent = median(sizes), coverage_percent = 100 * covered / n, half_width_percent = median(halves) }
end

local function scored(row)
  return (row.grade == "A" or row.grade == "A-") and not row.duplicate_of and row.step_seconds ~= nil
end

--- Groups in order: { kind, name, entries }.
local function groups_of(entries)
  local groups, index = {}, {}
  local function add(kind, name, entry)
    local id = kind .. ": " .. name
    if not index[id] then
      index[id] = { kind = kind, name = name, entries = {} }
      groups[#groups + 1] = index[id]
    end
    table.insert(index[id].entries, entry)
  end
  for _, entry in ipairs(entries) do
    local row = entry.row
    if scored(row) and row.use == "step" then
      add("all", "steps", entry)
      if row.packed_sequences then add("packed", "steps of packed sequences", entry) end
      add("hardware", row.device, entry)
      add("architecture", row.arch, entry)
      add("precision", row.precision or "not stated", entry)
      add("nodes", (row.nodes or 1) > 1 and "several" or "one", entry)
      add("source", published.source(row) .. ", " .. row.device, entry)
      add("recompute", row.recompute == "unknown" and "not stated" or "stated", entry)
    elseif scored(row) then
      add("use", row.use, entry)
    end
    if row.id:match "^vtrain_single" then add("grade B", ("vTrain, one node, hidden %d"):format(row.hidden), entry) end
    if row.use == "lora" and row.step_seconds then add("use", "lora, every grade", entry) end
  end
  table.sort(groups, function(a, b)
    if a.kind ~= b.kind then return a.kind < b.kind end
    return a.name < b.name
  end)
  return groups
end

--- Errors of memory in percent, by what was read of it, source and software: every row that states it, of any grade.
local function memory_groups(entries)
  local groups, index = {}, {}
  for _, entry in ipairs(entries) do
    local row, answer = entry.row, entry.answer
    if row.memory_bytes and answer and not row.duplicate_of then
      local kind = row.memory_kind:match "^[%w_]+"
      local name = ("%s, %s, %s"):format(kind, published.source(row), row.framework)
      if not index[name] then
        index[name] = { kind = "memory", name = name, rows = 0, sizes = {}, sum = 0.0, worst_percent = 0.0 }
        groups[#groups + 1] = index[name]
      end
      local g, off = index[name], 100 * (published.memory(row, answer) / published.memory_bytes(row) - 1)
      g.rows, g.sum, g.sizes[#g.sizes + 1] = g.rows + 1, g.sum + off, math.abs(off)
      if math.abs(off) >= math.abs(g.worst_percent) then g.worst_percent, g.worst_row = off, row.id end
    end
  end
  for _, g in ipairs(groups) do
    local sum = 0.0
    for _, size in ipairs(g.sizes) do sum = sum + size end
    g.mape_percent, g.bias_percent, g.median_percent = sum / g.rows, g.sum / g.rows, median(g.sizes)
    g.sum, g.sizes = nil, nil
  end
  table.sort(groups, function(a, b) return a.name < b.name end)
  return groups
end

--- Rows of measured steps, and those of them whose plan is estimated not to fit, by whether they state recomputation.
local function unfit(entries)
  local found = { stated = { rows = 0, ids = {} }, ["not stated"] = { rows = 0, ids = {} } }
  for _, entry in ipairs(entries) do
    local row = entry.row
    if entry.answer and row.step_seconds and not row.duplicate_of then
      local of = found[row.recompute == "unknown" and "not stated" or "stated"]
      of.rows = of.rows + 1
      if not entry.answer.fits then of.ids[#of.ids + 1] = row.id end
    end
  end
  return found
end

--- Share of pairs more than 2 % apart that are in the measured order, and the loss of the estimated best plan, over
--- sets of rows that differ in their plan alone.
local function decisions(entries, pattern)
  local sets, right, all, regrets = {}, 0, 0, {}
  for _, entry in ipairs(entries) do
    local row = entry.row
    if entry.answer and row.id:match(pattern) and row.step_seconds then
      local id = table.concat({ row.hidden, row.layers, row.seq, row.global_batch, row.gpus, row.device }, " ")
      sets[id] = sets[id] or {}
      table.insert(sets[id], entry)
    end
  end
  for _, set in pairs(sets) do
    local best, chosen = math.huge, nil
    for i, a in ipairs(set) do
      best = math.min(best, a.row.step_seconds)
      if not chosen or a.answer.step_seconds < chosen.answer.step_seconds then chosen = a end
      for j = i + 1, #set do
        local b = set[j]
        local measured = a.row.step_seconds / b.row.step_seconds
        if measured > 1.02 or measured < 1 / 1.02 then
          all = all + 1
          if (measured > 1) == (a.answer.step_seconds > b.answer.step_seconds) then right = right + 1 end
        end
      end
    end
    if #set > 1 then regrets[#regrets + 1] = 100 * (chosen.row.step_seconds / best - 1) end
  end
  if all == 0 then return nil end
  local sum = 0.0
  for _, regret in ipairs(regrets) do sum = sum + regret end
  return { pairs = all, right_percent = 100 * right / all, sets = #regrets, regret_percent = sum / #regrets }
end

local function print_rows(entries)
  local json = require "ett.json"
  for _, entry in ipairs(entries) do
    local row, answer = entry.row, entry.answer
    io.write(json.encode { id = row.id, device = row.device, use = row.use, grade = row.grade,
      measured = { step_seconds = row.step_seconds, memory_bytes = row.memory_bytes, memory_kind = row.memory_kind },
      estimated = answer and { step_seconds = answer.step_seconds, low_seconds = answer.low_seconds,
        high_seconds = answer.high_seconds, memory_bytes = answer.memory_bytes, fits = answer.fits } or nil,
      step_seconds = answer and answer.step_seconds, low_seconds = answer and answer.low_seconds,
      high_seconds = answer and answer.high_seconds, memory_bytes = answer and answer.memory_bytes,
      refused = entry.refused, unknown = answer and published.unknown(row) }, "\n")
  end
end

-- Targets of groups: the largest mean error in percent, by kind and name.
local bounds = {
  hardware = { ["A100-SXM4-80GB"] = 7, ["A100-SXM4-40GB"] = 7, ["H100-SXM-80GB"] = 8, ["H200-SXM-141GB"] = 8,
    ["B200-SXM-180GB"] = 9, ["GB200-186GB"] = 13, ["GB300-288GB"] = 13, ["B300-SXM-288GB"] = 13 },
  architecture = { dense = 8, moe = 13 }, precision = { fp8 = 10 },
  ["grade B"] = { ["vTrain, one node, hidden 1024"] = 8 },
}

--- Everything the bench knows: groups with figures, decisions, refusals.
function bench.results(rows)
  local entries, results = estimates(rows), { groups = {}, refused = {} }
  for _, group in ipairs(groups_of(entries)) do
    local f = figures(group.entries)
    f.kind, f.name = group.kind, group.name
    f.bound_percent = bounds[group.kind] and bounds[group.kind][group.name]
    results.groups[#results.groups + 1] = f
  end
  results.memory, results.unfit = memory_groups(entries), unfit(entries)
  results.decisions = { multi = decisions(entries, "^vtrain_multi"), single = decisions(entries, "^vtrain_single") }
  for _, entry in ipairs(entries) do
    if entry.refused and scored(entry.row) then
      results.refused[entry.refused] = (results.refused[entry.refused] or 0) + 1
    end
  end
  return results, entries
end

local function line(f)
  local measure = f.kind .. " " .. f.name
  if f.answered == 0 then return { measure = measure, value = "none answered", target = "n=" .. f.rows } end
  return { measure = measure, value = ("%.1f %%"):format(f.mape_percent), rows = f.rows,
    mape_percent = f.mape_percent, bias_percent = f.bias_percent, median_percent = f.median_percent,
    coverage_percent = f.coverage_percent, half_width_percent = f.half_width_percent,
    target = ("n=%d/%d %+.1f med %.1f in %.0f +-%.0f%s"):format(f.answered, f.rows, f.bias_percent, f.median_percent,
      f.coverage_percent, f.half_width_percent, f.bound_percent and (" <=%g"):format(f.bound_percent) or "") }
end

--- Rows of the table for memory.
local function memory_lines(results)
  local out = {}
  for _, g in ipairs(results.memory) do
    local own = { measure = "memory " .. g.name, value = ("%.1f %%"):format(g.mape_percent),
      target = ("n=%d %+.1f med %.1f worst %+.1f"):format(g.rows, g.bias_percent, g.median_percent, g.worst_percent) }
    for key, value in pairs(g) do if key ~= "name" and key ~= "kind" then own[key] = value end end
    out[#out + 1] = own
  end
  for _, name in ipairs { "stated", "not stated" } do
    local own = results.unfit[name]
    out[#out + 1] = { measure = ("plans that ran but are estimated not to fit, recomputation %s"):format(name),
      value = #own.ids, target = "n=" .. own.rows, rows = own.rows, ids = own.ids }
  end
  return out
end

function bench.run(opts)
  local rows, why = published.rows()
  if not rows then return { { measure = "published steps", value = "skipped: " .. why } } end
  if opts.rows then
    print_rows(estimates(rows))
    return {}
  end
  local results, out = bench.results(rows), {}
  if opts.page then
    local literature = dofile(require("ett.host").root .. "/spec/bench/literature.lua")
    require("published_page").write(opts.page, results, literature.figures())
    return {}
  end
  for i, f in ipairs(results.groups) do out[i] = line(f) end
  table.move(memory_lines(results), 1, #results.memory + 2, #out + 1, out)
  for _, name in ipairs { "multi", "single" } do
    local d = results.decisions[name]
    out[#out + 1] = d and { value = ("%.1f %%"):format(d.right_percent),
      measure = ("vTrain, %s node: pairs > 2 %% apart in the right order, n=%d"):format(name, d.pairs),
      target = ("regret %.1f %%"):format(d.regret_percent) } or nil
  end
  for _, reason in ipairs(require("ett.base.schema").keys(results.refused)) do
    out[#out + 1] = { measure = "refused: " .. reason:sub(1, 90), value = results.refused[reason] }
  end
  return out
end

return bench
