--- Published runs that fitted or ran out of memory, against ett's estimate. No run is in ett's other data.
--
-- fits.tsv has one run a line, columns separated by tabs: name, cluster (a name, or a file of support), words of
-- `ett predict` (the model first), the outcome, software, source, and what the source leaves open. The outcome is `ran`
-- or `out` (of memory), and may state the peak: bytes, and allocated or reserved (PyTorch's allocator) or used (of the
-- device).
local error_module = require "ett.base.error"
local literature = require("ett.base.find").load("spec/bench", "literature")
local median = require "ett.base.median"
local regress = require "ett.regress"
local schema = require "ett.base.schema"

local bench = { summary = "published runs that fitted or ran out of memory", options = { "rows" } }

local columns = { "name", "cluster", "words", "outcome", "software", "source", "open" }
local seed = 20261221

--- Whether a run is held out: a seeded hash of its name chose half of them before any estimate.
local function held_out(name)
  local hash = regress.mix(seed)
  for i = 1, #name do hash = regress.mix(hash ~ name:byte(i)) end
  return hash >> 63 == 1
end

--- The runs of fits.tsv.
function bench.runs()
  local path, list = require("ett.host").root .. "/spec/bench/fits.tsv", {}
  for text in io.lines(path) do
    local run, at = {}, 0
    for part in (text .. "\t"):gmatch "(.-)\t" do
      at = at + 1
      run[columns[at] or "more"] = part
    end
    if at ~= #columns then
      error_module.raise("format", "%s:%d: expected %d columns, got %d", path, #list + 1, #columns, at)
    end
    run.ran = run.outcome:match "^%a+" == "ran"
    run.held_out = held_out(run.name)
    list[#list + 1] = run
  end
  return list
end

--- Adds the estimate of a run, or the reason why it is refused.
function bench.answered(run)
  local ok, e = pcall(literature.estimate, run)
  if not ok then
    run.refused = tostring(e):match "^[^\n]*"
    return run
  end
  run.fits, run.share = e.fits, e.memory_bytes / e.memory_limit_bytes
  local bytes, kind = run.outcome:match " (%S+) (%a+)$"
  run.chance = e.fit_percent / 100
  if bytes then
    run.error = e[literature.memory_fields[kind]] / tonumber(bytes) - 1
    local ratio = 1 / (1 + run.error)
    run.inside = e.memory_low_bytes / e.memory_bytes <= ratio and ratio <= e.memory_high_bytes / e.memory_bytes
  end
  return run
end

local function row_of(run)
  if run.refused then return ("%-36s refused: %s"):format(run.name, run.refused) end
  return ("%-36s %s, estimated %5.1f %% of the memory, chance %3.0f %%%s%s"):format(run.name,
    run.ran and "ran" or "out", 100 * run.share, 100 * run.chance, run.fits == run.ran and "" or ", wrong",
    run.error and (", peak %+.1f %%"):format(100 * run.error) or "")
end

local function line(measure, format, ...) return { measure = measure, value = format:format(...) } end

--- Lines of a group: wrong decisions, how certain the estimate was of them, and errors of stated peaks.
local function lines(name, group, out)
  local wrong, counts, sizes, sum, signed, inside = { ran = 0, out = 0 }, { ran = 0, out = 0 }, {}, 0.0, 0.0, 0
  local certain, missed, score = 0, 0, 0.0
  for _, run in ipairs(group) do
    local outcome = run.ran and "ran" or "out"
    counts[outcome] = counts[outcome] + 1
    if run.fits ~= run.ran then wrong[outcome] = wrong[outcome] + 1 end
    if run.chance >= 0.95 or run.chance <= 0.05 then
      certain = certain + 1
      if run.ran ~= (run.chance > 0.5) then missed = missed + 1 end
    end
    score = score + (run.chance - (run.ran and 1 or 0)) ^ 2
    if run.error then
      sizes[#sizes + 1] = math.abs(run.error)
      sum, signed, inside = sum + math.abs(run.error), signed + run.error, inside + (run.inside and 1 or 0)
    end
  end
  out[#out + 1] = line(name .. ": ran, estimated not to fit", "%d of %d", wrong.ran, counts.ran)
  out[#out + 1] = line(name .. ": out of memory, estimated to fit", "%d of %d", wrong.out, counts.out)
  out[#out + 1] = line(name .. ": wrong where the chance is at most 5 or at least 95 %", "%d of %d", missed, certain)
  out[#out + 1] = line(name .. ": mean squared error of the chance", "%.3f", score / #group)
  if #sizes > 0 then
    out[#out + 1] = line(("%s: peaks, %d"):format(name, #sizes),
      "%.1f %%, median %.1f, bias %+.1f, %d in the 90 %% interval", 100 * sum / #sizes, 100 * median(sizes),
      100 * signed / #sizes, inside)
  end
end

--- The shares of measured peaks over estimates, for `ratios` of lua/ett/step/memory.lua: peaks of `published`,
--- `literature` and this benchmark without the held-out ones. Each source has the same weight: its peaks share errors.
local function ratios(runs)
  local published = require "published"
  local rows, why = published.rows()
  if not rows then return line("measured peaks over estimates", "skipped: %s", why) end
  local peaks, counts, sources = {}, {}, 0
  local function add(source, ratio)
    source = source:match "^[^,:;]+"
    if not counts[source] then sources = sources + 1 end
    peaks[#peaks + 1], counts[source] = { source = source, ratio = ratio }, (counts[source] or 0) + 1
  end
  for _, run in ipairs(runs) do
    if run.error and not run.held_out then add(run.source, 1 / (1 + run.error)) end
  end
  for _, step in ipairs(literature.steps()) do
    if step.memory and not step.held_out and literature.answered(step).memory_error then
      add(step.source, 1 / (1 + step.memory_error))
    end
  end
  for _, row in ipairs(rows) do
    local ok, e = pcall(published.estimate, row)
    if row.memory_bytes and ok then
      add(published.source(row), published.memory_bytes(row) / published.memory(row, e))
    end
  end
  table.sort(peaks, function(a, b) return a.ratio < b.ratio end)
  local words, sum = { ("least %.3f"):format(peaks[1].ratio) }, 0.0
  local shares = { 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95 }
  for _, peak in ipairs(peaks) do
    sum = sum + 1 / counts[peak.source]
    while shares[1] and sum >= shares[1] * sources - 1e-9 do
      words[#words + 1] = ("%.0f %% %.3f"):format(100 * table.remove(shares, 1), peak.ratio)
    end
  end
  words[#words + 1] = ("most %.3f"):format(peaks[#peaks].ratio)
  return line(("measured peaks over estimates, %d of %d sources"):format(#peaks, sources), "%s",
    table.concat(words, ", "))
end

function bench.run(opts)
  local groups, out, runs = {}, {}, bench.runs()
  local function add(name, run)
    groups[name] = groups[name] or {}
    table.insert(groups[name], run)
  end
  for _, run in ipairs(runs) do
    bench.answered(run)
    if opts.rows and not run.held_out then print(row_of(run)) end
    if run.refused then
      out[#out + 1] = { measure = "refused: " .. run.name, value = run.refused:sub(1, 60) }
    else
      for _, name in ipairs { "all", run.held_out and "held out" or "read" } do add(name, run) end
      -- A group of few runs would show the results of single ones.
      if not run.held_out then add("read, " .. run.software, run) end
    end
  end
  if opts.rows then return {} end
  for _, name in ipairs(schema.keys(groups)) do lines(name, groups[name], out) end
  out[#out + 1] = ratios(runs)
  return out
end

return bench
