--- Rows of published measured steps: reading, and the output of the bench.
local published = require "published"

describe("published measured steps", function()
  local rows, why = published.rows()
  if not rows then
    pending("skipped: " .. tostring(why))
    return
  end
  local by_id = {}
  for _, row in ipairs(rows) do by_id[row.id] = row end

  it("are read field by field", function()
    local plan = published.plan(by_id["neox_A100_GPT_20B_8-4-4"], "fp16")
    assert.same({ 5, 6, 6, 6, 6, 6, 6, 3 }, plan.split)
    assert.equal(1, plan.zero)
    local interleaved = published.plan(by_id.korth22_175B_selSP, "fp16")
    assert.same({ "interleaved", "selective", true },
      { interleaved.schedule, interleaved.recompute, interleaved.sequence_parallel })
    local overlapped = published.plan(by_id["mbridge_26.08_pretrain_GPT_OSS_120B_GB300_MXFP8_64gpu_4"], "mxfp8")
    assert.same({ "batch", true }, { overlapped.overlap_all_to_all, overlapped.deduplicate_tokens })
    assert.equal(85e9, published.cluster(by_id.vtrain_multi_0000).links.inter.bandwidth_per_node)
    -- Jean Zay: the rate of NCCL's benchmark through each of four cards, not 0.85 of their 12.5 GB/s.
    local jean_zay = published.cluster(by_id.bigsci_042_177B_tp8pp6mbs2_h12288).links.inter
    assert.same({ 5.07e9, 20.28e9 }, { jean_zay.bandwidth_per_gpu, jean_zay.bandwidth_per_node })
    -- The post's 464 H100 with 3.2 Tbit/s a node, not the README's 96 with 800 Gbit/s; A100 as the README.
    local function of_fms(id) return by_id[id].gpus, published.cluster(by_id[id]).links.inter.bandwidth_per_node end
    assert.same({ 464, 340e9 }, { of_fms "fms_34b_H100" })
    assert.same({ 128, 42.5e9 }, { of_fms "fms_34b_A100" })
    assert.equal("nvfp4", published.dtype { precision = "nvfp4" })
    local copies = "the submitter's copies of the config differ in %s: not taken"
    local function of_copies(settings)
      return published.dtype { precision = "fp8", notes_v2 = { copies:format(settings) } }
    end
    assert.same({ "nvfp4", "nvfp4", "fp8" }, { of_copies "FP4, FP8", of_copies "FP8, FP4", of_copies "FP8, FP4_MORE" })
    assert.equal(2.4e12, published.cluster(by_id.titan_8b_8_eager_bf16).device.memory_bandwidth)
  end)

  it("that lack a field are answered, or refused with a reason", function()
    local answered, refused = 0, {}
    for _, id in ipairs { "neox_A100_GPT_20B_8-4-4", "fms_34b_H100", "titan_8b_8_eager_bf16", "vtrain_multi_0000",
      "mbridge_26.08_pretrain_GPT_OSS_120B_GB300_MXFP8_64gpu_4" } do
      for field in pairs(by_id[id]) do
        local row = {}
        for name, value in pairs(by_id[id]) do if name ~= field then row[name] = value end end
        local ok, reason = pcall(published.estimate, row)
        if ok then answered = answered + 1 end
        assert.truthy(ok or require("ett.base.error").is(reason), tostring(reason))
        if not ok then refused[#refused + 1] = tostring(reason):match "the row does not state (%w+)" end
        if ok then assert.is_table(published.unknown(row)) end
      end
    end
    assert.is_true(answered > 150)
    assert.equal(5 * 10, #refused)
  end)

  it("are of the software and generations that the stacks name as compared, with one exception", function()
    local stacks, found = require "ett.operator.stack", {}
    for _, row in ipairs(rows) do
      local stack = published.is_fitted(row) and published.stack(row) or { compared = "none" }
      -- Megatron-Bridge's rows with HybridEP have the graphs that they state, so they have its base.
      local bridge = row.framework == "megatron-bridge" and stack.name == "megatron_hybridep" and "megatron_bridge"
      for _, name in ipairs(stack.compared ~= "none" and { stack.name, bridge or nil } or {}) do
        found[name] = found[name] or {}
        found[name][published.cluster(row).device.generation] = true
      end
    end
    found.maxtext = { tpu = true } -- on GPUs its narrow interval did not hold (spec/bench/README.md)
    for _, name in ipairs(stacks.names()) do
      local compared = stacks.compared_on(stacks.get(name))
      compared.cdna4 = nil -- steps of Primus that are not among these rows
      assert.same(found[name] or {}, compared, name)
    end
    -- fms-fsdp's rows have the stack of torchtitan, which is other software.
    assert.equal("none", published.stack(by_id.fms_13b_A100).compared)
  end)

  it("of eager torchtitan in 2024 have RMS norms of single operators", function()
    assert.equal("composite", published.stack(by_id.titan_8b_8_eager_bf16).norm)
    assert.equal("torch", published.stack { framework = "torchtitan", compile = false, zero = 3, device = "H100",
      framework_version = "2026" }.norm)
  end)

  it("of InternEvo update the tensors that a rank owns, and broadcast them", function()
    local few = published.plan(by_id["internevo_7b_tp1_z8_512"], "bf16")
    assert.same({ 8, false, "bf16", 2.0 ^ 30 },
      { few.shard, few.gradient_all_reduce, few.gradient_dtype, few.bucket_bytes })
    assert.same({ "selective", { "layernorm" } }, { few.recompute, few.recompute_modules })
    local all = published.plan(by_id["internevo_7b_tp1_z-1_512"], "bf16")
    assert.same({ nil, true, 2.0 ^ 30 }, { all.shard, all.gradient_all_reduce, all.bucket_bytes })
    assert.equal(9, published.stack(by_id["internevo_7b_tp1_z-1_512"]).owned_tensors)
    assert.equal(8 * 8, published.stack(by_id["internevo_7b_tp1_z8_512"]).gradient_copy_bytes)
  end)

  it("of SHARD_GRAD_OP keep weights whole until the backward pass", function()
    local function of(id)
      local p = published.plan(by_id[id], "bf16")
      return { p.zero, p.reshard }
    end
    assert.same({ 3, false }, of "mpt_h100_80gb_1b_s2048_n512_mb12_g6144_bf16_16") -- states ZeRO-2
    assert.same({ 3, true }, of "mpt_h100_80gb_7b_s2048_n512_mb6_g3072_bf16_10")
  end)

  it("of MaxText drop tokens where notes or fields say so", function()
    local function capacity(row)
      local p = published.plan(row, "bf16")
      return { p.capacity_factor, p.pad_to_capacity }
    end
    local row = {}
    for field, value in pairs(by_id.tpurec_v6e_Mixtral_8x22B_MaxText) do row[field] = value end
    assert.same({ 1.25, true }, capacity(row))
    row.notes = nil
    assert.same({}, capacity(row))
    row.token_drop, row.capacity_factor = true, 1.5
    assert.same({ 1.5, true }, capacity(row))
    row.framework = "nemo"
    assert.same({}, capacity(row))
  end)

  it("of MaxText shard weights inside a slice or a group of nodes", function()
    for id, ranks in pairs { maxtext_v5e_64B_2x256 = 256, maxtext_v5p_64B_2x64 = 16, gpurec_a3ultra_70b_bf16 = 128,
      ["dgxc_v25.04.02_maxtext-llama3-70b_bf16_2048gpu_gbs4096"] = 128 } do
      assert.equal(ranks, published.plan(by_id[id], "bf16").shard, id)
    end
    assert.is_nil(published.plan(by_id.maxtext_v5e_64B_1x256, "bf16").shard)
  end)

  it("of MaxText repeat what their policy does not store", function()
    local function of(policy)
      local p = published.plan({ framework = "maxtext", recompute = "selective", recompute_detail = policy, gpus = 8,
        global_batch = 8, micro_batches = 1, zero = 3, device = "H200" }, "bf16")
      return { p.recompute, p.recompute_modules or p.recompute_keeps }
    end
    assert.same({ "selective", { "core_attn", "layernorm", "mlp_act" } }, of "minimal")
    assert.same({ "selective", { "layernorm", "mlp" } }, of "save_dot_with_context_except_mlp")
    assert.same({ "policy", { "linear_qkv" } }, of "remat policy save_qkv_proj")
  end)

  it("of tpu-recipes' custom policies store and offload what the recipes name, and fit as they did", function()
    local function of(id)
      local e = published.estimate(by_id[id])
      return { e.plan.recompute, table.concat(e.plan.recompute_keeps or {}, " "), e.plan.offload_activations, e.fits }
    end
    assert.same({ "policy", "linear_qkv linear_proj", 1, true }, of "tpurec_v5p_Llama4_Maverick")
    assert.same({ "policy", "linear_qkv", 1, true }, of "tpurec_v6e_Llama3_1_70B_MaxText_v6e_256")
    assert.same({ "policy", "linear_qkv", 1, true }, of "tpurec_v6e_Llama3_1_70B_MaxText_v6e_32")
    assert.same({ "policy", "linear_qkv flash_attention", 0, true }, of "ironwood_llama3.1-70b_128k_256_bf16")
    assert.same({ "full", "", 1, true }, of "ironwood_llama3.1-405b_256_bf16")
    assert.equal(0, published.estimate(by_id["maxtext_v5e_64B_1x256"]).plan.offload_activations)
  end)

  it("of NeMo's older releases have the layers and losses of their configurations", function()
    local function of(id)
      local row = by_id[id]
      local name, hyper = published.model(row)
      return { name, hyper.attention, hyper.bias, hyper.dropout, published.stack(row).cross_entropy,
        published.plan(row, "bf16").gradient_dtype }
    end
    assert.same({ "gpt", "fused_softmax", true, true, "megatron", "fp32" }, of "nemolauncher_5B_1nodes")
    local launched = published.estimate(by_id.nemolauncher_5B_1nodes)
    assert.same({ "selective", true }, { launched.plan.recompute, launched.fits })
    assert.same({ "gpt", "flash", true, true, "native", "bf16" }, of "nemo24.07_pretrain_GPT3_20B_64gpu_s2048")
    assert.same({ "gpt", "flash", true, false, "native", "bf16" }, of "nemo24.07_pretrain_GPT3_175B_128gpu_s2048")
    assert.same({ "llama", "flash", false, nil, "native", "bf16" }, of "nemo24.07_pretrain_LLAMA2_7B_8gpu_s4096")
    assert.equal("flash2", published.stack(by_id["nemo24.07_pretrain_LLAMA2_7B_8gpu_s4096"]).attention)
    for _, id in ipairs { "gpurec_a3ultra_70b_fp8_nemo", "mlperf_v5.0_llama31_405b_H100_512_gbs1152",
      "dgxc_v25.04.02_grok1-314b_bf16_64gpu_gbs1024" } do
      assert.equal("cudnn", published.stack(by_id[id]).attention)
    end
    assert.equal("native", published.stack(by_id["mlperf_v5.0_llama31_405b_H100_512_gbs1152"]).cross_entropy)
    assert.equal("fused", published.stack(by_id["mlperf_v5.0_llama31_405b_GB200_512_gbs896"]).cross_entropy)
  end)

  it("of paxml recompute by its policy, and overlap", function()
    local function of(id)
      local row = by_id[id]
      local plan, _, hyper = published.plan(row, published.dtype(row)), published.model(row)
      return { plan.recompute, plan.recompute_modules, plan.overlap_gradients, plan.overlap_parameters,
        hyper.attention }
    end
    local some = { "core_attn", "layernorm" }
    assert.same({ "selective", some, true, true, "fused_softmax" }, of "jaxtb_pax_5B_A100_bf16")
    assert.same({ "selective", some, true, true, "flash" }, of "jaxtb_pax_5B_H100_TE_bf16")
    assert.same({ "full", nil, true, true, "flash" }, of "jaxtb_pax_5B_H100_TE_fp8")
    -- Weights are sharded inside a node, whatever the number of nodes.
    local node = published.estimate(by_id["dgxc_v24.11.1_paxml-gpt5b_fp8_64gpu_gbs256"])
    assert.same({ 3, 8, true }, { node.plan.zero, node.plan.shard, node.fits })
    local maxtext = by_id.gpurec_a3ultra_70b_bf16
    assert.is_true(published.plan(maxtext, published.dtype(maxtext)).overlap_parameters)
  end)

  it("of XLA embed by a product with one-hot rows where their configurations do", function()
    local function share(id)
      local time = {}
      for _, line in ipairs(published.estimate(by_id[id]).operators) do time[line.name] = line.seconds end
      return time.embedding / time.lm_head
    end
    for _, id in ipairs { "tpurec_v6e_Llama3_1_8B_MaxText_v6e_8", "ironwood_llama3.1-70b_128k_256_bf16",
      "dgxc_v25.04.02_maxtext-llama3-70b_bf16_128gpu_gbs256", "gpurec_a3ultra_70b_bf16", "jaxtb_pax_5B_A100_bf16" } do
      assert.near(2 / 3, share(id), 0.05, id)
    end
    for _, id in ipairs { "ironwood_qwen3-235b-a22b_256_bf16", "maxtext_v4_52B_1x192" } do
      assert.is_true(share(id) < 0.05, id)
    end
  end)

  it("find the cluster of a device by its name, and choose missing layouts", function()
    local function device(name) return published.cluster({ id = "", device = name, gpus = 8 }).device.key end
    for name, key in pairs { ["MI355X-288GB"] = "mi355x", ["MI350X"] = "mi350x", ["AMD MI300X 192GB"] = "mi300x",
      ["TPU v5e"] = "tpu_v5e", ["V100-SXM3-32GB"] = "v100", A100 = "a100_sxm", ["H100 PCIe 80GB"] = "h100_pcie",
      ["H100 NVL 94GB"] = "h100_sxm", ["Gaudi 3"] = "gaudi3" } do assert.equal(key, device(name)) end
    assert.is_nil(published.cluster { id = "", device = "Z9000", gpus = 8 })
    -- ett gives a step on 64 chips a slice of 8 x 8, without a full row of the torus.
    assert.equal(256, published.cluster({ id = "", device = "TPU v6e (Trillium)", gpus = 64 }).gpus_per_node)
    assert.is_nil(published.cluster({ id = "", device = "TPU v5e", gpus = 256 }).links.intra.blocking_reductions)
    local open = published.plan({ gpus = 64, global_batch = 32, micro_batches = 1, zero = 1, device = "H200" }, "bf16")
    assert.same({ 2, 32, 1 }, { open.cp, open.dp, open.micro_batch })
    local batch = published.plan({ gpus = 16, tp = 2, pp = 2, global_batch = 32, device = "H200" }, "bf16")
    assert.same({ 4, 1, 8 }, { batch.dp, batch.micro_batch, batch.micro_batches })
  end)

  it("recompute the stated number of layers", function()
    local row = { source = "", id = "", model = "", framework = "mlperf-nemo", device = "MI300X", gpus = 8, dp = 8,
      layers = 80, recompute = "full", recompute_detail = "full, block", precision = "fp8" }
    local function of(layers, pp)
      row.recompute_layers, row.pp = layers, pp
      local p = published.plan(row, "fp8")
      return { p.recompute, p.recompute_layers or "-" }
    end
    assert.same({ "none", "-" }, of(0))
    assert.same({ "full", 19 }, of(19))
    assert.same({ "full", 10 }, of(10, 4))
    row.recompute_detail = "full"
    assert.same({ "full", "-" }, of(1)) -- the size of uniform groups
    assert.equal("only", published.stack(row).quantised_weights)
    row.precision_detail = "fp8 parameters, no transpose cache"
    assert.equal("single", published.stack(row).quantised_weights)
  end)

  it("of Primus balance tokens evenly, and run experts in one kernel, in 16 bits if scaling is delayed", function()
    local row = { framework = "primus", model = "Qwen3", id = "", source = "", device = "MI355X", arch = "moe",
      gpus = 8, layers = 2, ffn = 64, hidden = 64, heads = 2, vocab = 100, experts = 128, top_k = 8, moe_ffn = 64,
      ep = 8, moe_dispatcher = "deepep", balanced_routing = true, precision = "fp8",
      precision_detail = "hybrid, delayed scaling" }
    local _, hyper = published.model(row)
    local stack = published.stack(row)
    assert.same({ 16, 1 }, { hyper.expert_groups, hyper.top_groups })
    assert.same({ "primus_moe", "kernel", "dense", 1 },
      { stack.name, stack.grouped, stack.quantised_products, stack.gated_mlp })
    row.fused_swiglu = false
    assert.equal(5.6, published.stack(row).gated_mlp)
    row.framework, row.precision_detail = "megatron-lm", "hybrid"
    assert.is_nil((select(2, published.model(row))).expert_groups)
    assert.same({ "streams", "all" }, { published.stack(row).grouped, published.stack(row).quantised_products })
    local nemo = { framework = "nemo", framework_version = "October 2024", device = "MI300X-192GB", gpus = 8 }
    assert.equal("flash2", published.stack(nemo).attention)
    nemo.framework_version = "October 2025"
    assert.equal("cudnn", published.stack(nemo).attention)
    assert.equal("cudnn", published.stack({ framework = "torchtitan", attention = "aiter", device = "MI325X",
      gpus = 8 }).attention)
  end)

  it("of nanotron end a stage behind the layer that exceeds its share, and state the memory of rank 0", function()
    local row = by_id["nanotron_1.34B_8n"]
    assert.same({ 11, 5 }, published.plan(row, "bf16").split) -- the head is as wide as four layers
    assert.same({ 9, 9, 8, 6 }, published.plan(by_id["nanotron_8.86B_1n"], "bf16").split)
    assert.is_nil(published.plan(by_id["nanotron_3.57B_64n"], "bf16").split)
    assert.equal(16.27 * 2 ^ 30, published.memory_bytes(row))
    local e = published.estimate(row)
    local first = e.stages[1]
    assert.equal(first.allocated_bytes + first.fragment_bytes, published.memory(row, e))
    assert.near(first.parameters * 2, first.cached_bytes, 1) -- 16-bit gradients beside those in fp32
  end)

  it("of torchtune have the techniques of the table up to their own, and binary bytes", function()
    local function of(technique)
      local row = by_id["torchtune_3b__" .. technique]
      local stack = published.stack(row)
      return { stack.norm, stack.cross_entropy, published.plan(row, "bf16").offload_activations }
    end
    assert.same({ "torch", "torch" }, of "packed")
    assert.same({ "compiled", "torch" }, of "compile")
    assert.same({ "compiled", "compiled" }, of "chunked_CE")
    assert.same({ "compiled", "compiled", 1 }, of "8_bit_AdamW")
    local row = by_id.torchtune_3b__activation_checkpointing
    assert.equal(24.9 * 2 ^ 30, published.memory_bytes(row))
    assert.is_true(math.abs(published.memory(row, published.estimate(row)) / published.memory_bytes(row) - 1) < 0.06)
  end)

  it("of NeMo Automodel's benchmarks have states of 16 bits, deferred gradients, and fit", function()
    for name, recompute in pairs { Qwen3_MoE_30B_8 = "full", GPT_OSS_20B_8 = "none", GPT_OSS_120B_64 = "none" } do
      local id = "automodel_pretrain_" .. name
      local e = published.estimate(by_id[id])
      assert.same({ 4, recompute, true }, { e.plan.optimizer_bytes, e.plan.recompute, e.fits }, id)
      local s = e.stages[1]
      assert.near(2 * s.parameters, s.gradient_bytes, 1) -- whole
    end
  end)

  it("of Megatron-Bridge and MaxText have the plans and models of their recipes, and fit", function()
    local bridge = "mbridge_%s_pretrain_GPT_OSS_120B_%s_BF16_64gpu_%d"
    for _, case in ipairs { { "25.11", "H100", 262, "selective", 32 }, { "26.02.01", "B200", 184, "selective", 5 },
      { "25.11", "GB300", 239, "none", 10 } } do
      local id = bridge:format(table.unpack(case, 1, 3))
      local e = published.estimate(by_id[id])
      assert.same({ case[4], case[5], true }, { e.plan.recompute, e.plan.micro_batches, e.fits }, id)
    end
    for _, name in ipairs { "NVFP4_64gpu_164", "MXFP8_64gpu_166" } do
      local e = published.estimate(by_id["mbridge_26.02.01_pretrain_LLAMA3_70B_GB300_" .. name])
      assert.same({ 4, 5, 16, "interleaved", true }, { e.plan.pp, e.plan.vp, e.plan.dp, e.plan.schedule, e.fits })
    end
    local e = published.estimate(by_id["maxtext_v4_52B_1x192"])
    assert.near(52.3e9, e.model.parameters, 0.1e9)
    assert.is_true(e.fits)
  end)

  it("of Megatron-LM split the sequence if tensor-parallel communication overlaps", function()
    local function of(row)
      local p = published.plan({ framework = "megatron-lm", device = "H100", gpus = 8, tp = row.tp or 8, dp = 1,
        overlap_tp = row.overlap_tp, sequence_parallel = row.sequence_parallel }, "bf16")
      return { p.sequence_parallel, p.overlap_tensor or false }
    end
    assert.same({ true, true }, of { overlap_tp = true })
    assert.same({ false, false }, of {})
    assert.same({ true, false }, of { sequence_parallel = true })
    assert.same({ false, false }, of { overlap_tp = true, tp = 1 })
  end)

  it("of NeMo 1 have the states of Apex's optimizer", function()
    local function of(version, category, model)
      return published.plan({ framework = "nemo", framework_version = version, category = category, model = model,
        device = "H100", gpus = 8, tp = 8, dp = 1 }, "bf16").optimizer_bytes
    end
    assert.same({ 10, 10, 4, 4 }, { of("24.07", "pretrain", "LLAMA2-7B"), of("launcher 23.x", "pretrain", "GPT3"),
      of("24.07", "sft", "LLAMA2-7B"), of("24.07", "pretrain", "Nemotron-340B") })
    assert.is_nil(of("24.12", "sft", "LLAMA3-8B"))
  end)

  it("name the fields that are unknown", function()
    local unknown = published.unknown { recompute = "unknown", zero = 1, micro_batches = 1, dp = 1 }
    assert.same({ "attention", "overlap_grad_reduce", "gradient_dtype", "recompute" }, unknown)
  end)

  it("compare memory by what was read, with each group's worst row, and name plans that do not fit", function()
    local bench = require("ett.base.find").load_file(require("ett.host").root .. "/spec/bench/published.lua")
    local function larger(id, micro_batch)
      return setmetatable({ id = "larger " .. id, micro_batch = micro_batch }, { __index = by_id[id] })
    end
    local results = bench.results { by_id["titan_8b_8_eager_bf16"], by_id["korth22_mem_22B_none"],
      by_id["nanotron_1.34B_8n"], by_id["nanotron_1.34B_1n"], larger("maxtext_v4_52B_1x192", 14),
      larger("automodel_pretrain_GPT_OSS_120B_64", 4) }
    local names = {}
    for i, g in ipairs(results.memory) do names[i] = g.name end
    assert.same({ "figure, Korthikanti et al. 2022, megatron-lm", "peak, huggingface/nanotron, nanotron",
      "reserved_peak, pytorch/torchtitan, torchtitan" }, names)
    local g, sum, size, worst = results.memory[2], 0.0, 0.0, nil
    for _, id in ipairs { "nanotron_1.34B_8n", "nanotron_1.34B_1n" } do
      local row = by_id[id]
      local off = 100 * (published.memory(row, published.estimate(row)) / (row.memory_value * 2 ^ 30) - 1)
      sum, size = sum + off, size + math.abs(off)
      if not worst or math.abs(off) > math.abs(worst.off) then worst = { off = off, id = id } end
    end
    assert.equal(2, g.rows)
    assert.near(sum / 2, g.bias_percent, 1e-9)
    assert.near(size / 2, g.mape_percent, 1e-9)
    assert.same({ worst.id, worst.off }, { g.worst_row, g.worst_percent })
    assert.same({ "larger maxtext_v4_52B_1x192" }, results.unfit.stated.ids)
    assert.same({ "larger automodel_pretrain_GPT_OSS_120B_64" }, results.unfit["not stated"].ids)
    assert.same({ 4, 1 }, { results.unfit.stated.rows, results.unfit["not stated"].rows })
  end)

  it("are nearly all estimated, and printed in groups that count duplicates once", function()
    local bench = require("ett.base.find").load_file(require("ett.host").root .. "/spec/bench/published.lua")
    local some = {} -- every sixth row; `ett bench published` runs all of them
    for i = 1, #rows, 6 do some[#some + 1] = rows[i] end
    local results = bench.results(some)
    local all
    for _, group in ipairs(results.groups) do
      if group.kind == "all" then all = group end
    end
    local wanted = 0
    for _, row in ipairs(some) do
      if (row.grade == "A" or row.grade == "A-") and row.use == "step" and not row.duplicate_of then
        wanted = wanted + 1
      end
    end
    assert.is_true(wanted > 100)
    assert.equal(wanted, all.rows)
    assert.is_true(all.answered / all.rows >= 0.97)
  end)
end)
