--- A quick profile from the tables of one campaign: a surface (ett.sample) through the samples of each kernel, in units
--- of its roofline time. Surfaces of operators are rough, of collectives smooth.
--
-- It answers as ett.profile does. Active sampling fits it again after every round; predictions use ett.profile.
local error_module = require "ett.base.error"
local operator = require "ett.operator"
local sample = require "ett.sample"
local sample_table = require "ett.samples.table"
local schema = require "ett.base.schema"

local sample_profile = {}
local Profile = {}
Profile.__index = Profile

--- The surface that an operator belongs to: every product is the same kernel, in whatever layer.
local function pool_name(op) return op.family == "gemm" and "gemm" or op.name end

--- Logarithms of the kernel's own dimensions, and the roofline time that values are divided by.
local function features(op, s)
  local kernel = op.kernel_shape(s)
  local list = {}
  for _, name in ipairs(schema.keys(kernel)) do
    if math.type(kernel[name]) == "integer" then list[#list + 1] = math.log(kernel[name]) end
  end
  return list
end

-- Assumed rates of the roofline: only its shape matters, the surface learns the level.
local flop_rate, byte_rate, start_seconds = 1e11, 1.5e10, 2e-7
local function roofline(op, s, dtype, pass)
  local passed = pass == "update" and "update" or pass
  return op.flops(s, passed) / flop_rate + op.bytes(s, dtype, passed) / byte_rate + start_seconds
end
sample_profile.features, sample_profile.roofline, sample_profile.pool_name = features, roofline, pool_name

--- A profile without samples; add() and add_collective() fill it.
function sample_profile.new(dtype)
  return setmetatable({ dtype = dtype or "fp32", pools = {}, wires = {} }, Profile)
end

--- Adds one sample of an operator.
function Profile:add(op, s, pass, seconds)
  local key = pool_name(op) .. " " .. pass
  local pool = self.pools[key]
  if not pool then
    pool = { x = {}, y = {}, width = nil, count = 0, rough = true }
    self.pools[key] = pool
  end
  local x = features(op, s)
  pool.width = pool.width or #x
  table.move(x, 1, #x, #pool.x + 1, pool.x)
  pool.count = pool.count + 1
  pool.y[pool.count] = math.log(seconds / roofline(op, s, self.dtype, pass))
  pool.surface = nil
end

--- Adds one sample of a collective; count in elements of 4 bytes.
function Profile:add_collective(kind, topology, bytes, seconds)
  local key = ("%s %d %d"):format(kind, topology.nodes, topology.gpus_per_node)
  local wire = self.wires[key]
  if not wire then
    wire = { x = {}, y = {}, width = 1, count = 0 }
    self.wires[key] = wire
  end
  wire.count = wire.count + 1
  wire.x[wire.count], wire.y[wire.count] = math.log(bytes), math.log(seconds / (bytes / 1e10 + 1e-6))
  wire.surface = nil
end

--- Adds every sample of a table that `ett sample` wrote for a target of a campaign.
function Profile:add_table(path, target)
  local held = error_module.must(sample_table.read(path))
  for r in ipairs(held.rows) do
    local row = sample_table.numbers(held, r)
    if target.kind == "collective" then
      local n = #row
      local topology = { nodes = row[n - 2], gpus_per_node = row[n - 1], ranks_per_node = row[n - 1] }
      self:add_collective(target.collective, topology, 4.0 * target.message(row[1], topology), row[n] * 1e-6)
    else
      local values = table.move(row, 1, #target.columns, 1, {})
      local s = target.shape(values)
      for i, column in ipairs(held.columns) do
        local pass = sample_table.pass_of[column]
        if pass then self:add(target.operator, s, pass, row[i] * 1e-6) end
      end
    end
  end
  return #held.rows
end

-- Above the first number of points, an earlier surface's scales are kept until there are half as many points again;
-- above the second, for ever.
local searched_points, most_searched = 200, 400

local function surface_of(pool, what)
  if not pool.surface then
    local surface, err
    if pool.scales and pool.count > searched_points
      and (pool.count < 1.5 * pool.searched or pool.searched >= most_searched) then
      surface = sample.surface(pool.x, pool.width, pool.y, pool.scales, nil, pool.rough)
    end
    if not surface then
      surface, err = sample.surface(pool.x, pool.width, pool.y, nil, nil, pool.rough)
      if not surface then error(error_module.label(err, what), 0) end
      pool.searched = pool.count
    end
    pool.surface = surface
    pool.scales, pool.noise = surface:scales()
  end
  return pool.surface
end

--- The surface of a pool ("gemm forward"), fitted at its first use.
function Profile:surface(key)
  return self.pools[key] and surface_of(self.pools[key], key)
end

-- The interval of a new measurement includes the surface's deviation and the noise.
local function answer(scale, value, deviation, noise, detail)
  local spread = math.exp(1.645 * math.sqrt(deviation ^ 2 + noise ^ 2))
  local seconds = scale * math.exp(value)
  return { seconds = seconds, low_seconds = seconds / spread, high_seconds = seconds * spread,
    provenance = deviation < 0.25 and "interpolated" or "extrapolated", detail = detail }
end

--- Seconds of one run of an operator, as ett.profile answers; nil without samples.
function Profile:operator(name, s, dtype, pass)
  local op = operator.get(name)
  if op.family == "optimizer" then op = operator.get("optimizer") end
  local key = pool_name(op) .. " " .. pass
  local surface = self:surface(key)
  if not surface then return nil end
  local value, deviation = surface:predict(features(op, s))
  return answer(roofline(op, s, dtype or self.dtype, pass), value, deviation, self.pools[key].noise,
    ("%d samples of %s"):format(self.pools[key].count, key))
end

--- Seconds of one collective over `bytes` of the whole buffer; nil without samples.
function Profile:collective(kind, bytes, topology)
  local key = ("%s %d %d"):format(kind, topology.nodes, topology.gpus_per_node)
  local wire = self.wires[key]
  if not wire then return nil end
  local value, deviation = surface_of(wire, key):predict { math.log(bytes) }
  return answer(bytes / 1e10 + 1e-6, value, deviation, wire.noise, ("%d samples of %s"):format(wire.count, key))
end

--- Held-out error of a pool: each sample predicted by the surface without it, but with scales fitted to all. On the
--- tables of a half-minute campaign this is a twentieth too low (9.9 % for 10.4 %).
---@return number[] absolute relative errors
function Profile:held_out(key)
  local pool = self.pools[key]
  local errors = {}
  for i, value in ipairs(surface_of(pool, key):leave_one_out()) do
    errors[i] = math.abs(math.exp(value - pool.y[i]) - 1)
  end
  return errors
end

--- Names of the pools, sorted.
function Profile:pool_names() return schema.keys(self.pools) end

return sample_profile
