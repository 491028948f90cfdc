--- Searches: optima against brute force, the speed and memory of a large space, ranks, kills.
local host = require "ett.host"
local command = require "command"
local sample = require "ett.sample"

local bench = { summary = "searches: optima, layouts a second, ranks, kills" }

local large = "search --model llama3-70b --cluster dgx_h100 --devices 512 --global-batch 1024 --seq 8192 --json"

-- Searches for ranks, in seconds of one core. mpirun and MPI start and end in 0.07 to 0.12 s: a tenth of the time of
-- two ranks in the short search, and 1 % in the long one, which is what several ranks are for.
local for_ranks = {
  { "short", 2, "search --model deepseek-v3 --cluster dgx_h100 --devices 256 --global-batch 1024 --seq 4096 --fix cp=1 "
    .. "--json" },
  { "long", 1, "search --model deepseek-v3 --vary cluster=dgx_h100,dgx_b200 --vary devices=512,1024 "
    .. "--global-batch 4096 --seq 4096 --json" },
}

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

--- The least seconds of a command by the clock and of processors, and its output.
local function wall(line, times)
  local best, busy, text = math.huge, math.huge, nil
  for _ = 1, times do
    local before = sample.now()
    local all = command.shell(line .. "; times")
    best = math.min(best, sample.now() - before)
    local minutes, seconds -- the last line of `times` is of the processes that have ended
    text, minutes, seconds = all:match "^(.*)%d+m[%d.]+s %d+m[%d.]+s\n(%d+)m([%d.]+)s %d+m[%d.]+s\n$"
    busy = math.min(busy, 60 * tonumber(minutes) + tonumber(seconds))
  end
  return best, text, busy
end

--- The most instructions of a rank of a command, and those of all, in user mode; nil without perf.
---@param start string what starts the ranks; "" for one process
local function instructions(start, line)
  local folder, most, sum = command.folder(), 0, 0
  command.shell(([[%s sh -c 'exec perf stat -x, -e instructions:u -o "%s/${OMPI_COMM_WORLD_RANK:-0}" "$@"' x %s]]
    .. " > /dev/null"):format(start, folder, line))
  for rank = 0, 1 do
    local file = io.open(("%s/%d"):format(folder, rank))
    local count = file and tonumber(file:read("a"):match "(%d+),,instructions")
    if file then file:close() end
    most, sum = math.max(most, count or 0), sum + (count or 0)
  end
  command.remove(folder)
  if sum > 0 then return most, sum end
end

local on_two = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 "

