--- Runs the benchmarks of spec/bench and prints them as a table or as JSON.
local find = require "ett.base.find"
local error_module = require "ett.base.error"
local print_value = require "ett.cli.print_value"
local refuse = require "ett.cli.refuse"
local schema = require "ett.base.schema"

local function print_row(row, quiet)
  if quiet and row.pass ~= false then return end
  print(("  %-64s %14s  must be %-14s %s"):format(row.measure, tostring(row.value), tostring(row.target or "-"),
    row.pass == nil and "" or row.pass and "ok" or "MISSED"))
  io.flush()
end

return {
  name = "bench",
  offers = "benchmarks",
  starts = true,
  summary = "run the benchmarks of spec/bench (all, or the given names)",
  usage = "bench [NAME ...] [--json] [--quiet] [--rows] [--page FILE]",
  options = { { "json", "print JSON" }, { "quiet", "print only rows that missed their target" },
    { "rows", "with published or literature: print each step; published prints one JSON object per line" },
    { "page", "FILE", "with published: write the figures to a Markdown file" } },
  run = function(opts, names)
    local known = find.names "spec/bench"
    if #names == 0 then names = known end
    if #known == 0 then
      error_module.raise("missing", "bench: no benchmarks found: spec/bench is part of the source tree, not of an "
        .. "installed one")
    end
    local list, all, root = {}, {}, require("ett.host").root
    package.path = ("%s;%s/spec/support/?.lua;%s/spec/bench/support/?.lua"):format(package.path, root, root)
    for i, name in ipairs(names) do
      if not find.path("spec/bench", name) then
        error_module.raise("usage", "bench: %s", error_module.unknown("benchmark", name, known))
      end
      list[i] = find.load("spec/bench", name)
      local unread = { rows = true, page = true }
      for _, option in ipairs(list[i].options or {}) do unread[option] = nil end
      refuse(opts, schema.keys(unread), "bench: --%s has no effect on %s", name)
    end
    local tables = not (opts.rows or opts.page or opts.json)
    for i, bench in ipairs(list) do
      local rows = {}
      local function found(row)
        rows[#rows + 1] = row
        if tables then print_row(row, opts.quiet) end
      end
      if tables and not opts.quiet then print(("# %s: %s"):format(names[i], bench.summary)) end
      for _, row in ipairs(bench.run(opts, found)) do found(row) end
      all[i] = { name = names[i], summary = bench.summary, rows = rows }
    end
    if not (opts.rows or opts.page) then print_value(opts, all) end
  end,
}
