--- All-to-alls of experts beside computing: what is hidden, against sums by hand on a cluster whose
--- every time is given by name.
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local json = require "ett.json"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local sweep = require "ett.search.sweep"
local timeline = require "ett.step.timeline"
local near = require "near"
local raised = require "raised"

local cluster = { name = "flat", path = "spec", gpus_per_node = 4,
  device = { name = "D", peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bytes = 80e9, memory_bandwidth = 1e12 } }

-- Seconds of forward and backward; everything else takes no time.
local named = { flash_attention = { 3, 6 }, moe_router = { 0.5, 0.5 }, expert_linear1 = { 2, 4 },
  expert_linear2 = { 1, 2 }, linear_up = { 0.5, 1 }, linear_down = { 0.25, 0.5 } }

local function profile(exchange, spread)
  local function answer(seconds)
    spread = spread or 0
    return { seconds = seconds, low_seconds = seconds * (1 - spread), high_seconds = seconds * (1 + spread),
      provenance = "measured" }
  end
  return {
    operator = function(_, name, _, _, pass)
      local times = named[name]
      return answer(times and times[pass == "backward" and 2 or 1] or 0)
    end,
    collective = function(_, kind) return answer(kind == "all_to_all" and exchange or 0) end,
  }
end

local function mixture(layers, shared)
  return model_module.new("mixtral", { layers = layers or 3, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000,
    experts = 8, top_k = 2, shared_experts = shared or 1 })
end

local function run(how, plan, more)
  local given = { model = mixture(), cluster = cluster, profile = profile(2),
    plan = { seq = 1024, micro_batches = 5, dp = 4, ep = 4, overlap_all_to_all = how } }
  for k, v in pairs(plan or {}) do given.plan[k] = v end
  for k, v in pairs(more or {}) do given[k] = v end
  return estimate.new(given)
end

local function exchange_line(e)
  for _, line in ipairs(e.collectives) do if line.name == "all_to_all" then return line end end
end

-- A single layer, forward and backward, without its four all-to-alls.
local layer = 3 + 0.5 + 2 + 1 + 0.5 + 0.25 + 6 + 0.5 + 4 + 2 + 1 + 0.5

