--- Architectures: the layers that blocks build, shared parameters, refused descriptions.
local command = require "command"
local architecture = require "ett.model.architecture"
local collective = require "ett.operator.collective"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local raised = require "raised"

local llama = { layers = 32, hidden = 4096, heads = 32, vocab = 32000, ffn = 11008 }

local function bytes_of(model, plan, group, pass)
  local c = architecture.configuration(model.hyper, plan)
  local total = 0
  for _, layer in ipairs(model.layers) do
    for _, item in ipairs(architecture.operations(layer, c)) do
      if item.kind == "collective" and item.group == group and item.pass == pass then
        total = total + layer.count * item.times * item.bytes
      end
    end
  end
  return total
end

it("windows keep the tokens of products and shorten the sequences of attention", function()
  local blocks = require "ett.model.blocks"
  local function shapes(plan, size)
    local ops = blocks.windows({ "linear_qkv", "flash_attention" }, size or 64, { causal = false })
    local hyper = architecture.new(function(h) return blocks.decoder(h, { name = "block", count = 1, ops = ops }) end,
      { layers = 1, hidden = 256, heads = 4, vocab = 1000 }).hyper
    local found = {}
    for _, item in ipairs(architecture.operations({ name = "block", ops = ops },
      architecture.configuration(hyper, plan))) do
      if item.operator then found[#found + 1] = item.shape end
    end
    return found[1].tokens, found[2].batch, found[2].seq_q or found[2].seq
  end
  assert.same({ 3 * 512, 3 * 8, 64 }, { shapes { seq = 512, micro_batch = 3 } })
  assert.same({ 3 * 256, 3 * 4, 64 }, { shapes { seq = 512, micro_batch = 3, cp = 2 } })
  assert.matches("windows of 64 tokens must divide the 32 tokens of a context rank$",
    raised(shapes, { seq = 512, micro_batch = 3, cp = 16 }))
  assert.matches("seq = 513 must be divisible by cp = 2$", raised(shapes, { seq = 513, micro_batch = 3, cp = 2 }))
  assert.matches("tokens of a window must be an integer of at least 1, got 0$",
    raised(shapes, { seq = 512, micro_batch = 3 }, 0))
end)

it("the vocabulary's table is in the first layer of a text encoder; an encoder of images has none", function()
  local small = { layers = 2, hidden = 64, heads = 4, ffn = 256, vocab = 100, max_positions = 32 }
  local function layer(changes)
    return architecture.table_layer(model_module.new("encoder", merged(small, changes)).layers)
  end
  assert.same({ 1, nil }, { layer {}, layer { patch_size = 8 } })
end)

it("layers with reused weights add FLOPs, stored bytes and gradients, but no weights", function()
  local blocks, estimate = require "ett.model.blocks", require "ett.step.estimate"
  local function run(reused, plan)
    plan.seq, plan.micro_batches = 512, 2
    return estimate { plan = plan, cluster = "dgx_h100", model = architecture.new(function(h)
      local ops = blocks.layer(h, blocks.dense_feed(h))
      return blocks.decoder(h, { name = "first", ops = ops },
        { name = "again", count = 3, ops = reused and blocks.reused(ops) or ops })
    end, { layers = 4, hidden = 256, heads = 4, vocab = 1000, norm = "rms_norm" }) }
  end
  local function lines(e)
    local seconds = {}
    for _, line in ipairs(e.operators) do seconds[line.name] = line.seconds end
    return seconds
  end
  for _, plan in ipairs { {}, { tp = 2, sequence_parallel = true }, { dtype = "fp8", stack = "megatron" } } do
    local own, again = run(false, merged(plan)), run(true, merged(plan))
    assert.equal(3 * (12 * 256 ^ 2 + 2 * 256), own.model.parameters - again.model.parameters)
    assert.equal(own.model_flops_per_step, again.model_flops_per_step)
    local one, other = own.stages[1], again.stages[1]
    assert.equal(one.activation_bytes, other.activation_bytes)
    assert.near((own.model.parameters - again.model.parameters) / (plan.tp or 1),
      one.parameters - other.parameters, 2 * 256 * 3)
    local apart, shared = lines(own), lines(again)
    assert.near(apart.gradient_accumulation, shared.gradient_accumulation, 1e-9)
    assert.is_true(shared.optimizer < apart.optimizer)
    assert.is_true(other.quantised_bytes < one.quantised_bytes or not plan.dtype)
    assert.same({}, again.warnings)
  end
  assert.matches("layer 'again': reuses weights of 'rms_norm'; a stage without", run(true, { pp = 2 }).warnings[1])
end)

describe("bundled architectures", function()
  it("have the published parameter counts of their models", function()
    assert.equal(6738415616, architecture.parameters(architecture.new("llama", llama)))
    assert.equal(70553706496, architecture.parameters(architecture.new("llama",
      { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, vocab = 128256, ffn = 28672 })))
    assert.equal(46702792704, architecture.parameters(architecture.new("mixtral", { layers = 32, hidden = 4096,
      heads = 32, kv_heads = 8, vocab = 32000, ffn = 14336, experts = 8, top_k = 2 })))
  end)

  it("count GPT-2 small to the last weight, its positions and tied head included", function()
    assert.equal(124439808, architecture.parameters(architecture.new("gpt", { layers = 12, hidden = 768, heads = 12,
      vocab = 50257, max_positions = 1024 })))
  end)

  it("count Qwen2-7B, which has biases only for queries, keys and values", function()
    assert.equal(7615616512, architecture.parameters(architecture.new("llama", { layers = 28, hidden = 3584,
      heads = 28, kv_heads = 4, ffn = 18944, vocab = 152064, qkv_bias = true })))
  end)

  it("keep repeated layers as one entry with a count", function()
    local model = architecture.new("llama", llama)
    assert.equal(3, #model.layers)
    assert.equal(32, model.layers[2].count)
    assert.same({ "first", "middle", "last" },
      { model.layers[1].place, model.layers[2].place, model.layers[3].place })
  end)

  it("route tokens, permute, exchange, compute, exchange and return, before the shared experts", function()
    for _, name in ipairs { "mixtral", "hybrid" } do
      local model = architecture.new(name, { layers = 2, hidden = 1024, heads = 8, vocab = 1000, experts = 4, top_k = 2,
        shared_experts = 1, layer_types = name == "hybrid" and { "moe" } or nil })
      local order = {}
      for _, entry in ipairs(model.layers[2].ops) do
        local what = entry.collective or entry.op
        if what:find "^moe_" or what:find "^expert_" or entry.beside then order[#order + 1] = what end
      end
      assert.equal("moe_router moe_permute expert_exchange expert_enter expert_linear1 expert_linear2 expert_leave "
        .. "expert_exchange moe_unpermute linear_up swiglu linear_down",
        (table.concat(order, " "):gsub("linear_up gelu", "linear_up swiglu")), name)
    end
  end)

  it("have dense layers as first_dense_layers and moe_every define", function()
    local model = architecture.new("mixtral", { layers = 8, hidden = 1024, heads = 8, vocab = 1000, experts = 4,
      top_k = 1, first_dense_layers = 2, moe_every = 2 })
    local names = {}
    for i, layer in ipairs(model.layers) do names[i] = layer.name .. layer.count end
    assert.same({ "embedding1", "dense3", "sparse1", "dense1", "sparse1", "dense1", "sparse1", "head1" }, names)
  end)
end)

describe("tensor parallelism", function()
  local plan = { tp = 4, micro_batch = 2, seq = 2048, dtype = "bf16" }
  local message_bytes = 2.0 * 2 * 2048 * 4096

  it("sums twice a layer forward and twice backward", function()
    local model = architecture.new("llama", llama)
    local forward = bytes_of(model, plan, "tp", "forward")
    -- 32 layers twice, the embedding once, three fp32 numbers a token in the loss
    assert.equal((2 * 32 + 1) * message_bytes + 3 * 4 * 2 * 2048, forward)
    assert.equal((2 * 32 + 1) * message_bytes, bytes_of(model, plan, "tp", "backward"))
  end)

  it("sums once forward in a parallel block", function()
    local model = architecture.new("gpt", { layers = 1, hidden = 4096, heads = 32, vocab = 50257,
      parallel_block = true, position = "rope", tied_embeddings = false })
    assert.equal(2 * message_bytes + 3 * 4 * 2 * 2048, bytes_of(model, plan, "tp", "forward"))
    assert.equal(3 * message_bytes, bytes_of(model, plan, "tp", "backward"))
  end)

  it("gathers the stream once for all experts of a token, and scatters their outputs, with whole tokens", function()
    local model = architecture.new("mixtral", { layers = 1, hidden = 1024, heads = 8, vocab = 1000, experts = 8,
      top_k = 4, moe_ffn = 512 })
    local tokens = 2 * 2048
    -- Bytes as multiples of the stream's; to the experts, two collectives on each side, and back.
    local function check(whole, etp, exchanged, entered, left, returned, held)
      local found, tokens_of = {}, {}
      for _, item in ipairs(architecture.operations(model.layers[2], architecture.configuration(model.hyper,
        { tp = 4, etp = etp, ep = 2, micro_batch = 2, seq = 2048, sequence_parallel = true, whole_tokens = whole }))) do
        if item.kind == "operator" then tokens_of[item.name] = item.shape.tokens end
        if item.kind == "collective" and (item.role == "exchange" or item.blocking) then
          found[#found + 1] = ("%s %s %s %g"):format(item.pass, item.name, item.group,
            item.bytes / (2 * tokens * 1024))
        end
      end
      assert.same({ "forward all_to_all ep " .. exchanged, "backward all_to_all ep " .. exchanged,
        "forward all_gather tp " .. entered, "backward reduce_scatter tp " .. entered,
        "backward all_gather tp " .. left, "forward reduce_scatter tp " .. left,
        "forward all_to_all ep " .. returned, "backward all_to_all ep " .. returned }, found)
      assert.same(held, { tokens_of.moe_router, tokens_of.moe_permute, tokens_of.moe_unpermute,
        tokens_of.residual_add })
    end
    -- A rank sends whole copies, and gets back its share of their width.
    check("there", 4, 4, 1, 4, 1, { tokens, tokens, tokens // 4, tokens // 4 })
    -- It gets back partial sums of whole copies; the sums are scattered.
    check("both", 4, 4, 1, 1, 4, { tokens, tokens, tokens, tokens // 4 })
    -- It sends its share of the tokens to whole experts.
    check("router", 1, 1, 1, 1, 1, { tokens, tokens // 4, tokens // 4, tokens // 4 })
    -- Shared experts read the gathered stream, and their sums are scattered with the others.
    local shared = architecture.new("mixtral", { layers = 1, hidden = 1024, heads = 8, vocab = 1000, experts = 8,
      top_k = 4, moe_ffn = 512, shared_experts = 1 })
    local function bytes(of, whole)
      return bytes_of(of, { tp = 4, ep = 2, micro_batch = 2, seq = 2048, sequence_parallel = true,
        whole_tokens = whole }, "tp", "forward")
    end
    for _, whole in ipairs { "both", "router" } do assert.equal(bytes(model, whole), bytes(shared, whole)) end
    assert.is_true(bytes(shared, "there") > bytes(model, "there"))
  end)

  it("gathers and scatters instead under sequence parallelism", function()
    local model = architecture.new("llama", llama)
    local c = architecture.configuration(model.hyper,
      { tp = 4, micro_batch = 2, seq = 2048, sequence_parallel = true })
    local kinds = {}
    for _, item in ipairs(architecture.operations(model.layers[2], c)) do
      if item.kind == "collective" then
        kinds[#kinds + 1] = item.pass:sub(1, 1) .. " " .. item.name .. (item.overlapped and " overlapped" or "")
      end
    end
    local half = { "f all_gather", "b reduce_scatter", "b all_gather overlapped", "f reduce_scatter", "b all_gather" }
    local both = {}
    for _ = 1, 2 do for _, kind in ipairs(half) do both[#both + 1] = kind end end
    assert.same(both, kinds)
  end)

  it("has no tp collective around experts that are not split over tp (etp = 1)", function()
    local model = architecture.new("mixtral", { layers = 1, hidden = 4096, heads = 32, vocab = 32000, ffn = 14336,
      experts = 8, top_k = 2 })
    local sp = { tp = 4, ep = 2, micro_batch = 2, seq = 2048, dtype = "bf16", sequence_parallel = true }
    local whole = bytes_of(model, sp, "tp", "forward")
    sp.etp = 1
    assert.equal(whole - 2 * 2 * message_bytes, bytes_of(model, sp, "tp", "forward"))
    assert.is_true(bytes_of(model, sp, "ep", "forward") > 0)
  end)

  it("costs nothing at tp 1", function()
    local model = architecture.new("llama", llama)
    assert.equal(0, bytes_of(model, { tp = 1, micro_batch = 2, seq = 2048 }, "tp", "forward"))
  end)
end)

describe("plain lists", function()
  local names = { "RMSlayernorm", "linear1", "RoPE", "flash_atten", "linear2", "RMSlayernorm", "res_add", "linear3",
    "gelu", "linear4", "res_add" }
  it("become layers, with collectives inserted", function()
    local model = model_module.list(names, { layers = 32, hidden = 4096, heads = 32, vocab = 50257 })
    local plan = { tp = 2, micro_batch = 4, seq = 4096, dtype = "fp16" }
    assert.equal((2 * 32 + 1) * 2.0 * 4 * 4096 * 4096 + 3 * 4 * 4 * 4096, bytes_of(model, plan, "tp", "forward"))
  end)
  it("give activations between experts their width", function()
    local model = model_module.list({ "moe_router", "expert_linear1", "swiglu", "expert_linear2", "linear_up", "swiglu",
      "linear_down" }, { layers = 2, hidden = 512, heads = 8, vocab = 1000, ffn = 3072, experts = 4, top_k = 2,
      moe_ffn = 768 })
    local c, widths = architecture.configuration(model.hyper, { tp = 2, ep = 2, micro_batch = 1, seq = 64 }), {}
    for _, item in ipairs(architecture.operations(model.layers[2], c)) do
      if item.name == "swiglu" then widths[#widths + 1] = item.shape.width end
    end
    assert.same({ 2 * 768 // 2, 3072 // 2 }, widths)
  end)
  it("exchange keys and values over context-parallel ranks, as the layers of an architecture do", function()
    local hyper = { layers = 2, hidden = 4096, heads = 32, vocab = 50257 }
    local plan = { cp = 2, micro_batch = 1, seq = 4096, dtype = "bf16" }
    local keys_and_values = 2 * 2.0 * 4096 * 4096
    local fused = { "linear_qkv", "flash_attention", "linear_proj" }
    local unfused = { "linear_qkv", "bmm_qk", "softmax", "bmm_pv", "linear_proj" }
    local function block(ops)
      return architecture.new(function(h)
        return { layers = { { name = "block", count = h.layers, ops = ops } } }
      end, hyper)
    end
    local own = block(fused)
    for _, model in ipairs { own, model_module.list(fused, hyper), model_module.list(unfused, hyper) } do
      assert.equal(2 * keys_and_values, bytes_of(model, plan, "cp", "forward"))
    end
    local twice = { "linear_qkv", "flash_attention", { op = "flash_attention", times = 2 } }
    assert.equal(2 * 3 * keys_and_values, bytes_of(block(twice), plan, "cp", "forward"))
    assert.equal(0, bytes_of(model_module.list({ "linear_up", "gelu", "linear_down" }, hyper), plan, "cp", "forward"))
  end)
  it("name an unknown operator with its place and the nearest", function()
    assert.matches("encoder_function_list: entry 2: unknown operator 'linaer1'; did you mean 'linear1'",
      raised(model_module.list, { "gelu", "linaer1" }, llama), 1, true)
  end)
end)

it("wrong architectures are named by field", function()
  assert.matches("unknown architecture 'lama'; did you mean 'llama'",
    raised(architecture.new, "lama", llama), 1, true)
  assert.matches("llama: unknown field 'hiden'; did you mean 'hidden'", raised(architecture.new, "llama",
    { layers = 1, hiden = 8, hidden = 8, heads = 1, vocab = 8 }), 1, true)
  assert.matches("heads = 3 must divide hidden = 4096", raised(architecture.new, "llama",
    { layers = 1, hidden = 4096, heads = 3, vocab = 8 }), 1, true)
  assert.matches("top_k = 9 must not exceed experts = 8", raised(architecture.new, "mixtral",
    { layers = 1, hidden = 4096, heads = 32, vocab = 8, experts = 8, top_k = 9 }), 1, true)
  assert.matches("layer 1 (odd): entry 1: unknown operator 'linear_quv'", raised(architecture.new, function()
    return { layers = { { name = "odd", ops = { "linear_quv" } } } }
  end, llama), 1, true)
  assert.matches("unknown collective 'all_reduse'; did you mean 'all_reduce'", raised(architecture.new, function()
    return { layers = { { name = "odd", ops = { { collective = "all_reduse" } } } } }
  end, llama), 1, true)
end)

describe("an architecture of one's own", function()
  local find, operator = require "ett.base.find", require "ett.operator"
  local declare = " A field of your own needs an entry in the architecture's schema"
  local folder = command.each_folder(_ENV)
  before_each(function() find.set_script_folder(folder) end)
  after_each(function()
    find.set_script_folder(nil)
    operator.forget()
  end)

  local function write(name, text) require("ett.base.folder").write(folder .. "/" .. name .. ".lua", text) end

  local function built(ops, more, hyper)
    write("mine", ([[
return { %s
  build = function(h)
    return { layers = { { name = "block", count = h.layers, ops = { %s } } } }
  end }]]):format(more or "", ops))
    return architecture.new("mine", hyper or llama)
  end

  it("declares its fields, which operators see", function()
    write("mine", [[
return { summary = "s", schema = { every = { "count", default = 3, help = "layers between wide ones" } },
  build = function(h) return { layers = { { name = "block", count = h.every, ops = { "gelu" } } } } end }]])
    local model = architecture.new("mine", llama)
    assert.equal(3, model.layers[1].count)
    assert.equal(3, architecture.configuration(model.hyper, { seq = 1 }).every)
    local all, own = architecture.fields "mine"
    assert.same({ "every" }, require("ett.base.schema").keys(own))
    assert.is_truthy(all.hidden and all.every)
  end)

  it("treats renamed copies of operators by their declared fields, not by their names", function()
    local names = { "rms_norm", "linear_qkv", "flash_attention", "linear_proj", "moe_router", "expert_linear1",
      "expert_linear2" }
    local own = { table.unpack(names) }
    for i, name in ipairs(names) do
      if name ~= "moe_router" and name ~= "rms_norm" then
        local file = assert(io.open(find.path("operators", name)))
        write("my_" .. i, (file:read("a"):gsub('name = "' .. name .. '"', ('name = "my_%d"'):format(i))))
        file:close()
        own[i] = "my_" .. i
      end
    end
    find.set_script_folder(folder)
    local hyper = { layers = 1, hidden = 512, heads = 8, vocab = 1000, experts = 4, top_k = 2, moe_ffn = 1024 }
    local function items(list)
      local model = model_module.list(list, hyper)
      local c, found = architecture.configuration(model.hyper, { tp = 2, ep = 2, micro_batch = 1, seq = 64 }), {}
      for i, item in ipairs(architecture.operations(model.layers[2], c)) do
        found[i] = { item.kind, item.kind == "collective" and item.name or item.operator.family, item.role,
          item.selective, item.shape, item.bytes, item.kind == "operator" and item.operator.experts }
      end
      return found
    end
    assert.same(items(names), items(own))
  end)

  -- What a layer of mine.lua runs; `file`: the text of an own moe_router.lua.
  local function ran(ops, file)
    if file then write("moe_router", file) end
    find.set_script_folder(folder)
    local hyper = { layers = 1, hidden = 512, heads = 8, vocab = 1000, experts = 4, top_k = 2 }
    local names = {}
    for i, entry in ipairs(built(ops, nil, hyper).layers[1].ops) do names[i] = entry.op or entry.collective end
    return table.concat(names, " ")
  end

  it("gets both token-moving operators if its layer lists only the router", function()
    assert.equal("moe_router moe_permute expert_exchange expert_linear1 expert_linear2 expert_exchange "
      .. "moe_unpermute gelu", ran("'moe_router', { collective = 'expert_exchange' }, 'expert_linear1', "
      .. "'expert_linear2', { collective = 'expert_exchange' }, 'gelu'"))
    assert.equal("router moe_permute expert_linear1 expert_linear2 moe_unpermute gelu",
      ran "'router', 'expert_linear1', 'expert_linear2', 'gelu'")
    assert.equal("moe_router moe_permute moe_unpermute gelu", ran "'moe_router', 'gelu'")
    assert.equal("moe_router moe_permute expert_linear1 moe_unpermute moe_router moe_permute expert_linear2 "
      .. "moe_unpermute", ran "'moe_router', 'expert_linear1', 'moe_router', 'expert_linear2'")
  end)

  it("gets no further token-moving operator if its layer lists one of the two", function()
    assert.equal("moe_router expert_linear1 moe_unpermute", ran "'moe_router', 'expert_linear1', 'moe_unpermute'")
    assert.equal("moe_permute moe_router expert_linear1", ran "'moe_permute', 'moe_router', 'expert_linear1'")
  end)

  it("keeps the fields of the router's entry for both", function()
    local model = built "{ op = 'moe_router', times = 2, with = { hidden = 64 } }, 'expert_linear1'"
    for _, i in ipairs { 2, 4 } do
      assert.same({ 2, 64 }, { model.layers[1].ops[i].times, model.layers[1].ops[i].with.hidden })
    end
  end)

  it("adds no operators for a user's router without the field 'moves'", function()
    assert.equal("moe_router expert_linear1", ran("'moe_router', 'expert_linear1'", [[
return { name = "moe_router", summary = "all of routing", schema = { tokens = "count" },
  shape = function(c) return { tokens = c.seq } end, flops = function() return 1.0 end,
  bytes = function() return 1.0 end }]]))
  end)

  it("is refused for a wrong result, with file and line", function()
    assert.equal("mine.lua:2: layer 1 (block): entry 1: unknown field 'tiems'; did you mean 'times'?",
      raised(built, "{ op = 'gelu', tiems = 2 }"))
    assert.equal("mine.lua:2: layer 1 (block): entry 2: 'optimizer' updates weights and belongs to no layer; an "
      .. "estimate adds it", raised(built, "'gelu', 'optimizer'"))
    assert.matches("entry 1: field 'times' must be .*65536", (raised(built, "{ op = 'gelu', times = 2e12 }")))
    assert.equal("mine.lua: unknown field 'shcema'; did you mean 'schema'?", raised(built, "'gelu'", "shcema = {},"))
    assert.equal("mine.lua: schema: unknown kind 'cont' of field 'n'; did you mean 'count'?",
      (raised(built, "'gelu'", "schema = { n = 'cont' },"):gsub("; known are.*", "")))
    write("mine", "return function() return { layers = {}, layrs = 1 } end")
    assert.matches("mine.lua:1: must return a table with a non-empty list 'layers'",
      raised(architecture.new, "mine", llama), 1, true)
    write("mine", "return function() return { layers = { { name = 'x', ops = { 'gelu' } } }, notes = 1 } end")
    assert.matches("mine.lua:1: unknown field 'notes'", raised(architecture.new, "mine", llama), 1, true)
  end)

  it("has a note of operators that do not say what they store", function()
    local text = [[
local op = { name = "%s", summary = "s", schema = { n = "count" }, %s }
function op.shape(c) return { n = c.seq } end
function op.flops(s) return 1.0 * s.n end
op.bytes = op.flops
return op]]
    write("silent", text:format("silent", ""))
    write("stored", text:format("stored", "activation_bytes = function() return 0 end"))
    write("once", text:format("once", "passes = { 'forward' }"))
    assert.same({ "silent: has no activation_bytes; its backward pass counts no stored bytes" },
      built("'silent', 'stored', 'once', 'silent', 'residual_add'").notes)
  end)

  it("has a note of learned positions without a number of rows", function()
    local given = { layers = 1, hidden = 64, heads = 4, vocab = 100 }
    assert.same({ "position: learned positions need max_positions; without it their table is not counted" },
      architecture.new("gpt", given).notes)
    given.max_positions = 32
    assert.same({}, architecture.new("gpt", given).notes)
    given.max_positions, given.position = nil, "rope"
    assert.same({}, architecture.new("gpt", given).notes)
  end)

  it("is told that --path finds an operator beside its file", function()
    write("mine", [[return function(h)
      return { layers = { { name = "block", count = h.layers, ops = { "own_sum" } } } } end]])
    write("own_sum", "return {}")
    find.set_script_folder(nil)
    assert.equal(("mine.lua:1: layer 1 (block): entry 1: unknown operator 'own_sum'; `--path %s` finds %s/own_sum.lua")
      :format(folder, folder), raised(architecture.new, folder .. "/mine.lua", llama))
  end)

  it("is refused for wrong hyper-parameters that its function sets, as for wrong given ones", function()
    local function set(text)
      write("mine", ([[
return function(h)
  %s
  return { layers = { { name = "block", count = h.layers, ops = { "gelu" } } } }
end]]):format(text))
      return architecture.new("mine", llama)
    end
    for text, wanted in pairs {
      ["h.attention = 'flash2'"] = "field 'attention' must be one of flash, fused_softmax, unfused, got 'flash2'; "
        .. "did you mean 'flash'?",
      ["h.postion = 'rope'"] = "unknown field 'postion'; did you mean 'position'?" .. declare,
      ["h.kv_head = 4"] = "unknown field 'kv_head'; did you mean 'kv_heads'?" .. declare,
      ["h.n_heads = 4"] = "unknown field 'n_heads'; did you mean 'heads'?" .. declare,
      ["h.ffn = h.ffn / 3"] = "field 'ffn' must be a positive integer, got 3669.3333333333",
    } do
      assert.equal("mine.lua:1: hyper-parameters after 'build': " .. wanted, raised(set, text))
    end
    assert.equal(7, set("h.own_rank, h.attention, h.window = 7, 'unfused', false").hyper.own_rank)
  end)

  it("is refused for a misspelt hyper-parameter or function of blocks that it reads", function()
    local blocks = require "ett.model.blocks"
    local own = { layers = 4, hidden = 512, heads = 8, vocab = 1000 }
    local function why(build) return raised(architecture.new, build, own) end
    -- Without the check, count = nil would be one layer.
    assert.matches("architecture_spec.lua:%d+: reads the unknown hyper%-parameter 'layer'; did you mean 'layers'%?",
      why(function(h) return { layers = { { name = "x", count = h.layer, ops = { "rms_norm" } } } } end))
    assert.matches("reads the unknown hyper%-parameter 'num_hidden_layers'; did you mean 'layers'%?",
      why(function(h) return { layers = { { name = "x", count = h.num_hidden_layers, ops = { "rms_norm" } } } } end))
    assert.matches("architecture_spec.lua:%d+: ett.model.blocks has no function 'dense_fed'; did you mean 'dense_feed'",
      why(function(h) return { layers = { { name = "x", ops = blocks.dense_fed(h) } } } end))
    assert.matches("spec.lua:%d+: a part of a layer must be an operator's name, an entry or a list of them, got a func",
      why(function() return { layers = { { name = "x", ops = blocks.join("rms_norm", blocks.dense_feed) } } } end))
    assert.matches("spec.lua:%d+: blocks.layer%(h, feed%): 'feed' is missing",
      why(function(h) return { layers = { { name = "x", ops = blocks.layer(h) } } } end))
    assert.same({ "rms_norm" }, { blocks.with("rms_norm", { seq = 4 })[1].op }) -- one entry is a list, too
    assert.matches("no layer is given after h", why(function(h) return blocks.decoder(h) end))
    assert.matches("layer 2 must be a layer .* got a list",
      why(function(h) return blocks.decoder(h, nil, { { name = "x", ops = { "gelu" } } }) end))
    assert.matches("entry 2: needs .*; ett.model.blocks.join makes one list",
      why(function(h) return { layers = { { name = "x", ops = { "gelu", blocks.dense_feed(h) } } } } end))
    assert.matches("blocks.moe_feed needs the fields 'experts', 'top_k'",
      why(function(h) return { layers = { { name = "x", ops = blocks.moe_feed(h) } } } end))
    local model = architecture.new(function(h)
      h.wide_flag = h.wide_flag or 3 -- unlike any known name
      return { layers = { { name = "x", count = h.layers, ops = { "rms_norm" } } } }
    end, own)
    assert.same({ 3, 4 }, { model.hyper.wide_flag, model.layers[1].count })
    assert.is_nil(model.hyper.layer) -- only while the function runs
  end)

  it("is told how a layer with few tokens runs under sequence parallelism", function()
    local function run(with)
      local model = architecture.new(function()
        return { layers = { { name = "x", ops = { { op = "rms_norm", with = with } } } } }
      end, llama)
      return architecture.operations(model.layers[1], architecture.configuration(model.hyper,
        { tp = 2, micro_batch = 1, seq = 64, sequence_parallel = true }))
    end
    assert.matches("tp = 2 must divide tokens = 1 under sequence_parallel; with = { sequence_parallel = false } gives "
      .. "every tensor rank all of them", raised(run, { seq = 1 }), 1, true)
    assert.equal(1, run({ seq = 1, sequence_parallel = false })[1].shape.tokens)
  end)

  it("has the shape of each operator once in a layer, unless an entry changes the configuration", function()
    local gelu = require("ett.operator").get "gelu"
    local shape, calls = gelu.shape, 0
    finally(function() gelu.shape = shape end)
    gelu.shape = function(c)
      calls = calls + 1
      return shape(c)
    end
    local model = built("{ op = 'gelu' }, { op = 'gelu', with = { ffn = 1024 } }, { op = 'gelu' }")
    calls = 0
    local items = architecture.operations(model.layers[1], architecture.configuration(model.hyper,
      { seq = 64, micro_batch = 1, tp = 2 }))
    assert.equal(items[1].shape, items[3].shape)
    assert.equal(512, items[2].shape.width)
    assert.same({ 2, false }, { calls, items[1].shape.width == 512 })
  end)

  it("is refused for wrong fields of 'with' and for impossible numbers", function()
    local plan = { seq = 64, micro_batch = 1, tp = 2 }
    local function run(ops)
      local model = built(ops)
      return architecture.operations(model.layers[1], architecture.configuration(model.hyper, plan))
    end
    assert.equal(512, run("{ op = 'gelu', with = { ffn = 1024 } }")[1].shape.width)
    -- A user's own fields, although 'term' is two edits from 'norm'.
    assert.equal(16, run("{ op = 'gelu', with = { rank = 8, term = 2, ffn = 32 } }")[1].shape.width)
    for own, module in pairs { [""] = "core_attn", ["selective = false"] = "", ["module = 'mlp'"] = "mlp" } do
      assert.equal(module, run(("{ op = 'softmax', %s }"):format(own))[1].module) -- a part of attention's core
    end
    for fields, wanted in pairs {
      ["hiden = 8"] = "unknown field 'hiden'; did you mean 'hidden'?" .. declare,
      ["ffn = 2.5"] = "field 'ffn' must be a positive integer, got 2.5",
      ["ffn = 'wide'"] = "field 'ffn' must be a positive integer, got 'wide'",
      ["heads = false"] = "field 'heads' must be a positive integer, got false",
      ["tp = 'x'"] = "field 'tp' must be a positive integer, got 'x'",
      ["seq = 64 / 3"] = "field 'seq' must be a positive integer, got 21.333333333333",
      ["unquantized = true"] = "unknown field 'unquantized'; did you mean 'unquantised'?" .. declare,
    } do
      assert.equal("mine.lua:2: layer 1 (block): entry 1: 'with': " .. wanted,
        raised(built, ("{ op = 'gelu', with = { %s } }"):format(fields)))
      assert.matches("mine.lua:3: gelu: 'with': " .. wanted,
        raised(run, ("{ op = 'gelu', with = function() return { %s } end }"):format(fields)), 1, true)
    end
    for value, got in pairs { ["0/0"] = "NaN", ["-1"] = "-1", ["'all'"] = "'all'" } do
      for _, field in ipairs { "sends", "reads" } do
        local model = built(("'gelu' }, %s = function() return %s end, name = 'block', ops = { 'gelu'"):format(field,
          value))
        assert.equal(("mine.lua:3: layer 1 (block): %s must return a number of at least 0, got %s"):format(field, got),
          raised(model.layers[1][field], {}))
      end
    end
    assert.equal("mine.lua:3: gelu: 'with' must return a table, got 3",
      raised(run, "{ op = 'gelu', with = function() return 3 end }"))
    assert.matches("mine.lua:3: collective 'all_reduce': elements must return a number of at least 0, got -1",
      raised(run, "{ collective = 'all_reduce', group = 'tp', elements = function() return -1 end }"), 1, true)
  end)
end)

describe("an entry with 'when'", function()
  local function names_of(model, plan)
    local names = {}
    for _, item in ipairs(architecture.operations(model.layers[2], architecture.configuration(model.hyper, plan))) do
      if item.kind == "operator" then names[#names + 1] = item.name .. (item.times > 1 and " " .. item.times or "") end
    end
    return table.concat(names, " ")
  end

  it("runs where the function returns true: Megatron's fused softmax, else PyTorch's operators", function()
    local model = model_module.new("gpt", { layers = 2, hidden = 256, heads = 8, vocab = 1000,
      attention = "fused_softmax" })
    local fused = "bmm_qk masked_softmax bmm_pv"
    local alone = "bmm_qk softmax_cast 3 fill_mask softmax bmm_pv"
    for _, case in ipairs { { fused, 1, 1, 512 }, { fused, 2, 4, 512 }, { fused, 4, 8, 16384 }, { alone, 1, 4, 512 },
      { alone, 3, 4, 512 }, { alone, 2, 8, 512 }, { alone, 1, 1, 16388 }, { alone, 1, 1, 510 }, { alone, 1, 1, 16 } } do
      local core = names_of(model, { micro_batch = case[2], tp = case[3], seq = case[4] }):match "bmm_qk.*bmm_pv"
      assert.equal(case[1], core, table.concat(case, " ", 2))
    end
    local wide = names_of(model, { micro_batch = 1, tp = 1, seq = 512, dtype = "fp32" }):match "bmm_qk.*bmm_pv"
    assert.equal("bmm_qk fill_mask softmax bmm_pv", wide) -- no kernel, and no casts
  end)

  it("must return a boolean", function()
    local function build(h)
      return { layers = { { name = "one", ops = { { op = "gelu", when = function() return h.layers end } } } } }
    end
    local model = model_module.new(build, { layers = 1, hidden = 64, heads = 1, vocab = 10, ffn = 64 })
    local c = architecture.configuration(model.hyper, { micro_batch = 1, seq = 8 })
    assert.matches("architecture_spec.lua:%d+: gelu: 'when' must return true or false, got 1",
      raised(architecture.operations, model.layers[1], c))
  end)
end)

it("a user's collective runs once for each entry unless 'times' is given", function()
  local c = { tp = 4, dtype = "bf16" }
  local entry = { collective = "all_reduce", group = "tp", elements = function() return 1000 end }
  local list = collective.expand(entry, c)
  assert.equal(1, #list)
  assert.equal(1, list[1].times)
  assert.equal(2000.0, list[1].bytes)
  entry.times = 3
  assert.equal(3, collective.expand(entry, c)[1].times)
end)

it("collective names accept the names of estimate-train-time", function()
  assert.equal("all_reduce", collective.kind "allreduce_large")
  assert.equal("send_recv", collective.kind "p2p")
  assert.matches("unknown collective 'all_gatter'; did you mean 'all_gather'",
    raised(collective.kind, "all_gatter"), 1, true)
end)

describe("the model's FLOPs", function()
  -- Forward FLOPs of all products, as the model counts them: those of one rank times the tensor and context ranks.
  local function flops_of(model, plan)
    local c, total = architecture.configuration(model.hyper, plan), 0.0
    c.vocab_multiple = 1
    for _, layer in ipairs(model.layers) do
      for _, item in ipairs(architecture.operations(layer, c)) do
        local op = item.operator
        if op and require("ett.operator").products[op.family] and not op.experts then
          total = total + layer.count * item.times * (item.model_flops or op.flops(item.shape, "forward"))
        end
      end
    end
    return total * c.tp * c.cp
  end

  it("do not count the products that several tensor ranks repeat", function()
    -- Compressions of latent attention; two heads of keys on eight ranks; B and C of Mamba-2; gates of Kimi.
    for _, name in ipairs { "deepseek-v3", "qwen3-next-80b-a3b", "falcon-h1-34b", "kimi-linear-48b-a3b", "step3" } do
      local model = model_module.new(name)
      local one = flops_of(model, { micro_batch = 1, seq = 4096 })
      for _, sequence_parallel in ipairs { false, true } do
        for _, tp in ipairs { 2, 4 } do
          local some = flops_of(model, { micro_batch = 1, seq = 4096, tp = tp, sequence_parallel = sequence_parallel })
          assert.near(1, some / one, 1e-12, ("%s tp = %d"):format(name, tp))
        end
      end
    end
    local qwen = model_module.new "qwen3-next-80b-a3b"
    assert.near(1, flops_of(qwen, { micro_batch = 1, seq = 4096, tp = 8 })
      / flops_of(qwen, { micro_batch = 1, seq = 4096 }), 1e-12)
  end)

  it("do not count the products that several context ranks repeat: heads on one token, and own ones", function()
    local blocks = require "ett.model.blocks"
    local models = { model_module.new "bert-base", model_module.new "vit-b-16", model_module.new "llama4-scout" }
    for _, with in ipairs { { tp = 1 }, { cp = 1 }, { tp = 1, cp = 1 }, { seq = 1, cp = 1 } } do
      models[#models + 1] = architecture.new(function(h)
        return blocks.decoder(h, { name = "block", count = h.layers, ops = blocks.join(
          { op = "linear_qkv", with = with }, "flash_attention", "linear_proj",
          { op = "linear_down", with = with, times = 3 }) })
      end, llama)
    end
    for i, model in ipairs(models) do
      local one = flops_of(model, { micro_batch = 1, seq = 32768 })
      for tp = 1, 2 do
        for _, method in ipairs { "all_gather", "ulysses" } do
          local some = flops_of(model, { micro_batch = 1, seq = 32768, tp = tp, cp = 2, cp_method = method })
          assert.near(1, some / one, 1e-12, ("model %d tp = %d %s"):format(i, tp, method))
        end
      end
    end
  end)
end)
