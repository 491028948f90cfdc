--- A ledger as text: the FLOP and words of each operation and axis.
local ledger = require "ett.ledger"

local tables = require "ett.report.table"

local report = {}

local function scientific(number) return ("%.3e"):format(number) end

local value = ledger.value

--- Lines of entries with a nonzero cost, over all ranks, forward and backward summed.
function report.entries(L)
  local rows = { { "part", "operation", "", "FLOP", "Tx words", "Rx words", "axes (Rx words)" } }
  for _, e in ipairs(L:entries()) do
    local axes = {}
    for _, part in ipairs(e.axes) do
      local words = value(part.rx_forward) + value(part.rx_backward)
      if words > 0 then axes[#axes + 1] = ("%s %.3e"):format(part.axis, words) end
    end
    local flop = value(e.flop_forward) + value(e.flop_backward)
    local tx, rx = value(e.tx_forward) + value(e.tx_backward), value(e.rx_forward) + value(e.rx_backward)
    if flop + tx + rx > 0 then
      rows[#rows + 1] = { e.label, e.operation, e.dimension and "over " .. e.dimension or "", scientific(flop),
        scientific(tx), scientific(rx), table.concat(axes, ", ") }
    end
  end
  return tables.text(rows, "lllrrrl")
end

--- The totals as one line for each of FLOP, Tx and Rx: forward, backward.
function report.totals(L)
  local t, lines = L:totals(), {}
  for i, name in ipairs { "flop", "tx", "rx" } do
    lines[i] = ("%-5s forward %11.4e  backward %11.4e"):format(name, value(t[name .. "_forward"]),
      value(t[name .. "_backward"]))
  end
  return table.concat(lines, "\n")
end

--- Times of ett.ledger.timing, one line per phase.
function report.timing(t)
  local lines = { ("%-12s %12s %12s %12s %12s  %s"):format("phase", "seconds", "compute", "memory",
    "network", "bound by") }
  local function line(name, p)
    lines[#lines + 1] = ("%-12s %12.6g %12.6g %12.6g %12.6g  %s"):format(name, p.seconds, p.compute_seconds,
      p.memory_seconds, p.network_seconds, p.bound_by)
  end
  for _, p in ipairs(t.phases) do
    line(p.name, p)
    for _, axis in ipairs(p.axes) do
      lines[#lines + 1] = ("  %-49s %12.6g  %s, degree %d"):format(axis.axis, axis.seconds, axis.link, axis.degree)
    end
  end
  line("all", t)
  return table.concat(lines, "\n")
end

--- Entries and totals. Raises with all messages if a rule is violated.
function report.text(L)
  local violations = require "ett.ledger.violations"
  local broken = violations.list(L)
  if #broken > 0 then require("ett.base.error").raise("limit", "%s", violations.message(broken)) end
  return report.entries(L) .. "\n" .. report.totals(L)
end

return report
