--- `ett fit`: fits the models of sample tables and stores them in the cache for predictions.
local error_module = require "ett.base.error"
local tables = require "ett.report.table"

--- The folder that a word names, and the path of a file in it (nil: all files).
local function place(word)
  local mode = require("lfs").attributes(word, "mode")
  if mode == "directory" then return word, nil end
  if mode == "file" then return word:match("^(.*)/[^/]*$") or ".", word:match("/") and word or "./" .. word end
  error_module.raise("missing", "fit: cannot read '%s': %s", word, mode and
    ("a table must be a file or be in a folder, found a " .. mode) or "no such file or folder")
end

--- Calls each(name, entries, fit, few) for every model of a profile in a fixed order. fit() fits or loads it. few()
--- returns the samples that are too few for a fit.
local function models(profile, each)
  local schema = require "ett.base.schema"
  for _, key in ipairs(schema.keys(profile.pools)) do
    local entries = profile.pools[key]
    local seen = {}
    for _, entry in ipairs(entries) do
      local file = error_module.must(require("ett.profile.samples").read(entry))
      for _, p in ipairs(file.passes) do seen[p.pass] = true end
    end
    for _, pass in ipairs(schema.keys(seen)) do
      each(key .. " " .. pass, entries, function() return profile:model(key, entries, pass) end,
        function()
          local few = profile:few(entries, entries[1].dtype, pass)
          return profile.tables and few -- without kernel tables there is nothing to scale
        end)
    end
  end
  for _, key in ipairs(schema.keys(profile.collectives)) do
    for _, topology in ipairs(profile:topologies(key)) do
      local id = key .. " " .. topology.name
      each(id, topology.entries, function()
        return profile:model(id, topology.entries, "collective", topology.group)
      end, function()
        local first, kind, dtype = topology.entries[1], key:match "^(%S+) (%S+)$"
        local nodes, gpus = (topology.group or ""):match "^(%d+)_(%d+)$"
        return profile:few_collectives(kind, { nodes = first.nodes or tonumber(nodes),
          gpus_per_node = first.gpus or tonumber(gpus) }, dtype)
      end)
    end
  end
end

local function holds(entries, path)
  if not path then return true end
  for _, entry in ipairs(entries) do if entry.path == path then return true end end
  return false
end

