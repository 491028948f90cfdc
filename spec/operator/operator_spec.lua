local command = require "command"
local attention_training = require "ett.profile.kernels.attention_training"
local operator = require "ett.operator"
local find = require "ett.base.find"
local dtype_bytes = require("ett.base.schema").dtype_bytes
local merged = require "ett.base.merged"
local raised = require "raised"

local configuration = { tp = 2, cp = 1, ep = 2, micro_batch = 4, seq = 2048, hidden = 4096, heads = 32,
  kv_heads = 8, head_dim = 128, ffn = 14336, vocab = 32000, experts = 8, top_k = 2, layers = 4,
  sequence_parallel = false, gated_mlp = true, dtype = "bf16", causal = true,
  q_lora_rank = 512, kv_lora_rank = 256, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128,
  linear_key_heads = 16, linear_value_heads = 32, patch_size = 16, index_heads = 64, index_head_dim = 128,
  index_top_k = 512, moe_latent = 512, conv_in = 64, conv_out = 128, conv_outputs = 256 }

local function with(changes) return merged(configuration, changes) end

describe("every bundled operator", function()
  it("is checked, summarised and gives finite, non-negative numbers for every dtype and pass", function()
    local seen = 0
    for _, op in ipairs(operator.list()) do
      seen = seen + 1
      assert.is_true(#op.summary > 5, op.name)
      local s = operator.check_shape(op, op.shape(configuration))
      for name, value in pairs(s) do assert.equal("integer", math.type(value), op.name .. "." .. name) end
      for _, pass in ipairs(op.passes) do
        for dtype in pairs { fp16 = 1, bf16 = 1, fp32 = 1, fp8 = 1 } do
          for _, value in ipairs { op.flops(s, pass), op.bytes(s, dtype, pass) } do
            assert.equal("float", math.type(value), op.name)
            assert.is_true(value >= 0 and value < math.huge, op.name)
          end
        end
        if op.family ~= "optimizer" then -- an fp32 model is its own master weight
          assert.is_true(op.bytes(s, "fp32", pass) >= op.bytes(s, "fp16", pass), op.name)
        end
      end
      for _, value in pairs(op.kernel_shape(s)) do assert.is_truthy(value ~= nil) end
      if op.activation_bytes then assert.is_true(op.activation_bytes(s, "bf16") >= 0) end
      if op.parameters then assert.equal("integer", math.type(op.parameters(s)), op.name) end
    end
    assert.is_true(seen >= 26)
  end)

  it("carries a file header comment and a name equal to its file", function()
    for _, entry in ipairs(find.list("operators")) do
      local file = assert(io.open(entry.path))
      assert.equal("--- ", file:read(4), entry.path)
      file:close()
      assert.equal(entry.name, operator.get(entry.name).name)
    end
  end)
end)

-- Calls visit(name, doubled table) for each number of a table.
local function each_doubled(numbers, visit)
  for name, value in pairs(numbers) do
    if type(value) == "number" and value > 0 then
      local doubled = merged(numbers)
      doubled[name] = 2 * value
      visit(name, doubled)
    end
  end
end

describe("laws of shapes", function()
  it("a wider model makes no dimension smaller, more ranks make none larger", function()
    local ranks, looked = { tp = true, cp = true, ep = true }, 0
    local wide = with { ssm_inner = 8192, ssm_state = 16, ssm_heads = 128, ssm_head_dim = 64, ssm_groups = 2,
      ssm_dt_rank = 128, conv_kernel = 4, scan_chunk = 64, window = 512 }
    for _, op in ipairs(operator.list()) do
      local function sizes(c)
        local s = op.shape(c)
        if op.experts and s.batch then s.tokens, s.batch = s.tokens * s.batch, nil end -- those of one expert
        return s
      end
      local s = sizes(wide)
      each_doubled(wide, function(field, c)
        local ok, t = pcall(sizes, c)
        if not ok then
          assert.matches("^cp = 2: ", tostring(t), op.name) -- state-space layers
          return
        end
        for dim, value in pairs(s) do
          looked = looked + 1
          if type(value) == "number" then
            assert.is_true(ranks[field] and t[dim] <= value or not ranks[field] and t[dim] >= value,
              ("%s: %s of %s: %s, %s"):format(op.name, dim, field, value, t[dim]))
          end
        end
      end)
    end
    assert.is_true(looked > 5000)
  end)

  it("a doubled dimension takes no fewer FLOPs, bytes and seconds, and at most the square", function()
    local looked, device = 0, require("ett.profile.device").get "h100_sxm"
    for _, op in ipairs(operator.list()) do
      local s = op.shape(configuration)
      each_doubled(s, function(dim, doubled)
        if not pcall(operator.check_shape, op, doubled) then return end
        for _, field in ipairs { "flops", "bytes", "activation_bytes", "recomputed_bytes", "working_bytes",
          "output_bytes", "parameters", "law" } do
          for _, pass in ipairs(op[field] and op.passes or {}) do
            local function value(shape)
              if field == "flops" then return op.flops(shape, pass) end
              if field == "law" then return (op.law(shape, device, pass)) end
              return op[field](shape, "bf16", field == "bytes" and pass or {})
            end
            local small, large = value(s), value(doubled)
            looked = looked + 1
            -- longer chunks of a scan move fewer states
            assert.is_true(large >= small and large <= 4 * small or dim == "chunk" and field == "bytes",
              ("%s: %s of %s: %s, %s"):format(op.name, field, dim, small, large))
          end
        end
      end)
    end
    assert.is_true(looked > 1500)
  end)

  it("divides the work of tensor-parallel operators by tp", function()
    for _, name in ipairs { "linear_qkv", "linear_proj", "linear_up", "linear_down", "flash_attention", "gelu",
      "swiglu", "softmax", "masked_softmax", "bmm_qk", "bmm_pv", "lm_head", "cross_entropy", "rope" } do
      local op = operator.get(name)
      local vocab = 32768 -- padded the same under tp 1 and tp 4
      local whole = op.flops(op.shape(with { tp = 1, vocab = vocab }), "forward")
      local part = op.flops(op.shape(with { tp = 4, vocab = vocab }), "forward")
      assert.near(whole / 4, part, whole * 1e-12, name)
    end
  end)

  it("counts the parameters of a llama-2-7b layer", function()
    local c = with { tp = 1, kv_heads = 32, ffn = 11008 }
    local total = 0
    for _, name in ipairs { "linear_qkv", "linear_proj", "linear_up", "linear_down", "rms_norm", "rms_norm" } do
      local op = operator.get(name)
      total = total + op.parameters(op.shape(c))
    end
    assert.equal(202383360, total) -- 4 h^2 + 3 h * 11008 + 2 h
  end)

  it("counts no gains and biases of norms without gains", function()
    for name, whole in pairs { rms_norm = 4096, layer_norm = 2 * 4096 } do
      local op = operator.get(name)
      assert.equal(whole, op.parameters(op.shape(configuration)))
      assert.equal(0, op.parameters(op.shape(with { gainless = true })))
    end
    local op = operator.get "layer_norm"
    assert.equal(4096, op.parameters(op.shape(with { norm_bias = false })))
  end)

  it("shrinks keys and values under grouped queries and replicates them when tp exceeds them", function()
    local qkv = operator.get "linear_qkv"
    assert.equal((16 + 2 * 4) * 128, qkv.shape(with { tp = 2 }).out_features)
    assert.equal((2 + 2) * 128, qkv.shape(with { tp = 16 }).out_features)
  end)

  it("doubles the up projection of a gated MLP only", function()
    local up, down = operator.get "linear_up", operator.get "linear_down"
    assert.equal(2 * up.shape(with { gated_mlp = false }).out_features, up.shape(configuration).out_features)
    assert.equal(7168, down.shape(configuration).in_features)
  end)

  it("splits norms over tp under sequence parallelism, and stored inputs with them", function()
    local norm, up = operator.get "rms_norm", operator.get "linear_up"
    local sp = with { sequence_parallel = true }
    assert.equal(4096, norm.shape(sp).tokens)
    assert.equal(8192, norm.shape(configuration).tokens)
    assert.near(up.activation_bytes(up.shape(configuration), "bf16") / 2, up.activation_bytes(up.shape(sp), "bf16"), 1)
  end)

  it("keeps the routed work of experts constant under ep", function()
    local op = operator.get "expert_linear1"
    local one, eight = op.shape(with { ep = 1, tp = 1 }), op.shape(with { ep = 8, tp = 1 })
    assert.near(op.flops(one, "forward"), op.flops(eight, "forward"), 1)
    assert.equal(8 * op.parameters(eight), op.parameters(one))
  end)

  it("moves every token to its experts and back, with the bytes of a router that also moves them", function()
    local function sum(field, ...)
      local total = 0.0
      for _, name in ipairs { "moe_router", "moe_permute", "moe_unpermute" } do
        local op = operator.get(name)
        total = total + (op[field] and op[field](op.shape(with { tp = 1, top_k = 6 }), ...) or 0.0)
      end
      return total
    end
    local rows, scores = 2.0 * 8192 * 4096, 4.0 * 8192 * 8
    assert.near(rows * (1 + 2 * (1 + 6)) + 4 * scores, sum("bytes", "bf16", "forward"), 1)
    assert.near(1.5 * (rows * (1 + 2 * (1 + 6)) + 4 * scores), sum("bytes", "bf16", "backward"), 1)
    assert.near(rows * (1 + 6) + scores, sum("activation_bytes", "bf16"), 1)
    local permute, back = operator.get "moe_permute", operator.get "moe_unpermute"
    local s = permute.shape(with { sequence_parallel = true })
    assert.same({ tokens = 4096, hidden = 4096, top_k = 2 }, s)
    assert.equal(3 * 2.0 * 4096 * 4096, permute.bytes(s, "fp8", "forward")) -- activations in 16 bits
    assert.equal(permute.bytes(s, "bf16", "forward"), back.bytes(s, "bf16", "forward"))
    assert.equal(5 * 2.0 * 4096 * 4096, back.bytes(s, "bf16", "backward"))
    local beside = { forward = 4 * 2 + 3, backward = 4 * 2 + 4 * 8 } -- padding, and repeated tokens or 8 gathers
    for pass, tensors in pairs(beside) do
      assert.equal(tensors * 2.0 * 4096 * 4096,
        permute.beside_bytes(merged(s, { padded = 1, looped = 8, repeated = 1 }), pass))
    end
  end)

  it("moves queries, keys, values and outputs, and in the backward pass their gradients", function()
    local op = operator.get "flash_attention"
    local s = { batch = 3, heads = 8, kv_heads = 2, seq_q = 16, seq_k = 32, head_dim = 64, value_dim = 128, causal = 0 }
    local queries, keys, rows = 3 * 8 * 16 * (64 + 128), 3 * 2 * 32 * (64 + 128), 3 * 8 * 16 -- with outputs, values
    assert.equal(2 * (queries + keys) + 4 * rows, op.bytes(s, "bf16", "forward"))
    assert.equal(2 * 2 * (queries + keys) + 2 * 4 * rows, op.bytes(s, "bf16", "backward"))
    local indexer = operator.get "lightning_indexer"
    assert.equal(5, indexer.shape { seq = 40, tp = 4, cp = 2, micro_batch = 1, index_heads = 8, index_head_dim = 64,
      index_top_k = 16 }.seq_q)
  end)

  it("copies heads to tokens, joins gradients and adds biases around unfused attention", function()
    local op, c = operator.get "head_copies", { tp = 2, micro_batch = 3, seq = 8, hidden = 64, heads = 8, kv_heads = 4,
      bias = true }
    -- 24 tokens, 4 heads of 8 and 2 + 2 of keys and values on a rank: 32 and 64 elements of two bytes.
    assert.equal(24 * (2 * 32 + 2 * 64) * 2, op.bytes(op.shape(c), "bf16", "forward"))
    assert.equal(24 * (2 * 32 + 2 * 64) * 2, op.bytes(op.shape(c), "bf16", "backward"))
    c.bias = nil
    assert.equal(24 * 2 * 32 * 2, op.bytes(op.shape(c), "bf16", "forward"))
    assert.equal(24 * (2 * 32 + 2 * 64) * 2, op.bytes(op.shape(c), "bf16", "backward"))
  end)

  it("moves the bytes of Megatron-LM's softmax in fp32, where its fused kernel does not run", function()
    local casts, mask, softmax = operator.get "softmax_cast", operator.get "fill_mask", operator.get "softmax"
    local s = softmax.shape(configuration)
    local scores = 1.0 * s.batch * s.heads * s.seq_q * s.seq_k
    local function moved(pass)
      return (3 * casts.bytes(s, "bf16", pass) + mask.bytes(s, "bf16", pass) + softmax.bytes(s, "bf16", pass)) / scores
    end
    assert.near(6 + 8 + 8 + 8 + 6, moved "forward", 1e-9)
    assert.near(6 + 12 + 8 + 8 + 6, moved "backward", 1e-9)
    -- The probabilities are stored in fp32 and in 16 bits.
    assert.near(4 + 2, (3 * casts.activation_bytes(s, "bf16") + softmax.activation_bytes(s, "bf16")) / scores, 1e-9)
  end)

  it("halves attention under a causal mask and bounds it by a window", function()
    local op = operator.get "flash_attention"
    local causal, full = op.shape(configuration), op.shape(with { causal = false })
    assert.near(op.flops(full, "forward") / 2, op.flops(causal, "forward"), 1)
    assert.is_true(op.flops(op.shape(with { window = 256 }), "forward") < op.flops(causal, "forward") / 2)
    assert.equal(2.5, op.flops(causal, "backward") / op.flops(causal, "forward"))
  end)

  it("refuses a causal mask with fewer keys than queries, also of context ranks", function()
    local op = operator.get "flash_attention"
    for cp, window in pairs { false, 512 } do
      assert.matches("a causal mask needs at least as many keys as queries, got key_seq = 1024 and seq = 2048",
        raised(op.shape, with { key_seq = 1024, cp = cp, window = window or nil }), 1, true)
    end
    assert.equal(1024, op.shape(with { key_seq = 1024, causal = false }).seq_k)
    assert.equal(2048, op.shape(with { key_seq = 2048 }).seq_k)
  end)

  it("counts the keys on both sides of a query in a window without a mask", function()
    local op, seq = operator.get "flash_attention", 512
    local function check(causal, window)
      local before, behind = causal == 1 and window or window // 2, causal == 1 and 0 or window // 2
      local inside = 0.0 -- positions within an interval: half of the pair at each of its ends
      for i = 1, seq do
        for j = 1, seq do
          local d = j - i
          if d > -before and d < behind then inside = inside + 1 elseif d == -before or d == behind then
            inside = inside + 0.5 end
        end
      end
      local s = op.shape { micro_batch = 1, heads = 1, kv_heads = 1, seq = seq, head_dim = 64, hidden = 64, tp = 1,
        cp = 1, causal = causal == 1, window = window }
      assert.near(1, op.flops(s, "forward") / (4.0 * 64 * inside), 2e-3)
      local x = { batch = 1, heads = 1, seq_q = seq, seq_k = seq, head_dim = 64, value_dim = 64, causal = causal,
        window = window }
      assert.near(1, attention_training.flops(x, "forward") / (4.0 * 64 * inside), 2e-3)
    end
    for _, window in ipairs { 128, 600, 1000, 1024, 1100 } do
      check(0, window)
      check(1, window)
    end
  end)

  it("counts a convolution as a product that reads each input once", function()
    local op = operator.get "convolution"
    -- 3 x 3 filters of 4 channels to 8, with a stride of 2 x 2, from 6 x 6 to 3 x 3 pixels of 5 images.
    local s = op.shape(with { micro_batch = 5, conv_in = 4, conv_out = 8, conv_outputs = 9, conv_size = 9,
      conv_stride = 4 })
    assert.equal(2.0 * 5 * 9 * (9 * 4) * 8, op.flops(s, "forward"))
    assert.equal(2.0 * (5 * 36 * 4 + 5 * 9 * 8 + 9 * 4 * 8), op.bytes(s, "bf16", "forward"))
    assert.equal(2.0 * 5 * 36 * 4, op.activation_bytes(s, "bf16"))
    assert.equal("bf16", require("ett.operator.stack").dtype_of(nil, op, "fp8"))
    for _, field in ipairs { "bytes", "activation_bytes", "working_bytes" } do
      assert.equal(op[field](s, "bf16"), op[field](s, "fp8"), field)
    end
    -- Casts of the input read each value once: 4 + 2 bytes. Backward there are two more sums of gradients of 6 bytes.
    local quantised = require "ett.operator.quantised"
    local item = { operator = op, shape = s, casts = 3, frozen = true }
    for _, casts in ipairs { require "ett.operator.autocast", quantised.fp32_norms } do
      assert.equal(3 * 6.0 * s.read, casts.moved(item, "forward", {}), casts.name)
      assert.equal((3 * 6.0 + 2 * 6) * s.read, casts.moved(item, "backward", {}), casts.name)
    end
    local scores = { batch = 2, tokens = 3, in_features = 4, out_features = 5 } -- casts of queries and keys
    assert.equal(6.0 * 2 * (3 + 5) * 4, quantised.fp32_norms.moved({ operator = operator.get "bmm_qk", shape = scores,
      wide = true }, "forward", {}))
    assert.equal(9 * 4 * 8 + 8, op.parameters(s))
    assert.truthy(op.refuse { cp = 2 }:find "cp must be 1")
  end)

  it("moves the tensors that an elementwise entry states", function()
    local op = operator.get "elementwise"
    local s = op.shape(with { element_width = 16, element_reads = 2, element_saved = 1 })
    local values = 4 * 2048 * 16
    assert.equal(2.0 * 3 * values, op.bytes(s, "bf16", "forward"))
    assert.equal(2.0 * 4 * values, op.bytes(s, "bf16", "backward")) -- dy, a saved tensor, two gradients
    assert.equal(2.0 * values, op.activation_bytes(s, "bf16"))
  end)

  it("does not wrap: FLOPs and bytes of huge shapes stay positive floats", function()
    local huge = with { hidden = 1 << 20, ffn = 1 << 24, seq = 1 << 22, heads = 8192, kv_heads = 8192, tp = 1,
      vocab = 1 << 24, micro_batch = 1 << 16 }
    for _, name in ipairs { "linear_up", "lm_head", "cross_entropy", "embedding", "softmax", "gelu", "rms_norm" } do
      local op = operator.get(name)
      local s = op.shape(huge)
      assert.is_true(op.flops(s, "backward") > 0, name)
      assert.is_true(op.bytes(s, "fp32", "backward") > 0, name)
    end
  end)

  it("reports dimensions that do not divide", function()
    assert.matches("heads = 32 must be divisible by tp = 3",
      raised(operator.get("flash_attention").shape, with { tp = 3 }), 1, true)
  end)
end)

describe("names and samples of estimate-train-time", function()
  local names = { linear1 = "linear_qkv", linear2 = "linear_proj", linear3 = "linear_up", linear4 = "linear_down",
    linear_final = "lm_head", RMSlayernorm = "rms_norm", layernorm = "layer_norm", flash_atten = "flash_attention",
    RoPE = "rope", res_add = "residual_add", fillmask = "fill_mask", baddbmm = "bmm_qk", bmm = "bmm_pv",
    ScaledUpperTriangMaskedSoftmax = "masked_softmax", parallel_cross_entropy_128 = "cross_entropy",
    firstStage_optimizer = "first_stage_optimizer", middleStage_optimizer = "middle_stage_optimizer",
    lastStage_optimizer = "last_stage_optimizer" }

  it("are aliases wherever a name is read", function()
    for alias, name in pairs(names) do assert.equal(name, operator.get(alias).name) end
  end)

  it("load no other operator unless the name is an alias of an operator", function()
    local load_file, loaded = find.load_file, {}
    find.load_file = function(path)
      loaded[#loaded + 1] = path:match "/(operators/.*)$"
      return load_file(path)
    end
    operator.forget()
    assert.equal("linear_qkv", operator.get("linear1").name)
    assert.is_nil(operator.find "allreduce")
    assert.is_nil(operator.find "allgather_large")
    assert.same({ "operators/linear_qkv.lua" }, loaded)
    assert.equal("rms_norm", operator.get("rmsnorm").name) -- an operator's own alias: all are loaded
    find.load_file = load_file
    assert.is_true(#loaded > 50)
  end)

  it("mean what the operators together say", function()
    local collective = require "ett.operator.collective"
    for _, op in ipairs(operator.list()) do
      for _, alias in ipairs(op.aliases) do
        operator.forget()
        assert.equal(op.name, operator.get(alias).name)
        assert.is_nil(collective.find(alias))
      end
    end
  end)

  it("become shapes with the dimensions of the tool's predictors", function()
    local row = { mp = 2.0, b = 4.0, h = 32.0, l = 4096.0, dim = 4096.0 }
    local function shape(name) return operator.get(name).sample_row.shape(row) end
    local qkv = shape "linear1"
    assert.same({ 16384, 4096, 6144 }, { qkv.tokens, qkv.in_features, qkv.out_features })
    assert.equal(25216, shape("linear_final").out_features)
    assert.equal(25216, shape("parallel_cross_entropy_128").vocab)
    assert.equal(8192, shape("gelu").width)
    local flash = shape "flash_atten"
    assert.same({ 4, 16, 4096, 128 }, { flash.batch, flash.heads, flash.seq_q, flash.head_dim })
    local scores = operator.get("baddbmm").kernel_shape(shape "baddbmm")
    assert.same({ batch = 64, m = 4096, k = 128, n = 4096 }, scores)
  end)

  it("count the pairs of a causal mask at the bottom right, and half of all for context ranks", function()
    local flash = operator.get "flash_attention"
    local function flops(s)
      return flash.flops(operator.check_shape(flash, { batch = 2, heads = 3, kv_heads = 3, seq_q = s[1], seq_k = s[2],
        head_dim = 8, causal = s[3], shards = s[4] }), "forward")
    end
    local one_pair = 2 * 2.0 * 2 * 3 * 8
    for _, s in ipairs { { 64, 64 }, { 64, 256 }, { 1, 256 } } do
      local seen = 0 -- query i is row seq_k - seq_q + i of the sequence; of its own key it counts half
      for i = 1, s[1] do seen = seen + (s[2] - s[1] + i) - 0.5 end
      assert.equal(one_pair * seen, flops { s[1], s[2], 1 })
      assert.equal(one_pair * s[1] * s[2], flops { s[1], s[2], 0 })
    end
    assert.equal(one_pair * 64 * 256 / 2, flops { 64, 256, 1, 4 })
    local c = { tp = 1, cp = 4, micro_batch = 1, seq = 256, hidden = 32, heads = 4, kv_heads = 4, head_dim = 8 }
    assert.equal(4, flash.shape(c).shards)
    -- A ring and a gather hold their buffers whether their chunks are balanced or not.
    local function working(method, balanced)
      return flash.working_bytes(flash.shape(merged(c, { cp_method = method, cp_balanced = balanced })), "bf16",
        { context_parallel = "te" })
    end
    for _, method in ipairs { "ring", "all_gather" } do assert.equal(working(method, true), working(method, false)) end
    c.cp = 1
    assert.is_nil(flash.shape(c).shards)
    assert.has_error(function() flops { 65, 64, 1 } end)
    assert.equal(one_pair * 65 * 64, flops { 65, 64, 0 })
  end)

  it("count the parameters of the sampled optimizers", function()
    -- optimizer row: 2 layers of 256 = 27335680 parameters in 28 tensors, as the sample file says
    local op = operator.get "optimizer"
    local s = op.shape { tp = 1, layers = 2, hidden = 256, vocab = 50257 }
    assert.equal(27335680, s.params)
    assert.equal(28, s.tensors)
  end)
end)

describe("a user's own operator", function()
  local folder = command.each_folder(_ENV)
  after_each(function()
    find.set_script_folder(nil)
    operator.forget()
  end)

  local function write(name, text)
    require("ett.base.folder").write(folder .. "/" .. name .. ".lua", text)
    find.set_script_folder(folder)
    operator.forget()
  end

  it("is found beside the script", function()
    write("relu2", [[
      local op = { name = "relu2", summary = "squared ReLU", schema = { tokens = "count", width = "count" } }
      function op.shape(c) return { tokens = c.micro_batch * c.seq // c.cp, width = c.ffn // c.tp } end
      function op.flops(s) return 2.0 * s.tokens * s.width end
      function op.bytes(s) return 4.0 * s.tokens * s.width end
      return op]])
    local op = operator.get "relu2"
    assert.equal(2.0 * 8192 * 7168, op.flops(op.shape(configuration)))
    assert.same({ tokens = 8192, width = 7168 }, op.kernel_shape(op.shape(configuration)))
  end)

  it("is refused with its file, unknown fields and missing fields", function()
    write("bad", [[return { name = "bad", summary = "s", schema = {}, shape = function() end, remark = "own",
      flop = function() end, features = print, bytes = function() end }]])
    local text = raised(operator.get, "bad")
    assert.matches("bad.lua: unknown field 'features'", text, 1, true)
    assert.matches("unknown field 'flop'; did you mean 'flops'?", text, 1, true)
    assert.matches("unknown field 'remark'", text, 1, true)
    write("bad", [[return { name = "bad", schema = {}, shape = function() end,
      flops = 3, bytes = function() end, cpu = {} }]])
    text = raised(operator.get, "bad")
    assert.matches("missing field 'summary'", text, 1, true)
    assert.matches("field 'flops' must be a function, got 3", text, 1, true)
    assert.matches("field 'cpu' must be a function, got a table", text, 1, true)
    write("bad", [[return { name = "bad", summary = "s", schema = { n = "cuont" }, shape = print, flops = print,
      bytes = print }]])
    assert.matches("bad.lua: schema: unknown kind 'cuont' of field 'n'; did you mean 'count'?",
      raised(operator.get, "bad"), 1, true)
    for field, wanted in pairs {
      ["passes = { 'forwards' }"] = "field 'passes' must name forward, backward or update, got 'forwards'; did you "
        .. "mean 'forward'?",
      ["passes = { 'backward' }"] = "field 'passes' has a backward pass without a forward pass",
      ["passes = {}"] = "field 'passes' is empty", ["aliases = { 1 }"] = "aliases: a name must be a string, got 1",
    } do
      write("bad", ([[return { name = "bad", summary = "s", schema = {}, shape = print, flops = print, bytes = print,
        %s }]]):format(field))
      assert.equal("bad.lua: " .. wanted, raised(operator.get, "bad"))
    end
  end)

  it("that is a linear layer is refused for a wrong field of its layer", function()
    local gemm = require "ett.operator.gemm"
    local where = "gemm.linear: operator 'mine': "
    for wanted, layer in pairs {
      ["field 'place' must be one of enter, inside, outside, got 'entr'; did you mean 'enter'?"] = { place = "entr" },
      ["unknown field 'output'; did you mean 'outputs'?"] = { output = "ffn" },
      ["field 'outputs' must be the name of a field of the configuration, or a function of the configuration, got 4096"]
        = { outputs = 4096 },
      ["field 'bias' must be 1, a function, or a list of fields, got 'mlp_bias'"] = { bias = "mlp_bias" },
      ["field 'bias' must be 1, a function, or a list of fields, got 2"] = { bias = 2 } } do
      for field, value in pairs { place = "enter", inputs = "hidden", outputs = "ffn" } do
        if layer[field] == nil then layer[field] = value end
      end
      assert.equal(where .. wanted, raised(gemm.linear, { name = "mine", summary = "mine" }, layer))
    end
    assert.equal(where .. "must be a table of named fields, got nil", raised(gemm.linear, { name = "mine" }))
  end)

  it("that is a linear layer has no biases if the field that decides is 0 or false", function()
    local op = require("ett.operator.gemm").linear({ name = "mine", summary = "mine" },
      { place = "outside", inputs = "hidden", outputs = "ffn", bias = { "own_bias" } })
    local function parameters(own, bias)
      return op.parameters(op.shape { tp = 1, cp = 1, micro_batch = 1, seq = 1, hidden = 4, ffn = 8, own_bias = own,
        bias = bias })
    end
    assert.same({ 40, 40, 40, 32, 32, 32 }, { parameters(true), parameters(1), parameters(nil, true),
      parameters(0, true), parameters(false, true), parameters() })
  end)

  it("may be a changed copy of another operator, but not the other operator", function()
    local copy = [[
local op = {}
for key, value in pairs(require("ett").operator.get "rmsnorm") do op[key] = value end
op.name, op.parameters = "again", function() return 0 end
return op]]
    write("again", copy)
    local again, norm = operator.get "again", operator.get "rmsnorm"
    local s = again.shape(configuration)
    assert.same({ 0, 4096 }, { again.parameters(s), norm.parameters(s) })
    assert.equal(norm.bytes(s, "bf16", "forward"), again.bytes(s, "bf16", "forward"))
    assert.equal("rms_norm", norm.name)
    assert.matches("again.lua$", again.path)
    write("same", "return require('ett').operator.get 'rms_norm'")
    assert.equal("same.lua: returns the table of another operator; return a copy of it",
      raised(operator.get, "same"))
  end)

  it("is refused for model FLOPs that its family does not count", function()
    write("bad", [[return { name = "bad", summary = "s", schema = {}, shape = print, flops = print, bytes = print,
      model_flops = function() return 1.0 end }]])
    assert.equal("bad.lua: field 'model_flops' has no effect in the family 'elementwise': only the families gemm, bmm "
      .. "and attention count as model FLOPs", raised(operator.get, "bad"))
  end)

  it("reads the configuration, which other operators share, but cannot change it", function()
    for _, name in ipairs { "reads", "writes" } do
      write(name, ([[
        local op = { name = "%s", summary = "s", schema = { tokens = "count" } }
        function op.shape(c)
          local fields = 0
          for _ in pairs(c) do fields = fields + 1 end
          %s
          return { tokens = fields }
        end
        function op.flops() return 1.0 end
        function op.bytes() return 1.0 end
        return op]]):format(name, name == "writes" and "c.seq = c.seq // 2" or ""))
    end
    local c, fields = with {}, 0
    for _ in pairs(c) do fields = fields + 1 end
    assert.equal(fields, operator.get("reads").shape(c).tokens)
    assert.equal("writes.lua:2: operator 'writes': shape: must not change the configuration; it sets 'seq'",
      raised(operator.get("writes").shape, c))
    assert.equal(configuration.seq, c.seq)
  end)

  it("that reads a field that configurations never have is told the nearest", function()
    require "ett.model" -- adds the names of hyper-parameters
    for name, field in pairs { misspelt = "fnn", absent = "experts", foreign = "hidden_size" } do
      write(name, ([[
        local op = { name = "%s", summary = "s", schema = { tokens = "count" } }
        function op.shape(c) return { tokens = c.%s * 2 } end
        function op.flops() return 1.0 end
        function op.bytes() return 1.0 end
        return op]]):format(name, field))
    end
    local dense = with { ffn = 64 }
    dense.experts = nil
    assert.matches("misspelt.lua:2: attempt to perform arithmetic on a nil value (field 'fnn'); did you mean 'ffn'?",
      raised(operator.get("misspelt").shape, dense), 1, true)
    assert.matches("on a nil value %(field 'experts'%)$", raised(operator.get("absent").shape, dense))
    assert.matches("(field 'hidden_size'); did you mean 'hidden'?", raised(operator.get("foreign").shape, dense), 1,
      true)
    assert.equal(64, dense.ffn)
  end)

  it("that reads a field that its shapes never have is told the nearest, too", function()
    for name, field in pairs { astray = "widht", optional = "count", other = "experts" } do
      write(name, ([[
        local op = { name = "%s", summary = "s", schema = { width = "count", count = "count?" } }
        local function doubled(s) return s.%s * 2 end
        function op.shape(c) return { width = c.hidden } end
        op.flops, op.bytes, op.kernel_shape, op.law, op.activation_bytes = doubled, doubled, doubled, doubled, doubled
        return op]]):format(name, field))
      local op = operator.get(name)
      for _, of in ipairs { "flops", "bytes", "kernel_shape", "law", "activation_bytes" } do
        assert.matches(name .. ".lua:2: attempt to perform arithmetic on a nil value %(field '" .. field .. "'%)"
          .. (name == "astray" and "; did you mean 'width'%?$" or "$"), raised(op[of], { width = 64 }, "forward"))
      end
    end
  end)

  it("whose shape copies such a field is told the nearest, too", function()
    for name, field in pairs { copied = "fnn", copied_absent = "experts" } do
      write(name, ([[
        return { name = "%s", summary = "s", schema = { width = "count" }, flops = function() return 1.0 end,
          bytes = function() return 1.0 end, shape = function(c) return { width = c.%s } end }]]):format(name, field))
    end
    local dense = with { ffn = 64 }
    dense.experts = nil
    assert.matches("shape: missing field 'width' (a positive integer); c.fnn is unset; did you mean 'ffn'?",
      raised(operator.get("copied").shape, dense), 1, true)
    assert.matches("missing field 'width' %(a positive integer%)$", raised(operator.get("copied_absent").shape, dense))
  end)

  it("is named if it changes the configuration after it called another operator with it", function()
    for name, line in pairs { inner = "", outer = "require('ett').operator.get('inner').shape(c) c.seq = 1" } do
      write(name, ([[
        local op = { name = "%s", summary = "s", schema = { tokens = "count" } }
        function op.shape(c) %s return { tokens = c.seq } end
        function op.flops() return 1.0 end
        function op.bytes() return 1.0 end
        return op]]):format(name, line))
    end
    local c = with {}
    assert.matches("operator 'outer': shape: must not change the configuration; it sets 'seq'",
      raised(operator.get("outer").shape, c), 1, true)
    assert.equal(c.seq, operator.get("inner").shape(c).tokens)
  end)

  it("states by its law seconds, a half-width from 0 to 1 (0.5 if it is left out) and a known provenance", function()
    local function law(text)
      write("lawful", ([[
local op = { name = "lawful", summary = "s", schema = { n = "count" } }
function op.law() return %s end
function op.shape() return { n = 1 } end
function op.flops() return 1.0 end
op.bytes = op.flops
return op]]):format(text))
      return operator.get("lawful").law
    end
    assert.same({ 0.002, 0.5 }, { law "2e-3" ({ n = 1 }, {}, "forward") })
    assert.same({ 0.002, 0, "assumed" }, { law "2e-3, 0, 'assumed'" ({ n = 1 }, {}, "forward") })
    assert.is_nil(law "nil" ({ n = 1 }, {}, "forward"))
    for text, wanted in pairs {
      ["-1e-3"] = "law: seconds must be a number of at least 0, got -0.001",
      ["0 / 0"] = "law: seconds must be a number of at least 0, got NaN",
      ["'fast'"] = "law: seconds must be a number of at least 0, got 'fast'",
      ["1e300"] = "law: seconds must be at most 1000000000, got 1e+300",
      ["1e-3, 5"] = "law: half-width of the interval must be a number from 0 to 1, got 5",
      ["1e-3, 0.3, 'guessed'"] = "law: the third result must be 'assumed', 'calibrated' or nil, got 'guessed'",
    } do
      assert.equal("lawful.lua:2: operator 'lawful': " .. wanted, raised(law(text), { n = 1 }, {}, "forward"))
    end
    local find_cluster, times = require("ett.profile.cluster").get, require("ett.profile.of_cluster").open
    law "2e-3"
    local answer = times(find_cluster "dgx_h100"):operator("lawful", { n = 1 }, "bf16", "forward")
    assert.same({ 2e-3, 1e-3, 3e-3, "calibrated" },
      { answer.seconds, answer.low_seconds, answer.high_seconds, answer.provenance })
  end)

  it("has the name of its file", function()
    write("mine", [[
      return { name = "other", summary = "s", schema = {}, shape = print, flops = print, bytes = print }]])
    assert.equal("mine.lua: field 'name' must be the file's name 'mine', got 'other'", raised(operator.get, "mine"))
  end)

  it("is refused for an impossible value, with file, line, field and value", function()
    local text = [[
local op = { name = "odd", summary = "s", schema = { n = "count" } }
function op.shape(c) return { n = c.n } end
function op.flops(s) return s.n == 7 and 0 / 0 or s.n end
function op.bytes(s) return s.n == 8 and -1 or s.n == 11 and 1e300 or s.n end
function op.parameters(s) return s.n == 9 and 2.5 or s.n end
function op.kernel_shape(s) return s.n == 12 and { rows = -1 } or s.n == 13 and { rows = 0 / 0 } or s.n < 14 and s end
function op.activation_bytes(s) return s.n == 10 and "many" or 1.0 * s.n end
return op]]
    write("odd", text)
    local op = operator.get "odd"
    assert.equal(4, op.shape({ n = 4.0 }).n)
    assert.equal("odd.lua:2: operator 'odd': shape: field 'n' must be a positive integer, got 2.5",
      raised(op.shape, { n = 2.5 }))
    assert.equal("odd.lua:3: operator 'odd': flops must return a number of at least 0, got NaN",
      raised(op.flops, { n = 7 }))
    assert.equal("odd.lua:4: operator 'odd': bytes must return a number of at least 0, got -1",
      raised(op.bytes, { n = 8 }))
    assert.equal("odd.lua:4: operator 'odd': bytes must return at most 1e+36, got 1e+300",
      raised(op.bytes, { n = 11 }))
    assert.equal("odd.lua:5: operator 'odd': parameters must return an integer of at least 0, got 2.5",
      raised(op.parameters, { n = 9 }))
    assert.equal("odd.lua:7: operator 'odd': activation_bytes must return a number of at least 0, got 'many'",
      raised(op.activation_bytes, { n = 10 }))
    assert.same({ n = 3 }, op.kernel_shape { n = 3 })
    for n, wanted in pairs { [12] = ": 'rows' must be a number of at least 0, got -1",
      [13] = ": 'rows' must be a number of at least 0, got NaN", [14] = " must return a table, got false" } do
      assert.equal("odd.lua:6: operator 'odd': kernel_shape" .. wanted, raised(op.kernel_shape, { n = n }))
    end
  end)

  it("is refused where it reads pp or dp, which no plan gives it", function()
    write("odd", [=[
local op = { name = "odd", summary = "s", schema = { n = "count" } }
function op.shape(c) return { n = c.dp or c.n } end
function op.refuse(c) return c.pp == 4 and "needs another pp" or nil end
function op.flops(s) return s.n end
function op.bytes(s) return s.n end
return op]=])
    local op = operator.get "odd"
    local why = ", which a configuration does not have: operators are the same for all pp and dp"
    assert.equal("odd.lua:2: operator 'odd': shape: reads c.dp" .. why, raised(op.shape, { n = 4 }))
    assert.equal("odd.lua:3: operator 'odd': refuse: reads c.pp" .. why, raised(op.refuse, { n = 4 }))
    assert.equal("needs another pp", op.refuse { pp = 4 }) -- given by an entry's `with`
  end)

  it("is named with the nearest name if it is unknown", function()
    assert.matches("unknown operator 'linear_qvk'; did you mean 'linear_qkv'",
      raised(operator.get, "linear_qvk"), 1, true)
  end)
end)

it("kernels from an expression are CUDA C, doubles and launches of one description", function()
  local launch = require "ett.operator.launch"
  local op = { name = "axpy", kernel_shape = function(s) return { rows = s.n, cols = 2 } end }
  local pass = { takes = { "x", "y" }, gives = { "z", "w" }, code = "z = 2.0f * x + y; w = x;",
    double = function(x, y) return 2 * x + y, x end }
  launch.map(op, { forward = pass, backward = pass })
  assert.matches("void axpy_backward(const T *x_, const T *y_, T *z_, T *w_, long long n)", op.cuda, 1, true)
  assert.matches("    z = 2.0f * x + y; w = x;\n    store(z_, i, z);\n    store(w_, i, w);", op.cuda, 1, true)
  local z, w = {}, {}
  op.doubles.axpy_forward({ 1, 2 }, { 10, 20 }, z, w, 2)
  assert.same({ { 12, 24 }, { 1, 2 } }, { z, w })
  local asked, launched = {}, nil
  op.kernel({ tensor = function(t) asked[#asked + 1] = t return t end,
    kernel = function(given) launched = given end }, { n = 300 }, "forward")
  assert.same({ { 300, 2 }, { 300, 2 }, { 300, 2 }, { 300, 2 } }, asked)
  assert.equal("axpy_forward", launched.name)
  assert.equal(600, launched.args[5])
  assert.equal(3, launched.grid)
end)

it("dtypes fp8 halves the operands of a product but not its result", function()
  local op = operator.get "linear_up"
  local s = op.shape(configuration)
  local m, n, k = s.tokens, s.out_features, s.in_features
  assert.equal(1.0 * (m * k + k * n) + 2.0 * m * n, op.bytes(s, "fp8", "forward"))
  assert.equal(1, dtype_bytes.fp8)
end)
