--- Shares a campaign or a search between the ranks of an MPI job (mpirun, srun).
--
-- Rank 0 holds the tables. It hands out positions in the list of pending shapes one by one and appends the returned
-- rows; it also measures. All ranks of a group measure a collective's shapes together.
local error_module = require "ett.base.error"
local sample = require "ett.sample"

local share = {}

local function in_job()
  local size = tonumber(os.getenv("OMPI_COMM_WORLD_SIZE") or os.getenv("PMI_SIZE")
    or os.getenv("PMIX_RANK") and os.getenv("SLURM_NTASKS") or "1")
  return size and size > 1
end

local function share_list(group, list)
  local shared = {}
  group:agree(0) -- sleeps until all ranks arrive; a broadcast would spin
  for word in group:share_text(list and table.concat(list, ",") or ""):gmatch("%d+") do
    shared[#shared + 1] = math.tointeger(tonumber(word))
  end
  return shared
end

--- Rank 0 hands out positions and measures too.
local function dynamic(job, journal, list)
  list = share_list(job.world, list)
  local work = job.world:work(journal or nil, #list)
  return {
    take = function(stop, news)
      if stop then return nil end
      return work:take(news, journal == false)
    end,
    tell = function(news) return work:tell(news) end,
    commit = function(lines) work:commit(table.concat(lines, "\n")) end,
    count = journal and function() return work:count() end, -- of all ranks; on rank 0
    close = function()
      work:close()
      if journal then journal:close() end
    end,
  }, list
end

--- All members of a group measure the same shape at once; rank 0 of the group writes the row.
local function lockstep(group, journal, list)
  list = share_list(group, list)
  local at, leader = 0, group:rank() == 0
  return {
    take = function(stop)
      at = at + 1
      return group:agree((leader and not stop and at <= #list) and 1 or 0) > 0 and at or nil
    end,
    commit = function(lines)
      if leader then error_module.must(journal:append(table.concat(lines, "\n"))) end
    end,
    close = function()
      if journal then journal:close() end
    end,
  }, list
end

--- The job as a campaign uses it. dist: the module ett.dist.
local function open(dist)
  local job = dist.open()
  local world = job.world
  local shared = { job = job, topology_group = nil }

  function shared.rank() return job.rank end

  function shared.size() return job.size end

  --- take(stop), commit(lines) and close() of one target, and its list on every rank. journal and list are those of
  --- rank 0. take(stop, hints) also sends a text to the others, and returns their texts after the position. journal =
  --- false: nothing is committed, and positions are requested ahead. tell(hints) exchanges texts without a position or
  --- a wait; false: the previous text is unanswered. together: every rank measures every shape.
  function shared.work(journal, list, target, together)
    if target.kind == "collective" then return lockstep(shared.topology_group, journal, list) end
    if together then return lockstep(world, journal, list) end
    return dynamic(job, journal, list)
  end

  --- A barrier. Returns whether any rank must stop.
  function shared.align(stopped) return world:reduce(stopped and 1 or 0, "max") > 0 end

  --- The mean of a number over the ranks; every rank must call it.
  function shared.mean(value) return world:reduce(value, "sum") / job.size end

  --- Whether any rank must stop. Every rank calls it between two tables: a rank that continued alone would wait
  --- for the others forever.
  function shared.any(stopped) return world:agree(stopped and 1 or 0) > 0 end

  --- Sums fields of a report over the ranks.
  function shared.sum(report, names)
    world:agree(0) -- sleeps while other ranks measure their last shapes
    for _, name in ipairs(names) do report[name] = math.tointeger(world:reduce(report[name], "sum")) end
  end

  --- The first rank with an error, or nil; equal on every rank.
  function shared.worst(wrong)
    local rank = math.floor(world:reduce(wrong and job.rank or job.size, "min"))
    return rank < job.size and rank or nil
  end

  --- Broadcasts the text of one rank; every rank must call it with the same rank.
  function shared.text_of(rank, text) return world:share_text(text, rank) end

  --- Waits for the other ranks at the end; afterwards each rank may exit with its own status.
  function shared.leave()
    world:agree(0)
    dist.leave()
  end

  --- Ends every rank; for errors from which this rank cannot continue.
  function shared.abort(status) dist.abort(status or 1) end

  return shared
end

--- The plain values compute(1), … compute(count), on every rank; the ranks divide the work.
---@param shared table? of share.join
function share.each(shared, count, compute)
  local list, own = {}, {}
  local size, rank = shared and shared.size() or 1, shared and shared.rank() or 0
  for i = rank + 1, count, size do
    list[i] = compute(i)
    own[#own + 1] = list[i]
  end
  if not shared then return list end
  local json = require "ett.json"
  local text = json.encode(own)
  shared.any(false) -- sleeps until all ranks arrive
  for from = 0, size - 1 do
    for k, value in ipairs(json.decode(shared.text_of(from, text))) do list[from + 1 + (k - 1) * size] = value end
  end
  return list
end

--- The rank of this process in the job that it has joined, else 0.
function share.rank() return share.joined and share.joined.rank() or 0 end

--- The shared job of this process; nil if it runs alone.
---@param measures boolean? whether collectives of MPI itself are measured
function share.join(measures)
  if not in_job() then return nil end
  local size, local_size = os.getenv "OMPI_COMM_WORLD_SIZE", os.getenv "OMPI_COMM_WORLD_LOCAL_SIZE"
  if not measures and size and size == local_size then
    -- Ranks of one machine use shared memory; the search for networks would take MPI 0.2 s.
    sample.default_environment("OMPI_MCA_pml", "ob1")
  end
  if (tonumber(local_size or os.getenv("SLURM_NTASKS")) or 1) > sample.processors() then
    -- With more ranks than processors, a waiting rank must not spin on another rank's processor.
    sample.default_environment("OMPI_MCA_mpi_yield_when_idle", "1")
  end
  local dist, why = error_module.part("ett.dist", "the MPI back end", "install libopenmpi-dev and openmpi-bin")
  if not dist then error_module.raise("missing", "this process runs under mpirun or srun, but %s", why) end
  share.joined = open(dist)
  return share.joined
end

return share
