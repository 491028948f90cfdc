--- Shares a campaign between the ranks of an MPI job (mpirun, srun).
--
-- Rank 0 holds the tables: it hands out positions of the list of pending shapes one by
-- one and appends the rows that come back, while it measures too.
local share = {}

local function in_job()
  local size = tonumber(os.getenv("OMPI_COMM_WORLD_SIZE") or os.getenv("PMI_SIZE")
    or os.getenv("PMIX_RANK") and os.getenv("SLURM_NTASKS") or "1")
  return size and size > 1
end

--- The shared job of this process, or nil when it runs alone.
function share.join()
  if not in_job() then return nil end
  local sample = require "ett.sample"
  if (tonumber(os.getenv("OMPI_COMM_WORLD_LOCAL_SIZE") or os.getenv("SLURM_NTASKS")) or 1) > sample.processors() then
    -- More ranks than processors: a rank that waits must not spin on one that another needs.
    sample.default_environment("OMPI_MCA_mpi_yield_when_idle", "1")
  end
  local error_module = require "ett.base.error"
  local dist, why = error_module.part("ett.dist", "the MPI back end", "install libopenmpi-dev and openmpi-bin")
  if not dist then error_module.raise("missing", "this process runs under mpirun or srun, but %s", why) end
  return require("ett.sampling.share_mpi").open(dist)
end

return share
