--- The share of an operand that is still in the caches when a training step reads it again.
--
-- caches.reuse walks a step of ett.validate.model with a back end that does not compute. It returns the reuse distance
-- of each operand (Mattson et al. 1970): the bytes that the step touches between two uses.
--
-- caches.begin samples, on all ranks, the cached share after a number of bytes. It times an addition after products
-- that touch these bytes:
--
--   farness(bytes) = log(t / near) / log(far / near), limited to 0 … 1
--
-- t: time of the addition; near, far: the same addition with operands that rotate through few and through many bytes,
-- as a campaign times it (ett.validate.view). Farness depends on more than cache sizes: other guests of a virtual
-- machine's host evict lines of the shared cache too.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local model = require "ett.validate.model"
local sample = require "ett.sample"
local schema = require "ett.base.schema"

local must = error_module.must
local caches = {}

local Retention = {}
Retention.__index = Retention

local ELEMENTS = 32768 -- of each operand of the addition
local addition = { kind = "add", pass = "forward", rows = 128, cols = 256 }
local product = { batch = 1, m = 128, n = 256, k = 256 }
local product_bytes = 4 * (product.m * product.k + product.n * product.k + product.m * product.n)
local own_bytes = 4 * 3 * ELEMENTS

--- Products between two uses, and the bytes touched by them and by the addition: 0.9 to 95 MB.
caches.points = {}
for i, products in ipairs { 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181 } do
  caches.points[i] = { products = products, bytes = own_bytes + products * product_bytes + 0.0 }
end

local nothing = { rows = 1, cols = 1 } -- an addition of one number costs the call alone
local timing = { budget_seconds = 0.01, target = 1e-9, min_repeats = 5, max_repeats = 2000 }

