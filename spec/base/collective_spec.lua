--- Names of the collectives.
local collective = require "ett.base.collective"
local comm = require "ett.comm"
local raised = require "raised"

describe("ett.base.collective", function()
  it("has the kinds of ett.comm, each its own alias", function()
    assert.same({ "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast" },
      collective.kinds)
    for _, kind in ipairs(collective.kinds) do
      assert.equal(kind, collective.kind(kind))
      assert.is_number(comm.factor(kind, 4))
    end
  end)

  it("knows aliases", function()
    assert.equal("reduce_scatter", collective.kind "reducescatter")
    assert.equal("send_recv", collective.find "p2p")
    assert.is_nil(collective.find "reduce")
    assert.is_nil(collective.find(nil))
    assert.matches("unknown collective 'all_redcue'; did you mean 'all_reduce'?; known are all_reduce, ",
      raised(collective.kind, "all_redcue"), 1, true)
  end)
end)
