local divisors = require "ett.base.divisors"

describe("ett.base.divisors", function()
  it("finds what trial division finds, up to a limit", function()
    for n = 1, 600 do
      local all, few = {}, {}
      for d = 1, n do
        if n % d == 0 then
          all[#all + 1] = d
          if d <= 17.5 then few[#few + 1] = d end
        end
      end
      assert.same(all, divisors(n))
      assert.same(few, divisors(n * 1.0, 17.5))
    end
  end)

  it("accepts large numbers, and gives none for anything but positive integers", function()
    assert.equal(169, #divisors(1e12))
    assert.same({ 1, 999999999989 }, divisors(999999999989))
    assert.same({ 1, 2, 4, 8 }, divisors(1 << 62, 10))
    for _, n in ipairs { 0, -4, 0.5, 1e300, 0 / 0 } do assert.same({}, divisors(n)) end
  end)
end)
