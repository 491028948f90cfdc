--- The dimension of the parallel layout (dp, tp, pp, ep, cp) of a collective, or emb: sharded embedding tables, and
-- embeddings that two pipeline stages share.
--
-- The first source that gives an answer counts, and is recorded:
--   1. the process group's description or name ("tp", "fsdp", "mesh_dp", …);
--   2. the library of the kernel, if it is used for only one dimension (DeepEP);
--   3. a host range around the launch ("DistributedDataParallel", "_ReduceFromModelParallelRegion", "FSDP::", …);
--   4. the ranges of the group's other collectives, if they agree (not for the group of all ranks); for an
--      exchange without a named group, those of the other exchanges on its stream;
--   5. the group's size, if only one dimension of the workload card has that size; without a size, the card's only
--      dimension;
--   6. the kind of the collective, if the card leaves one choice (send/recv with pp > 1, all-to-all with ep > 1).
-- Otherwise the dimension is unknown.
local comm = require "ett.trace.comm"

local parallel = {}

parallel.dimensions = { "dp", "tp", "pp", "ep", "cp", "emb" }

--- Words of a group's name, as patterns. The first rule that fits counts, because names of Megatron-Core have words of
--- several dimensions: PIPELINE_MODEL, EXPERT_DATA, DATA_PARALLEL_GROUP_WITH_CP. false: a group over two dimensions,
--- whose size is the degree of neither. EXPERT_TENSOR_AND_MODEL moves tokens of experts, mostly without tensor ranks.
local group_words = {
  { false, { "tensor and data", "tensor and context" } },
  { "ep", { "expert .*model" } },
  { "emb", { "embedding" } },
  { "tp", { "tp", "tensor" } },
  { "pp", { "pp", "pipe", "pipeline" } },
  { "dp", { "dp", "data", "fsdp", "hsdp", "ddp", "replicate", "shard", "zero" } },
  { "ep", { "ep", "expert", "moe" } },
  { "cp", { "cp", "context", "sequence", "sp" } },
  { "tp", { "mp", "model" } },
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

local exchanges = require "ett.base.merged"(comm.between_two, { all_to_all = true })

--- The dimension in a group's description or name, or nil.
function parallel.of_group(text)
  if not text then return nil end
  local words = (" %s "):format(tostring(text):lower():gsub("%A+", " "))
  for _, rule in ipairs(group_words) do
    for _, word in ipairs(rule[2]) do
      if words:find((" %s "):format(word)) then return rule[1] or nil end
    end
  end
  return nil
end

--- The dimension in a host range's name, or nil.
function parallel.of_range(name)
  for _, rule in ipairs(range_patterns) do
    if comm.any_found(name, rule[2]) then return rule[1] end
  end
  return nil
end

--- Whether a group of this size may be of a dimension. Data parallelism in two levels has groups of both.
local function fits(card, dimension, size)
  return tonumber(card[dimension]) == size
    or dimension == "dp" and (tonumber(card.dp_replicate) == size or tonumber(card.dp_shard) == size)
end

--- The only dimension of the card that fits by size or kind: dimension, "sizes" or "kind".
function parallel.of_card(card, kind, size)
  local fitting, wider = {}, {}
  for _, dimension in ipairs(parallel.dimensions) do
    local degree = tonumber(card[dimension])
    if degree and degree > 1 then
      wider[dimension] = true
      wider[#wider + 1] = dimension
      if fits(card, dimension, size) then fitting[#fitting + 1] = dimension end
    end
  end
  if #wider == 1 and (not size or fitting[1]) then return wider[1], "sizes" end
  if comm.between_two[kind] and wider.pp then return "pp", "kind" end
  if kind == "all_to_all" and wider.ep then return "ep", "kind" end
  if size and #fitting == 1 then return fitting[1], "sizes" end
  return nil
end

--- The collectives of a lane, refined by everything that determines their dimension: the host range around the launch;
--- for an exchange without a named group the stream, because PyTorch gives every process group a stream. Returns a
--- sequence, and for each of its sorts { each =, range =, home = (group or stream) }.
local function cases_of(lane, all)
  local sources, ranges, streams = {}, nil, nil
  if not lane.tpu then
    local host = lane.view:named_rows("parallel", { "annotation", "cpu_op" },
      function(name) return parallel.of_range(name) ~= nil end)
    local _, calls = lane:launches "comm"
    ranges = calls:enclosing(host)
    sources[1] = { rows = ranges, keys = { "name" } }
  end
  for _, each in ipairs(all.sorts) do
    if not each.group and exchanges[each.kind] and not streams then
      streams = all.rows
      sources[#sources + 1] = { rows = streams, keys = { "stream" } }
    end
  end
  local list, firsts = all.sequence:refined(sources)
  local cases = {}
  for c, first in ipairs(firsts) do
    local _, _, n = all.sequence:at(first)
    local each = all.sorts[n]
    cases[c] = { each = each, sort = n, range = ranges and ranges:get(first, "name") or nil,
      home = each.group or exchanges[each.kind] and streams:get(first, "stream") or false }
  end
  return list, cases
end

--- The dimension from the process group or the library of a collective, and its source; or nil.
local function by_itself(lane, each)
  local dimension = parallel.of_group(each.group_description) or parallel.of_group(each.group)
  if dimension then return dimension, "process groups" end
  local library = not lane.tpu and comm.library_of(each.name)
  if library and library.dimension then return library.dimension, "kernels" end
end

--- The dimension on which all ranges of a group agree, by group. None for the group of all ranks.
local function agreed_of(lane, cases)
  local agreed = {}
  for _, case in ipairs(cases) do
    local home = case.dimension and case.home
    if home then
      if agreed[home] == nil then agreed[home] = case.dimension end
      local of_all = case.each.group and case.each.group_size == lane.process.world_size
      if agreed[home] ~= case.dimension or of_all then agreed[home] = false end
    end
  end
  return agreed
end

--- The dimensions of a lane's collectives: { sequence = (refined), cases = { { each = (of ett.Collectives), sort = (its
--- number), dimension?, how? } } by its sorts }.
function parallel.of_lane(lane)
  local all, card, said, open = lane:collectives(), lane.view:card(), {}, false
  local of_kind, of_range = {}, {} -- many sorts share their kind and range
  for n, each in ipairs(all.sorts) do
    local kind = getmetatable(each) or each
    said[n] = of_kind[kind] or { by_itself(lane, each) }
    of_kind[kind] = said[n]
    open = open or not said[n][1]
  end
  if not open then
    local cases = {}
    for n, each in ipairs(all.sorts) do
      cases[n] = { each = each, sort = n, dimension = said[n][1], how = said[n][2] }
    end
    return { sequence = all.sequence, cases = cases }
  end
  local list, cases = cases_of(lane, all)
  -- Data parallelism reduces and gathers, so exchanges inside its range belong to another dimension.
  local function serves(case, dimension) return dimension ~= "dp" or not exchanges[case.each.kind] end
  for _, case in ipairs(cases) do
    case.dimension, case.how = said[case.sort][1], said[case.sort][2]
    local range = not case.dimension and case.range
    if range and of_range[range] == nil then of_range[range] = parallel.of_range(range) or false end
    local ranged = range and of_range[range]
    if ranged and serves(case, ranged) then case.dimension, case.how = ranged, "ranges" end
  end
  local agreed = agreed_of(lane, cases)
  for _, case in ipairs(cases) do
    local other = not case.dimension and case.home and agreed[case.home]
    if other and serves(case, other) then case.dimension, case.how = other, "ranges" end
    if not case.dimension then
      case.dimension, case.how = parallel.of_card(card, case.each.kind, case.each.group_size)
    end
  end
  return { sequence = list, cases = cases }
end

return parallel
