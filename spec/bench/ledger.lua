--- Measures of the ledger: start-up, evaluations per second, the exact search.
local bench = { summary = "the compute-and-bandwidth ledger" }

local first = "transformer --cluster_flop_rate 156e12 --num_experts 8 --batch_size 8192 --seq_len 8192 "
  .. "--dataset_size 13e12 --num_layers 120 --d_model 15360 --p_pipe 15 --p_data 16 --p_seq 1 --p_exp 8 "
  .. "--p_tensor_int 8 --p_tensor_ext 1"

--- Least and median of `repeats` results of fn, which returns seconds.
local function repeated(repeats, fn)
  local list = {}
  for i = 1, repeats do list[i] = fn() end
  table.sort(list)
  return list[1], list[(repeats + 1) // 2]
end

--- Wall seconds of `count` new processes each, from date's nanoseconds around a shell loop.
local function process_seconds(command, count)
  local loop = "a=$(date +%%s%%N); for i in $(seq %d); do %s >/dev/null; done; b=$(date +%%s%%N); echo $((b-a))"
  local pipe = io.popen(loop:format(count, command))
  local text = pipe:read("a")
  pipe:close()
  return tonumber(text) / 1e9 / count
end

function bench.run()
  local host = require "ett.host"
  local optimize = require "ett.ledger.optimize"
  local transformer = require "ett.ledger.transformer"
  local rows = {}
  local function row(measure, value, target, pass)
    rows[#rows + 1] = { measure = measure, value = value, target = target, pass = pass }
  end

  local least, median = repeated(15, function()
    return process_seconds(("'%s/bin/ett' %s"):format(host.prefix, first), 5)
  end)
  row("README's first example, new process (least of 15 x 5, ms)", ("%.2f"):format(least * 1e3), "<= 10",
    least <= 0.010)
  row("  the same, median", ("%.2f"):format(median * 1e3))

  local program = transformer.compile({}, { efficiency = true })
  local point = { num_experts = 8, batch_size = 8192, seq_len = 8192, dataset_size = 13e12, num_layers = 120,
    d_model = 15360, d_ffn = 61440, num_heads = 240, p_pipe = 15, p_data = 16, p_exp = 8, p_tensor_int = 8 }
  local n = 20000
  local tables = repeated(7, function()
    local start = os.clock()
    for _ = 1, n do program:evaluate(point) end
    return (os.clock() - start) / n
  end)
  row("the same model, one point a call from Lua (a second, one core)", ("%.0f"):format(1 / tables), ">= 100000",
    1 / tables >= 100000)
  local columns = {}
  for name, value in pairs(point) do columns[name] = value end
  columns.p_tensor_int = {}
  for i = 1, n do columns.p_tensor_int[i] = 2 ^ (i % 4) end
  local batched = repeated(7, function()
    local start = os.clock()
    program:columns(columns, n)
    return (os.clock() - start) / n
  end)
  row("the same, in columns, all outputs back in Lua (a second, one core)", ("%.0f"):format(1 / batched), ">= 100000",
    1 / batched >= 100000)

  local search = optimize.new { model = "pods" }
  for _, devices in ipairs { 143, 776, 4096, 20976 } do
    local best
    local seconds = repeated(5, function()
      local start = os.clock()
      best = search:best(devices)
      return os.clock() - start
    end)
    row(("exact layout of the notebook's budget, %d pods: %.2f days (ms)"):format(devices, best.days),
      ("%.2f"):format(seconds * 1e3),
      "<= 100, exact", seconds <= 0.1 and best.proven and best.gap == 0)
  end
  local simple = optimize.new { model = "simple" }
  for _, devices in ipairs { 64, 1024, 16384 } do
    local best
    local seconds = repeated(3, function()
      local start = os.clock()
      best = simple:best(devices)
      return os.clock() - start
    end)
    row(("exact layout of the simple model, %d devices: %.2f days (ms)"):format(devices, best.days),
      ("%.2f"):format(seconds * 1e3), "exact", best.proven and best.gap == 0)
  end
  for _, exponent in ipairs { 9.6, 10.6 } do
    local best
    local seconds = repeated(3, function()
      local start = os.clock()
      best = search:best(2 ^ exponent, { real = true, gap = 0.01 })
      return os.clock() - start
    end)
    row(("fractions allowed, 2^%.1f pods: %.1f days, proven >= %.1f (ms)"):format(exponent, best.days, best.bound),
      ("%.2f"):format(seconds * 1e3), nil, nil)
  end
  return rows
end

return bench
