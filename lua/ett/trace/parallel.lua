--- Which dimension of the parallel layout (dp, tp, pp, ep, cp) a collective serves, or emb: sharded embedding tables.
--
-- The first source that answers counts, and is recorded:
--   1. the process group's description or name ("tp", "fsdp", "mesh_dp", …);
--   2. the library of the kernel, if it serves only one (DeepEP);
--   3. a host range around the launch ("DistributedDataParallel", "_ReduceFromModelParallelRegion", "FSDP::", …);
--   4. the ranges of the other collectives of the group, if they agree (not for the group of all ranks); of an
--      exchange without a named group, those of the other exchanges on its stream;
--   5. the group's size, if only one dimension of the workload card has that size;
--   6. the kind of the collective, if the card leaves one choice (send/recv with pp > 1, all-to-all with ep > 1).
-- Otherwise the dimension is unknown.
local comm = require "ett.trace.comm"

local parallel = {}

parallel.dimensions = { "dp", "tp", "pp", "ep", "cp", "emb" }

local group_words = {
  { "tp", { "tp", "tensor", "mp", "model" } },
  { "pp", { "pp", "pipe", "pipeline" } },
  { "ep", { "ep", "expert", "moe" } },
  { "cp", { "cp", "context", "sequence", "sp" } },
  { "dp", { "dp", "data", "fsdp", "hsdp", "ddp", "replicate", "shard", "zero" } },
}

local range_patterns = {
  { "dp", { "DistributedDataParallel", "FSDP", "FullyShardedDataParallel", "AccumulateGrad", "%f[%a]ddp",
    "reduce_grads", "allreduce_grad", "all_reduce_grad", "ZeRO", "param_gather" } },
  { "tp", { "ModelParallelRegion", "TensorParallel", "RowParallel", "ColumnParallel", "VocabParallel",
    "SequenceParallelRegion" } },
  { "pp", { "send_forward", "recv_forward", "send_backward", "recv_backward", "p2p_communication" } },
  { "emb", { "sparse arch", "All2All_Pooled", "All2All_Seq", "all2all_data", "alltoall_[fb]wd", "sparse_data_dist",
    "%f[%a]KJT", "SplitsAllToAll", "PooledEmbeddings", "SequenceEmbeddings" } },
  { "ep", { "[eE]xpert", "MoE", "moe_", "dispatch" } },
  { "cp", { "ContextParallel", "ring_attention", "RingAttention" } },
}

local exchanges = { all_to_all = true, send_recv = true, send = true, recv = true }

--- The dimension in a group's description or name, or nil.
function parallel.of_group(text)
  if not text then return nil end
  local tokens = {}
  for token in tostring(text):lower():gmatch("%a+") do tokens[token] = true end
  for _, rule in ipairs(group_words) do
    for _, word in ipairs(rule[2]) do
      if tokens[word] then return rule[1] end
    end
  end
  return nil
end

--- The dimension in a host range's name, or nil.
function parallel.of_range(name)
  for _, rule in ipairs(range_patterns) do
    for _, pattern in ipairs(rule[2]) do
      if name:find(pattern) then return rule[1] end
    end
  end
  return nil
end

--- The only dimension of the card that fits, by size or by kind: dimension, "sizes" or "kind".
function parallel.of_card(card, kind, size)
  local fitting, wider = {}, {}
  for _, dimension in ipairs(parallel.dimensions) do
    local degree = tonumber(card[dimension])
    if degree and degree > 1 then
      wider[dimension] = true
      wider[#wider + 1] = dimension
      if degree == size then fitting[#fitting + 1] = dimension end
    end
  end
  if #wider == 1 then return wider[1], "sizes" end
  if (kind == "send_recv" or kind == "send" or kind == "recv") and wider.pp then return "pp", "kind" end
  if kind == "all_to_all" and wider.ep then return "ep", "kind" end
  if size and #fitting == 1 then return fitting[1], "sizes" end
  return nil
end

--- The group of each collective of a lane; of an exchange without one its stream, since PyTorch gives every process
--- group a stream; false of others.
local function homes_of(lane, list)
  local homes, streams = {}, nil
  for i, each in ipairs(list) do
    homes[i] = each.group or false
    if not each.group and exchanges[each.kind] then
      streams = streams or lane:comm_launches():columns { "stream" }
      homes[i] = streams[i] or false
    end
  end
  return homes
end

--- Dimension and how it was found for each collective of a lane (arrays as long as the list).
function parallel.of_lane(lane)
  local view = lane.view
  local list, card = lane:collectives(), view:card()
  local dims, how, open = {}, {}, false
  local by_sort = {}
  for i, each in ipairs(list) do
    local sort = getmetatable(each) or each
    local said = by_sort[sort]
    if said == nil then
      local dimension = parallel.of_group(each.group_description) or parallel.of_group(each.group)
      local library = not dimension and not lane.tpu and comm.library_of(each.name)
      said = { dimension or library and library.dimension, dimension and "process groups" or "kernels" }
      by_sort[sort] = said
    end
    if said[1] then dims[i], how[i] = said[1], said[2] else open = true end
  end
  if not open then return { dims = dims, how = how } end
  local ranges
  if not lane.tpu then
    local host = view:named_rows("parallel", { "annotation", "cpu_op" },
      function(name) return parallel.of_range(name) ~= nil end)
    local _, calls = lane:comm_launches()
    ranges = calls:enclosing(host):columns{ "name" }
  end
  local homes = homes_of(lane, list)
  local by_card, agreed = {}, {} -- agreed: the dimension that all ranges of a group name
  for i, each in ipairs(list) do
    if not dims[i] and ranges and ranges[i] then
      local said = parallel.of_range(ranges[i])
      -- Data parallelism reduces and gathers: exchanges inside its range serve another dimension.
      if said ~= "dp" or not exchanges[each.kind] then dims[i], how[i] = said, "ranges" end
    end
    local home = dims[i] and homes[i]
    if home then
      if agreed[home] == nil then agreed[home] = dims[i] end
      local of_all = each.group and each.group_size == lane.process.world_size
      if agreed[home] ~= dims[i] or of_all then agreed[home] = false end
    end
  end
  for i, each in ipairs(list) do
    local other = not dims[i] and homes[i] and agreed[homes[i]]
    if other and (other ~= "dp" or not exchanges[each.kind]) then dims[i], how[i] = other, "ranges" end
    if not dims[i] then
      local sort = getmetatable(each) or each
      by_card[sort] = by_card[sort] or { parallel.of_card(card, each.kind, each.group_size) }
      dims[i], how[i] = by_card[sort][1], by_card[sort][2]
    end
  end
  return { dims = dims, how = how }
end

return parallel
