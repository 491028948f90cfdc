--- Errors of the kernel models on held-out shapes of the measured tables.
-- Whole weights (n, k), heads or models are held out: a seeded fifth, never used to choose a feature or a parameter.
local bench = { summary = "kernel models on held-out shapes" }

local fit_norms = require "fit_norms"
local fit_streaming = require "fit_streaming"
local kernel_tables = require "kernel_tables"
local served_experts = require "served_experts"
local nvidia, errors, fifth = kernel_tables.nvidia, kernel_tables.errors, kernel_tables.fifth
local amd = { "mi300x", "mi355x" }

local function small_first(_, rows)
  local fitted, held = {}, {}
  for _, row in ipairs(rows) do
    table.insert((row.m > 4096 or row.n > 8192 or row.k > 8192) and held or fitted, row)
  end
  return fitted, held
end

-- Devices as if they had no table, over all of their rows.
local function left_out(folder, name, dtype, keys)
  local device_module, kernels = require "ett.profile.device", require "ett.profile.kernels"
  local calibrate = require "ett.profile.kernels.calibrate"
  local model, sum, within, count, rows = kernels.get(name), 0.0, 0.0, 0, {}
  for _, key in ipairs(keys) do
    local device = device_module.get(key)
    local chosen = kernels.preferred(model, kernels.read(model, folder, device) or {}, dtype)
    local other = chosen[1] and kernels.transferred(device, name, dtype)
    if other then
      local err, inside = calibrate.error(other, chosen)
      sum, within, count = sum + err, within + inside, count + 1
      rows[count + 1] = { value = ("%.2f %%"):format(100 * err),
        measure = ("    %s from %s, %.0f %% inside the interval"):format(key, other.from, 100 * inside) }
    end
  end
  rows[1] = { measure = "    mean share inside the interval", value = ("%.0f %%"):format(100 * within / count) }
  return sum / count, rows
end

