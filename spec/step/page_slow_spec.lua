-- The page of a predicted step in headless Chromium. Times are bounded far above what they take; `ett bench pages` has
-- the strict figures.
local browser = require "browser"
local estimate = require "ett.step.estimate"
local folder = require "ett.base.folder"
local model = require "ett.model"

describe("the page of a step in a browser", function()
  local why = browser.missing()
  if why then
    pending(why)
    return
  end

  it("draws pipeline and resources, answers hover and search, and follows the theme", function()
    local what = { model = model.new("llama", { layers = 8, hidden = 2048, heads = 16, vocab = 32000 }), units = true,
      plan = { pp = 4, tp = 2, dp = 2, micro_batches = 8, seq = 2048 }, cluster = "dgx_h100" }
    local e = estimate.new(what)
    folder.within(function(place)
      local file = place .. "/step.html"
      require("ett.step.page").new(e, what):write(file)
      local results, said = browser.drive(file, {
        { ready = 60 }, { script = "return document.body.innerText" },
        { async = [=[const g = view.spec.groups[1]; g.open = true; view.lay();
          const unit = view.spec.groups[0].lanes[0].pieces[0].events;
          await view.zoom(unit.start[0], unit.start[0] + unit.dur[0]);
          const line = view.lines.find(l => l.lane === g.lanes[0]);
          const at = f => view.at(view.x(unit.start[0] + unit.dur[0] * f), view.axis + line.y + 4 - view.box.scrollTop);
          const hit = [0.3, 0.35, 0.4, 0.45, 0.5].map(at).find(h => h && h.label !== undefined);
          return [view.describe(hit), view.labels.names[view.labels.list[unit.label[0]][0]], unit.n];]=] },
        { async = [[await view.search("flash_attention"); await view.search("B3"); return view.found.length]] },
        { key = "0" }, { script = "return [view.from, view.to, view.full[1]]" },
        { script = "document.querySelector('header button').click(); return document.documentElement.dataset.theme" },
        { script = "return memorySpec.series.map(s => [s.name, Math.max(...s.points.map(p => p[1]))])" },
      })
      assert.same({}, said)
      for _, text in ipairs { "Pipeline", "What would help", "linear_up", "Memory over time", "sequence" } do
        assert.is_truthy(results[2]:find(text, 1, true), text)
      end
      local described, name, count = table.unpack(results[3])
      assert.equal("F1", name)
      assert.is_true(count >= 16)
      assert.equal("compute", described[2][2][2])
      local inside
      for _, pair in ipairs(described[2]) do if pair[1] == "part of" then inside = pair[2] end end
      assert.equal("F1", inside)
      assert.equal(4, results[4])
      assert.equal(results[6][2], results[6][3])
      assert.equal(0, results[6][1])
      local first = results[7]
      assert.is_true(first == "dark" or first == "light")
      local activations
      for _, series in ipairs(results[8]) do if series[1] == "activations" then activations = series[2] end end
      assert.near(e.stages[e.fullest_stage].activation_bytes, activations, 1)
    end)
  end)
end)
