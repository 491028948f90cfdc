--- Sample tables in the form that regressors need: rows of kernel dimensions and seconds.
--
-- File names: {gpu}_{name}_{precision}.csv for operators; {gpu}_{name}_{precision}_{nodes}_{gpus}.csv for collectives
-- of one topology; {gpu}_{name}_{precision}.csv with columns nodes and GPUsPerNode for collectives of several
-- topologies.
local collective = require "ett.operator.collective"
local csv = require "ett.csv"
local error_module = require "ett.base.error"
local gemm = require "ett.operator.gemm"
local merged = require "ett.base.merged"
local operator = require "ett.operator"
local schema = require "ett.base.schema"

local function sample_table() return require "ett.samples.table" end -- loaded late: `dims` does not need it

local samples = {}

local function set(text)
  local names = {}
  for name in text:gmatch "%S+" do names[name] = true end
  return names
end

-- Most numbers of a kernel_shape in the family `wave`: a surface has at most 16 dimensions (samplers/core/surface.c).
local most_numbers = 14

-- Numbers of a kernel_shape that the dimensions of a family include. With other numbers the family is `wave`.
local included = { embedding = set "rows cols vocab whole_vocab", optimizer = set "params tensors layers hidden",
  rope = set "rows cols heads head_dim", rowwise = set "rows cols seq_q" }

-- Dimensions that the kernel_shape of a family must have.
local required = { gemm = { "m", "n", "k" }, bmm = { "m", "n", "k" },
  attention = { "batch", "heads", "seq_q", "seq_k", "head_dim" } }

-- The first required dimension that is missing, or nil.
local function missing(k, family)
  local names = required[family]
  for i = 1, names and #names or 0 do if type(k[names[i]]) ~= "number" then return names[i] end end
end

