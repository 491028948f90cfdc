--- One shape of a campaign, measured and not written: run: get_one, get_profiler, run_function.
--
-- estimate-train-time's configurations give that shape in `shapes`; else it is the campaign's first. A collective is
-- measured on the largest topology that the job forms for it, by every rank of it.
local error_module = require "ett.base.error"
local marks = require "ett.samples.marks"
local sampler = require "ett.sampling.sampler"

local must = error_module.must
local sample_one = {}

--- Seconds of repeats with which every pass has its least number, or nil where it has, or is not to have, so many.
local function budget_for(resolved, results)
  if not (results and resolved and resolved.most_budgets) then return nil end
  if resolved.max_repeats < resolved.min_repeats then return nil end
  local budget
  for _, entry in ipairs(marks.passes(results)) do
    local result = entry[2]
    if result.repeats - result.dropped < resolved.min_repeats then
      budget = math.max(budget or 0, 2 * resolved.min_repeats * result.seconds / resolved.most_budgets)
    end
  end
  return budget and budget > resolved.budget_seconds and budget or nil
end

--- Measures the one shape; nothing waits behind it, so that its repeats are made however long they take. Under mpirun
--- or srun every rank calls it.
---@param given table campaign (of ett.campaign)
---@param options table as of sampler.run; shape: other values of its columns
---@return table { name, columns, shape, results | error, precision, device, topology (of a collective), leader }
function sample_one.measure(given, options)
  local backend = sampler.backend(options.backend or given.backend)
  local target = given.targets[1]
  local values = options.shape or target.one or target.values(1)
  local precision = sampler.precisions_of(options, given, target)[1]
  sampler.check_precision(backend, precision)
  local share = options.share
  local one = { name = target.name, columns = target.columns, shape = values, precision = precision,
    leader = not share or share.rank() == 0 }
  if target.kind == "operator" and not one.leader then return one end -- the leader measures it alone
  local settings = sampler.session_options(given, options)
  settings.precision, settings.keep_raw, settings.passes = precision, true, 1
  local session, err = backend.open(settings)
  if not session then error(err, 0) end
  local ok, raised = xpcall(function()
    if target.kind == "collective" then
      local topologies = session.topologies(target)
      one.topology = topologies[#topologies]
      if not one.topology then
        error_module.raise("argument", "%s: this job forms no topology for it: %s", target.name,
          target.collective == "send_recv" and "send_recv goes between 2 ranks, so give its sample ranks = 2, "
            .. "nodes = 1, or ranks = 1, nodes = 2" or "start at least 2 ranks")
      end
      session.use(one.topology)
      if not session.member then return end
      one.leader = session.group:rank() == 0
    end
    one.results, one.error = sampler.measure(session, target, values)
    settings.budget_seconds = budget_for(session.resolved, one.results)
    if settings.budget_seconds then
      session.close()
      session = must(backend.open(settings))
      one.results, one.error = sampler.measure(session, target, values)
    end
  end, error_module.from)
  one.device = session.device
  session.close()
  if not ok then error(raised, 0) end
  return one
end

return sample_one
