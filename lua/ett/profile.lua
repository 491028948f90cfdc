--- Profiles: the regressors of one cluster, made from samples or calibrated from them.
--
--   local p = profile.open "path/to/samples"     -- a folder in the reference's layout
--   local p = profile.open(cluster)              -- a cluster (ett.cluster) with a profile
--   p:operator("linear_qkv", shape, "fp16", "forward")
--   p:collective("all_reduce", bytes, { nodes = 1, gpus_per_node = 4 }, "fp16")
--     --> { seconds, low_seconds, high_seconds, provenance, detail } or nil: nothing is known
--
-- What is asked for is fitted when it is first asked for, from every file of the same kernel,
-- and kept in the cache of fitted models (ett.profile_cache).
local cache = require "ett.profile_cache"
local collective_names = require "ett.collective"
local error_module = require "ett.error"
local operator = require "ett.operator"
local regressor = require "ett.regressor"
local regressor_surface = require "ett.regressor_surface"
local samples = require "ett.samples"
local schema = require "ett.schema"

local profile = {}

local Profile = { __name = "ett.profile" }
Profile.__index = Profile
profile.Profile = Profile

--- Streaming multiprocessors by device name, for folders without a cluster file.
local multiprocessors = { { "A100", 108 }, { "A800", 108 }, { "GH200", 132 }, { "H100", 132 }, { "H200", 132 },
  { "H800", 132 }, { "B200", 148 }, { "V100", 80 }, { "A40", 84 }, { "L40", 142 }, { "MI300", 304 }, { "MI250", 208 } }

function profile.multiprocessors(gpu)
  for _, pair in ipairs(multiprocessors) do if gpu:find(pair[1], 1, true) then return pair[2] end end
  return 108
end

-- Dense fp16 FLOP/s by device name (datasheets of the A100 and H100), for the gate.
local peaks = { { "A100", 312e12 }, { "A800", 312e12 }, { "GH200", 989.4e12 }, { "H100", 989.4e12 },
  { "H200", 989.4e12 } }

-- No link carries more than a terabyte per second into one device (fifth NVLink: 0.9).
local fastest_link = 1e12

local function least_of_collective(rows, entry, group)
  local nodes, gpus = (group or ("%d_%d"):format(entry.nodes or 1, entry.gpus or 1)):match("^(%d+)_(%d+)$")
  local ranks = tonumber(nodes) * tonumber(gpus)
  local bytes = require("ett.schema").dtype_bytes[entry.dtype] or 2
  -- A rank's share of an all-gather comes from every other; the rest move their buffer once.
  local moved = bytes * (entry.collective == "all_gather" and math.max(1, ranks - 1) or 1)
  local least = {}
  for i, elements in ipairs(rows) do least[i] = elements * moved / fastest_link end
  return least
end

--- The least time that each row of products can take, nil where that is not known, and false
--- when more than half of the rows take less: then not the rows are wrong but the file.
---@param file table from samples.read
---@param rows number[] flat dims
---@param entry table? file index entry, of collectives
---@param group string? "nodes_gpus" of a generic file
function profile.least_seconds(gpu, file, rows, pass, seconds, entry, group)
  if entry and entry.collective then return least_of_collective(rows, entry, group) end
  local peak
  for _, pair in ipairs(peaks) do if gpu:find(pair[1], 1, true) then peak = peak or pair[2] end end
  if not peak or (file.family ~= "gemm" and file.family ~= "attention") then return nil end
  local least, fast, d = {}, 0, file.dims
  for i = 1, #seconds do
    local at = (i - 1) * d
    local flops
    if file.family == "gemm" then -- backward: two products
      flops = 2.0 * rows[at + 1] * rows[at + 2] * rows[at + 3] * rows[at + 4] * (pass == "backward" and 2 or 1)
    else -- two products over half of the scores; backward recomputes one: five
      flops = 2.0 * rows[at + 1] * rows[at + 2] * rows[at + 4] * rows[at + 5] * rows[at + 6]
        * (rows[at + 7] ~= 0 and 1 or 2) * (pass == "backward" and 2.5 or 1)
    end
    least[i] = flops / peak
    if seconds[i] < least[i] then fast = fast + 1 end
  end
  if fast > #seconds / 2 then return false end
  return least
