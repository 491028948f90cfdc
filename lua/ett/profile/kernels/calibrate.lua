--- Writes the coefficient files of devices from tables of measured kernels: `ett calibrate --kernels TABLES`.
--
--   calibrate.run { tables = "…/kernels", into = "clusters/devices", devices = { "h100_sxm" } }
--
-- Each file states its source, licence, date of the fit, and the error of held-out rows (from a fit without those
-- rows).
local collectives = require "ett.profile.kernels.collectives"
local devices = require "ett.profile.device"
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"
local kernels = require "ett.profile.kernels"
local merged = require "ett.base.merged"
local regress = require "ett.regress"
local schema = require "ett.base.schema"
local sealed = require "ett.base.sealed"
local training = require "ett.profile.kernels.attention_training"

local calibrate = {}

--- The data types that are fitted if a table has them.
calibrate.dtypes = { "bf16", "fp8", "fp8_block", "nvfp4", "mxfp4" }

local names = { "gemm", "attention" }

local sources = {
  aiter = { "ROCm/aiter@e404860, tuned products (AMD)", "MIT" },
  cudnn = { "NVIDIA/cudnn-frontend@3929da2, benchmark/sdpa_benchmark_training (NVIDIA)", "MIT" },
}
local law_sources = merged(sources, { aiter = { "ROCm/aiter@0403bcd, op_tests/cpp/mha/README.md (AMD)", "MIT" } })
local default_source = { "ai-dynamo/aiconfigurator@095f58a, compute tables (NVIDIA)", "Apache-2.0" }

--- Whether a row belongs to the held-out fifth of a seed. All rows of a group are held out together.
---@param group string of the model's `group`
---@param seed integer
function calibrate.held_out(group, seed)
  local hash = seed
  for i = 1, #group do hash = regress.mix(hash ~ group:byte(i)) end
  return (hash >> 7) % 5 == 0
end

--- Splits the rows of a model into rows to fit and held-out rows.
function calibrate.split(model, rows, seed)
  local fitted, held = {}, {}
  for _, row in ipairs(rows) do
    table.insert(calibrate.held_out(model.group(row), seed) and held or fitted, row)
  end
  return fitted, held
end

--- Mean relative error of a kernel over rows, and the share of rows inside its interval.
function calibrate.error(kernel, rows)
  local sum, inside = 0.0, 0
  for _, row in ipairs(rows) do
    local seconds, low, high = kernel:predict(row)
    sum = sum + math.abs(seconds / row.seconds - 1)
    if row.seconds >= low and row.seconds <= high then inside = inside + 1 end
  end
  return sum / #rows, inside / #rows
end

local head = "-- Made by `ett calibrate --kernels`; see lua/ett/profile/kernels/README.md. Not written by hand."

local function trees_file(kernel, about)
  local wider = kernel.wider > 1 and (" wider = %.3f,"):format(kernel.wider) or ""
  return ([==[
%s
return {
  format = %q, kernel = %q, device = %q, dtype = %q,
  source = %q, licence = %q,
  framework = %q, fitted = %q,
  rows = %d, held_out_error = %.4f,%s
  text = [=[
%s]=],
}
]==]):format(head, kernels.format, kernel.model.name, kernel.device.key, kernel.dtype, about.source[1],
    about.source[2], about.framework, about.fitted, about.rows, about.error, wider, sealed.wrapped(kernel:text()))
end

local function laws_file(device, laws, framework, fitted)
  local lines, source = {}, law_sources[framework]
  for i, key in ipairs(schema.keys(laws)) do
    lines[i] = ("    [%q] = { %.5g, %.5g%s },"):format(key, laws[key][1], laws[key][2],
      laws[key][3] and (", %.5g"):format(laws[key][3]) or "")
  end
  return ([==[
%s
return {
  format = %q, kernel = "attention_training", device = %q,
  source = %q, licence = %q,
  fitted = %q,
  laws = {
%s
  },
}
]==]):format(head, kernels.format, device.key, source[1], source[2], fitted, table.concat(lines, "\n"))
end

local function write(path, text)
  local folder, name = path:match "^(.*)/([^/]*)$"
  folders.write_in(folder, name, sealed.text(text))
end

