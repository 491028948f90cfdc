--- The table of a campaign's target: its header, its rows, and opening it for appending.
--
-- Rows are appended and synced one by one, so a killed campaign continues after the last row.
local campaign = require "ett.sampling.campaign"
local error_module = require "ett.base.error"
local folder = require "ett.base.folder"
local host = require "ett.host"
local lfs = require "lfs"
local sample = require "ett.sample"
local sample_table = require "ett.samples.table"
local sample_visits = require "ett.sampling.visits"
local settings = require "ett.samples.settings"

local one_line = sample_table.one_line
local store = {}

local function least_unless(resolved)
  return resolved.most_budgets and (" unless they take %d budgets"):format(resolved.most_budgets) or ""
end

--- The run's options, and the values that the back end chose for open options.
local function options_text(session, run)
  local r = session.resolved or {}
  local words = { ("backend %s, parts %d, part %d"):format(session.backend.name, run.parts, run.part) }
  local function add(format, value) words[#words + 1] = value and format:format(value) or nil end
  add("budget %g s", r.budget_seconds)
  add("target %g %%", r.target and 100 * r.target)
  add("at least %d repeats" .. least_unless(r), r.min_repeats)
  add("at most %d repeats", r.max_repeats)
  add("%d visits", session.visits)
  add("in blocks of %d", session.visits and run.campaign.block)
  add("at most %d shapes", run.limit)
  add("operands up to %g bytes", run.limit_bytes)
  if run.interleave then add("%s", "tables take turns") end
  return table.concat(words, ", ")
end

--- How a row's time follows from its repeats. A back end with visits states it in its line `timing`.
local function statistic_text(session, statistic)
  if session.visits then return nil end
  return statistic == "median" and "median of the repeats" or "mean of the fastest tenth of the repeats, plus one"
end

local function schedule_text(session, schedule)
  if not schedule or session.keeps_schedule then return nil end
  return ("warmed until stable in place of wait %d, warmup %d%s; active %d: at least this many repeats%s"):format(
    schedule.wait, schedule.warmup, schedule.warmup_shapes and " and warmup_shapes" or "", schedule.active,
    least_unless(session.resolved or {}))
end

--- The header of a new table: place, tools and method of the measurement; then the column names.
---@param session table of the back end: its header entries, resolved (values of options that the campaign leaves open)
local function header_text(session, target, run, columns)
  local given, op = run.campaign, target.operator
  local entries = { { "ett", host.version }, { "campaign", ("%s %s"):format(given.name, given.fingerprint) },
    { "backend", session.backend.name } }
  local function add(name, text) entries[#entries + 1] = { name, text } end
  for _, entry in ipairs(session.header) do
    if not entry.family or op and entry.family == op.family then add(entry[1], entry[2]) end
  end
  if target.kind == "operator" then
    add("operator", op.name)
    add("operator file", campaign.operator_fingerprint(op))
    add("passes", table.concat(op.passes, " "))
  else
    add("collective", ("%s, %s"):format(target.collective, target.in_place and "in place" or "out of place"))
  end
  add("checked", run.verdict and run.verdict.text)
  add("precision", run.precision)
  add("seed", given.seed)
  add("statistic", statistic_text(session, given.statistic))
  add("schedule", schedule_text(session, given.schedule))
  add("options", options_text(session, run))
  return sample_table.header(entries, columns)
end

--- Settings of the back end that differ from those of a table's rows.
---@param last table header name -> text
---@return table[] { name =, was =, is =, line = of a header } each
local function changed_settings(session, last)
  local list = {}
  for _, entry in ipairs(session.header) do
    local name, text = entry[1], one_line(entry[2])
    local was, is = settings.part(name, last[name]), settings.part(name, text)
    if last[name] and was ~= is then
      list[#list + 1] = { name = name, was = was or last[name], is = is, line = ("# %s: %s"):format(name, text) }
    end
  end
  return list
end

--- Failures that still apply: recorded after the last change of the operator's file, without a later row.
local function standing_failures(t, last_row)
  local changed, before = 0, nil
  for _, entry in ipairs(t.header) do
    if entry.name == "operator file" then
      if before then changed = entry.at end
      before = true
    end
  end
  local failed, newest = {}, t.at[#t.at] or 0
  for _, failure in ipairs(t.failed) do
    local row_at = failure.key == "all" and newest or last_row[failure.key] or 0
    if failure.at > changed and failure.at > row_at then failed[failure.key] = failure.reason end
  end
  return failed
end

--- Contents of a table: { done = { shape = number of rows }, failed = { shape = reason }, rows = number, columns =
--- text, fingerprint (of its campaign), operator (hash of its operator's file), backend, checked, last (header) }; nil
--- if there is no table. Raises if a row is damaged.
---@param dimensions integer number of leading columns, which identify the shape
function store.held(path, dimensions)
  if not lfs.attributes(path) then return nil end
  local t = error_module.must(sample_table.read(path))
  local done, last_row, rows = {}, {}, 0
  for r in ipairs(t.rows) do
    if t.at[r] ~= t.cut then -- opening the table removes an unfinished line
      local _, texts = sample_table.numbers(t, r)
      local shape = table.concat(texts, ",", 1, dimensions)
      done[shape], last_row[shape], rows = (done[shape] or 0) + 1, t.at[r], rows + 1
    end
  end
  return { done = done, failed = standing_failures(t, last_row), rows = rows, last = t.last,
    columns = t.columns and table.concat(t.columns, ","), checked = t.last.checked,
    fingerprint = (t.last.campaign or ""):match(" (%x+)$"), operator = t.last["operator file"],
    backend = t.last.backend }
end

--- Title of the visits' file: the campaign and a user's operator file. Visits under another title are dropped.
function store.title(target, run)
  return table.concat({ one_line(run.campaign.name), run.campaign.fingerprint,
    campaign.operator_fingerprint(target.operator) }, " ")
end

--- Raises if a table's rows come from another campaign, operator file, back end or other settings.
---@return string[] lines that name the changes, for --continue-changed; boolean: whether settings changed
local function check_continues(session, target, run, path, held)
  local lines = {}
  local advice = run.changed_advice or "give --continue-changed to continue, or --out for a new folder"
  local function changed(line, format, ...)
    lines[#lines + 1] = line
    if held.rows > 0 and not run.continue_changed then
      error_module.raise("argument", "'%s' " .. format .. "; %s", path, ...)
    end
  end
  local given = run.campaign
  if held.fingerprint ~= given.fingerprint then
    local line = ("# campaign: %s %s"):format(one_line(given.name), given.fingerprint)
    if held.fingerprint and not run.continue_changed then
      error_module.raise("argument", "'%s' was started by another version of this campaign (%s, now %s); %s", path,
        held.fingerprint, given.fingerprint, advice)
    end
    changed(line, "has no line '# campaign: NAME HASH'", advice)
  end
  local file_print = target.kind == "operator" and campaign.operator_fingerprint(target.operator)
  if held.operator and file_print and held.operator ~= file_print then
    changed("# operator file: " .. file_print, "was started with another version of %s (%s, now %s)",
      target.operator.path, held.operator, file_print, advice)
  end
  local others = changed_settings(session, held.last)
  for _, setting in ipairs(others) do
    changed(setting.line, "was started with %s: %s, now %s", setting.name, setting.was, setting.is, advice)
  end
  if held.backend and held.backend ~= session.backend.name then
    error_module.raise("argument", "'%s' holds samples of the back end '%s', not '%s'; name another folder with --out",
      path, held.backend, session.backend.name)
  end
  local columns = table.concat(sample_table.columns(target), ",")
  if held.columns and held.columns ~= columns then
    error_module.raise("format", "'%s' has columns %s, this campaign writes %s", path, held.columns, columns)
  end
  return lines, #others > 0
end

-- A table without rows from another campaign: its failures do not apply to this one.
local function is_leftover(held, run)
  return held and held.rows == 0 and held.fingerprint and held.fingerprint ~= run.campaign.fingerprint
    and not run.continue_changed
end

-- Removes the files that killed processes left beside a table and its visits (runtime/io/file.c, replace): a whole file
-- between its naming and its renaming, and an unfinished one where files must have a name. Only under the table's lock,
-- which no other writer holds.
local function remove_unfinished(path)
  local parent, name = path:match "^(.-)([^/]*)%.csv$"
  if not name then return end
  for _, ending in ipairs { "csv", "visits" } do
    local pattern = ("^%s%%.%s%%.%%d+%%-%%d+%%.tmp$"):format(name:gsub("%W", "%%%0"), ending)
    for _, left in ipairs(folder.names(parent == "" and "." or parent, pattern)) do os.remove(parent .. left) end
  end
end

-- Opens a target's table for appending; creates it if there is none or only a leftover. Raises if it cannot be
-- continued.
---@return userdata journal, table held
function store.open(session, target, run, path)
  local dimensions = #target.columns
  local held, lines, settings_changed = store.held(path, dimensions), {}, false
  local leftover = is_leftover(held, run)
  if held and not leftover then lines, settings_changed = check_continues(session, target, run, path, held) end
  local header = header_text(session, target, run, sample_table.columns(target))
  local journal = error_module.must(sample.journal(path, header))
  remove_unfinished(path)
  if leftover and is_leftover(store.held(path, dimensions), run) then -- under the lock
    sample_visits.drop(path)
    os.remove(path)
    journal:close()
    journal = error_module.must(sample.journal(path, header))
  end
  held = store.held(path, dimensions) -- read again: from here on no other process writes
  if not held.columns then lines = { (header:gsub("\n$", "")) } end -- the header was cut before the first row
  for _, line in ipairs(lines) do error_module.must(journal:append(line)) end
  if settings_changed then sample_visits.drop(path) end
  if #lines > 0 then held = store.held(path, dimensions) end
  return journal, held
end

return store
