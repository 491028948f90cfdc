--- Lists operators, clusters, schedules and everything else that is found by name.
local catalog = require "ett.base.catalog"
local find = require "ett.base.find"
local pretty = require "ett.base.pretty"

local function print_kind(kind, list, quiet)
  local width = 0
  for _, entry in ipairs(list) do width = math.max(width, #entry.name) end
  for _, entry in ipairs(list) do
    if quiet then
      print(entry.name)
    else
      local text = entry.fault and "cannot be loaded: " .. entry.fault or entry.summary or ""
      if entry.aliases then text = ("%s (also %s)"):format(text, table.concat(entry.aliases, ", ")) end
      print(pretty.plain(("  %-" .. width .. "s  %s"):format(entry.name, text)))
    end
  end
  if #list == 0 and not quiet then print("  no " .. kind .. " are found") end
end

return {
  name = "list",
  finds = true,
  sandbox = true,
  summary = "list operators, architectures, clusters, schedules, examples, …",
  usage = "list [KIND ...] [--json] [--quiet]",
  description = "Without a KIND, lists the kinds. Files under `--path DIR` and ETT_PATH are found too.",
  options = { { "json", "print JSON" }, { "quiet", "print names only" } },
  run = function(opts, kinds)
    if #kinds == 0 then
      if opts.json then
        io.write(require("ett.report.output").text(opts, catalog.kinds()))
        return 0
      end
      for _, kind in ipairs(catalog.kinds()) do
        print(opts.quiet and kind or ("  %-14s %d"):format(kind, #find.list(find.folders[kind])))
      end
      return 0
    end
    local all = {}
    for _, kind in ipairs(kinds) do all[kind] = catalog.list(kind) end
    if opts.json then
      local json = require "ett.json"
      for _, list in pairs(all) do json.array(list) end
      io.write(require("ett.report.output").text(opts, all))
      return 0
    end
    for _, kind in ipairs(kinds) do
      if not opts.quiet and #kinds > 1 then print(kind) end
      print_kind(kind, all[kind], opts.quiet)
    end
    return 0
  end,
}
