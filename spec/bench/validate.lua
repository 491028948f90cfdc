--- Step errors of real training steps on this machine against their prediction.
local bench = { summary = "training steps predicted from this machine's samples against the same steps executed" }

--- A target is judged only if most configurations were undisturbed.
local function group_row(group)
  local limit, disturbed = group.ranks > 1 and 10 or 5, 0
  for _, row in ipairs(group.rows) do disturbed = disturbed + (row.disturbed and 1 or 0) end
  local row = { measure = ("layout %s, median step error %% over %d configurations%s%s"):format(group.layout,
    #group.rows, group.crowded and (", %d ranks a processor"):format(group.ranks_per_processor) or "",
    disturbed > 0 and (" (%d disturbed)"):format(disturbed) or ""),
    value = ("%.1f"):format(100 * group.median_error), target = ("<= %d"):format(limit) }
  if 2 * disturbed <= #group.rows then
    row.pass = 100 * group.median_error <= limit
  else
    row.target = row.target .. ", idle"
  end
  return row
end

--- Each step of a layout is a row of its own, without a target.
local function step_row(row)
  local h, p = row.case.hyper, row.case.plan
  return { measure = ("%s, %d x %d, batch %d x %d x %d: step error %%%s"):format(row.layout, h.layers, h.hidden,
    p.micro_batch, p.micro_batches, p.seq, row.disturbed and " (disturbed)" or ""),
    value = ("%+.1f"):format(100 * (row.predicted_seconds / row.measured_seconds - 1)) }
end

function bench.run(opts, found)
  local ranks = require "ett.sampling.mpirun"
  local validate = require "ett.validate"
  local has_ranks, why = ranks.available()
  local learned, steps = 0, 0
  require("ett.base.folder").within(function(out)
    validate.run { out = out, layouts = has_ranks and validate.layout_names or { "1x1" },
      on_stage = function(text) if not opts.quiet then io.stderr:write("# ", text, "\n") end end,
      on_row = function(row)
        steps = steps + 1
        if row.last_loss < row.first_loss then learned = learned + 1 end
        found(step_row(row))
      end,
      on_group = function(group) found(group_row(group)) end }
  end)
  local rows = { { measure = "trainings whose loss fell", value = ("%d of %d"):format(learned, steps),
    target = "all", pass = learned == steps } }
  if not has_ranks then rows[2] = { measure = "MPI layouts skipped: " .. why, value = "-" } end
  return rows
end

return bench
