--- What `ett cluster init` reads from a machine and writes to the cluster file.
local cluster_init = require "ett.sampling.cluster_init"
local ett_io = require "ett.io"
local fits = require("needs").fitting(it, pending)

describe("ett.sampling.cluster_init", function()
  it("finds the cards that are up and their rates, InfiniBand's too", function()
    local root = os.tmpname()
    os.remove(root)
    for path, text in pairs {
      ["net/lo/operstate"] = "up\n", ["net/lo/speed"] = "10\n",
      ["net/eth0/operstate"] = "up\n", ["net/eth0/speed"] = "25000\n", ["net/eth0/device/vendor"] = "0x15b3\n",
      ["net/eth1/operstate"] = "down\n", ["net/eth1/speed"] = "100000\n",
      ["net/wlan0/operstate"] = "up\n", ["net/wlan0/speed"] = "-1\n",
      ["infiniband/mlx5_0/ports/1/rate"] = "400 Gb/sec (4X NDR)\n",
      ["infiniband/mlx5_1/ports/1/state"] = "4: ACTIVE\n", ["infiniband/mlx5_2/ports/1/state"] = "1: DOWN\n",
      ["infiniband/mlx5_2/ports/1/rate"] = "10 Gb/sec (4X SDR)\n",
    } do
      assert(ett_io.make_folder(("%s/class/%s"):format(root, path:match "^(.*)/")))
      assert(ett_io.write(("%s/class/%s"):format(root, path), text))
    end
    local cards = cluster_init.network_cards(root)
    require("command").remove(root)
    assert.same({ { name = "eth0", megabits = 25000, kind = "ethernet" }, { name = "wlan0", kind = "virtual" },
      { name = "mlx5_0", megabits = 400000, kind = "infiniband" }, { name = "mlx5_1", kind = "infiniband" } }, cards)
    assert.same({}, cluster_init.network_cards(root))
  end)

  it("writes a cluster file that reads back, cards in its head", function()
    local facts = { host = "box", processors = 4, numa_nodes = 1, memory_bytes = 64e9, date = "2026-01-02",
      no_wire = "no mpirun here:\ninstall openmpi-bin",
      unusable_gpu = "cuda: starting the driver:\nsystem not yet initialized",
      cards = { { name = "mlx5_0", megabits = 400000 }, { name = "wlan0" } },
      cpu = { device = "a processor", flops = 5e10, bandwidth = 1.2e10 } }
    local text = cluster_init.text("mine", facts)
    assert.matches("-- network card mlx5_0: 400000 Mbit/s\n", text, 1, true)
    assert.matches("-- network card wlan0: speed unknown\n", text, 1, true)
    local cluster = require("ett.profile.cluster").get(assert(load(text))())
    assert.equal(4, cluster.gpus_per_node)
    assert.equal(16e9, cluster.device.memory_bytes)
    assert.equal(6e9, cluster.links.intra.bandwidth) -- no MPI: half the memory's
    assert.is_true(cluster.device.probed)
    local model = require("ett.model").new("llama", { layers = 2, hidden = 256, heads = 4, vocab = 1000 })
    local plan = { seq = 128, micro_batches = 2, tp = 2, dtype = "fp32" }
    local e = require("ett.step.estimate").new { model = model, cluster = cluster, plan = plan }
    plan.stack = "plain"
    local plain = require("ett.step.estimate").new { model = model, cluster = cluster, plan = plan }
    local stage = e.stages[1]
    assert.same({ 0, 0, 0 }, { stage.context_bytes, stage.communicator_bytes, stage.workspace_bytes }) -- those of GPUs
    assert.equal(plain.step_seconds, e.step_seconds)
    assert.is_true(e.memory_bytes < plain.memory_bytes - 0.9e9)
    assert.matches("half the memory's bandwidth: no mpirun here: install openmpi-bin.\n", text, 1, true)
    assert.matches("^measured by ett cluster init on 2026%-01%-02: ", cluster.device.source)
    assert.matches("-- No GPU could be used: cuda: starting the driver: system not yet initialized.\n", text, 1, true)
  end)

  it("writes processors whose messages take at least the measured latency of one", function()
    local text = cluster_init.text("mine", { host = "box", processors = 4, numa_nodes = 1, memory_bytes = 64e9,
      date = "2026-01-02", cards = {}, cpu = { device = "a processor", flops = 5e10, bandwidth = 1.2e10 },
      wire = { bandwidth = 2e9, send_bandwidth = 2e9, latency = 45.26e-6 } })
    local by_stack = text:gsub("vendor = \"cpu\"[^\n]*\n", "")
    local by_vendor = text:gsub("stack = \"cpu\",", "")
    assert.is_true(by_stack ~= text and by_vendor ~= text)
    for _, written in ipairs { text, by_stack, by_vendor } do
      local cluster = require("ett.profile.cluster").get(assert(load(written))())
      for _, kind in ipairs(require("ett.comm").kinds()) do
        local seconds = require("ett.profile.network.collectives").time(cluster, kind, 8,
          { nodes = 1, gpus_per_node = 2 }).seconds
        assert.is_true(seconds >= 45.26e-6, ("%s: %g s"):format(kind, seconds))
        -- No start of a GPU's kernel: the two steps of an all_reduce are the slowest.
        assert.is_true(seconds < 2.01 * 45.26e-6, ("%s: %g s"):format(kind, seconds))
        assert.is_true(kind ~= "send_recv" or seconds < 1.01 * 45.26e-6, ("%s: %g s"):format(kind, seconds))
      end
    end
  end)

  it("takes the best of at least ten undisturbed repeats of a message, and says that there were fewer", function()
    local cpu, mpirun = require("ett.base.find").load("samplers", "cpu"), require "ett.sampling.mpirun"
    if not cpu.available() then pending "the CPU back end is not built here" end
    if require("ett.sample").processors() < 2 then pending "one processor has no links" end
    local available, run = mpirun.available, mpirun.run
    finally(function() mpirun.available, mpirun.run = available, run end)
    local asked = {}
    local world = { time = function(_, message)
      asked[#asked + 1] = message
      return { seconds = 1, min_seconds = #asked % 3 == 1 and 1e-6 or 1e-3 + 2e-6, repeats = 20,
        dropped = 10 + #asked % 3 }
    end }
    function mpirun.available() return true end
    function mpirun.run(_, arguments)
      local said
      local parts = { require = function() return { open = function() return { rank = 0, world = world } end } end,
        io = { stdout = { write = function(_, text) said = text end } } }
      assert(loadfile(arguments:match "^run '?([^']*)'?$", "t", setmetatable(parts, { __index = _G })))()
      return said
    end
    local facts = cluster_init.look "cpu"
    assert.equal(3, #asked)
    for _, message in ipairs(asked) do assert.equal(10, message.min_repeats) end
    assert.near(4194304 / 1.001e-3, facts.wire.send_bandwidth, 1)
    assert.near(4194304 / 1e-3, facts.wire.bandwidth, 1)
    assert.equal(1e-6, facts.wire.latency)
    local text = cluster_init.text("mine", facts)
    assert.matches("-- The link was measured on a busy machine: 8 undisturbed repeats of a message.", text, 1, true)
    assert.equal(1e-6, require("ett.profile.cluster").get(assert(load(text))()).links.intra.latency)
    facts.wire.repeats = 10
    assert.is_nil(cluster_init.text("mine", facts):find("busy machine", 1, true))
  end)

  fits("was on a busy machine if samples are faster than its rates: estimates say so", function()
    local folder = require("command").folder()
    local lines = { "mp,b,l,dim,F_dur(us),B_dur(us)" }
    for b = 1, 5 do
      for dim = 256, 1024, 64 do
        local us = 2.0 * b * 256 * dim * 3 * dim / 6e10 * 1e6
        lines[#lines + 1] = ("1,%d,256,%d,%.3f,%.3f"):format(b, dim, us, 2 * us)
      end
    end
    assert(ett_io.write(folder .. "/aprocessor_linear1_fp32.csv", table.concat(lines, "\n") .. "\n"))
    local model = require("ett.model").new("gpt", { layers = 2, hidden = 512, heads = 8, vocab = 1000 })
    local function warned(flops)
      local facts = { host = "box", processors = 1, numa_nodes = 1, memory_bytes = 64e9, date = "2026-01-02",
        cards = {}, cpu = { device = "aprocessor", flops = flops, bandwidth = 1.2e10 } }
      local given = assert(load(cluster_init.text("mine", facts)))()
      given.profile = folder
      local e = require("ett.step.estimate").new { model = model, cluster = given,
        plan = { seq = 256, micro_batches = 2, dtype = "fp32" } }
      return table.concat(e.warnings, "; ")
    end
    local sentence = "linear_qkv, linear_proj, linear_up, linear_down, lm_head: the samples are faster than the "
      .. "cluster's rates, which limit the times; measure the rates again on an idle machine (`ett cluster init`)"
    local slow, quick = warned(4e10), warned(7e10)
    require("command").remove(folder)
    assert.is_truthy(slow:find(sentence, 1, true), slow)
    assert.is_nil(quick:find("faster than the cluster's rates", 1, true), quick)
  end)

  local function gpu_facts(cards)
    return { host = "box", processors = 64, numa_nodes = 2, memory_bytes = 1e12, date = "2026-01-02", cards = cards,
      gpu = { count = 8, name = "NVIDIA \"X\" 80GB", multiprocessors = 100, memory_bytes = 80e9, capability = 80,
        peaks = { fp32 = 1.9e13, bf16 = 2.8e14 }, sustained = { fp32 = 1.8e13, bf16 = 2.6e14 }, size = 8192,
        bandwidth = 1.7e12, copy_bytes = 256 << 20,
        link = { bandwidth = 2.7e11, direct = true, bytes = 256 << 20, other = "NVIDIA Y" } } }
  end

  it("writes GPUs with the network of the node's cards, InfiniBand's before Ethernet's", function()
    local text = cluster_init.text("mine", gpu_facts { { name = "eth0", megabits = 100000, kind = "ethernet" },
      { name = "mlx5_0", megabits = 400000, kind = "infiniband" }, { name = "mlx5_1", kind = "infiniband" },
      { name = "mlx5_2", megabits = 200000, kind = "infiniband" } })
    local cluster = require("ett.profile.cluster").get(assert(load(text))())
    assert.equal(8, cluster.gpus_per_node)
    assert.equal("NVIDIAX80GB", cluster.device.name)
    assert.equal(100, cluster.device.multiprocessors)
    assert.same({ fp32 = 1.9e13, bf16 = 2.8e14 }, cluster.device.peak_flops)
    assert.same({ fp32 = 1.8e13, bf16 = 2.6e14 }, cluster.device.measured_flops)
    assert.is_true(cluster.device.probed)
    assert.equal(2.7e11, cluster.links.intra.bandwidth)
    -- 400 and 200 Gbit/s at 85 %.
    assert.equal(42.5e9, cluster.links.inter.bandwidth_per_gpu)
    assert.equal(63.75e9, cluster.links.inter.bandwidth_per_node)
    assert.matches("not measured", cluster.links.inter.source, 1, true)
    assert.matches("-- GPU 1 is a NVIDIA Y: the device below is GPU 0.\n", text, 1, true)
  end)

  it("writes no network without a physical card of known rate", function()
    local text = cluster_init.text("mine", gpu_facts { { name = "docker0", megabits = 10000, kind = "virtual" },
      { name = "eth0", kind = "ethernet" } })
    assert.is_nil(require("ett.profile.cluster").get(assert(load(text))()).links.inter)
  end)

  it("asks for a back end that it has", function()
    local ok, err = pcall(require("ett.base.options").parse, require "ett.cli.commands.cluster",
      { "init", "mine", "--backend=cudaa" })
    assert.is_false(ok)
    assert.equal("cluster: option '--backend' must be one of cpu, cuda, got 'cudaa'; did you mean 'cuda'?", err.message)
  end)
end)
