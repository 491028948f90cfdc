--- Collectives inside a node: curves by kind, GPUs and size.
local collectives = require "ett.profile.kernels.collectives"

local curves = { all_reduce = { [2] = { 1024, 1e-5, 1048576, 1e-3 }, [8] = { 1024, 2e-5, 1048576, 2e-3 } } }

describe("curves of collectives", function()
  it("hold their points; between two of them the time is a start and a rate", function()
    assert.near(1e-5, collectives.seconds(curves, "all_reduce", 1024, 2), 1e-15)
    assert.near(2e-3, collectives.seconds(curves, "all_reduce", 1048576, 8), 1e-12)
    local slope = (1e-3 - 1e-5) / (1048576 - 1024)
    assert.near(1e-5 + slope * (32768 - 1024), collectives.seconds(curves, "all_reduce", 32768, 2), 1e-12)
  end)

  it("keep the time below the smallest size and the bandwidth above the largest", function()
    assert.near(1e-5, collectives.seconds(curves, "all_reduce", 1, 2), 1e-15)
    assert.near(4e-3, collectives.seconds(curves, "all_reduce", 4 * 1048576, 2), 1e-12)
  end)

  it("serve other numbers of GPUs by the bytes that each sends", function()
    -- 16 GPUs from the curve of 8: 15/16 over 7/8.
    assert.near(2e-3 * (15 / 16) / (7 / 8), collectives.seconds(curves, "all_reduce", 1048576, 16), 1e-12)
  end)

  it("know nothing of other kinds or of one GPU", function()
    assert.is_nil(collectives.seconds(curves, "all_gather", 1024, 2))
    assert.is_nil(collectives.seconds(curves, "all_reduce", 1024, 1))
  end)

  it("of H100 keep all_gather below all_reduce's in-switch rate", function()
    local cluster = require("ett.profile.cluster").get "dgx_h100"
    local profile = require("ett.profile.of_cluster").open(cluster)
    local node = { nodes = 1, gpus_per_node = 8 }
    local gather = 7 / 8 * 512e6 / profile:collective("all_gather", 512e6, node, "bf16").seconds
    local reduce = 14 / 8 * 512e6 / profile:collective("all_reduce", 512e6, node, "bf16").seconds
    assert.near(336e9, gather, 10e9) -- nccl-tests of 8 H100
    assert.near(445e9, reduce, 12e9)
  end)
end)
