--- Slurm jobs for campaigns and searches: writes a batch script and submits it.
local error_module = require "ett.base.error"
local folder = require "ett.base.folder"
local host = require "ett.host"
local pretty = require("ett.base.pretty").value
local quote = require("ett.base.shell").quote
local sample = require "ett.sample"

local submit = {}

-- Slurm's names of partitions, accounts and MPI plugins.
local plain_word = "^[%w_][%w%._%-,+:@]*$"

-- sbatch has special rules for `#SBATCH` lines. Values that cannot be written safely are refused.
local function check(job)
  local function refuse(name, why)
    error_module.raise("usage", "submit: %s %s, got %s", name, why, pretty(job[name]))
  end
  for _, name in ipairs { "partition", "account", "mpi", "backend" } do
    if job[name] and not tostring(job[name]):match(plain_word) then
      refuse(name, "must be a name of letters, digits and ._-,+:@")
    end
  end
  for _, name in ipairs { "campaign", "out" } do
    local text = job[name]
    if text == "" then refuse(name, "must not be empty") end
    if text:find "%c" or text:find "^%-" then
      refuse(name, "must not hold control characters or begin with '-'")
    end
  end
  if job.out:find '["\\]' then refuse("out", "must not hold quotes or backslashes") end
  for _, word in ipairs(job.words or {}) do
    if word:find "%c" then error_module.raise("usage", "submit: %s holds a control character", pretty(word)) end
  end
  for _, name in ipairs { "nodes", "ranks_per_node", "minutes", "gpus_per_node" } do
    if job[name] ~= nil and math.type(job[name]) ~= "integer" then refuse(name, "must be a whole number") end
  end
end

