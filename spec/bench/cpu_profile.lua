--- Held-out error of a CPU profile: the half-minute campaign, tested on other shapes.
local campaign = require "ett.sampling.campaign"
local sample = require "ett.sample"
local sampler = require "ett.sampling.sampler"

local bench = { summary = "held-out error of a CPU profile sampled in half a minute" }

local function quantile(sorted, q) return sorted[math.max(1, math.ceil(q * #sorted))] end

function bench.run()
  local ok, why = require("ett.base.find").load("samplers", "cpu").available()
  if not ok then return { { measure = "skipped: " .. why, value = "-" } } end
  local out = os.tmpname()
  os.remove(out)
  local folders = { out .. "/train", out .. "/test" }
  for _, folder in ipairs(folders) do require("ett.base.folder").make(folder) end
  local given = campaign.load "cpu_30s"
  local began = sample.now()
  sampler.run(given, { out = folders[1] })
  local seconds = sample.now() - began

  -- The same ranges, another seed and a quarter of the shapes: no shape is in the first campaign.
  local find = require "ett.base.find"
  local other = find.load_file(find.path("samplers/campaigns", "cpu_30s"))
  other.seed = other.seed + 1000
  for _, entry in ipairs(other.samples) do entry.count = math.max(10, entry.count // 4) end
  local test = campaign.resolve(other, "test")
  test.fingerprint = "0"
  sampler.run(test, { out = folders[2] })

  local profile = require("ett.profile").from_samples({ folders[1] }, { cache = false })
  local sample_table = require "ett.samples.table"
  local device
  for name in require("lfs").dir(folders[1]) do device = device or name:match("^(.-)_linear_qkv_fp32%.csv$") end
  local medians, nineties, lines = {}, {}, {}
  for _, target in ipairs(test.targets) do
    local t = assert(sample_table.read(("%s/%s_%s_fp32.csv"):format(folders[2], device, target.name)))
    for column = #target.columns + 1, #t.columns do
      local pass = ({ F = "forward", B = "backward", d = "update" })[t.columns[column]:sub(1, 1)]
      local errors = {}
      for r in ipairs(t.rows) do
        local row = sample_table.numbers(t, r)
        local s = target.shape(table.move(row, 1, #target.columns, 1, {}))
        local truth = row[column] * 1e-6
        local answer = profile:operator(target.name, s, "fp32", pass)
        if answer then errors[#errors + 1] = math.abs(answer.seconds / truth - 1) end
      end
      table.sort(errors)
      if #errors > 0 then
        medians[#medians + 1], nineties[#nineties + 1] = quantile(errors, 0.5), quantile(errors, 0.9)
      end
      lines[#lines + 1] = { measure = ("  %s %s: median / p90 %%"):format(target.name, pass),
        value = ("%.1f / %.1f"):format(100 * (quantile(errors, 0.5) or 0 / 0), 100 * (quantile(errors, 0.9) or 0 / 0)) }
    end
  end
  os.execute(("rm -rf '%s'"):format(out))
  table.sort(medians)
  table.sort(nineties)
  local median, ninety = 100 * quantile(medians, 0.5), 100 * quantile(nineties, 0.5)
  local rows = {
    { measure = "seconds of the campaign", value = ("%.0f"):format(seconds), target = "about 30" },
    { measure = "median over operators of the median held-out error, %", value = ("%.1f"):format(median),
      target = "<= 4", pass = median <= 4 },
    { measure = "median over operators of the 90th percentile, %", value = ("%.1f"):format(ninety), target = "<= 12",
      pass = ninety <= 12 },
  }
  table.move(lines, 1, #lines, #rows + 1, rows)
  return rows
end

return bench