-- Held-out errors of a profile's tables: all splits, or only the grouped one with its points for plots.
local function hold_out(profile, path, opts, found)
  local holdout = require "ett.profile.holdout"
  local files = holdout.read_files(profile.files, "-", profile.multiprocessors)
  local of = path and function(file) return file.path == path end or nil
  for _, split in ipairs(opts.splits and holdout.splits or { "grouped" }) do
    local points = opts.svg ~= nil and split == "grouped"
    for _, r in ipairs(holdout.run(files, { of = of, splits = { split }, points = points })) do
      if opts.splits then found.splits[#found.splits + 1] = r end
      if points then found.plotted[#found.plotted + 1] = r end
    end
  end
end

local function in_percent(value) return value and 100 * value end

local faulty = {} -- row without a model -> its tables

local function fit_device(folder, path, gpu, opts, found)
  local options, show = { gpu = gpu }, require("ett.cli.progress").line(opts.quiet)
  if opts.fresh then options.cache = false end
  local profile = require("ett.profile").from_samples({ folder }, options)
  local any = false
  models(profile, function(name, entries, fit, few_of)
    if not holds(entries, path) then return end
    any = true
    local started = os.clock()
    show("fitting %s of %s (%d models fitted)", name, gpu, #found.rows)
    local model, void = fit()
    show()
    local row = { model = name, folder = folder, device = gpu, fit_seconds = os.clock() - started }
    if model then
      local facts = model:facts()
      row.kind = facts.kind == "surface" and "surface" or "regressor"
      row.rows, row.dropped_rows = facts.rows, facts.dropped
      row.held_out_mean_error_percent = in_percent(facts.error_mean)
      row.held_out_median_error_percent = in_percent(facts.error_median)
    else
      local few = not void and few_of()
      if few then
        local errors = entries[1].operator and require("ett.profile.scale").errors(few) or {}
        row.kind, row.rows, row.dropped_rows = "scale", 0, 0
        for _, point in ipairs(few) do row.rows = row.rows + point.rows end
        row.held_out_median_error_percent = in_percent(errors[(#errors + 1) // 2])
        found.rows[#found.rows + 1] = row
        return
      end
      row.fault = void and "void: " .. void
        or ("fewer than the %d shapes that a fit needs"):format(require("ett.profile.fit").least_shapes)
      faulty[row] = entries
    end
    found.rows[#found.rows + 1] = row
  end)
  if not any then return false end
  local report = profile:report()
  for _, name in ipairs(require("ett.base.schema").keys(report)) do
    for _, row in ipairs(report[name]) do
      row.model = name
      found.outliers[#found.outliers + 1] = row
    end
  end
  if opts.splits or opts.svg then hold_out(profile, path, opts, found) end
  return true
end

local function fit_all(word, opts, found)
  local folder, path = place(word)
  local sampled, any = require "ett.profile.sampled", false
  local devices, unknown = sampled.devices { folder }
  if path then
    for _, entry in ipairs(unknown) do
      if entry.path == path then
        error_module.raise("missing", "%s", require("ett.profile.samples").unknown_text(entry))
      end
    end
  else
    sampled.check_devices(devices, unknown, folder)
    for _, entry in ipairs(unknown) do
      local note = ("ett: note: %s; skipped\n"):format(require("ett.profile.samples").unknown_text(entry))
      io.stderr:write(require("ett.base.pretty").plain(note))
    end
  end
  for _, gpu in ipairs(require("ett.base.schema").keys(devices)) do
    any = fit_device(folder, path, gpu, opts, found) or any
  end
  if not any then
    error_module.raise("format",
      "fit: '%s' is no sample table: expected rows in a file DEVICE_OPERATOR_PRECISION.csv", word)
  end
end

local function two_digits(value) return value and ("%.2f"):format(value) or "-" end

local function print_table(found)
  local devices = {}
  for _, row in ipairs(found.rows) do devices[row.device] = true end
  local several = next(devices, next(devices)) ~= nil
  local rows = { { "model", "rows", "dropped", "mean error %", "median error %" } }
  for i, row in ipairs(found.rows) do
    rows[i + 1] = { row.model, tostring(row.rows or "-"), tostring(row.dropped_rows or "-"),
      two_digits(row.held_out_mean_error_percent), two_digits(row.held_out_median_error_percent),
      several and table.concat({ row.device, row.fault }, ": ") or row.fault }
  end
  print(tables.text(rows, "lrrrrl"))
  if #found.splits > 0 then
    print(("\n# seed %d"):format(require("ett.profile.holdout").seed))
    rows = { { "file", "pass", "split", "rows", "mean error %", "median error %", "covered %" } }
    for i, r in ipairs(found.splits) do
      rows[i + 1] = { r.file .. " " .. r.entry.dtype, r.pass, r.split, ("%d"):format(r.rows),
        two_digits(in_percent(r.error)), two_digits(in_percent(r.median)),
        r.coverage and ("%.1f"):format(100 * r.coverage) or "-",
        several and table.concat({ r.entry.gpu, r.fault }, ": ") or r.fault }
    end
    print(tables.text(rows, "lllrrrrl"))
  end
  local lines = require("ett.samples.dropped").lines(found.outliers)
  if #lines > 0 then print("\ndropped by the outlier filter:") end
  for _, line in ipairs(lines) do print(line) end
end

local function print_json(found, opts)
  local json = require "ett.json"
  local out = { models = json.array(found.rows), dropped_rows = json.array(found.outliers) }
  if opts.splits then
    local splits = {}
    for i, r in ipairs(found.splits) do
      splits[i] = { file = r.file, path = r.path, device = r.entry.gpu, pass = r.pass, split = r.split,
        held_out_rows = r.rows, dropped_rows = r.dropped, held_out_mean_error_percent = in_percent(r.error),
        held_out_median_error_percent = in_percent(r.median), held_out_p90_error_percent = in_percent(r.ninety),
        coverage_percent = in_percent(r.coverage), half_width_percent = in_percent(r.half_width), fault = r.fault }
    end
    out.splits, out.seed = json.array(splits), require("ett.profile.holdout").seed
  end
  if opts.svg then out.plots = json.array(found.plots) end
  require "ett.cli.print_value"(opts, out)
end

-- Raises if no table could be fitted, with the reason for each.
local function check_fitted(found)
  local why, reasons, few = {}, {}, false
  for _, row in ipairs(found.rows) do
    if not row.fault then return end
    few = few or row.fault:match("^fewer") ~= nil
    for _, entry in ipairs(faulty[row]) do
      if not why[entry.path] then
        reasons[#reasons + 1] = entry.path
        why[entry.path] = row.fault
      end
    end
  end
  local words = {}
  for i = 1, math.min(#reasons, 10) do words[i] = ("%s (%s)"):format(reasons[i], why[reasons[i]]) end
  if #reasons > 10 then words[#words + 1] = ("and %d more"):format(#reasons - 10) end
  error_module.raise("format", "fit: no table could be fitted: %s%s", table.concat(words, ", "),
    few and "; measure more shapes" or "")
end

-- Called before the fits, which may take minutes: makes the folder, and a file that it removes again.
local function check_folder(folder)
  local mode = require("lfs").attributes(folder, "mode")
  if mode and mode ~= "directory" then
    error_module.raise("io", "fit: --svg needs a folder, but '%s' is a %s", folder, mode)
  end
  local files, probe = require "ett.io", folder .. "/.ett-probe"
  local ok, why = files.make_folder(folder)
  if ok then ok, why = files.write(probe, "") end
  os.remove(probe)
  if not ok then error_module.raise("io", "fit: --svg: %s", (tostring(why):gsub("/%.ett%-probe'", "'"))) end
end

return {
  name = "fit",
  finds = true,
  summary = "fit every operator and collective of a folder of samples",
  usage = "fit FOLDER|FILE.csv ... [--fresh] [--splits] [--svg FOLDER] [--json] [--quiet]",
  description = "Fitted models are cached under $XDG_CACHE_HOME/ett by the content of their samples, and loaded when\n"
    .. "they exist. Errors are held-out errors of cross-validation. Rows dropped as outliers are listed\n"
    .. "by file, reason and line. A pass is void if most of its rows are faster than the device could be;\n"
    .. "it gets no model. Tables with fewer than 8 shapes only scale the kernel tables of their device, or\n"
    .. "the times of the links. The exit status is 1 if no table could be fitted.\n\n"
    .. "--splits tests four splits of every file. random holds out a fifth of the rows, grouped a fifth of\n"
    .. "the kernels, extrapolation the largest sizes, and tenth nine tenths of the rows. The same model is\n"
    .. "fitted to the rest.\n"
    .. "The column 'covered %' is the share of held-out rows whose measured time lies within the predicted\n"
    .. "90 % interval.\n"
    .. "--svg plots the rows of the split grouped, measured against predicted, for each table and pass.\n"
    .. "The lines are equality and 10 % on either side; crosses are dropped rows.\n"
    .. "FOLDER/index.html shows all plots.",
  options = {
    { "fresh", "fit again and ignore cached models" },
    { "splits", "also print the errors of four splits of every file" },
    { "svg", "FOLDER", "write plots of held-out rows against their predictions to FOLDER" },
    { "json", "print JSON" },
    { "quiet", "print nothing" },
  },
  run = function(opts, words)
    if #words == 0 then error_module.raise("usage", "fit: missing FOLDER; usage: ett fit FOLDER|FILE.csv ...") end
    if opts.svg then check_folder(opts.svg) end
    local found = { rows = {}, outliers = {}, splits = {}, plotted = {} }
    require("ett.profile.cache").warn = function(text) io.stderr:write("ett: fit: warning: " .. text .. "\n") end
    for _, word in ipairs(words) do fit_all(word, opts, found) end
    if opts.svg then
      local fit_plot = require "ett.profile.plot"
      found.plots = fit_plot.write(opts.svg, fit_plot.render(found.plotted, found.outliers))
    end
    if opts.json then
      print_json(found, opts)
    elseif not opts.quiet then
      print_table(found)
      if opts.svg then
        local plots = #found.plots - 1
        print(("\n%d plot%s in %s; %s shows all"):format(plots, plots == 1 and "" or "s", opts.svg,
          found.plots[#found.plots]))
      end
    end
    check_fitted(found)
  end,
}
