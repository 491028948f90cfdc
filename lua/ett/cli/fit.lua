--- Fits everything that was sampled, so that predictions find it in the cache.
local error_module = require "ett.error"

--- The folder and the one path wanted of it (nil: all) that a word names.
local function place(word)
  local mode = require("lfs").attributes(word, "mode")
  if mode == "directory" then return word, nil end
  if mode == "file" then return word:match("^(.*)/[^/]*$") or ".", word:match("/") and word or "./" .. word end
  error_module.raise("missing", "fit: cannot read '%s': no such file or folder", word)
end

--- Every model of a profile in a fixed order: calls each(name, path, fit) where fit() fits or loads it.
local function models(profile, each)
  local schema = require "ett.schema"
  for _, key in ipairs(schema.keys(profile.pools)) do
    local entries = profile.pools[key]
    local seen = {}
    for _, entry in ipairs(entries) do
      local file, err = require("ett.samples").read(entry)
      if not file then error(err, 0) end
      for _, p in ipairs(file.passes) do seen[p.pass] = true end
    end
    for _, pass in ipairs(schema.keys(seen)) do
      each(key .. " " .. pass, entries, function() return profile:model(key, entries, pass) end)
    end
  end
  for _, key in ipairs(schema.keys(profile.collectives)) do
    for _, topology in ipairs(profile:topologies(key)) do
      each(key .. " " .. topology.name, { topology.entry }, function()
        local id = key .. " " .. topology.name
        return profile:model(id, { topology.entry }, "collective", topology.group)
      end)
    end
  end
end

local function holds(entries, path)
  if not path then return true end
  for _, entry in ipairs(entries) do if entry.path == path then return true end end
  return false
end

local function fit_all(word, opts, rows, outliers, splits)
  local folder, path = place(word)
  local profile = require("ett.profile").from_samples({ folder }, opts.fresh and { cache = false } or {})
  local found = false
  models(profile, function(name, entries, fit)
    if not holds(entries, path) then return end
    found = true
    local started = os.clock()
    local model = fit()
    local row = { model = name, folder = folder, fit_seconds = os.clock() - started }
    if model then
      local facts = model:facts()
      row.rows, row.dropped_rows = facts.rows, facts.dropped
      row.held_out_mean_error, row.held_out_median_error = facts.error_mean, facts.error_median
    else
      row.fault = "fewer than 8 rows"
    end
    rows[#rows + 1] = row
  end)
  local report = profile:report()
  for _, name in ipairs(require("ett.schema").keys(report)) do
    for _, row in ipairs(report[name]) do
      row.model = name
      outliers[#outliers + 1] = row
    end
  end
  if opts.splits then
    local holdout = require "ett.holdout"
    local files = holdout.read_folder(folder, "-", profile.multiprocessors)
    local only = path and function(file) return file.path == path end or nil
    for _, r in ipairs(holdout.run(files, { threads = 2, only = only })) do splits[#splits + 1] = r end
  end
  if not found then
    error_module.raise("format", "fit: '%s' is no sample file; they are called {gpu}_{operator}_{precision}.csv", word)
  end
end

local function percent(value) return value and ("%.2f"):format(100 * value) or "-" end

return {
  name = "fit",
  summary = "fit every operator and collective of a folder of samples",
  usage = "fit FOLDER|FILE.csv ... [--fresh] [--json] [--quiet]",
  description = "Fitted models are cached under $XDG_CACHE_HOME/ett by the content of their samples: what is fitted\n"
    .. "already is loaded. Errors are those of cross-validation, on rows the fit did not see. Rows that\n"
    .. "the gate set aside are counted, and listed by file, reason and line. --splits holds out a\n"
    .. "fifth of the rows, a fifth of the kernels, the largest sizes and nine tenths of every file.",
  options = {
    { "fresh", "fit again, without the cache" },
    { "splits", "print the error of seeded splits of every file, too" },
    { "json", "print JSON" },
    { "quiet", "print nothing" },
  },
  run = function(opts, words)
    if #words == 0 then error_module.raise("usage", "fit: which folder? usage: ett fit FOLDER|FILE.csv ...") end
    local rows, outliers, splits = {}, {}, {}
    require("ett.profile_cache").warn = function(text) io.stderr:write("ett: fit: warning: " .. text .. "\n") end
    for _, word in ipairs(words) do fit_all(word, opts, rows, outliers, splits) end
    if opts.json then
      local json = require "ett.json"
      io.write(json.encode({ models = json.array(rows), dropped_rows = json.array(outliers) }, { indent = 2 }))
    elseif not opts.quiet then
      print(("%-48s %8s %8s %14s %16s"):format("model", "rows", "dropped", "mean error %", "median error %"))
      for _, row in ipairs(rows) do
        print(("%-48s %8s %8s %14s %16s%s"):format(row.model, tostring(row.rows or "-"),
          tostring(row.dropped_rows or "-"), percent(row.held_out_mean_error),
          percent(row.held_out_median_error), row.fault and "  " .. row.fault or ""))
      end
      if #splits > 0 then
        print(("\n# seed %d"):format(require("ett.holdout").seed))
        print(("%-36s %-11s %-14s %8s %14s %10s"):format("file", "pass", "split", "rows", "mean error %", "covered %"))
        for _, r in ipairs(splits) do
          print(("%-36s %-11s %-14s %8d %14s %10.1f"):format(r.file, r.pass, r.split, r.rows, percent(r.error),
            100 * r.coverage))
        end
      end
      local lines = require("ett.dropped").lines(outliers)
      if #lines > 0 then print("\nset aside by the gate:") end
      for _, line in ipairs(lines) do print(line) end
    end
    return 0
  end,
}
