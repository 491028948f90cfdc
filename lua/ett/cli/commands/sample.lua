--- `ett sample`: measures a campaign.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local host = require "ett.host"
local pretty = require "ett.base.pretty"
local named = require "ett.cli.named"
local refuse = require "ett.cli.refuse"
local sample_table = require "ett.samples.table"
local sample = require "ett.sample"

local function duration(seconds)
  seconds = math.floor(seconds + 0.5)
  if seconds < 60 then return ("%d s"):format(seconds) end
  if seconds < 3600 then return ("%d min %02d s"):format(seconds // 60, seconds % 60) end
  return ("%d h %02d min"):format(seconds // 3600, seconds // 60 % 60)
end

--- Progress on standard error: an updated line on a terminal, a new line every few seconds in a log.
local function progress(quiet)
  local terminal = host.error_terminal
  local start, last = sample.now(), 0
  local open_line = false
  local bar, together = {}, {} -- tables measured in turn share one bar
  function bar.begin(report)
    if report.takes_turns then together[#together + 1] = report else together = { report } end
    if #together == 1 then start, last = sample.now(), 0 end
    if not quiet then
      io.stderr:write(("%s: %d shapes to measure, %d measured before\n"):format(report.name, report.most, report.held))
    end
  end
  function bar.step(report)
    if quiet then return end
    local done, now, total, failed, disturbed, earlier = 0.0, sample.now(), 0, 0, 0, 0.0
    for _, one in ipairs(together) do
      local came, came_failed = one.measured + one.failed, one.failed
      if one.count then came, came_failed = one.count() end -- over all ranks
      done, total = done + came + (one.under_way or 0), total + one.most
      failed, disturbed, earlier = failed + came_failed, disturbed + one.disturbed, earlier + (one.earlier or 0.0)
    end
    if done < total and (now - last < (terminal and 0.1 or 5) or done <= earlier) then return end
    last = now
    local rate = math.max(0.0, done - earlier) / math.max(1e-9, now - start) -- of this run
    local text = ("%d/%d  %.1f shapes/s  %s left  %d failed  %d disturbed"):format(math.floor(done), total,
      rate, duration((total - done) / math.max(rate, 1e-9)), failed, disturbed)
    if terminal then
      local width = 20
      local full = total > 0 and math.floor(done * width / total) or width
      io.stderr:write(("\r[%s%s] %s "):format(("#"):rep(full), ("."):rep(width - full), text))
      open_line = done < total
      if not open_line then io.stderr:write("\n") end
    else
      io.stderr:write(("%s: %s\n"):format(#together > 1 and "all tables" or report.name, text))
    end
  end
  --- Ends the line of an unfinished bar.
  function bar.finish()
    if open_line then io.stderr:write("\n") end
    open_line = false
  end
  return bar
end

local function say_notes(given)
  for _, note in ipairs(given.notes or {}) do io.stderr:write(pretty.plain("ett: note: " .. note), "\n") end
end

--- Prints the shapes of this rank's part, in measuring order.
local function list_shapes(given, opts)
  for _, target in ipairs(given.targets) do
    if target.kind == "operator" then require("ett.operator").get(target.operator.name) end
  end
  if opts.part > opts.parts then
    error_module.raise("usage", "--part must be 1 to %d (--parts), got %d", opts.parts, opts.part)
  end
  for _, target in ipairs(given.targets) do
    local mine = (target.total - opts.part) // opts.parts + 1
    print(("# %s: %d shapes%s"):format(target.name, mine, opts.parts > 1
      and (" of %d, part %d of %d"):format(target.total, opts.part, opts.parts) or ""))
    print(table.concat(target.columns, ","))
    for i = 1, math.min(mine, opts.limit or mine) do
      print(table.concat(target.values((i - 1) * opts.parts + opts.part), ","))
    end
  end
end

local modes = { "get_all", "get_one", "get_profiler", "run_function" }

--- Raises for options that have no effect.
local function check(opts, mode, backend)
  if opts.target_error and not opts.active then
    error_module.raise("usage", "sample: --target-error needs --active")
  end
  local error_given = opts.target_error and tonumber(opts.target_error)
  if opts.target_error and opts.target_error ~= "grid" and not (error_given and error_given > 0) then
    error_module.raise("usage", "sample: option '--target-error' must be a positive number such as 0.05, or 'grid', "
      .. "got '%s'", opts.target_error)
  end
  refuse(opts, backend ~= "cuda" and { "autotune", "profile" } or {}, "sample: --%s needs the back end cuda, not %s",
    backend)
  refuse(opts, backend ~= "cpu" and { "memory" } or {}, "sample: --%s needs the back end cpu, not %s", backend)
  refuse(opts, backend ~= "cpu" and backend ~= "torch" and { "threads" } or {},
    "sample: --%s needs the back end cpu or torch, not %s", backend)
  refuse(opts, backend == "torch" and { "budget" } or {},
    "sample: --%s does not apply to the back end %s, which runs fixed numbers of iterations", backend)
  if opts.device and opts.device_num and opts.device ~= opts.device_num then
    error_module.raise("usage", "sample: --device %d and --device_num %d are the same option; give one", opts.device,
      opts.device_num)
  end
  if mode ~= "get_all" and not opts.list then
    local idle = setmetatable({ parts = opts.parts > 1, part = opts.part > 1 }, { __index = opts })
    refuse(idle, { "active", "parts", "part", "seconds", "limit", "retry_failed", "continue_changed" },
      "sample: --%s needs --run get_all; %s measures one shape and writes no table", mode)
  end
  local device = opts.device or opts.device_num
  local placed = device and find.path("samplers", backend) and find.load("samplers", backend).placed
  if placed then
    error_module.raise("usage", "sample: --device is not supported by the back end %s: %s", backend, placed)
  end
  local most = backend == "cpu" and sample.processors() - 1 or math.maxinteger
  if device and (device < 0 or device > most) then
    error_module.raise("usage", "sample: --device must be %s, got %d", backend == "cpu"
      and ("a processor from 0 to %d"):format(most) or "0 or more", device)
  end
end

--- Raises for targets that the back end cannot measure: back ends measure operators or collectives (`measures`).
local function check_targets(given, backend)
  if not find.path("samplers", backend) then return end -- the sampler reports unknown back ends
  local measures = find.load("samplers", backend).measures or "operator"
  for i, target in ipairs(given.targets) do
    if target.kind ~= measures then
      error_module.raise("model", "%s: sample %d: %s is %s, the back end %s measures %ss%s",
        given.path:match("([^/]+)$"), i, target.name, target.kind == "operator" and "an operator" or "a collective",
        backend, measures, measures == "operator" and "; mpi and nccl measure collectives" or "")
    end
  end
end

local function print_report(report, target_error, active)
  print(pretty.plain(("%s: %d measured, %d failed, %d disturbed in %.1f s"):format(report.path, report.measured,
    report.failed, report.disturbed, report.seconds)))
  if report.error then
    print(("  held-out median error at most %.2f %%%s with %d of %d shapes"):format(100 * report.error,
      type(target_error) == "number" and (" (target %.2f %%)"):format(100 * target_error) or "",
      report.measured + report.held, report.total + report.held))
  end
  if report.excess then print(("  its error is %.2f times the whole grid's"):format(report.excess)) end
  for _, note in ipairs(report.notes or {}) do print("  " .. note) end
  if report.refused then
    print(("  not measured: %s; --retry-failed checks again"):format((report.refused:gsub("^wrong: ", ""))))
  end
  if report.interrupted then
    local left = report.most - report.measured - report.failed
    print(("  unfinished%s; the same command continues"):format(active and ""
      or (": %d shape%s left"):format(left, left == 1 and " is" or "s are")))
  end
  if report.last_failure then print(("  last failure: %s"):format(report.last_failure)) end
  if (report.left or 0) > 0 then
    print(("  %d skipped, because they failed before (#! failed); --retry-failed measures them again"):format(
      report.left))
  end
end

--- A report for JSON, with units in the field names.
local function for_json(report)
  return { path = report.path, name = report.name, measured = report.measured, failed = report.failed,
    failed_before = report.left or 0, disturbed = report.disturbed,
    held = report.held, total = report.total, seconds = report.seconds,
    last_failure = report.last_failure, refused = report.refused, held_out_error_fraction = report.error,
    error_over_grid = report.excess,
    interrupted = report.interrupted or false }
end

--- Results of one shape for --json, with units in the field names.
local function one_as_record(one, raw)
  local json = require "ett.json"
  local doc = { name = one.name, device = one.device, precision = one.precision, shape = {}, passes = {},
    nodes = one.topology and one.topology.nodes, ranks_per_node = one.topology and one.topology.ranks_per_node,
    note = one.results.note, disturbed = sample_table.disturbance(one.results) }
  for i, column in ipairs(one.columns) do doc.shape[column] = one.shape[i] end
  for _, entry in ipairs(sample_table.passes(one.results)) do
    local pass, result = entry[1], entry[2]
    doc.passes[pass] = { seconds = result.seconds,
      half_width_seconds = result.repeats > 1 and result.half_width_seconds or nil,
      repeats = result.repeats, dropped = result.dropped,
      repeats_seconds = raw and json.array(result.raw_seconds or {}) or nil,
      kernels = result.kernels and json.array(result.kernels), kernels_missing = result.kernels_missing }
  end
  return doc
end

local function print_one(one)
  local shape = {}
  for i, column in ipairs(one.columns) do shape[i] = ("%s=%d"):format(column, one.shape[i]) end
  if one.topology then
    shape[#shape + 1] = ("nodes=%d GPUsPerNode=%d"):format(one.topology.nodes, one.topology.ranks_per_node)
  end
  print(("# %s on %s, %s"):format(one.name, one.device, one.precision))
  print(("shape: %s"):format(table.concat(shape, " ")))
  for _, entry in ipairs(sample_table.passes(one.results)) do
    local pass, result = entry[1], entry[2]
    -- One repeat has no spread.
    local half_width = result.repeats > 1 and ("%.3f us"):format(result.half_width_seconds * 1e6) or "unknown"
    print(("%-9s %12.3f us  +- %s, %d repeats, %d dropped"):format(pass, result.seconds * 1e6, half_width,
      result.repeats, result.dropped))
  end
  local why = sample_table.disturbance(one.results)
  if why then print("disturbed: " .. why) end
  if one.results.note then print(one.results.note) end
end

local function print_repeats(one)
  for _, entry in ipairs(sample_table.passes(one.results)) do
    print(("# %s: every repeat (us)"):format(entry[1]))
    for i, seconds in ipairs(entry[2].raw_seconds or {}) do print(("%d,%.4f"):format(i, seconds * 1e6)) end
  end
end

local function print_kernels(one)
  for _, entry in ipairs(sample_table.passes(one.results)) do
    local pass, result = entry[1], entry[2]
    if result.kernels then
      print(("# %s: kernels (us)"):format(pass))
      for _, kernel in ipairs(result.kernels) do print(("%s,%.3f"):format(kernel.name, kernel.seconds * 1e6)) end
    end
    if result.kernels_missing then print(("# %s: no kernel times: %s"):format(pass, result.kernels_missing)) end
  end
end

--- Raises an error of this rank. Aborts the other ranks of a job, because they would wait forever.
local function give_up(share, err)
  if share then
    io.stderr:write(("ett: rank %d: %s\n"):format(share.rank(), tostring(err)))
    share.abort(1)
  end
  error(err, 0)
end

--- Measures one shape and prints it. run: get_one, get_profiler or run_function.
local function run_one(given, mode, common, opts)
  local raw = mode == "get_profiler" or opts.raw
  if mode == "run_function" then common.max_repeats = 1 end
  if mode == "get_profiler" then common.profile = true end
  common.share = require("ett.base.share").join(true)
  local ok, one = pcall(require("ett.sampling.sampler").run_one, given, common)
  if not ok then give_up(common.share, one) end
  if one.leader then
    say_notes(given)
    if not one.results then error(one.error, 0) end
    if not require "ett.cli.print_value"(opts, one_as_record(one, raw)) then
      print_one(one)
      if raw then print_repeats(one) end
      print_kernels(one)
    end
  end
  if common.share then common.share.leave() end
end

--- Prints the reports of a campaign; returns the exit status.
---@param not_begun integer? number of tables without a report
local function finish(reports, not_begun, share, opts, target_error)
  local interrupted, docs, json = false, {}, require "ett.json"
  local held, failed = 0, 0
  local speaks = not share or share.rank() == 0
  for i, report in ipairs(reports) do
    interrupted = interrupted or report.interrupted
    held, failed = held + report.held + report.measured, failed + report.failed + (report.left or 0)
    docs[i] = for_json(report)
    if speaks and not opts.json then print_report(report, target_error, opts.active) end
  end
  if speaks and not opts.json and interrupted and (not_begun or 0) > 0 then
    print(("%d more table%s not begun; the same command continues"):format(not_begun, not_begun == 1 and "" or "s"))
  end
  if speaks then require "ett.cli.print_value"(opts, json.array(docs)) end
  if share then share.leave() end
  if interrupted and sample.interrupted() then return 130 end -- unless --seconds ended the campaign
  for _, report in ipairs(reports) do if report.refused then return 1 end end
  if failed > 0 and held == 0 then
    if speaks then io.stderr:write("ett: no shape could be measured; the tables give the reasons (#! failed)\n") end
    return 1
  end
end

return {
  name = "sample",
  offers = "campaigns",
  finds = true,
  summary = "measure a campaign (Lua file, estimate-train-time YAML, or a bundled name)",
  usage = "sample CAMPAIGN [--out DIR] [option ...]",
  description = "Rows are appended and synced one by one. Run the same command again to continue after an\n"
    .. "interruption. TABLE.visits keeps the measurements of shapes that have no row yet.\n"
    .. "Ctrl-C and SIGTERM finish the running shape. Under mpirun or srun the ranks share the work; only\n"
    .. "finished rows survive an interruption, and mpirun kills the ranks 1 s after SIGTERM.",
  options = {
    { "out", "DIR", "folder of the sample tables", default = "samples" },
    { "backend", "NAME", "cpu, mpi, cuda, nccl or torch (default: the campaign's)" },
    { "precision", "LIST", "precisions, separated by commas (default: the campaign's)", kind = "list" },
    { "parts", "N", "split the campaign into N parts", kind = "count", default = 1 },
    { "part", "K", "measure part K of N", kind = "count", default = 1 },
    { "device", "K", "processor or GPU to use", kind = "integer" },
    { "device_num", "K", "same as --device (estimate-train-time)", kind = "integer" },
    { "threads", "N", "threads of the back ends cpu and torch", kind = "count", most = sample.most_threads },
    { "run", "MODE", "get_all measures all shapes, the other modes one shape (default: the campaign's)",
      choices = modes },
    { "seconds", "S", "stop after S seconds", kind = "positive" },
    { "budget", "S", "seconds for the repeats of one shape and pass", kind = "positive" },
    { "limit", "N", "measure at most N shapes per table", kind = "count" },
    { "memory", "BYTES", "with cpu: limit of a shape's operands, such as 80G (default: most of the free memory)",
      kind = "positive" },
    { "retry-failed", "measure again the shapes that failed" },
    { "continue-changed", "continue a table although the campaign or its settings changed" },
    { "active", "choose the next shape where the regressor is least certain" },
    { "target-error", "E", "with --active: stop at this held-out error (default 0.05); 'grid': stop at the error "
      .. "expected after measuring the whole grid" },
    { "autotune", "with cuda: time cuBLASLt's candidates and keep the best" },
    { "profile", "with cuda: write the time of each kernel (CUPTI) above each row" },
    { "raw", "write the time of every repeat above each row" },
    { "no-check", "do not first compare the outputs of each operator with double precision" },
    { "list", "print the shapes and stop" },
    { "json", "print the results as JSON" },
    { "quiet", "print no progress, only a line per table" },
  },
  run = function(opts, positional)
    local campaign = require "ett.sampling.campaign"
    local sampler = require "ett.sampling.sampler"
    if #positional ~= 1 then
      error_module.raise("usage", "sample: give one campaign; `ett list campaigns` lists the bundled ones")
    end
    local given = named(campaign.load, positional[1])
    if opts.backend then
      named(sampler.check, opts.backend)
    else
      error_module.wrap(find.label(given.path), sampler.check, given.backend)
    end
    local mode = opts.run or given.run or "get_all"
    check(opts, mode, opts.backend or given.backend)
    if opts.list then return list_shapes(given, opts) end
    check_targets(given, opts.backend or given.backend)
    local target_error = tonumber(opts.target_error or 0.05) or opts.target_error
    local common = { out = opts.out, backend = opts.backend, precisions = opts.precision,
      parts = opts.parts, part = opts.part, device = opts.device or opts.device_num, threads = opts.threads,
      seconds = opts.seconds, budget_seconds = opts.budget, limit = opts.limit, limit_bytes = opts.memory,
      retry_failed = opts.retry_failed, continue_changed = opts.continue_changed, autotune = opts.autotune,
      profile = opts.profile, keep_raw = opts.raw, check = not opts.no_check }
    if mode ~= "get_all" then return run_one(given, mode, common, opts) end
    sample.catch_interrupts()
    local share = require("ett.base.share").join(true)
    local bar = progress(opts.quiet or (opts.json and not host.error_terminal))
    common.on_begin, common.on_progress = bar.begin, bar.step
    if not share or share.rank() == 0 then say_notes(given) end
    common.share = share
    local lfs = require "lfs"
    local made = not lfs.attributes(opts.out)
    local ok, reports, not_begun = pcall(function()
      if not share or share.rank() == 0 then require("ett.base.folder").make(opts.out) end
      if opts.active then return require("ett.sampling.active").run(given, common, target_error) end
      return sampler.run(given, common)
    end)
    bar.finish()
    if not ok and made then lfs.rmdir(opts.out) end -- removes the new folder if it is empty
    if not ok then give_up(share, reports) end
    return finish(reports, not_begun, share, opts, target_error)
  end,
}
