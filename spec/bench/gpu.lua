--- The CUDA back end on a GPU of this machine: outputs of every operator, samples a second, its samples beside the
--- device's bundled kernel tables, and predicted training steps. ETT_BENCH_GPU=FOLDER keeps the samples there.
local host = require "ett.host"
local command = require "command"
local devices = require "ett.profile.device"
local device_times = require "ett.profile.device_times"
local folder_module = require "ett.base.folder"
local json = require "ett.json"
local median = require "ett.base.median"
local operator = require "ett.operator"
local quote = require("ett.base.shell").quote
local sample_table = require "ett.samples.table"

local bench = { summary = "the CUDA back end on a GPU: outputs, samples a second, difference to the tables, steps" }

local function ett(arguments, folder)
  return command.shell(("cd %s && %s %s 2>&1"):format(quote(folder), quote(host.prefix .. "/bin/ett"), arguments))
end

--- Rows of every operator in a precision: measured, and failed or wrong with the first reason.
local function every(folder, precision)
  command.write(folder, "every.lua", require "every_operator")
  local out = ett(("sample every.lua --out every --quiet --precision %s"):format(precision), folder)
  local measured, failed, first = 0, 0, nil
  for done, lost in out:gmatch "(%d+) measured, (%d+) failed" do measured, failed = measured + done, failed + lost end
  for line in out:gmatch "[^\n]+" do
    if line:match "^ett: " and not first then first = line end
  end
  local all = #require("measured_operators").list()
  return { measure = ("every operator in %s: rows of %d, all outputs as in double precision%s"):format(precision, all,
    first and " (" .. first .. ")" or ""), value = measured, target = tostring(all),
    pass = measured == all and failed == 0 and not first }
end

--- Operators whose kernels CUPTI names and times.
local function profiled(folder)
  ett("sample every.lua --out profiled --quiet --profile", folder)
  local operators, all = 0, #require("measured_operators").list()
  for _, name in ipairs(folder_module.names(folder .. "/profiled", "%.csv$")) do
    if (command.read(folder, "profiled/" .. name) or ""):find "\n#~ kernel: " then operators = operators + 1 end
  end
  return { measure = ("operators with kernels named by CUPTI, of %d"):format(all), value = operators,
    target = tostring(all), pass = operators == all }
end

--- The bundled device of a GPU's name as samples spell it ("NVIDIAH200"), or nil.
local function device_of(name)
  for _, key in ipairs(devices.names()) do
    local device = devices.get(key)
    for _, alias in ipairs(device.aliases or {}) do
      if alias:gsub("[^%w%-]", "") == name then return device end
    end
  end
end

--- Ratios of this GPU's samples to the bundled times of the same kernels alone, by operator and pass.
local function compare(folder, rows)
  for _, entry in ipairs(require("ett.profile.samples").index(folder)) do
    local device, ratios = device_of(entry.gpu), {}
    local times = device and device_times.new(device):at_burst()
    local t = sample_table.read(entry.path)
    local op = operator.get(entry.name)
    for i = 1, times and #t.rows or 0 do
      local shape, fields = {}, sample_table.numbers(t, i)
      for at, column in ipairs(t.columns) do
        local pass = sample_table.pass_of[column]
        if not pass then
          shape[column] = fields[at]
        else
          local told = times:operator(op.name, shape, entry.dtype, pass)
          if told and told.seconds > 0 then
            ratios[pass] = ratios[pass] or {}
            table.insert(ratios[pass], fields[at] * 1e-6 / told.seconds)
          end
        end
      end
    end
    for _, pass in ipairs { "forward", "backward", "update" } do
      if ratios[pass] then
        local n = #ratios[pass]
        rows[#rows + 1] = { measure = ("%s %s %s, %d shapes: measured over bundled time, median"):format(entry.name,
          entry.dtype, pass, n), value = ("%.2f"):format(median(ratios[pass])) }
      end
    end
  end
end

local function steps(folder, precision)
  local out = ett(("validate --backend cuda --precision %s --json"):format(precision), folder)
  local ok, result = pcall(json.decode, out:match "{.*" or "")
  local group = ok and result and result.groups[1]
  if not group then return { measure = ("ett validate, %s: %s"):format(precision, out:sub(1, 300)), value = "-",
    pass = false } end
  return { measure = ("ett validate, %s, %d configurations: median step error %%"):format(precision, #group.rows),
    value = ("%.1f"):format(100 * group.median_error), target = "<= 5", pass = group.median_error <= 0.05 }
end

function bench.run()
  local has, cuda = pcall(require, "ett.cuda")
  if not has or (cuda.available() or 0) == 0 then
    return { { measure = "skipped: no CUDA device on this machine", value = "-" } }
  end
  local keep = os.getenv "ETT_BENCH_GPU"
  local folder, rows = keep or folder_module.temporary(), {}
  for _, precision in ipairs { "bf16", "fp16", "fp32", "fp8" } do rows[#rows + 1] = every(folder, precision) end
  rows[#rows + 1] = profiled(folder)
  for _, precision in ipairs { "bf16", "fp8" } do
    local out = ett(("sample gpu --out samples --quiet --precision %s"):format(precision), folder)
    local count, seconds = 0, 0
    for measured, taken in out:gmatch "(%d+) measured[^\n]- in ([%d.]+) s" do
      count, seconds = count + measured, seconds + taken
    end
    rows[#rows + 1] = { measure = ("samples a second, campaign gpu in %s, %d shapes"):format(precision, count),
      value = ("%.0f"):format(count / math.max(seconds, 1e-9)), target = ">= 50", pass = count >= 50 * seconds }
  end
  compare(folder .. "/samples", rows)
  for _, precision in ipairs { "bf16", "fp32" } do rows[#rows + 1] = steps(folder, precision) end
  if not keep then folder_module.remove(folder) end
  return rows
end

return bench
