-- The MPI binding with every allocation failing in turn, on a job of one rank: what several ranks do to each other
-- needs several ranks (mpi_slow_spec.lua). Forming groups is left out: Open MPI does not survive a failed allocation.
local oom = require "oom"

it("with failing allocations ett.dist shares texts, reduces and waits", function()
  local there, dist = pcall(require, "ett.dist")
  if not there then pending("the MPI back end is not built here") return end
  local job = dist.open()
  oom.every_allocation(function()
    local text = job.world:share_text("a text")
    local sum = job.world:reduce(2, "sum")
    job.world:barrier()
    return #text + sum
  end)
end)
