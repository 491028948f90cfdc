--- Searches: optima against brute force, the speed and memory of a large space, ranks, kills.
local host = require "ett.host"
package.path = package.path .. ";" .. host.root .. "/spec/support/?.lua"
local command = require "command"
local sample = require "ett.sample"

local bench = { summary = "searches: optima, layouts a second, ranks, kills" }

local large = "search --model llama3-70b --cluster dgx_h100 --devices 512 --global-batch 1024 --seq 8192 --json"

local function row(measure, value, target, pass)
  return { measure = measure, value = value, target = target, pass = pass }
end

local function brute_force()
  local spaces, equal, plans = require "search_spaces", 0, 0
  for seed = 1, 40 do
    local given = spaces.new(seed)
    local best, evaluated = spaces.brute_force(given)
    local first = require("ett.search.search").new(given).rows[1]
    if best == (first and first.step_seconds) then equal = equal + 1 end
    plans = plans + evaluated
  end
  return row(("optima equal to brute force, 40 seeded spaces (%d plans evaluated)"):format(plans), equal, "40",
    equal == 40)
end

--- The largest resident set of a command in MB, and its output.
local function with_memory(line)
  local text = command.shell(("/usr/bin/time -f 'RSS %%M' %s"):format(line))
  return (tonumber(text:match "RSS (%d+)") or 0 / 0) / 1e3, (text:gsub("RSS %d+\n", ""))
end

local function rates()
  local ett = require "ett"
  local given = { model = ett.model.new "llama3-70b", cluster = "dgx_h100", devices = 512,
    plan = { seq = 8192, global_batch = 1024 }, share = false }
  local fastest, s = math.huge, nil
  for _ = 1, 3 do
    local before = os.clock()
    s = ett.search(given)
    fastest = math.min(fastest, os.clock() - before)
  end
  local rate = s.plans / fastest
  return { row("layouts of Llama-70B on 512 GPUs", s.plans, ">= 1000000", s.plans >= 1e6),
    row("seconds of one core", ("%.2f"):format(fastest), "", nil),
    row("layouts settled a second a core", ("%.0f"):format(rate), ">= 500000", rate >= 5e5),
    row("of them evaluated", s.effort.evaluated, "", nil) }
end

local function wall(line)
  local best, text = math.huge, nil
  for _ = 1, 3 do
    local before = sample.now()
    text = command.shell(line)
    best = math.min(best, sample.now() - before)
  end
  return best, text
end

