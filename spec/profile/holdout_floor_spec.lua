--- The error floor of held-out rows: by hand, and as a lower bound of all answers within the link's rate.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/bench/support/?.lua"
local floor = require "holdout_floor"

local rates = floor.rates.V

--- An all-gather over four nodes; the rows of `stopped` say 118 us.
local function file(stopped)
  local rows, seconds = {}, {}
  for i = 1, 40 do
    rows[i] = i * 1e7
    seconds[i] = stopped[i] and 118e-6 or 2 * floor.collective("all_gather", 2 * rows[i], 4, 1, rates)
  end
  return { cluster = "V", family = "collective", dims = 1, count = 40, rows = rows, by_pass = { collective = seconds },
    entry = { collective = "all_gather", nodes = 4, gpus = 1, dtype = "fp16", gpu = "GH200" } }
end

local function all() return setmetatable({}, { __index = function() return true end }) end

describe("the least possible error of a file", function()
  it("follows from the received bytes of a node at its line rate", function()
    assert.near(0.015, floor.collective("all_gather", 1e9, 4, 1, rates), 1e-12) -- 750 MB at 50 GB/s
    assert.near(0.015, floor.collective("all_reduce", 1e9, 4, 1, rates), 1e-12)
    assert.near(0.02, floor.collective("send_recv", 1e9, 2, 1, rates), 1e-12)
    assert.near(0.0025, floor.collective("all_gather", 1e9, 1, 4, floor.rates.P), 1e-12) -- 750 MB at 300 GB/s
    assert.near(0.005, floor.collective("all_gather", 1e9, 2, 4, floor.rates.P), 1e-12) -- 500 MB at 100 GB/s
  end)

  it("counts only held-out rows, and is 0 if all are slower than the limit", function()
    local f = file { [10] = true, [30] = true }
    assert.same({ 0.0, 0, 40 }, { floor.of(file {}, all(), "collective") })
    local error, faster, n = floor.of(f, { [9] = true, [10] = true }, "collective")
    assert.same({ 1, 2 }, { faster, n })
    assert.near((2e8 * 0.75 / 50e9 / 118e-6 - 1) / 2, error, 1e-9)
    assert.same({ 0.0, 0, 1 }, { floor.of(f, { [9] = true }, "collective") })
  end)

  it("is the smallest error of any prediction that respects the rate", function()
    local stopped = {}
    for i = 20, 40, 2 do stopped[i] = true end
    local f = file(stopped)
    local least = floor.of(f, all(), "collective")
    local function error_of(answer)
      local total = 0.0
      for i, seconds in ipairs(f.by_pass.collective) do
        local bound = floor.collective("all_gather", 2 * f.rows[i], 4, 1, rates)
        total = total + math.abs(math.max(bound, answer(i)) / seconds - 1)
      end
      return total / f.count
    end
    assert.near(least, error_of(function(i) return f.by_pass.collective[i] end), 1e-12)
    for share = 0, 4, 0.25 do
      local error = error_of(function(i) return share * floor.collective("all_gather", 2 * f.rows[i], 4, 1, rates) end)
      assert.is_true(error >= least)
    end
    assert.is_true(least > 1)
  end)

  it("of products is the device's peak, topology by topology in a generic table", function()
    local flops = 2.0 * 4096 ^ 3
    local product = { cluster = "P", family = "gemm", dims = 4, count = 2, rows = { 1, 4096, 4096, 4096, 1, 4096, 4096,
      4096 }, by_pass = { forward = { flops / 624e12, flops / 1e14 } },
      entry = { gpu = "NVIDIAA100-SXM4-80GB", dtype = "fp16" } }
    assert.near(0.5, (floor.of(product, all(), "forward")), 1e-9)
    local generic = { cluster = "P", family = "collective", dims = 1, count = 2, rows = { 5e8, 5e8 }, group = { "1_4",
      "2_4" }, by_pass = { collective = { 0.0025, 0.0025 } }, entry = { collective = "all_reduce", dtype = "fp16" } }
    assert.near(0.5, (floor.of(generic, all(), "collective")), 1e-9)
  end)
end)
