--- Active sampling against the full grid on the shared sample tables of GPUs: deterministic.
local campaign = require "active_campaign"
local samples = require "ett.profile.samples"

local seed, most = 20261121, 1500

local bench = { summary = ("shapes that active sampling needs on recorded GPU campaigns, seed %d"):format(seed) }

--- The rows of a recorded table as shapes of a campaign.
local function target_of(entry)
  local t = assert(require("ett.csv").read(entry.path))
  local op, columns, names = entry.operator, {}, entry.operator.sample_row.columns
  for c, name in ipairs(names) do columns[c] = assert(t:numbers(name)) end
  local target = { kind = "operator", operator = op, name = entry.name, columns = names, total = t:rows() }
  function target.values(i)
    local values = {}
    for c = 1, #names do values[c] = columns[c][i] end
    return values
  end
  function target.shape(values)
    local row = {}
    for c, name in ipairs(names) do row[name] = values[c] end
    return op.sample_row.shape(row)
  end
  t:close()
  return target
end

function bench.run()
  local root = (os.getenv("ETT_REFERENCE") or "../shared/reference") .. "/estimate-train-time/regressors/"
  local rows = {}
  for _, cluster in ipairs { "Vista", "Perlmutter" } do
    local index = samples.index(root .. cluster)
    if not index then
      return { { measure = "skipped: no shared sample files (set ETT_REFERENCE)", value = "-" } }
    end
    local tables = {}
    for _, entry in ipairs(index) do
      if entry.operator then
        tables[#tables + 1] = campaign.split({ name = entry.name, entry = entry, file = assert(samples.read(entry)),
          target = target_of(entry) }, seed, most)
      end
    end
    for _, row in ipairs(campaign.rows(cluster, tables)) do rows[#rows + 1] = row end
    for _, row in ipairs(campaign.blind_rows(tables)) do rows[#rows + 1] = row end
  end
  return rows
end

return bench
