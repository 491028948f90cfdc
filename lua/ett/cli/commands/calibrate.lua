--- Makes the coefficient files of a cluster from folders of samples.
local error_module = require "ett.base.error"
local print_value = require "ett.cli.print_value"
local tables = require "ett.report.table"

-- Writes the coefficient files of devices from kernel tables.
local function run_kernels(opts, words)
  local calibrate = require "ett.profile.kernels.calibrate"
  local summary = calibrate.run { tables = opts.kernels, into = opts.into or
    require("ett.host").root .. "/clusters/devices", devices = #words > 0 and words or nil,
    fitted = opts.date or os.date "!%Y-%m-%d" }
  if not print_value(opts, summary) and not opts.quiet then
    local rows = { { "device", "kernel", "data type", "rows", "dropped", "held-out error %", "bytes" } }
    local dropped = 0
    for i, line in ipairs(summary) do
      rows[i + 1] = { line.device, line.kernel, line.dtype, ("%d"):format(line.rows),
        ("%d"):format(line.dropped), ("%.2f"):format(100 * line.error), ("%d"):format(line.bytes) }
      dropped = dropped + line.dropped
    end
    print(tables.text(rows, "lllrrrr"))
    if dropped > 0 then print(("%d rows dropped: they are faster than the device's peak rate"):format(dropped)) end
  end
end

return {
  name = "calibrate",
  finds = true,
  summary = "make a cluster's coefficient files from folders of samples",
  usage = "calibrate CLUSTER FOLDER ... --source WORDS [--into FOLDER] [--json]\n"
    .. "       ett calibrate --kernels TABLES [DEVICE ...] [--into FOLDER] [--json]",
  description = "Fits every operator and collective sampled in the folders. Writes small coefficient files into the\n"
    .. "folder that the cluster's init.lua names, such as profile = \"profile\".\n"
    .. "Predictions then need no samples. Each file states its source, date of fit and held-out error.",
  options = {
    { "source", "WORDS", "state where the samples come from; every file quotes it" },
    { "kernels", "TABLES", "write coefficients of devices from this folder of measured kernel tables" },
    { "into", "FOLDER", "folder to write to (default: the profile folder of the cluster)" },
    { "date", "YYYY-MM-DD", "date of the fit (default: today)" },
    { "accept-device", "accept samples of a device other than the cluster's" },
    { "json", "print JSON" },
    { "quiet", "print nothing" },
  },
  run = function(opts, words)
    if opts.date and not opts.date:match("^%d%d%d%d%-[01]%d%-[0-3]%d$") then
      error_module.raise("usage", "calibrate: option '--date' must be YYYY-MM-DD, got '%s'", opts.date)
    end
    if opts.kernels then return run_kernels(opts, words) end
    if #words < 2 then
      error_module.raise("usage", "calibrate: expected CLUSTER FOLDER ...; see `ett calibrate --help`")
    end
    local cluster = require "ett.cli.named"(require("ett.profile.cluster").get, words[1])
    local into = opts.into
    if not into then
      local folder = type(cluster.profile) == "table" and cluster.profile.folder or cluster.profile
      if not cluster.folder or type(folder) ~= "string" then
        error_module.raise("usage", "calibrate: cluster %s %s; give --into FOLDER", cluster.name,
          cluster.folder and "names no folder of its own: state profile = \"profile\" in its init.lua"
          or "is a file, and only a folder with init.lua holds a profile")
      end
      into = cluster.folder .. "/" .. folder
    end
    local folders = table.move(words, 2, #words, 1, {})
    local calibrate = require "ett.profile.calibrate"
    local summary, profile = calibrate.run { folders = folders, into = into, source = opts.source,
      fitted = opts.date, cluster = cluster, accept_device = opts.accept_device }
    if not print_value(opts, summary) and not opts.quiet then
      print(("# %s (%s) from %s (%s) into %s"):format(cluster.name, cluster.device.name, table.concat(folders, ", "),
        profile.gpu, into))
      local rows, dropped = { { "model", "samples", "dropped", "held-out error %", "bytes" } }, {}
      for i, line in ipairs(summary) do
        rows[i + 1] = { line.pool .. " " .. line.name, ("%d"):format(line.rows), ("%d"):format(line.dropped),
          line.error and ("%.2f"):format(100 * line.error) or "-", ("%d"):format(line.bytes), line.fault }
        table.move(line.dropped_rows, 1, #line.dropped_rows, #dropped + 1, dropped)
      end
      print(tables.text(rows, "lrrrrl"))
      local lines = require("ett.samples.dropped").lines(dropped)
      if #lines > 0 then print("\ndropped by the outlier filter:") end
      for _, line in ipairs(lines) do print(line) end
    end
  end,
}
