--- Goodput: the share of a run's time spent on useful training; the rest is lost to failures, checkpoints and restarts.
--
-- Every device fails at a constant rate; a failure stops the whole run. The run then restarts and repeats the work
-- since its last checkpoint. Failures also occur during checkpoints and restarts. The expected time of w seconds of
-- work and a checkpoint of d is M e^(R/M) (e^((w+d)/M) - 1), with M seconds between failures and restarts of R seconds
-- (Daly 2006, Future Generation Computer Systems 22, equation 20).
local fields = require "ett.plan.fields"
local schema = require "ett.base.schema"
local slices = require "ett.step.slices"
local stacks = require "ett.operator.stack"

local goodput = {}

--- Default seconds of a restart: assumed.
goodput.restart_seconds = 600

-- Mean seconds between failures above which failures are ignored.
local longest_between = 1e12

--- Seconds of work between checkpoints with the largest share: the root of e^((w+d)/M) (1 - w/M) = 1, where the
--- derivative of the share is 0.
---@param write number seconds of a checkpoint
---@param between number mean seconds between failures
function goodput.interval(write, between)
  local low, high = 0.0, 1.0
  for _ = 1, 60 do
    local middle = (low + high) / 2
    if (1 - middle) * math.exp(middle + write / between) > 1 then low = middle else high = middle end
  end
  return high * between
end

-- A run with a smaller share never ends: a day of work takes 2700 years.
local least_share = 1e-6

--- Share of the time spent on useful training; 0 if the run never ends.
---@param work number seconds of work between checkpoints
---@param write number seconds of a checkpoint, without work
---@param between number mean seconds between failures
---@param restart number seconds
function goodput.share(work, write, between, restart)
  local span = (work + write) / between
  if span > 700 or restart / between > 700 then return 0.0 end
  -- e^x - 1 = 2 e^(x/2) sinh(x/2), which is also accurate for small x.
  local grown = span < 1e-5 and span * (1 + span / 2) or math.exp(span) - 1
  local share = work / (between * math.exp(restart / between) * grown)
  return share >= least_share and share or 0.0
end

--- Parameters per device in a checkpoint, for the busiest device: ranks with the same weights share these and their
--- optimizer states.
local function shard_parameters(e)
  local sharing, most = slices.sharing(e.plan), 0.0
  for _, s in ipairs(e.stages) do
    most = math.max(most, (s.parameters - s.expert_parameters) / sharing.dense + s.expert_parameters / sharing.expert)
  end
  return most
end

--- Seconds of work between checkpoints, which are written after whole steps: the first multiple of the step that is not
--- below `given`; without `given` the multiple with the largest share. Without `given`, a shorter step never makes the
--- run longer.
local function whole_steps(step, given, write, between)
  if given then return math.ceil(given / step - 1e-9) * step end -- a multiple stays, whatever its last digits
  local fewer = math.floor(goodput.interval(write, between) / step) * step
  local function share(work) return goodput.share(work, write, between, 0.0) end
  return fewer > 0 and share(fewer) > share(fewer + step) and fewer or fewer + step
end

--- Checkpoints, failures and goodput of a plan whose busiest device writes `parameters` parameters; nil if the failure
--- rate is unknown. Checkpoints of Muon count two moments of each matrix, one more than it has. The interval of
--- checkpoints is at most the run: the last one is at its end.
---@param step number? mean seconds of a step; nil: the largest goodput of any step and checkpoint_every_seconds
---@param steps integer? steps of the run
---@return table? { checkpoint_bytes, checkpoint_write_seconds, checkpoint_interval_seconds, failure_interval_seconds,
--- goodput_percent }
function goodput.of(p, cluster, devices, parameters, step, steps)
  local own = cluster.failures or {}
  local rate = p.failures_per_device_day or own.per_device_day
  local between = rate and 86400 / (rate * devices)
  if not between or between > longest_between then return nil end
  -- Under autocast the optimizer's fp32 weight is the weight itself.
  local weight = stacks.value(p.stack or cluster.stack or "plain", "autocast") and 0 or schema.wide_bytes(p.dtype)
  local bytes = parameters * (weight + (p.optimizer_bytes or fields.adam_bytes(p)))
  local write = bytes / p.device_storage_bandwidth
  local restart = p.restart_seconds or own.restart_seconds or goodput.restart_seconds
  local work = step and whole_steps(step, p.checkpoint_every_seconds, write, between)
    or goodput.interval(write, between)
  if steps then work = math.min(work, steps * step) end
  return { checkpoint_bytes = bytes, checkpoint_write_seconds = write, checkpoint_interval_seconds = work,
    failure_interval_seconds = between, goodput_percent = 100 * goodput.share(work, write, between, restart) }
end

--- Adds goodput to an estimate; does nothing if the failure rate is unknown.
---@param steps integer? of the run
function goodput.add(e, cluster, steps)
  local step, parameters = e.varied_mean_seconds or e.step_seconds, shard_parameters(e)
  local own = goodput.of(e.plan, cluster, e.devices, parameters, step, steps)
  for name, value in pairs(own or {}) do e[name] = value end
end

-- Share of the plan's interval by which whole steps may lengthen it without a warning.
local most_longer = 0.05

--- A warning if the interval of an estimate's checkpoints is shorter than the plan's or much longer; else nil.
function goodput.warning(e)
  local given, used = e.plan.checkpoint_every_seconds, e.checkpoint_interval_seconds
  if not (given and used) or used >= given * (1 - 1e-9) and used <= (1 + most_longer) * given then return nil end
  local step = e.varied_mean_seconds or e.step_seconds
  local count = math.floor(used / step + 0.5)
  local which = count > 1 and ("every %d steps"):format(count) or "each step"
  return ("checkpoint_every_seconds = %g: %s"):format(given, given > used
    and ("the run has %.4g s of work and one checkpoint, at its end"):format(used)
    or ("a checkpoint follows %s of %.4g s"):format(which, step))
end

return goodput
