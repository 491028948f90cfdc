--- Kernel models of a device: an analytic time, and trees that predict the logarithm of measured over analytic time.
--
--   local kernels = require "ett.profile.kernels"
--   kernels.of(device, "gemm", "bf16"):predict { m = 4096, n = 4096, k = 4096 }   --> seconds, low, high
--   kernels.fit(kernels.get "gemm", device, "bf16", rows)                         -- rows of { m, n, k, seconds }
--
-- A kernel model is a file of this folder: inputs, table of measured rows, `analyse` and `group`. README.md lists all
-- fields.
local collectives = require "ett.profile.kernels.collectives"
local csv = require "ett.csv"
local devices = require "ett.profile.device"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local merged = require "ett.base.merged"
local regressor = require "ett.profile.regressor"
local schema = require "ett.base.schema"
local sealed = require "ett.base.sealed"
local table_at = require "ett.base.table_at"

-- A step whose operators all have samples needs none of these.
local function training() return require "ett.profile.kernels.attention_training" end
local function transfer() return require "ett.profile.kernels.transfer" end

local must = error_module.must
local kernels = {}

kernels.format = "ett kernel 2"

local models = { gemm = function() return require "ett.profile.kernels.gemm" end,
  attention = function() return require "ett.profile.kernels.attention" end }

-- Chosen on development splits of the tables (other seeds than those that `ett bench kernels` reports).
local parameters = { tree_method = "hist", grow_policy = "lossguide", max_depth = 0, max_leaves = 48, eta = 0.13,
  subsample = 0.8, min_child_weight = 4, max_bin = 256, lambda = 1 }

--- The kernel model of a name. Raises an error with the nearest name if there is none.
---@param name string
function kernels.get(name)
  if models[name] then return models[name]() end
  local names = schema.keys(models)
  error_module.raise("missing", "unknown kernel model '%s'%s; there are %s", tostring(name),
    error_module.suggestion(tostring(name), names), table.concat(names, ", "))
end

--- Measured rows of one device: a list of { inputs…, texts…, seconds }.
---@param model table of kernels.get
---@param folder string the folder of tables: one subfolder a device, one file a model
---@param device ett.Device
---@return table[]|nil rows, ett.Error? the reason why there is no table
function kernels.read(model, folder, device)
  local file, err = csv.read(("%s/%s/%s"):format(folder, device.tables or device.key, model.table))
  if not file then return nil, err end
  local rows = {}
  for i, us in ipairs(must(file:numbers "time_us")) do rows[i] = { seconds = us * 1e-6 } end
  local function add(name, values)
    for i, row in ipairs(rows) do row[name] = values[i] end
  end
  for _, name in ipairs(model.inputs) do add(name, must(file:numbers(name))) end
  for _, name in ipairs(model.texts) do add(name, must(file:strings(name))) end
  return rows
end

-- Sets `elsewhere` of the chosen framework's rows: the least seconds that another one takes for the same inputs.
local function compare(model, by_framework, chosen)
  local least = {}
  local function id(row)
    local values = {}
    for i, name in ipairs(model.inputs) do values[i] = row[name] end
    return table.concat(values, " ")
  end
  for name, rows in pairs(by_framework) do
    for _, row in ipairs(name ~= chosen and rows or {}) do
      local key = id(row)
      least[key] = math.min(least[key] or row.seconds, row.seconds)
    end
  end
  for _, row in ipairs(by_framework[chosen]) do row.elsewhere = least[id(row)] end
end

--- The rows of one data type from the framework that the model prefers, and the name of that framework. Their field
--- `elsewhere` has the least seconds of other frameworks for the same inputs.
---@param rows table[] of kernels.read
---@return table[] rows, string? framework nil if there is no row
function kernels.preferred(model, rows, dtype)
  local by_framework = {}
  for _, row in ipairs(rows) do
    if row.dtype == dtype then table.insert(table_at(by_framework, row.framework), row) end
  end
  local chosen
  for _, name in ipairs(model.frameworks) do chosen = chosen or by_framework[name] and name end
  if not chosen then return {}, nil end
  compare(model, by_framework, chosen)
  return by_framework[chosen], chosen
end

---@class ett.Kernel
---@field model table
---@field device ett.Device whose analytic times the trees scale
local Kernel = { __name = "ett.kernel" }
Kernel.__index = Kernel

--- Seconds of one run, and the bounds of the 90 % interval.
---@param x table the model's inputs
---@return number seconds, number low, number high
function Kernel:predict(x) return transfer().predict(self, x) end

function Kernel:at(x)
  local analytic, features = self.model.analyse(self.device, self.dtype, x)
  local value, low, high = transfer().bounded(self.trees:predict(features), self.wider)
  return analytic * value, analytic * low, analytic * high
end

local function fit(model, device, dtype, rows)
  local features, ratios = {}, {}
  for i, row in ipairs(rows) do
    local analytic, seen = model.analyse(device, dtype, row)
    features[i], ratios[i] = seen, row.seconds / analytic
  end
  local trees = regressor.fit { kind = "boosted_trees", family = "raw", rows = features, seconds = ratios,
    rounds = model.rounds[dtype] or model.rounds.default, parameters = parameters, gate = false,
    difficulty_rounds = 10 }
  return setmetatable({ model = model, device = device, dtype = dtype, trees = trees }, Kernel)