local function ranks(rows)
  local program = ("'%s/bin/ett' %s"):format(host.prefix, large)
  local memory = with_memory(program)
  if memory == memory then
    rows[#rows + 1] = row("memory, MB", ("%.0f"):format(memory), "<= 300", memory <= 300)
  end
  local one, text_one = wall(program)
  if not require("ett.sampling.mpirun").available() then return end
  local two, text_two = wall("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 " .. program)
  rows[#rows + 1] = row("seconds on two cores, all included", ("%.2f"):format(two), "<= 5", two <= 5)
  rows[#rows + 1] = row("two ranks against one", ("%.2f"):format(one / two), ">= 1.8", one / two >= 1.8)
  rows[#rows + 1] = row("bytes of two ranks equal to one's", text_one == text_two and "yes" or "no", "yes",
    text_one == text_two)
end

--- Kills a search again and again: units lost or doubled in its journal, and whether the end is the same.
local function kills(rows)
  local folder = command.folder()
  local line, most, lost, doubled, killed = large .. " --journal j", 0, 0, 0, 0
  local whole = command.ett(folder, large)
  for i = 1, 50 do
    local _, status = command.ett(folder, line .. " > /dev/null", ("timeout -s KILL %.2f"):format(0.4 + i % 7 * 0.05))
    killed = killed + (status == 137 and 1 or 0)
    local units, seen = 0, {}
    local found = command.shell(("cat '%s'/j/*/rows-*.jsonl | grep -o '\"unit\":[0-9]*'"):format(folder))
    for number in found:gmatch "%d+" do
      units, doubled = units + 1, doubled + (seen[number] and 1 or 0)
      seen[number] = true
    end
    lost, most = lost + math.max(0, most - units), math.max(most, units)
    if status == 0 then
      command.shell(("rm -rf '%s/j'"):format(folder))
      most = 0
    end
  end
  local done = command.ett(folder, line)
  command.remove(folder)
  rows[#rows + 1] = row("kills", killed, "50", nil)
  rows[#rows + 1] = row("units lost, doubled", ("%d, %d"):format(lost, doubled), "0, 0", lost == 0 and doubled == 0)
  rows[#rows + 1] = row("bytes of the search that went on equal to the whole one's", done == whole and "yes" or "no",
    "yes", done == whole)
end

--- Pairs of published steps of one source, model and cluster: { source =, chance = stated that the first is faster,
--- held = whether it was }, turned so that the chance is at least a half.
local function pairs_of(entries)
  local sure, explain, published = require "ett.search.sure", require "ett.search.explain", require "published"
  local groups, list = {}, {}
  for _, entry in ipairs(entries) do
    local r, e = entry.row, entry.answer
    if e and (r.grade == "A" or r.grade == "A-") and not r.duplicate_of and r.step_seconds and r.use == "step" then
      e.gpus_per_node = r.gpus_per_node or 8
      local parts, whole = explain.parts(e), 0.0
      for _, name in ipairs(explain.part_order) do whole = whole + parts[name] end
      local id = {}
      for i, name in ipairs { "arch", "hidden", "layers", "device", "seq", "vocab", "precision", "framework" } do
        id[i] = tostring(r[name])
      end
      id = published.source(r) .. " " .. table.concat(id, " ")
      groups[id] = groups[id] or {}
      table.insert(groups[id], { seconds = e.step_seconds, parts = parts, whole = whole,
        program = sure.program(e), measured = r.step_median or r.step_seconds, source = published.source(r) })
    end
  end
  for _, id in ipairs(require("ett.base.schema").keys(groups)) do
    for i, a in ipairs(groups[id]) do
      for k = i + 1, #groups[id] do
        local b = groups[id][k]
        local chance = sure.chance(a, b)
        if chance ~= 0.5 and a.measured ~= b.measured then
          list[#list + 1] = { source = a.source, chance = math.max(chance, 1 - chance),
            held = (a.measured < b.measured) == (chance > 0.5) }
        end
      end
    end
  end
  return list
end

--- Decisions on vTrain's measured plans, and how often stated chances hold on the sources that nothing was fitted to:
--- every other one by name, from the second.
local function decisions(rows)
  local published_rows, why = require("published").rows()
  if not published_rows then
    rows[#rows + 1] = row("published steps", "skipped: " .. why)
    return
  end
  local results, entries = require("ett.base.find").load("spec/bench", "published").results(published_rows)
  local d = results.decisions.multi
  rows[#rows + 1] = row(("vTrain's plans: pairs > 2 %% apart in the right order, of %d"):format(d.pairs),
    ("%.1f %%"):format(d.right_percent), ">= 92", d.right_percent >= 92)
  rows[#rows + 1] = row("vTrain's plans: regret of the plan chosen", ("%.1f %%"):format(d.regret_percent), "<= 1",
    d.regret_percent <= 1)
  local list, sources, tenths = pairs_of(entries), {}, {}
  for _, pair in ipairs(list) do sources[pair.source] = true end
  local held_out = {}
  for i, source in ipairs(require("ett.base.schema").keys(sources)) do held_out[source] = i % 2 == 0 end
  for _, pair in ipairs(list) do
    if held_out[pair.source] then
      local at = math.min(5, math.floor((pair.chance - 0.5) * 10) + 1)
      tenths[at] = tenths[at] or { n = 0, stated = 0.0, held = 0 }
      local t = tenths[at]
      t.n, t.stated, t.held = t.n + 1, t.stated + pair.chance, t.held + (pair.held and 1 or 0)
    end
  end
  for at = 1, 5 do
    local t = tenths[at]
    if t then
      local stated, held = 100 * t.stated / t.n, 100 * t.held / t.n
      rows[#rows + 1] = row(("chance of %d to %d %% that A beats B, %d pairs: stated %.1f %%, held"):format(
        40 + 10 * at, 50 + 10 * at, t.n, stated), ("%.1f %%"):format(held), "within 8 points",
        math.abs(stated - held) <= 8)
    end
  end
end

function bench.run()
  local rows = rates()
  decisions(rows)
  ranks(rows)
  kills(rows)
  table.insert(rows, 1, brute_force())
  return rows
end

return bench
