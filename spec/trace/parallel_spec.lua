-- Which dimension of the layout a collective serves, by name, by range and by the workload card.
local card = require "ett.trace.card"
local parallel = require "ett.trace.parallel"

describe("ett.trace.parallel", function()
  it("reads a dimension from words of a group's name, never from parts of words", function()
    assert.equal("tp", parallel.of_group("TENSOR_MODEL_PARALLEL_GROUP"))
    assert.equal("dp", parallel.of_group("mesh_fsdp"))
    assert.equal("ep", parallel.of_group("expert"))
    assert.is_nil(parallel.of_group("stpd"))
    assert.is_nil(parallel.of_group(nil))
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
  end)
end)

describe("ett.trace.card", function()
  it("finds a value under each of its names, the shallowest first", function()
    local found = card.values{ run = { tensor_parallel = 4, plan = { tp_size = 2 } }, global_batch_size = "64 " }
    assert.equal(2, found.tp) -- names in their order: tp_size comes before tensor_parallel
    assert.equal(64, found.batch_size)
    assert.is_nil(found.pp)
    assert.equal(8, card.values{ dp_replicate = 2, dp_shard = 4 }.dp)
  end)

  it("raises for a field that is no number only when it is read", function()
    local found = card.values({ batch_size = "many", seq_len = 128 }, "card.yaml")
    assert.equal(128, found.seq_len)
    local ok, why = pcall(function() return found.batch_size end)
    assert.is_false(ok)
    assert.matches("card.yaml: field 'batch_size' must be a positive number, got 'many'", tostring(why))
  end)
end)
