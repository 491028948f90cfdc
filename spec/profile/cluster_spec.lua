local cluster_module = require "ett.profile.cluster"
local collectives = require "ett.profile.network.collectives"
local merged = require "ett.base.merged"
local raised = require "raised"
local tree = require "tree"

describe("bundled clusters", function()
  it("are valid, state sources, and have measured rates below their peaks", function()
    local seen = {}
    for _, name in ipairs(cluster_module.names()) do
      local cluster = cluster_module.get(name)
      seen[name] = true
      assert.equal(name, cluster.name)
      assert.is_true(#cluster.device.source > 10)
      for dtype, flops in pairs(cluster.device.measured_flops or {}) do
        assert.is_true(flops < cluster.device.peak_flops[dtype], name .. " " .. dtype)
      end
    end
    for _, name in ipairs { "perlmutter", "vista", "dgx_a100", "dgx_h100", "dgx_h200", "dgx_b200" } do
      assert.is_true(seen[name], name)
    end
  end)

  it("of TPUs run XLA: no driver's context, and gathers beside computing", function()
    for _, name in ipairs(cluster_module.names()) do
      local cluster = cluster_module.get(name)
      assert.equal(cluster.device.generation == "tpu" and "maxtext" or nil, (cluster.stack or ""):match "^%w+", name)
    end
  end)

  it("of TPUs have a data-centre network of the same rate for a chip and for all chips of a unit", function()
    for _, name in ipairs { "tpu_v3", "tpu_v5e", "tpu_v6e" } do
      local cluster = cluster_module.get(name)
      local network = cluster.links.inter
      local chips = cluster.gpus_per_node * network.bandwidth_per_gpu
      assert.near(network.bandwidth_per_node, chips, 0.01 * chips, name)
    end
  end)

  it("time every collective on unsampled topologies, and mark the times", function()
    for _, name in ipairs { "perlmutter", "dgx_a100", "dgx_h100", "dgx_h200", "dgx_b200" } do
      local cluster = cluster_module.get(name)
      for _, kind in ipairs(require("ett.operator.collective").kinds) do
        local answer = cluster_module.collective(cluster, kind, 1e8,
          { nodes = 16, gpus_per_node = cluster.gpus_per_node })
        assert.equal("assumed", answer.provenance)
        assert.is_true(answer.low_seconds < answer.seconds and answer.seconds < answer.high_seconds)
      end
    end
  end)

  it("gather over nodes at most as fast as inside one, whose links a ring passes, too", function()
    for _, name in ipairs(cluster_module.names()) do
      local cluster = cluster_module.get(name)
      local profile, n = require("ett.profile.of_cluster").open(cluster), cluster.gpus_per_node
      for _, kind in ipairs(n > 1 and { "all_gather", "reduce_scatter" } or {}) do
        local function rate(nodes, bytes)
          local answer = profile:collective(kind, bytes, { nodes = nodes, gpus_per_node = n }, "bf16")
          return (1 - 1 / (nodes * n)) * bytes / answer.seconds
        end
        local mesh = cluster.links.intra.mesh and n / (n - 1) or 1 -- a rank that sends to a card leaves its links free
        for _, bytes in ipairs { 1e7, 1e8, 5e8, 2e9, 16e9 } do
          assert.is_true(rate(2, bytes) <= 1.02 * mesh * rate(1, bytes),
            ("%s %s %g: %.4g and %.4g"):format(name, kind, bytes, rate(2, bytes), rate(1, bytes)))
        end
      end
    end
  end)

  it("reach the published rates of large messages over NVLink", function()
    local function rate(name, kind, nodes, bytes, inside)
      local profile = require("ett.profile.of_cluster").open(cluster_module.get(name))
      local answer = profile:collective(kind, bytes, { nodes = nodes, gpus_per_node = inside or 8 }, "bf16")
      return require("ett.comm").factor(kind, nodes * (inside or 8)) * bytes / answer.seconds / 1e9
    end
    -- reduce_scatter inside 8 H100 by rings, 1 to 8 GiB: NVIDIA/nccl issue 1047; over 4 nodes: issue 1229
    for gib, measured in pairs { [1] = 349.4, [2] = 354.8, [4] = 357.8, [8] = 362.2 } do
      assert.near(measured, rate("dgx_h100", "reduce_scatter", 1, gib * 2 ^ 30), 0.025 * measured)
    end
    assert.near(360, rate("dgx_h100", "reduce_scatter", 4, 2 ^ 33), 9)
    -- all_reduce of 4 GiB inside 2 to 8 H100, by rings up to 4 and in-switch reduction above: issue 1455
    for n, measured in pairs { [2] = 367, [3] = 367, [4] = 368, [5] = 420, [6] = 440, [7] = 460, [8] = 480 } do
      assert.near(measured, rate("dgx_h100", "all_reduce", 1, 2 ^ 32, n), 0.04 * measured, n)
    end
    -- inside 72 GB200, 2 to 8 GiB: coreweave/nccl-tests pull request 43; GB300 has the same links
    for gib, measured in pairs { [2] = 757.8, [4] = 839.2, [8] = 834.6 } do
      for _, name in ipairs { "gb200_nvl72", "gb300_nvl72" } do
        assert.near(measured, rate(name, "all_reduce", 1, gib * 2 ^ 30, 72), 0.07 * measured, name .. gib)
      end
    end
    -- all_reduce by rings over 4 to 16 nodes of B300: issue 2035
    for _, nodes in ipairs { 4, 8, 16 } do assert.near(760, rate("dgx_b300", "all_reduce", nodes, 2 ^ 34), 38) end
    -- NVLink 4 carries 450 GB/s one way, and effectively 370: nccl-tests issue 212
    assert.is_true(rate("dgx_h100", "broadcast", 1, 2 ^ 34) <= 370)
  end)

  it("give a lone rank the whole card that its neighbours share", function()
    -- Gbit/s of a card, cards of a node, at the share of the line rate that the cluster's file states
    for name, case in pairs { l40s_node = { 200, 2 }, dgx2 = { 100, 8 }, aws_p4d = { 100, 4 }, alps = { 200, 4 },
      frontier = { 200, 4, 0.93 }, dgx_a100 = { 200, 8 } } do
      local cluster, card = cluster_module.get(name), (case[3] or 0.85) * case[1] / 8 * 1e9
      for kind, moved in pairs { all_reduce = 1, all_gather = 1 / 2, send_recv = 1 } do
        local function rate(groups)
          local answer = collectives.time(cluster, kind, 1e11,
            { nodes = 2, gpus_per_node = 1, groups_per_node = groups })
          return moved * 1e11 / answer.seconds
        end
        local n, where = cluster.gpus_per_node, name .. " " .. kind
        assert.near(card, rate(1), 0.015 * card, where)
        assert.near(case[2] * card, n * rate(n), 0.015 * case[2] * card, where)
      end
    end
  end)

  it("send through the links of a pair and of a group where every pair has links of its own", function()
    -- 7 links of 45 GB/s: two devices use one of them, four use three (rocm.blogs.amd.com, mi300x-rccl-xgmi).
    local cluster = cluster_module.get "mi300x_node"
    local all = cluster.links.intra.bandwidth
    for ranks, links in pairs { [2] = 1, [4] = 3, [8] = 7 } do
      for kind, factor in pairs { all_gather = (ranks - 1) / ranks, all_to_all = (ranks - 1) / ranks } do
        local answer = cluster_module.collective(cluster, kind, 1e12, { nodes = 1, gpus_per_node = ranks })
        local share = kind == "all_to_all" and ranks == 8 and 361 / 407 or 1 -- RCCL's of a whole mesh
        assert.near(share * links / 7 * all, factor * 1e12 / answer.seconds, 1e8, kind .. " " .. ranks)
      end
    end
    local send = cluster_module.collective(cluster, "send_recv", 1e12, { nodes = 1, gpus_per_node = 2 })
    assert.near(all / 7, 1e12 / send.seconds, 1e8)
    local apart = cluster_module.collective(cluster, "send_recv", 1e12, { nodes = 2, gpus_per_node = 1 })
    assert.near(cluster.links.inter.bandwidth_per_gpu, 1e12 / apart.seconds, 1e8)
  end)

  it("are slow among five to seven of eight AMD devices, for which RCCL has few channels", function()
    local function rate(cluster, kind, ranks, nodes)
      local moved = (kind == "all_reduce" and 2 or 1) * (1 - 1 / (ranks * nodes)) * 1e12
      return moved / collectives.time(cluster, kind, 1e12, { nodes = nodes, gpus_per_node = ranks }).seconds / 1e9
    end
    local mi355x = cluster_module.get "mi355x_node"
    for ranks = 5, 7 do
      for _, kind in ipairs { "all_reduce", "all_gather", "reduce_scatter" } do
        assert.near(38, rate(mi355x, kind, ranks, 1), 0.1, kind .. " " .. ranks)
        -- A group of several nodes has other rings, and NVSwitches serve any number of devices alike.
        assert.is_true(rate(mi355x, kind, ranks, 2) > 4 * 38, kind .. " " .. ranks)
        for _, name in ipairs { "dgx_a100", "dgx_h100", "dgx_b200" } do
          local cluster = cluster_module.get(name)
          assert.near(rate(cluster, kind, 8, 1), rate(cluster, kind, ranks, 1), 0.04 * rate(cluster, kind, 8, 1), name)
        end
      end
    end
    -- ROCm/rocm-systems pull request 10957, 64 MiB, where a rank's start takes some of the time
    for ranks, measured in pairs { [2] = 52.9, [3] = 103.5, [5] = 160.6, [6] = 108.7, [7] = 126.0 } do
      local found = rate(mi355x, "all_to_all", ranks, 1)
      assert.is_true(found > measured and found < 1.5 * measured, ranks)
    end
  end)

  -- Buffers of a rank on the busiest link if each rank of an axis sends a share to every other one, message by message.
  local function busiest(length, ring)
    local loads, most = {}, 0.0
    for from = 0, length - 1 do
      for to = 0, length - 1 do
        local right, left = (to - from) % length, (from - to) % length
        for _, way in ipairs { { 1, right, right < left }, { -1, left, left < right } } do
          local share = not ring and ((to - from) * way[1] > 0 and 1 or 0) or way[3] and 1 or right == left and 0.5 or 0
          for hop = 0, share > 0 and way[2] - 1 or -1 do
            local id = ("%d %d"):format((from + hop * way[1]) % length, way[1])
            loads[id] = (loads[id] or 0.0) + share / length
            most = math.max(most, loads[id])
          end
        end
      end
    end
    return most
  end

  it("take one microsecond a hop of a torus, on all axes at the same time", function()
    -- jax-ml/scaling-book, sharding.md: T_min times the sum of |X_i| / 2; 128 kB over a line of 4 chips take 8 us
    for _, case in ipairs { { "tpu_v5e", 4, 3 }, { "tpu_v6e", 16, 8 }, { "tpu_v6e", 64, 8 + 3 }, { "tpu_v6e", 256, 16 },
      { "tpu_v5p", 8, 2 + 1 }, { "tpu_v5p", 64, 6 } } do
      local name, ranks, hops = table.unpack(case)
      for kind, rounds in pairs { all_gather = 1, reduce_scatter = 1, all_reduce = 2 } do
        local answer = cluster_module.collective(cluster_module.get(name), kind, 1,
          { nodes = 1, gpus_per_node = ranks })
        assert.near(5e-6 + rounds * hops * 1e-6, answer.seconds, 1e-9, ("%s %s %d"):format(name, kind, ranks))
      end
    end
    local small = cluster_module.collective(cluster_module.get "tpu_v5e", "all_gather", 131072,
      { nodes = 1, gpus_per_node = 4 })
    assert.near(8e-6, small.seconds, 3e-6)
    local c = cluster_module.get { name = "box", summary = "x", source = "x", gpus_per_node = 64, device = "tpu_v5p",
      links = { intra = { bandwidth = 540e9, torus = { 8, 4, 2 }, latency = 3e-6, source = "x" } } }
    local own = cluster_module.collective(c, "all_gather", 1, { nodes = 1, gpus_per_node = 64 })
    assert.near(5e-6 + (4 + 2 + 1) * 3e-6, own.seconds, 1e-9)
  end)

  it("use both directions of all axes of a torus that a group fills", function()
    local cluster = cluster_module.get "tpu_v5p" -- 4 x 4 x 4, links of 90 GB/s
    for ranks, case in pairs { [2] = { 1, 2 }, [4] = { 2, 4 }, [8] = { 3, 4 }, [16] = { 4, 4 }, [64] = { 6, 4 } } do
      local topology = { nodes = 1, gpus_per_node = ranks }
      local gather = cluster_module.collective(cluster, "all_gather", 1e12, topology)
      assert.near(case[1] * 90e9, (1 - 1 / ranks) * 1e12 / gather.seconds, 1e8, ranks .. " ranks")
      local exchange = cluster_module.collective(cluster, "all_to_all", 1e12, topology)
      assert.near(busiest(case[2], case[2] == 4) * 1e12 / 90e9, exchange.seconds, 1e-2, ranks .. " ranks")
    end
    local send = cluster_module.collective(cluster, "send_recv", 1e12, { nodes = 1, gpus_per_node = 2 })
    assert.near(90e9, 1e12 / send.seconds, 1e8)
    for _, ranks in ipairs { 8, 16 } do -- a row of v6e is a ring of 16
      local row = cluster_module.collective(cluster_module.get "tpu_v6e", "all_to_all", 1e12,
        { nodes = 1, gpus_per_node = ranks })
      assert.near(busiest(ranks, ranks == 16) * 1e12 / 90e9, row.seconds, 1e-2)
    end
  end)

  it("gather on v7x at the rate that Google's benchmark reaches over two links of a chip", function()
    -- accelerator-microbenchmarks, Ironwood/guides/collectives/all_gather.md: 178.8 GB/s on 2x2x1.
    local gather = cluster_module.collective(cluster_module.get "tpu_v7x", "all_gather", 1e12,
      { nodes = 1, gpus_per_node = 4 })
    assert.near(178.8e9, 3 / 4 * 1e12 / gather.seconds, 0.02 * 178.8e9)
  end)

  it("gather and reduce-scatter between nodes as each alone, if a profile times both", function()
    local network, topology = require "ett.profile.network.collectives", { nodes = 4, gpus_per_node = 1, ranks = 4,
      groups_per_node = 1 }
    for _, change in ipairs { {}, { curves = { reduce_scatter = { [4] = { 1e6, 1e9, 1e9, 5e9 } } } },
      { reduces = true, receive = 96e9 } } do
      local cluster = cluster_module.get "llama3_24k"
      for name, value in pairs(change) do cluster.tiers[2][name], cluster.tiers[3][name] = value, value end
      local links, alike = network.links(cluster), {}
      for _, kind in ipairs { "all_gather", "reduce_scatter" } do
        local alone = network.timer(cluster, kind, topology)(1e8)
        alike[kind] = alone
        assert.equal(alone, (network.timer(cluster, kind, topology, links)(1e8)), kind)
      end
      assert.equal(next(change) == nil, alike.all_gather == alike.reduce_scatter)
    end
  end)

  it("reduce-scatter at the given share of the links, where devices wait for it", function()
    local topology = { nodes = 1, gpus_per_node = 8 }
    local function seconds(cluster, kind) return cluster_module.collective(cluster, kind, 1e12, topology).seconds end
    local v6e = cluster_module.get "tpu_v6e"
    assert.near(7 / 8 * 1e12 / 90e9, seconds(v6e, "all_gather"), 1e-4) -- half of a row: one link
    assert.near(7 / 8 * 1e12 / 90e9 / v6e.links.intra.blocking_reductions, seconds(v6e, "reduce_scatter"), 1e-4)
    assert.near(2 * seconds(v6e, "all_gather"), seconds(v6e, "all_reduce"), 1e-4)
    v6e.links.intra.blocking_reductions = nil
    assert.near(seconds(v6e, "all_gather"), seconds(v6e, "reduce_scatter"), 1e-9)
  end)

  it("of TPU v6e take the time of the profiles that gave their share, and overlap nothing", function()
    local s = require("ett.step.estimate").new { model = require("ett.model").new "qwen3-8b", cluster = "tpu_v6e",
      plan = { seq = 8192, micro_batch = 3, micro_batches = 1, dp = 8, zero = 3, gradient_dtype = "bf16",
        recompute = "full" } }.stages[1]
    assert.near(0.1465, s.gradient_seconds, 0.0025) -- 0.144 and 0.149 s; the cluster's file names the source
    assert.equal(s.gradient_seconds, s.gradient_exposed_seconds)
  end)
end)

describe("a device", function()
  it("is found by its file's name, and by the names and aliases that estimates and drivers print", function()
    local devices = require "ett.profile.device"
    for name, key in pairs { h100_sxm = "h100_sxm", ["H100-SXM-80GB"] = "h100_sxm", h100 = "h100_sxm",
      ["NVIDIA A100-SXM4-40GB"] = "a100_sxm_40gb", h200 = "h200_sxm", MI300X = "mi300x" } do
      assert.equal(key, devices.get(name).key)
    end
  end)

  it("has a rate of short runs only where the source is a search over many shapes (MAMF)", function()
    local devices = require "ett.profile.device"
    for _, name in ipairs(devices.names()) do
      local device = devices.get(name)
      local source = devices.get((device.measured_source or ""):match "^as (.*)" or name).measured_source or ""
      assert.equal(source:find("MAMF", 1, true) ~= nil, device.measured_in_bursts or false, name)
    end
  end)

  it("has the memory that its software prints, not that of a datasheet", function()
    local devices = require "ett.profile.device"
    -- GiB: PyTorch's "total capacity", and XLA's "of ...G hbm" for each device that JAX lists.
    for name, gib in pairs { h100_sxm = 79.14, a100_sxm = 79.25, b200_sxm = 178.35, gb200 = 184.31, b300_sxm = 267.69,
      gb300 = 276.50, mi300x = 191.98, mi325x = 255.98, mi355x = 287.98, mi250x_die = 63.98, tpu_v4 = 30.75,
      tpu_v5e = 15.75, tpu_v5p = 95.74, tpu_v6e = 31.25, tpu_v7x = 2 * 94.75 } do
      assert.near(gib * 2 ^ 30, devices.get(name).memory_bytes, 0.001 * gib * 2 ^ 30, name)
    end
  end)

  it("of a TPU has the memory rate of Google's page of its generation", function()
    local devices = require "ett.profile.device"
    for name, rate in pairs { tpu_v4 = 1200e9, tpu_v5e = 819e9, tpu_v5p = 2765e9, tpu_v6e = 1638e9,
      tpu_v7x = 7380e9 } do
      assert.near(rate, devices.get(name).memory_bandwidth, 0.005 * rate, name)
    end
  end)

  it("of a TPU has a link to its host, over which activations are offloaded", function()
    local estimate, model = require "ett.step.estimate", require "ett.model"
    for _, name in ipairs { "tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7x" } do
      local e = estimate.new { model = model.new("llama", { layers = 4, hidden = 1024, heads = 8, ffn = 2816,
        vocab = 32000 }), cluster = name, plan = { seq = 1024, dp = 4, micro_batches = 1, recompute = "full",
        offload_activations = 1 } }
      assert.is_true(e.host_bytes > 0, name)
    end
  end)

  it("is found by its name if the file of another device is faulty", function()
    local find = require "ett.base.find"
    require("ett.base.folder").within(function(folder)
      for name, text in pairs { aaa = "return {", bbb = "return { aliases = 7 }" } do
        require("ett.base.folder").write_with_folder(("%s/clusters/devices/%s.lua"):format(folder, name), text)
      end
      find.set_folders { folder }
      local ok, device = pcall(require("ett.profile.device").get, "H100-SXM-80GB")
      find.set_folders {}
      assert.is_true(ok, tostring(device))
      assert.equal("h100_sxm", device.key)
    end)
  end)
end)

describe("a user's cluster", function()
  local function valid()
    return { name = "mine", summary = "two cards", source = "datasheet", gpus_per_node = 2,
      device = { name = "x", source = "y", peak_flops = { bf16 = 1e14 }, memory_bytes = 8e10, memory_bandwidth = 1e12 },
      links = { intra = { bandwidth = 5e10, source = "z" } } }
  end
  it("may be a table, which is checked once", function()
    local c = valid()
    c.device = "h100_sxm"
    local checked = cluster_module.get(c)
    assert.equal("mine", checked.name)
    assert.equal(checked, cluster_module.get(checked))
    local e = require("ett.step.estimate").new { model = require("ett.model").new "llama3-8b", cluster = checked,
      plan = { seq = 4096, tp = 2, micro_batches = 1 } }
    assert.is_true(e.step_seconds > 0)
  end)
  it("uses the measured curve with the nearest number of ranks (by ratio)", function()
    local c = valid()
    c.gpus_per_node = 16
    local two, eight = { 1e6, 1e10, 1e8, 2e10 }, { 1e6, 3e10, 1e8, 4e10 }
    c.links.intra.curves = { [2] = two, [8] = eight }
    c = cluster_module.get(c)
    for ranks, curve in pairs { [2] = two, [3] = two, [4] = eight, [6] = eight, [16] = eight } do
      assert.same(curve, collectives.curve(c.links.intra.curves, ranks), tostring(ranks))
      local answer = cluster_module.collective(c, "all_gather", 1e8, { nodes = 1, gpus_per_node = ranks })
      assert.near(1e8 * (ranks - 1) / ranks / curve[4], answer.seconds, 1e-12)
      assert.equal("calibrated", answer.provenance)
    end
  end)
  it("has the rates of its own curves of gathers", function()
    local c = { name = "own", summary = "x", source = "x", gpus_per_node = 8, device = "h100_sxm", links = {
      intra = { bandwidth = 480e9, ring_bandwidth = 370e9, source = "x", curves = {
        all_gather = { [8] = { 1e6, 5e10, 1e9, 4e11 } }, all_reduce = { [8] = { 1e6, 5e10, 1e9, 4.7e11 } } } },
      inter = { bandwidth_per_gpu = 96e9, bandwidth_per_node = 768e9, source = "x" } } }
    c = cluster_module.get(c)
    local function rate(kind, nodes)
      local answer = cluster_module.collective(c, kind, 1e11, { nodes = nodes, gpus_per_node = 8 })
      return require("ett.comm").factor(kind, 8 * nodes) * 1e11 / answer.seconds / 1e9
    end
    assert.near(400, rate("all_gather", 1), 1)
    assert.near(470, rate("all_reduce", 1), 1)
    assert.near(400, rate("all_gather", 2), 4)
    assert.near(370, rate("reduce_scatter", 2), 4)
    assert.near(370, rate("all_reduce", 4), 4)
  end)

  it("is doubted where its links contradict each other, and refused for latencies and rates in other units", function()
    local tiers = require "ett.profile.network.tiers"
    local function own(intra, inter)
      local c = { name = "own", summary = "x", source = "x", gpus_per_node = 8, device = "h100_sxm", links = {
        intra = { bandwidth = 450e9, source = "x" },
        inter = { bandwidth_per_gpu = 50e9, bandwidth_per_node = 400e9, source = "x" } } }
      for name, value in pairs(intra) do c.links.intra[name] = value end
      for name, value in pairs(inter) do c.links.inter[name] = value end
      return c
    end
    local function doubt(...) return tiers.contradictions(cluster_module.get(own(...)), true)[1] end
    assert.is_nil(doubt({ curves = { [8] = { 1e6, 1e11, 1e9, 480e9 } } }, {}))
    assert.matches("bandwidth_per_gpu = 6e+11 is above", doubt({}, { bandwidth_per_gpu = 600e9,
      bandwidth_per_node = 4800e9 }), 1, true)
    assert.matches("bandwidth_per_gpu = 4e+11 is more than network cards carry",
      doubt({}, { bandwidth_per_gpu = 400e9 }), 1, true)
    assert.matches("bandwidth_per_node = 2e+10 is below", doubt({}, { bandwidth_per_node = 20e9 }), 1, true)
    for _, curves in ipairs { { [8] = { 1024, 1e12, 2048, 1e9 } }, { all_gather = { [8] = { 1024, 1e12 } } } } do
      assert.matches("curves[8] reaches 1e+12", doubt({ curves = curves }, {}), 1, true)
    end
    assert.matches("ring_bandwidth = 9e+11 is above", doubt({ ring_bandwidth = 900e9 }, {}), 1, true)
    local unknown = own({}, {})
    unknown.stack = "megatrom"
    assert.equal("cluster: stack: unknown stack 'megatrom'; did you mean 'megatron'?",
      raised(cluster_module.get, unknown))
    local tiered = own({}, {})
    tiered.links, tiered.tiers = nil, { { name = "node", size = 8, bandwidth = 450e9, source = "x" },
      { name = "rail", bandwidth = 400e9, unit_bandwidth = 200e9, source = "x" } }
    local found = table.concat(tiers.contradictions(cluster_module.get(tiered), true), "\n")
    assert.matches("tiers[2].bandwidth = 4e+11 is more than network cards carry", found, 1, true)
    assert.matches("an inner unit of tiers[2] = 2e+11 is below bandwidth = 4e+11", found, 1, true)
    local lone = own({}, { bandwidth_per_gpu = 400e9 })
    lone.gpus_per_node, lone.links.intra = 1, nil
    local contradiction = tiers.contradictions(cluster_module.get(lone), true)[1]
    assert.matches("bandwidth_per_gpu = 4e+11 is more", contradiction, 1, true)
    for _, name in ipairs(cluster_module.names()) do
      assert.same({}, tiers.contradictions(cluster_module.get(name), true), name)
      assert.is_nil(collectives.table_warning(cluster_module.get(name)), name)
    end
    local function limited(...) return collectives.table_warning(cluster_module.get(own(...))) end
    assert.matches("links.intra.bandwidth = 9e+11 is above the rate in the tables of 'H100-SXM-80GB', 3.49e+11",
      limited({ bandwidth = 900e9 }, {}), 1, true)
    assert.is_nil(limited({}, {}))
    assert.is_nil(limited({ bandwidth = 900e9, curves = { [8] = { 1e6, 1e11, 1e9, 9e11 } } }, {}))
    assert.matches("'latency' must be at most 0.5 seconds, got 3.4", raised(cluster_module.get,
      own({ latency = 3.4 }, {})), 1, true)
    assert.matches("'bandwidth_per_gpu' must be at least 1000000 bytes/s, got 50000", raised(cluster_module.get,
      own({}, { bandwidth_per_gpu = 5e4 })), 1, true)
  end)
  it("is refused for a mesh outside the innermost tier, and for a torus of another size", function()
    local c = valid()
    c.links.intra.torus = { 2, 2 }
    assert.matches("links: intra: torus: the lengths of its axes must multiply to 2 devices, got 2 x 2",
      raised(cluster_module.get, c), 1, true)
    c.links.intra.torus, c.links.intra.mesh = { 2 }, true
    assert.matches("links: intra: give either 'mesh' or 'torus'", raised(cluster_module.get, c), 1, true)
    c.links.intra.torus, c.links.intra.whole_rings = nil, true
    assert.matches("links: intra: 'whole_rings' needs the lengths of the axes", raised(cluster_module.get, c), 1, true)
    c.links, c.tiers = nil, { { name = "node", size = 2, bandwidth = 5e10, source = "z" },
      { name = "network", bandwidth = 5e9, mesh = true, source = "z" } }
    assert.matches("tiers[2]: only links inside the innermost tier, of at least two devices, can be a mesh or a torus",
      raised(cluster_module.get, c), 1, true)
    c.tiers[2].mesh, c.tiers[2].blocking_reductions = nil, 0.5
    assert.matches("tiers[2]: only links inside the innermost tier can have 'blocking_reductions'",
      raised(cluster_module.get, c), 1, true)
    c.tiers[1].axes, c.tiers[2].blocking_reductions = 3, nil
    assert.matches("tiers[1]: 'axes' is for links between units", raised(cluster_module.get, c), 1, true)
  end)
  it("may name its device", function()
    local c = valid()
    c.device = "h100_sxm"
    assert.equal(3.35e12, cluster_module.get(c).device.memory_bandwidth)
    c.device = "h100_sx"
    assert.matches("cluster: device: unknown device 'h100_sx'; did you mean 'h100_sxm'?",
      raised(cluster_module.get, c), 1, true)
  end)
  it("may limit the power of its device", function()
    local function limited(watts, device)
      local c = valid()
      c.device, c.power = device or c.device, { device_watts = watts, source = "spec" }
      return c
    end
    local own = cluster_module.get(limited(500, "h100_sxm"))
    local free = cluster_module.get(limited(nil, "h100_sxm"))
    assert.equal(500, own.device.power_limit_watts)
    assert.is_nil(free.device.power_limit_watts)
    assert.is_nil(cluster_module.get(limited(800, "h100_sxm")).device.power_limit_watts) -- its own limit is 700 W
    local c = limited(500)
    assert.equal(500, cluster_module.get(c).device.power_limit_watts) -- the device states no power
    assert.is_nil(c.device.power_limit_watts)
    assert.equal(610, cluster_module.get("alps").device.power_limit_watts)
    local function step(cluster)
      return require("ett.step.estimate").new { model = require("ett.model").new "llama3-8b", cluster = cluster,
        plan = { seq = 4096, micro_batches = 1, stack = "megatron" } }.step_seconds
    end
    local ratio = step(own) / step(free)
    assert.is_true(1.1 < ratio and ratio < (700 / 500) ^ require("ett.profile.in_step").power_exponent, ratio)
    assert.equal("cluster: power: 'device_watts' belongs to the clusters of the parts", raised(cluster_module.get,
      { name = "two", summary = "two", source = "spec", parts = { { cluster = "dgx_h100", nodes = 1 },
        { cluster = "dgx_a100", nodes = 1 } }, links = valid().links,
        power = { device_watts = 100, source = "spec" } }))
  end)

  it("is refused for a node's power in kilowatts", function()
    local function of(watts)
      local c = valid()
      c.power = { node_watts = watts, source = "spec" }
      return c
    end
    for _, watts in ipairs { 10.2, 0.3, 49.9 } do
      assert.equal(("cluster: power: 'node_watts' must be 0 or at least 50 W, got %g"):format(watts),
        raised(cluster_module.get, of(watts)))
    end
    for _, watts in ipairs { 0, 50, 10200 } do
      assert.equal(watts, cluster_module.get(of(watts)).power.node_watts)
    end
  end)

  it("is refused for an invalid curve", function()
    for wanted, curve in pairs {
      ["curves[2]: must be a list { bytes, bytes/s, bytes, bytes/s, … }, got 3 numbers"] = { 1, 2, 3 },
      ["curves[2]: number 4 (bytes/s) must be between 1000 and 1e17, got -2"] = { 1, 1e4, 3, -2 },
      ["curves[2]: sizes must ascend, got 1 bytes after 1"] = { 1, 1e4, 1, 1e4 },
    } do
      local c = valid()
      c.links.intra.curves = { [2] = curve }
      assert.equal("cluster: links: intra: " .. wanted, raised(cluster_module.get, c))
    end
    for _, key in ipairs { "eight", "8" } do
      local c = valid()
      c.links.intra.curves = { [key] = { 1, 2 } }
      assert.matches(("curves[%s]: the key must be a number of ranks"):format(key), raised(cluster_module.get, c), 1,
        true)
    end
  end)
  it("is refused by field", function()
    local c = valid()
    c.device.memory_bandwith = 1
    assert.matches("cluster: device: unknown field 'memory_bandwith'; did you mean 'memory_bandwidth'",
      raised(cluster_module.get, c), 1, true)
    c = valid()
    c.device.peak_flops = { bf61 = 1 }
    assert.matches("unknown field 'bf61'; did you mean 'bf16'", raised(cluster_module.get, c), 1, true)
    c = valid()
    c.device.measured_flops = { bf61 = 1 }
    assert.matches("measured_flops: unknown field 'bf61'; did you mean 'bf16'", raised(cluster_module.get, c), 1, true)
    c = valid()
    c.device.peak_flops.bf16 = -1
    assert.equal("cluster: device: peak_flops: field 'bf16' must be a positive number, got -1",
      raised(cluster_module.get, c))
    c = valid()
    c.profile = { bass = "perlmutter" }
    assert.equal("cluster: profile: unknown field 'bass'; did you mean 'base'?", raised(cluster_module.get, c))
    c.profile = 3
    assert.equal("cluster: field 'profile' must be a string or a table, got 3", raised(cluster_module.get, c))
    c = valid()
    c.links = {}
    assert.matches("links: missing field 'intra'", raised(cluster_module.get, c), 1, true)
    assert.equal("cannot read '/nowhere/x.lua': no such file or directory",
      raised(cluster_module.get, "/nowhere/x.lua"))
  end)

  it("has no field without a row in the pages", function()
    local function check(page, fields)
      for name, rule in pairs(fields) do
        assert.is_truthy(page:find("[`.]" .. name .. "`"), name)
        if type(rule) == "table" and rule.fields and name ~= "device" then check(page, rule.fields) end
      end
    end
    check(tree.read "clusters/README.md", cluster_module.fields)
    check(tree.read "clusters/README.md", require("ett.profile.network.tiers").fields)
    local device = merged(require("ett.profile.device").fields)
    device.key, device.folder = nil, nil -- set when a file is read
    check(tree.read "clusters/devices/README.md", device)
  end)

  it("is copied where it shall accept samples of another device", function()
    local own = cluster_module.get "perlmutter"
    local accepting = cluster_module.accepting(own)
    assert.is_true(accepting.profile.accept_device)
    assert.is_not_true(type(own.profile) == "table" and own.profile.accept_device)
    assert.equal(accepting, cluster_module.get(accepting)) -- checked already
  end)
end)
