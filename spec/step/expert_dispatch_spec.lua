--- Bytes around experts: against Megatron-Core's all-to-all dispatcher, played rank by rank and token by token.
local architecture = require "ett.model.architecture"
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local model_module = require "ett.model"

--- Copies of tokens that each rank puts into the exchange and holds for its experts. Ranks: tensor fastest, then data.
-- Each rank starts with its shard of its replica's tokens. Copy j of token t goes to expert (t * k + j) mod experts.
local function play(given)
  local tp, dp, ep, etp, k = given.tp, given.dp, given.ep, given.etp, given.top_k
  local received, sent, world = {}, {}, tp * dp
  for rank = 0, world - 1 do received[rank], sent[rank] = 0, 0 end
  for rank = 0, world - 1 do
    local shard = given.tokens // tp
    for t = 0, shard - 1 do
      for j = 0, k - 1 do
        local expert = ((rank * shard + t) * k + j) % given.experts
        local place = expert // (given.experts // ep) -- in the expert-parallel group
        local outer = rank // (etp * ep)
        local to = (outer * ep + place) * etp + rank % etp -- the exchange keeps the tensor index
        sent[rank] = sent[rank] + 1
        received[to] = received[to] + 1
      end
    end
  end
  local held = {} -- after the gather among the etp ranks of the same experts
  for rank = 0, world - 1 do
    held[rank] = 0
    for i = 0, etp - 1 do held[rank] = held[rank] + received[rank // etp * etp + i] end
  end
  return sent[0], held[0]
end

local hyper = { layers = 1, hidden = 512, heads = 16, ffn = 1024, vocab = 32000, experts = 16, top_k = 2 }

--- Bytes of the collectives that only the experts need, by name and pass: with experts minus those of a dense layer.
local function bytes_of(plan, h)
  local c = architecture.configuration(h, plan)
  local sums, among, tokens = {}, false, 0
  for _, item in ipairs(architecture.operations(architecture.new("mixtral", h).layers[2], c)) do
    if item.role == "exchange" and item.pass == "forward" then among = not among end
    if item.kind == "collective" and (item.role == "exchange" or among) then
      local id = item.pass .. " " .. item.name
      sums[id] = (sums[id] or 0) + item.bytes
    elseif item.name == "expert_linear1" then
      tokens = item.shape.batch * item.shape.tokens
    end
  end
  return sums, tokens
end

describe("experts under tensor and sequence parallelism", function()
  it("exchange, gather and scatter what Megatron's dispatcher moves", function()
    for _, case in ipairs { { 8, 8, 8, 8 }, { 8, 8, 8, 1 }, { 4, 4, 4, 2 }, { 4, 2, 2, 4 }, { 2, 8, 4, 1 },
      { 8, 2, 4, 4 }, { 1, 8, 8, 1 } } do
      local tp, dp, ep, etp = table.unpack(case)
      local sums, tokens = bytes_of({ tp = tp, dp = dp, ep = ep, etp = etp, micro_batch = 1, seq = 1024,
        sequence_parallel = true, dtype = "bf16" }, hyper)
      local sent, held = play { tp = tp, dp = dp, ep = ep, etp = etp, tokens = 1024, experts = 16, top_k = 2 }
      local text, row = ("tp %d dp %d ep %d etp %d"):format(tp, dp, ep, etp), 2.0 * hyper.hidden
      local gathered = etp > 1 and held * row or nil
      assert.equal(ep > 1 and 2 * sent * row or nil, sums["forward all_to_all"], text)
      assert.equal(sums["forward all_to_all"], sums["backward all_to_all"], text)
      assert.equal(gathered, sums["forward all_gather"], text)
      assert.equal(gathered, sums["forward reduce_scatter"], text)
      assert.equal(gathered, sums["backward all_gather"], text)
      assert.equal(gathered, sums["backward reduce_scatter"], text)
      assert.equal(held, tokens, text)
    end
  end)

  it("move 22.5 GB a rank in Mixtral-8x22B's exchanges with tp 8 and ep 8", function()
    local model = model_module.new("mixtral", { layers = 56, hidden = 6144, heads = 48, kv_heads = 8, ffn = 16384,
      vocab = 32768, experts = 8, top_k = 2 })
    local plan = { seq = 4096, tp = 8, dp = 8, ep = 8, micro_batches = 8, zero = 1, sequence_parallel = true }
    local c, total = architecture.configuration(model.hyper, plan), 0.0
    c.micro_batch = 1
    for _, item in ipairs(architecture.operations(model.layers[2], c)) do
      if item.name == "all_to_all" then total = total + item.bytes end
    end
    -- two exchanges a pass, two passes, 56 layers, 8 micro-batches; 4096 / 8 tokens of 6144 bf16 twice each
    assert.near(22.548e9, 56 * 8 * total, 1e6)
    local e = estimate.new { model = model, plan = plan, cluster = "dgx_h100" }
    for _, line in ipairs(e.collectives) do
      if line.name == "all_to_all" then assert.is_true(line.seconds < 0.6, tostring(line.seconds)) end
    end
  end)

  it("sum and gather shares of the same tokens without sequence parallelism", function()
    local sums = bytes_of({ tp = 8, dp = 2, ep = 4, etp = 2, micro_batch = 1, seq = 1024, dtype = "bf16" }, hyper)
    local all = 1024 * 2.0 * hyper.hidden
    assert.equal(2 * 2 * all / 4, sums["forward all_to_all"]) -- two copies of a quarter, there and back
    assert.equal(all / 4, sums["forward all_reduce"])
    assert.equal(all, sums["forward all_gather"])
  end)

  it("refuses expert groups that do not fit into a tensor group", function()
    local ok, raised = pcall(estimate.new, { model = model_module.new("mixtral", hyper), cluster = "dgx_h100",
      plan = { tp = 4, etp = 8, dp = 4, ep = 2, seq = 1024, micro_batches = 1 } })
    assert.is_false(ok)
    assert.matches("etp = 8 must divide tp = 4; nearest is 4", tostring(raised), 1, true)
  end)
end)

describe("collectives around experts", function()
  -- Shares of their seconds that are exposed, by pass and name.
  local function exposed(plan, stack)
    local given = merged({ seq = 4096, micro_batches = 4, tp = 4, dp = 8, ep = 2, stack = stack }, plan)
    local e = estimate.new { model = model_module.new("mixtral", hyper), cluster = "dgx_h100", plan = given,
      units = true, interval = false }
    local found = {}
    for _, kind in ipairs(e.lowered.kinds) do
      local among = false
      for _, item in ipairs(kind.order) do
        local o = e.lowered.operations[item[1]]
        if o.name == "all_to_all" and o.forward then among = not among end
        if among and o.kind == "collective" and o.name ~= "all_to_all" then
          for _, pass in ipairs { "forward", "backward" } do
            local time = o[pass]
            if time then found[pass .. " " .. o.name] = time.seconds / (time.source or time).seconds end
          end
        end
      end
    end
    return found
  end

  it("overlap no product, however many tensor ranks the experts have", function()
    local all = { ["forward all_gather"] = 1, ["backward reduce_scatter"] = 1, ["backward all_gather"] = 1,
      ["forward reduce_scatter"] = 1 }
    for _, etp in ipairs { 4, 2 } do
      for _, in_pieces in ipairs { false, true } do
        assert.same(all, exposed({ etp = etp, sequence_parallel = true, overlap_tensor = in_pieces }, "megatron_moe"))
      end
    end
    assert.same({ ["forward all_reduce"] = 1, ["backward all_reduce"] = 1 }, exposed({}, "megatron_moe"))
  end)
end)
