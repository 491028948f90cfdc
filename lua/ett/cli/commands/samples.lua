--- `ett samples`: sample tables from recorded traces, or merged from parts.
local error_module = require "ett.base.error"
local json = require "ett.json"
local pretty = require "ett.base.pretty"
local print_value = require "ett.cli.print_value"
local refuse = require "ett.cli.refuse"

local function shape_of(opts, config, path, columns)
  local samples = require "ett.trace.samples"
  if opts.shape then
    local shape = {}
    for word in opts.shape:gmatch("[^,]+") do
      local value = tonumber(word)
      if not value then
        error_module.raise("usage", "samples: option '--shape' must be numbers with commas, got '%s'", word)
      end
      shape[#shape + 1] = value
    end
    return shape, "--shape"
  end
  local named = samples.shape_of_name(path, columns)
  if named then return named, "the name of the trace" end
  if type(config.shapes) == "table" and #config.shapes == columns then
    return config.shapes, "'shapes' of the configuration"
  end
  error_module.raise("missing", "samples: %s: unknown shape: give --shape with %d numbers (%s)", path, columns,
    table.concat(config.columns_name, ", ", 1, columns))
end

--- The subfolders of each path that are named after shapes, else the path itself.
local function expand(paths, columns)
  local lfs = require "lfs"
  local samples = require "ett.trace.samples"
  local list = {}
  for _, path in ipairs(paths) do
    local inner = {}
    if lfs.attributes(path, "mode") == "directory" then
      for entry in lfs.dir(path) do
        local whole = path .. "/" .. entry
        if entry ~= "." and entry ~= ".." and lfs.attributes(whole, "mode") == "directory"
          and samples.shape_of_name(entry, columns) then
          inner[#inner + 1] = whole
        end
      end
    end
    table.sort(inner)
    if #inner == 0 then inner[1] = path end
    table.move(inner, 1, #inner, #list + 1, list)
  end
  return list
end

--- Predicts each trace with the samples of the others.
local function left_out(opts, words, options)
  local left = require "ett.loop.left_out"
  local list = left.measure(words, options)
  if not print_value(opts, { traces = list, medians = left.medians(list) }) then
    print(table.concat(require("ett.loop.report").left_out(list, left.medians(list)), "\n"))
  end
end

--- Sample tables of all operators and collectives in traces, without a configuration.
local function from_whole_traces(opts, words)
  local tables = require "ett.loop.tables"
  local options = { cluster = opts.cluster and require "ett.cli.named"(
    require("ett.profile.cluster").get, opts.cluster), device = opts.device }
  if opts.left_out then return left_out(opts, words, options) end
  local into = tables.new()
  for _, path in ipairs(words) do error_module.wrap(path, tables.gather, into, path, options) end
  if opts.output then
    for _, each in ipairs(tables.write(into, opts.output)) do
      if not opts.quiet then
        print(pretty.plain(("wrote %s/%s: %d rows%s"):format(opts.output, each.name, each.rows,
          each.other and ("; only plans with dtype=%s use them"):format(each.other) or "")))
      end
    end
    return 0
  end
  for _, each in ipairs(tables.list(into)) do
    print("==> " .. each.name)
    io.write(pretty.plain(each.text))
  end
end

local function from_trace(opts, words)
  if #words == 0 then error_module.raise("usage", "samples from-trace: needs DIR") end
  if not words[#words]:find("%.ya?ml$") then
    refuse(opts, { "shape", "precision" },
      "samples from-trace: --%s needs a CONFIG.yml; without it the trace gives the value")
    if opts.left_out then
      refuse(opts, { "output", "quiet" }, "samples from-trace: --%s has no effect with --left-out")
    else
      refuse(opts, { "json" }, "samples from-trace: --%s has an effect with --left-out only")
    end
    return from_whole_traces(opts, words)
  end
  refuse(opts, { "left_out", "json" }, "samples from-trace: --%s has no effect with a CONFIG.yml")
  local samples = require "ett.trace.samples"
  local trace = require "ett.trace"
  if #words < 2 then error_module.raise("usage", "samples from-trace: needs DIR and CONFIG.yml") end
  local config_path = table.remove(words)
  local config = require("ett.import.estimate_train_time.targets").read(config_path)
  local columns = #config.columns_name - #config.targets
  local lines, device = {}, nil
  for _, path in ipairs(expand(words, columns)) do
    local shape, source = shape_of(opts, config, path, columns)
    local held <close> = error_module.must(trace.open(path, { args = { "Input Dims" },
      memory_bytes = require("ett.host").memory_limit }))
    error_module.wrap(path, samples.check_one_shape, held, config)
    local row, counts = error_module.wrap(path, samples.row, held, config, shape)
    device = device or samples.device_name(held)
    local cells = {}
    for i, value in ipairs(row) do cells[i] = json.encode(value + 0.0) end
    lines[#lines + 1] = table.concat(cells, ",")
    if not opts.quiet then
      io.stderr:write(("ett: samples: %s: %s occurrences%s; shape from %s\n"):format(path,
        table.concat(counts, " and "), samples.on_host(held) and ", host time with the profiler's own" or "", source))
    end
  end
  local sample_table = require "ett.samples.table"
  local body = sample_table.header({}, config.columns_name) .. table.concat(lines, "\n") .. "\n"
  if not opts.output then
    io.write(body)
    return 0
  end
  local name = sample_table.name(opts.device or device or "unknown", config.kernel_name,
    opts.precision or "fp16")
  local folder = require "ett.base.folder"
  folder.write_in(opts.output, name, body)
  if not opts.quiet then print(pretty.plain(("wrote %s/%s"):format(opts.output, name))) end
end

local function merge(opts, words)
  local report = require("ett.samples.merge").merge(words, opts.output)
  if print_value(opts, json.array(report)) or opts.quiet then return end
  for _, entry in ipairs(report) do
    print(pretty.line(("%s: %d rows of %d tables, %d duplicates dropped, %d failed shapes"):format(entry.path,
      entry.rows, entry.tables, entry.duplicates, entry.failed)))
  end
end

return {
  name = "samples",
  offers = { "from-trace", "merge" },
  finds = true,
  summary = "make sample tables from recorded traces, or merge the parts of tables",
  usage = "samples from-trace DIR [DIR ...] [--output FOLDER] [--cluster NAME]\n"
    .. "       ett samples from-trace DIR DIR ... --left-out [--cluster NAME] [--json]\n"
    .. "       ett samples from-trace DIR [DIR ...] CONFIG.yml [--shape N,N,...] [--output FOLDER]\n"
    .. "       ett samples merge TABLE|FOLDER ... --output FOLDER",
  description = "from-trace DIR makes a table of every operator with a shape (record with record_shapes=True) and of\n"
    .. "every collective. Times of collectives exclude the waiting for late ranks.\n"
    .. "--left-out predicts each trace without samples, and with samples of the other traces.\n"
    .. "CONFIG.yml is a sampling configuration of estimate-train-time. Its 'targets' are paths of event\n"
    .. "names, one for each measured column. The shape comes from --shape, else from the end of the folder's\n"
    .. "name, else from 'shapes'. merge joins the tables of a campaign's parts: it checks their headers\n"
    .. "and keeps each shape once.",
  options = {
    { "shape", "N,N,...", "values of the shape columns" },
    { "output", "FOLDER", "write FOLDER/DEVICE_OPERATOR_PRECISION.csv instead of printing" },
    { "precision", "NAME", "precision in the file's name (default fp16)" },
    { "device", "NAME", "device in the file's name instead of the trace's" },
    { "cluster", "NAME", "cluster whose nodes hold the ranks (default: the devices that the trace lists)" },
    { "left-out", "predict each trace with samples of the others" },
    { "json", "with merge or --left-out: print JSON" },
    { "quiet", "print only the table, or with --output nothing" },
  },
  run = function(opts, positional)
    local what = table.remove(positional, 1)
    if what == "from-trace" then return from_trace(opts, positional) end
    if what == "merge" then
      refuse(opts, { "shape", "precision", "device", "cluster", "left_out" }, "samples merge: --%s has no effect here")
      return merge(opts, positional)
    end
    error_module.raise("usage", "samples: expected from-trace or merge%s; `ett samples --help` explains both",
      what and error_module.suggestion(what, { "from-trace", "merge" }) or "")
  end,
}
