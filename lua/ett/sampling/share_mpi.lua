--- The ranks of an MPI job as a campaign sees them: dynamic sharing of an operator's
--- shapes, and lockstep through a collective's.
local share_mpi = {}

--- Joins the job. dist: the module ett.dist.
function share_mpi.open(dist)
  local job = dist.open()
  local share = { job = job, topology_group = nil }

  function share.rank() return job.rank end

  local function share_list(group, list)
    local text = list and table.concat(list, ",") or ""
    local shared = {}
    for word in group:share_text(text):gmatch("%d+") do shared[#shared + 1] = math.tointeger(tonumber(word)) end
    return shared
  end

  --- take/commit/close of a target: rank 0 hands positions out while it measures too.
  local function dynamic(journal, list)
    list = share_list(job.world, list)
    local work = job.world:work(journal, #list)
    return {
      take = function(stop)
        if stop then return nil end
        return work:take()
      end,
      commit = function(lines) work:commit(table.concat(lines, "\n")) end,
      count = journal and function() return work:count() end, -- of all ranks, on rank 0
      close = function()
        work:close()
        if journal then journal:close() end
      end,
    }, list
  end

  --- Every member of a group measures the same shape at once; its rank 0 writes it down.
  local function lockstep(journal, list, group)
    list = share_list(group, list)
    local at, leader = 0, group:rank() == 0
    return {
      take = function(stop)
        at = at + 1
        return group:agree((leader and not stop and at <= #list) and 1 or 0) > 0 and at or nil
      end,
      commit = function(lines)
        if not leader then return end
        local ok, err = journal:append(table.concat(lines, "\n"))
        if not ok then error(err, 0) end
      end,
      close = function()
        if journal then journal:close() end
      end,
    }, list
  end

  --- The work of one target; journal and list are rank 0's. together: every rank measures every shape.
  function share.work(journal, list, target, together)
    if target.kind == "collective" then return lockstep(journal, list, share.topology_group) end
    if together then return lockstep(journal, list, job.world) end
    return dynamic(journal, list)
  end

  --- Returns on every rank at the same moment: whether any has been told to stop.
  function share.align(stopped) return job.world:reduce(stopped and 1 or 0, "max") > 0 end

  --- The mean of a number over the ranks; every rank comes here.
  function share.mean(value) return job.world:reduce(value, "sum") / job.size end

  --- Whether any rank has been told to stop. Every rank of the job comes here between two tables: one that went on
  --- alone would wait for the others for ever.
  function share.any(stopped) return job.world:agree(stopped and 1 or 0) > 0 end

  --- Adds up fields of a report over the ranks.
  function share.sum(report, names)
    job.world:agree(0) -- asleep, while others measure their last shapes
    for _, name in ipairs(names) do report[name] = math.tointeger(job.world:reduce(report[name], "sum")) end
  end

  --- The first rank where something is wrong, or nil: the same on every rank.
  function share.worst(wrong)
    local rank = math.floor(job.world:reduce(wrong and job.rank or job.size, "min"))
    return rank < job.size and rank or nil
  end

  --- The text of one rank on all of them; every rank comes here with the same rank.
  function share.text_of(rank, text) return job.world:share_text(text, rank) end

  --- Waits for the others at the end; from then on each may exit with a status of its own.
  function share.leave()
    job.world:agree(0)
    dist.leave()
  end

  --- Ends every rank: called when this one cannot go on.
  function share.abort(status) dist.abort(status or 1) end

  return share
end

return share_mpi
