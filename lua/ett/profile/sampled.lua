--- A profile over sample tables: predicts times of operators and collectives with models fitted to the samples.
--
-- A model is fitted at its first use, from all files of the same kernel, and kept in the cache (ett.profile.cache). A
-- pass is void if most of its rows exceed the device's peak (ett.profile.physics). No row of a void pass is used; its
-- times follow from the other pass.
local collective_names = require "ett.operator.collective"
local detail_words = require "ett.profile.detail"
local device_module = require "ett.profile.device"
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"
local must = error_module.must
local operator = require "ett.operator"
local physics = require "ett.profile.physics"
local samples = require "ett.profile.samples"
local schema = require "ett.base.schema"
local table_at = require "ett.base.table_at"

-- Profiles of coefficient files need none of these.
local function cache() return require "ett.profile.cache" end
local function profile_fit() return require "ett.profile.fit" end
local function scale() return require "ett.profile.scale" end

local sampled = {}

--- Relative half-width added to an interval derived from another pass, device, data type or window; assumed.
sampled.assumed_scaled_spread = 0.15

local Profile = { __name = "ett.profile" }
Profile.__index = Profile
sampled.Profile = Profile

-- fp16 and bf16 run at the same rates and move the same bytes.
local function dtype_key(dtype) return dtype == "bf16" and "fp16" or dtype end

local function topology_key(kind, nodes, gpus) return ("%s %d %d"):format(kind, nodes, gpus) end

