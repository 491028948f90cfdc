--- ett validate: real training steps against their prediction from this machine's samples.
local error_module = require "ett.error"

local function describe(case)
  local h, p = case.hyper, case.plan
  return ("%d x %-3d heads %d vocab %-4d batch %dx%d seq %-3d"):format(h.layers, h.hidden, h.heads, h.vocab,
    p.micro_batch, p.micro_batches, p.seq)
end

local function print_lines(row, profile)
  local validate = require "ett.validate"
  print(("    %-22s %-10s %8s %12s %12s %8s"):format("operator, collective", "pass", "calls", "predicted ms",
    "measured ms", "error %"))
  for _, record in ipairs(row.records) do
    local predicted = validate.line(record, profile)
    print(("    %-22s %-10s %8.1f %12s %12.4f %8s"):format(record.name, record.pass, record.calls,
      predicted and ("%.4f"):format(predicted * 1e3) or "-", record.seconds * 1e3,
      predicted and ("%+.1f"):format(100 * (predicted / record.seconds - 1)) or "-"))
  end
end

return {
  name = "validate",
  summary = "train small transformers on this machine and compare with their prediction",
  usage = "validate [--layouts LIST] [--out DIR] [option ...]",
  description = "Samples the operators (and, with MPI layouts, the collectives), predicts training steps from the\n"
    .. "samples alone, executes them, and prints both. Layouts are data x tensor parallel ranks; pp2 is a pipeline.",
  options = {
    { "layouts", "LIST", "1x1, 2x1, 1x2, 2x2, pp2 (default: those this machine has processors for)" },
    { "out", "DIR", "folder of the samples (default: a temporary one)" },
    { "configurations", "N", "how many of the twelve", kind = "count", default = 12 },
    { "steps", "N", "timed steps of each", kind = "count", default = 12 },
    { "scale", "X", "size of the sampling campaign", kind = "positive", default = 1 },
    { "lines", "print every operator and collective of each configuration" },
    { "worker", "FILE", "used by the ranks of a layout" },
    { "json", "print JSON" },
    { "quiet", "print nothing" },
  },
  run = function(opts)
    local validate = require "ett.validate"
    local sample = require "ett.sample"
    if opts.worker then
      validate.worker(opts.worker)
      return 0
    end
    local layouts = {}
    for word in (opts.layouts or (sample.processors() >= 2 and pcall(require, "ett.dist") and "1x1,2x1,1x2"
      or "1x1")):gmatch("[^,]+") do
      if word ~= "1x1" and not validate.layouts[word] then
        error_module.raise("usage", "validate: unknown layout '%s'; known are 1x1, 2x1, 1x2, 2x2 and pp2", word)
      end
      if word ~= "1x1" then
        local dist, why = error_module.part("ett.dist", "the MPI back end", "install libopenmpi-dev and openmpi-bin")
        if not dist then error_module.raise("missing", "validate: layout %s: %s", word, why) end
      end
      layouts[#layouts + 1] = word
    end
    local temporary = not opts.out
    local folder = require "ett.folder"
    local out = opts.out or folder.temporary()
    local began = sample.now()
    local result = validate.run { out = out, layouts = layouts, configurations = opts.configurations,
      steps = opts.steps, scale = opts.scale,
      on_stage = function(text)
        if not opts.quiet then io.stderr:write(("# %.0f s: %s\n"):format(sample.now() - began, text)) end
      end,
      on_row = function(row, profile)
        if opts.json or opts.quiet then return end
        print(("%-4s %s  predicted %9.3f ms  measured %9.3f ms%s  error %+6.1f %%  loss %.3f -> %.3f"):format(
          row.layout, describe(row.case), row.predicted_seconds * 1e3, row.measured_seconds * 1e3,
          row.disturbed and ("~ (wall %.1f)"):format(row.wall_seconds * 1e3) or "",
          100 * (row.predicted_seconds / row.measured_seconds - 1), row.first_loss, row.last_loss))
        if opts.lines then print_lines(row, profile) end
      end }
    if temporary then folder.remove(out) end
    if opts.json then
      io.write(require("ett.json").encode(result, { indent = 2 }))
      return 0
    end
    for _, group in ipairs(opts.quiet and {} or result.groups) do
      local disturbed = 0
      for _, row in ipairs(group.rows) do disturbed = disturbed + (row.disturbed and 1 or 0) end
      if disturbed > 0 then
        print(("# %s: other programs ran during %d of the steps: ~ is the sum of a step's parts"):format(group.layout,
          disturbed))
      end
      print(("# %s: median error of the step %.1f %% over %d configurations%s"):format(group.layout,
        100 * group.median_error, #group.rows, group.crowded
        and ("; %d ranks on %d processors measure context switches, not a layout"):format(group.ranks,
          sample.processors()) or ""))
    end
    return 0
  end,
}
