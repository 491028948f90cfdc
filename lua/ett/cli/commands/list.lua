--- Lists operators, clusters, schedules and everything else that is found by name.
local catalog = require "ett.base.catalog"
local print_value = require "ett.cli.print_value"

local function print_kind(kind, list, quiet)
  local rows = {}
  for i, entry in ipairs(list) do
    local text = entry.fault and "cannot be loaded: " .. entry.fault or entry.summary or ""
    if entry.aliases then text = ("%s (also %s)"):format(text, table.concat(entry.aliases, ", ")) end
    rows[i] = { entry.name, text }
    if quiet then print(entry.name) end
  end
  if quiet then return end
  print(#rows > 0 and require("ett.report.table").text(rows, "ll", "  ") or "  no " .. kind .. " are found")
end

return {
  name = "list",
  offers = catalog.kinds,
  finds = true,
  sandbox = true,
  summary = "list operators, architectures, clusters, schedules, examples, …",
  usage = "list [KIND ...] [--json] [--quiet]",
  description = "Without a KIND, lists the kinds. Files under `--path DIR` and ETT_PATH are listed, too.\n"
    .. "Files at the top of a `--path DIR` are recognized by their text and not run.",
  options = { { "json", "print JSON" }, { "quiet", "print names only" } },
  run = function(opts, kinds)
    if #kinds == 0 then
      local counts = {}
      for i, kind in ipairs(catalog.kinds()) do counts[i] = { kind = kind, count = #catalog.entries(kind) } end
      if print_value(opts, counts) then return end
      for _, each in ipairs(counts) do
        print(opts.quiet and each.kind or ("  %-14s %d"):format(each.kind, each.count))
      end
      return
    end
    local all = {}
    for _, kind in ipairs(kinds) do all[kind] = require("ett.json").array(catalog.list(kind)) end
    if print_value(opts, all) then return end
    for _, kind in ipairs(kinds) do
      if not opts.quiet and #kinds > 1 then print(kind) end
      print_kind(kind, all[kind], opts.quiet)
    end
  end,
}
