--- MPI back end: collectives between the ranks of an mpirun or srun job.
--
-- Sizes are in elements of the whole message. The time of a repeat is that of the slowest
-- rank, from a synchronised start.
local error_module = require "ett.base.error"
local machine = require "ett.sampling.machine"
local sample = require "ett.sample"

local backend = {
  name = "mpi",
  measures = "collective",
  summary = "collectives over MPI between the ranks of an mpirun or srun job",
  needs = "MPI (libopenmpi-dev, openmpi-bin)",
  precisions = { fp32 = true },
  placed = "mpirun or srun places the ranks (--bind-to, --cpu-bind)",
}

--- true, or nil and a message that names the missing part.
function backend.available()
  local dist, why = error_module.part("ett.dist", "the MPI back end", "install libopenmpi-dev and openmpi-bin")
  return dist and true, why
end

--- Possible numbers of nodes (or ranks): powers of two up to `most`, and `most`.
local function sizes(most)
  local list, n = {}, 1
  while n < most do
    list[#list + 1] = n
    n = n * 2
  end
  list[#list + 1] = most
  return list
end

--- Topologies (nodes x ranks per node) that a job can form for a target.
function backend.topologies(job, target)
  local list = {}
  for _, nodes in ipairs(target.nodes and { target.nodes } or sizes(job.nodes)) do
    for _, ranks in ipairs(target.ranks and { target.ranks } or sizes(job.ranks_per_node)) do
      if nodes > job.nodes or ranks > job.ranks_per_node then
        error_module.raise("argument", "the campaign needs %d nodes of %d ranks, this job has %d of %d", nodes, ranks,
          job.nodes, job.ranks_per_node)
      end
      local fits = nodes * ranks >= 2 and (target.collective ~= "send_recv" or nodes * ranks == 2)
      if fits then list[#list + 1] = { nodes = nodes, ranks_per_node = ranks } end
    end
  end
  return list
end

--- Forms the group of a topology in a session; every rank of the job must call it.
function backend.form_group(session, job, topology, share)
  local member = job.node < topology.nodes and job.local_rank < topology.ranks_per_node
  if session.group then session.group:close() end
  session.group = job.world:split(member and 0 or -1, job.rank)
  session.member, session.topology = member, topology
  if share then share.topology_group = session.group end
end

--- Opens a session; every rank of the job must call it.
---@param options table min_repeats, max_repeats, budget_seconds, target, statistic, keep_raw, share
function backend.open(options)
  options = options or {}
  local ok, why = backend.available()
  if not ok then return nil, error_module.new("missing", "%s", why) end
  local job = require("ett.dist").open()
  if job.size < 2 then
    return nil, error_module.new("missing", "collectives need at least 2 ranks: run under mpirun -n 2 or srun -n 2")
  end
  local share, processor = options.share, machine.processor()
  local session = {
    backend = backend, resolved = { budget_seconds = options.budget_seconds or 0.05, target = options.target or 0.01,
      min_repeats = options.min_repeats or 10, max_repeats = options.max_repeats or 200 },
    device = processor.device,
    header = {
      { "machine", sample.hostname() },
      { "device", ("%s, %d ranks on %d nodes, %d processors here"):format(processor.model, job.size, job.nodes,
        sample.processors()) },
      { "clock", ("%s MHz nominal"):format(processor.mhz or "?") },
      { "libraries", job.library },
    },
  }
  if job.size > sample.processors() * job.nodes then
    session.header[#session.header + 1] = { "warning",
      "more ranks than processors: the times measure context switches, not a network" }
  end

  function session.topologies(target) return backend.topologies(job, target) end

  --- Forms the group of a topology; every rank of the job must call it.
  function session.use(topology) backend.form_group(session, job, topology, share) end

  --- Times a collective of `count` elements on the current group: result | nil, error.
  function session.measure_collective(target, count)
    local r = session.resolved
    local result, failure = session.group:time { kind = target.collective, count = count, in_place = target.in_place,
      min_repeats = r.min_repeats, max_repeats = r.max_repeats, budget_seconds = r.budget_seconds, target = r.target,
      keep_raw = options.keep_raw }
    if result and options.statistic == "median" then
      result.seconds = result.median_seconds
    elseif result then
      result.known_to = result.half_width_seconds / result.seconds
    end
    return result, failure
  end

  function session.close()
    if session.group then session.group:close() end
  end
  return session
end

return backend