describe("all-to-alls", function()
  it("are all exposed unless a plan says otherwise", function()
    local e = run "none"
    near(5 * 3 * (layer + 4 * 2), e.step_seconds, "step")
    near(5 * 3 * 4 * 2, e.all_to_all_exposed_seconds, "exposed")
    assert.equal(0, e.all_to_all_overlapped_seconds)
    assert.same(e.step_seconds, run(nil).step_seconds)
  end)

  it("hide behind shared experts: dispatch behind the up, combine behind the down projection", function()
    for _, exchange in ipairs { 0.25, 2 } do
      local e = run("shared_experts", {}, { profile = profile(exchange) })
      local hidden = math.min(exchange, 0.5) + math.min(exchange, 0.25) -- forward
        + math.min(exchange, 1) + math.min(exchange, 0.5)
      near(5 * 3 * (layer + 4 * exchange - hidden), e.step_seconds, "step")
      near(5 * 3 * hidden, e.all_to_all_overlapped_seconds, "overlapped")
      near(5 * 3 * (4 * exchange - hidden), e.all_to_all_exposed_seconds, "exposed")
    end
  end)

  it("hide behind the input gradients of shared experts alone in a split backward pass", function()
    local input, weight = 6 + 0.5 + (4 + 2 + 1 + 0.5) / 2, (4 + 2 + 1 + 0.5) / 2
    for _, exchange in ipairs { 0.25, 0.75, 2 } do
      local whole, half = math.min(exchange, 1) + math.min(exchange, 0.5),
        math.min(exchange, 0.5) + math.min(exchange, 0.25)
      local wanted = { W = weight, B = input + 2 * exchange - half, BW = input + weight + 2 * exchange - whole }
      for schedule, kinds in pairs { zb_h1 = { "B", "W" }, dualpipe = { "B", "BW", "W" } } do
        local e = run("shared_experts", { pp = 4, micro_batches = 8, schedule = schedule },
          { profile = profile(exchange), model = mixture(4), units = true })
        local seen, hidden = {}, 8 * 4 * (math.min(exchange, 0.5) + math.min(exchange, 0.25)) -- of the forward passes
        for _, units in ipairs(e.units) do
          for i, u in ipairs(units) do
            hidden = hidden + (u[1] == "BW" and whole or u[1] == "B" and half or 0)
            local before, after = units[i - 1], units[i + 1]
            if u[1] ~= "F" and not (before and before.start_seconds == u.start_seconds)
              and not (after and after.start_seconds == u.start_seconds) then
              near(wanted[u[1]], u.seconds, schedule .. " " .. u[1])
              seen[u[1]] = true
            end
          end
        end
        for _, kind in ipairs(kinds) do assert.is_true(seen[kind], schedule .. " " .. kind) end
        near(hidden / 4, e.all_to_all_overlapped_seconds, "overlapped")
        near(8 * 4 * 4 * exchange / 4, e.all_to_all_overlapped_seconds + e.all_to_all_exposed_seconds, "all of them")
      end
    end
  end)

  it("are hidden once more under recomputation of the forward pass", function()
    local e = run("shared_experts", { recompute = "full" })
    local hidden = 2 * (0.5 + 0.25) + 1 + 0.5
    near(5 * 3 * hidden, e.all_to_all_overlapped_seconds, "overlapped")
    near(run("none", { recompute = "full" }).step_seconds - 5 * 3 * hidden, e.step_seconds, "step")
  end)

  it("are hidden in half of the repeated layers under recompute=policy", function()
    local none, full = run("shared_experts", {}), run("shared_experts", { recompute = "full" })
    local half = run("shared_experts", { recompute = "policy" })
    near((none.step_seconds + full.step_seconds) / 2, half.step_seconds, "step")
    near((none.all_to_all_overlapped_seconds + full.all_to_all_overlapped_seconds) / 2,
      half.all_to_all_overlapped_seconds, "overlapped")
  end)

  it("overlap another micro-batch, except in the first and the last pass", function()
    for _, exchange in ipairs { 2, 5, 20 } do
      local e = run("batch", {}, { profile = profile(exchange) })
      local forward = math.min(exchange, 4 + 2) + math.min(exchange, 6 + 0.5 + 1 + 0.5)
      local backward = math.min(exchange, 3 + 0.5 + 0.5 + 0.25) + math.min(exchange, 2 + 1)
      near(4 * 3 * (forward + backward), e.all_to_all_overlapped_seconds, "overlapped")
      near(5 * 3 * (layer + 4 * exchange) - 4 * 3 * (forward + backward), e.step_seconds, "step")
      near(5 * 3 * 4 * exchange, e.all_to_all_exposed_seconds + e.all_to_all_overlapped_seconds, "all of them")
    end
    near(run "none".step_seconds, 5 * run("batch", { micro_batches = 1 }).step_seconds, "one has no partner")
  end)

  it("hide the same whatever else the layer communicates", function()
    local function tensor(how)
      return run(how, { tp = 2, etp = 1, dp = 2 }, { profile = setmetatable({ collective = function(_, kind)
        return exactly(kind == "all_to_all" and 2 or 7)
      end }, { __index = profile(2) }) })
    end
    near(tensor "none".step_seconds - 4 * 3 * 8, tensor "batch".step_seconds, "step")
  end)

  it("are told apart in the table, in the JSON and per stage, and all adds up", function()
    for _, how in ipairs { "none", "shared_experts", "batch" } do
      for _, pp in ipairs { 1, 3 } do
        local e = run(how, { pp = pp, micro_batches = 7 })
        local text, data = tostring(e), json.decode(json.encode(e))
        assert.equal(e.all_to_all_overlapped_seconds, data.all_to_all_overlapped_seconds)
        assert.matches(("all-to-all  %.3f s exposed, "):format(e.all_to_all_exposed_seconds), text, 1, true)
        local line, sum, hidden = exchange_line(e), e.idle_seconds, 0
        near(line.seconds, e.all_to_all_exposed_seconds, "line")
        near(line.overlapped_seconds, e.all_to_all_overlapped_seconds, "line, overlapped")
        near(7 * 3 / pp * 4 * 2, line.seconds + line.overlapped_seconds, "the whole of it")
        for _, list in ipairs { e.operators, e.collectives } do
          for _, l in ipairs(list) do sum = sum + l.seconds end
        end
        near(e.step_seconds, sum, "lines and idleness")
        for _, s in ipairs(e.stages) do
          hidden = hidden + s.all_to_all_overlapped_seconds / pp
          local alone = 7 * (s.micro_batch_forward_seconds + s.micro_batch_backward_seconds)
          near(alone - (how == "batch" and s.all_to_all_overlapped_seconds or 0),
            s.forward_seconds + s.backward_seconds, "stage")
        end
        near(hidden, e.all_to_all_overlapped_seconds, "stages")
        assert.is_true(e.bubble_percent >= 0 and e.bubble_percent < 100)
      end
    end
  end)

  it("in pairs keep more micro-batches in memory, and their timeline shows them together", function()
    local plan = { pp = 3, micro_batches = 9 }
    local alone, paired = run("none", plan, { units = true }), run("batch", plan, { units = true })
    assert.is_true(paired.memory_bytes > alone.memory_bytes)
    assert.is_true(paired.step_seconds < alone.step_seconds)
    local units = paired.units[3]
    assert.same({ "F", 2, "B", 1 }, { units[2][1], units[2][2], units[3][1], units[3][2] })
    assert.equal(units[2].start_seconds, units[3].start_seconds)
    local busy = alone.stages[3].micro_batch_forward_seconds + alone.stages[3].micro_batch_backward_seconds
    near(busy - 8, units[2].seconds, "a pair of one layer, all of its all-to-alls hidden")
  end)

  it("save no time where the host's launches bind", function()
    local model = model_module.new("mixtral", { layers = 2, hidden = 2048, heads = 16, kv_heads = 4, vocab = 32000,
      experts = 16, top_k = 4, moe_ffn = 1024, shared_ffn = 8192 })
    local function seconds(how, seq, recompute, schedule, stack)
      return estimate.new { model = model, cluster = "dgx_h100", plan = { seq = seq, dp = 16, ep = 16,
        pp = schedule and 2 or 1, schedule = schedule, micro_batches = 8, overlap_all_to_all = how,
        stack = stack or "megatron_moe:reads_counts=none", recompute = recompute } }.step_seconds
    end
    for _, recompute in ipairs { "none", "full" } do
      local last = 0
      for _, seq in ipairs { 128, 1024, 2048, 2560 } do
        local step = seconds("shared_experts", seq, recompute)
        assert.near(seconds("none", seq, recompute), step, 1e-6 * step)
        assert.is_true(step > last)
        last = step
      end
      for _, stack in ipairs { "megatron", "megatron_moe" } do
        for _, seq in ipairs { 128, 1024, 2048, 2560 } do
          local step = seconds("none", seq, recompute, nil, stack)
          assert.near(step, seconds("shared_experts", seq, recompute, nil, stack), 1e-6 * step, stack)
        end
      end
    end
    for _, seq in ipairs { 128, 1024, 2048 } do
      local step = seconds("none", seq, "none", "zb_h1")
      assert.near(step, seconds("shared_experts", seq, "none", "zb_h1"), 1e-6 * step)
    end
    assert.is_true(seconds("shared_experts", 8192) < 0.9 * seconds("none", 8192))
  end)

  it("are swept with the digits of single estimates", function()
    local model, p = mixture(8), profile(1.7, 0.2)
    local base = { seq = 1024, micro_batches = 8, dp = 4 }
    local s = sweep.new { model = model, cluster = cluster, profile = p, plan = base, over = { ep = { 1, 2, 4 },
      pp = { 1, 2, 4 }, vp = { 1, 2 }, schedule = { "1f1b", "interleaved" }, recompute = { "none", "full" },
      overlap_all_to_all = { "none", "shared_experts", "batch" } } }
    local seen = {}
    for _, row in ipairs(s.rows) do
      local plan = merged(base)
      for _, name in ipairs(s.fields) do plan[name] = row[name] end
      local e = estimate.new { model = model, cluster = cluster, profile = p, plan = plan }
      assert.equal(e.step_seconds, row.step_seconds)
      assert.equal(e.memory_bytes, row.memory_bytes)
      assert.is_true(e.low_seconds < e.step_seconds and e.step_seconds < e.high_seconds)
      seen[row.overlap_all_to_all] = (seen[row.overlap_all_to_all] or 0) + 1
    end
    -- pp 1, 2, 4 under 1f1b and pp 2, 4 interleaved, by what ep and recompute each mode takes
    assert.same({ none = 3 * 5 * 2, shared_experts = 2 * 5 * 2, batch = 2 * 5 }, seen)
  end)

  it("are refused an overlap that plan or model do not support", function()
    local function message(how, plan, more) return raised(run, how, plan, more) end
    assert.matches("field 'overlap_all_to_all' must be one of none, shared_experts, batch, got 'bach'; did you mean "
      .. "'batch'", message "bach", 1, true)
    assert.matches("overlap_all_to_all = 'batch': the module moe of recompute_modules cannot be repeated",
      message("batch", { recompute = "selective", recompute_modules = { "moe" } }), 1, true)
    assert.matches("needs schedule = '1f1b' or 'interleaved', or one with pairs, got 'gpipe'",
      message("batch", { schedule = "gpipe" }), 1, true)
    assert.matches("'1f1b' or 'interleaved', or one with pairs, got 'zb_h1'", message("batch", { schedule = "zb_h1" }),
      1, true)
    assert.matches("overlap_all_to_all = 'batch' needs recompute = 'none' or 'selective', got 'full'; "
      .. "overlap_all_to_all = 'batch' needs zero of at most 2, got 3",
      message("batch", { recompute = "full", zero = 3 }), 1, true)
    assert.matches("overlap_all_to_all = 'shared_experts' needs a model with shared experts (shared_experts or "
      .. "shared_ffn)", message("shared_experts", {}, { model = mixture(3, 0) }), 1, true)
  end)

  -- arXiv 2412.19437, sections 1, 3.2 and 4.2: 3.7 days a trillion tokens on 2048 H800; pipeline 16, experts over 64
  -- ranks (8 nodes, of which a token visits 4), ZeRO-1, 15360 sequences of 4096 tokens, fp8, all-to-alls overlapped,
  -- each token sent once to a node. Their pipeline runs in two directions; 8 x 400 Gb/s a node, as here.
  it("hidden as in DeepSeek-V3 leave the exposed time of its report", function()
    local model = model_module.new("mixtral", { layers = 61, hidden = 7168, heads = 128, ffn = 18432, vocab = 129280,
      experts = 256, top_k = 8, moe_ffn = 2048, shared_experts = 1, first_dense_layers = 3, q_lora_rank = 1536,
      kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128, expert_groups = 8,
      top_groups = 4 })
    local function rate(how, once)
      return estimate.new { model = model, cluster = "dgx_h100", plan = { pp = 16, dp = 128, ep = 64,
        global_batch = 15360, seq = 4096, dtype = "fp8", zero = 1, overlap_sends = true, overlap_gradients = true,
        overlap_all_to_all = how, deduplicate_tokens = once } }.tokens_per_second
    end
    local told = 1e12 / (3.7 * 86400)
    -- Their step also recomputes norms and up-projections, permutes tokens, and gives 20 of 132 multiprocessors to
    -- communication: it is slower than this estimate, which has none of that.
    local best = rate("batch", true) / told
    assert.is_true(best > 1.0 and best < 1.35, tostring(best))
    assert.is_true(rate("none", false) / told < 0.6 * best)
  end)

  it("overlap the operators that a user's architecture marks", function()
    local function own(beside)
      local model = model_module.new(function(hyper)
        return require("ett.model.blocks").decoder(hyper, { name = "block", count = 3, ops = { "flash_attention",
          { collective = "expert_exchange" }, "expert_linear1", { collective = "expert_exchange" },
          { op = "linear_up", beside = beside } } })
      end, { layers = 3, hidden = 1024, heads = 16, vocab = 32000, experts = 8, top_k = 2 })
      return run("shared_experts", {}, { model = model }).all_to_all_overlapped_seconds
    end
    near(5 * 3 * 1.5, own "combine", "beside the combine")
    near(5 * 3 * 1.5, own "dispatch", "beside the dispatch")
    assert.matches("field 'beside' must be one of dispatch, combine, got 'both'", raised(own, "both"), 1, true)
  end)
end)