end

-- Factor on the interval of a table with few groups, because the interval of the trees is valid only for new rows of
-- the same groups. Each quarter of the groups is predicted from the others; 90 % of all rows must be inside the
-- interval.
local function widening(model, device, dtype, rows)
  local groups, needed = {}, {}
  for _, row in ipairs(rows) do table.insert(table_at(groups, model.group(row)), row) end
  local names = schema.keys(groups)
  if #names < 8 or #names >= 100 then return 1.0 end
  for quarter = 0, 3 do
    local parts = { {}, {} }
    for i, name in ipairs(names) do
      local into = parts[i % 4 == quarter and 2 or 1]
      table.move(groups[name], 1, #groups[name], #into + 1, into)
    end
    local partial = fit(model, device, dtype, parts[1])
    for _, row in ipairs(parts[2]) do
      local seconds, low, high = partial:predict(row)
      local bound = row.seconds < seconds and low or high
      needed[#needed + 1] = math.log(row.seconds / seconds) / math.log(bound / seconds)
    end
  end
  table.sort(needed)
  return math.max(1.0, needed[math.ceil(0.9 * #needed)])
end

--- Fits the trees of one model, device and data type.
---@param model table of kernels.get
---@param device ett.Device
---@param dtype string
---@param rows table[] of kernels.preferred
---@return ett.Kernel
function kernels.fit(model, device, dtype, rows)
  rows = model.sound and model.sound(device, dtype, rows) or rows
  local kernel = fit(model, device, dtype, rows)
  kernel.wider = widening(model, device, dtype, rows)
  return kernel
end

--- The kernel as text: base64 of its trees. kernels.of reads it.
function Kernel:text() return self.trees:text() end

-- The checked table of a coefficient file; nil if the device has no such file.
local function read_file(device, name, dtype)
  if not device.folder then return nil end
  local path = ("%s/%s%s.coefficients.lua"):format(device.folder, name, dtype and "." .. dtype or "")
  local file = io.open(path, "r")
  if not file then return nil end
  file:close()
  local label = ("%s/%s"):format(find.name_of(device.folder), find.label(path)) -- all devices have these files
  local given, own = sealed.load(path)
  if type(own) == "string" then error_module.raise("format", "%s: cannot be loaded: %s", label, own) end
  local format = type(given) == "table" and given.format
  if format ~= kernels.format then
    error_module.raise("format", "%s: expected a coefficient file of format '%s', found %s", label, kernels.format,
      format and ("format '%s'"):format(tostring(format)) or given == nil and "nothing" or "a " .. type(given))
  end
  for field, wanted in pairs { device = device.key, kernel = name, dtype = dtype } do
    if given[field] ~= wanted then
      error_module.raise("format", "%s: its field '%s' is '%s'; expected '%s'", label, field, tostring(given[field]),
        wanted)
    end
  end
  if not own then sealed.check(path, label) end
  return given, label
end

-- Coefficient files in use, by folder, model and data type.
local opened = setmetatable({}, { __mode = "v" })

--- The kernel of a device from its coefficient file; nil if the device has none.
---@param device ett.Device
---@param name string kernel model
---@param dtype string
---@return ett.Kernel?
function kernels.own(device, name, dtype)
  if not device.folder then return nil end
  local id = ("%s %s %s"):format(device.folder, name, dtype)
  local known = opened[id]
  if known == nil then
    local given, label = read_file(device, name, dtype)
    local trees, err
    if given then trees, err = regressor.from_text(given.text) end
    if err then error_module.raise("format", "%s: %s", label, err.message) end
    known = given and { trees = trees, about = given } or false
    opened[id] = known
  end
  if not known then return nil end
  return setmetatable({ model = kernels.get(name), device = device, dtype = dtype, trees = known.trees,
    wider = known.about.wider, about = known.about, opened = known }, Kernel)
end

-- The neighbours that have the same chip; all if none has.
local function alike(device, found)
  local kept = {}
  for _, kernel in ipairs(found) do
    if transfer().same_chip(device, kernel.device) then kept[#kept + 1] = kernel end
  end
  return kept[1] and kept or found
end

--- The kernel of a device without its own table: from the nearest neighbour that has one and from the other neighbours
--- of that neighbour's generation; nil if no neighbour has one.
---@return table? kernel with `from`, the keys of the neighbours
function kernels.transferred(device, name, dtype)
  local found = {}
  for _, key in ipairs(device.neighbours or {}) do
    local other = devices.get(key)
    if not found[1] or other.generation == found[1].device.generation then
      found[#found + 1] = kernels.own(other, name, dtype)
    end
  end
  return found[1] and transfer().new(device, alike(device, found)) or nil
end

--- The kernel of a device: its own, else one transferred from its neighbours; nil if there is none, or if the device
--- has no rate for the data type.
---@return ett.Kernel?
function kernels.of(device, name, dtype)
  if not device:peak(dtype) then return nil end
  return kernels.own(device, name, dtype) or kernels.transferred(device, name, dtype)
end

-- The coefficient file of a device, else of its first neighbour that has one, with that neighbour's name and device.
local function nearest_file(device, name)
  local own = read_file(device, name)
  if own then return own end
  for _, neighbour in ipairs(device.neighbours or {}) do
    local other = devices.get(neighbour)
    local found = read_file(other, name)
    if found then return found, neighbour, other end
  end
end

-- The curves with times that rise with bytes; those of a kind are made when the kind is first asked for.
local function rising(curves)
  return setmetatable({}, { __index = function(found, kind)
    local own = curves[kind] and {}
    for gpus, curve in pairs(curves[kind] or {}) do own[gpus] = collectives.rising(curve) end
    found[kind] = own
    return own
  end,
  __pairs = function(found)
    for kind in pairs(curves) do found[kind] = found[kind] end
    return next, found
  end })
end

--- Curves of collectives inside a node. Without its own, a device uses for each number of GPUs the curves of the first
--- neighbour of its generation that was measured with this number. nil if there is none. Times rise with bytes.
---@return table? curves
function kernels.collectives(device)
  local own = read_file(device, "collectives")
  if own then return rising(own.curves) end
  local curves = {}
  for _, neighbour in ipairs(device.neighbours or {}) do
    local other = devices.get(neighbour)
    local file = other.generation == device.generation and read_file(other, "collectives")
    for kind, by_gpus in pairs(file and file.curves or {}) do curves[kind] = merged(by_gpus, curves[kind]) end
  end
  return next(curves) and rising(curves) or nil
end

-- Factor on the laws of `other` for a device at a head dimension: the ratio of the long forward passes of both devices,
-- each divided by its time according to the laws.
local function level(device, other, laws, head_dim, here, there)
  return training().at_length(head_dim, function(x)
    local shape = merged(x, { seq_q = x.seq, seq_k = x.seq, value_dim = head_dim, causal = 1 })
    local function over_law(of, kernel)
      return kernel:predict(x) / training().seconds(of, laws, "bf16", "forward", shape)
    end
    return over_law(device, here) / over_law(other, there)
  end)
end

-- Laws of another device, for this device. The time that they add to each query follows the instruction rate, not the
-- rate of products.
local function transferred_laws(laws, device, other, here)
  local there = kernels.own(other, "attention", "bf16")
  local query = device:peak "bf16" / device:cycles() / (other:peak "bf16" / other:cycles())
  local per_query = training().scaled(laws, function() return 1.0 end, query)
  local known = {}
  return training().scaled(per_query, function(head_dim)
    local dim = head_dim <= 64 and 64 or 128 -- which every table has
    known[dim] = known[dim] or there and level(device, other, per_query, dim, here, there) or 1.0
    return known[dim]
  end, 1.0)
end

-- The forward kernel of a device, if it is its own or from a device of its vendor; and whether that device has the same
-- generation.
local function forward_kernel(device)
  local kernel = kernels.of(device, "attention", "bf16")
  local source = kernel and (kernel.from and devices.get(kernel.from:match "^[^,]+") or device)
  if not source or source.vendor ~= device.vendor then return nil, false end
  return kernel, source.generation == device.generation
end

-- The laws of a device. AMD publishes times of heads of 128 values alone. Other heads get the law of a neighbour of
-- another vendor, multiplied by the ratio of both laws for heads of 128; that is assumed.
local function completed(device, laws)
  local all = merged(laws)
  for _, neighbour in ipairs(device.neighbours or {}) do
    local other = devices.get(neighbour)
    local file = other.vendor ~= device.vendor and read_file(other, "attention_training")
    for key, law in pairs(file and file.laws or {}) do
      local same = key:match "^%S+ %S+ " .. "128 128"
      if not all[key] and laws[same] and file.laws[same] then
        local ratio = laws[same][1] / file.laws[same][1]
        all[key] = { law[1] * ratio, law[2] * ratio, law[3] }
      end
    end
  end
  return all
end

-- Half-widths of the interval of attention in training. The values for a device's own laws and for a neighbour's are
-- assumed. The third is for laws of another generation without a measured forward pass: GB300's laws differ by up to
-- 41 % from H200's.
local own_spread, neighbour_spread, far_spread = 0.08, 0.2, 0.4

--- The laws of attention in training. A device without laws uses a neighbour's laws, scaled by the ratio of the
--- measured forward passes of both devices at the head dimension. The forward passes may be a sibling's.
---@return table? { laws, spread (half-width of the interval), detail, measured (the device's own forward passes
---  scale them) }
function kernels.laws(device)
  local file, neighbour, other = nearest_file(device, "attention_training")
  if not file then return nil end
  local laws = completed(other or device, file.laws)
  if not other then return { laws = laws, spread = own_spread, detail = "fitted formula of fused attention" } end
  local kernel, near = forward_kernel(device)
  return { laws = kernel and transferred_laws(laws, device, other, kernel) or laws,
    spread = (near or other.generation == device.generation) and neighbour_spread or far_spread,
    detail = "fitted formula of fused attention, from " .. neighbour, measured = kernel and not kernel.from }
end

return kernels