end

-- fp16 and bf16 run at the same rates and move the same bytes.
local function dtype_key(dtype) return dtype == "bf16" and "fp16" or dtype end

local function topology_key(kind, nodes, gpus) return ("%s %d %d"):format(kind, nodes, gpus) end

--- A profile over files of samples; nothing is read yet.
---@param folders string[]
---@param options table? { multiprocessors=, threads=, cache=false to neither read nor write it }
---@return ett.Profile
function profile.from_samples(folders, options)
  options = options or {}
  local self = setmetatable({ files = {}, pools = {}, collectives = {}, models = {}, outliers = {}, stamps = {},
    options = options, source = table.concat(folders, ", ") }, Profile)
  for _, folder in ipairs(folders) do
    local index, err = samples.index(folder)
    if not index then error(err, 0) end
    for _, entry in ipairs(index) do self.files[#self.files + 1] = entry end
  end
  if #self.files == 0 then
    error_module.raise("format", "%s: no sample files ({gpu}_{operator}_{precision}.csv)", self.source)
  end
  self.gpu = self.files[1].gpu
  self.multiprocessors = options.multiprocessors or profile.multiprocessors(self.gpu)
  for _, entry in ipairs(self.files) do
    local dtype = dtype_key(entry.dtype)
    if entry.operator then
      local key = samples.pool(entry.operator) .. " " .. dtype
      self.pools[key] = self.pools[key] or {}
      table.insert(self.pools[key], entry)
    else
      local list = self.collectives[entry.collective .. " " .. dtype] or {}
      self.collectives[entry.collective .. " " .. dtype] = list
      list[#list + 1] = entry
    end
  end
  return self
end

-- Rows of several files of one pool and pass, one after another; `origins` says where each stands.
local function gather(entries, pass, group)
  local rows, seconds, origins, first = {}, {}, {}, nil
  for _, entry in ipairs(entries) do
    local file, err = samples.read(entry)
    if not file then error(err, 0) end
    for _, p in ipairs(file.passes) do
      if p.pass == pass and (not first or first.dims == file.dims) then
        first = first or file
        for i = 1, file.count do
          if not (group and file.group) or file.group[i] == group then
            for d = (i - 1) * file.dims + 1, i * file.dims do rows[#rows + 1] = file.rows[d] end
            seconds[#seconds + 1] = p.seconds[i]
            origins[#seconds] = { path = file.path, line = file.lines[i] }
          end
        end
      end
    end
  end
  return first, rows, seconds, origins
end

--- Says of each dropped row which line of which file it is.
function profile.locate(outliers, origins)
  for _, outlier in ipairs(outliers) do
    local origin = origins[outlier.row]
    outlier.path, outlier.line = (origin or origins[1]).path, origin and origin.line -- row 0: the whole file
  end
  return outliers
end

-- The fitted model of a pool, from memory, the cache, or a fit. False: there is none.
function Profile:model(key, entries, pass, group)
  local id = key .. " " .. pass
  local known = self.models[id]
  if known ~= nil then return known end
  local paths = {}
  for i, entry in ipairs(entries) do paths[i] = entry.path end
  local stamp = cache.key(paths, entries[1].operator and entries, pass, group or "", self.multiprocessors)
  local model = self.options.cache ~= false and cache.load(stamp) or nil
  if model then
    self.stamps[id] = stamp
  else
    local file, rows, seconds, origins = gather(entries, pass, group)
    if not file or #seconds < 8 then
      self.models[id] = false
      return false
    end
    if #seconds <= regressor_surface.most_rows and regressor_surface.suits(entries[1].path) then
      model = regressor_surface.fit { family = file.family, dims = file.dims, rows = rows, seconds = seconds }
      self.models[id] = model
      return model
    end
    local outliers, suspicion
    local least = profile.least_seconds(self.gpu, file, rows, pass, seconds, entries[1], group)
    if least == false then
      least = nil
      suspicion = "more than half of the rows are faster than the device can be: "
        .. "a kernel of this pass is missing"
    end
    model, outliers = regressor.fit { least_seconds = least, family = file.family, dims = file.dims,
      backward = pass == "backward", multiprocessors = self.multiprocessors, rows = rows, seconds = seconds,
      threads = self.options.threads or 2 }
    if suspicion then table.insert(outliers, 1, { row = 0, seconds = 0.0, reason = suspicion }) end
    if #outliers > 0 then self.outliers[id] = profile.locate(outliers, origins) end
    if self.options.cache ~= false then cache.save(stamp, model, outliers) end
  end
  self.models[id] = model
  return model
end

Profile.gather = gather

--- What is known of a prediction, as the contract has it.
function profile.answer(predicted, detail)
  local provenance = predicted.provenance
  if provenance == "extrapolated" then
    detail = ("%s; %.2f times outside the samples"):format(detail, 2 ^ predicted.outside)
  end
  return { seconds = predicted.value, low_seconds = predicted.low, high_seconds = predicted.high,
    provenance = provenance, detail = detail }
end

function Profile.answer(_, predicted, detail) return profile.answer(predicted, detail) end

--- Fits everything that was sampled: { name, rows, dropped, error_mean, error_median }, sorted.
function Profile:fit_all()
  local list = {}
  local function add(name, model)
    if not model then return end
    local f = model:facts()
    list[#list + 1] = { name = name, rows = f.rows, dropped = f.dropped, error_mean = f.error_mean,
      error_median = f.error_median }
  end
  for _, key in ipairs(schema.keys(self.pools)) do
    for _, pass in ipairs { "forward", "backward", "update" } do
      add(key .. " " .. pass, self:model(key, self.pools[key], pass))
    end
  end
  for _, key in ipairs(schema.keys(self.collectives)) do
    for _, one in ipairs(self:topologies(key)) do
      add(one.name, self:model(one.name, { one.entry }, "collective", one.group))
    end
  end
  return list
end

--- Seconds of one run of an operator, or nil when nothing like it was sampled.
---@param name string operator or alias
---@param shape table the operator's own shape
---@param dtype string
---@param pass string "forward", "backward", "update"
function Profile:operator(name, shape, dtype, pass)
  local op = operator.get(name)
  local pool, _, dims = samples.dims(op, shape)
  local key = samples.pool(op) .. " " .. dtype_key(dtype)
  local entries = self.pools[key]
  if not entries then return nil end
  local model = self:model(key, entries, pass)
  if not model or #dims ~= model:facts().dims then return nil end
  return self:answer(model:predict(dims), ("%s, %d samples"):format(pool, model:facts().rows))
end

-- Elements in a row of the sample files for `bytes` of the whole buffer. The reference's
-- allgather files count one rank's share.
local function elements(kind, bytes, ranks, dtype)
  local count = bytes / schema.dtype_bytes[dtype]
  return kind == "all_gather" and count / ranks or count
end

-- The model among several files of one kind and topology whose range holds the size, else the
-- nearest by ratio.
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

--- Models of a kind at one topology: its own files first, else its rows of a generic file.
function Profile:collective_models(kind, dtype, nodes, gpus)
  local id = topology_key(kind .. " " .. dtype, nodes, gpus)
  local found = self.collective_cache and self.collective_cache[id]
  if found then return found end
  found = {}
  for _, entry in ipairs(self.collectives[kind .. " " .. dtype] or {}) do
    if entry.nodes == nodes and entry.gpus == gpus then
      found[#found + 1] = self:model(id .. " " .. entry.name, { entry }, "collective") or nil
    end
  end
  if #found == 0 then
    for _, entry in ipairs(self.collectives[kind .. " " .. dtype] or {}) do
      if not entry.nodes then
        local group = nodes .. "_" .. gpus
        found[#found + 1] = self:model(id .. " " .. entry.name, { entry }, "collective", group) or nil
      end
    end
  end
  self.collective_cache = self.collective_cache or {}
  self.collective_cache[id] = found
  return found
end

--- Every topology that a kind was sampled at: { name=, entry=, group= }, sorted. A topology of
--- a generic file counts when it has no file of its own.
---@param key string kind and dtype, a key of self.collectives
function Profile:topologies(key)
  local list, own = {}, {}
  for _, entry in ipairs(self.collectives[key] or {}) do
    if entry.nodes then
      own[entry.name .. " " .. entry.nodes .. "_" .. entry.gpus] = true
      list[#list + 1] = { name = ("%s_%d_%d"):format(entry.name, entry.nodes, entry.gpus), entry = entry }
    end
  end
  for _, entry in ipairs(self.collectives[key] or {}) do
    if not entry.nodes then
      local file, err = samples.read(entry)
      if not file then error(err, 0) end
      local seen = {}
      for _, group in ipairs(file.group) do
        if not seen[group] and not own[entry.name .. " " .. group] then
          list[#list + 1] = { name = entry.name .. "_" .. group, entry = entry, group = group }
        end
        seen[group] = true
      end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- Writes small coefficient files of everything sampled (ett.coefficients).
---@param folder string
---@param about table { source=, fitted= }
---@return table[] summary
function Profile:export_coefficients(folder, about)
  return require("ett.coefficients").export(self, folder, about)
end

--- Seconds of a collective; nil when neither it nor its topology was sampled.
---@param kind string a collective or alias
---@param bytes number whole buffer (nccl-tests' convention)
---@param topology table { nodes=, gpus_per_node= }
function Profile:collective(kind, bytes, topology, dtype)
  kind = collective_names.kind(kind)
  dtype = dtype or "fp16"
  local nodes, gpus = topology.nodes, topology.gpus_per_node
  local key = dtype_key(dtype)
  local asked = kind
  local models = self:collective_models(kind, key, nodes, gpus)
  if #models == 0 and kind == "reduce_scatter" then -- the same bytes over the same links
    kind = "all_gather"
    models = self:collective_models(kind, key, nodes, gpus)
  end
  if #models == 0 then return nil end
  local size = elements(kind, bytes, nodes * gpus, dtype)
  if size <= 0 then return nil end
  local model = nearest(models, size)
  local detail = ("%s %dx%d, %d samples"):format(kind, nodes, gpus, model:facts().rows)
  if asked ~= kind then detail = asked .. " as " .. detail end
  return self:answer(model:predict { size }, detail)
end

--- Rows that the gate dropped while fitting, by model: { row, path, line, seconds, reason }. Of
--- models from the cache too.
function Profile:report()
  for id, stamp in pairs(self.stamps) do
    self.outliers[id] = cache.load_outliers(stamp)
    self.stamps[id] = nil
  end
  return self.outliers
end

function Profile:__tostring()
  return ("profile of %s: %d files"):format(self.source, #self.files)
end

local function is_folder(path)
  return require("lfs").attributes(path, "mode") == "directory"
end

--- Opens a profile of samples or of coefficients.
---@param source string|table folder, list of folders, cluster from ett.cluster, or cluster name
---@return ett.Profile|nil nil: the cluster has none
function profile.open(source, options)
  if type(source) == "string" and not is_folder(source) then source = require("ett.cluster").get(source) end
  if type(source) == "string" then source = { source } end
  if #source > 0 then
    if require("ett.coefficients").find(source[1]) then
      return require("ett.coefficients").open(source[1], options)
    end
    return profile.from_samples(source, options)
  end
  local cluster, given = source, source.profile
  if type(given) == "table" then given = given.folder end -- base and borrow: ett.cluster_profile
  if type(given) ~= "string" then return nil end
  local path = given
  if path:sub(1, 1) ~= "/" then
    path = (cluster.folder or (cluster.path or ""):match("^(.*)/[^/]*$") or ".") .. "/" .. path
  end
  if not is_folder(path) then return nil end
  options = options or {}
  options.multiprocessors = options.multiprocessors or cluster.device.multiprocessors
  return profile.open({ path }, options)
end

return profile
