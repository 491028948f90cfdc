--- What `ett cluster init` reads of a machine and writes down.
local cluster_init = require "ett.cluster_init"
local ett_io = require "ett.io"

describe("ett.cluster_init", function()
  it("finds the cards that are up and their rates, InfiniBand's too", function()
    local root = os.tmpname()
    os.remove(root)
    for path, text in pairs {
      ["net/lo/operstate"] = "up\n", ["net/lo/speed"] = "10\n",
      ["net/eth0/operstate"] = "up\n", ["net/eth0/speed"] = "25000\n",
      ["net/eth1/operstate"] = "down\n", ["net/eth1/speed"] = "100000\n",
      ["net/wlan0/operstate"] = "up\n", ["net/wlan0/speed"] = "-1\n",
      ["infiniband/mlx5_0/ports/1/rate"] = "400 Gb/sec (4X NDR)\n",
      ["infiniband/mlx5_1/ports/1/state"] = "4: ACTIVE\n",
    } do
      assert(ett_io.make_folder(("%s/class/%s"):format(root, path:match "^(.*)/")))
      assert(ett_io.write(("%s/class/%s"):format(root, path), text))
    end
    local cards = cluster_init.network_cards(root)
    os.execute(("rm -r '%s'"):format(root))
    assert.same({ { name = "eth0", megabits = 25000 }, { name = "wlan0" }, { name = "mlx5_0", megabits = 400000 },
      { name = "mlx5_1" } }, cards)
    assert.same({}, cluster_init.network_cards(root))
  end)

  it("writes a cluster file that reads back, cards in its head", function()
    local facts = { host = "box", processors = 4, numa_nodes = 1, memory_bytes = 64e9,
      cards = { { name = "mlx5_0", megabits = 400000 }, { name = "wlan0" } },
      cpu = { device = "a processor", flops = 5e10, bandwidth = 1.2e10 } }
    local text = cluster_init.text("mine", facts)
    assert.matches("-- network card mlx5_0: 400000 Mbit/s\n", text, 1, true)
    assert.matches("-- network card wlan0: speed unknown\n", text, 1, true)
    local cluster = require("ett.cluster").get(assert(load(text))())
    assert.equal(4, cluster.gpus_per_node)
    assert.equal(16e9, cluster.device.memory_bytes)
    assert.equal(6e9, cluster.links.intra.bandwidth) -- no MPI: half the memory's
    assert.matches("install openmpi-bin", text, 1, true)
  end)
end)
