--- Clusters with more than two tiers: refusals, and times against formulas by hand.
local cluster_module = require "ett.profile.cluster"
local collectives = require "ett.profile.network.collectives"
local estimate = require "ett.step.estimate"
local find = require "ett.base.find"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local raised = require "raised"
local random_plans = require "random_plans"
local rank_map = require "rank_map"
local step_core = require "ett.step"

local base, big = 8.4e-6, 1e11 -- seconds of starting a collective; bytes beside which latencies vanish

local function pods(changes, more)
  local tiers = {
    { name = "node", size = 8, bandwidth = 400e9, latency = 1e-6, source = "spec" },
    { name = "leaf", size = 32, bandwidth = 50e9, latency = 1e-5, source = "spec" },
    { name = "spine", bandwidth = 50e9, oversubscription = 2, latency = 2e-5, source = "spec" },
  }
  for k, fields in pairs(changes or {}) do
    for name, value in pairs(fields) do tiers[k][name] = value end
  end
  local c = merged({ name = "pods", summary = "three tiers", source = "spec", device = "gaudi2", tiers = tiers }, more)
  return cluster_module.get(c)
end

--- Where a group of a layout lies on a cluster.
local function place(cluster, group, layout)
  local c = cluster_module.placement(cluster)
  c.rank_order = require("ett.plan.ranks").code(layout.order or "tp-cp-ep-dp-pp")
  for _, name in ipairs { "tp", "cp", "ep", "dp", "pp" } do c[name] = layout[name] or 1 end
  c.etp = layout.etp or c.tp
  return step_core.place(c, group)
end

local function seconds(cluster, kind, bytes, group, layout)
  return collectives.time(cluster, kind, bytes, place(cluster, group, layout)).seconds
end

local function near(wanted, got) assert.near(wanted, got, 2e-3 * wanted) end

describe("groups that do not fill the nodes evenly", function()
  it("take a time on every bundled cluster", function()
    for _, name in ipairs(cluster_module.names()) do
      local cluster = cluster_module.get(name)
      for _, case in ipairs { { "tp", { tp = 12, dp = 2 } }, { "dp", { pp = 8, dp = 3 } }, { "dp", { tp = 3, dp = 7 } },
        { "data", { tp = 5, cp = 2, dp = 3 } } } do
        for _, kind in ipairs(require("ett.comm").kinds()) do
          local taken = cluster.parts and 1 or seconds(cluster, kind, 1e8, case[1], case[2])
          assert.is_true(taken > 0 and taken < 60, ("%s %s %s: %g"):format(name, kind, case[1], taken))
        end
      end
    end
  end)
end)

