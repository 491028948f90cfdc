-- The page of a search: its packed columns give the rows back, and its data are those of the result.
local columns = require "ett.search.page.columns"
local estimate = require "ett.step.estimate"
local inflate = require "inflate"
local model_module = require "ett.model"
local pages = require "ett.report.page"
local search = require "ett.search.search"

local function code(bytes, i, count, wide) return bytes:byte(i) + (wide and bytes:byte(count + i) * 256 or 0) end

--- The rows that the columns hold, in their order.
local function read(page, out)
  local texts, rows = inflate(page.blobs), {}
  for i = 1, out.count do
    local row = {}
    for _, fixed in ipairs(out.fixed) do row[fixed[1]] = fixed[2] end
    for _, f in ipairs(out.fields) do row[f.name] = f.values[code(texts[f.blob + 1], i, out.count, f.wide) + 1] end
    for _, m in ipairs(out.measures) do
      local n = code(texts[m.blob + 1], i, out.count, not m.values)
      if m.values then
        row[m.name] = m.values[n + 1] * row.step_seconds ^ m.power
      else
        row[m.name] = n < 65535 and m.low * math.exp(m.step * n) or nil
      end
    end
    rows[i] = row
  end
  return rows
end

describe("packed columns of a search", function()
  it("give random rows back: fields exactly, measures to 0.02 %", function()
    math.randomseed(5)
    local rows = {}
    for i = 1, 700 do
      local devices = 64 << math.random(0, 2)
      local step = math.exp(math.random() * 3)
      rows[i] = { tp = 1 << math.random(0, 3), vp = math.random(1, 400), zero = math.random(0, 3),
        flag = math.random() < 0.5, schedule = math.random() < 0.3 and "gpipe" or "1f1b",
        etp = math.random() < 0.5 and 2 or nil, seq = 4096, devices = devices, step_seconds = step,
        memory_bytes = 1e9 + math.random() * 8e10, run_dollars = math.random() < 0.7 and 1 + math.random() or nil,
        run_days = step * 0.25 * 64 / devices, tokens_per_second = 4e6 / step }
    end
    local page = pages.new { title = "x", scripts = {} }
    local out, order = columns.pack(page, rows, { "devices", "tp", "vp", "zero", "flag", "schedule", "etp", "seq" },
      { "step_seconds", "memory_bytes", "run_days", "tokens_per_second", "run_dollars", "absent" })
    assert.equal(5, #out.measures)
    assert.same({ { "seq", 4096 } }, out.fixed)
    for i, row in ipairs(read(page, out)) do
      local wanted = rows[order[i]]
      for _, name in ipairs { "devices", "tp", "vp", "zero", "flag", "schedule", "seq" } do
        assert.equal(wanted[name], row[name])
      end
      assert.equal(wanted.etp or "", row.etp)
      for _, name in ipairs { "step_seconds", "memory_bytes", "run_days", "tokens_per_second" } do
        assert.near(1, row[name] / wanted[name], 2e-4)
      end
      assert.equal(wanted.run_dollars == nil, row.run_dollars == nil)
      assert.near(1, (row.run_dollars or 1) / (wanted.run_dollars or 1), 2e-4)
    end
  end)
end)

describe("the page of a search", function()
  it("holds every row, the breakdown of the best, and the sources; every detail adds up to its step", function()
    local model = model_module.new("llama", { layers = 4, hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 })
    local s = search.new { model = model, cluster = "dgx_h100", devices = 4, where = "zero < 2",
      plan = { seq = 2048, global_batch = 8 } }
    local pages_of_search = require "ett.search.page"
    local most = pages_of_search.most_details
    pages_of_search.most_details = 30
    local page = pages_of_search.new(s, model)
    pages_of_search.most_details = most
    local data = page.data
    assert.equal(#s.rows, data.columns.count)
    local details = require("ett.json").decode(inflate(page.blobs)[data.details + 1])
    local rows = read(page, data.columns)
    local seen = 0
    for place, detail in pairs(details) do
      local sum = 0.0
      for _, part in ipairs(detail.parts) do sum = sum + part end
      assert.near(1, sum / rows[tonumber(place) + 1].step_seconds, 2e-4)
      seen = seen + 1
    end
    assert.equal(math.min(30, #s.rows), seen)
    assert.near(s.rows[1].step_seconds, rows[data.best_places[1] + 1].step_seconds, s.rows[1].step_seconds * 1e-4)
    assert.equal(s.best.estimate.step_seconds, data.best.step_seconds)
    assert.equal("yes", data.best.fits)
    for _, n in ipairs(data.best.neighbours) do assert.equal("yes", n.fits) end
    assert.is_true(#data.best.wide > 0) -- the stack was not named
    assert.same({ table.unpack(data.best.wide) }, { table.unpack(s.best.estimate.wide_because) })
    local found = false
    for _, source in ipairs(data.sources) do found = found or source[1] == "cluster dgx_h100" end
    assert.is_true(found)
    -- The plan's words are those that predict takes.
    local plan = { seq = 2048 }
    for name, value in data.best.plan:gmatch("(%S+)=(%S+)") do
      plan[name] = tonumber(value) or value == "true" or (value ~= "false" and value or false)
    end
    local again = estimate.new { model = model, plan = plan, cluster = "dgx_h100" }
    assert.equal(data.best.step_seconds, again.step_seconds)
  end)

  it("has the values of a field of lists as text, as the table has", function()
    local model = model_module.new("llama", { layers = 4, hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 })
    local s = search.new { model = model, cluster = "dgx_h100", devices = 2,
      plan = { seq = 2048, global_batch = 8, pp = 1, tp = 1, recompute = "selective" },
      vary = { recompute_modules = { { "mlp" }, { "layernorm", "core_attn" } } } }
    local data, values = require("ett.search.page").new(s, model).data, nil
    for _, field in ipairs(data.columns.fields) do
      if field.name == "recompute_modules" then values = field.values end
    end
    assert.same({ "layernorm,core_attn", "mlp" }, { values[1], values[2] })
    assert.matches("\n *layernorm,core_attn ", tostring(s))
  end)

  it("details a row under the fields that are given, and has money and energy in every row", function()
    local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 })
    local s = search.new { model = model, cluster = { "dgx_h100", "dgx_a100" }, devices = 4, energy = true,
      plan = { seq = 2048, global_batch = 8, pp = 2, tp = 1, split = { 1, 7 } } }
    local data = require("ett.search.page").new(s, model).data
    local page_rows = {}
    for _, m in ipairs(data.columns.measures) do page_rows[m.name] = true end
    assert.is_true(page_rows.kwh_per_billion_tokens and page_rows.dollars_per_billion_tokens)
    for _, row in ipairs(s.rows) do
      local e = s.estimate_of(row)
      assert.equal(row.step_seconds, e.step_seconds)
      assert.same({ 1, 7 }, e.plan.split)
      assert.near(e.kwh_per_step / (8 * 2048) * 1e9, row.kwh_per_billion_tokens, 1e-9 * row.kwh_per_billion_tokens)
    end
    local page = require("ett.search.page").new(s, model)
    local rows = read(page, page.data.columns)
    for place, detail in pairs(require("ett.json").decode(inflate(page.blobs)[page.data.details + 1])) do
      local sum = 0.0
      for _, part in ipairs(detail.parts) do sum = sum + part end
      assert.near(1, sum / rows[tonumber(place) + 1].step_seconds, 2e-4)
    end
  end)

  it("states the source of each tier of links", function()
    local model = model_module.new("llama", { layers = 4, hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 })
    for cluster, wanted in pairs { superpod_dgxh100 = { "node", "scalable unit", "spine" },
      dgx_h100 = { "NVLink 4 and NVSwitch", "8x InfiniBand NDR400" } } do
      local s = search.new { model = model, cluster = cluster, devices = 16, where = "zero < 1 and tp > 4",
        plan = { seq = 2048, global_batch = 16 } }
      local list, names = s.clusters[cluster].tiers, {}
      local links = s.clusters[cluster].links
      for i, source in ipairs(require("ett.search.page").new(s, model).data.sources) do
        local tier = list and list[i - 2] or i == 3 and links.intra or links.inter
        if i > 2 and i <= 2 + #wanted then
          names[#names + 1] = source[1]
          assert.equal(tier.source, source[2])
        end
      end
      assert.same(wanted, names)
    end
  end)
end)