--- Two ranks against one, and two searches beside each other.
local function two_against_one(rows, name, times, line)
  local one, _, one_busy = wall(line, times)
  local two, _, two_busy = wall(on_two .. line, times)
  rows[#rows + 1] = row(("two ranks against one, a %s search of %.0f s"):format(name, one), ("%.2f"):format(one / two),
    ">= 1.8", one / two >= 1.8)
  local pair = wall(("{ %s > /dev/null & %s > /dev/null; wait; }"):format(line, line), times)
  rows[#rows + 1] = row("the same of two searches that share nothing: this machine's limit", ("%.2f"):format(
    2 * one / pair), "", nil)
  rows[#rows + 1] = row("processor seconds of both ranks over one's", ("%.2f"):format(two_busy / one_busy), "", nil)
end

local function ranks(rows)
  local program = ("'%s/bin/ett' "):format(host.prefix)
  local memory = with_memory(program .. large)
  if memory == memory then
    rows[#rows + 1] = row("memory, MB", ("%.0f"):format(memory), "<= 300", memory <= 300)
  end
  local _, text_one = wall(program .. large, 1)
  if not require("ett.sampling.mpirun").available() then return end
  local two, text_two = wall(on_two .. program .. large, 3)
  rows[#rows + 1] = row("seconds on two cores, all included", ("%.2f"):format(two), "<= 5", two <= 5)
  for _, search in ipairs(for_ranks) do two_against_one(rows, search[1], search[2], program .. search[3]) end
  local short = program .. for_ranks[1][3]
  local one = instructions("", short) -- independent of the machine's load
  if one then
    local most, both = instructions(on_two, short)
    rows[#rows + 1] = row("instructions: one rank's over those of the rank with more", ("%.2f"):format(one / most), "",
      nil)
    rows[#rows + 1] = row("both ranks' over one's", ("%.2f"):format(both / one), "", nil)
  end
  rows[#rows + 1] = row("bytes of two ranks equal to one's", text_one == text_two and "yes" or "no", "yes",
    text_one == text_two)
end

--- Kills a search again and again: units lost or doubled in its journal, and whether the end is the same.
local function kills(rows)
  local folder = command.folder()
  local line, most, lost, doubled, killed, grew, runs = large .. " --journal j", 0, 0, 0, 0, 0, 0
  local before = sample.now()
  local whole = command.ett(folder, large)
  local seconds = sample.now() - before
  while killed < 50 and runs < 200 do -- a run resumed from the journal may end before the kill
    runs = runs + 1
    local after = seconds * (0.3 + runs % 7 * 0.1) -- from before the first unit is settled to the end
    local _, status = command.ett(folder, line .. " > /dev/null", ("timeout -s KILL %.2f"):format(after))
    killed = killed + (status == 137 and 1 or 0)
    local units, seen = 0, {}
    local found = command.shell(("cat '%s'/j/*/rows-*.jsonl 2>/dev/null | grep -o '\"unit\":[0-9]*'"):format(folder))
    for number in found:gmatch "%d+" do
      units, doubled = units + 1, doubled + (seen[number] and 1 or 0)
      seen[number] = true
    end
    lost, most, grew = lost + math.max(0, most - units), math.max(most, units), grew + (units > most and 1 or 0)
    if status == 0 then
      command.shell(("rm -rf '%s/j'"):format(folder))
      most = 0
    end
  end
  local done = command.ett(folder, line)
  command.remove(folder)
  rows[#rows + 1] = row(("kills, in %d runs; %d runs settled units"):format(runs, grew), killed, ">= 50", killed >= 50)
  rows[#rows + 1] = row("units lost, doubled", ("%d, %d"):format(lost, doubled), "0, 0", lost == 0 and doubled == 0)
  rows[#rows + 1] = row("bytes of the search that went on equal to the whole one's", done == whole and "yes" or "no",
    "yes", done == whole)
end

-- Fields that the steps of a pair have in common, beside their batch: on one device, and anywhere.
local on_device = { "arch", "hidden", "layers", "device", "gpus", "seq", "vocab", "precision", "framework" }
local anywhere = { "arch", "hidden", "layers", "gpus", "seq" }

--- Pairs of published steps of one model, number of GPUs and batch, as a search compares them: { source = of both,
--- kind = "device", "software" or "device and software" where these differ, log, apart, same (ett.search.sure),
--- off = the measured log minus `log`, held = whether the first plan was faster }.
---@param names string[] on_device (pairs of one source), or anywhere (pairs of two devices or software)
local function pairs_of(entries, names)
  local sure, published = require "ett.search.sure", require "published"
  local groups, list = {}, {}
  for _, entry in ipairs(entries) do
    local r, e = entry.row, entry.answer
    if e and (r.grade == "A" or r.grade == "A-") and not r.duplicate_of and r.step_seconds and r.use == "step" then
      local id, plan = {}, sure.plan(e, e.step_seconds)
      for i, name in ipairs(names) do id[i] = tostring(r[name]) end
      id = ("%s %s %s"):format(names == on_device and published.source(r), table.concat(id, " "), e.plan.global_batch)
      groups[id] = groups[id] or {}
      plan.measured, plan.source, plan.device = r.step_median or r.step_seconds, published.source(r), r.device
      plan.software, plan.place = r.framework, ("%s %s"):format(r.device, r.framework)
      table.insert(groups[id], plan)
    end
  end
  for _, id in ipairs(require("ett.base.schema").keys(groups)) do
    for i, a in ipairs(groups[id]) do
      for k = i + 1, #groups[id] do
        local b = groups[id][k]
        local difference = sure.difference(a, b)
        local kind = (a.device ~= b.device and "device" or "") .. (a.software ~= b.software and "software" or "")
        if difference.log ~= 0 and a.measured ~= b.measured and (names == on_device or kind ~= "") then
          difference.source, difference.held = a.source .. (names == anywhere and b.source or ""),
            a.measured < b.measured
          difference.kind = kind == "devicesoftware" and "device and software" or kind
          difference.off = math.log(b.measured / a.measured) - difference.log
          list[#list + 1] = difference
        end
      end
    end
  end
  return list
end

--- Constants of ett.search.sure that are tried.
local function grid()
  local list = {}
  for _, own in ipairs { 0.01, 0.015, 0.02, 0.03, 0.04, 0.05 } do
    for _, same in ipairs { 0.004, 0.008, 0.015, 0.02, 0.03, 0.04, 0.05 } do
      for _, shared in ipairs { 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8 } do
        if own >= same then list[#list + 1] = { own = own, same = same, shared = shared } end
      end
    end
  end
  return list
end

--- By bins of 10 % from 50 % on: adds pairs, and the sums of stated and observed probabilities.
local function add_tenths(tenths, list, constants)
  local sure = require "ett.search.sure"
  for _, pair in ipairs(list) do
    local chance, held = sure.of(pair, constants), pair.held
    if chance < 0.5 then chance, held = 1 - chance, not held end
    local t = tenths[math.min(5, math.floor((chance - 0.5) * 10) + 1)]
    t.n, t.stated, t.held = t.n + 1, t.stated + chance, t.held + (held and 1 or 0)
  end
end

--- The log-likelihood of the errors of a source's pairs, over the square root of their number: half of all pairs are of
--- one table. Which plan was faster says less than the size of the error; constants fitted to it depend on few pairs.
local function likelihood(list, constants)
  local sure, sum = require "ett.search.sure", 0.0
  for _, pair in ipairs(list) do
    local scale = sure.scale(pair, constants)
    sum = sum - math.log(scale) - 1.5 * math.log(2 + (pair.off / scale) ^ 2) -- t with two degrees of freedom
  end
  return sum / (#list) ^ 0.5
end

--- The constants under which the errors of all sources but one are most likely.
---@param likely table by source: the likelihood under each of the constants
local function most_likely(likely, left_out, constants)
  local best, most
  for g, tried in ipairs(constants) do
    local sum = 0.0
    for _, source in ipairs(require("ett.base.schema").keys(likely)) do
      if source ~= left_out then sum = sum + likely[source][g] end
    end
    if not most or sum > most then best, most = tried, sum end
  end
  return best
end

--- The likelihoods of each source's pairs under the constants of the grid, and the pairs by source.
local function likelihoods(list)
  local lists, likely, constants = {}, {}, grid()
  for _, pair in ipairs(list) do
    lists[pair.source] = lists[pair.source] or {}
    table.insert(lists[pair.source], pair)
  end
  for source, own in pairs(lists) do
    likely[source] = {}
    for g, tried in ipairs(constants) do likely[source][g] = likelihood(own, tried) end
  end
  return likely, constants, lists
end

--- The constants of ett.search.sure that fit pairs best.
---@param list table[] of pairs_of
---@return table { own, same, shared }
function bench.constants(list)
  local likely, constants = likelihoods(list)
  return most_likely(likely, nil, constants)
end

--- How often stated chances hold: of each source, with constants of the other sources.
local function calibration(rows, list)
  local tenths, likely, constants, lists = {}, likelihoods(list)
  for at = 1, 5 do tenths[at] = { n = 0, stated = 0.0, held = 0 } end
  for source, own in pairs(lists) do add_tenths(tenths, own, most_likely(likely, source, constants)) end
  for at, t in ipairs(tenths) do
    local stated, held = 100 * t.stated / t.n, 100 * t.held / t.n
    rows[#rows + 1] = row(("chance of %d to %d %% that A beats B, %d pairs: stated %.1f %%, held"):format(
      40 + 10 * at, 50 + 10 * at, t.n, stated), ("%.1f %%"):format(held), "within 8 points",
      math.abs(stated - held) <= 8)
  end
  local all = bench.constants(list)
  rows[#rows + 1] = row("constants of all sources: own, same, shared", ("%g, %g, %g"):format(all.own, all.same,
    all.shared), "", nil)
end

--- How often the chances of pairs of two devices or software hold. Pairs of two sources are weighted by the square root
--- of their number.
local function calibration_apart(rows, list)
  local sure, counts, kinds = require "ett.search.sure", {}, {}
  for _, pair in ipairs(list) do counts[pair.source] = (counts[pair.source] or 0) + 1 end
  for _, pair in ipairs(list) do
    kinds[pair.kind] = kinds[pair.kind] or { n = 0, weight = 0.0, stated = 0.0, held = 0.0 }
    local k, chance, weight = kinds[pair.kind], sure.of(pair, sure), counts[pair.source] ^ -0.5
    k.n, k.weight, k.stated = k.n + 1, k.weight + weight, k.stated + weight * math.max(chance, 1 - chance)
    k.held = k.held + ((chance > 0.5) == pair.held and weight or 0.0)
  end
  for _, kind in ipairs(require("ett.base.schema").keys(kinds)) do
    local k = kinds[kind]
    rows[#rows + 1] = row(("pairs of another %s, %d: chance stated %.1f %%, held"):format(kind, k.n,
      100 * k.stated / k.weight), ("%.1f %%"):format(100 * k.held / k.weight), "", nil)
  end
end

--- Decisions on vTrain's measured plans, and how often stated chances hold.
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
  calibration(rows, pairs_of(entries, on_device))
  calibration_apart(rows, pairs_of(entries, anywhere))
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
