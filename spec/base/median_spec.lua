local median = require "ett.base.median"

describe("the median", function()
  it("is the middle value, or the mean of the middle two, whatever the order", function()
    for _, case in ipairs { { { 7 }, 7 }, { { 3, 1, 2 }, 2 }, { { 4, 1, 3, 2 }, 2.5 }, { { 5, -1, 5, 5, 9 }, 5 } } do
      assert.equal(case[2], median(case[1]))
    end
    assert.is_nil(median {})
  end)

  it("does not change the list, and reads a sorted one as it is", function()
    local values = { 3, 1, 2 }
    median(values)
    assert.same({ 3, 1, 2 }, values)
    assert.equal(1, median(values, true))
  end)
end)
