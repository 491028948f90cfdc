--- Published runs that fitted or ran out of memory, against ett's estimate. No source is in ett's other data.
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
  if bytes then run.error = e[literature.memory_fields[kind]] / tonumber(bytes) - 1 end
  return run
end

local function row_of(run)
  if run.refused then return ("%-36s refused: %s"):format(run.name, run.refused) end
  return ("%-36s %s, estimated %5.1f %% of the memory%s%s"):format(run.name, run.ran and "ran" or "out", 100 * run.share,
    run.fits == run.ran and "" or ", wrong", run.error and (", peak %+.1f %%"):format(100 * run.error) or "")
end

--- Lines of a group: decisions, and errors of stated peaks.
local function lines(name, group, out)
  local wrong, counts, sizes, sum, signed = { ran = 0, out = 0 }, { ran = 0, out = 0 }, {}, 0.0, 0.0
  for _, run in ipairs(group) do
    local outcome = run.ran and "ran" or "out"
    counts[outcome] = counts[outcome] + 1
    if run.fits ~= run.ran then wrong[outcome] = wrong[outcome] + 1 end
    if run.error then
      sizes[#sizes + 1] = math.abs(run.error)
      sum, signed = sum + math.abs(run.error), signed + run.error
    end
  end
  out[#out + 1] = { measure = name .. ": ran, estimated not to fit", value = ("%d of %d"):format(wrong.ran, counts.ran) }
  out[#out + 1] = { measure = name .. ": out of memory, estimated to fit",
    value = ("%d of %d"):format(wrong.out, counts.out) }
  if #sizes > 0 then
    out[#out + 1] = { measure = ("%s: peaks, %d"):format(name, #sizes), value = ("%.1f %%, median %.1f, bias %+.1f"):format(
      100 * sum / #sizes, 100 * median(sizes), 100 * signed / #sizes) }
  end
end

function bench.run(opts)
  local groups, out = {}, {}
  local function add(name, run)
    groups[name] = groups[name] or {}
    table.insert(groups[name], run)
  end
  for _, run in ipairs(bench.runs()) do
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
  return out
end

return bench