local function training(folder)
  local device_module = require "ett.profile.device"
  local kernels, laws = require "ett.profile.kernels", require "ett.profile.kernels.attention_training"
  local by_pass = { forward = { 0.0, 0 }, backward = { 0.0, 0 } }
  for _, key in ipairs { "h200_sxm", "gb300" } do
    local device = device_module.get(key)
    local rows = laws.chosen(kernels.read(laws, folder, device))
    local function forward(dtype, head_dim, other)
      return laws.relative(kernels.own(device, "attention", dtype), head_dim, other)
    end
    for i, row in ipairs(rows) do -- each row from laws of all others
      local others = table.move(rows, 1, i - 1, 1, {})
      table.move(rows, i + 1, #rows, #others + 1, others)
      local seconds = laws.seconds(device, laws.fit(device, others, forward), row.dtype, row.pass, row)
      local sum = by_pass[row.pass]
      sum[1], sum[2] = sum[1] + math.abs(seconds / row.seconds - 1), sum[2] + 1
    end
  end
  return by_pass.forward[1] / by_pass.forward[2], by_pass.backward[1] / by_pass.backward[2]
end

-- Collectives inside a node. Mean errors of each size from all others, from 1 MiB on and below; and of the sizes above
-- each size from 32 MiB on, from that size and the smaller ones.
local function inside_node(folder)
  local devices, collectives = require "ett.profile.device", require "ett.profile.kernels.collectives"
  local kernels = require "ett.profile.kernels"
  local large, small, above = { 0.0, 0 }, { 0.0, 0 }, { 0.0, 0 }
  local function add(into, kind, gpus, points, bytes, measured)
    local seconds = collectives.seconds({ [kind] = { [gpus] = collectives.rising(points) } }, kind, bytes, gpus)
    into[1], into[2] = into[1] + math.abs(seconds / measured - 1), into[2] + 1
  end
  local function test(kind, gpus, curve)
    for i = 3, #curve - 1, 2 do
      local smaller = table.move(curve, 1, i - 1, 1, {})
      local others = table.move(curve, i + 2, #curve, i, table.move(smaller, 1, i - 1, 1, {}))
      if i < #curve - 1 then
        add(curve[i] >= 2 ^ 20 and large or small, kind, gpus, others, curve[i], curve[i + 1])
      end
      for k = curve[i - 2] >= 2 ^ 25 and i or #curve, #curve - 1, 2 do
        add(above, kind, gpus, smaller, curve[k], curve[k + 1])
      end
    end
  end
  for _, key in ipairs(nvidia) do
    for kind, by_gpus in pairs(collectives.fit(kernels.read(collectives, folder, devices.get(key)))) do
      for gpus, curve in pairs(by_gpus) do test(kind, gpus, curve) end
    end
  end
  return large[1] / large[2], small[1] / small[2], above[1] / above[2]
end

-- Quantisation with a given scale, repeated on one tensor: each device with the constants of the others.
local function quantisation(folder)
  local sum, rows = 0.0, {}
  local found = fit_streaming.left_out(fit_streaming.rows(folder))
  for i, of in ipairs(found) do
    sum = sum + of.error
    rows[i] = { measure = ("    %s, %d rows; %.0f %% if all bytes came from memory"):format(of.key, of.count,
      100 * of.memory), value = ("%.2f %%"):format(100 * of.error) }
  end
  return sum / #found, rows
end

-- Operators of a layer of experts, measured alone, against fused layers.
local function fused_layers(folder)
  local sum, rows = 0.0, {}
  local found = served_experts.errors(folder)
  for i, of in ipairs(found) do
    sum = sum + of.error
    rows[i] = { measure = ("    %s, %d rows; mean signed error %+.0f %%"):format(of.key, of.count, 100 * of.bias),
      value = ("%.2f %%"):format(100 * of.error) }
  end
  return sum / #found, rows
end

function bench.run()
  local folder, why = kernel_tables.folder()
  if not folder then return { { measure = "kernel tables", value = "skipped: " .. why } } end
  local rows = {}
  local function add(measure, err, most, details)
    local row = { measure = measure, value = ("%.2f %%"):format(100 * err) }
    if most then row.target, row.pass = ("<= %g %%"):format(most), 100 * err <= most end
    rows[#rows + 1] = row
    table.move(details or {}, 1, #(details or {}), #rows + 1, rows)
  end
  for _, case in ipairs { { "bf16", 4 }, { "fp8", 4 }, { "fp8_block" }, { "nvfp4", 4.5 } } do
    local err, details = errors(folder, "gemm", case[1], nvidia, fifth)
    add(("gemm %s, weights held out, mean of NVIDIA devices"):format(case[1]), err, case[2], details)
  end
  for _, dtype in ipairs { "bf16", "fp8", "fp8_block" } do
    local err, details = errors(folder, "gemm", dtype, amd, fifth)
    add(("gemm %s, weights held out, mean of AMD devices"):format(dtype), err, nil, details)
  end
  local err, details = errors(folder, "gemm", "bf16", nvidia, small_first)
  add("gemm bf16, fitted to m <= 4096 and n, k <= 8192, tested above", err, 7, details)
  local most = table.move(nvidia, 2, #nvidia, 1, {}) -- a100's neighbours are of another generation
  err, details = left_out(folder, "gemm", "bf16", most)
  add("gemm bf16, device left out (a100 aside)", err, 9, details)
  local every = table.move(amd, 1, #amd, #nvidia + 1, table.move(nvidia, 1, #nvidia, 1, {}))
  for _, case in ipairs { { "gemm", "bf16" }, { "gemm", "fp8" }, { "gemm", "fp8_block" }, { "gemm", "nvfp4" },
    { "attention", "bf16" }, { "attention", "fp8" } } do
    err, details = left_out(folder, case[1], case[2], every)
    add(("%s %s, each device left out"):format(case[1], case[2]), err, nil, details)
  end
  for _, dtype in ipairs { "bf16", "fp8" } do
    err, details = errors(folder, "attention", dtype, nvidia, fifth)
    add(("causal attention forward %s, heads held out"):format(dtype), err, 5, details)
  end
  local forward, backward = training(folder)
  add("attention in training, forward, rows left out", forward)
  add("attention in training, backward, rows left out", backward, 8)
  local norms = fit_norms.rows(folder)
  forward, backward = fit_norms.left_out(norms, function(row) return row.shape end)
  add("norms, forward, shapes left out", forward, 10)
  add("norms, backward, shapes left out", backward, 12)
  forward, backward = fit_norms.left_out(norms, function(row) return row.device.key end)
  add("norms, forward, each device from the other", forward)
  add("norms, backward, each device from the other", backward)
  err, details = quantisation(folder)
  add("static quantisation, each device from the others", err, 18, details)
  local large, small, above = inside_node(folder)
  add("collectives inside a node, sizes left out, from 1 MiB on", large, 8)
  add("collectives inside a node, sizes left out, below 1 MiB", small, 15)
  add("collectives inside a node, sizes above those from 32 MiB on left out", above)
  for _, dtype in ipairs { "bf16", "fp8_block" } do
    err, details = errors(folder, "moe", dtype, nvidia, fifth)
    add(("fused experts %s, models held out"):format(dtype), err, 12, details)
  end
  err, details = fused_layers(folder)
  add("operators of experts bf16 as served, against fused layers", err, 20, details)
  return rows
end

return bench
