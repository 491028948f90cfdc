-- Times of the operators of a device from its own tables, and from another cluster that sampled them.
local clusters = require "ett.profile.cluster"
local of_cluster = require "ett.profile.of_cluster"
local operator = require "ett.operator"
local sources = require "ett.loop.sources"

local function by_name(cluster)
  local list = {}
  for _, each in ipairs(sources.of { cluster = cluster }) do list[each[1]] = each[2] end
  return list
end

describe("ett.loop.sources", function()
  local dgx, perlmutter = clusters.get "dgx_a100", clusters.get "perlmutter"
  local norm, shape = operator.get "layer_norm", { tokens = 8192, hidden = 4096 }

  it("takes operators from another cluster's samples of the same device", function()
    local found = by_name(dgx)
    assert.is_truthy(found.sustained and found.burst)
    local theirs = of_cluster.open(perlmutter):operator("layer_norm", shape, "fp16", "forward")
    assert.equal(theirs.seconds, found.perlmutter:operator(norm, shape, "fp16", "forward").seconds)
    local own = found.burst:operator(norm, shape, "fp16", "forward")
    assert.is_true(math.abs(own.seconds / theirs.seconds - 1) > 0.1)
  end)

  it("uses the cluster's own tables instead of extrapolated samples, and its own links", function()
    local found, product = by_name(dgx), operator.get "bmm_qk"
    local far = { batch = 32, tokens = 2048, in_features = 64, out_features = 2048 }
    assert.equal("extrapolated", of_cluster.open(perlmutter):operator("bmm_qk", far, "fp16", "forward").provenance)
    assert.equal(found.burst:operator(product, far, "fp16", "forward").seconds,
      found.perlmutter:operator(product, far, "fp16", "forward").seconds)
    local place = { nodes = 1, gpus_per_node = 8, ranks = 8 }
    assert.equal(found.sustained:collective("all_reduce", 1e8, place, "fp16").seconds,
      found.perlmutter:collective("all_reduce", 1e8, place, "fp16").seconds)
  end)

  it("has none for devices without samples on another cluster, or with a given profile", function()
    assert.is_nil(by_name(clusters.get "dgx_b200").perlmutter)
    assert.is_nil(by_name(perlmutter).dgx_a100)
    local list = sources.of { cluster = dgx, profile = { operator = function() end } }
    assert.equal(1, #list)
    assert.equal("sustained", list[1][1])
  end)
end)