-- Sorted names of the numbers of a kernel_shape.
local function numbers_of(k)
  local names = {}
  for _, name in ipairs(schema.keys(k)) do
    if type(k[name]) == "number" then names[#names + 1] = name end
  end
  return names
end

local function has_others(k, family)
  local own = included[family]
  for name, value in next, k do
    if not own[name] and type(value) == "number" then return true end
  end
  return false
end

-- Whether the operator is one product, whose samples serve all products. A scan of many products (`unmeasured` of its
-- file) is none: a pool of both would give its times to the products.
local function is_product(op) return (op.family == "gemm" or op.family == "bmm") and not op.unmeasured end

--- Kernel dimensions of an operator's shape (runtime/regress/serve/design.h), and the pool: operators that run the same
--- kernel share a pool.
---@param as_wave boolean? in the form of the family `wave`
---@return string pool, string|nil family, number[] dims; no family if the kernel_shape lacks a required dimension
---@return boolean|nil partial whether the dimensions leave out a number of the shape
---@return string[]|nil names of the numbers of the family `wave`
function samples.dims(op, s, as_wave)
  if op.kernel_shape == gemm.kernel_shape and not as_wave and is_product(op) then
    return op.family, "gemm", { s.batch or 1, s.tokens, s.out_features, s.in_features }
  end
  local k = op.kernel_shape(s)
  local family = (as_wave or required[op.family] and op.unmeasured) and "wave" or op.family
  if missing(k, family) then return samples.pool(op), nil, {} end
  if is_product(op) then
    return family, "gemm", { k.batch or 1, k.m, k.n, k.k }
  elseif family == "attention" then
    -- A causal mask is aligned with the last query and key, unless each context-parallel rank (shards) has half of all
    -- pairs. With more queries than keys the first queries have no key.
    local causal = k.seq_q <= k.seq_k and 2 - k.seq_q / k.seq_k or k.seq_k / k.seq_q
    local mask = not k.causal and 0 or s.shards and 1 or causal
    return op.name, "attention", { k.batch, k.heads, k.kv_heads or k.heads, k.seq_q, k.seq_k, k.head_dim, mask }
  elseif family == "embedding" and k.vocab and not has_others(k, family) then
    return op.name, "embedding", { k.rows, k.cols, k.vocab, k.whole_vocab or k.vocab }
  elseif family == "optimizer" and not has_others(k, family) then
    local layers = math.max(1, s.layers or 1)
    return op.name, "optimizer", { s.params, s.tensors or 12 * layers, layers,
      s.hidden or math.max(1, math.floor(math.sqrt(s.params / (12 * layers)))) }
  elseif family == "rope" and k.heads and not has_others(k, family) then
    local rotated = k.cols and k.cols // k.heads or k.head_dim -- elements of a head
    return op.name, "rowwise", { k.rows * k.heads, rotated, k.rows }, rotated ~= k.head_dim
  elseif family ~= "wave" and family ~= "router" -- whose time also depends on the number of experts
    and k.rows and k.cols and not has_others(k, "rowwise") then
    return op.name, "rowwise", { k.rows, k.cols, k.seq_q or 1 }
  end
  -- The family takes logarithms of FLOPs and bytes, and of their ratio.
  local dims, names = { math.max(1.0, op.flops(s, "forward")), math.max(1.0, op.bytes(s, "fp16", "forward")) },
    numbers_of(k)
  for i, name in ipairs(names) do dims[i + 2] = k[name] end
  return op.name, "wave", dims, nil, names
end

--- The pool of an operator; it does not depend on the shape.
function samples.pool(op) return is_product(op) and op.family or op.name end

local as_products = setmetatable({}, { __mode = "k" })

--- The operator as one product of its kernel_shape: its time if it has no samples of its own, but products have.
function samples.as_product(op)
  as_products[op] = as_products[op] or merged(op, { unmeasured = false })
  return as_products[op]
end

--- The parts of a file name: { gpu=, name=, dtype=, nodes=, gpus= }; nil for other names.
function samples.parse_name(file)
  local stem = file:match("([^/]+)%.csv$")
  if not stem then return nil end
  local head, nodes, gpus = stem:match("^(.+)_(%d+)_(%d+)$")
  local gpu, name, dtype = (head or stem):match("^([^_]+)_(.+)_(%w+)$")
  if not gpu or not schema.dtype_bytes[dtype] then return nil end
  return { gpu = gpu, name = name, dtype = dtype, nodes = math.tointeger(tonumber(nodes)),
    gpus = math.tointeger(tonumber(gpus)) }
end

local function sorted_files(folder)
  local lfs = require "lfs"
  local ok, iterate, state = pcall(lfs.dir, folder)
  if not ok then -- iterate is "cannot open FOLDER: REASON"
    return nil, error_module.new("io", "cannot read folder '%s':%s", folder, tostring(iterate):match "[^:]*$")
  end
  local files = {}
  for entry in iterate, state do files[#files + 1] = entry end
  table.sort(files)
  return files
end

--- The sample files of a folder and of its subfolders operator and nccl, sorted. Tables of a campaign without a row are
--- left out.
---@return table[]|nil { path=, gpu=, name=, dtype=, nodes=, gpus=, operator= | collective= }
---@return table[]|ett.Error unknown tables that name no known operator or collective: { path=, name= }
function samples.index(folder)
  schema.argument(folder, "string", "ett.samples.index", "folder")
  local list, unknown = {}, {}
  for _, sub in ipairs { "", "/operator", "/nccl" } do
    local files, err = sorted_files(folder .. sub)
    if not files and sub == "" then return nil, err end
    for _, file in ipairs(files or {}) do
      local entry = samples.parse_name(file)
      if entry then
        entry.path = folder .. sub .. "/" .. file
        local fault = sample_table().no_file(entry.path)
        if fault then return nil, fault end
        entry.operator = operator.find(entry.name)
        if not entry.operator then entry.collective = collective.find(entry.name) end
        if not entry.operator and not entry.collective then
          unknown[#unknown + 1] = { path = entry.path, name = entry.name }
        elseif not sample_table().is_begun(entry.path) then
          list[#list + 1] = entry
        end
      end
    end
  end
  return list, unknown
end

--- The message for a table whose operator has no file.
function samples.unknown_text(entry)
  return ("%s: no operator or collective '%s' is known; give the folder of its file with --path DIR or "
    .. "in ETT_PATH")
    :format(entry.path, entry.name)
end

local function faulty(message, ...) return nil, error_module.new("format", message, ...) end

local units = set("ns us ms s nsec usec msec sec nsecs usecs msecs secs nanoseconds microseconds milliseconds second "
  .. "seconds min minutes")

-- Whether a column has the time of a pass, by its name: "F_dur", "dur_ns". A word in brackets is a unit: "b_dur[msec]".
local function is_time(name)
  local unit = name:lower():match "^[fb]?_?dur(.*)$"
  return unit and (unit == "" or unit:find "^%s*[%(%[]%s*%a+%s*[%)%]]$" or units[unit:match "^[%s_]+(%a+)$"])
end

local function time_columns(t, entry)
  local found, column_of = {}, {}
  for _, name in ipairs(t:names()) do
    local pass = sample_table().pass_of[name:gsub("%s+%(", "(")]
    if pass and column_of[pass] then
      return faulty("%s: columns '%s' and '%s' both hold the times of one pass; remove one", entry.path,
        column_of[pass], name)
    elseif pass then
      column_of[pass] = name
      found[#found + 1] = { name = name, pass = entry.collective and "collective" or pass }
    elseif is_time(name) then
      return faulty("%s: column '%s': times are read in microseconds, from 'F_dur(us)', 'B_dur(us)' or 'dur(us)'; "
        .. "convert the column, or rename it to leave it out", entry.path, name)
    end
  end
  if #found > 0 then return found end
  return faulty("%s: expected a column of times ('F_dur(us)', 'B_dur(us)' or 'dur(us)'), found %s", entry.path,
    table.concat(t:names(), ", "))
end

--- The columns of a table that hold a shape, and the function from a row to the shape: op.sample_row
--- (ett.operator.dialect), else the fields of op.schema, as `ett sample` writes them.
local function shape_columns(t, op)
  local has = {}
  for _, name in ipairs(t:names()) do has[name] = true end
  local foreign, some = op.sample_row, false
  if foreign then
    local all = true
    for _, name in ipairs(foreign.columns) do all, some = all and has[name], some or has[name] end
    if all then return foreign.columns, foreign.shape end
  end
  local own = {}
  for _, name in ipairs(schema.keys(op.schema)) do if has[name] then own[#own + 1] = name end end
  if #own == 0 then return some and foreign.columns, some and foreign.shape end
  return own, function(row)
    local s = {}
    for _, name in ipairs(own) do s[name] = row[name] end
    return schema.check(s, op.schema, op.name)
  end
end

-- Calls each(row) for every row of a table. An error names the row's file and line.
---@param lines integer[] of the file, by row
local function each_row(lines, path, each)
  local at
  local ok, raised = xpcall(function()
    for row = 1, #lines do
      at = row
      each(row)
    end
  end, error_module.traced)
  if ok then return true end
  return nil, error_module.label(raised, ("%s:%d"):format(path, lines[at]))
end

-- Checks that the kernel_shape of a row gives dimensions.
local function check_dims(op, shape, family, names)
  if not family then
    error_module.raise("model", "operator '%s': kernel_shape must return the number '%s', which samples of the family "
      .. "'%s' need", op.name, missing(op.kernel_shape(shape), op.family), op.family)
  elseif #(names or {}) > most_numbers then
    error_module.raise("model", "operator '%s': kernel_shape returns %d numbers, of which samples can have at most %d; "
      .. "return fewer", op.name, #names, most_numbers)
  end
end

-- Checks that the kernel_shape of a row has the numbers of the first row: else their dimensions would not be the same.
local function check_same(op, first, shape, family, names)
  if not first.family then first.family, first.names, first.shape = family, names, shape end
  local same = family == first.family and #(names or {}) == #(first.names or {})
  for i = 1, same and names and #names or 0 do same = same and names[i] == first.names[i] end
  if same then return end
  local function words(s) return table.concat(numbers_of(op.kernel_shape(s)), ", ") end
  error_module.raise("model", "operator '%s': kernel_shape returns the numbers %s for this row, and %s for the first; "
    .. "return the same fields for every shape", op.name, words(shape), words(first.shape))
end

-- The dimensions of a table's shapes.
---@param as_wave boolean? of ett.profile.samples.dims
local function read_dims(lines, entry, shapes, as_wave)
  local op, flat, first, partial, pool, dims = entry.operator, {}, {}, false, nil, 1
  local ok, err = each_row(lines, entry.path, function(row)
    local family, own, left_out, names
    pool, family, own, left_out, names = samples.dims(op, shapes[row], as_wave)
    check_dims(op, shapes[row], family, names)
    check_same(op, first, shapes[row], family, names)
    dims, partial = #own, partial or left_out
    table.move(own, 1, dims, #flat + 1, flat)
  end)
  if not ok then return nil, err end
  if partial then return read_dims(lines, entry, shapes, true) end
  return { pool = pool, family = first.family, dims = dims, rows = flat, shapes = shapes, lines = lines }
end

-- The fields of an operator's shape that a table has no column for, except those with a default.
local function absent_columns(op, names)
  local has, absent = {}, {}
  for _, name in ipairs(names) do has[name] = true end
  for _, name in ipairs(schema.keys(op.schema)) do
    if not has[name] and not schema.optional(op.schema[name]) then absent[#absent + 1] = name end
  end
  return absent
end

local function read_operator(t, entry, lines)
  local op = entry.operator
  local names, shape_of = shape_columns(t, op)
  if not names then
    return faulty("%s: no column of the shape of '%s' (%s); it has %s", entry.path, op.name,
      table.concat(schema.keys(op.schema), ", "), table.concat(t:names(), ", "))
  end
  local absent = not (op.sample_row and names == op.sample_row.columns) and absent_columns(op, names) or {}
  if absent[1] then
    return faulty("%s: no column '%s', which the shape of '%s' needs; it has %s", entry.path,
      table.concat(absent, "', '"), op.name, table.concat(t:names(), ", "))
  end
  local columns, width = {}, #names
  for i, name in ipairs(names) do
    local values, err = t:numbers(name, op.sample_row and names == op.sample_row.columns and "positive" or "number")
    if not values then return nil, err end
    columns[i] = values
  end
  local shapes, fields = {}, {}
  local ok, err = each_row(lines, entry.path, function(row)
    for c = 1, width do fields[names[c]] = columns[c][row] end
    shapes[row] = shape_of(fields)
  end)
  if not ok then return nil, err end
  return read_dims(lines, entry, shapes)
end

-- Rows of collectives have a number of elements; in files with several topologies, `group` is the topology of a row.
local function read_collective(t, entry)
  local elements, err = t:numbers("shape", "positive")
  if not elements then return nil, err end
  local out = { pool = entry.name, family = "collective", dims = 1, rows = elements }
  if not entry.nodes then
    local nodes, why = t:numbers("nodes", "count")
    if not nodes then return nil, why end
    local gpus
    gpus, why = t:numbers("GPUsPerNode", "count")
    if not gpus then return nil, why end
    out.group = {}
    for i = 1, #elements do out.group[i] = nodes[i] .. "_" .. gpus[i] end
  end
  return out
end

--- Reads a sample file.
---@return table|nil { pool, family, dims, rows (flat dims), group?,
---passes = { { pass=, seconds=, disturbed = { [row] = true: measured under noise } } }, by_pass (pass -> seconds),
---count, path, lines (of the file, by row), shapes (of an operator's rows), entry }, ett.Error?
function samples.read(entry)
  local held, err = sample_table().read(entry.path)
  if not held then return nil, err end
  if held.ett and held.cut then
    return faulty("%s:%d: the last line is cut off; run its campaign again to measure that row, or remove "
      .. "the line", entry.path, held.cut)
  end
  local t
  t, err = csv.decode(held.text, { name = entry.path })
  if not t then return nil, err end
  local times
  times, err = time_columns(t, entry)
  if not times then return nil, err end
  if t:rows() == 0 then return faulty("%s: no rows", entry.path) end
  local lines = {}
  for r = 1, t:rows() do lines[r] = t:line(r) end
  local out
  if entry.operator then out, err = read_operator(t, entry, lines) else out, err = read_collective(t, entry) end
  if not out then return nil, err end
  out.passes, out.by_pass, out.entry = {}, {}, entry
  for i, column in ipairs(times) do
    local us, why = t:numbers(column.name, "positive")
    if not us then return nil, why end
    local seconds = {}
    for r = 1, #us do seconds[r] = us[r] * 1e-6 end
    out.passes[i] = { pass = column.pass, seconds = seconds, disturbed = {} }
    out.by_pass[column.pass] = seconds
  end
  out.count, out.path, out.lines = t:rows(), entry.path, lines
  local reasons = {}
  for r in pairs(held.marks) do reasons[held.at[r]] = sample_table().disturbed(held, r) end
  for r = 1, out.count do
    local reason = reasons[lines[r]]
    for _, p in ipairs(reason and out.passes or {}) do
      p.disturbed[r] = reason:find(p.pass .. ": ", 1, true) and true or nil
    end
  end
  t:close()
  return out
end

-- Brings the files of an operator into the same form: if one of them has the family `wave`, all get it.
local function same_form(files)
  local wave = false
  for _, file in ipairs(files) do wave = wave or file.family == "wave" end
  for i, file in ipairs(wave and files or {}) do
    if file.family ~= "wave" then
      files[i] = merged(file, error_module.must(read_dims(file.lines, file.entry, file.shapes, true)))
    end
    if files[i].dims ~= files[1].dims then
      error_module.raise("model", "operator '%s': kernel_shape returns %d numbers for the rows of %s, and %d for those "
        .. "of %s; return the same fields for every shape", file.entry.operator.name, files[i].dims - 2, file.path,
        files[1].dims - 2, files[1].path)
    end
  end
end

--- The rows of a pool's files in one pass, in the form of ett.profile.fit; nil if no file has the pass.
---@param files table[] of samples.read
---@param group string? of files with several topologies: only its rows
---@param wanted (fun(file: integer, row: integer): boolean)? which rows; default: all
---@return table|nil with origins = { { file = number in `files`, row = } }, by row
function samples.data(files, pass, group, wanted)
  local data
  same_form(files)
  for f, file in ipairs(files) do
    for _, p in ipairs(file.passes) do
      if p.pass == pass then
        local entry = file.entry
        data = data or { gpu = entry.gpu, family = file.family, dims = file.dims, rows = {}, seconds = {}, pass = pass,
          entry = entry, group = group, origins = {}, disturbed = {}, shapes = entry.operator and {} }
        for i = 1, file.count do
          if (not (group and file.group) or file.group[i] == group) and (not wanted or wanted(f, i)) then
            local n = #data.seconds + 1
            table.move(file.rows, (i - 1) * file.dims + 1, i * file.dims, #data.rows + 1, data.rows)
            data.seconds[n], data.disturbed[n] = p.seconds[i], p.disturbed[i]
            data.origins[n] = { file = f, row = i }
            if data.shapes then data.shapes[n] = file.shapes[i] end
          end
        end
      end
    end
  end
  return data
end

return samples
