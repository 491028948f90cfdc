--- Runs a campaign: one table per operator, precision, device and topology.
--
-- What is in a table is done, so that a campaign killed at any moment goes on where it was (ett.samples.table).
-- Where a shape takes several visits, those of shapes without a row yet are in a file beside the table
-- (ett.samples.visits).
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local lfs = require "lfs"
local marks = require "ett.samples.marks"
local passes = require "ett.sampling.passes"
local sample = require "ett.sample"
local sample_check = require "ett.sampling.check"
local sample_limit = require "ett.sampling.limit"
local sample_table = require "ett.samples.table"
local sample_visits = require "ett.samples.visits"

local sampler = {}

--- Loads the back end of that name; raises with what is missing.
function sampler.backend(name)
  if not find.path("samplers", name) then
    local known = find.names("samplers")
    error_module.raise("missing", "unknown back end '%s'%s; known are %s", name, error_module.suggestion(name, known),
      table.concat(known, ", "))
  end
  local backend = find.load("samplers", name)
  local ok, why = backend.available()
  if not ok then error_module.raise("missing", "%s", why) end
  return backend
end

-- Shapes of a table that are gone through at once.
local MOST_PENDING = 1 << 26

--- Shapes of a target that this process is to measure, in order: list of indices, run.limit of them where it is given;
--- and how many are left out because they failed before.
local function pending(target, held, run)
  local list, left = {}, 0
  if held.failed.all and not run.retry_failed then return list, left end
  local mine = (target.total - run.part) // run.parts + 1
  if mine > MOST_PENDING and not run.limit then
    error_module.raise("limit", "%s: %d shapes are more than the %d that one run goes through; give --limit, --parts, "
      .. "or a design with count", target.name, mine, MOST_PENDING)
  end
  for index = run.part, target.total, run.parts do
    if #list == run.limit or sample.interrupted() then break end
    local key = table.concat(target.values(index), ",")
    local failed = held.failed[key] and not run.retry_failed
    if not held.done[key] and not failed then list[#list + 1] = index end
    if not held.done[key] and failed then left = left + 1 end
  end
  return list, left
end

--- Measures one shape of a target: results | nil, error; raises only when it was interrupted.
function sampler.measure(session, target, values, before)
  local ok, results, err = sample_limit.call(function()
    if target.kind == "collective" then
      -- Back ends count the whole message; the reference's tables count one rank's share of an
      -- all_gather, and so do ours.
      local t = session.topology
      local shares = target.collective == "all_gather" and t.nodes * t.ranks_per_node or 1
      return session.measure_collective(target, values[1] * shares)
    end
    return session.measure(target.operator, target.shape(values), before, target)
  end)
  if not ok then results, err = nil, error_module.from(results) end
  if err and err.kind == "interrupt" then error(err, 0) end -- no fault of the shape
  return results, err
end

--- A journal of one's own, or one shared between the ranks of an MPI job: both have
--- take(stop) -> position or nil, commit(lines), close().
local function local_work(journal, count, chooser)
  local at = 0
  return {
    take = function(stop)
      if chooser then return not stop and chooser.next() or nil end
      at = at + 1
      return not stop and at <= count and at or nil
    end,
    commit = function(lines)
      local ok, err = journal:append(table.concat(lines, "\n"))
      if not ok then error(err, 0) end
    end,
    close = function() journal:close() end,
  }
end

local function never() return false end

--- What the ranks that measured a shape at once make of it: where one failed, all did.
local function agreed(shared, results, err)
  local rank = shared.worst(results == nil)
  if not rank then return results end
  local own = err and ("%s %s"):format(err.kind or "internal", tostring(err)) or ""
  local kind, reason = shared.text_of(rank, own):match("^(%S+) (.*)$")
  if err then return nil, err end -- this rank's own
  return nil, error_module.new(kind, "rank %d: %s", rank, reason)
end

--- Measures one target into its table. Returns its report; nil on a rank that is to measure nothing.
local function run_target(session, target, run, path)
  local journal, list, held, left, kept
  local files <close> = setmetatable({}, { __close = function() -- luacheck: ignore files
    if kept then pcall(kept.close, false) end -- what was raised first is what counts
    if journal and not run.share then journal:close() end -- of a job it is closed with the work, or the job is aborted
  end })
  run.verdict = nil
  local shared = run.share
  local leader = not shared or shared.rank() == 0
  -- A new table's header says how its operator was checked; one with nothing to measure needs no check.
  local begun = leader and lfs.attributes(path, "mode") ~= nil
  if shared or not begun then run.verdict = sample_check.target(session, target, run) end
  if leader then
    journal, held = sample_table.open(session, target, run, path)
    list, left = pending(target, held, run)
    if not shared and begun and #list > 0 then run.verdict = sample_check.target(session, target, run) end
    if run.verdict and run.verdict.failure then
      local report = sample_check.refuse(journal, held, target, path, run.verdict.failure)
      run.on_begin(report)
      return report
    end
    if #list > 0 then sample_check.note(journal, held, run.verdict) end
  end
  if run.verdict and run.verdict.failure then return nil end
  local chooser = run.chooser and run.chooser(target, list, run.precision, path)
  local work
  local together = shared and run.together and target.kind == "operator"
  if shared then
    work, list = shared.work(journal, list, target, together)
  else
    work = local_work(journal, #list, chooser)
  end
  local report = { path = path, name = target.name, measured = 0, failed = 0, disturbed = 0, total = #list,
    held = held and held.rows or 0, left = left }
  local function stop()
    if sample.interrupted() or (run.deadline and sample.now() > run.deadline) then report.interrupted = true end
    return report.interrupted
  end
  report.takes_turns, report.count = run.interleave, work.count
  if leader then run.on_begin(report) end
  local began = sample.now()
  local function record(values, results, err)
    local key = table.concat(values, ",")
    if results then
      for _, entry in ipairs(together and marks.passes(results) or {}) do
        entry[2].seconds = shared.mean(entry[2].seconds)
      end
      local lines, why, note = marks.of(key, results, run.keep_raw)
      if why then report.disturbed = report.disturbed + 1 end
      if note then
        report.notes = report.notes or {}
        report.notes[#report.notes + 1] = ("%s: %s"):format(key, note)
      end
      lines[#lines + 1] = sample_table.row(target, values, results, session.topology)
      work.commit(lines)
      report.measured = report.measured + 1
      if chooser then chooser.add(target.shape(values), results) end
    else
      if err.fatal then error(err, 0) end -- no shape's failure: every other one would fail alike
      work.commit { ("#! failed: %s: %s: %s"):format(key, err.kind or "internal", marks.one_line(err.message or err)) }
      report.failed = report.failed + 1
      report.last_failure = ("%s: %s"):format(key, marks.one_line(err.message or err))
      if err.kind == "lost" then error(err, 0) end -- the device is gone: nothing more can be measured
    end
    if leader then run.on_progress(report) end
  end
  local visits = target.kind == "operator" and session.passes or 1
  local block, finished = {}, false
  local size = visits == 1 and 1 or chooser and 4 or shared and not together and 8 or run.campaign.block or 8
  kept = visits > 1 and not shared and not chooser
    and sample_visits.open(path, sample_table.title(target, run))
  local tasks = { merge = session.merge or passes.better, stop = (run.interleave or size > 8) and stop or never }
  function tasks.visit(values, before)
    local results, err = sampler.measure(session, target, values, before)
    if together then results, err = agreed(shared, results, err) end
    if kept and results then kept.add(table.concat(values, ","), results) end
    return results, err
  end
  if together then -- no rank may leave a shape that another still measures
    local merge = tasks.merge
    function tasks.stop()
      report.interrupted = shared.align(stop())
      return report.interrupted
    end
    function tasks.merge(before, now)
      local merged, settled, wanting = merge(before, now)
      return merged, not shared.worst(not settled), wanting
    end
  end
  function tasks.turn(under_way, rounds)
    report.under_way = under_way
    if leader and visits > 1 then run.on_progress(report) end
    if run.interleave then
      coroutine.yield((report.measured + report.failed + under_way) / report.total + math.max(0, rounds - visits))
    end
  end
  if run.seconds and session.await then
    local last = run.began + run.seconds
    function tasks.again() return sample.now() < last and session.await(last) end
    -- Waits for quiet moments as long as half of the visits still fit in.
    function tasks.pace(done)
      local progress = (report.measured + report.failed + done * #block) / report.total
      session.await(run.began + run.seconds * math.min(1, 2 * progress))
      return sample.now() < last
    end
  end
  while not finished do
    local position = work.take(stop())
    finished = position == nil
    if position then
      local entry = { values = target.values(list[position]) }
      block[#block + 1] = entry
      if kept then
        local made = kept.of(table.concat(entry.values, ","))
        for _, results in ipairs(session.recall and made or {}) do session.recall(results) end
        passes.restore(entry, made, visits, tasks.merge)
      end
    end
    local chosen_all = chooser and chooser.waiting() == 0
    if #block > 0 and (#block == size or finished or chosen_all) then
      local whole = passes.run(block, visits, tasks)
      report.under_way = 0
      for _, entry in ipairs(block) do
        -- Stopped half-way: what has seen too few visits is measured by the next run.
        if whole or entry.err or 2 * (entry.visits or 0) >= visits then
          record(entry.values, entry.results, entry.err)
        end
      end
      block = {}
    end
  end
  if kept then kept.close(not report.interrupted) end
  kept = nil
  work.close()
  report.count = nil
  report.seconds = sample.now() - began
  report.refused = leader and not run.retry_failed and held.failed.all or nil
  report.error = chooser and chooser.error
  report.excess = chooser and chooser.excess
  if shared and target.kind == "operator" and not together then
    shared.sum(report, { "measured", "failed", "disturbed" })
    local rank = shared.worst(report.last_failure)
    if rank then report.last_failure = shared.text_of(rank, report.last_failure or "") end
    if leader then run.on_progress(report) end
  end
  return report
end

--- The precisions in which a target is measured: those asked for, else its own, else the campaign's.
function sampler.precisions_of(options, given, target)
  local wanted = options.precisions or target.precision or given.precision
  if type(wanted) == "string" then wanted = { wanted } end
  return wanted
end

--- Raises where the back end does not measure that precision.
function sampler.check_precision(backend, precision)
  if not backend.precisions or backend.precisions[precision] then return end
  local names = {}
  for name in pairs(backend.precisions) do names[#names + 1] = name end
  table.sort(names)
  error_module.raise("usage", "the back end '%s' measures %s, not '%s'", backend.name, table.concat(names, ", "),
    precision)
end

--- What a back end's open() gets, but for the precision.
function sampler.session_options(given, options)
  -- Ranks that share a machine take a GPU each, or a processor.
  local device = options.device or options.share and options.share.job.local_rank
  return { processor = options.device, threads = options.threads or given.threads,
    seed = given.seed, budget_seconds = options.budget_seconds or given.budget_seconds, target = given.target,
    min_repeats = given.min_repeats, max_repeats = options.max_repeats or given.max_repeats
      or (given.min_repeats or 0) > 100 and given.min_repeats or nil,
    limit_bytes = options.limit_bytes, keep_raw = options.keep_raw, share = options.share, device = device,
    profile = options.profile, autotune = options.autotune, cold_bytes = options.cold_bytes or given.cold_bytes,
    passes = options.passes or given.passes, statistic = given.statistic, together = options.share and given.together,
    schedule = given.schedule }
end

--- Runs jobs whose passes take turns, but for those that write the same table: they come one after the other.
local function interleaved(jobs, on_turn)
  local tables, first, reports = {}, {}, {}
  for _, job in ipairs(jobs) do
    if first[job.path] then
      table.insert(first[job.path], job)
    else
      first[job.path] = { job }
      tables[#tables + 1] = function()
        for _, one in ipairs(first[job.path]) do
          local report = one.run() -- others may have ended meanwhile
          reports[#reports + 1] = report
        end
      end
    end
  end
  passes.take_turns(tables, on_turn)
  return reports
end

local function only_operators(given)
  for _, target in ipairs(given.targets) do
    if target.kind ~= "operator" then return false end
  end
  return true
end

--- Runs every target of a campaign.
---@param given table campaign (of ett.campaign)
---@param options table out (folder), backend, precisions, parts, part, device, retry_failed,
--- continue_changed, changed_advice (what to do without it, in words), limit (shapes a table), budget_seconds, seconds
--- (whole campaign), share (of ett.dist), check (false: no operator's outputs are held against double precision),
--- keep_raw (every repeat as a mark), profile (kernel times as marks), on_begin, on_progress, on_turn (called with the
--- least progress of the tables whenever the next of an interleaved campaign takes its turn)
---@return table[] reports, one a table
function sampler.run(given, options)
  local backend = sampler.backend(options.backend or given.backend)
  local parts, part = options.parts or 1, options.part or 1
  if part < 1 or part > parts then
    error_module.raise("usage", "--part must be 1 to %d (--parts), got %d", parts, part)
  end
  local session_options = sampler.session_options(given, options)
  local nothing = function() end
  local run = { campaign = given, parts = parts, part = part, retry_failed = options.retry_failed,
    continue_changed = options.continue_changed, changed_advice = options.changed_advice, limit = options.limit,
    share = options.share,
    chooser = options.chooser, keep_raw = options.keep_raw, check = options.check ~= false,
    on_begin = options.on_begin or nothing, on_progress = options.on_progress or nothing,
    deadline = options.seconds and sample.now() + options.seconds, precisions = options.precisions,
    limit_bytes = options.limit_bytes, together = given.together }
  -- The tables' passes take turns, so that a shape's visits lie far apart; a run that may end early, or
  -- chooses its shapes, fills one table after the other, and so do ranks, but where they measure every shape at once.
  local ranks_apart = options.share and not (given.together and only_operators(given))
  run.interleave = given.interleave and not (ranks_apart or options.chooser or run.deadline)
  run.began, run.seconds = sample.now(), run.interleave and not options.share and given.seconds
  local reports, sessions = {}, {}
  local function session_for(precision)
    if not sessions[precision] then
      sampler.check_precision(backend, precision)
      session_options.precision = precision
      local session, err = backend.open(session_options)
      if not session then error(err, 0) end
      sessions[precision] = session
    end
    return sessions[precision]
  end
  local closing <close> = setmetatable({}, { __close = function() -- luacheck: ignore closing
    for _, session in pairs(sessions) do session.close() end
  end })
  local ok, raised = xpcall(function()
    local jobs = {}
    for _, target in ipairs(given.targets) do
      for _, precision in ipairs(sampler.precisions_of(run, given, target)) do
        local session = session_for(precision)
        local topologies = target.kind == "collective" and session.topologies(target) or { false }
        for _, topology in ipairs(topologies) do
          local path = ("%s/%s"):format(options.out, sample_table.name(session.device, target, precision,
            topology or nil, parts, part))
          jobs[#jobs + 1] = { path = path, run = function()
            run.precision = precision
            if topology then session.use(topology) end
            if not topology or session.member then return run_target(session, target, run, path) end
          end }
        end
      end
    end
    if run.interleave then
      reports = interleaved(jobs, options.on_turn)
    else
      for _, job in ipairs(jobs) do
        local report = job.run()
        reports[#reports + 1] = report
        local stopped = report and report.interrupted
        if run.share then stopped = run.share.any(stopped) end
        if stopped then return end
      end
    end
  end, function(value)
    local object = error_module.from(value)
    object.traceback = object.traceback or debug.traceback(nil, 2)
    return object
  end)
  if not ok then error(raised, 0) end
  return reports
end

return sampler
