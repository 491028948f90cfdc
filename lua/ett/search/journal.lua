--- The journal of a search: the finished units and their rows. A killed search resumes from it.
--
-- DIR/HASH/rows-RANK.jsonl has one line per unit. HASH covers all inputs of the rows: model, clusters, plan, lists,
-- objectives, limits, and the contents of the files behind them (`sources`). The first line names the build of ett
-- (journal.build). Each rank appends to its own file and reads all files.
local cache = require "ett.profile.cache"
local dialect = require "ett.operator.dialect"
local error_module = require "ett.base.error"
local fields = require "ett.plan.fields"
local files = require "ett.io"
local find = require "ett.base.find"
local folder = require "ett.base.folder"
local host = require "ett.host"
local json = require "ett.json"
local lfs = require "lfs"
local schema = require "ett.base.schema"
local searched = require "ett.search.searched"

local journal = {}
local Journal = {}
Journal.__index = Journal

-- Seconds after which a line survives a crash of the machine. It survives a crash of the process immediately.
local sync_seconds = 1.0

--- A canonical text of a value; functions and C objects are ignored.
local function content(value, into, seen)
  local kind = type(value)
  if kind == "table" and not seen[value] then
    seen[value] = true
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    into[#into + 1] = "{"
    for _, key in ipairs(keys) do
      into[#into + 1] = tostring(key) .. "="
      content(value[key], into, seen)
    end
    into[#into + 1] = "}"
  elseif kind == "number" or kind == "string" or kind == "boolean" then
    into[#into + 1] = (math.type(value) == "float" and ("%.17g"):format(value) or tostring(value)) .. ","
  end
end

-- The kinds of files that rows depend on by name only.
local kinds = { "operators", "lua/architectures", "lua/collectives", "lua/stacks", "lua/schedules",
  "clusters/devices" }

-- Adds the hashes of the files behind a profile: its sample tables or coefficients, and those of other clusters.
local function add_profile(pieces, profile)
  if not profile then return end
  if not (profile.files or profile.folder or profile.cluster) then
    error_module.raise("argument", "search: with a journal, 'profile' must be one of ett.profile, not a table of "
      .. "functions")
  end
  for _, entry in ipairs(profile.files or {}) do pieces[#pieces + 1] = cache.hash_of(entry.path) end
  for _, name in ipairs(profile.folder and folder.names(profile.folder, "%.coefficients%.lua$") or {}) do
    pieces[#pieces + 1] = cache.hash_of(profile.folder .. "/" .. name)
  end
  add_profile(pieces, profile.own)
  add_profile(pieces, profile.other)
end

-- A hash of the files that the rows may depend on. They are all description files and dialects under the
-- roots, the files of find.at_top, the modules that these name, and the files of profiles. Which of them a search reads
-- is known only at its end.
local function sources(times)
  local pieces, seen = {}, {}
  for _, kind in ipairs(kinds) do
    for _, entry in ipairs(find.list(kind)) do
      pieces[#pieces + 1] = kind .. "/" .. entry.name
      cache.add_sources(pieces, entry.path, seen)
      local own = entry.path:match "^(.*)/init%.lua$"
      for _, name in ipairs(own and folder.names(own, "%.coefficients%.lua$") or {}) do
        pieces[#pieces + 1] = cache.hash_of(own .. "/" .. name)
      end
    end
  end
  for _, entry in ipairs(find.at_top()) do
    pieces[#pieces + 1] = entry.name
    cache.add_sources(pieces, entry.path, seen)
  end
  for _, one in ipairs(dialect.list()) do cache.add_sources(pieces, one.path, seen) end
  for _, one in ipairs(times) do
    for _, own in ipairs(one.parts or { one }) do add_profile(pieces, own.profile) end
  end
  return files.hash(table.concat(pieces, "\n"))
end

local function hash_of(space, given, times)
  local into, clusters = {}, {}
  for i, cluster in ipairs(given.clusters) do clusters[i] = { cluster.name, cluster } end
  content({ given.model.name, given.model.hyper, given.model.layers, clusters, given.devices, space.base, space.fixed,
    space.lists, space.axes, space.where and space.where.text, given.objectives, given.tokens, given.days,
    given.budget, given.kwh, given.headroom, given.keep,
    given.each, given.exhaustive, #space.units, given.profile == false }, into, {})
  return files.hash(table.concat(into), sources(times))
end

-- Numbers of a row that not every search has (ett.search.objective).
local measures = { "tokens_per_second", "tokens_per_second_per_device", "goodput_percent", "dollars_per_billion_tokens",
  "days", "dollars", "kwh" }

-- The rules of a line, and of a row in it.
local function rules_of(space)
  local row = { setting = { "count", most = #space.settings }, key = "string", layout = "string", values = "list",
    step_seconds = "positive", memory_bytes = "positive", cluster = "string", devices = "count" }
  for _, name in ipairs(measures) do row[name] = "number?" end
  for _, names in ipairs { searched.fields, space.setting_fields } do
    for _, name in ipairs(names) do
      local rule = fields.schema[name]
      rule = type(rule) == "table" and rule or { (rule:gsub("%?$", "")) }
      row[name] = { rule[1], least = rule.least, most = rule.most, one_of = rule.one_of, optional = name == "etp" }
    end
  end
  local count = { "natural" }
  return { unit = { "count", most = #space.units }, rows = "list", plans = count, rule = count, where = count }, row
end

-- The fault of a journal's line; nil if the line is one of the search's.
local function fault_of(entry, rules, row_rules, objectives)
  local found = schema.violations(entry, rules)
  for i, row in ipairs(found[1] and {} or entry.rows) do
    local known = {}
    for name in pairs(type(row) == "table" and row_rules or {}) do known[name] = row[name] end
    found = schema.violations(known, row_rules)
    for k = 1, found[1] and 0 or math.max(objectives, #row.values) do
      if k > objectives or not math.type(row.values[k]) then
        found[1] = ("field 'values' must be a list with a number for each objective (%d)"):format(objectives)
      end
    end
    if found[1] then return ("row %d: %s"):format(i, found[1]) end
  end
  return found[1]
end

-- Rooms of Lua modules on which the numbers of rows depend.
local rooms = { "base", "model", "operator", "plan", "profile", "samples", "search", "step" }

local function add_files(pieces, path)
  local mode = lfs.attributes(path, "mode")
  if mode == "file" then pieces[#pieces + 1] = cache.hash_of(path) end
  for _, name in ipairs(mode == "directory" and folder.names(path, "^[^.]") or {}) do
    pieces[#pieces + 1] = name
    add_files(pieces, path .. "/" .. name)
  end
end

--- The version of ett, and a hash of its modules in Lua and C that decide rows. Builds of one version may differ.
---@param root string the folder of ett's files (ett.host)
---@param prefix string the folder of its programs
function journal.build(root, prefix)
  local pieces = {}
  for _, room in ipairs(rooms) do add_files(pieces, ("%s/lua/ett/%s"):format(root, room)) end
  for _, own in ipairs { "bin/ett", "lib/ett/libett.so", "lib/ett/ett" } do add_files(pieces, prefix .. "/" .. own) end
  return ("%s build %s"):format(host.version, files.hash(table.concat(pieces, "\n")))
end

--- Reads one file: marks its units as done and adds their rows.
---@param fault function(entry): string? what is wrong with a line
local function read(self, path, fault)
  local file = io.open(path, "rb")
  if not file then return end
  local text = file:read "a"
  file:close()
  local build = text:match "^# ett search ([^\n]*)\n"
  if text:find "\n" and build ~= self.build then
    error_module.raise("format", "search: journal '%s' was written by ett %s, this is %s, and their numbers may "
      .. "differ; remove the folder '%s', or name another folder with --journal", path,
      build or "of an unknown version", self.build, path:match "^(.*)/")
  end
  local number = 0
  for line in text:gmatch "([^\n]*)\n" do -- a line without its newline was cut off by a kill
    number = number + 1
    if line:sub(1, 1) ~= "#" then
      local entry, why = json.decode(line)
      if entry ~= nil then why = fault(entry) else why = tostring(why):gsub("^json:1:", "character ") end
      if why then
        error_module.raise("format", "search: journal '%s': line %d is damaged: %s; remove the file", path, number, why)
      end
      if not self.done[entry.unit] then
        self.done[entry.unit] = true
        for _, name in ipairs { "plans", "rule", "where" } do self[name] = self[name] + entry[name] end
        table.move(entry.rows, 1, #entry.rows, #self.rows + 1, self.rows)
      end
    end
  end
end

--- Opens the journal of a search in a folder.
---@param times table[] ett.step.times of each cluster
---@param rank integer of this process
function journal.open(path, space, given, times, rank)
  if space.where and not space.where.by_values then
    error_module.raise("argument", "search: with a journal, 'where' must be an expression, not a function")
  end
  local own = ("%s/%s"):format(path, hash_of(space, given, times))
  folder.make(own)
  local self = setmetatable({ done = {}, rows = {}, plans = 0, rule = 0, where = 0, synced = 0,
    build = journal.build(host.root, host.prefix) }, Journal)
  local names = {}
  for name in lfs.dir(own) do if name:match "^rows%-%d+%.jsonl$" then names[#names + 1] = name end end
  table.sort(names)
  local rules, row_rules = rules_of(space)
  for _, name in ipairs(names) do
    read(self, own .. "/" .. name, function(entry) return fault_of(entry, rules, row_rules, #given.objectives) end)
  end
  self.path, self.rank = ("%s/rows-%d.jsonl"):format(own, rank), rank
  return self
end

--- Starts appending; call it after every rank has read all files.
function Journal:begin()
  self.file = error_module.must(require("ett.sample").journal(self.path, ("# ett search %s\n"):format(self.build)))
end

--- Records a finished unit.
---@param finished table { rows, plans, rule, where } of ett.search.walk
function Journal:commit(unit, finished)
  local sample = require "ett.sample"
  error_module.must(self.file:write(json.encode { unit = unit.index, rows = finished.rows, plans = finished.plans,
    rule = finished.rule, where = finished.where }))
  if sample.now() - self.synced > sync_seconds then
    error_module.must(self.file:sync())
    self.synced = sample.now()
  end
end

function Journal:close()
  if not self.file then return end
  error_module.must(self.file:sync())
  self.file:close()
  self.file = nil
end

return journal