-- The rows that are not faster than the device's peak rate. Raises an error if these are less than half of all rows.
local function reachable(model, device, dtype, rows)
  local kept, fastest = {}, nil
  for _, row in ipairs(rows) do
    local rate = model.flops(row) / row.seconds
    if rate <= device:peak(dtype) then
      kept[#kept + 1] = row
    elseif not fastest or rate > fastest then
      fastest = rate
    end
  end
  if #kept < #rows / 2 then
    error_module.raise("model", "calibrate: %s %s of %s: %d of %d rows are faster than the device's peak of %.4g "
      .. "TFLOP/s, up to %.4g; time_us must be in microseconds", model.name, dtype, device.key, #rows - #kept, #rows,
      device:peak(dtype) / 1e12, fastest / 1e12)
  end
  return kept
end

-- Fits and writes the trees. Returns the line of the summary, and the kernel.
local function fit_trees(request, device, name, dtype, all)
  local model = kernels.get(name)
  local every, framework = kernels.preferred(model, all, dtype)
  if not framework or not device:peak(dtype) then return nil end
  local rows = reachable(model, device, dtype, every)
  local fitted, held = calibrate.split(model, rows, request.seed or 1)
  local err = #held > 0 and #fitted > 0 and calibrate.error(kernels.fit(model, device, dtype, fitted), held) or 0.0
  local kernel = kernels.fit(model, device, dtype, rows)
  local text = trees_file(kernel, { source = sources[framework] or default_source, framework = framework,
    fitted = request.fitted, rows = #rows, error = err })
  write(("%s/%s/%s.%s.coefficients.lua"):format(request.into, device.key, name, dtype), text)
  return { device = device.key, kernel = name, dtype = dtype, rows = #rows, dropped = #every - #rows, error = err,
    bytes = #text }, kernel
end

-- forward: kernels of attention that this run fitted, by data type.
local function fit_laws(request, device, forward)
  local all = kernels.read(training, request.tables, device)
  if not all then return nil end
  local rows = training.chosen(all)
  if not rows[1] then return nil end
  local laws = training.fit(device, rows, function(dtype, head_dim, dim)
    return training.relative(forward[dtype] or kernels.own(device, "attention", dtype), head_dim, dim)
  end)
  local text = laws_file(device, laws, rows[1].framework, request.fitted)
  write(("%s/%s/attention_training.coefficients.lua"):format(request.into, device.key), text)
  return { device = device.key, kernel = "attention_training", dtype = "", rows = #rows,
    dropped = 0, error = training.error(device, laws, rows), bytes = #text }
end

-- A curve as text lines of at most 116 columns.
local function curve_lines(gpus, curve)
  local lines, line = {}, ("      [%d] = {"):format(gpus)
  for i, value in ipairs(curve) do
    local word = (i % 2 == 1 and " %d" or " %.4g"):format(value) .. (i < #curve and "," or " },")
    if #line + #word > 116 then
      lines[#lines + 1] = line
      line = "       "
    end
    line = line .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local function copy_collectives(request, device)
  local rows = kernels.read(collectives, request.tables, device)
  if not rows then return nil end
  local curves = collectives.fit(rows)
  local lines, points = {}, 0
  for _, kind in ipairs(schema.keys(curves)) do
    lines[#lines + 1] = ("    %s = {"):format(kind)
    for gpus = 2, 8 do
      local curve = curves[kind][gpus]
      if curve then lines[#lines + 1], points = curve_lines(gpus, curve), points + #curve // 2 end
    end
    lines[#lines + 1] = "    },"
  end
  local text = ([==[
--- Collectives inside a node of %s: bytes of the whole buffer and seconds, medians of nccl-tests.
return {
  format = %q, kernel = "collectives", device = %q,
  source = "ai-dynamo/aiconfigurator@095f58a, collectives (NVIDIA)", licence = "Apache-2.0",
  fitted = %q,
  curves = {
%s
  },
}
]==]):format(device.key, kernels.format, device.key, request.fitted, table.concat(lines, "\n"))
  write(("%s/%s/collectives.coefficients.lua"):format(request.into, device.key), text)
  return { device = device.key, kernel = "collectives", dtype = "", rows = points, dropped = 0, error = 0.0,
    bytes = #text }
end

--- Fits and writes the coefficient files. Raises if no device has a table.
---@param request table { tables, into, devices (list of keys)?, fitted (date), seed? }
---@return table[] summary { device, kernel, dtype, rows, dropped (faster than the peak rate), error, bytes }
function calibrate.run(request)
  local summary = {}
  for _, key in ipairs(request.devices or devices.names()) do
    local device, forward = devices.get(key), {}
    for _, name in ipairs(names) do
      local all = kernels.read(kernels.get(name), request.tables, device) or {}
      for _, dtype in ipairs(calibrate.dtypes) do
        local kernel
        summary[#summary + 1], kernel = fit_trees(request, device, name, dtype, all)
        if name == "attention" then forward[dtype] = kernel end
      end
    end
    summary[#summary + 1] = fit_laws(request, device, forward)
    summary[#summary + 1] = copy_collectives(request, device)
  end
  if #summary == 0 then
    error_module.raise("missing", "calibrate: no kernel tables of %s in '%s'",
      request.devices and table.concat(request.devices, ", ") or "any device", request.tables)
  end
  return summary
end

return calibrate
