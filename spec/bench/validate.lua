--- Step errors of real training steps on this machine against their prediction.
local bench = { summary = "training steps predicted from this machine's samples against the same steps executed" }

function bench.run()
  local ranks = require "ett.sampling.mpirun"
  local validate = require "ett.validate"
  local has_ranks, why = ranks.available()
  local folder = require "ett.base.folder"
  local out = folder.temporary()
  local ok, result = pcall(validate.run, { out = out, layouts = has_ranks and validate.layout_names or { "1x1" },
    on_stage = function() end, on_row = function() end })
  folder.remove(out)
  if not ok then error(result, 0) end
  local rows, learned, steps = {}, 0, 0
  for _, group in ipairs(result.groups) do
    local limit = group.ranks > 1 and 10 or 5
    local disturbed = 0
    for _, row in ipairs(group.rows) do
      steps = steps + 1
      disturbed = disturbed + (row.disturbed and 1 or 0)
      if row.last_loss < row.first_loss then learned = learned + 1 end
    end
    rows[#rows + 1] = { measure = ("layout %s, median step error %% over %d configurations%s%s"):format(group.layout,
      #group.rows, group.crowded and (", %d ranks a processor"):format(group.ranks_per_processor) or "",
      disturbed > 0 and (" (%d disturbed)"):format(disturbed) or ""),
      value = ("%.1f"):format(100 * group.median_error), target = ("<= %d"):format(limit),
      pass = 100 * group.median_error <= limit }
  end
  rows[#rows + 1] = { measure = "trainings whose loss fell", value = ("%d of %d"):format(learned, steps),
    target = "all", pass = learned == steps }
  if not has_ranks then rows[#rows + 1] = { measure = "MPI layouts skipped: " .. why, value = "-" } end
  return rows
end

return bench
