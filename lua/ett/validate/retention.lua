--- What the caches still hold of an operand when a step uses it again, sampled in place: an addition behind products
-- that go through so many bytes in between.
--
-- It depends on more than the caches' size. On a host with other guests, operands that rotate through a few megabytes
-- in a loop were all found in the cache that processors share, and the same operands behind a millisecond of products
-- were not: other guests empty it meanwhile, as it seems from inside one.
--
-- farness(bytes) = log(t / near) / log(far / near)
--
-- t: time of the addition with so many bytes between its uses of its operands; near, far: the same addition as a
-- campaign times it, on operands that rotate through few bytes and through many (ett.validate.view).
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local sample = require "ett.sample"

local must = error_module.must
local validate_retention = {}
local Retention = {}
Retention.__index = Retention

local count = 32768 -- elements of each operand
local addition = { kind = "add", pass = "forward", rows = 128, cols = 256 }
local product = { batch = 1, m = 128, n = 256, k = 256 }
local product_bytes = 4 * (product.m * product.k + product.n * product.k + product.m * product.n)
local own_bytes = 4 * 3 * count

--- Products between two uses, and the bytes gone through with them, the addition's own included: 0.9 to 95 MB.
validate_retention.points = {}
for i = 0, 15 do
  local products = math.floor(2 ^ (0.5 * i) + 0.5)
  local last = validate_retention.points[#validate_retention.points]
  if not last or products > last.products then
    table.insert(validate_retention.points, { products = products, bytes = own_bytes + products * product_bytes + 0.0 })
  end
end

local nothing = { rows = 1, cols = 1 } -- an addition of one number is the call alone
local timing = { budget_seconds = 0.01, target = 1e-9, min_repeats = 5, max_repeats = 2000 }

--- Begins to sample; every rank of a job does, and all add at the same moment, as the ranks of a step do.
---@param near_bytes integer through which the operands of the near campaign rotate
---@param far_bytes integer of the far one
---@param job table? of ett.dist
function validate_retention.begin(near_bytes, far_bytes, job)
  local cpu, tensor = find.load("samplers", "cpu").core(), sample.tensor
  local self = setmetatable({ cpu = cpu, world = job and job.world, at = 0, products = {}, seen = {}, near = {},
    far = {}, call = {}, pools = { near = must(cpu.pool(near_bytes, 1)), far = must(cpu.pool(far_bytes, 1)) } },
    Retention)
  for i = 1, far_bytes // product_bytes do
    self.products[i] = { tensor(product.m * product.k):normal(1, 1), tensor(product.n * product.k):normal(i, 1),
      tensor(product.m * product.n) }
  end
  self.operands = { tensor(count):normal(1, 1), tensor(count):normal(2, 1), tensor(count) }
  for i in ipairs(validate_retention.points) do self.seen[i] = {} end
  return self
end

function Retention:multiply(times)
  for _ = 1, times do
    self.at = self.at % #self.products + 1
    self.cpu.run("linear", "forward", product, self.products[self.at])
  end
end

function Retention:timed(dims)
  if self.world then self.world:barrier() end
  local start = sample.thread_seconds()
  self.cpu.run("add", "forward", dims, self.operands)
  return sample.thread_seconds() - start
end

--- Samples every number of bytes a few times.
function Retention:turn()
  for _, name in ipairs { "near", "far" } do
    if self.world then self.world:barrier() end
    local function measured() return must(self.pools[name]:measure({ addition }, timing)).median_seconds end
    measured() -- memory that lay idle for seconds is up to three times slower when it is used again
    table.insert(self[name], measured())
  end
  for i, point in ipairs(validate_retention.points) do
    for _ = 1, math.max(3, 24 // point.products) do
      self:multiply(point.products)
      table.insert(self.seen[i], self:timed(addition))
    end
    self:multiply(1)
    table.insert(self.call, self:timed(nothing))
  end
end

--- What was sampled: { { bytes =, farness = 0 to 1 }, … }, bytes ascending.
function Retention:curve()
  local function median(list) return sample.stats(list).median end
  local near, far, call = median(self.near), median(self.far), median(self.call)
  local curve = {}
  for i, point in ipairs(validate_retention.points) do
    local seconds = median(self.seen[i]) - call
    local farness = 0.0 -- where caches hold what the far campaign goes through, its operands are near
    if far > near and seconds > near then farness = math.min(1.0, math.log(seconds / near) / math.log(far / near)) end
    curve[i] = { bytes = point.bytes, farness = farness }
  end
  return curve
end

--- Farness at any number of bytes, of a curve: linear in their logarithm.
function validate_retention.of(curve, bytes)
  if bytes <= curve[1].bytes then return curve[1].farness end
  for i = 2, #curve do
    local a, b = curve[i - 1], curve[i]
    if bytes <= b.bytes then
      return a.farness + (b.farness - a.farness) * math.log(bytes / a.bytes) / math.log(b.bytes / a.bytes)
    end
  end
  return curve[#curve].farness
end

return validate_retention
