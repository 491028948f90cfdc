--- Number of reference values that the metrics reproduce to all given digits.
local bench = { summary = "every value of reference.json, from the real traces" }

function bench.run()
  local list = require("reference_check").list()
  if not list then
    return { { measure = "values of reference.json", value = "not at hand (ETT_REFERENCE)" } }
  end
  local rows, compared, exact, wrong = {}, 0, 0, 0
  for _, each in ipairs(list) do
    local found = each.run()
    compared, exact, wrong = compared + found.compared, exact + found.exact, wrong + #found.wrong
    rows[#rows + 1] = { measure = each.name, value = ("%d of %d"):format(found.compared - #found.wrong, found.compared),
      target = "all", pass = #found.wrong == 0 }
    for _, sentence in ipairs(found.wrong) do
      rows[#rows + 1] = { measure = "  " .. sentence, value = "", target = "", pass = false }
    end
  end
  rows[#rows + 1] = { measure = "values equal to the digits given", value = ("%d of %d"):format(exact, compared),
    target = "-" }
  rows[#rows + 1] = { measure = "values equal, or within the rounding of the reference's own times",
    value = ("%d of %d"):format(compared - wrong, compared), target = "all", pass = wrong == 0 }
  return rows
end

return bench
