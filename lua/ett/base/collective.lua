--- Names of the collectives: the kinds of ett.comm, and their aliases.
--
--   collective.kind "allreduce"  --> "all_reduce"
local comm = require "ett.comm"
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local collective = {}

--- The kinds that profiles and a cluster's links know: all_reduce, all_gather, …
collective.kinds = comm.kinds()

--- Other names.
collective.aliases = { allreduce = "all_reduce", allgather = "all_gather", reducescatter = "reduce_scatter",
  alltoall = "all_to_all", p2p = "send_recv", sendrecv = "send_recv", bcast = "broadcast" }

for _, kind in ipairs(collective.kinds) do collective.aliases[kind] = kind end

--- Standard name of a kind or alias, or nil.
function collective.find(name) return collective.aliases[name] end

--- Standard name of a kind or alias; raises with the nearest.
function collective.kind(name)
  local kind = collective.find(name)
  if kind then return kind end
  error_module.raise("missing", "unknown collective '%s'%s; known are %s", tostring(name),
    error_module.suggestion(name, schema.keys(collective.aliases)), table.concat(collective.kinds, ", "))
end

return collective
