-- The page of a trace in a real browser: it renders, answers zoom, hover and search, and its console stays empty. The
-- picture of a batch (ett.ledger.picture) is shown in the same browser.
local browser = require "browser"
local maker = require "trace_maker"
local reference = require "reference_traces"
local trace_view = require "ett.trace.view"
local metrics = require "ett.trace.metrics"

local function write(path, target)
  local view <close> = assert(trace_view.open(path, { args = metrics.args(metrics.load_all(metrics.names())) }))
  require("ett.trace.html").page(view):write(target)
end

describe("the HTML page", function()
  local why = browser.missing()
  if why then
    pending(why)
    return
  end
  local folder = maker.folder()
  teardown(function() os.execute("rm -rf " .. folder) end)

  --- Writes the pages of some traces, { name, path, texts that it shows, more steps }, and drives them in one browser.
  --- A page in place of a path is shown as it is.
  local function check(traces)
    local pages, answers = {}, {}
    for i, trace in ipairs(traces) do
      local steps = { { ready = 60 }, { script = "return document.body.innerText" } }
      table.move(trace[4] or {}, 1, #(trace[4] or {}), 3, steps)
      pages[i] = { ("%s/pages/%s.html"):format(folder, trace[1]), steps }
      if trace[2]:find "^/" then
        write(trace[2], pages[i][1])
      else
        require("ett.base.folder").write_with_folder(pages[i][1], trace[2])
      end
    end
    for i, answer in ipairs(browser.drive_all(pages)) do
      local name, results = traces[i][1], answer[1]
      assert.same({}, answer[2], "the console is empty: " .. name)
      for _, text in ipairs(traces[i][3]) do
        assert.is_truthy(results[2]:find(text, 1, true), name .. " shows " .. text)
      end
      answers[i] = results
    end
    return answers, pages[1][1]
  end

  --- A small run of two ranks: the second is late, so that rank 0 waits 200 us in its all-reduce.
  local function two_ranks()
    local ranks = {}
    for r = 0, 1 do
      local rank = maker.new { rank = r, world = 2 }
      rank:step(1, 0, 2000)
      rank:kernel(r == 0 and "</script><script>throw 1</script>" or "gemm", 100, 300)
      for i = 0, 7 do
        rank:kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 500 + 150 * i + 50 * r, 100 - 50 * r,
          { stream = 20 })
      end
      ranks[r + 1] = rank
    end
    return ranks
  end

  it("shows a hand-made run, with names that would end a script; zoom, hover and search answer", function()
    maker.with(two_ranks(), function(traces)
      local picture, built = require("ett.ledger.picture").page { layers = 2, pp = 2, dp = 2, tp = 2,
        microbatches = 2 }
      local answers, file = check { { "hand", traces, { "Where the time went", "Collectives", "all_reduce",
        "throw 1" }, {
        { async = [[const lane = view.spec.groups.flatMap(g => g.lanes).find(l => l.name === "stream 20");
          await lane.pieces[0].asked;
          const e = lane.pieces[0].events, t = e.start[0];
          await view.zoom(t - 20000, t + 120000);
          const line = view.lines.find(l => l.lane === lane);
          const hit = view.at(view.x(t + 10000), view.axis + line.y + 5 - view.box.scrollTop);
          return [view.describe(hit), e.wait[0], view.from, view.to];]] },
        { async = [[await view.search("throw 1"); view.next(1); return view.found.length]] },
        { async = [[await view.search("allreduce"); return view.count.textContent]] },
        { script = "return view.picked.innerText" },
      } }, { "picture", picture, {}, {
        { async = [[const frame = () => parseInt(document.getElementById("count").textContent);
          for (let tries = 0; tries < 200 && frame() < 2; tries++) await new Promise(next => setTimeout(next, 50));
          return frame();]] },
      } } }
      local found, shown = answers[1], answers[2]
      assert.equal(#built.frames, shown[1]) -- its script ran to its end
      assert.is_true(shown[3] > 1) -- and it moved on from the first frame
      local described, wait, from, to = table.unpack(found[3])
      assert.matches("^ncclDevKernel_AllReduce", described[1])
      assert.equal(50000, wait, "rank 0 waits until rank 1 has started")
      assert.near(140000, to - from, 1)
      local facts = {}
      for _, pair in ipairs(described[2]) do facts[pair[1]] = pair[2] end
      assert.equal("100 us", facts.duration)
      assert.matches("^50 us", facts["of it waiting"])
      assert.equal(1, found[4])
      assert.matches("^40 found", found[5]) -- 16 in streams, 16 in their process group, 8 on the critical path
      assert.matches("throw 1", found[6])
      local text = assert(io.open(file)):read("a")
      assert.is_nil(text:find("https?://"), "loads nothing")
    end)
  end)

  it("shows recorded operators and their predictions on one axis", function()
    local against = require "ett.loop.against"
    local gpt = require("trace_gpt").new { hidden = 256, heads = 4, layers = 2, seq = 64, batch = 2, vocab = 512,
      tp = 2 }
    local view <close> = maker.view(gpt:recordings(), { args = against.args })
    local result, lines = against.compare(view, require("ett.loop.subject").of(view, { cluster = "dgx_h100" }))
    local found = check { { "against", require("ett.loop.page").new(view, result, lines):text(), {}, { { async =
      [[const group = view.spec.groups.find(g => g.name === "measured and predicted, rank 1");
        for (const lane of group.lanes) for (const p of lane.pieces) p.events || await (view.open(lane, p), p.asked);
        const [a, b] = group.lanes.map(l => l.pieces[0].events);
        return [group.lanes.map(l => [l.name, l.count]), [...a.start].join() === [...b.start].join(),
          [...a.label].join() === [...b.label].join()];]] } } } }
    local counts, same, labels = table.unpack(found[1][3])
    assert.same({ { "measured", counts[2][2] }, { "predicted", counts[2][2] } }, counts)
    assert.is_true(counts[1][2] > 20 and same and labels)
  end)

  it("shows real traces", function()
    local real = reference.folder()
    if not real then
      pending("the reference traces are not at hand (set ETT_REFERENCE)")
      return
    end
    local zoomed = { { async = [[const all = view.full[1];
      await view.zoom(all * 0.4, all * 0.401);
      return view.lines.length]] } }
    check {
      { "megatron", real .. "/megatron_tp8_a100", { "Timeline", "rank 7", "Stragglers", "mean lag" }, zoomed },
      { "tpu", real .. "/tpu_inference_jax/2026_01_11_21_26_41", { "/device:TPU:1", "all_reduce" }, zoomed },
      { "pipeline", real .. "/primus_pp/pp8", { "Pipeline stages", "pipeline bubble", "Timeline" }, zoomed },
      { "cpu_only", real .. "/hta_cpu_only", { "Not in this trace" } },
      { "nsys", real .. "/nsys_pipit", { "Timeline" }, zoomed },
    }
  end)
end)
