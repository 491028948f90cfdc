--- Groups of ranks on nodes: against the rank map, written out rank by rank.
local estimate = require "ett.step.estimate"
local model_module = require "ett.model"
local random_plans = require "random_plans"
local step_core = require "ett.step"
local sweep = require "ett.search.sweep"

--- The most nodes of a group, and the fewest ranks on one node of a group on several nodes. coordinates(rank): the
--- group that a rank is in, as text.
local function count(world, gpus, coordinates)
  local groups = {}
  for rank = 0, world - 1 do
    local id, node = coordinates(rank), rank // gpus
    groups[id] = groups[id] or {}
    groups[id][node] = (groups[id][node] or 0) + 1
  end
  local most, fewest = 1, nil
  for _, nodes in pairs(groups) do
    local n, least = 0, math.huge
    for _, members in pairs(nodes) do n, least = n + 1, math.min(least, members) end
    most = math.max(most, n)
    if n > 1 then fewest = math.min(fewest or least, least) end
  end
  return most, fewest
end

describe("groups of ranks", function()
  it("lie where the rank map puts them, 2,000 random plans", function()
    local pick = random_plans.generator(14)
    local degrees = { 1, 2, 3, 4, 5, 6, 8, 12 }
    for _ = 1, 2000 do
      local tp, cp, dp, pp = pick(degrees), pick { 1, 2, 3 }, pick(degrees), pick { 1, 2, 3, 4 }
      local gpus, world = pick { 1, 2, 3, 4, 6, 8, 16, 72 }, tp * cp * dp * pp
      local block = tp * cp * dp
      local etp = pick { 1, tp }
      local ep = pick { 1, 2, 3, 4, 8 }
      if block % (etp * ep) ~= 0 then ep = 1 end
      -- name, degree, stride, and the coordinates that the ranks of a group share
      local kinds = {
        { "tp", tp, 1, function(r) return r // tp end },
        { "cp", cp, tp, function(r) return ("%d %d"):format(r % tp, r // (tp * cp)) end },
        { "data", cp * dp, tp, function(r) return ("%d %d"):format(r % tp, r // block) end },
        { "ep", ep, etp, function(r) return ("%d %d"):format(r % etp, r // (etp * ep)) end },
        { "expert data", block // (etp * ep), etp * ep,
          function(r) return ("%d %d"):format(r % (etp * ep), r // block) end },
      }
      for _, kind in ipairs(kinds) do
        local name, degree, stride, shared = table.unpack(kind)
        local nodes, inside = step_core.group(degree, stride, gpus, world)
        local wanted, fewest = count(world, gpus, shared)
        local text = ("%s: tp %d cp %d dp %d pp %d ep %d etp %d on %d"):format(name, tp, cp, dp, pp, ep, etp, gpus)
        assert.equal(wanted, nodes, text)
        assert.equal(fewest or degree, inside, text)
      end
    end
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

  it("of six and twelve tensor ranks cross the network", function()
    local bandwidth = 50e9 -- a card of dgx_h100
    for _, tp in ipairs { 6, 12 } do
      local e = run("dgx_h100", { tp = tp, dp = 4 })
      local bytes = 2.0 * 2048 * 3072 * 2 * (tp - 1) / tp -- of one all-reduce
      local cards = tp == 6 and 2 or 4
      local wanted = 8 * (24 * 4 + 1) * bytes / (cards * bandwidth)
      assert.is_true(line(e, "all_reduce", "tp").seconds >= 0.99 * wanted, "tp " .. tp)
    end
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
