-- The page of a search in headless Chromium: points, filters, hover, picks, heat map, the printed summary.
local browser = require "browser"
local folder = require "ett.base.folder"
local model_module = require "ett.model"
local search = require "ett.search.search"

describe("the page of a search in a browser", function()
  local why = browser.missing()
  if why then
    pending(why)
    return
  end

  it("answers filters, hover and picks, and finds the front", function()
    local model = model_module.new("llama", { layers = 4, hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 })
    local s = search.new { model = model, cluster = "dgx_h100", devices = 8, plan = { seq = 2048, global_batch = 16 } }
    -- The front of time and memory, by comparing every pair.
    local front = 0
    for _, a in ipairs(s.rows) do
      local beaten = false
      for _, b in ipairs(s.rows) do
        beaten = beaten or b.step_seconds <= a.step_seconds and b.memory_bytes <= a.memory_bytes
          and (b.step_seconds < a.step_seconds or b.memory_bytes < a.memory_bytes)
      end
      front = front + (beaten and 0 or 1)
    end
    local with_tp1 = 0
    for _, row in ipairs(s.rows) do with_tp1 = with_tp1 + (row.tp == 1 and 1 or 0) end
    folder.within(function(place)
      local file = place .. "/search.html"
      require("ett.search.page").new(s, model):write(file)
      local results, said = browser.drive(file, {
        { ready = 60 }, { script = "return document.body.innerText" },
        { script = "return [points.frontPoints.length, points.shown, picked.length]" },
        { script = [[const i = picked[0], box = points.canvas.getBoundingClientRect();
          points.hover({clientX: 10, clientY: 10}, points.left + points.at(i)[0], points.shape.top + points.at(i)[1]);
          return tip.innerText;]] },
        { script = [[const f = fields.tp; f.allowed = f.values.map(v => v === 1); filter();
          return [points.shown, document.getElementById("shown").textContent];]] },
        { script = [[fields.tp.allowed.fill(true); filter(); const before = picked.length;
          points.spec.onpick(points.frontPoints[points.frontPoints.length - 1]);
          return [before, picked.length, compared.querySelectorAll("thead th").length];]] },
        { ["print"] = true },
      })
      assert.same({}, said)
      for _, text in ipairs { "Side by side", "Best of each pair", "Summary", "Bottleneck", "sources",
        ("Plan 1 is the best of %d with a probability of %.0f %%"):format(s.sure.compared_rows,
          s.sure.best_percent) } do
        assert.is_truthy(results[2]:find(text, 1, true), text)
      end
      -- Points are stored in 16-bit steps: ties in a step may join or split a front's plan.
      assert.is_true(math.abs(results[3][1] - front) <= math.max(1, front * 0.2))
      assert.equal(#s.rows, results[3][2])
      assert.matches("a step", results[4])
      assert.matches("breakdown", results[4])
      assert.equal(with_tp1, results[5][1])
      assert.matches(("^%d of "):format(with_tp1), results[5][2])
      assert.equal(1, math.abs(results[6][2] - results[6][1]))
      assert.equal(results[6][2] + 1, results[6][3])
      assert.equal(1, results[7], "the summary is one printed page")
    end)
  end)

  it("shows the dollars of the plans that have a price", function()
    local model = model_module.new("llama", { layers = 4, hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 })
    local s = search.new { model = model, cluster = { "perlmutter", "dgx_h100" }, devices = 4, keep = 1e6,
      plan = { seq = 2048, global_batch = 8, dtype = "fp16" } }
    local priced = 0
    for _, row in ipairs(s.rows) do priced = priced + (row.dollars_per_billion_tokens and 1 or 0) end
    assert.is_true(priced > 0 and priced < #s.rows)
    folder.within(function(place)
      local file = place .. "/search.html"
      require("ett.search.page").new(s, model):write(file)
      local results, said = browser.drive(file, { { ready = 60 }, { script = [==[
        const node = document.querySelector("select[aria-label=up]"), c = fields.cluster;
        node.value = "dollars_per_billion_tokens"; node.dispatchEvent(new Event("change"));
        const unpriced = c.codes.findIndex(k => c.values[k] === "perlmutter"), front = points.frontPoints;
        return [points.shown, front.length > 0, front.every(i => c.values[c.codes[i]] === "dgx_h100"),
          describe(unpriced)[1].some(r => r[1] === "n/a")];]==] }, { script = [==[
        const cluster = fields.cluster, unpriced = cluster.values.indexOf("perlmutter");
        cluster.allowed = cluster.values.map((_, k) => k === unpriced);
        filter();
        return [points.shape === null];]==] } })
      assert.same({}, said)
      assert.same({ priced, true, true, true }, results[2])
      assert.same({ true }, results[3]) -- no point is left to draw
    end)
  end)
end)