--- The batch script of a campaign, or of a script whose ranks share their searches.
---@param job table campaign, script (true: run it with `ett run`), out, nodes, ranks_per_node, minutes, partition,
--- account, backend, words (further arguments of `ett sample`), mpi
function submit.script(job)
  check(job)
  local lines = { "#!/bin/bash" }
  local function directive(name, value)
    if value then lines[#lines + 1] = ("#SBATCH --%s=%s"):format(name, value) end
  end
  directive("job-name", job.script and "ett-search" or "ett-sample")
  directive("nodes", job.nodes)
  directive("ntasks-per-node", job.ranks_per_node)
  directive("time", job.minutes)
  directive("partition", job.partition)
  directive("account", job.account)
  directive("gpus-per-node", job.gpus_per_node)
  directive("output", ('"%s/slurm-%%j.log"'):format((job.out:gsub("%%", "%%%%"))))
  lines[#lines + 1] = "set -euo pipefail"
  -- Slurm's PMIx plugin has two fences. On fewer nodes than TreeWidth (50) the default one does not wait: every node of
  -- its tree is a root without children. A rank then sends while another is still inside MPI_Init, which crashes the
  -- other rank (a call through a null pointer). The ring fence waits for all.
  lines[#lines + 1] = "export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}"
  -- Virtual nodes share one machine: their shared-memory segments collide, and waiting ranks occupy each other's
  -- processors. On real nodes both settings have no cost.
  lines[#lines + 1] = "if [ \"$(srun --ntasks-per-node=1 hostname | sort -u | wc -l)\" -lt \"$SLURM_NNODES\" ]; then"
  lines[#lines + 1] = "  export OMPI_MCA_btl=self,tcp OMPI_MCA_mpi_yield_when_idle=1"
  lines[#lines + 1] = "fi"
  local words = { "srun", "--kill-on-bad-exit=1", "--mpi=" .. (job.mpi or "pmix"), quote(host.prefix .. "/bin/ett"),
    job.script and "run" or "sample", quote(job.campaign) }
  if not job.script then words[#words + 1] = "--out " .. quote(job.out) end
  if job.backend then words[#words + 1] = "--backend " .. quote(job.backend) end
  for _, word in ipairs(job.words or {}) do words[#words + 1] = quote(word) end
  lines[#lines + 1] = table.concat(words, " ")
  return table.concat(lines, "\n") .. "\n"
end

--- Writes the script beside the samples and submits it; returns the job's number and the script's path.
function submit.submit(job)
  if not os.execute("command -v sbatch >/dev/null 2>&1") then
    error_module.raise("missing", "submit: no sbatch here: install Slurm's client (slurm-client) or run `ett sample` "
      .. "under mpirun")
  end
  folder.make(job.out)
  local path = job.out .. (job.script and "/ett-search.sbatch" or "/ett-sample.sbatch")
  folder.write(path, submit.script(job))
  local pipe = io.popen(("sbatch --parsable %s 2>&1"):format(quote(path)))
  local text = pipe:read("a")
  local ok = pipe:close()
  local number = text:match("^(%d+)")
  if not ok or not number then error_module.raise("io", "sbatch refused '%s': %s", path, text:gsub("%s+$", "")) end
  return tonumber(number), path
end

local unfinished = { PENDING = true, RUNNING = true, COMPLETING = true, CONFIGURING = true, SUSPENDED = true,
  REQUEUED = true, REQUEUE_HOLD = true, REQUEUE_FED = true, RESIZING = true, SIGNALING = true, STAGE_OUT = true,
  STOPPED = true, SPECIAL_EXIT = true, RESV_DEL_HOLD = true }

-- Seconds of retries for an unreachable controller, and the pauses between two requests.
local controller_seconds, first_pause, longest_pause = 120, 0.2, 5.0

-- Reasons of a pending job that do not pass with time: its request or an administrator causes them.
local lasting = {}
for word in ([[AccountNotAllowed AssociationNotAllowed BadConstraints DependencyNeverSatisfied InvalidAccount InvalidQOS
    JobArrayTaskLimit JobHeldAdmin JobHeldUser NodeDown PartitionDown PartitionInactive PartitionNodeLimit
    PartitionTimeLimit QOSNotAllowed]]):gmatch "%S+" do lasting[word] = true end
local lasting_seconds = 20 -- a scheduler may give such a reason for a moment

-- Slurm's reason why a pending job has not started, or nil.
local function reason_of(text)
  local reason = text:match("JobState=PENDING Reason=(%S+)")
  return reason ~= "None" and reason or nil
end

-- Whether that reason does not pass with time.
local function lasts(reason)
  reason = reason:match("^[%w_]+")
  local limit = reason:match("^Assoc.*Limit$") or reason:match("^QOS.*Limit$") or reason:match("^ReqNodeNotAvail")
  return lasting[reason] or limit
end

local function output_of(line)
  local pipe = io.popen(line .. " 2>&1")
  local text = pipe:read("a")
  pipe:close()
  return text
end

--- Waits for a job's end. An interrupt (sample.catch_interrupts) ends the wait, not the job.
---@param number integer of the job
---@param note fun(reason: string) called with each new reason of Slurm why the job is pending
---@return string? state Slurm's ("COMPLETED", "FAILED", …), nil when interrupted; raises if Slurm does not know the job
---  or gives a reason why it cannot start
---@return string? more exit code and the path of its output, as text
function submit.wait(number, note)
  local pause, last, hindered, noted = first_pause, sample.now() + controller_seconds, nil, {}
  while not sample.interrupted() do
    local text = output_of(("scontrol -o show job %d"):format(number))
    local state = text:match("JobState=(%u[%u_]*)")
    if state then
      last = sample.now() + controller_seconds
      local reason = reason_of(text)
      if reason and not noted[reason] then note(reason) end
      if reason then noted[reason] = true end
      hindered = reason and lasts(reason) and (hindered or sample.now()) or nil
      if hindered and sample.now() - hindered >= lasting_seconds then
        error_module.raise("io", "job %d does not start: Slurm's reason is %s; `scancel %d` removes it", number, reason,
          number)
      end
      if not unfinished[state] then
        return state, ("exit code %s, its output is in %s"):format(text:match("ExitCode=(%d+:%d+)") or "unknown",
          text:match("StdOut=(.-) %u%a+=") or text:match("StdOut=(.-)%s*$") or "its folder")
      end
    elseif text:find("Invalid job id", 1, true) then -- the controller forgets a job some minutes after its end
      state = output_of(("sacct -n -X -P -o State -j %d"):format(number)):match("^(%u[%u_]*)")
      if state then return state, "as sacct has it" end
      error_module.raise("io", "job %d has ended and Slurm no longer knows its state: see its output", number)
    elseif sample.now() > last then
      error_module.raise("io", "job %d: scontrol says: %s", number, (text:gsub("%s+", " ")))
    end
    sample.pause(pause)
    pause = math.min(longest_pause, 1.2 * pause)
  end
  return nil
end

return submit
