--- `ett trace`: reads recorded runs and computes metrics.
local error_module = require "ett.base.error"
local named = require "ett.cli.named"
local pretty = require "ett.base.pretty"
local print_value = require "ett.cli.print_value"
local refuse = require "ett.cli.refuse"
local wrote = require "ett.cli.wrote"

local function split_positional(words, all_paths)
  local lfs = require "lfs"
  local paths, names = {}, {}
  for _, word in ipairs(words) do
    if word:find("%.lua$") and lfs.attributes(word, "mode") ~= "directory" then -- DIR/* may name foreign code
      error_module.raise("usage", "trace: '%s' is a Lua file, not a trace; --metric %s uses it as a metric", word,
        word)
    elseif all_paths or lfs.attributes(word, "mode") or (#paths == 0 and #names == 0) or word:find("/", 1, true) then
      paths[#paths + 1] = word
    else
      names[#names + 1] = word
    end
  end
  return paths, names
end

local function parse_window(word)
  if not word then return nil end
  local from, to = word:match("^%s*([%d%.eE+-]+)%s*[:,]%s*([%d%.eE+-]+)%s*$")
  from, to = tonumber(from), tonumber(to)
  if not from or not to or from >= to then
    error_module.raise("usage",
      "trace: option '--window' must be FROM:TO in milliseconds from the trace's start, FROM < TO, got '%s'", word)
  end
  return { from, to }
end

local function list_metrics(opts)
  local metrics = require "ett.trace.metrics"
  local rows = {}
  for i, name in ipairs(metrics.names()) do
    local metric = metrics.load(name)
    local units = {}
    for field, unit in pairs(metric.units) do units[#units + 1] = ("%s=%s"):format(field, unit) end
    table.sort(units)
    rows[i] = { name = name, summary = metric.summary, needs = metric.needs, definition = metric.definition,
      units = opts.csv and units or metric.units, differs = metric.differs }
  end
  if not print_value(opts, rows) then
    for i, row in ipairs(rows) do rows[i] = { row.name, row.summary } end
    print(require("ett.report.table").text(rows, "ll"))
  end
end

--- A function that shows progress; nil if standard error is not a terminal.
local function progress_line(quiet)
  if quiet or not require("ett.host").error_terminal then return nil end
  local show = require("ett.cli.progress").line()
  return function(done, total)
    if done >= total then return show() end
    show("reading %3d %% of %.1f MB", done * 100 // total, total / 1e6)
  end
end

local view_options = { "profile_mode", "step", "threads", "n_chips", "model_params", "flops_per_token", "peak_flops",
  "cluster", "batch_size", "seq_len", "align", "tolerance_us", "collective", "card", "top", "launched_only" }

local function open(path, opts, chosen)
  local options = { args = require("ett.trace.metrics").args(chosen), window = parse_window(opts.window),
    progress = progress_line(opts.quiet) }
  for _, name in ipairs(view_options) do options[name] = opts[name] end
  return error_module.must(require("ett.trace.view").open(path, options))
end

local function warn(view, opts)
  if opts.quiet or not view.trace then return end
  local list = view:warnings()
  for i = 1, math.min(#list, 12) do
    local w = list[i]
    local place = w.offset and (" at byte %d"):format(w.offset) or ""
    local text = ("ett: trace: %s%s: %s%s"):format(w.file or "?", place, w.message or w.code,
      (w.count or 1) > 1 and (" (%d times)"):format(w.count) or "")
    io.stderr:write(pretty.line(text), "\n")
  end
  if #list > 12 then io.stderr:write(("ett: trace: and %d more warnings\n"):format(#list - 12)) end
end

local function run_metrics(view, chosen)
  local metrics = require "ett.trace.metrics"
  local results, reasons = {}, {}
  for _, metric in ipairs(chosen) do
    local result, reason = metrics.compute(metric, view)
    if result then results[metric.name] = result else reasons[metric.name] = reason end
  end
  return results, reasons
end

local function heading(view)
  if not view.trace then return pretty.line(view.path) .. ": per-micro-batch timings" end
  local kinds, bytes = {}, 0
  for _, file in ipairs(view.trace.files) do
    kinds[file.kind] = true
    bytes = bytes + (file.bytes or 0)
  end
  local stats = require "ett.trace.stats"
  return ("%s: %d file%s (%s), %d events, %.1f MB"):format(pretty.line(view.path), #view.trace.files,
    #view.trace.files == 1 and "" or "s", table.concat(stats.keys(kinds), ", "), view.trace.event_count, bytes / 1e6)
end

--- One line on the ranks that caused exposed communication; nil for one device or if ranks are not matched.
local function headline(view)
  if not view.trace or #view:lane_list() < 2 then return nil end
  local result = error_module.unless_missing(require("ett.trace.exposed").causes, view)
  return result and result.whole > 0 and result.headline or nil
end

local function print_one(view, opts, chosen, results, reasons)
  local json, text, stats = require "ett.json", require "ett.trace.text", require "ett.trace.stats"
  if opts.json then
    if #chosen == 1 then return print_value(opts, results[chosen[1].name]) end
    local out = { metrics = results, unavailable = reasons, trace = view.path }
    if view.trace then out.warnings = json.array(view:warnings()) end
    print_value(opts, out)
  elseif opts.csv then
    print("trace,metric,field,value")
    for _, metric in ipairs(chosen) do
      if results[metric.name] then
        text.walk(results[metric.name], function(path, value)
          print(text.csv_row({ view.path, metric.name, path, value }, 4))
        end)
      end
    end
  else
    local fit = require("ett.report.table").fit
    print(fit(heading(view)))
    local first = opts.overview and headline(view)
    if first then print(first) end
    for _, metric in ipairs(chosen) do
      if results[metric.name] then
        print("\n" .. fit(("%s: %s"):format(metric.name, metric.summary)))
        local shown = metric.table and metric.table(results[metric.name]) or results[metric.name]
        for _, line in ipairs(text.lines(shown, metric.units)) do print(line) end
      end
    end
    local missing = stats.keys(reasons)
    if #missing > 0 then
      print("\nnot in this trace:")
      for _, name in ipairs(missing) do print(fit(("  %s: %s"):format(name, reasons[name]))) end
    end
  end
end

--- Columns of the table for several traces; --csv and --json print all numbers.
local batch_columns = {
  { "device_time", "devices" }, { "iter_time", "avg_iter_time_ms" }, { "comm_comp_overlap", "comm_time_ms" },
  { "comm_comp_overlap", "comp_time_ms" }, { "comm_comp_overlap", "overlap_ratio_of_comm" },
  { "temporal_breakdown", "idle_share" }, { "coll_call_num", "total_calls" }, { "straggler_lag", "mean_lag_us" },
}

--- The metrics of one of several traces.
local function batch_row(path, opts, chosen)
  local view <close> = open(path, opts, chosen)
  warn(view, opts)
  local results, reasons = run_metrics(view, chosen)
  local devices = results.device_time and 0 or nil
  for _, rank in pairs(results.device_time and results.device_time.ranks or {}) do
    devices = devices + (rank.gpu_span_us and 1 or 0)
  end
  local file = view.trace and #view.trace.files == 1 and view.trace.files[1]
  local run = file and file.rank and (file.world_size or 1) > 1 and path:match("^(.*)/[^/]+$")
  return { trace = path, metrics = results, unavailable = reasons, devices = devices },
    run and { folder = run, rank = file.rank }
end

--- Notes on several files of one folder that are different ranks: each is read as a run of its own.
local function warn_of_ranks(runs, count)
  local folder, ranks = runs[1] and runs[1].folder, {}
  for _, each in ipairs(runs) do
    if each.folder ~= folder or ranks[each.rank] then return end
    ranks[each.rank] = true
  end
  if #runs == count then
    io.stderr:write(pretty.line(("ett: trace: %d files of different ranks, each read as a run of its own; to read them "
      .. "as one run, give the folder '%s'"):format(count, folder)), "\n")
  end
end

--- Columns of the metrics that were asked for and have none of batch_columns: their single values with a unit.
local function asked_columns(rows, chosen)
  local columns, known = {}, {}
  for _, column in ipairs(batch_columns) do known[column[1]] = true end
  for _, metric in ipairs(chosen) do
    for _, key in ipairs(known[metric.name] and {} or require("ett.base.schema").keys(metric.units or {})) do
      local name, found = metric.name .. "." .. key, false
      for _, row in ipairs(rows) do
        local value = row.metrics and row.metrics[metric.name] and row.metrics[metric.name][key]
        found = found or type(value) == "number"
      end
      if found then columns[#columns + 1] = { key = name, title = key, metric = metric.name, field = key } end
    end
  end
  return columns
end

--- Prints a line for each trace, with a column for each single value of each metric: "iter_time.avg_iter_time_ms".
local function print_batch_csv(rows)
  local text = require "ett.trace.text"
  local values, names = {}, {}
  for i, row in ipairs(rows) do
    values[i] = {}
    for metric, result in pairs(row.metrics or {}) do
      for key, value in pairs(result) do
        if type(value) ~= "table" then
          local name = metric .. "." .. key
          values[i][name], names[name] = value, true
        end
      end
    end
  end
  local columns = require("ett.trace.stats").keys(names)
  print(text.csv_row({ "trace", "error", table.unpack(columns) }, #columns + 2))
  for i, row in ipairs(rows) do
    local cells = { row.trace, row.error }
    for k, name in ipairs(columns) do cells[k + 2] = values[i][name] end
    print(text.csv_row(cells, #columns + 2))
  end
end

--- Prints a table with those columns of batch_columns whose metrics were chosen, and with those of `asked`.
local function print_batch_table(rows, chosen, asked)
  local wanted = {}
  for _, metric in ipairs(chosen) do wanted[metric.name] = true end
  local columns, lines = { { key = "trace", title = "trace" } }, {}
  for _, column in ipairs(batch_columns) do
    local metric, key = column[1], column[2]
    if wanted[metric] then columns[#columns + 1] = { key = key, title = key, metric = metric, field = key } end
  end
  table.move(asked, 1, #asked, #columns + 1, columns)
  local computed = false
  for _, row in ipairs(rows) do computed = computed or row.metrics and next(row.metrics) ~= nil end
  if computed and #columns == 1 then
    io.stderr:write(("ett: trace: %s has tables and no single values: give one trace, or --json\n"):format(
      chosen[1].name))
  end
  columns[#columns + 1] = { key = "error", title = "" }
  for i, row in ipairs(rows) do
    lines[i] = { trace = row.trace, error = row.error or "", devices = row.devices }
    for _, column in ipairs(columns) do
      local result = column.metric and row.metrics and row.metrics[column.metric]
      if result and column.key ~= "devices" then lines[i][column.key] = result[column.field] end
    end
  end
  for _, line in ipairs(require("ett.trace.text").table(columns, lines)) do print(line) end
end

--- Prints the metrics of several traces. An unreadable trace is a row with its error, and so is one that lacks data for
--- all metrics that were asked for.
local function batch(paths, opts, chosen, asked)
  local rows, failed, runs = {}, false, {}
  for i, path in ipairs(paths) do
    local ok, row, run = pcall(batch_row, path, opts, chosen)
    if not ok then
      local object = error_module.from(row)
      if object.kind == "internal" then error(object, 0) end
      row, failed = { trace = path, error = tostring(object) }, true
    elseif asked and next(row.metrics) == nil then
      row.error, failed = row.unavailable[chosen[1].name], true
    end
    rows[i], runs[#runs + 1] = row, ok and run or nil
  end
  if not opts.quiet then warn_of_ranks(runs, #paths) end
  if opts.json then
    print_value(opts, rows)
  elseif opts.csv then
    print_batch_csv(rows)
  else
    print_batch_table(rows, chosen, asked and asked_columns(rows, chosen) or {})
  end
  return failed and 1 or 0
end

--- Prints some fields of rows; title: that of the first column.
local function print_differences(rows, names, title)
  local columns = {}
  for i, name in ipairs(names) do columns[i] = { key = name, title = name:gsub("_count$", " n"):gsub("_", " ") } end
  columns[1].title = title or columns[1].title
  for _, line in ipairs(require("ett.trace.text").table(columns, rows)) do print(line) end
end

local function print_diff(paths, opts, chosen)
  if #paths ~= 2 then error_module.raise("usage", "trace: --diff takes two traces, got %d", #paths) end
  local first <close> = open(paths[1], opts, chosen)
  local second <close> = open(paths[2], opts, chosen)
  warn(first, opts)
  warn(second, opts)
  local diff = require "ett.trace.diff"
  local result = diff.compare(first, second, opts)
  result.operators = error_module.unless_missing(diff.operators, first, second, opts)
  if print_value(opts, result) then return end
  print(("first  %s\nsecond %s\n"):format(heading(first), heading(second)))
  if result.note then print(("note: %s\n"):format(result.note)) end
  print_differences(result.parts, { "name", "first_ms", "second_ms", "difference_ms", "ratio" }, "mean of devices")
  print(("\nkernels, by difference (%d names; %d only in the first, %d only in the second)"):format(
    result.kernel_names, result.only_first, result.only_second))
  print_differences(result.kernels, { "name", "first_count", "second_count", "first_ms", "second_ms", "difference_ms" })
  if result.operators then
    print("\noperators by shape, by difference")
    print_differences(result.operators, { "name", "shape", "pass", "first_count", "second_count", "first_ms",
      "second_ms", "difference_ms" })
  end
end

--- The plan for ett.loop.subject, from NAME=VALUE words of --against and of the command, and a file PLAN.lua.
local function given_plan(opts, words)
  local fields, given = require "ett.cli.fields", {}
  for _, word in ipairs(opts.against or {}) do
    if word:find("=", 1, true) then
      words[#words + 1] = word
    elseif word:find("%.lua$") then
      given = require("ett.loop.subject").file(word)
    elseif word ~= "auto" then
      error_module.raise("usage", "trace: --against takes PLAN.lua, NAME=VALUE or auto, got '%s'", word)
    end
  end
  local texts = require("ett.base.options").words(words, "trace")
  given.model, texts.model = texts.model or given.model, nil
  local plan, hyper = fields.sort("trace", texts, given.model or "gpt")
  for name, values in pairs { plan = fields.values(plan), hyper = fields.values(hyper) } do
    given[name] = given[name] or {}
    for field, value in pairs(values) do given[name][field] = value end
  end
  given.cluster, given.samples = opts.cluster or given.cluster, opts.samples
  return given
end

--- `--read-plan`.
local function print_plan(view, opts)
  local found = require("ett.loop.layout").read(view)
  if next(found) == nil then error_module.raise("missing", "trace: the trace shows no field of a plan") end
  if print_value(opts, found) then return end
  for _, line in ipairs(require("ett.loop.report").layout(found)) do print(line) end
end

--- `--what-if`.
local function print_changed(view, opts)
  local what_if = require "ett.loop.what_if"
  local result = what_if.run(view, opts.what_if, opts.cluster)
  if print_value(opts, result) then return end
  for _, line in ipairs(what_if.lines(result)) do print(line) end
end

--- `--against`.
local function print_against(view, opts, words)
  local loop_report, against = require "ett.loop.report", require "ett.loop.against"
  local subject = require("ett.loop.subject").of(view, given_plan(opts, words))
  local result, lines = against.compare(view, subject)
  if opts.html then require("ett.loop.page").new(view, result, lines):write(opts.html) end
  wrote(opts, opts.html)
  if opts.json or opts.csv then
    result.plan, result.hyper, result.cluster, result.used = subject.plan, subject.model.hyper, subject.cluster.name,
      subject.used
    print_value(opts, result)
  else
    print(heading(view) .. "\n")
    for _, line in ipairs(loop_report.against(result, subject)) do print(line) end
  end
end

--- `--against`, `--read-plan` and `--what-if`.
local function print_loop(path, opts, words)
  local view <close> = open(path, opts, { opts.what_if and require("ett.trace.replay") or require("ett.loop.against") })
  warn(view, opts)
  if opts.read_plan then
    print_plan(view, opts)
  elseif opts.what_if then
    view:events_needed()
    print_changed(view, opts)
  else
    print_against(view, opts, words)
  end
end

-- Options that only metrics read: those whose `options` name them, and those of collectives (with `args`) --n-chips.
local metric_options = { "top", "model_params", "flops_per_token", "peak_flops", "batch_size", "seq_len", "collective",
  "n_chips" }

--- Refuses options that no chosen metric reads.
local function refuse_unread(opts, chosen)
  local read, names, unread = {}, {}, {}
  for i, metric in ipairs(chosen) do
    names[i] = metric.name
    read.n_chips = read.n_chips or metric.args ~= nil
    for _, name in ipairs(metric.options or {}) do read[name] = true end
  end
  for _, name in ipairs(metric_options) do if not read[name] then unread[#unread + 1] = name end end
  refuse(opts, unread, "trace: --%s has no effect on %s", table.concat(names, ", "))
end

local overview = { "device_time", "temporal_breakdown", "comm_comp_overlap", "coll_call_num" }
local overview_of_timings = { "pipeline_bubble" }

local function run(opts, positional)
  opts.json = opts.json or opts.output_json
  if opts.list_metrics then return list_metrics(opts) end
  opts.cluster = opts.cluster and named(require("ett.profile.cluster").get, opts.cluster) or nil
  local metrics = require "ett.trace.metrics"
  local paths, names = split_positional(positional, opts.diff)
  for _, word in ipairs(opts.against and {} or names) do
    if word:find("^[%w_]+=") then
      error_module.raise("usage", "trace: '%s' is a field of a plan; it needs --against", word)
    end
  end
  for _, name in ipairs(opts.metric or {}) do
    for word in name:gmatch("[^,]+") do names[#names + 1] = word end
  end
  if not opts.against then refuse(opts, { "samples" }, "trace: --%s needs --against") end
  if #paths == 0 then error_module.raise("usage", "trace: give the folder or file of a trace: ett trace DIR") end
  if opts.card then error_module.wrap("trace: --card", require("ett.trace.card").check, opts.card) end
  if opts.against or opts.read_plan or opts.what_if then
    if #paths > 1 then
      error_module.raise("usage", "trace: --against, --read-plan and --what-if take one trace, got %d; the files of "
        .. "one run are one trace: give their folder", #paths)
    end
    return print_loop(paths[1], opts, names)
  end
  if opts.diff then return print_diff(paths, opts, metrics.load_all{ "device_time", "operator_table" }) end
  local asked = #names > 0
  for _, name in ipairs(opts.all and names or {}) do
    if not metrics.exists(name) then
      error_module.raise("missing", "trace: cannot read '%s': no such file, folder or metric", name)
    end
  end
  if opts.all then names = metrics.names() elseif not asked then names = overview end
  opts.overview = not opts.all and not asked
  if opts.table then
    error_module.raise("usage", "trace: --table needs --list-metrics, --diff, --against, --read-plan or --what-if: the "
      .. "CSV of metrics is one table")
  end
  local chosen = named(metrics.load_all, names)
  if not opts.html then refuse_unread(opts, chosen) end
  if #paths > 1 then return batch(paths, opts, chosen, asked and not opts.all) end
  local needed = opts.html and metrics.load_all(metrics.names()) or chosen
  local view <close> = open(paths[1], opts, needed)
  warn(view, opts)
  if opts.html then
    require("ett.trace.html").page(view):write(opts.html)
    wrote(opts, opts.html)
    if not asked and not opts.all then return 0 end
  end
  if not view.trace and not asked and not opts.all then chosen = metrics.load_all(overview_of_timings) end
  local results, reasons = run_metrics(view, chosen)
  if asked and not opts.all and next(results) == nil then
    error_module.raise("missing", "trace: %s: %s", chosen[1].name, reasons[chosen[1].name])
  end
  print_one(view, opts, chosen, results, reasons)
  if view.trace and opts.overview and not (opts.json or opts.csv or opts.quiet) then
    print("\n`ett trace DIR kernel_breakdown` lists the longest kernels, `ett trace --list-metrics` all metrics")
  end
end

return {
  name = "trace",
  offers = "metrics",
  finds = true,
  summary = "compute metrics of recorded runs (PyTorch, TPU, Nsight Systems, rocprofv3, Perfetto, Chakra)",
  usage = "trace DIR [METRIC ...] [--all | --metric NAME] [--step N] [--window FROM:TO]\n"
    .. "                     [--json | --csv] [--html FILE]\n"
    .. "       ett trace --all DIR DIR ...     one row per trace\n"
    .. "       ett trace --diff DIR DIR        compare two traces\n"
    .. "       ett trace DIR --against PLAN.lua|NAME=VALUE ...   compare with an estimate\n"
    .. "       ett trace DIR --read-plan       the plan inferred from the trace\n"
    .. "       ett trace DIR --what-if CHANGE  the recorded run with a change\n"
    .. "       ett trace --list-metrics",
  description = "A metric is one Lua file: lua/ett/metrics/NAME.lua in the installed tree or in ETT_PATH, or\n"
    .. "NAME.lua in a --path DIR, or --metric FILE.lua. If the trace lacks data for a metric, the metric names the\n"
    .. "missing field.",
  options = {
    { "metric", "NAME", "metric to compute (repeat the option, or separate names with commas)", many = true },
    { "all", "compute every metric; with several folders, print one row for each" },
    { "list-metrics", "list the metrics; --json adds definitions and units" },
    { "diff", "compare two traces" },
    { "against", "PLAN", "compare with an estimate: PLAN.lua, fields NAME=VALUE, or auto (inferred from the trace)",
      many = true },
    { "samples", "FOLDER", "with --against: predict from these sample tables first (ett samples from-trace)" },
    { "what-if", "CHANGE", "replay the run with a change: 'attention*0.5', 'link.intra*2', 'host*0.5', "
      .. "'rank 0 not late', 'dp=8->64'", many = true },
    { "read-plan", "print the plan and the model inferred from the trace, with the certainty of each field" },
    { "json", "print JSON" },
    { "output-json", "same as --json" },
    { "csv", "print CSV: field and value of metrics; with several folders, one line for each" },
    require("ett.base.options").csv[2], -- --table
    { "html", "FILE", "write a self-contained page: timelines, breakdown, collectives; with --against predictions; "
      .. "missing folders are made" },
    { "step", "N", "use only ProfilerStep#N of each rank", kind = "integer" },
    { "window", "FROM:TO", "use only this window, in milliseconds from the start of the trace" },
    { "launched-only", "exclude device rows without a recorded launch call, as at the start of a recording" },
    { "profile-mode", "MODE", "format of the files; auto detects it by content",
      choices = { "auto", "torch", "nsys", "tpu" } },
    { "align", "MODE", "how to match collectives over ranks (none: as recorded)",
      choices = { "auto", "none", "clocks", "force" } },
    { "tolerance-us", "US", "largest median difference between the ends of matched collectives (default 1000)",
      kind = "number", least = 0, most = 1e9 },
    { "collective", "KIND", "collective for the Hockney fit (default all_reduce)" },
    { "n-chips", "N", "ranks of a collective, if the trace has no group size", kind = "count" },
    { "n_chips", "N", "same as --n-chips", kind = "count" },
    { "model-params", "N", "parameters of the model, such as 7e9", kind = "positive" },
    { "model_params", "N", "same as --model-params", kind = "positive" },
    { "flops-per-token", "N", "FLOPs per token (default: 6 x parameters in training, 2 x in inference)",
      kind = "positive" },
    { "peak-flops", "N", "peak FLOP/s of a device for mfu", kind = "positive" },
    { "cluster", "NAME", "cluster of the run, for --against, --what-if, mfu and operator_table" },
    { "batch-size", "N", "global batch, if no workload card has it", kind = "positive" },
    { "seq-len", "N", "sequence length, if no workload card has it", kind = "positive" },
    { "card", "FILE", "workload card (default: workload_card*.yaml beside the trace)" },
    { "top", "N", "rows of tables such as that of kernels (default 20; collective_list 50)", kind = "count",
      most = 100000 },
    { "threads", "N", "threads that read the files (default: one per core)", kind = "count", most = 1024 },
    { "quiet", "print no warnings and no progress" },
  },
  run = run,
}
