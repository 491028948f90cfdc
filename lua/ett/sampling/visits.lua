--- Visits: a shape is measured in several visits some time apart, because noise on a machine lasts for milliseconds to
--- seconds. Their results are merged into one.
--
-- Visits of shapes without a row yet are kept in a file beside the table, so a campaign that was killed continues with
-- them. TABLE.visits has a first line that names the campaign, then one line a visit, HASH and JSON:
-- { "shape": "64,128", "results": … }. A line with another hash is left out. A written visit outlives the process at
-- once; the file is synced once a second, because a sync takes as long as a visit. The table's lock guards both files.
local error_module = require "ett.base.error"
local io_module = require "ett.io"
local json = require "ett.json"
local sample = require "ett.sample"

local must = error_module.must
local visits = {}

local SYNC_SECONDS = 1.0

--- The faster of two results of a shape, by pass. A result measured without loss of the processor takes precedence.
--- For back ends without a merge of their own.
function visits.better(a, b)
  if not a then return b end
  local best = {}
  for pass, result in pairs(b) do
    local before = a[pass]
    if type(result) ~= "table" or type(before) ~= "table" then
      best[pass] = result
    elseif (before.preempted or false) ~= (result.preempted or false) then
      best[pass] = before.preempted and result or before
    else
      best[pass] = before.seconds <= result.seconds and before or result
    end
  end
  return best
end

--- Merges one more visit; a shape needs at least half of its visits.
local function add(entry, results, merge, late)
  local settled
  entry.results, settled, entry.wanting = merge(entry.results, results)
  entry.settled = settled and late
end

--- Gives a shape the visits of an earlier run.
---@param entry table of a block
---@param made table[] results, visit by visit
---@param count integer visits of a shape
---@param merge function as in run()
function visits.restore(entry, made, count, merge)
  for i, results in ipairs(made) do
    add(entry, results, merge, 2 * i >= count)
    entry.visits = i
  end
end

local function make(entry, tasks, late)
  local results, err = tasks.visit(entry.values, entry.results)
  if results then
    add(entry, results, tasks.merge, late)
  else
    entry.results, entry.err = nil, err
  end
end

--- Visits beyond `count`, of shapes with too few undisturbed ones. False when it was stopped.
local function revisit(block, count, tasks)
  local round, left = count, true
  while left do
    round, left = round + 1, false
    for _, entry in ipairs(block) do
      if entry.wanting and not entry.err then
        if tasks.stop() then return false end
        if not tasks.again() then return true end
        make(entry, tasks, true)
        entry.visits, left = entry.visits + 1, true
        tasks.turn(#block, round)
      end
    end
  end
  return true
end

--- Measures a block of shapes in `count` visits each, and disturbed ones in some more.
---@param block table[] { values = }; gains results or err, and visits; continues after the visits it has
---@param count integer visits of a shape
---@param tasks table visit(values, before): table|nil, ett.Error? measures once; before: the result so far.
--- merge(before|nil, now): table, boolean?, boolean? all visits so far as one result, whether they suffice, whether too
--- few were undisturbed.
--- stop(): boolean called before every visit.
--- pace(done): boolean called before every visit with the part of the block that is done, 0 to 1; it may wait for a
--- better moment. False: time is left for half of the visits only. Without it there is time for all.
--- turn(under_way, rounds) called after every visit with the visits made, counted in shapes, and the rounds begun.
--- again(): boolean called before every visit beyond `count`; without it there are none
---@return boolean whole: false when it was stopped
function visits.run(block, count, tasks)
  for round = 1, count do
    for i, entry in ipairs(block) do
      if tasks.stop() then return false end
      local due = not entry.err and not entry.settled and (entry.visits or 0) < round
      if due then
        local timely = not tasks.pace or tasks.pace((round - 1 + (i - 1) / #block) / count)
        if 2 * round > count and not timely then return true end
        make(entry, tasks, 2 * round >= count)
      end
      entry.visits = math.max(entry.visits or 0, round)
      if due then tasks.turn(((round - 1) * #block + i) / count, round) end
    end
  end
  return not tasks.again or revisit(block, count, tasks)
end

--- The file of a table's visits.
function visits.path(table_path) return (table_path:gsub("%.csv$", "")) .. ".visits" end

--- Removes the visits of a table. Only under the table's lock.
function visits.drop(table_path)
  local path = visits.path(table_path)
  os.remove(path)
  os.remove((path:gsub("([^/]*)$", ".%1.lock")))
end

--- The visits in a file by shape, without shapes that have a row or failed; nil if their title differs.
---@param over table done, failed: sets of shapes, as of ett.sampling.store
local function read(path, title, over)
  local file = io.open(path, "r")
  if not file then return {} end
  local held = file:read("l") == title and {} or nil
  for line in held and file:lines("L") or function() end do
    local hash, text = line:match("^(%x+) (.*)\n$")
    if hash and hash == io_module.hash(text) then
      local visit = json.decode(text)
      if not (over.done[visit.shape] or over.failed[visit.shape]) then
        held[visit.shape] = held[visit.shape] or {}
        table.insert(held[visit.shape], visit.results)
      end
    end
  end
  file:close()
  return held
end

--- Opens the visits of a table. Those of another campaign, or of another version of it, are dropped.
---@param table_path string
---@param title string names the campaign
---@param over table? done, failed: sets of shapes whose visits are no longer needed
---@return table { of(key) -> results[], add(key, results), close(finished) }; raises errors of the file system
function visits.open(table_path, title, over)
  local path = visits.path(table_path)
  title = "# visits: " .. title
  local held = read(path, title, over or { done = {}, failed = {} })
  if not held then
    visits.drop(table_path)
    held = {}
  end
  local journal, synced
  local kept = {}

  --- Results of a shape's visits in earlier runs. The shape is measured in this run.
  function kept.of(key)
    local made = held[key] or {}
    held[key] = nil
    return made
  end

  function kept.add(key, results)
    journal = journal or must(sample.journal(path, title .. "\n"))
    local text = json.encode { shape = key, results = results }
    must(journal:write(io_module.hash(text) .. " " .. text))
    local now = sample.now()
    if now - (synced or -math.huge) > SYNC_SECONDS then
      must(journal:sync())
      synced = now
    end
  end

  --- finished: every shape of this run is in the table. The file is removed, unless it has visits of other shapes: a
  --- campaign may have several samples of one operator, and a run a limit.
  function kept.close(finished)
    finished = finished and next(held) == nil
    if journal then
      if not finished then must(journal:sync()) end
      journal:close()
    end
    if finished then visits.drop(table_path) end
  end
  return kept
end

return visits