--- The sample files of some folders, by device.
---@return table<string, table[]> devices, table[] unknown tables of operators without a file here
function sampled.devices(folders)
  local devices, unknown = {}, {}
  for _, folder in ipairs(folders) do
    local index, others = samples.index(folder)
    if not index then error(others, 0) end
    table.move(others, 1, #others, #unknown + 1, unknown)
    for _, entry in ipairs(index) do table.insert(table_at(devices, entry.gpu), entry) end
  end
  return devices, unknown
end

--- Raises an error if the folders hold no usable table.
function sampled.check_devices(devices, unknown, source)
  if next(devices) then return end
  if unknown[1] then error_module.raise("missing", "%s", samples.unknown_text(unknown[1])) end
  error_module.raise("format", "%s: holds no table DEVICE_OPERATOR_PRECISION.csv with rows", source)
end

--- A profile over sample files. Files are read when a model is first needed. Raises if the folders hold several
--- devices.
---@param folders string[]
---@param options table? { multiprocessors=, threads=, gpu= (needed where the folders hold several devices),
---  network= (links.inter of the cluster: it bounds collectives over nodes),
---  cache = false: neither reads nor writes the cache }
---@return ett.Profile
function sampled.open(folders, options)
  schema.argument(folders, "list", "ett.profile.from_samples", "folders")
  options = schema.argument(options, "table?", "ett.profile.from_samples", "options") or {}
  local devices, unknown = sampled.devices(folders)
  local self = setmetatable({ files = {}, pools = {}, collectives = {}, models = {}, voids = {}, outliers = {},
    stamps = {}, scales = {}, options = options, source = table.concat(folders, ", ") }, Profile)
  if not options.gpu then sampled.check_devices(devices, unknown, self.source) end
  self.gpu = options.gpu or schema.keys(devices)[1]
  if not options.gpu and next(devices, next(devices)) then
    error_module.raise("format", "%s: samples of several devices (%s); a profile covers one: keep "
      .. "each device in its own folder", self.source, table.concat(schema.keys(devices), ", "))
  end
  self.files = devices[self.gpu] or {}
  self.multiprocessors = options.multiprocessors or physics.multiprocessors(self.gpu)
  for _, entry in ipairs(self.files) do
    local dtype = dtype_key(entry.dtype)
    local pool = entry.operator and samples.pool(entry.operator) or entry.collective
    table.insert(table_at(entry.operator and self.pools or self.collectives, pool .. " " .. dtype), entry)
  end
  return self
end

-- The files of some entries. The last files are kept in memory, because the fit of the other pass needs them next.
local function files_of(self, entries)
  local last = self.last_read or { entries = {}, files = {} }
  local same = #last.entries == #entries
  for i, entry in ipairs(entries) do same = same and last.entries[i] == entry end
  if same then return last.files end
  local files = {}
  for i, entry in ipairs(entries) do files[i] = must(samples.read(entry)) end
  self.last_read = { entries = entries, files = files }
  return files
end

--- Rows of several files of one pool and pass, in the form of ett.profile.fit, with entry, file and line of each row as
--- `origins`; nil if no file has the pass.
function Profile:data(entries, pass, group)
  local files = files_of(self, entries)
  local data = samples.data(files, pass, group)
  if not data then return nil end
  data.multiprocessors, data.threads, data.network = self.multiprocessors, self.options.threads, self.options.network
  for i, origin in ipairs(data.origins) do
    local file = files[origin.file]
    data.origins[i] = { entry = file.entry, path = file.path, line = file.lines[origin.row] }
  end
  return data
end

--- Adds the file and line to each dropped row.
function sampled.locate(outliers, origins)
  for _, outlier in ipairs(outliers) do
    local origin = origins[outlier.row]
    outlier.path, outlier.line = (origin or origins[1]).path, origin and origin.line -- row 0: the whole file
  end
  return outliers
end

-- The input of a pool's fit: { id, stamp, data, choice, rows = the rows of the report }; nil if it has too few rows
-- or is void. Adds a void pass to self.outliers and to the cache.
local function fit_of(self, id, entries, pass, group, stamp)
  local data = self:data(entries, pass, group)
  local choice = data and profile_fit().choose(data)
  if not choice then return nil end
  choice.unbound = self.options.as_sampled
  local whole = choice.void and { { row = 0, seconds = 0.0, reason = choice.void, path = entries[1].path } } or {}
  if choice.void and not self.options.as_sampled then
    whole[1].void = true
    self.voids[id], self.outliers[id] = choice.void, whole
    if stamp then cache().save_void(stamp, whole) end
    return nil
  end
  return { id = id, stamp = stamp, data = data, choice = choice, rows = whole }
end

-- Keeps a fitted model. Adds dropped rows to self.outliers; stores model and outliers in the cache.
local function keep(self, one, model, outliers)
  local rows = one.rows
  table.move(sampled.locate(outliers, one.data.origins), 1, #outliers, #rows + 1, rows)
  if #rows > 0 then self.outliers[one.id] = rows end
  if one.stamp then cache().save(one.stamp, model, rows) end
  self.models[one.id] = model
end

-- The cache key of a model; nil without a cache.
local function stamp_of(self, entries, pass, group)
  if self.options.cache == false then return nil end
  local paths, network = {}, not entries[1].operator and self.options.network or {}
  for i, entry in ipairs(entries) do paths[i] = entry.path end
  return cache().key(paths, entries[1].operator and entries, pass, group or "", self.multiprocessors, self.gpu,
    self.options.as_sampled and "as sampled" or "", network.bandwidth_per_gpu, network.bandwidth_per_node,
    network.send_bandwidth, network.send_bandwidth_per_node)
end

-- Sets self.models[id] from the cache: a model, or false for a void pass. Returns the cache key.
local function load(self, id, entries, pass, group)
  local stamp = stamp_of(self, entries, pass, group)
  local known = stamp and cache().load(stamp)
  if known then
    self.models[id], self.stamps[id] = known, stamp
  elseif stamp then
    local void = cache().load_void(stamp)
    if void then self.models[id], self.voids[id], self.outliers[id] = false, void[1].reason, void end
  end
  return stamp
end

-- The input of the other pass's fit; nil if there is no such fit, or if its model is known.
local function other_fit(self, key, entries, pass)
  local id = key .. " " .. pass
  local stamp = self.models[id] == nil and load(self, id, entries, pass)
  if self.models[id] ~= nil then return nil end
  local found = fit_of(self, id, entries, pass, nil, stamp)
  if not found then self.models[id] = false end
  return found
end

-- Fits a pool that the cache does not hold. A step needs both passes of an operator, so the other pass is fitted at the
-- same time.
local function fit(self, key, entries, pass, group, stamp)
  local id = key .. " " .. pass
  local own = fit_of(self, id, entries, pass, group, stamp)
  if not own then
    self.models[id] = false
    return
  end
  local two = entries[1].operator and pass ~= "update"
  local other = two and other_fit(self, key, entries, sampled.other_pass(pass))
  local model, outliers, other_model, other_outliers = error_module.wrap("samples of " .. id, profile_fit().fit_with,
    own, other)
  keep(self, own, model, outliers)
  if other_model then keep(self, other, other_model, other_outliers) end
end

--- The fitted model of a pool, from memory, the cache, or a fit; false if there is none, with the reason if it is void.
---@return table|false, string|nil
function Profile:model(key, entries, pass, group)
  local id = key .. " " .. pass
  if self.models[id] == nil then
    local stamp = load(self, id, entries, pass, group)
    if self.models[id] == nil then fit(self, key, entries, pass, group, stamp) end
  end
  return self.models[id], self.voids[id]
end

--- The samples of a pool too small to fit, relative to the device's kernel tables, or to a roofline if it has none:
--- ett.profile.scale's points, with `factor`, and their `family`. Nil if there are no samples, or enough for a fit.
---@return table[]|nil points
function Profile:few(entries, dtype, pass)
  local device = physics.device_of(self.gpu)
  local device_times = device and device_module.has_tables(device) and require "ett.profile.device_times"
  if device_times and not device_times.lacking(device) then
    self.tables = self.tables or device_times.new(device):at_burst()
  end
  local data = self:data(entries, pass)
  if not data or not profile_fit().shortage(data) then return nil end
  local points = {}
  for i, shape in ipairs(data.shapes) do
    local base = scale().base(self.tables, data.origins[i].entry.operator, shape, dtype, pass)
    points[i] = { dims = table.move(data.rows, (i - 1) * data.dims + 1, i * data.dims, 1, {}),
      factor = data.seconds[i] / base.seconds }
  end
  points = scale().joined(points, "factor")
  points.family = data.family
  return points
end

local last = {} -- the operator, family, key and dimensions of the last shape with a key

-- The dimensions of a shape in the form of some samples, and whether they leave out a number of the shape; nil if the
-- shape has other dimensions.
---@param key string? ett.step.times.shape_key; both passes of an operator ask for the same shape, one after the other
local function dims_as(op, shape, family, count, key)
  if not (key and last.key == key and last.op == op and last.family == family) then
    local _, own, dims, partial = samples.dims(op, shape, family == "wave")
    if own ~= family then return nil end
    last.op, last.family, last.key, last.dims, last.partial = op, family, key, dims, partial
  end
  if #last.dims ~= count then return nil end
  return last.dims, last.partial
end

-- Answers from the samples of a small pool. Without kernel tables, only sampled shapes have an answer.
local function scaled(self, op, shape, dtype, pass, entries)
  if not self.scales then return nil end -- a profile of coefficient files
  local id = ("%s %s %s"):format(samples.pool(op), dtype, pass)
  local known = self.scales[id]
  if known == nil then
    known = self:few(entries, dtype, pass) or false
    self.scales[id] = known
  end
  if not known then return nil end
  local dims, partial = dims_as(op, shape, known.family, #known[1].dims)
  if not dims then return nil end
  local answer = scale().answer(known, dims, scale().base(self.tables, op, shape, dtype, pass),
    not self.tables and scale().assumed_spread or nil)
  if partial and answer.provenance == "measured" then answer.provenance = "calibrated" end
  if self.tables then return answer end
  answer.detail = "a sample of this shape"
  return answer.provenance == "measured" and answer or nil
end

-- The operator whose samples time this one, and the key of their pool: a scan without samples of its own is timed as
-- products.
local function source_of(self, name, dtype)
  local op = operator.get(name)
  local key = samples.pool(op) .. " " .. dtype_key(dtype)
  if not op.unmeasured or self.pools[key] then return op, key end
  op = samples.as_product(op)
  return op, samples.pool(op) .. " " .. dtype_key(dtype)
end

--- The number of sampled shapes of an operator's pool, if it was asked and has too few for a fit; else nil.
---@return integer|nil shapes, string|nil pool, integer|nil least of a fit
function Profile:too_few(name)
  local shapes, own
  for id, points in pairs(not self.tables and operator.find(name) and self.scales or {}) do
    local pool, dtype = id:match "^(.*) ([%w_]+) %a+$"
    if points and pool == samples.pool(source_of(self, name, dtype)) then
      shapes, own = math.min(shapes or math.huge, #points), pool
    end
  end
  if shapes then return shapes, own, profile_fit().least_shapes end
end

--- The reason why a sampled pass is void, or nil.
---@return string|nil
function Profile:void(name, dtype, pass)
  local _, key = source_of(self, name, dtype)
  if not self.pools[key] then return nil end
  return (select(2, self:model(key, self.pools[key], pass)))
end

--- The same samples without the check for void passes.
function Profile:as_sampled()
  local same = merged(self, { options = merged(self.options, { as_sampled = true }), models = {}, voids = {},
    outliers = {}, stamps = {} })
  same.collective_cache = nil
  return setmetatable(same, getmetatable(self))
end

-- Provenance of an answer, from the provenance of the regressor's prediction.
function Profile.origin(provenance) return provenance end

-- The provenances of answers by those of predictions.
local function origins_of(self)
  local origin = self.origin
  return { measured = origin "measured", interpolated = origin "interpolated", extrapolated = origin "extrapolated" }
end

-- Words on an answer outside the samples. outside: log2 of the distance.
local function words_of(detail, outside) return { "%s; %.2f times outside the samples", detail, 2 ^ outside } end

function sampled.other_pass(pass) return pass == "backward" and "forward" or "backward" end

-- FLOPs of a pass of a product over FLOPs of the other pass; bytes for other operators. The second result names them.
local function pass_ratio(op, shape, pass, dtype)
  local count = operator.products[op.family] and "FLOPs" or "bytes"
  local of = count == "FLOPs" and op.flops or function(s, p) return op.bytes(s, dtype, p) end
  return of(shape, pass) / of(shape, sampled.other_pass(pass)), count
end

-- An answer for a void pass, derived from an answer of the other pass.
local function from_other_pass(answer, factor, pass, other_pass, void, whose)
  local spread = sampled.assumed_scaled_spread
  return { seconds = answer.seconds * factor, low_seconds = answer.low_seconds * factor * (1 - spread),
    high_seconds = answer.high_seconds * factor * (1 + spread),
    provenance = answer.provenance == "assumed" and "assumed" or "calibrated", caution = answer.caution,
    detail = { "%s samples are void, %s; %.2f times %s, as %s; %s", pass, void, factor, other_pass, whose,
      answer.detail or "" } }
end

--- If a fit drops more than this share of the rows as outliers, answers have a warning.
local most_dropped = 0.05

-- A warning if the fit dropped many rows as outliers: they may be another mode of the kernel, not noise; else nil.
local function caution(self, id, rows)
  local stamp, count = self.stamps and self.stamps[id], 0
  for _, row in ipairs(stamp and cache().load_outliers(stamp) or self.outliers[id] or {}) do
    -- A row faster than the device's limits is wrong, and row 0 stands for a whole table.
    if row.row > 0 and not row.reason:find "^faster" then count = count + 1 end
  end
  if count <= most_dropped * (rows + count) then return nil end
  return ("%s: the fit dropped %d of %d samples as outliers; they may be a slower mode of the kernel, which the times "
    .. "leave out: `ett fit` lists them"):format(id, count, rows + count)
end

--- Timer of an operator in one pass; nil if the operator was not sampled. A void pass takes the time of the other pass,
--- multiplied by `ratio`, else by the ratio of FLOPs or bytes.
---@param name string operator or alias
---@param dtype string
---@param pass string "forward", "backward", "update"
---@param ratio (fun(shape): number?, string?)? time of this pass divided by the other pass's time, and its origin
---@return function|nil function(the operator's shape, ett.step.times.shape_key?): an answer, or nil if no sample
---  applies to the shape
function Profile:operator_timer(name, dtype, pass, ratio)
  local op, key = source_of(self, name, dtype)
  local entries = self.pools[key]
  if not entries then return nil end
  local model, void = self:model(key, entries, pass)
  local other_pass = sampled.other_pass(pass)
  if void and pass ~= "update" and not self:void(op.name, dtype, other_pass) then
    local time = self:operator_timer(op.name, dtype, other_pass)
    return function(shape, shape_key)
      local answer, factor, whose = time(shape, shape_key), nil, nil
      if ratio then factor, whose = ratio(shape) end
      if not factor then factor, whose = pass_ratio(op, shape, pass, dtype) end
      return answer and from_other_pass(answer, factor, pass, other_pass, void, whose)
    end
  end
  if not model then
    return not void and function(shape) return scaled(self, op, shape, dtype, pass, entries) end or nil
  end
  local facts = model:facts()
  local family, count, most_vocab = facts.family, facts.dims, op.family == "embedding" and facts.most and facts.most[4]
  local detail = ("%s, %d samples"):format(samples.pool(op), facts.rows)
  local origins, whole_heads = origins_of(self), self.whole_heads
  local warning = caution(self, key .. " " .. pass, facts.rows)
  local core = model.compiled and model:compiled() or model
  local predict = core ~= model and core.predict or model.values
  return function(shape, shape_key)
    local dims, partial = dims_as(op, shape, family, count, shape_key)
    if partial and whole_heads then
      dims = dims_as(op, merged(shape, { rotary_dim = shape.head_dim }), family, count)
    end
    if not dims then return nil end
    local value, low, high, provenance, outside = predict(core, dims)
    if partial and provenance == "measured" then provenance = "interpolated" end
    return { seconds = value, low_seconds = low, high_seconds = high, provenance = origins[provenance],
      detail = provenance == "extrapolated" and words_of(detail, outside) or detail, outside = outside,
      caution = warning, sampled_vocab = most_vocab and dims[4] > most_vocab and most_vocab or nil }
  end
end

--- The regressor with which C predicts times of an operator (ett.regress); nil if C cannot.
function Profile:operator_compiled(name, dtype, pass)
  local _, key = source_of(self, name, dtype)
  local model = self.pools[key] and self:model(key, self.pools[key], pass)
  return model and model.compiled and model:compiled() or nil
end

function Profile:operator(name, shape, dtype, pass)
  local time = self:operator_timer(name, dtype, pass)
  return time and detail_words.as_text(time(shape))
end

-- The model of a size, from the models of one kind and topology: the first whose range covers the size, else the one
-- with the nearest range, by ratio.
local function nearest(models, size)
  local best, distance
  for _, model in ipairs(models) do
    local f = model:facts()
    local d = size > f.size_most and math.log(size / f.size_most)
      or size < f.size_least and math.log(f.size_least / size) or 0
    if not best or d < distance then best, distance = model, d end
  end
  return best
end

--- Models of a kind at one topology: from its own files, else from the rows of files with several topologies. Files
--- with the same name (fp16 and bf16) are fitted together.
function Profile:collective_models(kind, dtype, nodes, gpus)
  local key = kind .. " " .. dtype
  local id = topology_key(key, nodes, gpus)
  local found = self.collective_cache and self.collective_cache[id]
  if found then return found end
  found = {}
  local function take(own)
    local by_name = {}
    for _, entry in ipairs(self.collectives[key] or {}) do
      if own and entry.nodes == nodes and entry.gpus == gpus or not own and not entry.nodes then
        table.insert(table_at(by_name, entry.name), entry)
      end
    end
    for _, name in ipairs(schema.keys(by_name)) do
      local model, void = self:model(id .. " " .. name, by_name[name], "collective",
        not own and nodes .. "_" .. gpus or nil)
      found[#found + 1], found.void = model or nil, void or found.void
    end
  end
  take(true)
  if #found == 0 then take(false) end
  self.collective_cache = self.collective_cache or {}
  self.collective_cache[id] = found
  return found
end

--- Every sampled topology of a kind, sorted: { name=, entries=, group= }. Files of one name and topology (fp16 and
--- bf16) are one entry. A topology in a file with several topologies counts only if no file has this topology alone.
---@param key string kind and dtype, a key of self.collectives
function Profile:topologies(key)
  local list, own, generic = {}, {}, {}
  local function add(known, name, entry, group)
    if not known[name] then
      known[name] = { name = name, entries = {}, group = group }
      list[#list + 1] = known[name]
    end
    table.insert(known[name].entries, entry)
  end
  for _, entry in ipairs(self.collectives[key] or {}) do
    if entry.nodes then add(own, ("%s_%d_%d"):format(entry.name, entry.nodes, entry.gpus), entry) end
  end
  for _, entry in ipairs(self.collectives[key] or {}) do
    if not entry.nodes then
      local seen = {}
      for _, group in ipairs(must(samples.read(entry)).group) do
        local name = entry.name .. "_" .. group
        if not seen[group] and not own[name] then add(generic, name, entry, group) end
        seen[group] = true
      end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- Timer of one kind of collective in one group; nil if that kind and topology were not sampled, with the
--- reason if the samples are void.
---@param kind string a collective or alias
---@param topology table { nodes=, gpus_per_node= }
---@return function|nil function(bytes of the whole buffer): an answer (ett.profile.detail); nil for zero bytes
---@return string|nil
---@return number[]|nil bytes of the smallest and of the largest sample
---@return table|nil data with which C predicts: { model, element_bytes, ranks } (ett_message_price)
function Profile:collective_timer(kind, topology, dtype)
  local asked = collective_names.kind(kind)
  kind, dtype = asked, dtype or "fp16"
  local nodes, gpus = topology.nodes, topology.gpus_per_node
  local key = dtype_key(dtype)
  local models = self:collective_models(kind, key, nodes, gpus)
  if #models == 0 and kind == "reduce_scatter" then -- the same bytes over the same links
    kind = "all_gather"
    models = self:collective_models(kind, key, nodes, gpus)
  end
  if #models == 0 then return nil, models.void end
  local element_bytes = schema.dtype_bytes[dtype]
  -- Rows of all_gather count the elements of one rank's share.
  local details, shares, least, most = {}, kind == "all_gather" and nodes * gpus or 1, math.huge, 0.0
  for _, model in ipairs(models) do
    local facts = model:facts()
    local detail = { "%s %dx%d, %d samples", kind, nodes, gpus, facts.rows }
    details[model] = asked ~= kind and { "%s as %s", asked, detail } or detail
    least = math.min(least, facts.size_least * element_bytes * shares)
    most = math.max(most, facts.size_most * element_bytes * shares)
  end
  local only, origin = #models == 1 and models[1], self.origin
  local compiled = only and only.compiled and { model = only:compiled(), element_bytes = element_bytes,
    ranks = shares } or nil
  return function(bytes)
    local size = bytes / element_bytes / shares
    if size <= 0 then return nil end
    local model = only or nearest(models, size)
    local seconds, low, high, provenance, outside = model:values(size)
    return { seconds = seconds, low_seconds = low, high_seconds = high, provenance = origin(provenance),
      detail = provenance == "extrapolated" and words_of(details[model], outside) or details[model], outside = outside,
        below = size < model:facts().size_least }
  end, nil, { least, most }, compiled
end

function Profile:collective(kind, bytes, topology, dtype)
  local timer, void = self:collective_timer(kind, topology, dtype)
  if not timer then return nil, void end
  return detail_words.as_text(timer(bytes))
end

local function few_collectives(self, kind, topology, dtype)
  local nodes, gpus, here, points = topology.nodes, topology.gpus_per_node, {}, {}
  for _, entry in ipairs(self.collectives[kind .. " " .. dtype] or {}) do
    if not entry.nodes or entry.nodes == nodes and entry.gpus == gpus then here[#here + 1] = entry end
  end
  local data = self:data(here, "collective", nodes .. "_" .. gpus)
  for i, count in ipairs(data and data.rows or {}) do
    local share = kind == "all_gather" and nodes * gpus or 1
    points[i] = { dims = { count * share * schema.dtype_bytes[data.origins[i].entry.dtype] },
      seconds = data.seconds[i] }
  end
  return #points > 0 and profile_fit().shortage(data) and scale().joined(points, "seconds")
end

--- The samples of a collective at a topology, if they are too few for a fit: ett.profile.scale's points of bytes, with
--- `seconds`; else nil. If reduce_scatter was not sampled, these are the samples of all_gather, and `as` =
--- "all_gather".
function Profile:few_collectives(kind, topology, dtype)
  if not self.scales then return nil end -- a profile of coefficient files
  kind, dtype = collective_names.kind(kind), dtype_key(dtype or "fp16")
  local id = ("%s %s"):format(topology_key(kind, topology.nodes, topology.gpus_per_node), dtype)
  if self.scales[id] == nil then
    local points = few_collectives(self, kind, topology, dtype)
    if not points and kind == "reduce_scatter" then -- as in collective_timer
      points = few_collectives(self, "all_gather", topology, dtype)
      if points then points.as = "all_gather" end
    end
    self.scales[id] = points or false
  end
  return self.scales[id] or nil
end

--- Dropped rows, by model: { row, path, line, seconds, reason }. Includes models from the cache.
function Profile:report()
  for id, stamp in pairs(self.stamps) do
    self.outliers[id] = cache().load_outliers(stamp)
    self.stamps[id] = nil
  end
  return self.outliers
end

function Profile:__tostring() return ("profile of %s: %d files"):format(self.source, #self.files) end

return sampled