describe("a cluster of tiers", function()
  it("with the two tiers of `links` gives the same digits", function()
    local pick = random_plans.generator(3)
    for _ = 1, 300 do
      local size, node, card = pick { 2, 4, 8 }, pick { 2e11, 4e11, 3e10 }, pick { 1e10, 5e10 }
      local unit, up, flag = card * pick { 1, 2, size }, pick { nil, 3e10, 4e9 }, pick { true, false }
      local short = { name = "s", gpus_per_node = size, links = { intra = { bandwidth = node },
        inter = { bandwidth_per_gpu = card, bandwidth_per_node = unit, send_bandwidth = up, hierarchical = flag } } }
      local long = cluster_module.get { name = "s", summary = "x", source = "x", device = "v100", tiers = {
        { name = "node", size = size, bandwidth = node, source = "x" },
        { name = "network", bandwidth = card, unit_bandwidth = unit, send_bandwidth = up, hierarchical = flag,
          source = "x" } } }
      local kind, bytes = pick(require("ett.comm").kinds()), pick { 1e3, 1e6, 1e9 }
      local topology = { nodes = pick { 1, 2, 5, 16 }, gpus_per_node = pick { 1, size, size // 2 } }
      assert.equal(collectives.time(short, kind, bytes, topology).seconds,
        collectives.time(long, kind, bytes, topology).seconds, kind)
    end
  end)

  it("gives a group its share of a leaf's uplinks", function()
    local c = pods(nil, { collectives = { all_reduce = "ring" } })
    -- 32 rings of one rank a leaf: 32 cards of 50 GB/s leave it, oversubscribed twice.
    near(big * 2 * 3 / 4 / (32 * 50e9 / 2 / 32), seconds(c, "all_reduce", big, "data", { tp = 32, dp = 4 }))
    -- Eight rings of 16 nodes, four a leaf: each leaves its leaf once, where its share is 100 GB/s. Its card has 50.
    near(big * 2 * 15 / 16 / 50e9, seconds(c, "all_reduce", big, "data", { tp = 8, dp = 16 }))
    -- Inside one leaf: each ring has a card.
    near(big * 2 * 3 / 4 / 50e9, seconds(c, "all_reduce", big, "data", { tp = 8, dp = 4 }))
    -- One ring over whole nodes: 8 cards a node, 16 of a leaf's 32.
    near(big * 2 * 127 / 128 / 400e9, seconds(c, "all_reduce", big, "data", { dp = 128 }))
    -- All-to-all: what leaves the leaf, 96 of 128 peers, through 800 GB/s for 32 ranks.
    near(big * 96 / 128 / (800e9 / 32), seconds(c, "all_to_all", big, "ep", { dp = 128, ep = 128, etp = 1 }))
  end)

  it("shares a card between the groups that use it at once", function()
    for rails, share in pairs { [1] = 1 / 8, [2] = 1 / 4, [4] = 1 / 2, [8] = 1, [16] = 2 } do
      local c = pods({ [2] = { rails = rails, bandwidth = 50e9 }, [3] = { bandwidth = 1e12, oversubscription = 1 } })
      near(big * 2 * 3 / 4 / (share * 50e9), seconds(c, "all_reduce", big, "data", { tp = 8, dp = 4 }))
    end
    -- Sends: the last two ranks of a node leave it, both by its second card.
    local c = pods({ [2] = { rails = 2 } })
    near(big / 25e9, seconds(c, "send_recv", big, "pp", { tp = 2, pp = 8 }))
    near(big / 50e9, seconds(c, "send_recv", big, "pp", { tp = 1, pp = 16 }))
    near(big / 12.5e9, seconds(c, "send_recv", big, "pp", { tp = 8, pp = 4 }))
  end)

  it("leaves a rack by the cards of its nodes", function()
    local function racks(node, rack, spine)
      return cluster_module.get { name = "racks", summary = "x", source = "x", device = "h100_sxm", tiers = {
        { name = "node", size = 4, bandwidth = 400e9, latency = 0, source = "x" },
        { name = "rack", size = 32, bandwidth = 50e9, rails = node, through = rack, latency = 0, source = "x" },
        { name = "spine", bandwidth = 50e9, rails = spine, oversubscription = 3, latency = 0, source = "x" } } }
    end
    -- Two cards a node: 16 leave a rack, oversubscribed three times, and 32 devices send at once.
    near(big / (16 * 50e9 / 3 / 32), seconds(racks(2), "send_recv", big, "pp", { tp = 4, dp = 8, pp = 2 }))
    near(big * 32 / 64 / (16 * 50e9 / 3 / 32),
      seconds(racks(2), "all_to_all", big, "ep", { dp = 64, ep = 64, etp = 1 }))
    -- Two cards a device: 64 leave it. Stated cards of the spine count, and a rack with links of its own has none.
    near(big / (64 * 50e9 / 3 / 32), seconds(racks(8), "send_recv", big, "pp", { tp = 4, dp = 8, pp = 2 }))
    near(big / (32 * 50e9 / 3 / 32), seconds(racks(2, nil, 32), "send_recv", big, "pp", { tp = 4, dp = 8, pp = 2 }))
    near(big / (32 * 50e9 / 3 / 32), seconds(racks(2, false), "send_recv", big, "pp", { tp = 4, dp = 8, pp = 2 }))
  end)

  it("counts groups inside a unit with separate links (through = false)", function()
    local function racks(node, rack)
      return cluster_module.get { name = "racks", summary = "x", source = "x", device = "h100_sxm", tiers = {
        { name = "node", size = node, bandwidth = 400e9, latency = 0, source = "x" },
        { name = "rack", size = rack, bandwidth = 1e9, rails = 1, through = false, latency = 0, source = "x" },
        { name = "spine", bandwidth = 100e9, latency = 0, source = "x" } } }
    end
    -- Ranks 0 and 3 are in one rack, 1 and 4 in two.
    assert.is_true(seconds(racks(2, 4), "all_reduce", big, "data", { tp = 3, dp = 2, pp = 2 }) >= big / 1e9)
    -- Six ranks are in the first rack. Of the others two are there, too, on one node.
    near(big * 2 * 4 / 6 / 1e9, seconds(racks(2, 8), "all_to_all", big, "ep", { dp = 12, ep = 6 }))
  end)

  it("follows the order of ranks", function()
    local c = pods(nil, { collectives = { all_reduce = "ring" } })
    -- Reversed: replicas inside a node, tensor ranks across nodes.
    near(big * 2 * 7 / 8 / 400e9,
      seconds(c, "all_reduce", big, "data", { tp = 4, dp = 8, order = "dp-tp-cp-ep-pp" }))
    near(big * 2 * 3 / 4 / 50e9, seconds(c, "all_reduce", big, "tp", { tp = 4, dp = 8, order = "dp-tp-cp-ep-pp" }))
    -- Stages inside a node: sends do not leave it.
    near(big / 400e9, seconds(c, "send_recv", big, "pp", { pp = 8, dp = 8, order = "pp-tp-cp-ep-dp" }))
  end)

  it("uses a measured curve if a group is alone in its unit", function()
    local c = pods({ [2] = { curves = { [16] = { 1e6, 1e10, 1e9, 4e10 } } } })
    local two = collectives.time(c, "all_reduce", 1e9, place(c, "data", { dp = 16 }))
    assert.is_true(two.measured)
    assert.near(1e9 * 2 * 15 / 16 / 4e10, two.seconds, 1e-12)
    -- Eight rings beside each other were not measured, nor were groups beyond the leaf.
    assert.is_false(collectives.time(c, "all_reduce", 1e9, place(c, "data", { tp = 8, dp = 4 })).measured)
    assert.is_false(collectives.time(c, "all_reduce", 1e9, place(c, "data", { dp = 64 })).measured)
  end)

  it("counts the steps of each tier", function()
    local c = pods(nil, { collectives = { all_gather = "ring", all_reduce = "hierarchical" } })
    -- 64 ranks on 8 nodes of 2 leaves: a cycle has 2 hops between leaves, 6 between nodes of a leaf, the rest inside. A
    -- gather leaves out one of the outermost.
    local round = base + (63 - 7) * 1e-6 + 6 * 1e-5 + 2e-5
    assert.near(round, seconds(c, "all_gather", 1e-3, "data", { dp = 64 }), 1e-12)
    -- Tier by tier: 7 steps in a node, 3 in a leaf, 1 above, and back.
    assert.near(base + 2 * (7 * 1e-6 + 3 * 1e-5 + 2e-5), seconds(c, "all_reduce", 1e-3, "data", { dp = 64 }), 1e-12)
    local bytes = 8e9
    assert.near(base + 2 * (7e-6 + bytes * 7 / 8 / 400e9 + 3e-5 + bytes / 8 * 3 / 4 / 50e9
      + 2e-5 + bytes / 32 / 2 / 25e9), seconds(c, "all_reduce", bytes, "data", { dp = 64 }), 1e-9)
  end)

  it("times small messages over two tiers inside a node as inside a node", function()
    local function nodes(inner)
      local tiers = { { name = "node", size = 8, bandwidth = 4e11, source = "spec" },
        { name = "network", bandwidth = 5e10, source = "spec" } }
      if inner then table.insert(tiers, 1, { name = "pair", size = 2, bandwidth = 4e11, source = "spec" }) end
      return cluster_module.get { name = "nodes", summary = "s", source = "spec", device = "v100", gpus_per_node = 8,
        tiers = tiers }
    end
    for kind, us in pairs { all_gather = 6.6 + 7 * 0.6, all_reduce = 6.6 + 14 * 0.6 } do -- LL of NCCL's tuner
      for _, c in ipairs { nodes(false), nodes(true) } do
        assert.near(1e-6 * us, seconds(c, kind, 1e-3, "tp", { tp = 8 }), 1e-12, kind)
      end
    end
  end)

  it("places a number of nodes as neighbouring nodes of the rank map", function()
    local halves = { { name = "half", size = 4, bandwidth = 400e9, latency = 1e-6, source = "spec" }, { name = "node",
      size = 8, bandwidth = 200e9, latency = 2e-6, source = "spec" }, { name = "network", bandwidth = 50e9,
      latency = 1e-5, source = "spec" } }
    for _, rails in ipairs { 8, 2, 1, "halves" } do
      local c = rails == "halves" and pods(nil, { tiers = halves, gpus_per_node = 8 })
        or pods({ [2] = { rails = rails } })
      for _, kind in ipairs(require("ett.comm").kinds()) do
        for _, nodes in ipairs { 1, 2, 4, 8, 16 } do
          for _, inside in ipairs { 1, 2, 4, 8 } do
            if kind ~= "send_recv" and nodes * inside > 1 then
              local counted = collectives.time(c, kind, 1e8, { nodes = nodes, gpus_per_node = inside }).seconds
              local placed = seconds(c, kind, 1e8, "data", { tp = 8 // inside, dp = nodes * inside })
              assert.equal(placed, counted, ("%s %dx%d, %s rails"):format(kind, nodes, inside, rails))
            end
          end
        end
      end
    end
  end)

  it("keeps nodes in their leaves when a plan has smaller nodes", function()
    local c = pods()
    c.gpus_per_node = 4
    assert.equal(2, place(c, "data", { dp = 32 }).tiers[2].units) -- leaves of four nodes are 16 devices now
  end)

  it("refuses groups beyond its last tier", function()
    local c = pods({ [3] = { size = 64 } })
    local model = random_plans.llama(8)
    assert.matches("the plan needs 128 devices, pods has 64", raised(estimate.new, { model = model, cluster = c,
      plan = { seq = 1024, dp = 128, micro_batches = 1 } }), 1, true)
    assert.matches("a group of 128 ranks is larger than the last tier of cluster pods", raised(collectives.time, c,
      "all_reduce", 1e6, { nodes = 16, gpus_per_node = 8 }), 1, true)
  end)
end)

local function box(axes, changes)
  return cluster_module.get(merged({ name = "box", summary = "a torus", source = "spec", gpus_per_node = 64,
    device = "tpu_v5p", links = { intra = { bandwidth = 540e9, latency = 0, torus = axes, source = "spec" }, inter = {
    bandwidth_per_gpu = 1e12, bandwidth_per_node = 64e12, source = "spec" } } }, changes))
end

describe("a group on a torus", function()
  -- Positions of devices on one axis, without repetition, ascending.
  local function positions(devices, at, length)
    local seen, list = {}, {}
    for _, device in ipairs(devices) do
      local x = device % 64 // at % length
      if not seen[x] then list[#list + 1] = x end
      seen[x] = true
    end
    table.sort(list)
    return list
  end

  -- The slice of a torus of three axes at most: of all slices of this many devices, the one of least lengths in sum,
  -- and of these the one with the longest first axes.
  local function slice(axes, devices)
    if devices >= 64 then return axes end
    local best
    for a = 1, axes[1] do
      for b = 1, axes[2] or 1 do
        for c = 1, axes[3] or 1 do
          local this = { a, b, c, key = 1e6 * (a + b + c) - 1e3 * a - b }
          if a * b * c == devices and (not best or this.key < best.key) then best = this end
        end
      end
    end
    return best and table.move(best, 1, #axes, 1, {}) or axes
  end

  it("lies on the axes that its ranks reach: 200 random layouts, rank by rank", function()
    local pick, tried = random_plans.generator(7), 0
    local orders = { "tp-cp-ep-dp-pp", "dp-tp-cp-ep-pp", "pp-dp-tp-cp-ep", "cp-tp-ep-dp-pp" }
    for _ = 1, 200 do
      local axes = pick { { 2, 4, 8 }, { 8, 4, 2 }, { 4, 4, 4 }, { 16, 4 }, { 64 } }
      local order, p = pick(orders), { tp = pick { 1, 2, 4, 8 }, cp = pick { 1, 2, 4 }, dp = pick { 2, 4, 8, 16 },
        pp = pick { 1, 2 }, ep = 1 }
      p.etp, p.rank_order = p.tp, order
      for _, name in ipairs { "tp", "cp", "dp", "data" } do
        local own = place(box(axes), name, { tp = p.tp, cp = p.cp, dp = p.dp, pp = p.pp, order = order }).tiers[1]
        local at = 1
        for j, length in ipairs(slice(axes, p.tp * p.cp * p.dp * p.pp)) do
          for _, devices in ipairs(rank_map.members(p, nil, name)) do
            local first = {}
            for _, device in ipairs(devices) do
              if device // 64 == devices[1] // 64 then first[#first + 1] = device end
            end
            local list = positions(first, at, length)
            assert.equal(#list, own.along[j], ("%s of %s on axis %d"):format(name, order, j))
            for i = 2, name == "data" and 1 or #list do assert.equal(own.apart[j], list[i] - list[i - 1]) end
          end
          at, tried = at * length, tried + 1
        end
      end
    end
    assert.is_true(tried > 1000)
  end)

  it("that is no block lies in the box of its ranks: 300 random maps and degrees, rank by rank", function()
    local pick, other = random_plans.generator(8), 0
    for _ = 1, 300 do
      local axes, order = pick { { 2, 4, 8 }, { 4, 4, 4 }, { 16, 4 } }, pick { "tp-cp-ep-dp-pp", "dp-tp-cp-ep-pp" }
      local p = { tp = pick { 2, 3, 4, 6, 12 }, cp = pick { 1, 2, 5 }, dp = pick { 2, 3, 8 }, pp = 1, ep = 1 }
      local world, map = p.tp * p.cp * p.dp, nil
      if pick { true, false } then
        map = {}
        for i = 1, world do map[i] = i - 1 end
        for i = world, 2, -1 do
          local j = pick { 1, i // 2 + 1, i }
          map[i], map[j] = map[j], map[i]
        end
      end
      p.etp, p.rank_order = p.tp, order
      local given = cluster_module.placement(box(axes))
      for name, degree in pairs(p) do given[name] = degree end
      given.rank_order, given.rank_map = require("ett.plan.ranks").code(order), map and step_core.map(map)
      local own, lengths = step_core.place(given, "tp").tiers[1], slice(axes, world)
      local worst, longest = 0.0, 0
      for _, devices in ipairs(rank_map.members(p, map, "tp")) do
        local parts = {}
        for _, device in ipairs(devices) do
          parts[device // 64] = parts[device // 64] or {}
          table.insert(parts[device // 64], device)
        end
        for _, part in pairs(parts) do
          local at, count, length = 1, 1, 0
          for _, of_axis in ipairs(lengths) do
            local list, gap = positions(part, at, of_axis), nil
            for i = 2, #list do gap = math.min(gap or 64, list[i] - list[i - 1]) end
            count = count * ((list[#list] - list[1]) // (gap or 1) + 1)
            length, at = length + list[#list] - list[1], at * of_axis
          end
          if count / #part > worst then worst, longest = count / #part, 0 end
          if count / #part == worst then longest = math.max(longest, length) end
        end
      end
      local count, length = 1, 0
      for j, along in ipairs(own.along) do
        count, length = count * along, length + (along - 1) * own.apart[j]
      end
      assert.near(worst, count / own.placed, 1e-12)
      assert.equal(longest, length)
      assert.equal(world < 64, own.slice == 1)
      other = other + (worst > 1 and 1 or 0)
    end
    assert.is_true(other > 50 and other < 250, other)
  end)

  it("of a rank map uses the links of the axes on which its ranks are", function()
    local function links(map)
      local c = box { 2, 4, 8 }
      local given = cluster_module.placement(c)
      for name, degree in pairs { tp = 8, cp = 1, ep = 1, dp = 8, pp = 1, etp = 8 } do given[name] = degree end
      given.rank_order, given.rank_map = require("ett.plan.ranks").code "tp-cp-ep-dp-pp", step_core.map(map)
      return big * 2 * 7 / 8 / collectives.time(c, "all_reduce", big, step_core.place(given, "tp")).seconds / 90e9
    end
    local as_is, turned, apart = {}, {}, {}
    for rank = 0, 63 do
      as_is[rank + 1] = rank
      turned[rank + 1] = rank % 8 * 8 + rank // 8 -- the axis of 8
      -- An axis of 4 here, and another up to 7 steps away on the axis of 8, with those of other groups between.
      apart[rank + 1] = rank % 4 * 2 + rank // 32 + (rank // 4 % 2 == 0 and rank // 8 % 4 or 7 - rank // 8 % 4) * 8
    end
    near(1 + 2, links(as_is))
    near(2, links(turned))
    near(2 + 1 / 7, links(apart))
  end)

  it("of a part of a torus has no rings where switches close those of whole tori", function()
    local function links(on, group, layout)
      return big * 2 * 3 / 4 / seconds(on, "all_reduce", big, group, layout) / 90e9
    end
    local whole = { links = { intra = { bandwidth = 540e9, latency = 0, torus = { 4, 4, 4 }, whole_rings = true,
      source = "spec" } } }
    local cube, wired = box({ 4, 4, 4 }, whole), box { 4, 4, 4 }
    near(2, links(cube, "tp", { tp = 4, dp = 16 })) -- the whole cube
    near(1, links(cube, "tp", { tp = 4, dp = 4 })) -- 4 x 2 x 2
    near(2, links(wired, "tp", { tp = 4, dp = 4 }))
    near(1 + 1, links(cube, "tp", { tp = 4 })) -- 2 x 2
    -- jax-ml/scaling-book, tpus.md: 2x2x4 of TPU v4 and v5p has no wrap-around links. 8x16 of v5e has some on the axis
    -- of 16.
    for name, links_of_axis in pairs { tpu_v4 = 1, tpu_v5p = 1, tpu_v7x = 1, tpu_v5e = 2 } do
      local c = cluster_module.get(name)
      local n, axes = name == "tpu_v5e" and 16 or 4, #c.links.intra.torus
      local rate = c.links.intra.bandwidth / (2 * axes)
      near(links_of_axis, big * 2 * (n - 1) / n / seconds(c, "all_reduce", big, "tp", { tp = n,
        dp = n == 16 and 8 or 4 }) / rate)
    end
  end)

  it("over cubes uses the axes that they fill", function()
    -- Cubes of 64 chips with 16 links of 90 GB/s on each face, on slices of docs.cloud.google.com/tpu/docs/v5p: 2 are
    -- 4x4x8, 4 are 4x8x8, 8 are 8x8x8, 16 are 8x8x16, 96 are 16x16x24.
    local c, link = cluster_module.get "tpu_v5p", 90e9
    local function time(kind, nodes, chips)
      return collectives.time(c, kind, big, { nodes = nodes, gpus_per_node = chips }).seconds
    end
    for nodes, axes in pairs { [2] = 1, [3] = 1, [4] = 2, [6] = 2, [8] = 3, [16] = 3 } do
      near(big * (nodes - 1) / nodes / (axes * 2 * 16 * link / 64), time("all_gather", nodes, 1))
    end
    near(big / (16 * link / 64), time("send_recv", 2, 1)) -- every chip sends through one face
    for nodes, longest in pairs { [2] = 8, [3] = 12, [4] = 8, [8] = 8, [16] = 16, [96] = 24 } do
      near(big * longest / 8 / link, time("all_to_all", nodes, 64)) -- load of a link of the longest axis
    end
    for _, name in ipairs { "tpu_v4", "tpu_v5p", "tpu_v7x" } do
      c = cluster_module.get(name)
      for _, kind in ipairs { "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv" } do
        for _, n in ipairs(kind == "send_recv" and { 2 } or { 2, 4, 8 }) do
          assert.is_true(time(kind, 1, n) <= time(kind, n, 1), name .. " " .. kind)
        end
      end
    end
  end)

  it("has no place on axes that are too many or too long, and none of length 0", function()
    local function along(axes, dp)
      local size = dp and 256 or 64
      return step_core.place({ gpus_per_node = size, tiers = { size, 1 }, torus = axes, pp = 1, tp = 8, cp = 1, ep = 1,
        etp = 8, dp = dp or 8, rank_order = require("ett.plan.ranks").code "tp-cp-ep-dp-pp" }, "tp").tiers[1].along
    end
    assert.same({ 2, 4, 1 }, along { 2, 4, 8 })
    assert.same({ 4, 2 }, along({ 16, 16 }, 1)) -- eight devices
    assert.is_nil(along { 2, 2, 2, 2, 4 })
    assert.is_nil(along { 1 << 40 })
    assert.error_matches(function() along { 4, 0, 16 } end, "field 'torus' must hold positive integers")
  end)

  it("uses the links of its own axes, and shares those of interleaved groups", function()
    local function links(axes, group, layout)
      return big * 2 * 7 / 8 / seconds(box(axes), "all_reduce", big, group, layout) / 90e9
    end
    near(1 + 2, links({ 2, 4, 8 }, "tp", { tp = 8, dp = 8 })) -- axes of 2 and 4
    near(2, links({ 2, 4, 8 }, "data", { tp = 8, dp = 8 })) -- the axis of 8
    near(2, links({ 8, 4, 2 }, "tp", { tp = 8, dp = 8 }))
    near(2 + 1, links({ 8, 4, 2 }, "data", { tp = 8, dp = 8 }))
    local line = box({ 64 }, { links = { intra = { bandwidth = 180e9, torus = { 64 }, source = "spec" } } })
    near(big * 2 * 7 / 8 / (2 / 8 * 90e9), seconds(line, "all_reduce", big, "data", { tp = 8, dp = 8 }))
    assert.near(5e-6 + 2 * 32e-6, seconds(line, "all_reduce", 1, "data", { tp = 8, dp = 8 }), 1e-9)
    -- Each message passes 8 links a hop of its group, which has an eighth of the load of each.
    near(big * 64 / 8 / 90e9, seconds(line, "all_to_all", big, "ep", { tp = 8, dp = 8, ep = 8, etp = 8 }))
  end)
end)

--- Bytes that groups move out of all units together, at least: of kind -> function(buffer, units, ranks, ranks inside).
local least_bytes = {
  all_reduce = function(b, u) return 2 * b * (u - 1) end,
  all_gather = function(b, u) return b * (u - 1) end,
  reduce_scatter = function(b, u) return b * (u - 1) end,
  broadcast = function(b, u) return b * (u - 1) end,
}

--- Seconds that the links of a tier need for all groups at once, on average over its units.
local function needed(kind, lists, below, tier, bytes, in_switch)
  local total, units = 0.0, {}
  for _, list in ipairs(lists) do
    local own, count = {}, 0
    for _, device in ipairs(list) do
      local unit = device // below
      count = count + (own[unit] and 0 or 1)
      own[unit], units[unit] = (own[unit] or 0) + 1, true
    end
    if kind == "all_to_all" then
      for _, members in pairs(own) do total = total + members * bytes * (#list - members) / #list end
    else
      total = total + (in_switch and 1 / 2 or 1) * least_bytes[kind](bytes, count)
    end
  end
  local count = 0
  for _ in pairs(units) do count = count + 1 end
  local cards = tier.rails or below
  return total / (count * cards * tier.bandwidth / tier.oversubscription)
end

describe("every model of communication", function()
  it("is at least the transfer time of all concurrent groups: 300 random layouts, two to four tiers", function()
    local pick, ranks, tried = random_plans.generator(11), require "ett.plan.ranks", 0
    for _ = 1, 300 do
      local p, sizes, cards = rank_map.random(pick, false)
      local tiers = {}
      for k, size in ipairs(sizes) do
        local below = k > 1 and sizes[k - 1] or 1
        tiers[k] = { name = "t" .. k, size = size < math.maxinteger and size or nil, rails = below // cards[k],
          bandwidth = pick { 1e9, 1e10, 1e11 }, oversubscription = k > 1 and pick { 1, 2, 4 } or 1, latency = 0,
          reduces = pick { true, false }, source = "spec", hierarchical = pick { true, false } }
      end
      if sizes[1] == 1 then tiers[1].size = nil end
      local name, kind = pick { "data", "tp", "expert data" }, pick { "all_reduce", "all_gather", "reduce_scatter",
        "broadcast", "all_to_all" }
      local lists = rank_map.members(p, nil, name)
      local c = sizes[1] > 1 and cluster_module.get { name = "random", summary = "s", source = "s",
        device = "h100_sxm", tiers = tiers }
      local given = c and cluster_module.placement(c)
      for axis, degree in pairs(p) do if c then given[axis] = degree end end
      if c then given.rank_order = ranks.code(p.rank_order) end
      local ok, topology = pcall(step_core.place, given, name)
      for _, entry in ipairs(ok and #lists[1] > 1 and find.list "lua/collectives" or {}) do
        local model = collectives.load(entry.name)
        c.collectives = { [kind] = { entry.name } }
        local served, answer = pcall(collectives.time, c, kind, big, topology)
        assert.is_true(served or entry.name == "in_switch" or entry.name == "all_pairs", tostring(answer))
        if model.serves[kind] and served then
          tried = tried + 1
          for k, tier in ipairs(tiers) do
            local least = needed(kind, lists, k > 1 and sizes[k - 1] or 1, tier, big, entry.name == "in_switch")
            local inner = k == 1 and c.node_tier == 1 -- links of its own: only what stays on the node
            assert.is_true(inner or answer.seconds >= least * (1 - 1e-9),
              ("%s of %s over %s by %s: tier %d needs %.4g s, it takes %.4g"):format(kind, name, p.rank_order,
                entry.name, k, least, answer.seconds))
          end
        end
      end
    end
    assert.is_true(tried > 300, tried)
  end)
end)

describe("models of communication", function()
  it("in switches move each buffer once per direction", function()
    local reduces = { reduces = true, bandwidth = { send = 100e9, receive = 300e9 } }
    local c = pods({ reduces })
    local function at(kind) return collectives.time(c, kind, big, place(c, "tp", { tp = 8 })) end
    assert.equal("in_switch", at("all_reduce").model)
    near(big / 100e9, at("all_reduce").seconds)
    near(big * 7 / 8 / 100e9, at("reduce_scatter").seconds)
    assert.equal("in_switch", at("all_gather").model)
    near(math.max(big / 8 / 100e9, big * 7 / 8 / 300e9), at("all_gather").seconds)
    -- Nodes whose network does not reduce: the ring and the tree are left.
    assert.is_true(collectives.time(c, "all_reduce", big, place(c, "data", { dp = 16 })).model ~= "in_switch")
  end)

  it("regroup an all-to-all by node if messages cost more than bytes", function()
    local slow = { { message_latency = 1e-6 }, { message_latency = 1e-5 }, { message_latency = 1e-5 } }
    local function at(bytes, model)
      local c = pods(slow, { collectives = { all_to_all = model } })
      return collectives.time(c, "all_to_all", bytes, place(c, "ep", { dp = 32, ep = 32, etp = 1 }))
    end
    assert.equal("by_node", at(1e3, { "pairwise", "by_node" }).model)
    assert.equal("pairwise", at(1e10, { "pairwise", "by_node" }).model)
    -- 7 messages in the node and 24 out of it, against 7 and 3
    assert.near(base + 1e-5 + 7e-6 + 24e-5, at(1e-3, "pairwise").seconds, 1e-12)
    assert.near(base + 1e-6 + 1e-5 + 7e-6 + 3e-5, at(1e-3, "by_node").seconds, 1e-12)
  end)

  describe("of a user", function()
    local folder

    local function write(name, body)
      require("ett.base.folder").write(("%s/lua/collectives/%s.lua"):format(folder, name), body)
      find.set_folders { folder } -- found anew
    end
    local function own(seconds_body, kinds)
      write("own", ("return { name = 'own', summary = 's', kinds = %s,\nseconds = function(r) %s end }"):format(
        kinds or "{ 'all_reduce' }", seconds_body))
      local c = pods(nil, { collectives = "own" })
      return collectives.time(c, "all_reduce", 1e6, place(c, "data", { tp = 8, dp = 16 }))
    end

    before_each(function()
      folder = os.tmpname()
      os.remove(folder)
      assert(os.execute(("mkdir -p %s/lua/collectives"):format(folder)))
    end)
    after_each(function()
      find.set_folders(nil)
      os.execute("rm -r " .. folder)
    end)

    it("are used if a cluster names them, and get its tiers", function()
      local answer = own "return r.ranks + r.tiers[2].members + r.tiers[3].below / 1000, 7e9"
      assert.equal("own", answer.model)
      assert.near(16 + 1 + 4 / 1000, answer.seconds, 1e-12) -- 16 ranks, one a node, on four leaves
      assert.equal(7e9, answer.bus_bandwidth)
      answer = own [[
        local n, fields = 0, 0
        for i, tier in ipairs(r.tiers) do n = n + (tier == r.tiers[i] and 1 or 0) end
        for _ in pairs(r) do fields = fields + 1 end
        return #r.tiers * 100 + n * 10 + (fields > 5 and 1 or 0)]]
      assert.equal(331, answer.seconds)
      local c = pods(nil, { collectives = { all_reduce = { "ring", "own" } } })
      assert.equal("ring", collectives.time(c, "all_reduce", 1e6, place(c, "data", { tp = 8, dp = 16 })).model)
      local e = estimate.new { model = random_plans.llama(8), cluster = pods(nil, { collectives = "own" }),
        plan = { seq = 1024, dp = 16, tp = 2, micro_batches = 1 } }
      for _, line in ipairs(e.collectives) do assert.same({ "own" }, line.models, line.name) end
      assert.matches("all_reduce %(dp%)[^\n]*assumed %(own, links of leaf%)", tostring(e))
    end)

    it("may be timers, made once per placement", function()
      local function timed(body)
        write("own", ("return { name = 'own', summary = 's', kinds = { 'all_reduce' }, timer = function(r)\n%s end }")
          :format(body))
        local c = pods(nil, { collectives = "own" })
        local time = collectives.timer(c, "all_reduce", place(c, "data", { tp = 8, dp = 16 }))
        return (time(1)), (time(2))
      end
      assert.same({ 4.0, 5.0 }, { timed "return { start = 3, { moved = 2, bandwidth = 4 }, { bandwidth = 1 } }" })
      assert.same({ 101.0, 204.0 }, { timed "local n = 100; return function() n = n + 1; return n * r.bytes end" })
      for body, wanted in pairs {
        ["return nil"] = "no model of all_reduce supports a group of 16 ranks: own",
        ["return 3"] = "own.lua:1: collective 'own': timer must return a function, a law, or nil, got 3",
        ["return { start = -1, { bandwidth = 1 } }"]
          = "own.lua:1: collective 'own': law: field 'start' must be a number of at least 0, got -1",
        ["return { start = 1 }"] = "own.lua:1: collective 'own': law: has no stream",
        ["return { { moved = 1 } }"] = "law: stream 1: missing field 'bandwidth' (bytes/s), or 'curve'",
        ["return { setmetatable({}, { __index = { bandwidth = 1 } }) }"]
          = "law: stream 1: must be a table without a metatable",
        ["return setmetatable({ { bandwidth = 1 } }, { __index = { start = 1 } })"]
          = "law: must be a table without a metatable",
        ["return { { bandwith = 1 } }"]
          = "own.lua:1: collective 'own': law: stream 1: unknown field 'bandwith'; did you mean 'bandwidth'?",
        ["return { { bandwidth = 1, curve = 3 } }"] = "law: stream 1: field 'curve' must be a list, got 3",
        ["return { { bandwidth = 0 } }"] = "collective 'own': law: a stream needs 'moved' of at least 0 and a positive",
        ["return function() return -1 end"] = "own.lua:1: collective 'own': seconds must return a number of at least 0",
        ["return function() return r.tears[1] end"] = "own.lua:2: attempt to index a nil value",
      } do
        assert.matches(wanted, raised(timed, body), 1, true)
      end
      for fields, wanted in pairs { ["kinds = { 'all_reduce' }"] = "give either 'seconds' or 'timer'",
        ["kinds = { 'all_reduce' }, seconds = print, timer = print"] = "give either 'seconds' or 'timer'",
        ["kinds = {}, seconds = print"] = "field 'kinds' is empty" } do
        write("own", ("return { name = 'own', summary = 's', %s }"):format(fields))
        assert.matches("own.lua: " .. wanted, raised(pods, nil, { collectives = "own" }), 1, true)
      end
    end)

    it("have the bandwidths and curves that ett's models have", function()
      local file <close> = assert(io.open(find.path("lua/collectives", "ring")))
      write("own", (file:read("a"):gsub('name = "ring"', 'name = "own"')))
      for _, changes in ipairs { {}, { [2] = { curves = { [16] = { 1e6, 1e10, 1e9, 4e10 } } } } } do
        local mine, theirs = pods(changes, { collectives = { all_reduce = "own" } }),
          pods(changes, { collectives = { all_reduce = "ring" } })
        for _, bytes in ipairs { 1e3, 1e7, 1e9 } do
          local at = place(mine, "data", { tp = 2, dp = 16 })
          assert.equal(collectives.time(theirs, "all_reduce", bytes, at).seconds,
            collectives.time(mine, "all_reduce", bytes, at).seconds)
        end
      end
    end)

    it("are calibrated only if they read the cluster's curves", function()
      for body, measured in pairs { ["return 1e-3"] = false, ["return 1e-3 * r.factor"] = false,
        ["return r.bytes / (r.measured or 1e9)"] = true, ["return r.tiers[2].measured and 1e-3 or 2e-3"] = true } do
        write("own", ("return { name = 'own', summary = 's', kinds = { 'all_reduce' }, seconds = function(r) %s end }")
          :format(body))
        local c = pods({ [2] = { curves = { [16] = { 1e6, 1e10, 1e9, 4e10 } } } },
          { collectives = { all_reduce = "own" } })
        local answer = cluster_module.collective(c, "all_reduce", 1e7, { nodes = 2, gpus_per_node = 8 })
        assert.equal(measured and "calibrated" or "assumed", answer.provenance, body)
      end
    end)

    it("are refused for wrong results, with file and line", function()
      local number = "own.lua:2: collective 'own': seconds must return a number of at least 0, or nil, got "
      for body, wanted in pairs {
        ["return 0/0"] = number .. "NaN", ["return -1"] = number .. "-1", ["return 'fast'"] = number .. "'fast'",
        ["return r.tears[1]"] = "own.lua:2: attempt to index a nil value (field 'tears')",
        ["return nil"] = "cluster pods: no model of all_reduce supports a group of 16 ranks: own",
        ["return 1, 'wide'"] = "own.lua:2: collective 'own': the second result of seconds, the bus bandwidth, "
          .. "must be at least 0 or nil, got 'wide'",
        ["x = 1"] = "own.lua:2: assignment to undeclared global 'x'",
        ["r.bytes = 2 * r.bytes return 1"] = "own.lua:2: must not change the request; it sets 'bytes'",
        ["r.tiers[1].bandwidth = 1 return 1"] = "own.lua:2: must not change the request; it sets 'bandwidth'",
        ["r.tiers[2] = nil return 1"] = "own.lua:2: must not change the request; it sets '2'",
      } do
        assert.matches(wanted, raised(own, body), 1, true)
      end
    end)

    it("are refused for kinds that they do not support", function()
      assert.matches("own.lua: kinds: unknown collective 'all_reduces'; did you mean 'all_reduce'?",
        raised(own, "return 1", "{ 'all_reduces' }"), 1, true)
      write("own", "return 3")
      assert.matches("own.lua: must be a table of named fields, got 3",
        raised(pods, nil, { collectives = "own" }), 1, true)
      write("own", "return { name = 'other', summary = 's', kinds = { 'all_reduce' }, seconds = print }")
      assert.matches("own.lua: field 'name' must be 'own' as the file's, got 'other'",
        raised(pods, nil, { collectives = "own" }), 1, true)
      for given, wanted in pairs {
        [{ all_reduce = "rings" }] = "all_reduce: unknown collective 'rings'; did you mean 'ring'?",
        [{ all_reduce = "send" }] = "collectives: the model 'send' does not support all_reduce, only send_recv",
        [{ allreduced = "ring" }] = "collectives: unknown collective 'allreduced'",
        [{ all_reduce = {} }] = "collectives: all_reduce must name a model or a list of them, got a table",
      } do
        assert.matches(wanted, raised(pods, nil, { collectives = given }), 1, true)
      end
    end)
  end)
end)

describe("tiers that are wrong", function()
  it("are refused by tier and field", function()
    for wanted, changes in pairs {
      ["cluster: tiers[2]: size must be a larger multiple of the inner tier's 8 devices, got 12"] =
        { [2] = { size = 12 } },
      ["cluster: tiers[2]: size must be a larger multiple of the inner tier's 8 devices, got 8"] =
        { [2] = { size = 8 } },
      ["cluster: tiers[1]: field 'bandwidth' must be a positive number, got -1"] = { { bandwidth = -1 } },
      ["cluster: tiers[1]: bandwidth: missing field 'receive' (a positive number)"] =
        { { bandwidth = { send = 1e9 } } },
      ["cluster: tiers[2]: unknown field 'rail'; did you mean 'rails'?"] = { [2] = { rail = 2 } },
      ["cluster: tiers[2]: rails = 3 do not divide the 8 devices of an inner unit"] = { [2] = { rails = 3 } },
      ["cluster: tiers[3]: field 'oversubscription' must be at least 1, got 0.5"] =
        { [3] = { oversubscription = 0.5 } },
      ["cluster: tiers[3]: give either 'oversubscription' or 'unit_bandwidth'"] =
        { [3] = { oversubscription = 2, unit_bandwidth = 1e11 } },
      ["cluster: tiers[3]: two tiers are named 'leaf'"] = { [3] = { name = "leaf" } },
      ["cluster: tiers[1]: curves[9]: the key must be at most size = 8"] = { { curves = { [9] = { 1, 2 } } } },
      ["cluster: tiers[1]: curves: unknown cluster 'dgx_h10'"] = { { curves = "dgx_h10" } },
      ["cluster: tiers[1]: curves: cluster 'vista' has no curves of its own"] = { { curves = "vista" } },
    } do
      assert.matches(wanted, raised(pods, changes), 1, true)
    end
  end)

  it("are refused as a list", function()
    local function refused(changes)
      local c = merged({ name = "x", summary = "x", source = "x", device = "h100_sxm" }, changes)
      return raised(cluster_module.get, c)
    end
    local node = { name = "node", size = 8, bandwidth = 1e11, source = "x" }
    assert.matches("cluster: missing field 'links' (a table), or 'tiers' in its place", refused {}, 1, true)
    assert.equal("cluster: links: unknown field 'spine'; networks of more levels state 'tiers'",
      refused { links = { spine = { bandwidth = 1e9 } } })
    assert.matches("cluster: give either 'links' or 'tiers'", refused { tiers = { node }, links = {} }, 1, true)
    assert.matches("cluster: tiers: must be a list of 1 to 8 tiers, got 0", refused { tiers = {} }, 1, true)
    assert.matches("tiers: must be a list of 1 to 8 tiers: a list cannot have the field 'spine'",
      refused { tiers = { spine = node } }, 1, true)
    assert.matches("cluster: tiers[1]: missing field 'size' (only the last tier joins all)",
      refused { tiers = { { name = "node", bandwidth = 1e11, source = "x" }, node } }, 1, true)
    assert.matches("cluster: gpus_per_node = 4 must be the size of a tier",
      refused { tiers = { node }, gpus_per_node = 4 }, 1, true)
    assert.matches("cluster: tiers[1]: missing field 'bandwidth' (a positive number)",
      refused { tiers = { { name = "node", size = 8, source = "x" } } }, 1, true)
  end)

  it("and orders and maps that are wrong are refused by the plan", function()
    local model = model_module.new("mixtral", { layers = 8, hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816,
      vocab = 32000, experts = 8, top_k = 2 })
    for wanted, p in pairs {
      ["field 'rank_order': tp, dp are missing; an order must name every axis with more than one rank, like "
        .. "tp-cp-ep-dp-pp"] = { tp = 2, dp = 2, rank_order = "pp" },
      ["field 'rank_order': unknown axis 'tb'; did you mean 'tp'?"] = { rank_order = "tb-cp-ep-dp-pp" },
      ["field 'rank_order': 'tp' is named twice"] = { rank_order = "tp-tp-ep-dp-pp" },
      ["'rank_map[2]' must be a device from 0 to 3, got 4"] = { dp = 4, rank_map = { 0, 4, 1, 2 } },
      ["field 'rank_map' puts two ranks on device 1; one is rank 2"] = { dp = 4, rank_map = { 0, 1, 1, 2 } },
      ["rank_map must place pp * tp * cp * dp = 8 ranks, got 4"] = { dp = 8, rank_map = { 0, 1, 2, 3 } },
      ["rank_order = tp-cp-ep-pp-dp: the rank order puts neighbouring stages 1 ranks apart in dense layers and 2 in "
        .. "experts; put pp last"] =
        { pp = 2, dp = 4, ep = 2, rank_order = "tp-cp-ep-pp-dp" },
    } do
      p.seq, p.micro_batches = 1024, 4
      assert.matches(wanted, raised(estimate.new, { model = model, cluster = pods(), plan = p }), 1, true)
    end
  end)
end)