--- Starts sampling. Every rank of a job calls this function; all ranks add at the same moment, as in a step.
---@param near_bytes integer through which the operands of the near campaign rotate
---@param far_bytes integer of the far campaign
---@param effort number? below 1: fraction of the readings
---@param job table? of ett.dist
function caches.begin(near_bytes, far_bytes, effort, job)
  local cpu, tensor = find.load("samplers", "cpu").core(), sample.tensor
  local self = setmetatable({ cpu = cpu, world = job and job.world, at = 0,
    effort = math.min(1, effort or 1), products = {}, seen = {}, near = {},
    far = {}, call = {}, pools = { near = must(cpu.pool(near_bytes, 1)), far = must(cpu.pool(far_bytes, 1)) } },
    Retention)
  local input, weights = tensor(product.m * product.k):normal(1, 1), tensor(product.n * product.k):normal(1, 1)
  for i = 1, far_bytes // product_bytes do
    self.products[i] = { tensor(#input):copy(input), tensor(#weights):copy(weights), tensor(product.m * product.n) }
  end
  self.operands = { tensor(ELEMENTS):normal(1, 1), tensor(ELEMENTS):normal(2, 1), tensor(ELEMENTS) }
  for i in ipairs(caches.points) do self.seen[i] = {} end
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

--- Samples each point a few times.
function Retention:turn()
  for _, name in ipairs { "near", "far" } do
    if self.world then self.world:barrier() end
    local function measured() return must(self.pools[name]:measure({ addition }, timing)).median_seconds end
    measured() -- memory left idle for seconds is up to three times slower at first
    table.insert(self[name], measured())
  end
  for i, point in ipairs(caches.points) do
    for _ = 1, math.max(1, math.ceil(self.effort * math.max(3, 24 // point.products))) do
      self:multiply(point.products)
      table.insert(self.seen[i], self:timed(addition))
    end
    self:multiply(1)
    table.insert(self.call, self:timed(nothing))
  end
end

--- The samples as { { bytes =, farness = 0 to 1 }, … }, bytes ascending.
function Retention:curve()
  local function median(list) return sample.stats(list).median end
  local near, far, call = median(self.near), median(self.far), median(self.call)
  local curve = {}
  for i, point in ipairs(caches.points) do
    local seconds = median(self.seen[i]) - call
    local farness = 0.0 -- also where the caches hold all bytes of the far campaign
    if far > near and seconds > near then farness = math.min(1.0, math.log(seconds / near) / math.log(far / near)) end
    curve[i] = { bytes = point.bytes, farness = farness }
  end
  return curve
end

--- Farness of a curve at any number of bytes, linear in their logarithm.
function caches.farness(curve, bytes)
  if bytes <= curve[1].bytes then return curve[1].farness end
  for i = 2, #curve do
    local a, b = curve[i - 1], curve[i]
    if bytes <= b.bytes then
      return a.farness + (b.farness - a.farness) * math.log(bytes / a.bytes) / math.log(b.bytes / a.bytes)
    end
  end
  return curve[#curve].farness
end

local Tensor = {}
Tensor.__index = Tensor
function Tensor:__len() return self.count end
function Tensor:view(_, count) return setmetatable({ count = count, parts = self.parts, walk = self.walk }, Tensor) end
function Tensor:copy(other)
  self.walk:use(other.parts)
  self.walk:use(self.parts)
end
function Tensor.fill() end
function Tensor.set() end
function Tensor.get() return 0.0 end

local Walk = {}
Walk.__index = Walk

--- A tensor of one piece.
function Walk:tensor(count)
  local t = setmetatable({ count = count, walk = self }, Tensor)
  t.parts = { t }
  return t
end

--- A tensor that consists of others.
function Walk:joined(parts)
  local t = self:tensor(0)
  t.parts = parts
  for _, part in ipairs(parts) do t.count = t.count + part.count end
  return t
end

function Walk:hold(t, list)
  local count, weights, gradients = 0, {}, {}
  for i, entry in ipairs(list) do
    count = count + entry.count
    entry.w, entry.g = self:tensor(entry.count), self:tensor(entry.count)
    weights[i], gradients[i] = entry.w, entry.g
  end
  t.parameter_count, t.gradients = count, self:joined(gradients)
  t.optimizer_state = { weights = self:joined(weights), gradients = t.gradients, first = self:tensor(count),
    second = self:tensor(count) }
end

function Walk:attention_state(t)
  self.scratch = self.scratch or self:tensor(2 * t.plan.seq * t.plan.seq)
  return self.scratch
end
function Walk:entropy_state(t) return self:tensor(t.z.tokens) end
function Walk:rotation(t) return self:tensor(t.plan.seq * t.z.head_dim) end
function Walk:inputs(t, a)
  a.ids, a.targets, a.loss = self:tensor(t.z.tokens), self:tensor(t.z.tokens), self:tensor(t.z.tokens)
end
function Walk.feed() end
function Walk.end_group() end
function Walk.add_loss() end
function Walk.step(_, t) t:walk() end

--- Reuse distance of a piece: bytes of all pieces used by the call that last used it and by all calls since.
function Walk:distance(piece)
  local bytes = 0.0
  for at = #self.uses, 1, -1 do
    local use = self.uses[at]
    if use.call < (self.last[piece] or 0) then break end
    bytes = bytes + 4.0 * use.piece.count
  end
  return bytes
end

--- Moves the pieces that a call uses to the end of the list of uses.
function Walk:use(pieces)
  local now = {}
  for _, piece in ipairs(pieces) do now[piece] = true end
  local left = 0
  for at, use in ipairs(self.uses) do
    if not now[use.piece] then
      left = left + 1
      self.uses[left] = self.uses[at]
    end
  end
  for at = #self.uses, left + 1, -1 do self.uses[at] = nil end
  self.calls = self.calls + 1
  for _, piece in ipairs(pieces) do
    if now[piece] then self.uses[#self.uses + 1] = { piece = piece, call = self.calls } end
    now[piece], self.last[piece] = nil, self.calls
  end
end

function Walk:run(_, name, _, pass, operands)
  local pieces, elements, sum = {}, 0, 0.0
  for _, key in ipairs(schema.keys(operands)) do -- sorted: sums of floats depend on the order
    table.move(operands[key].parts, 1, #operands[key].parts, #pieces + 1, pieces)
  end
  for _, piece in ipairs(pieces) do
    elements = elements + piece.count
    sum = sum + piece.count * self.far(self:distance(piece))
  end
  self:use(pieces)
  local key = name .. " " .. pass
  local mean = self.means[key] or { sum = 0.0, calls = 0 }
  self.means[key] = mean
  mean.sum, mean.calls = mean.sum + sum / elements, mean.calls + 1
end

--- A group of `size` ranks with this rank only; messages use this rank's memory.
local function group(walk, size)
  local function use(_, tensor) walk:use(tensor.parts) end
  return { size = function() return size end, send = use, receive = use, exchange = function(_, out, into)
    walk:use(out.parts)
    walk:use(into.parts)
  end, run = function(_, _, tensor) walk:use(tensor.parts) end }
end

--- Mean of far(reuse distance) over the calls of an operator's pass and over the bytes of its operands.
---@param case table hyper, plan (of ett.validate)
---@param far fun(bytes: number): number
---@return fun(name: string, pass: string): number far(math.huge) for a pass that the step does not have
function caches.reuse(case, far)
  local means, p = {}, case.plan
  for stage = 0, p.pp - 1 do
    local walk = setmetatable({ uses = {}, last = {}, calls = 0, far = far, means = {} }, Walk)
    local degrees = { p.tp, p.dp, p.pp } -- in the order of model.groups
    local job = { rank = stage * p.tp * p.dp,
      world = { split = function() return group(walk, table.remove(degrees, 1)) end } }
    local t = model.new { hyper = case.hyper, plan = p, job = job, backend = walk }
    t:step()
    walk.means = means -- counts the second step, which starts from the state of the first
    t:step()
  end
  return function(name, pass)
    local mean = means[name .. " " .. pass]
    return mean and mean.sum / mean.calls or far(math.huge)
  end
end

return caches
