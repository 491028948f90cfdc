--- Operators by shape and pass, with their kernels and achieved shares of the device's rates.
local operators = require "ett.trace.operators"
local roofline = require "ett.trace.operators.roofline"
local stats = require "ett.trace.stats"

--- Shares of the peak FLOP/s and of the memory bandwidth of a cluster's device; nothing without a cluster.
local function shares_of_peak(row, rates, cluster)
  local device = cluster and not cluster.parts and cluster.device
  local peak = device and device.peak_flops[row.dtype]
  return device and stats.known(peak and rates.tflops_per_s and 1e12 * rates.tflops_per_s / peak),
    device and stats.known(rates.gb_per_s and 1e9 * rates.gb_per_s / device.memory_bandwidth)
end

--- A note on rows with shares above 1; nil without such rows.
local function note_on(rows)
  local flops, bytes = 0, 0
  local function above(share) return share and share ~= stats.null and share > 1 and 1 or 0 end
  for _, row in ipairs(rows) do
    flops, bytes = flops + above(row.of_peak_flops), bytes + above(row.of_peak_bandwidth)
  end
  local words = {}
  if flops > 0 then
    words[1] = ("more than the peak FLOP/s in %d of the rows: the cluster has another device, or another data type ran")
      :format(flops)
  end
  if bytes > 0 then
    words[#words + 1] = ("more than the memory bandwidth in %d of the rows: their data came from a cache, or the "
      .. "cluster has another device"):format(bytes)
  end
  return words[1] and table.concat(words, "; ")
end

return {
  name = "operator_table",
  summary = "operators by shape and pass: device time, kernels, FLOP/s, bytes/s",
  definition = [[Every device row belongs to the host operator that launched it, and this operator to the outermost one
with a known shape and the data type that ran. Backward operators take the shape of the forward operator with their
sequence number. Time is the sum of the device rows. FLOPs and bytes are those of ett's operator files (operators/). The
first --top shapes (20) of all devices. With --cluster also their shares of the peak of its device.]],
  needs = "host operators with Input Dims",
  units = { total_ms = "ms", mean_us = "us", share = "share", tflops_per_s = "TFLOP/s", gb_per_s = "GB/s",
    of_peak_flops = "share", of_peak_bandwidth = "share" },
  args = operators.args,
  options = { "top", "cluster" },
  compute = function(view, options)
    local all, devices = {}, operators.of_view(view)
    for _, each in ipairs(devices) do table.move(each.runs, 1, #each.runs, #all + 1, all) end
    local list, rows, total, shaped = operators.by_shape(all), {}, 0, 0
    for _, row in ipairs(list) do
      total = total + row.ticks
      if row.operation then shaped = shaped + row.ticks end
    end
    for i = 1, math.min(#list, options.top or stats.default_top) do
      local row, longest = list[i], nil
      for _, name in ipairs(stats.keys(row.kernels)) do
        if not longest or row.kernels[name] > row.kernels[longest] then longest = name end
      end
      local rates = roofline.rates(row, view:s(row.ticks))
      rows[i] = { name = row.name, shape = row.shape, pass = row.pass, dtype = stats.known(row.dtype),
        family = row.family, count = row.count, total_ms = view:ms(row.ticks), share = stats.ratio(row.ticks, total),
        mean_us = view:us(row.ticks) / row.count, median_us = view:us(stats.median(row.list)),
        tflops_per_s = stats.known(rates.tflops_per_s), gb_per_s = stats.known(rates.gb_per_s),
        kernels = #stats.keys(row.kernels), longest_kernel = longest }
      rows[i].of_peak_flops, rows[i].of_peak_bandwidth = shares_of_peak(row, rates, options.cluster)
    end
    return { operators = rows, note = note_on(rows), shapes = #list, total_ms = view:ms(total), devices = #devices,
      share_with_shape = stats.ratio(shaped, total) }
  end,
}
