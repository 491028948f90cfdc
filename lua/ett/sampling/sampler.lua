--- Runs a campaign: one table per operator, precision, device and topology (ett.sampling.runner), or one shape of it.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local runner = require "ett.sampling.runner"
local sample = require "ett.sample"
local sample_table = require "ett.samples.table"
local schema = require "ett.base.schema"
local turns = require "ett.sampling.turns"

local must = error_module.must
local sampler = {}

-- The back end of a name, also if this machine lacks it.
local function known_backend(name)
  if not find.path("samplers", name) then
    error_module.raise("missing", "%s", error_module.unknown("back end", name, find.names "samplers"))
  end
  return find.load("samplers", name)
end

--- Loads a back end by name. Raises an error that names the missing part.
function sampler.backend(name)
  local backend = known_backend(name)
  local ok, why = backend.available()
  if not ok then error_module.raise("missing", "%s", why) end
  return backend
end

--- The precisions in which a target is measured: the run's, else its own, else the campaign's.
local function precisions_of(options, given, target)
  local wanted = options.precisions or target.precision or given.precision
  return type(wanted) == "string" and { wanted } or wanted
end

--- Raises an error if the back end does not measure that precision.
local function check_precision(backend, precision)
  if not backend.precisions or backend.precisions[precision] then return end
  error_module.raise("usage", "the back end '%s' measures %s, not '%s'", backend.name,
    table.concat(schema.keys(backend.precisions), ", "), precision)
end

--- Raises an error if no back end has that name, or if it does not measure one of the precisions.
---@param precisions string[]?
function sampler.check(name, precisions)
  local backend = known_backend(name)
  for _, precision in ipairs(precisions or {}) do check_precision(backend, precision) end
end

--- The options of a back end's open(), without the precision.
local function session_options(given, options)
  -- Ranks that share a machine take a GPU each, or a processor.
  local device = options.device or options.share and options.share.job.local_rank
  return { processor = options.device, threads = options.threads or given.threads,
    seed = given.seed, budget_seconds = options.budget_seconds or given.budget_seconds, target = given.target,
    min_repeats = given.min_repeats, max_repeats = options.max_repeats or given.max_repeats
      or (given.min_repeats or 0) > 100 and given.min_repeats or nil,
    limit_bytes = options.limit_bytes, keep_raw = options.keep_raw, share = options.share, device = device,
    profile = options.profile, autotune = options.autotune, cold_bytes = options.cold_bytes or given.cold_bytes,
    visits = options.visits or given.visits, statistic = given.statistic, together = options.share and given.together,
    schedule = given.schedule }
end

