--- Visits of shapes whose rows are not written yet, in a file beside the table: a campaign that is killed goes on
-- with them.
--
-- TABLE.visits is one line a visit, HASH and JSON: { "shape": "64,128", "results": … }, under a line that names the
-- campaign. A line that does not hash to what it says is a visit less.
-- A visit is written when it was made and survives the process from then on; the file is synced once a second,
-- for a sync lasts as long as a visit. The table's own lock guards both.
local io_module = require "ett.io"
local json = require "ett.json"
local sample = require "ett.sample"

local sample_visits = {}

local sync_seconds = 1.0

--- The file of a table's visits.
function sample_visits.path(table_path) return (table_path:gsub("%.csv$", "")) .. ".visits" end

local function lock_of(path) return (path:gsub("([^/]*)$", ".%1.lock")) end

local function remove(path)
  os.remove(path)
  os.remove(lock_of(path))
end

--- Throws the visits of a table away. Only under the table's lock.
function sample_visits.drop(table_path) remove(sample_visits.path(table_path)) end

local function read(path, title)
  local file = io.open(path, "r")
  if not file then return {} end
  local held = {}
  if file:read("l") == title then
    for line in file:lines("L") do
      local hash, text = line:match("^(%x+) (.*)\n$")
      if hash and hash == io_module.hash(text) then
        local visit = json.decode(text)
        held[visit.shape] = held[visit.shape] or {}
        table.insert(held[visit.shape], visit.results)
      end
    end
  else
    held = nil
  end
  file:close()
  return held
end

--- Opens the visits of a table, those of another campaign or of another version of it thrown away.
---@param table_path string
---@param title string what names the campaign
---@return table { of(key) -> results[], add(key, results), close(finished) }; raises what the file system says
function sample_visits.open(table_path, title)
  local path = sample_visits.path(table_path)
  title = "# visits: " .. title
  local held = read(path, title)
  if not held then
    remove(path)
    held = {}
  end
  local journal, synced
  local visits = {}
  local function check(ok, err)
    if not ok then error(err, 0) end
    return ok
  end

  --- What earlier runs found of a shape, visit by visit.
  function visits.of(key) return held[key] or {} end

  function visits.add(key, results)
    journal = journal or check(sample.journal(path, title .. "\n"))
    local text = json.encode { shape = key, results = results }
    check(journal:write(io_module.hash(text) .. " " .. text))
    local now = sample.now()
    if now - (synced or -math.huge) > sync_seconds then
      check(journal:sync())
      synced = now
    end
  end

  --- finished: every row is in the table, and the visits are of no use any more.
  function visits.close(finished)
    if journal then
      if not finished then check(journal:sync()) end
      journal:close()
    end
    if finished then remove(path) end
  end
  return visits
end

return sample_visits
