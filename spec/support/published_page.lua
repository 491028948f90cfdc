--- ACCURACY.md: the figures of `ett bench published` as a page.
--
-- Its last section is written by hand and kept: choices of mechanisms, priors and values of unstated fields. Each
-- correction in published.lua has an item there.
local tree = require "tree"

local page = {}

local intro = [[
# Accuracy

This page compares ett's estimates with training steps that others measured and published. It was written by
`ett bench published --page ACCURACY.md` on %s at commit %s.
Edit the last section here, and the others in spec/support/published_page.lua.

Each row of the data is one published measurement. Its grade says how much of its configuration is known. A: all that
an estimate needs. A-: one secondary item is inferred, or the figure has few digits. B: an item is missing or ambiguous.
Most tables have whole training steps of grades A and A-; each measurement counts once. A few in-step factors are
fitted to them (spec/support/published_factors.lua). **Each row is estimated with factors that were fitted without its
source.**

`ett bench published --rows` prints every row.

| column | meaning |
|---|---|
| answered | number of estimated rows, of all rows |
| error | mean of abs(estimated / measured - 1) |
| median | median of abs(estimated / measured - 1) |
| bias | mean of estimated / measured - 1; negative: estimated too fast |
| inside | share of rows inside their 90 %% interval |
| half-width | median half-width of the interval, as a share of the estimate |

]]

local planner = [[
## Steps as a planner would describe them

`ett bench literature` estimates measured steps that are not among the rows above. Most are of other sources. Each is a
command line as a planner would write it. Settings that its source leaves open have ett's defaults, and some of the
software has no stack of its own. Many plans were edited after the first estimate, with errors in view.
spec/bench/README.md has the errors of the plans as first written, and of the steps of which no single error was read.
It also names the edits, and the defaults that were changed after errors were seen.

]]

local titles = { { "all", "All" }, { "architecture", "By architecture" }, { "hardware", "By hardware" },
  { "precision", "By precision" }, { "nodes", "By nodes" }, { "recompute", "By recomputation as the row states it" },
  { "packed", "Packed sequences" }, { "use", "Fine-tuning, not in the tables above" },
  { "grade B", "Rows of grade B" }, { "source", "By source" } }

local memory = [[
## Memory

Every row that states its memory, of any grade. The first column says what was measured, the source and the software:

| measured | meaning |
|---|---|
| `allocated_peak`, `reserved_peak` | peak of PyTorch's allocator: allocated or reserved bytes |
| `device_used` | memory used on the device |
| `figure` | states and activations of the layers, from a figure |
| `peak` | not specified further. nanotron's is compared with the reserved memory, torchtune's with the allocated peak |

| | rows | error | median | bias | worst |
|---|---|---|---|---|---|]]

-- The table of memory, and the plans that ran although ett estimates that they do not fit.
local function add_memory(out, results)
  out[#out + 1] = memory
  for _, g in ipairs(results.memory) do
    out[#out + 1] = ("| %s | %d | %.1f %% | %.1f %% | %+.1f %% | %+.1f %% |"):format(g.name, g.rows, g.mape_percent,
      g.median_percent, g.bias_percent, g.worst_percent)
  end
  local stated, open = results.unfit.stated, results.unfit["not stated"]
  out[#out + 1] = ("\nAll published steps ran, so their plans fit. By ett's estimate, %d of %d plans that state their "
    .. "recomputation\ndo not fit their device, and %d of %d that do not state it.\n"):format(#stated.ids, stated.rows,
    #open.ids, open.rows)
end

local function line(f)
  if f.answered == 0 then return ("| %s | 0 of %d | | | | | |"):format(f.name, f.rows) end
  return ("| %s | %d of %d | %.1f %% | %.1f %% | %+.1f %% | %.0f %% | %.1f %% |"):format(f.name, f.answered, f.rows,
    f.mape_percent, f.median_percent, f.bias_percent, f.coverage_percent, f.half_width_percent)
end

local function command(text)
  local pipe = io.popen(text .. " 2>/dev/null")
  local answer = pipe and pipe:read "l"
  if pipe then pipe:close() end
  return answer
end

local decisions = [[
## Decisions

vTrain's plans of one model, batch and number of GPUs form a set. Pairs whose measured steps differ by more than 2 % are
compared. The regret is the measured time of the plan with the shortest estimate over that of the best plan, less 1.
]]

local kept = "## Choices made after errors were seen"

local head = "| | answered | error | median | bias | inside | half-width |\n|---|---|---|---|---|---|---|"

--- Writes the page of bench.results, with the last section of ACCURACY.md.
---@param asked table[] groups of ett bench literature
function page.write(path, results, asked)
  local out = { intro:format(os.date "!%Y-%m-%d", command "git rev-parse --short HEAD" or "unknown") }
  for _, title in ipairs(titles) do
    out[#out + 1] = ("## %s\n\n%s"):format(title[2], head)
    for _, f in ipairs(results.groups) do if f.kind == title[1] then out[#out + 1] = line(f) end end
    out[#out + 1] = ""
  end
  out[#out + 1] = planner .. head
  for _, f in ipairs(asked) do out[#out + 1] = line(f) end
  out[#out + 1] = ""
  add_memory(out, results)
  out[#out + 1] = decisions
  for _, name in ipairs { "multi", "single" } do
    local d = results.decisions[name]
    if d then
      out[#out + 1] = ("- %s-node: %.1f %% of %d pairs in the right order, regret %.1f %% over %d sets."):format(name,
        d.right_percent, d.pairs, d.regret_percent, d.sets)
    end
  end
  out[#out + 1] = "\n## Refused\n\nRows that ett does not estimate, by reason:\n"
  for _, reason in ipairs(require("ett.base.schema").keys(results.refused)) do
    out[#out + 1] = ("- %d: %s"):format(results.refused[reason], reason)
  end
  if next(results.refused) == nil then out[#out + 1] = "None." end
  local before = tree.read "ACCURACY.md"
  out[#out + 1] = "\n" .. before:sub((assert(before:find(kept, 1, true), "ACCURACY.md lacks its last section")))
  local file = assert(io.open(path, "w"))
  file:write((table.concat(out, "\n"):gsub("\n\n\n+", "\n\n")))
  file:close()
end

return page