--- Runs jobs that take turns. Jobs of the same table run one after the other.
local function interleaved(jobs, on_turn)
  local tables, by_path, reports = {}, {}, {}
  for _, job in ipairs(jobs) do
    local same = by_path[job.path]
    if same then
      same[#same + 1] = job
    else
      same = { job }
      by_path[job.path] = same
      tables[#tables + 1] = function()
        for _, one in ipairs(same) do
          local report = one.run() -- others may have ended meanwhile
          reports[#reports + 1] = report
        end
      end
    end
  end
  turns.take(tables, on_turn)
  return reports
end

--- Runs jobs one after the other until one is stopped. Second result: the number of jobs not begun.
local function in_order(jobs, share)
  local reports, begun = {}, 0
  for i, job in ipairs(jobs) do
    begun = i
    local report = job.run()
    reports[#reports + 1] = report
    local stopped = report and report.interrupted
    if share then stopped = share.any(stopped) end
    if stopped then break end
  end
  return reports, #jobs - begun
end

local function only_operators(given)
  for _, target in ipairs(given.targets) do if target.kind ~= "operator" then return false end end
  return true
end

--- State that all tables of one run share.
local function run_of(given, options)
  local parts, part = options.parts or 1, options.part or 1
  if part < 1 or part > parts then
    error_module.raise("usage", "--part must be 1 to %d (--parts), got %d", parts, part)
  end
  local nothing = function() end
  local run = { campaign = given, parts = parts, part = part, check = options.check ~= false,
    on_begin = options.on_begin or nothing, on_progress = options.on_progress or nothing,
    deadline = options.seconds and sample.now() + options.seconds, together = given.together, began = sample.now() }
  for _, name in ipairs { "retry_failed", "continue_changed", "changed_advice", "limit", "share", "chooser", "keep_raw",
    "precisions", "limit_bytes" } do
    run[name] = options[name]
  end
  -- The visits of all tables take turns, so that the visits of a shape lie far apart. Tables are filled one after the
  -- other if the run may end early or chooses its shapes, and on ranks that do not measure every shape together.
  local ranks_apart = options.share and not (given.together and only_operators(given))
  run.interleave = given.interleave and not (ranks_apart or options.chooser or run.deadline)
  run.seconds = run.interleave and not options.share and given.seconds
  return run
end

--- The topologies of a session's job that a collective can run on. Raises an error if there is none.
local function topologies_of(session, target)
  local topologies = session.topologies(target)
  if #topologies == 0 then
    error_module.raise("argument", "%s: the ranks of this job cannot run it: %s", target.name,
      target.collective == "send_recv" and "send_recv needs 2 ranks: give its sample ranks = 2, "
        .. "nodes = 1, or ranks = 1, nodes = 2"
        or "it needs 2 ranks: give its sample more 'ranks' or 'nodes', or start more")
  end
  return topologies
end

--- One job for each target, precision and topology.
local function jobs_of(given, options, run, session_for)
  local jobs = {}
  for _, target in ipairs(given.targets) do
    for _, precision in ipairs(precisions_of(run, given, target)) do
      local session = session_for(precision)
      for _, topology in ipairs(target.kind == "collective" and topologies_of(session, target) or { false }) do
        local numbers = topology and { topology.nodes, topology.ranks_per_node } or {}
        if run.parts > 1 then table.move({ run.parts, run.part }, 1, 2, #numbers + 1, numbers) end
        local path = ("%s/%s"):format(options.out, sample_table.name(session.device, target.name, precision, numbers))
        jobs[#jobs + 1] = { path = path, run = function()
          run.precision = precision
          if topology then session.use(topology) end
          if not topology or session.member then return runner.run(session, target, run, path) end
        end }
      end
    end
  end
  return jobs
end

--- Runs every target of a campaign.
---@param given table campaign (of ett.campaign)
---@param options table out (folder), backend, precisions, parts, part, device, retry_failed, continue_changed,
--- changed_advice (the alternative, as text), limit (shapes a table), budget_seconds, seconds (whole campaign), share
--- (of ett.share), chooser (of ett.sampling.active), check (false: no comparison of outputs with double precision),
--- keep_raw (every repeat as a mark), profile (kernel times as marks), on_begin, on_progress, on_turn (called with the
--- least progress of the tables at each turn of an interleaved campaign)
---@return table[] reports, one a table
---@return integer|nil number of tables not begun, because the run ended early
function sampler.run(given, options)
  local backend = sampler.backend(options.backend or given.backend)
  local run, settings, sessions = run_of(given, options), session_options(given, options), {}
  local function session_for(precision)
    if not sessions[precision] then
      check_precision(backend, precision)
      settings.precision = precision
      sessions[precision] = must(backend.open(settings))
    end
    return sessions[precision]
  end
  local closing <close> = setmetatable({}, { __close = function() -- luacheck: ignore closing
    for _, session in pairs(sessions) do session.close() end
  end })
  local ok, result, left = xpcall(function()
    local jobs = jobs_of(given, options, run, session_for)
    if run.interleave then return interleaved(jobs, options.on_turn) end
    return in_order(jobs, run.share)
  end, error_module.traced)
  if not ok then error(result, 0) end
  return result, left
end

local most_attempts = 6 -- attempts per shape; each at least doubles the budget

--- Seconds of repeats that should give every pass its minimum number, at least twice the previous seconds. nil if every
--- pass has enough, or is not allowed as many.
local function budget_for(resolved, results)
  if not (results and resolved and resolved.most_budgets) then return nil end
  if resolved.max_repeats < resolved.min_repeats then return nil end
  local budget
  for _, entry in ipairs(sample_table.passes(results)) do
    local result = entry[2]
    if result.repeats - result.dropped < resolved.min_repeats then
      budget = math.max(budget or 2 * resolved.budget_seconds,
        2 * resolved.min_repeats * result.seconds / resolved.most_budgets)
    end
  end
  return budget
end

--- Uses the largest topology of the job for a collective. False on a rank outside it.
local function use_topology(session, target, one)
  local topologies = topologies_of(session, target)
  one.topology = topologies[#topologies]
  session.use(one.topology)
  if not session.member then return false end
  one.leader = session.group:rank() == 0
  return true
end

--- Measures one shape and writes no file (run: get_one, get_profiler, run_function): the shape that the campaign names,
--- else its first. All repeats are made, however long they take. Under mpirun or srun every rank must call this
--- function.
---@param given table campaign (of ett.campaign)
---@param options table as of sampler.run; shape: other values of its columns
---@return table { name, columns, shape, results | error, precision, device, topology (of a collective), leader }
function sampler.run_one(given, options)
  local backend = sampler.backend(options.backend or given.backend)
  local target, share = given.targets[1], options.share
  local values = options.shape or target.one or target.values(1)
  local precision = precisions_of(options, given, target)[1]
  check_precision(backend, precision)
  local one = { name = target.name, columns = target.columns, shape = values, precision = precision,
    leader = not share or share.rank() == 0 }
  if target.kind == "operator" and not one.leader then return one end -- the leader measures it alone
  local settings = session_options(given, options)
  settings.precision, settings.keep_raw, settings.visits = precision, true, 1
  local session = must(backend.open(settings))
  local ok, raised = xpcall(function()
    if target.kind == "collective" and not use_topology(session, target, one) then return end
    one.results, one.error = runner.measure(session, target, values)
    for _ = 2, most_attempts do
      settings.budget_seconds = budget_for(session.resolved, one.results)
      if not settings.budget_seconds then break end
      session.close()
      session = must(backend.open(settings))
      one.results, one.error = runner.measure(session, target, values)
    end
  end, error_module.from)
  one.device = session.device
  session.close()
  if not ok then error(raised, 0) end
  return one
end

return sampler
