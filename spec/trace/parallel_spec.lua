-- Which dimension of the layout a collective serves, by name, by range and by the workload card.
local card = require "ett.trace.card"
local parallel = require "ett.trace.parallel"
local raised = require "raised"

describe("ett.trace.parallel", function()
  it("reads a dimension from words of a group's name, never from parts of words", function()
    assert.equal("tp", parallel.of_group("TENSOR_MODEL_PARALLEL_GROUP"))
    assert.equal("dp", parallel.of_group("mesh_fsdp"))
    assert.equal("ep", parallel.of_group("expert"))
    assert.is_nil(parallel.of_group("stpd"))
    assert.is_nil(parallel.of_group(nil))
  end)

  it("reads the names of Megatron-Core and of PyTorch's meshes, which have words of several dimensions", function()
    for name, wanted in pairs { TENSOR_MODEL_PARALLEL_GROUP = "tp", PIPELINE_MODEL_PARALLEL_GROUP = "pp",
      MODEL_PARALLEL_GROUP = "tp", CONTEXT_PARALLEL_GROUP = "cp", DATA_PARALLEL_GROUP = "dp",
      DATA_PARALLEL_GROUP_WITH_CP = "dp", DATA_PARALLEL_GROUP_WITH_CP_AG = "dp",
      INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP = "dp", EXPERT_MODEL_PARALLEL_GROUP = "ep",
      EXPERT_TENSOR_PARALLEL_GROUP = "tp", EXPERT_DATA_PARALLEL_GROUP = "dp",
      EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP = "ep", EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP = "ep",
      EMBEDDING_GROUP = "emb", POSITION_EMBEDDING_GROUP = "emb",
      mesh_dp_shard_cp = "dp", ["tp:0"] = "tp", ["ep:0"] = "ep", moe_dp = "dp", default_pg = false,
      TENSOR_AND_DATA_PARALLEL_GROUP = false, TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP = false,
      TENSOR_AND_CONTEXT_PARALLEL_GROUP = false } do
      assert.equal(wanted or nil, parallel.of_group(name), name)
    end
  end)

  it("reads a dimension from host ranges", function()
    assert.equal("dp", parallel.of_range("DistributedDataParallel.forward"))
    assert.equal("tp", parallel.of_range("_ReduceFromModelParallelRegion"))
    assert.equal("pp", parallel.of_range("send_forward"))
    assert.is_nil(parallel.of_range("aten::mm"))
  end)

  it("takes from the card the only dimension, then the one of a kind, then the one of a size", function()
    assert.same({ "tp", "sizes" }, { parallel.of_card({ tp = 8, dp = 1 }, "all_reduce", 8) })
    assert.same({ "pp", "kind" }, { parallel.of_card({ pp = 2, tp = 2 }, "send_recv", 2) })
    assert.same({ "ep", "kind" }, { parallel.of_card({ ep = 4, dp = 2 }, "all_to_all", 2) })
    assert.same({ "dp", "sizes" }, { parallel.of_card({ dp = 4, tp = 2 }, "all_reduce", 4) })
    assert.is_nil(parallel.of_card({ dp = 4, tp = 4 }, "all_reduce", 4))
    assert.same({ "tp", "sizes" }, { parallel.of_card({ tp = 8 }, "all_reduce") })
    assert.is_nil(parallel.of_card({ tp = 8 }, "all_reduce", 64)) -- the card does not state dp
    local two_levels = { dp = 8, dp_replicate = 2, dp_shard = 4, tp = 2 }
    assert.same({ "dp", "sizes" }, { parallel.of_card(two_levels, "all_gather", 4) })
    assert.is_nil(parallel.of_card(two_levels, "all_reduce", 2)) -- tp or the replicas
  end)
end)

describe("dimensions of a lane", function()
  local maker = require "trace_maker"

  local nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"

  local function calls(build, world)
    local r = maker.new{ rank = 0, world = world or 8 }
    build(r)
    return maker.computed({ r }, "traffic_distribution").calls
  end

  --- Three all-reduces of a group; only the first has a range around its launch.
  local function three(size)
    return function(r)
      r:host("user_annotation", "RowParallelLinear.forward", 0, 50)
      for i = 0, 2 do
        r:kernel(nccl, 1000 * i + 100, 10, { launch = { ts = 1000 * i + 10, dur = 5 }, args = {
          ["Collective name"] = "allreduce", ["Group size"] = size, ["Process Group Name"] = "3" } })
      end
    end
  end

  it("gives all collectives of a group the dimension of its ranges, unless it is the group of all ranks", function()
    assert.equal(3, calls(three(2)).tp)
    local all = calls(three(8))
    assert.same({ 1, 2 }, { all.tp, all.unknown })
  end)

  it("recognises DeepEP's kernels; its layout kernel moves no data", function()
    local found = calls(function(r)
      r:kernel("void deep_ep::intranode::combine<__nv_bfloat16, 8>(x)", 100, 10)
      r:kernel("void deep_ep::intranode::dispatch<8>(x)", 200, 10)
      r:kernel("void deep_ep::layout::get_dispatch_layout<256, 32>(x)", 300, 10)
    end)
    assert.equal(2, found.ep)
    assert.equal(0, found.unknown)
  end)

  it("gives TorchRec's all-to-alls the dimension of embeddings", function()
    assert.equal(1, calls(function(r)
      r:host("user_annotation", "## all2all_data:kjt values ##", 0, 50)
      r:kernel("ncclDevKernel_SendRecv(x)", 100, 10, { launch = { ts = 10, dur = 5 } })
    end).emb)
  end)

  it("gives an exchange without a range the dimension of the others on its stream", function()
    local found = calls(function(r)
      r:host("user_annotation", "# running sparse arch", 0, 50)
      r:kernel("ncclDevKernel_SendRecv(x)", 100, 10, { launch = { ts = 10, dur = 5 } })
      r:kernel("ncclDevKernel_SendRecv(x)", 120, 10)
      r:kernel("ncclDevKernel_SendRecv(x)", 140, 10, { stream = 9 })
      r:kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 160, 10)
    end)
    assert.same({ 2, 2 }, { found.emb, found.unknown })
  end)
end)

describe("ett.trace.card", function()
  it("finds a value under each of its names, the shallowest first", function()
    local found = card.values{ run = { tensor_parallel = 4, plan = { tp_size = 2 } }, global_batch_size = "64 " }
    assert.equal(2, found.tp) -- names in their order: tp_size comes before tensor_parallel
    assert.equal(64, found.batch_size)
    assert.equal(64, card.values{ global_batch_size = 64, data = { batch_size = 4 } }.batch_size)
    assert.is_nil(found.pp)
    assert.equal(8, card.values{ dp_replicate = 2, dp_shard = 4 }.dp)
  end)

  it("raises for a wrong field at its first use", function()
    local found = card.values({ batch_size = "many", seq_len = 128 }, "card.yaml")
    assert.equal(128, found.seq_len)
    local why = raised(function() return found.batch_size end)
    assert.matches("card.yaml: field 'batch_size' must be a positive integer, got 'many'", why)
    for _, text in ipairs { "1.5", 1.5, 1e300 } do
      found = card.values({ world_size = text, tp = text, peak_flops = text, phase = "Inference", precision = 16 }, "c")
      assert.matches("c: field 'world_size' must be a positive integer, got ",
        raised(function() return found.devices end))
      assert.matches("c: field 'tp' must be a non%-negative integer, got ", raised(function() return found.tp end))
      assert.same({ tonumber(text), "inference" }, { found.peak_flops, found.phase })
    end
  end)
end)
