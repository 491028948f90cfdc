--- Factors, curves, and ett's own models of communication on two tiers.
local collectives = require "ett.profile.network.collectives"
local comm = require "ett.comm"
local raised = require "raised"

local inter = { bandwidth_per_gpu = 25e9, bandwidth_per_node = 200e9, latency = 10e-6 }
local cluster = { name = "by hand", gpus_per_node = 8, links = { intra = { bandwidth = 200e9, latency = 3e-6 },
  inter = inter } }

local function estimate(kind, bytes, nodes, ranks, groups, on)
  return collectives.time(on or cluster, kind, bytes, { nodes = nodes, gpus_per_node = ranks,
    groups_per_node = groups })
end

describe("ett.comm", function()
  it("follows the factors of nccl-tests for large messages", function()
    local bytes = 1e12 -- latency does not matter
    for kind, factor in pairs { all_reduce = 2 * 7 / 8, all_gather = 7 / 8, reduce_scatter = 7 / 8 } do
      assert.near(bytes * factor / 200e9, estimate(kind, bytes, 1, 8).seconds, 1e-3, kind)
      for n = 1, 4096 do assert.near(factor * 8 / 7 * (n - 1) / n, comm.factor(kind, n), 1e-15) end
    end
    assert.same({ 7 / 8, 1 }, { comm.factor("all_to_all", 8), comm.factor("broadcast", 8) })
    assert.near(bytes / 200e9, estimate("send_recv", bytes, 1, 2).seconds, 1e-3)
    assert.near(bytes * 7 / 8 / 200e9, estimate("all_to_all", bytes, 1, 8).seconds, 1e-3)
  end)

  it("takes no time for one rank or for zero bytes", function()
    assert.equal(0, estimate("all_reduce", 1e9, 1, 1).seconds)
    assert.equal(0, estimate("all_gather", 0, 4, 8).seconds)
  end)

  it("grows with bytes and with nodes, and shrinks with bandwidth", function()
    for _, kind in ipairs { "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv" } do
      local last = 0
      for _, bytes in ipairs { 1, 1e3, 1e6, 1e9 } do
        local seconds = estimate(kind, bytes, 2, 8).seconds
        assert.is_true(seconds > last, kind)
        last = seconds
      end
      assert.is_true(estimate(kind, 1e8, 8, 8).seconds >= estimate(kind, 1e8, 2, 8).seconds, kind)
    end
  end)

  it("takes a tree for small all_reduces over many nodes and a ring for large ones on few", function()
    assert.equal("tree", estimate("all_reduce", 1e4, 128, 8).model)
    assert.equal("ring", estimate("all_reduce", 1e9, 2, 8).model)
  end)

  it("counts the steps of a ring as NCCL's tuner", function()
    local intra, net = 3e-6, 10e-6 -- src/graph/tuning.cc: nsteps and nInterSteps of each function
    local simple = { name = "simple", gpus_per_node = 8, links = cluster.links, device = { vendor = "intel" } }
    for _, case in ipairs { { 2, 1, 1, 1 }, { 4, 1, 3, 3 }, { 2, 8, 15, 1 }, { 16, 8, 127, 15 }, { 1, 8, 7, 0 } } do
      local nodes, inside, steps, outside = table.unpack(case)
      for _, kind in ipairs { "all_gather", "reduce_scatter" } do
        assert.near(8.4e-6 + (steps - outside) * intra + outside * net,
          estimate(kind, 1e-3, nodes, inside, nil, simple).seconds, 1e-12, kind)
      end
    end
    local ring = { name = "ring", gpus_per_node = 8, links = cluster.links, collectives = { all_reduce = { "ring" } },
      device = simple.device }
    assert.near(8.4e-6 + 10 * net, estimate("all_reduce", 1e-3, 5, 1, nil, ring).seconds, 1e-12)
    assert.near(8.4e-6 + 26 * intra + 4 * net, estimate("all_reduce", 1e-3, 2, 8, nil, ring).seconds, 1e-12)
  end)

  it("counts the bytes of the busiest node of NCCL's two trees", function()
    -- Parent and children of node `rank` of `n` in a tree whose leaves are the even ranks (src/graph/trees.cc).
    local function degree(n, rank)
      local count, level = 0, 0
      while rank >> level & 1 == 1 and 1 << level < n do level = level + 1 end
      if level > 0 then count = rank == n - 1 and 1 or 2 end
      return count + (1 << level + 1 <= n and 1 or 0)
    end
    local slow = { bandwidth_per_gpu = 5e9, bandwidth_per_node = 40e9, latency = 10e-6 }
    for _, hierarchical in ipairs { true, false } do
      slow.hierarchical = hierarchical
      local tree = { name = "tree", gpus_per_node = 8, collectives = { all_reduce = { "tree" } },
        links = { intra = cluster.links.intra, inter = slow } }
      for nodes = 2, 33 do
        local most = 0
        for rank = 0, nodes - 1 do
          local other = nodes % 2 == 1 and (rank - 1 + nodes) % nodes or nodes - 1 - rank
          most = math.max(most, degree(nodes, rank) + degree(nodes, other))
        end
        local moved = nodes == 3 and 2.0 or most / 2 -- the tuner halves the rate from three nodes on
        local eight = hierarchical and moved or math.max(moved, comm.factor("all_reduce", 8 * nodes))
        assert.near(1, estimate("all_reduce", 1e12, nodes, 8, nil, tree).seconds / (eight * 1e12 / (0.92 * 40e9)), 1e-4,
          ("%d nodes"):format(nodes))
        assert.near(1, estimate("all_reduce", 1e12, nodes, 1, nil, tree).seconds / (moved * 1e12 / (0.92 * 5e9)), 1e-4,
          ("%d ranks"):format(nodes))
      end
    end
  end)

  it("starts trees with in-switch reduction in the same time for any number of ranks in a node", function()
    for _, inside in ipairs { 8, 64 } do
      local node = { name = "domain", gpus_per_node = inside, collectives = { all_reduce = { "tree" } },
        device = { vendor = "intel" }, links = { intra = cluster.links.intra, inter = { bandwidth_per_gpu = 25e9,
          bandwidth_per_node = inside * 25e9, latency = 14e-6, hierarchical = true } } }
      -- src/tuning/nvls.cc: intraLat + 2 log2(nNodes) interLat
      for nodes, levels in pairs { [2] = 1, [8] = 3, [16] = 4 } do
        assert.near(25e-6 + 2 * levels * 20.9e-6, estimate("all_reduce", 1e-3, nodes, inside, nil, node).seconds, 1e-12)
      end
      node.links.inter.hierarchical = false
      assert.near(8.4e-6 + 2 * (inside - 1) * 3e-6 + 28e-6, estimate("all_reduce", 1e-3, 2, inside, nil, node).seconds,
        1e-12)
    end
    -- Two nodes of eight H20, NCCL_ALGO=NVLSTree, 8 B and 1 KiB: NVIDIA/nccl issue 1244. Known error: the tuner's steps
    -- are those of larger messages, so 62.6 us are 31 and 34 % too long.
    local dgx = { name = "NVLSTree", gpus_per_node = 8, device = { vendor = "intel" },
      links = require("ett.profile.cluster").get("dgx_h100").links }
    for bytes, us in pairs { [8] = 47.6, [1024] = 46.6 } do
      assert.near(0.325, estimate("all_reduce", bytes, 2, 8, nil, dgx).seconds * 1e6 / us - 1, 0.03)
    end
  end)

  -- Mean absolute logarithm of estimated over measured times. measured: bytes, microseconds, …
  local function mean_error(name, kind, measured, nodes)
    local cluster_module = require "ett.profile.cluster"
    local sum = 0.0
    for i = 1, #measured, 2 do
      local answer = cluster_module.collective(cluster_module.get(name), kind, measured[i],
        { nodes = nodes or 2, gpus_per_node = 8 })
      sum = sum + math.abs(math.log(answer.seconds * 1e6 / measured[i + 1]))
    end
    return sum / (#measured // 2)
  end

  it("times trees with in-switch reduction at medium sizes as nccl-tests measure them", function()
    local kib, mib = 1024, 1048576
    for _, case in ipairs {
      -- NVIDIA/nccl-tests issue 309, HGX H100 on NDR InfiniBand; 0.085 and 0.14 as until 2025's tuner
      { 2, 0.06, { 256 * kib, 48.67, mib, 71.93, 4 * mib, 94.38, 16 * mib, 185.4, 64 * mib, 466.1, 256 * mib, 1282.8,
        1024 * mib, 4484.9, 8192 * mib, 34381 } },
      { 4, 0.06, { 256 * kib, 67.8, mib, 82.2, 4 * mib, 151.1, 16 * mib, 259.6, 64 * mib, 579.1, 256 * mib, 1768.0,
        1024 * mib, 5808.8, 8192 * mib, 45606 } },
      -- The same issue, another cluster, not used to choose this; 0.21
      { 8, 0.17, { mib, 117.0, 4 * mib, 203.8, 16 * mib, 378.1, 64 * mib, 718.1, 256 * mib, 1955.1, 512 * mib, 3517.3,
        2048 * mib, 13252, 8192 * mib, 52733 } } } do
      local nodes, most, measured = table.unpack(case)
      local found = mean_error("dgx_h100", "all_reduce", measured, nodes)
      assert.is_true(found < most, ("%d nodes: %.3f"):format(nodes, found))
    end
  end)

  it("starts small messages as LL in NCCL's tuner", function()
    local wires = { intra = { bandwidth = 400e9 }, inter = { bandwidth_per_gpu = 50e9, bandwidth_per_node = 400e9 } }
    local node = { name = "8 GPUs", gpus_per_node = 8, links = wires }
    local slow = { name = "PCIe", gpus_per_node = 8, links = { intra = { bandwidth = 50e9 }, inter = wires.inter } }
    -- baseLat, and hwLat of each step: src/graph/tuning.cc, ncclTopoTuneModel
    for us, case in pairs { [6.8 + 2 * (7 * 0.6 + 4 * 5.0)] = { "all_reduce", 16, 8 },
      [6.8 + 2 * 4 * 5.0] = { "all_reduce", 16, 1 }, [6.6 + 14 * 0.6] = { "all_reduce", 1, 8 },
      [6.6 + 14 * 2.0 + 5.0] = { "all_gather", 2, 8 }, [6.6 + 3 * 5.0] = { "reduce_scatter", 4, 1 },
      [6.6 + 7 * 0.6] = { "all_gather", 1, 8 }, [6.6 + 0.6] = { "send_recv", 1, 2 },
      [6.6 + 0.6 + 1e-9] = { "all_to_all", 1, 8 }, [8.4 + 14] = { "send_recv", 2, 1 },
      [8.4 + 14 + 8 * 1.0] = { "all_to_all", 2, 8 }, [6.6 + 7 * 1.0] = { "reduce_scatter", 1, 8, slow },
      [6.8 + 2 * (7 * 1.0 + 5.0)] = { "all_reduce", 2, 8, slow } } do
      local kind, nodes, inside, on = table.unpack(case)
      assert.near(us, 1e6 * estimate(kind, 1e-3, nodes, inside, nil, on or node).seconds, 1e-6, kind)
    end
    -- Measured: two nodes of eight A100 with NCCL_ALGO=Ring, 8 bytes, NVIDIA/nccl issue 812; two nodes of four GPUs,
    -- 256 bytes, NVIDIA/nccl-tests issue 128.
    local ring = { name = "Ring", gpus_per_node = 8, links = wires, collectives = { all_reduce = "ring" } }
    ring.collectives = collectives.check(ring.collectives, "ring")
    assert.near(93.1, 1e6 * estimate("all_reduce", 8, 2, 8, nil, ring).seconds, 0.2 * 93.1)
    assert.near(24.0, 1e6 * estimate("reduce_scatter", 256, 2, 4, nil, node).seconds, 0.2 * 24.0)
    -- Measured for 8 bytes: 16 nodes of eight H100, NVIDIA/nccl issue 1469; two of one A100, NVIDIA/nccl-tests 150.
    for us, case in pairs { [62] = { 16, 8, "dgx_h100" }, [19.9] = { 2, 1, "dgx_a100" } } do
      local dgx = require("ett.profile.cluster").get(case[3])
      assert.near(us, 1e6 * estimate("all_reduce", 8, case[1], case[2], nil, dgx).seconds, 0.2 * us, case[3])
    end
  end)

  it("times small messages inside a node of H100 as nccl-tests measure them", function()
    local path = require("ett.host").root .. "/clusters/devices/h100_sxm/collectives.coefficients.lua"
    local links = { intra = { bandwidth = 480e9, ring_bandwidth = 370e9 } } -- dgx_h100, without its curves
    local function error_of(device)
      local sum, count, node = 0.0, 0, { name = "H100", gpus_per_node = 8, links = links, device = device }
      for kind, by_gpus in pairs(dofile(path).curves) do
        for n, curve in pairs(kind == "all_to_all" and {} or by_gpus) do
          for i = 1, #curve, 2 do
            local own = curve[i] <= 4 << 20 and math.abs(math.log(estimate(kind, curve[i], 1, n, nil, node).seconds
              / curve[i + 1]))
            sum, count = sum + (own or 0.0), count + (own and 1 or 0)
          end
        end
      end
      return sum / count
    end
    assert.is_true(error_of(nil) < 0.16, ("got %.3f"):format(error_of(nil)))
    assert.is_true(error_of { vendor = "intel" } > 0.6) -- Simple alone
  end)

  it("times large rings over nodes as published shares of the cards", function()
    -- aliyun/SimAI inputs/ratio/nic_ratio.csv: share of the cards of 2 to 128 nodes of eight
    local node = { name = "8 GPUs", gpus_per_node = 8, links = { intra = { bandwidth = 400e9 },
      inter = { bandwidth_per_gpu = 50e9, bandwidth_per_node = 400e9 } } }
    for _, case in ipairs { { 16777216, 2, 0.32 }, { 16777216, 64, 0.021 }, { 67108864, 4, 0.53 },
      { 134217728, 8, 0.54 }, { 268435456, 16, 0.57 }, { 536870912, 64, 0.384 }, { 2147483648, 128, 0.5535 } } do
      local bytes, nodes, share = table.unpack(case)
      local answer = estimate("all_gather", bytes, nodes, 8, nil, node)
      assert.near(1, share * 400e9 / (bytes * comm.factor("all_gather", 8 * nodes) / answer.seconds), 0.2,
        ("%d nodes: %g s"):format(nodes, answer.seconds))
    end
  end)

  it("starts small messages over nodes with the steps of the device's tables", function()
    local kib = 1024
    for _, case in ipairs {
      -- NVIDIA/nccl-tests issue 309, HGX H100 on NDR InfiniBand, two and four nodes
      { "dgx_h100", 2, 0.1, { 8, 24.7, 64, 25.29, kib, 26.65, 4 * kib, 30.24, 16 * kib, 32.74, 32 * kib, 34.1 } },
      { "dgx_h100", 4, 0.15, { 8, 34.75, 64, 34.77, kib, 39.79, 4 * kib, 42.18, 16 * kib, 48.51, 32 * kib, 49.13 } },
      -- oracle-quickstart/oci-hpc-oke README.md, A100; 0.47 without the tables
      { "dgx_a100", 2, 0.28, { 8, 36.47, 64, 39.25, kib, 41.97, 4 * kib, 44.54, 16 * kib, 49.4, 32 * kib, 49.66 } },
      -- AWS Deep Learning AMI guide, tutorial on EFA, two p4d.24xlarge; 1.95 without the plug-in's latency
      { "aws_p4d", 2, 0.1, { 8, 180.3, 64, 178.8, kib, 179.2, 4 * kib, 184.2, 16 * kib, 202.5, 32 * kib, 233 } },
      -- "B200 / Vultr POC, cluster test summary", NDR InfiniBand, 18 May 2026, not used to choose this; 0.39 without
      { "dgx_b200", 2, 0.08, { 8, 36.17, 64, 35.52, kib, 37.54, 4 * kib, 39.96, 16 * kib, 42.31, 32 * kib, 43.57 } },
    } do
      local name, nodes, most, measured = table.unpack(case)
      local found = mean_error(name, "all_reduce", measured, nodes)
      assert.is_true(found < most, ("%s, %d nodes: %.3f"):format(name, nodes, found))
    end
  end)

  it("times collectives of medium size over two nodes as nccl-tests measure them", function()
    local kib, mib = 1024, 1048576
    for _, case in ipairs {
      -- oracle-quickstart/oci-hpc-oke README.md, A100, 16x 100 Gbit/s a node; 0.45 without LL128 and with the start of
      -- the node's curve counted twice
      { "dgx_a100", "all_reduce", 0.13, { mib, 85.58, 2 * mib, 99.19, 4 * mib, 127.0, 8 * mib, 174.3,
        16 * mib, 282.7 } },
      -- skypilot-org/skypilot examples/gcp_gpu_direct_tcpx/README.md, H200, 8x 400 Gbit/s a node; 0.26
      { "dgx_h200", "all_gather", 0.21, { mib, 58.46, 2 * mib, 68.4, 4 * mib, 76.56, 8 * mib, 86.92, 16 * mib, 116.2,
        32 * mib, 174.4, 64 * mib, 278.1 } },
      -- dstackai/dstack examples/clusters/lambda/README.md, B200, 8x 400 Gbit/s a node; 0.29 with LL128
      { "dgx_b200", "all_reduce", 0.2, { mib, 115.58, 2 * mib, 114.44, 4 * mib, 118.25, 8 * mib, 141.39,
        16 * mib, 186.86, 32 * mib, 255.79, 64 * mib, 350.41, 512 * mib, 1625.63 } },
      -- crusoecloud/crusoe-ml-rke2 README.md, H100, NDR400: the better of two columns; 0.19 with LL128
      { "dgx_h100", "all_reduce", 0.17, { 256 * kib, 80.95, mib, 83.11, 4 * mib, 94.94, 16 * mib, 200.4,
        32 * mib, 262.0, 64 * mib, 474.3, 256 * mib, 1282.2, 1024 * mib, 4531.0 } } } do
      local name, kind, most, measured = table.unpack(case)
      local found = mean_error(name, kind, measured)
      assert.is_true(found < most, ("%s %s: %.3f"):format(name, kind, found))
    end
  end)

  it("times collectives of AMD's devices as rccl-tests measure them", function()
    local kib, mib = 1024, 1048576
    for _, case in ipairs {
      -- hisohara/ai-scripts training/01_rccl-smoketest/README.md, MI300X; 0.23 by rings alone. RCCL uses all pairs from
      -- 1 KiB on
      { "mi300x_node", 1, 0.05, { kib, 13.7, 4 * kib, 13.7, 16 * kib, 14.5, 64 * kib, 14.25, 128 * kib, 14.6,
        256 * kib, 17.46, 512 * kib, 27.3, mib, 28.39, 2 * mib, 36.68, 4 * mib, 52.96, 8 * mib, 84.78, 16 * mib, 149.9,
        32 * mib, 246.3, 64 * mib, 432.5, 128 * mib, 800.3, 256 * mib, 1540.4, 512 * mib, 3027.1, 1024 * mib, 5990.7,
        8192 * mib, 47617 } },
      -- another MI300X, after the rates of all pairs were chosen: rocm.blogs.amd.com, mi300x-rccl-xgmi; 0.24 by rings
      { "mi300x_node", 1, 0.05, { kib, 13.11, 4 * kib, 13.27, 16 * kib, 13.54, 64 * kib, 13.77, 128 * kib, 14.14,
        256 * kib, 16.87, 512 * kib, 24.41, mib, 27.42, 2 * mib, 34.81, 4 * mib, 51.72, 8 * mib, 83.68, 16 * mib, 148.8,
        32 * mib, 244.1, 64 * mib, 429.1, 128 * mib, 797.4, 512 * mib, 3026.2, 2048 * mib, 11891,
        16384 * mib, 94254 } },
      -- the first source, nodes of MI325X; 0.06 with the assumed links
      { "mi300x_node", 4, 0.04, { 4096 * mib, 23904, 16384 * mib, 94942 } },
      -- rocm-7.2 on two nodes of MI308X, which have MI300X's links ("mi308-ccs-aus", MSCCL off), not used to choose the
      -- sizes of protocols; 0.16 without LL128 trees and with the steps of NCCL's Simple
      { "mi300x_node", 2, 0.1, { kib, 40.86, 4 * kib, 45.41, 16 * kib, 46.49, 64 * kib, 50.34, 256 * kib, 64.23,
        mib, 70.21, 2 * mib, 81.85, 4 * mib, 94.9, 8 * mib, 229.6, 16 * mib, 335.9, 32 * mib, 431.3, 64 * mib, 673.5,
        256 * mib, 1748.4, 512 * mib, 3027.1, 1024 * mib, 6397.1 } },
      -- prasad-nair-amd/alibaba README.md, MI355X; 0.25 by Simple alone
      { "mi355x_node", 2, 0.11, { 16, 37.35, kib, 42.14, 4 * kib, 46.88, 16 * kib, 46.65, 64 * kib, 49.99, 128 * kib,
        51.33, 256 * kib, 60.19, 512 * kib, 62.27, mib, 69.03, 2 * mib, 76.38, 4 * mib, 88.58, 8 * mib, 110.24,
        16 * mib, 177.14, 32 * mib, 262.18, 64 * mib, 439.32, 128 * mib, 860.65, 256 * mib, 1355.74, 512 * mib,
        2668.77, 1024 * mib, 5302, 16384 * mib, 83456.7 } },
      -- the first source, two other nodes of MI355X
      { "mi355x_node", 2, 0.16, { 8, 40, kib, 47.2, 16 * kib, 55, 64 * kib, 59.2, 256 * kib, 67.2, 512 * kib, 69.3,
        mib, 81.4, 2 * mib, 98.5, 4 * mib, 118.6, 8 * mib, 165, 16 * mib, 260, 32 * mib, 391.6, 64 * mib, 613,
        128 * mib, 1042, 256 * mib, 1620, 512 * mib, 2870, 1024 * mib, 5525, 8192 * mib, 43640 } } } do
      local name, nodes, most, measured = table.unpack(case)
      local found = mean_error(name, "all_reduce", measured, nodes)
      assert.is_true(found < most, ("%s, %d nodes: %.3f"):format(name, nodes, found))
    end
    -- All_to_alls of MI355X, each device posts eight messages to the network: first source; 0.37 without their time
    local found = mean_error("mi355x_node", "all_to_all", { 256, 38.6, 4 * kib, 38.75, 64 * kib, 36.97, 256 * kib, 41,
      mib, 54.99, 4 * mib, 88, 16 * mib, 223.3, 1024 * mib, 11254 }, 2)
    assert.is_true(found < 0.06, found)
    -- All_to_alls in a node do not reach the rate of its rings: prasad-nair-amd/alibaba README.md, MI355X, and
    -- oci-ai-incubations/oci-gpu-quickstarts README-MI355X-Pollara.md, which did not choose the share; 0.16 without it
    found = mean_error("mi355x_node", "all_to_all", { 16 * mib, 59.45, 32 * mib, 101.79, 64 * mib, 196.69, 128 * mib,
      364.47, 8192 * mib, 20839, 16384 * mib, 41626 }, 1)
    assert.is_true(found < 0.08, found)
    -- 16 dies of MI250X, 64 bytes (ROCm/rccl pull requests 929 and 930, before); 110 and 59 us by Simple alone
    local dies = { name = "MI250X", gpus_per_node = 16, links = { intra = { bandwidth = 75e9 } },
      device = { vendor = "amd", generation = "cdna2" } }
    for kind, case in pairs { all_reduce = { 25.25, 0.05 }, all_gather = { 33.75, 0.4 } } do
      local us, most = table.unpack(case)
      assert.near(0, math.log(estimate(kind, 64, 1, 16, nil, dies).seconds * 1e6 / us), most, kind)
    end
  end)

  -- Calls check(cluster, time, nodes, ranks in a node) for groups on every cluster with a network. time(kind, bytes,
  -- alone): seconds for groups on all devices, or for one alone.
  local function on_clusters(check)
    local clusters = require "ett.profile.cluster"
    for _, name in ipairs(clusters.names()) do
      local on = clusters.get(name)
      local last = on.tiers and on.tiers[#on.tiers].size
      local most = not on.parts and (on.tiers or on.links.inter) and (last and last // on.gpus_per_node or 4096) or 0
      for _, nodes in ipairs { 1, 2, 4, 8, 256, 4096 } do
        for _, n in ipairs { 1, 2, 4, on.gpus_per_node } do
          local timers = {}
          local function time(kind, bytes, alone)
            local key = kind .. (alone and 1 or 2)
            timers[key] = timers[key] or collectives.timer(on, kind, { nodes = nodes, gpus_per_node = n,
              groups_per_node = alone and 1 or math.max(1, on.gpus_per_node // n) })
            return (timers[key](bytes))
          end
          if nodes * n > 1 and n <= on.gpus_per_node and nodes <= most then check(on, time, nodes, n) end
        end
      end
    end
  end

  it("keeps the laws of collectives on the links of every cluster", function()
    local count, kinds = 0, { "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast" }
    on_clusters(function(on, time, nodes, n)
      local before = {}
      for half = 0, 22 do -- to 100 GB
        local bytes, t = 10 ^ (half / 2), {}
        local function holds(law, what)
          assert.is_true(law, ("%s, %d x %d, %g bytes: %s"):format(on.name, nodes, n, bytes, what))
        end
        for _, kind in ipairs(kinds) do
          t[kind] = time(kind, bytes, true)
          holds(t[kind] >= (before[kind] or 0) * (1 - 1e-12), kind .. " rises with bytes")
          holds(time(kind, bytes) >= t[kind] * (1 - 1e-12), kind .. " of groups that share cards is not faster")
          before[kind] = t[kind]
        end
        local gather, scatter, reduce = t.all_gather, t.reduce_scatter, t.all_reduce
        holds(reduce <= 1.3 * (gather + scatter), "all_reduce by its two halves")
        if bytes >= 1e9 then -- an all_reduce of fewer bytes over many nodes is a tree, which gathers have not
          holds(t.broadcast <= 1.3 * gather * nodes * n / (nodes * n - 1), "broadcast by an all_gather")
          holds(nodes * n > 64 or reduce >= math.max(gather, scatter), "all_reduce takes longer than either half")
        end
        count = count + 1
      end
    end)
    assert.is_true(count > 5000, count)
  end)

  it("is not faster over nodes than in one", function()
    local count, inside = 0, {}
    on_clusters(function(on, time, nodes, n)
      -- Eight L40S in a node are slower than their cards: measured, PCIe without peer access.
      if on.name == "l40s_node" or nodes * n > 8 then return end
      for _, kind in ipairs(nodes * n == 2 and comm.kinds() or { "all_reduce", "all_gather", "all_to_all" }) do
        for digits = 8, 11 do
          local key = on.name .. kind .. digits .. "of" .. nodes * n
          local own = time(kind, 10.0 ^ digits)
          if nodes == 1 then inside[key] = own end
          local least = inside[key] or 0.0
          assert.is_true(least <= 1.02 * own, ("%s of %s, %d x %d, 1e%d bytes: %g s, in a node %g s"):format(kind,
            on.name, nodes, n, digits, own, least))
          count = count + (least > 0 and nodes > 1 and 1 or 0)
        end
      end
    end)
    assert.is_true(count > 1000, count)
  end)

  it("has no step where protocols meet, and is never faster than the links", function()
    local wires = { intra = { bandwidth = 400e9, ring_bandwidth = 300e9 }, inter = { bandwidth_per_gpu = 50e9,
      bandwidth_per_node = 400e9 } }
    for _, bandwidth in ipairs { 400e9, 30e9 } do
      wires.intra.bandwidth, wires.intra.ring_bandwidth = bandwidth, 0.75 * bandwidth
      local node, simple = { name = "new", gpus_per_node = 8, links = wires }, { name = "old", gpus_per_node = 8,
        links = wires, device = { vendor = "intel" } }
      for _, kind in ipairs(comm.kinds()) do
        for _, case in ipairs { { 1, 8 }, { 2, 8 }, { 16, 8 }, { 16, 1 } } do
          local before, bytes = 0.0, 8.0
          while bytes < 1e11 do
            local now = estimate(kind, bytes, case[1], case[2], nil, node).seconds
            assert.is_true(now >= before and (before == 0 or now < 1.31 * before), kind)
            -- NCCL's tuner has a time of posting messages, other libraries none.
            local posted = kind == "all_to_all" and case[1] > 1 and 1e-6 * (case[1] - 1) * case[2] + 1e-12 or 0.0
            assert.is_true(now <= estimate(kind, bytes, case[1], case[2], nil, simple).seconds + posted, kind)
            assert.is_true(now >= 0.5 * comm.factor(kind, 8) * bytes / 400e9, kind)
            before, bytes = now, 1.3 * bytes
          end
          assert.near(1, before / estimate(kind, bytes / 1.3, case[1], case[2], nil, simple).seconds, 1e-3, kind)
        end
      end
    end
  end)

  it("shares a node's cards between the groups on it", function()
    local alone = estimate("all_reduce", 1e10, 4, 1, 1)
    local shared = estimate("all_reduce", 1e10, 4, 1, 8)
    assert.near(25e9, alone.bus_bandwidth, 1)
    assert.near(25e9, shared.bus_bandwidth, 1) -- eight cards, eight groups
    inter.bandwidth_per_node = 100e9 -- four cards
    assert.near(12.5e9, estimate("all_reduce", 1e10, 4, 1, 8).bus_bandwidth, 1)
    assert.near(100e9, estimate("all_reduce", 1e10, 4, 8).bus_bandwidth, 1)
    inter.bandwidth_per_node = 200e9
  end)

  it("reads a measured curve, and extends it below by the line through its first two points", function()
    local curve = { 1e6, 20e9, 1e8, 180e9 }
    local measured = { name = "measured", gpus_per_node = 8,
      links = { intra = { bandwidth = 200e9, curves = { [8] = curve } } } }
    local function at(bytes) return estimate("all_reduce", bytes, 1, 8, nil, measured) end
    assert.near(1e8 * 1.75 / 180e9, at(1e8).seconds, 1e-12)
    assert.near(1e6 * 1.75 / 20e9, at(1e6).seconds, 1e-12)
    local slope = (at(1e8).seconds - at(1e6).seconds) / (1e8 - 1e6)
    assert.near(at(1e6).seconds - slope * (1e6 - 10), at(10).seconds, 1e-12)
    assert.near(60e9, at(1e7).bus_bandwidth, 1) -- geometric mean: the middle on a logarithmic scale
    assert.near(60e9, comm.curve_at(curve, 1e7), 1)
    assert.equal(180e9, comm.curve_at(curve, 1e9))
    local last = 0
    for size = 0, 10 do
      local seconds = 10 ^ size / comm.curve_at(curve, 10 ^ size)
      assert.is_true(seconds > last)
      last = seconds
    end
  end)

  it("refuses a law whose fields differ at their second reading", function()
    local line, law = { { moved = 1, bandwidth = 1 } }, comm.law
    collectgarbage("incremental", 100, 1000, 63) -- the finaliser runs at the first allocation of the call
    collectgarbage "stop"
    setmetatable({}, { __gc = function() line[1].curve = { 1, 1, 2, 2 } end })
    collectgarbage "restart"
    local _, why = pcall(law, line)
    collectgarbage("incremental", 200, 100, 13)
    assert.matches("a line of the law changed while it was read", why)
  end)

  it("takes the fastest of several laws, each limited by its slowest stream", function()
    local curve = { 1e4, 5e9, 1e6, 20e9, 1e9, 25e9 }
    for seed = 1, 50 do
      local function between(a, b) return a + (b - a) * (seed * (a + 3) * 0.618 % 1) end
      local laws, best = {}, { math.huge }
      local bytes = between(1e3, 1e9)
      for i = 1, 1 + seed % 4 do
        laws[i] = { start = between(i * 1e-4, 1e-2) }
        local slowest = 0.0
        for k = 1, (seed + i) % 5 do
          local stream = { moved = between(k / i, 3), bandwidth = k == 2 and 0.9 or between(k * 1e8, 4e10),
            curve = k == 2 and curve or nil }
          laws[i][k] = stream
          slowest = math.max(slowest, stream.moved * bytes / (stream.bandwidth * (k == 2 and comm.curve_at(curve, bytes)
            or 1)))
        end
        if laws[i].start + slowest < best[1] then best = { laws[i].start + slowest, i, slowest } end
      end
      local seconds, line, slowest, moved, bandwidth = comm.law(table.unpack(laws)):time(bytes)
      assert.same(best, { seconds, line, slowest })
      assert.equal(slowest, bandwidth > 0 and moved * bytes / bandwidth or 0.0)
    end
  end)

  it("agrees with published measurements of eight H100", function()
    local cluster_module = require "ett.profile.cluster"
    local dgx = cluster_module.get "dgx_h100"
    -- NVIDIA/dgxc-benchmarking v25.10.02 nccl/README.md: 64 MiB in 324.7 us, 1 GiB in 4029.4 us
    for bytes, us in pairs { [67108864] = 324.7, [1073741824] = 4029.4 } do
      local answer = cluster_module.collective(dgx, "all_reduce", bytes, { nodes = 1, gpus_per_node = 8 })
      assert.near(us, answer.seconds * 1e6, us * 0.01)
      assert.equal("calibrated", answer.provenance)
    end
  end)

  it("gives one placement the same times for every kind and cluster, in any order", function()
    local curves = { all_reduce = { [8] = { 1e3, 1e9, 1e9, 3e11 } }, all_gather = { [8] = { 1e3, 5e8, 1e9, 2e11 } } }
    local measured = { name = "measured", gpus_per_node = 8, links = { inter = inter,
      intra = { bandwidth = 200e9, latency = 3e-6, curves = curves } } }
    local kinds = { "all_reduce", "all_gather", "send_recv", "reduce_scatter", "send_recv", "all_to_all" }
    for _, nodes in ipairs { 1, 2 } do
      local one = { nodes = nodes, gpus_per_node = 8, groups_per_node = 1 } -- its tiers may be kept
      for _, on in ipairs { cluster, measured, cluster } do
        for _, kind in ipairs(kinds) do
          assert.same(estimate(kind, 1e6, nodes, 8, 1, on), collectives.time(on, kind, 1e6, one), kind)
        end
      end
    end
  end)

  it("reports missing and wrong arguments", function()
    assert.matches("2 nodes need the cluster's links.inter, with 'bandwidth_per_gpu' and 'bandwidth_per_node'",
      raised(estimate, "all_reduce", 1, 2, 1, nil, { name = "alone", gpus_per_node = 1, links = {} }), 1, true)
    assert.matches("2 ranks in a node need the cluster's links.intra.bandwidth",
      raised(estimate, "all_reduce", 1, 1, 2, nil, { name = "alone", gpus_per_node = 2, links = {} }), 1, true)
    assert.matches("ascending sizes", raised(comm.curve_at, { 2, 1e9, 1, 1e9 }, 1), 1, true)
    assert.matches("at least one point", raised(comm.curve_at, {}, 1), 1, true)
    assert.matches("pairs", raised(comm.curve_at, { 1 }, 1), 1, true)
    for wanted, line in pairs { ["line 1: stream 1 must be a table, got number"] = { 5 },
      ["field 'curve' must be a table, got number"] = { { curve = 5 } },
      ["a stream needs 'moved' of at least 0 and a positive 'bandwidth'"] = { { moved = 1 } } } do
      assert.matches(wanted, raised(comm.law, line), 1, true)
    end
  end)
end)