describe("a timeline", function()
  --- Seconds of each operator, of all-to-alls, and of these beside computing, on all stages.
  local function read(e)
    local sums, exchanged, beside = {}, 0, 0
    for _, stage in ipairs(timeline.of(e).stages) do
      local computing, exchanges = {}, {}
      for _, unit in ipairs(stage.units) do
        for _, part in ipairs(unit.parts) do
          assert.is_true(part.from >= -1e-12 and part.from + part.length <= unit.seconds + 1e-9, "inside its unit")
          local list = part.resource == "compute" and computing or part.name == "all_to_all" and exchanges
          if list then list[#list + 1] = { unit.start + part.from, unit.start + part.from + part.length } end
          if part.resource == "compute" then sums[part.name] = (sums[part.name] or 0) + part.length end
        end
      end
      for _, list in ipairs { computing, exchanges } do
        table.sort(list, function(a, b) return a[1] < b[1] end)
        for i = 2, #list do assert.is_true(list[i][1] >= list[i - 1][2] - 1e-9, "one after the other") end
      end
      for _, x in ipairs(exchanges) do
        exchanged = exchanged + x[2] - x[1]
        for _, c in ipairs(computing) do beside = beside + math.max(0, math.min(x[2], c[2]) - math.max(x[1], c[1])) end
      end
    end
    return sums, exchanged / e.plan.pp, beside / e.plan.pp
  end

  for _, case in ipairs { { "batch", {} }, { "batch", { pp = 3, micro_batches = 9 } },
    { "batch", { pp = 2, dp = 4, micro_batches = 8, schedule = "dualpipe" } },
    { "batch", { tp = 2, etp = 1, dp = 2 } }, { "shared_experts", {} }, { "shared_experts", { recompute = "full" } },
    { "shared_experts", { recompute = "policy" } }, { "shared_experts", { pp = 3, schedule = "zb_h1" } } } do
    it("shows operators in full length beside the all-to-alls that they hide: " .. json.encode(case), function()
      for _, exchange in ipairs { 0.25, 2, 5, 20 } do
        local alone = run("none", case[2], { units = true, profile = profile(exchange) })
        local e = run(case[1], case[2], { units = true, profile = profile(exchange) })
        local expected, exchanged = read(alone)
        local sums, all, beside = read(e)
        for name, seconds in pairs(expected) do near(seconds, sums[name], name) end
        near(exchanged, all, "all-to-alls")
        near(e.all_to_all_exposed_seconds + e.all_to_all_overlapped_seconds, all, "all-to-alls of the estimate")
        near(e.all_to_all_overlapped_seconds, beside, ("beside computing, %g s each"):format(exchange))
        assert.is_true(beside > 0)
      end
    end)
  end
end)
