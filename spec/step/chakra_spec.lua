-- Chakra execution traces, read by a decoder and replayed by a simulator that are written here.
local chakra = require "ett.step.chakra"
local estimate = require "ett.step.estimate"
local folder = require "ett.base.folder"
local json = require "ett.json"
local model = require "ett.model"
local timeline = require "ett.step.timeline"

local function read(path) return assert(require("ett.io").read(path)) end

local function varint(text, at)
  local n, shift = 0, 0
  repeat
    local byte = text:byte(at)
    n, shift, at = n | (byte & 127) << shift, shift + 7, at + 1
  until byte < 128
  return n, at
end

--- Calls visit(field, value) for each field of a message.
local function fields(text, visit)
  local at = 1
  while at <= #text do
    local key, value
    key, at = varint(text, at)
    if key & 7 == 0 then value, at = varint(text, at) else
      assert.equal(2, key & 7)
      local length
      length, at = varint(text, at)
      value, at = text:sub(at, at + length - 1), at + length
      assert.equal(length, #value)
    end
    visit(key >> 3, value)
  end
end

local types = { [4] = "compute", [5] = "send", [6] = "receive", [7] = "collective" }

local function nodes_of(path)
  local text, list, at = read(path), {}, 1
  while at <= #text do
    local length
    length, at = varint(text, at)
    local node = { deps = {} }
    fields(text:sub(at, at + length - 1), function(field, value)
      if field == 1 then node.id = value elseif field == 2 then node.name = value
      elseif field == 3 then node.type = types[value] elseif field == 5 then table.insert(node.deps, value)
      elseif field == 7 then node.micros = value elseif field == 10 then
        local name, content
        fields(value, function(f, v) if f == 1 then name = v else content = v end end)
        node[name] = content
      end
    end)
    if node.type then list[#list + 1] = node else assert.equal("0.0.4", node.id) end
    at = at + length
  end
  return list
end

--- When each rank ends: a node runs after its inputs; a receive ends with its send, a collective when its last
--- rank has started and its time has passed.
local function replay(ranks, groups)
  local done, left, sent, started = {}, 0, {}, {}
  for r, nodes in pairs(ranks) do
    done[r] = {}
    left = left + #nodes
  end
  local turns = {}
  while left > 0 do
    local moved = false
    for r, nodes in pairs(ranks) do
      local waiting = turns[r] or nodes
      local rest = {}
      for _, node in ipairs(waiting) do
        local start = 0
        for _, dep in ipairs(node.deps) do start = start and done[r][dep] and math.max(start, done[r][dep]) end
        local stop
        if start and node.type == "receive" then
          stop = sent[("%d %d %d"):format(node.comm_src, node.comm_dst, node.comm_tag)]
        elseif start and node.type == "collective" then
          node.key = node.key or ("%s %d"):format(node.pg_name, node.order)
          local mine = started[node.key] or {}
          started[node.key], mine[r] = mine, start
          local latest = 0
          for _, member in ipairs(groups[node.pg_name]) do
            latest = latest and mine[member] and math.max(latest, mine[member])
          end
          stop = latest and latest + node.micros
        elseif start then
          stop = start + node.micros
          if node.type == "send" then sent[("%d %d %d"):format(node.comm_src, node.comm_dst, node.comm_tag)] = stop end
        end
        if stop then
          done[r][node.id], moved, left = stop, true, left - 1
        else
          rest[#rest + 1] = node
        end
      end
      turns[r] = rest
    end
    assert(moved, "the traces wait for each other")
  end
  local last = 0
  for _, mine in pairs(done) do for _, stop in pairs(mine) do last = math.max(last, stop) end end
  return last
end

describe("Chakra execution traces", function()
  local m = model.new("llama", { layers = 4, hidden = 1024, heads = 16, vocab = 32000 })
  local moe = model.new("mixtral", { layers = 4, hidden = 1024, heads = 16, vocab = 32000, ffn = 2048, experts = 8,
    top_k = 2 })
  local deep = model.new("llama", { layers = 6, hidden = 1024, heads = 16, vocab = 32000 })
  for name, plan in pairs {
    ["1f1b"] = { pp = 2, tp = 2, dp = 2, micro_batches = 2 }, gpipe = { pp = 4, micro_batches = 2, schedule = "gpipe" },
    ["V-shaped"] = { pp = 2, vp = 2, micro_batches = 4, schedule = "zb_v" },
    ["waits for the host in split passes"] = { pp = 2, micro_batches = 4, schedule = "zb_h1",
      stack = "plain:graphs=false:launch_seconds=1e-3" },
    ["two-way"] = { pp = 4, micro_batches = 4, schedule = "chimera" },
    ["replicas outside"] = { pp = 2, tp = 2, dp = 2, micro_batches = 2, rank_order = "tp-cp-ep-pp-dp" },
    ["stages inside"] = { pp = 2, tp = 2, cp = 2, micro_batches = 2, rank_order = "pp-tp-cp-ep-dp" },
    ["hidden by products"] = { pp = 2, tp = 4, micro_batches = 2, sequence_parallel = true, overlap_tensor = true },
    ["hidden by products of Megatron"] = { pp = 2, tp = 4, micro_batches = 2, sequence_parallel = true,
      stack = "megatron", recompute = "full" },
    ["hidden by attention"] = { pp = 2, tp = 2, cp = 4, micro_batches = 2, cp_method = "ring", stack = "megatron" },
    ["hidden by attention, without launches"] = { pp = 2, cp = 4, micro_batches = 2, cp_method = "ring" },
    ["hidden by attention after a gather"] = { pp = 2, cp = 4, micro_batches = 2,
      stack = "plain:context_parallel=torch" },
    ["hidden by attention of a ring with exchanges"] = { pp = 2, cp = 4, cp_ulysses = 2, micro_batches = 2,
      stack = "megatron" },
    ["hidden by pairs"] = { pp = 2, dp = 4, ep = 4, micro_batches = 4, overlap_all_to_all = "batch" },
    ["hidden by pairs of DualPipe"] = { pp = 2, dp = 4, ep = 4, micro_batches = 4, overlap_all_to_all = "batch",
      schedule = "dualpipe" },
    ["messages in parts"] = { pp = 2, tp = 4, micro_batches = 4, scatter_sends = true },
    ["messages in parts of DeepSpeed"] = { pp = 4, tp = 2, micro_batches = 4, scatter_sends = true,
      serial_sends = true },
    ["messages in parts, V-shaped"] = { pp = 2, vp = 2, tp = 2, micro_batches = 4, schedule = "zb_v",
      scatter_sends = true },
    ["messages in parts on two ways"] = { pp = 4, tp = 2, micro_batches = 4, schedule = "chimera",
      scatter_sends = true },
    ["gathers of weights, messages in parts"] = { pp = 2, tp = 2, dp = 2, zero = 3, micro_batches = 2,
      scatter_sends = true },
    ["sums over replicas of shards"] = { pp = 2, dp = 4, shard = 2, zero = 1, micro_batches = 2 },
    ["sums over replicas on two ways"] = { pp = 4, dp = 4, shard = 2, zero = 2, micro_batches = 4,
      schedule = "chimera" },
    ["gathers of weights"] = { pp = 2, dp = 4, zero = 3, micro_batches = 2 },
    ["gathers of weights beside passes"] = { pp = 2, dp = 4, zero = 3, micro_batches = 2, overlap_parameters = true },
    ["gathers of weights that slow passes"] = { pp = 2, dp = 4, zero = 3, micro_batches = 2, stack = "torchtitan" },
    ["gathers of weights and experts"] = { pp = 2, dp = 8, ep = 4, zero = 3, micro_batches = 2 },
    ["gathers of weights on two ways"] = { pp = 6, dp = 2, zero = 3, micro_batches = 6, schedule = "chimera" },
    ["gathers of weights in pairs"] = { pp = 4, dp = 2, zero = 3, micro_batches = 8, schedule = "dualpipe" },
  } do
    it("replay in the predicted time, with the whole time of collectives: " .. name, function()
      plan.seq, plan.clip_gradients = 1024, false
      local e = estimate.new { model = plan.ep and moe or plan.pp == 6 and deep or m, plan = plan,
        cluster = "dgx_h100", units = true }
      folder.within(function(place)
        chakra.write(e, place .. "/new/traces")
        local groups = json.decode(read(place .. "/new/traces/comm_groups.json"))
        local ranks, sends, receives, micros = {}, 0, 0, {}
        for r = 0, e.devices - 1 do
          ranks[r] = nodes_of(("%s/new/traces/step.%d.et"):format(place, r))
          local order = {}
          for i, node in ipairs(ranks[r]) do
            assert.equal(i - 1, node.id)
            assert.equal(0, node.is_cpu_op)
            for _, dep in ipairs(node.deps) do assert.is_true(dep < node.id) end
            sends, receives = sends + (node.type == "send" and 1 or 0), receives + (node.type == "receive" and 1 or 0)
            if node.type == "collective" then
              order[node.pg_name] = (order[node.pg_name] or 0) + 1
              node.order = order[node.pg_name]
              micros[node.name] = (micros[node.name] or 0) + node.micros / e.devices
              local inside = false
              for _, member in ipairs(groups[node.pg_name]) do inside = inside or member == r end
              assert.is_true(inside)
            end
          end
        end
        assert.equal(sends, receives)
        assert.is_true(sends > 0)
        assert.near(1, replay(ranks, groups) / 1e6 / e.step_seconds, 0.01)
        local expected, hidden, gathers = {}, 0.0, 0.0
        local function count(part, seconds)
          if micros[part.name] then
            expected[part.name] = (expected[part.name] or 0.0) + seconds * 1e6 / e.plan.pp
          end
        end
        for _, stage in ipairs(timeline.of(e).stages) do
          for _, unit in ipairs(stage.units) do
            for _, part in ipairs(unit.parts) do
              count(part, part.length)
              hidden = hidden + part.hidden
              if part.resource == "wait" and part.gathers[1] then
                gathers = gathers + part.gathers.seconds
                count({ name = "all_gather" }, math.min(part.seconds, part.gathers.seconds))
              end
            end
          end
          for _, message in ipairs(stage.messages) do if message.exposed then count(message, message.seconds) end end
        end
        for kind, seconds in pairs(expected) do assert.near(seconds, micros[kind], 2 + 0.01 * seconds, kind) end
        assert.equal(name:find "^hidden" ~= nil, hidden > 0)
        assert.equal(name:find "^gathers" ~= nil, gathers > 0)
      end)
    end)
  end

  it("state the bytes of each message between stages, and groups of both stages of a two-way schedule", function()
    local t5 = model.new("encoder_decoder", { layers = 4, encoder_layers = 4, hidden = 1024, heads = 16, ffn = 4096,
      vocab = 32000, encoder_seq = 512 })
    folder.within(function(place)
      chakra.write(estimate.new { model = t5, plan = { pp = 4, seq = 2048, micro_batches = 2 }, cluster = "dgx_h100",
        units = true }, place)
      local encoded, all = 2 * 1024 * 512, 2 * 1024 * (512 + 2048)
      for r = 0, 3 do
        for _, node in ipairs(nodes_of(("%s/step.%d.et"):format(place, r))) do
          if node.comm_src then
            assert.equal(math.max(node.comm_src, node.comm_dst) == 3 and all or encoded, node.comm_size)
          end
        end
      end
      chakra.write(estimate.new { model = m, plan = { pp = 4, seq = 1024, micro_batches = 4, schedule = "chimera" },
        cluster = "dgx_h100", units = true }, place)
      local groups = json.decode(read(place .. "/comm_groups.json"))
      assert.same({ ["1"] = { 0, 3 }, ["2"] = { 1, 2 } }, groups)
    end)
  end)

  it("state the input of a rank for gathers, and the whole input of other collectives", function()
    folder.within(function(place)
      chakra.write(estimate.new { model = m, plan = { tp = 4, seq = 1024, micro_batches = 1, sequence_parallel = true },
        cluster = "dgx_h100", units = true }, place)
      local found, all = {}, 1024 * 1024 * 2
      for _, node in ipairs(nodes_of(place .. "/step.0.et")) do
        if node.comm_type then found[node.name .. " " .. node.comm_size] = true end
      end
      assert.is_true(found["all_gather " .. all // 4] and found["reduce_scatter " .. all])
      assert.is_nil(found["all_gather " .. all])
    end)
  end)

  it("state the gathers of messages that arrive in parts, over tensor ranks", function()
    for serial, times in pairs { [false] = 1, [true] = 2 } do
      folder.within(function(place)
        chakra.write(estimate.new { model = m, plan = { pp = 2, tp = 2, seq = 1024, micro_batches = 3,
          scatter_sends = true, serial_sends = serial }, cluster = "dgx_h100", units = true }, place)
        local groups = json.decode(read(place .. "/comm_groups.json"))
        for r = 0, 3 do
          local gathers = 0
          for _, node in ipairs(nodes_of(("%s/step.%d.et"):format(place, r))) do
            assert.is_nil(node.name:find "gathers of")
            if node.name == "all_gather" then
              gathers = gathers + 1
              assert.equal(2 * 1024 * 1024 // 2, node.comm_size) -- the rank's half
              assert.same({ r // 2 * 2, r // 2 * 2 + 1 }, groups[node.pg_name])
              assert.is_true(node.micros > 0)
            end
          end
          assert.equal(r < 2 and 3 * times or 3, gathers) -- activations once, gradients once or with the own output
        end
      end)
    end
  end)

  it("state sums of shards over their replicas, in groups of their own", function()
    folder.within(function(place)
      chakra.write(estimate.new { model = m, plan = { dp = 4, shard = 2, zero = 1, seq = 1024, micro_batches = 1 },
        cluster = "dgx_h100", units = true }, place)
      local groups, found = json.decode(read(place .. "/comm_groups.json")), {}
      for _, node in ipairs(nodes_of(place .. "/step.1.et")) do
        if node.comm_type then found[node.name] = { node.comm_size, groups[node.pg_name] } end
      end
      assert.same({ 0, 1 }, found.reduce_scatter[2])
      assert.same({ 1, 3 }, found.all_reduce[2])
      assert.near(found.reduce_scatter[1] / 2, found.all_reduce[1], 1)
    end)
  end)

  it("mark the host's part of an update", function()
    local e = estimate.new { model = m, plan = { dp = 2, seq = 1024, micro_batches = 2, offload_optimizer = 0.5 },
      cluster = "dgx_h100", units = true }
    folder.within(function(place)
      chakra.write(e, place)
      local micros = {}
      for _, node in ipairs(nodes_of(place .. "/step.0.et")) do
        if node.name:find "optimizer" then micros[node.is_cpu_op] = node.micros end
      end
      local s = e.stages[1]
      assert.near(s.optimizer_kernel_seconds * 1e6, micros[0], 1)
      assert.near((s.optimizer_seconds - s.optimizer_kernel_seconds) * 1e6, micros[1], 1)
    end)
  end)

  it("are refused where they would be too large, and with a map of ranks", function()
    local e = estimate.new { model = m, plan = { pp = 2, seq = 1024, micro_batches = 4 }, cluster = "dgx_h100",
      units = true }
    local most = chakra.most_nodes
    chakra.most_nodes = 10
    local ok, why = pcall(chakra.write, e, "/nowhere")
    chakra.most_nodes = most
    assert.is_false(ok)
    assert.matches("nodes on 2 ranks are more than 10; give fewer", tostring(why))
    e = estimate.new { model = m, plan = { pp = 2, seq = 1024, micro_batches = 4, rank_map = { 1, 0 } },
      cluster = "dgx_h100", units = true }
    ok, why = pcall(chakra.write, e, "/nowhere")
    assert.is_false(ok)
    assert.matches("cannot state a rank_map", tostring(why))
  end)
end)
