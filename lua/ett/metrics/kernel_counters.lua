--- Counters of the device (CUPTI) by kernel and by operator.
local by = require "ett.base.by"
local stats = require "ett.trace.stats"

--- FLOPs per counted instruction; a fused multiply-add is two.
local flops = {}
for _, op in ipairs{ "ffma", "fmul", "fadd", "hfma", "hmul", "hadd", "dfma", "dmul", "dadd" } do
  flops[("smsp__sass_thread_inst_executed_op_%s_pred_on.sum"):format(op)] = op:find "fma" and 2 or 1
end

local counters = { "kineto__cuda_core_flop", "kineto__tensor_core_insts", "smsp__inst_executed.sum",
  "smsp__cycles_active.sum", "sm__cycles_active.sum", "dram__bytes_read.sum", "dram__bytes_write.sum",
  "l1tex__data_bank_reads.sum", "l1tex__data_bank_writes.sum", "smsp__inst_executed_pipe_tensor.sum" }
for name in pairs(flops) do counters[#counters + 1] = name end
table.sort(counters)

--- Adds the i-th row's counters to those of a name.
local function add(found, name, values, i)
  local row = found[name] or { name = name, count = 0, counters = {} }
  found[name], row.count = row, row.count + 1
  for _, counter in ipairs(counters) do
    local value = tonumber(values[counter][i] or nil)
    if value then
      row.counters[counter] = (row.counters[counter] or 0.0) + value
      if flops[counter] then row.flops = (row.flops or 0.0) + flops[counter] * value end
    end
  end
end

local function listed(found, top)
  local list = {}
  for _, row in pairs(found) do if next(row.counters) then list[#list + 1] = row end end
  table.sort(list, by(function(row) return -(row.flops or 0) end, "-count", "name"))
  local out = {}
  for i = 1, math.min(#list, top) do
    out[i] = { name = list[i].name, count = list[i].count, flops = list[i].flops or stats.null }
    for name, value in pairs(list[i].counters) do out[i][name] = value end
  end
  return out
end

--- Operators of a file's counted kernels: the innermost host operator around the launch with the same index. nil if the
--- numbers of launches and counted kernels differ.
local function operators_of(view, file, rows)
  local launches = view:class_rows("runtime"):where{ file = file }
  launches = launches:where{ names = view.trace:name_set(function(name) return name:find "LaunchKernel" ~= nil end,
    "runtime") }:sort("ts")
  if #launches ~= #rows then return nil end
  return (launches:enclosing(view:class_rows("cpu_op")):columns{ "name" })
end

return {
  name = "kernel_counters",
  summary = "counters of the device (CUPTI) by kernel and by operator",
  definition = [[Rows of the category cuda_profiler_range: the sums of their counters by the row's name, and by
operator. The k-th row belongs to the k-th launch call of its file, and the call to the innermost host operator around
it. If a file has another number of launch calls, its rows have no operator. flops: counted instructions of the SASS
operations, fused ones twice. The first --top of each (20), by flops.]],
  needs = "a recording with CUPTI profiler metrics (cuda_profiler_range)",
  units = { flops = "flop", count = "rows" },
  args = counters,
  options = { "top" },
  compute = function(view, options)
    local all = view:events_needed():events{ category = "cuda_profiler_range" }:sort("ts")
    local kernels, operators = {}, {}
    for _, process in ipairs(view:processes()) do
      local from, to = view:window(process)
      for _, file in ipairs(from ~= false and process.files or {}) do
        local rows, values = all:where{ file = file }, {}
        for _, counter in ipairs(counters) do values[counter] = rows:values(counter) end
        local columns, operator = stats.columns(rows, { "name", "ts" }), operators_of(view, file, rows)
        for i, name in ipairs(columns.name) do
          if not from or columns.ts[i] >= from and columns.ts[i] < to then
            add(kernels, name, values, i)
            if operator then add(operators, operator[i] or "no operator", values, i) end
          end
        end
      end
    end
    local list = listed(kernels, options.top or stats.default_top)
    if #list == 0 then
      view:missing("needs rows of the category cuda_profiler_range with known counters; the trace has none")
    end
    return { kernels = list, operators = listed(operators, options.top or stats.default_top) }
  end,
}
