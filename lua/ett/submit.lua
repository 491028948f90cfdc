--- Slurm jobs for campaigns: writes a batch script and submits it.
local error_module = require "ett.error"
local host = require "ett.host"
local quote = require("ett.shell").quote

local submit = {}

--- The batch script of a campaign.
---@param job table campaign, out, nodes, ranks_per_node, minutes, partition, account, backend, words (further
--- arguments of `ett sample`), mpi
function submit.script(job)
  local lines = { "#!/bin/bash" }
  local function directive(name, value)
    if value then lines[#lines + 1] = ("#SBATCH --%s=%s"):format(name, value) end
  end
  directive("job-name", "ett-sample")
  directive("nodes", job.nodes)
  directive("ntasks-per-node", job.ranks_per_node)
  directive("time", job.minutes)
  directive("partition", job.partition)
  directive("account", job.account)
  directive("gpus-per-node", job.gpus_per_node)
  directive("output", ('"%s/slurm-%%j.log"'):format(job.out))
  lines[#lines + 1] = "set -euo pipefail"
  -- Slurm's PMIx plugin has two fences. On fewer nodes than TreeWidth (50) its tree is no tree: every node is a root
  -- without children and leaves the fence alone, so that a rank sends while another still is inside MPI_Init, which
  -- kills that one (a call through a null pointer). Its ring waits for everybody.
  lines[#lines + 1] = "export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}"
  -- Virtual nodes share one machine: shared-memory segments collide, and ranks that believe
  -- they own a processor spin. Both settings cost nothing where nodes are real.
  lines[#lines + 1] = "if [ \"$(srun --ntasks-per-node=1 hostname | sort -u | wc -l)\" -lt \"$SLURM_NNODES\" ]; then"
  lines[#lines + 1] = "  export OMPI_MCA_btl=self,tcp OMPI_MCA_mpi_yield_when_idle=1"
  lines[#lines + 1] = "fi"
  local words = { "srun", "--kill-on-bad-exit=1", "--mpi=" .. (job.mpi or "pmix"), quote(host.prefix .. "/bin/ett"),
    "sample", quote(job.campaign), "--out", quote(job.out) }
  if job.backend then
    words[#words + 1] = "--backend"
    words[#words + 1] = quote(job.backend)
  end
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
  require("ett.folder").make(job.out)
  local path = job.out .. "/ett-sample.sbatch"
  require("ett.folder").write(path, submit.script(job))
  local pipe = io.popen(("sbatch --parsable %s 2>&1"):format(quote(path)))
  local text = pipe:read("a")
  local ok = pipe:close()
  local number = text:match("^(%d+)")
  if not ok or not number then error_module.raise("io", "sbatch refused '%s': %s", path, text:gsub("%s+$", "")) end
  return tonumber(number), path
end

return submit
