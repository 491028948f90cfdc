--- The marks above a row of a sample table: what is known of it beside its times.
--
--   #~ disturbed: SHAPE: REASON          it was measured under noise
--   #~ note: SHAPE: TEXT                 bandwidths, NCCL's choice, why kernel times are missing
--   #~ repeats: SHAPE: PASS: US US …     every repeat behind the row's time, in the order measured (--raw)
--   #~ kernel: SHAPE: PASS: US: NAME     one kernel of the pass, in the order of their starts (--profile)
--
-- SHAPE is the row's own first columns, PASS forward, backward, update or collective, US microseconds. They stand
-- directly above their row and are written with it: a row that is there has all of them.
local marks = {}

local pass_order = { "forward", "backward", "update" }

--- A text as it may stand in a mark or a header.
function marks.one_line(text) return (tostring(text):gsub("%s+", " ")) end
local one_line = marks.one_line

--- { pass, result } of every pass that was measured, in the order of a table's columns; a collective is one pass.
function marks.passes(results)
  if results.seconds then return { { "collective", results } } end
  local list = {}
  for _, pass in ipairs(pass_order) do
    if type(results[pass]) == "table" then list[#list + 1] = { pass, results[pass] } end
  end
  return list
end

--- Why some results count as disturbed, in words, or nil.
function marks.disturbance(results)
  local reasons = {}
  for _, entry in ipairs(marks.passes(results)) do
    local pass, result = entry[1], entry[2]
    if result.preempted then
      reasons[#reasons + 1] = ("%s: lost the processor in %d of %d repeats"):format(pass, result.dropped,
        result.repeats)
    end
    if result.slow_clock then
      reasons[#reasons + 1] = ("%s: clock %.0f %% slow"):format(pass, 100 * (result.clock_ratio - 1))
    end
    if result.slow_memory then
      reasons[#reasons + 1] = ("%s: memory %.0f %% slow, %d of %d visits undisturbed"):format(pass,
        100 * (result.memory_ratio - 1), result.quiet_visits, #result.visits)
    end
  end
  return #reasons > 0 and table.concat(reasons, ", ") or nil
end

--- The marks of a row.
---@param key string the shape as the row begins
---@param results table of a back end
---@param keep_raw boolean? with every repeat
---@return string[] lines, string? disturbed the reason, string? note
function marks.of(key, results, keep_raw)
  local lines, why, notes = {}, marks.disturbance(results), { results.note }
  if why then lines[1] = ("#~ disturbed: %s: %s"):format(key, one_line(why)) end
  for _, entry in ipairs(marks.passes(results)) do
    local missing = entry[2].kernels_missing
    if missing then notes[#notes + 1] = ("no kernel times of the %s pass: %s"):format(entry[1], missing) end
  end
  for _, note in ipairs(notes) do lines[#lines + 1] = ("#~ note: %s: %s"):format(key, one_line(note)) end
  for _, entry in ipairs(marks.passes(results)) do
    local pass, result = entry[1], entry[2]
    if keep_raw and result.raw_seconds then
      local times = {}
      for i, seconds in ipairs(result.raw_seconds) do times[i] = ("%.7g"):format(seconds * 1e6) end
      lines[#lines + 1] = ("#~ repeats: %s: %s: %s"):format(key, pass, table.concat(times, " "))
    end
    for _, kernel in ipairs(result.kernels or {}) do
      lines[#lines + 1] = ("#~ kernel: %s: %s: %.7g: %s"):format(key, pass, kernel.seconds * 1e6, one_line(kernel.name))
    end
  end
  return lines, why, #notes > 0 and table.concat(notes, "; ") or nil
end

--- What a mark says: { kind =, key =, pass =, seconds = { … } | number, name =, text = } or nil for another line.
function marks.read(line)
  local kind, key, rest = line:match("^#~ (%a+): ([^:]*): (.*)$")
  if not kind then return nil end
  local mark = { kind = kind, key = key, text = rest }
  if kind == "repeats" then
    local pass, times = rest:match("^(%a+): (.*)$")
    mark.pass, mark.seconds = pass, {}
    for word in (times or ""):gmatch("%S+") do mark.seconds[#mark.seconds + 1] = tonumber(word) * 1e-6 end
  elseif kind == "kernel" then
    local pass, microseconds, name = rest:match("^(%a+): (%S+): (.*)$")
    mark.pass, mark.seconds, mark.name = pass, tonumber(microseconds) and tonumber(microseconds) * 1e-6, name
  end
  return mark
end

return marks
