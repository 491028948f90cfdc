--- Groups of ranks on tiers: against the rank map, written out rank by rank.
local estimate = require "ett.step.estimate"
local model_module = require "ett.model"
local raised = require "raised"
local rank_map = require "rank_map"
local step_core = require "ett.step"
local sweep = require "ett.search.sweep"

describe("groups of ranks", function()
  it("are placed as in the rank map: 60 random layouts on two to four tiers, in any order", function()
    local differ, tried = rank_map.compare(60, 14, false)
    assert.equal("", table.concat(differ, "\n", 1, math.min(#differ, 5)))
    assert.is_true(tried > 350)
  end)

  it("are placed as in an explicit map: 25 random permutations", function()
    local differ = rank_map.compare(25, 15, true)
    assert.equal("", table.concat(differ, "\n", 1, math.min(#differ, 5)))
  end)

  it("differ between rank orders in the test's own rank map", function()
    local p = { tp = 2, cp = 1, ep = 1, dp = 2, pp = 2, etp = 2, rank_order = "tp-cp-ep-pp-dp" }
    assert.equal(1, rank_map.count(p, { 4, math.maxinteger }, { 1, 1 }, nil, "data")[1].members)
    assert.equal(2, rank_map.count(p, { 4, math.maxinteger }, { 1, 1 }, nil, "data")[1].units)
    p.rank_order = "tp-cp-ep-dp-pp"
    assert.equal(1, rank_map.count(p, { 4, math.maxinteger }, { 1, 1 }, nil, "data")[1].units)
  end)

  it("refuse maps that are no permutation", function()
    local function message(list) return raised(step_core.map, list) end
    assert.matches("'rank_map[2]' must be a device from 0 to 1, got 2", message { 0, 2 }, 1, true)
    assert.matches("puts two ranks on device 0; one is rank 1", message { 0, 0 }, 1, true)
    assert.matches("'rank_map[1]' must be a device from 0 to 1, got x", message { "x", 0 }, 1, true)
  end)

  local llama = model_module.new("llama", { layers = 24, hidden = 3072, heads = 24, ffn = 12288, vocab = 32000 })

  local function line(e, name, group)
    for _, l in ipairs(e.collectives) do if l.name == name and l.group == group then return l end end
  end

  local function run(cluster, plan)
    plan.seq, plan.micro_batches = 2048, plan.micro_batches or 8
    return estimate.new { model = llama, cluster = cluster, plan = plan }
  end

  it("of three replicas in four stages leave their nodes of four", function()
    -- ranks 0 1 2 | 3 4 5 | ...: all but the first and the last stage are on two nodes, with one card on one of them
    local e = run("perlmutter", { dp = 3, pp = 4, bucket_bytes = 1e12 })
    local bytes = 4 * e.stages[2].parameters
    assert.is_true(line(e, "all_reduce", "dp").seconds > 0.5 * bytes * 4 / 3 / 25e9 / 4)
    assert.is_true(e.stages[2].gradient_seconds >= bytes * 4 / 3 / 25e9)
  end)

  it("state the nodes that they span; a search counts their time as inside a node or between nodes", function()
    local explain = require "ett.search.explain"
    local function nodes(cluster, plan)
      local e, found = run(cluster, plan), {}
      for _, l in ipairs(e.collectives) do found[l.group] = l.nodes end
      local parts, sums = explain.parts(e), { node = 0.0, network = 0.0 }
      for _, l in ipairs(e.collectives) do
        local part = l.nodes > 1 and "network" or "node"
        sums[part] = sums[part] + l.seconds
      end
      assert.same(sums, { node = parts.node, network = parts.network })
      return found
    end
    local stages_first = "tp-cp-ep-pp-dp"
    assert.same({ tp = 1, pp = 2, dp = 2 }, nodes("perlmutter", { tp = 2, pp = 2, dp = 4 }))
    assert.same({ tp = 1, pp = 1, dp = 4 }, nodes("perlmutter", { tp = 2, pp = 2, dp = 4, rank_order = stages_first }))
    assert.same({ tp = 2, dp = 2 }, nodes("perlmutter", { tp = 8, dp = 2 }))
    assert.same({ tp = 1, dp = 1 }, nodes("gb200_nvl72", { tp = 8, dp = 8 }))
  end)

  it("of six and twelve tensor ranks cross the network", function()
    local bandwidth = 50e9 -- a card of dgx_h100
    for _, tp in ipairs { 6, 12 } do
      local e = run("dgx_h100", { tp = tp, dp = 4 })
      local bytes = 2.0 * 2048 * 3072 -- that each of two nodes, which reduce inside first, sends for one all-reduce
      local cards = tp == 6 and 2 or 4
      local wanted = 8 * (24 * 4 + 1) * bytes / (cards * bandwidth)
      assert.is_true(line(e, "all_reduce", "tp").seconds >= 0.99 * wanted, "tp " .. tp)
    end
  end)

  it("that cross nodes without need are named in a warning, with a cluster that holds them whole", function()
    local mixture = model_module.new("mixtral", { layers = 2, hidden = 1024, heads = 8, vocab = 32000, experts = 32,
      moe_ffn = 512, top_k = 4 })
    local function warning(cluster, ep, dp)
      local e = estimate.new { model = mixture, cluster = cluster, plan = { seq = 1024, micro_batches = 2, ep = ep,
        dp = dp } }
      for _, text in ipairs(e.warnings) do if text:find "^groups of" then return text, e end end
      return nil, e
    end
    local text, crossing = warning("gb300_nvl72", 32, 128)
    assert.equal("groups of 32 devices (ep) cross nodes of 72; for a job that gets 64 of the 72, give --cluster "
      .. "gb300_nvl72_64", text)
    assert.same({ text }, estimate.cautions(crossing)) -- searches and sweeps print these
    local none, whole = warning("gb300_nvl72_64", 32, 128)
    assert.is_nil(none)
    assert.is_true(whole.step_seconds < crossing.step_seconds)
    assert.is_nil(warning("gb300_nvl72", 32, 64)) -- within one domain
    assert.is_nil(warning("dgx_h100", 16, 32)) -- larger than a node
  end)

  -- Ranks that hold whole groups: the shortest blocks of neighbours that split no group.
  local function block_of(lists)
    local block, splits = 0, true
    while splits do
      block, splits = block + 1, false
      for _, list in ipairs(lists) do splits = splits or list[1] // block ~= list[#list] // block end
    end
    return block
  end

  it("are named in this warning in any order of ranks", function()
    local mixture = model_module.new("mixtral", { layers = 6, hidden = 768, heads = 12, vocab = 32000, experts = 6,
      moe_ffn = 512, top_k = 2 })
    local orders = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp", "dp-tp-cp-ep-pp", "cp-tp-ep-dp-pp" }
    local warned, tried = {}, 0
    for i = 1, 160 do
      local order = orders[i % #orders + 1]
      local p = { seq = 768, micro_batches = 2, tp = i % 3 + 1, cp = i // 3 % 3 + 1, ep = ({ 1, 3 })[i // 9 % 2 + 1],
        pp = i // 18 % 3 + 1, dp = 2 * (i // 54 % 3 + 1), rank_order = order }
      local ok, e = pcall(estimate.new, { model = mixture, cluster = "dgx_h100", plan = p })
      if ok then
        tried, p.etp = tried + 1, e.plan.etp or p.tp
        local text = table.concat(e.warnings, "\n")
        for _, group in ipairs { "tp", "cp", "ep" } do
          local lists = rank_map.members(p, nil, group)
          local block, crosses = block_of(lists), false
          for _, list in ipairs(lists) do crosses = crosses or list[1] // 8 ~= list[#list] // 8 end
          local wanted = ("groups of %d devices (%s) cross nodes of 8"):format(block, group)
          local found = text:find(wanted, 1, true) ~= nil
          assert.equal(crosses and block < 8, found, ("%s tp %d cp %d ep %d dp %d pp %d %s\n%s"):format(wanted, p.tp,
            p.cp, p.ep, p.dp, p.pp, order, text))
          if found then warned[order] = true end
        end
      end
    end
    assert.is_true(tried > 60, tried)
    for _, order in ipairs(orders) do assert.is_true(warned[order] or false, order) end
  end)

  it("are placed in sweeps as in single estimates", function()
    local s = sweep.new { model = llama, cluster = "dgx_h100", plan = { seq = 2048, micro_batches = 8 },
      over = { tp = { 2, 6, 12 }, pp = { 1, 2, 3 }, dp = { 1, 2, 4 } } }
    assert.equal(27, #s.rows)
    for _, row in ipairs(s.rows) do
      local e = run("dgx_h100", { tp = row.tp, pp = row.pp, dp = row.dp })
      assert.equal(e.step_seconds, row.step_seconds, ("tp %d pp %d dp %d"):format(row.tp, row.pp, row.dp))
    end
  end)
end)
