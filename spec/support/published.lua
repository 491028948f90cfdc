--- Model, plan, cluster and stack of published measured steps (schema 2), for estimates.
--
-- A field that a row does not have is unknown: ett's default is used, and published.unknown names the field.
local published = { factors = require "published_factors" }

--- Path of a file of the reference data; or nil and the reason.
function published.path(name)
  local root = os.getenv "ETT_REFERENCE" or require("ett.host").root .. "/../shared/reference"
  local path = root .. "/" .. name
  local file = io.open(path, "r")
  if not file then return nil, ("no reference data at %s; set ETT_REFERENCE"):format(path) end
  file:close()
  return path
end

-- Fields that another page of a row's source corrects. fms-fsdp's README has 96 H100 with 800 Gbit/s a node. The
-- authors' later post has 464 with 3.2 Tbit/s for the steps with torch.compile (pytorch.org, "Maximizing Training
-- Throughput Using PyTorch FSDP and Torch.compile", table 2). On both pages H100 is 2.2 to 2.3 times as fast as A100.
local compiled = { gpus = 464, nodes = 58, dp = 464, shard_ranks = 464, global_batch = 928, network_gb_per_node = 400,
  network_gb_per_gpu = 50 }
local corrected = { fms_13b_H100 = compiled, fms_34b_H100 = compiled }

-- Plans that a table of Megatron-Bridge prints wrongly, from its recipes (scripts/performance/configs). For gpt-oss on
-- H100, release 25.11 prints the micro-batch and the accumulation steps of B200, which contradict the global batch; the
-- recipe has micro-batches of one sequence. For Llama 3 70B on GB300, release 26.02.01 prints whole stages without
-- shards: all weights and gradients would take 282 of 288 GB. The recipe, and the tables of 26.02 and 26.04, have four
-- stages in five chunks.
corrected["mbridge_25.11_pretrain_GPT_OSS_120B_H100_BF16_64gpu_262"] = { micro_batch = 1, micro_batches = 32 }
local in_chunks = { dp = 16, shard_ranks = 16, pp = 4, vp = 5, schedule = "interleaved", split_rule = "uniform",
  overlap_p2p = true, micro_batch = 1, micro_batches = 16, recompute = "none" }
corrected["mbridge_26.02.01_pretrain_LLAMA3_70B_GB300_NVFP4_64gpu_164"] = in_chunks
corrected["mbridge_26.02.01_pretrain_LLAMA3_70B_GB300_MXFP8_64gpu_166"] = in_chunks

-- MaxText's 52B on TPU v4 has 52 billion parameters with the defaults of base.yml of its time: head_dim 256, and an MLP
-- that is not gated. The rows have later defaults, 65 billion. The steps follow from 154 and 162 TFLOP/s
-- (MaxText/configs/v4/README.md) by MaxText's formula, 6 FLOPs a parameter and token and half of attention's square.
for slices, seconds in ipairs { 29.5, 28.1 } do
  corrected[("maxtext_v4_52B_%dx192"):format(slices)] = { head_dim = 256, gated_mlp = false, step_seconds = seconds,
    norm = "rms_norm", position = "rope", bias = false, tied_embeddings = false }
end

--- Every row; or nil and the reason.
function published.rows()
  local path, why = published.path "published/steps_v2.json"
  if not path then return nil, why end
  local json = require "ett.json"
  local rows = assert(json.read(path)).rows
  for _, row in ipairs(rows) do
    for field, value in pairs(row) do if value == json.null then row[field] = nil end end
    for field, value in pairs(corrected[row.id] or {}) do row[field] = value end
  end
  return rows
end

local clusters = {
  ["A100-SXM4-80GB"] = "dgx_a100", ["A100-SXM4-40GB"] = "dgx_a100", ["H100-SXM-80GB"] = "dgx_h100",
  ["H100-SXM-96GB"] = "dgx_h100", ["H200-SXM-141GB"] = "dgx_h200", ["B200-SXM-180GB"] = "dgx_b200",
  ["B300-SXM-288GB"] = "dgx_b300", ["GB200-186GB"] = "gb200_nvl72", ["GB300-288GB"] = "gb300_nvl72",
  ["GH200-96GB"] = "vista", ["TPU v6e (Trillium)"] = "tpu_v6e", ["TPU v5p"] = "tpu_v5p",
  ["TPU7x (Ironwood)"] = "tpu_v7x",
}

-- Devices without a bundled cluster: the most similar bundled cluster, and the ratio of link bandwidths inside a node
-- (vendors' datasheets: NVLink 2 against 3, 400 and 900 GB/s of NVLink 4, 21 and 42 ports of 100 Gbit/s; H100 PCIe on
-- PCIe 5).
local like = { a100_sxm = { "dgx_a100" }, h100_sxm = { "dgx_h100" }, h200_sxm = { "dgx_h200" },
  b200_sxm = { "dgx_b200" }, b300_sxm = { "dgx_b300" }, gb200 = { "gb200_nvl72" }, gb300 = { "gb300_nvl72" },
  gh200 = { "vista" }, v100 = { "dgx_a100", 0.5 }, h800 = { "dgx_h100", 4 / 9 }, h20 = { "dgx_h100" },
  h100_pcie = { "l40s_node", 2 }, l40s = { "l40s_node" }, l4 = { "l40s_node" }, a40 = { "l40s_node" },
  rtx_pro_6000 = { "l40s_node", 2 }, mi250x = { "mi300x_node", 0.5 }, mi300x = { "mi300x_node" },
  mi325x = { "mi300x_node" }, mi350x = { "mi355x_node" }, mi355x = { "mi355x_node" }, gaudi2 = { "dgx_h100", 0.58 },
  gaudi3 = { "dgx_h100", 1.17 }, tpu_v4 = { "tpu_v4" }, tpu_v5e = { "tpu_v5e" }, tpu_v5p = { "tpu_v5p" },
  tpu_v6e = { "tpu_v6e" }, tpu_v7x = { "tpu_v7x" } }

local function plain_name(name)
  return (name:lower():gsub("%d+%s*gb%w*", ""):gsub("nvidia", ""):gsub("amd", ""):gsub("[^%w]", ""))
end

-- The device whose name or alias a row's device begins with; the longest match is used.
local function device_of(name)
  local devices, wanted, found, longest = require "ett.profile.device", plain_name(name), nil, 0
  for _, key in ipairs(devices.names()) do
    local device = devices.get(key)
    for _, alias in ipairs { key, device.name, table.unpack(device.aliases or {}) } do
      local known = plain_name(alias)
      if #known > longest and wanted:sub(1, #known) == known then found, longest = device, #known end
    end
  end
  return found
end

local function copy(t)
  local made = {}
  for key, value in pairs(t) do made[key] = type(value) == "table" and copy(value) or value end
  return setmetatable(made, getmetatable(t))
end

local function integer(value) return value and (math.tointeger(value) or math.floor(value + 0.5)) end

-- Share of the line rate that collectives reach: 0.85 on HDR and older, 0.96 on NDR (sources: the cluster files).
local function efficiency(row) return (row.nic_gbit or 0) >= 400 and 0.96 or 0.85 end

-- Bytes/s through one network card of Jean Zay (BLOOM), by NCCL's own benchmark: an all-reduce of 4 GB over four nodes
-- took 1.529 s. It entered each node by one of four cards and left by another, without GPUDirect RDMA
-- (bigscience-workshop/bigscience, experiments/bandwidth/all_reduce_bench-a100-n4.txt, NCCL 2.10.3).
local jean_zay_card = 5.07e9

-- The bundled cluster of a device's name, or the most similar one with that device; nil: no such device.
local function bundled(name)
  local get = require("ett.profile.cluster").get
  if clusters[name] then return copy(get(clusters[name])) end
  local device = device_of(name)
  local nearest = device and like[device.key]
  if not nearest then return nil end
  local cluster, share = copy(get(nearest[1])), nearest[2]
  if cluster.device.key == device.key then return cluster end
  cluster.device = copy(device)
  local intra = cluster.links.intra
  if share then
    intra.bandwidth, intra.curves = share * intra.bandwidth, nil
    intra.send_bandwidth = intra.send_bandwidth and share * intra.send_bandwidth
    intra.ring_bandwidth = intra.ring_bandwidth and share * intra.ring_bandwidth
  end
  return cluster
end

-- Memory of a row's device. Rows state nominal sizes, 2 to 8 % from those that the driver reports: only the size of
-- another part replaces that of the bundled device, by the ratio of an A100 (40 GB: 42.3e9 bytes).
local function memory_of(row, device)
  local nominal = row.device_memory_bytes
  if not nominal or math.abs(nominal / device.memory_bytes - 1) < 0.1 then return device.memory_bytes end
  return 1.06 * nominal
end

--- The cluster of a row, or nil.
function published.cluster(row)
  if row.id:match("^neox_A100") then return require("ett.profile.cluster").get "perlmutter" end
  local cluster = bundled(row.device)
  if not cluster then return nil end
  if cluster.name == "vista" then return cluster end
  local device = cluster.device
  cluster.stack = nil -- published.stack gives the row's
  device.memory_bytes = memory_of(row, device)
  if row.device:find "^A100.*40GB" then device.memory_bandwidth = 1.555e12 end
  device.memory_bandwidth = row.device_memory_bandwidth or device.memory_bandwidth
  device.power_limit_watts = row.power_limit_watts
  cluster.gpus_per_node = integer(row.nvlink_domain) or cluster.gpus_per_node
  if cluster.gpus_per_node == 72 and row.gpus % 72 ~= 0 then cluster.gpus_per_node = 64 end
  -- ett itself places a step on fewer chips than a torus has.
  local torus = cluster.links.intra.torus
  if row.gpus < cluster.gpus_per_node and not torus then cluster.gpus_per_node = integer(row.gpus) end
  local of_node = row.gpus_per_node or row.nodes and row.gpus / row.nodes or cluster.gpus_per_node
  local per_gpu = row.network_gb_per_gpu or row.network_gb_per_node and row.network_gb_per_node / of_node
  if row.network_measured_gb_per_node then
    per_gpu = row.network_measured_gb_per_node / of_node / efficiency(row)
  end
  if per_gpu and cluster.links.inter then
    local reached = per_gpu * 1e9 * efficiency(row)
    cluster.links.inter.bandwidth_per_gpu = reached
    cluster.links.inter.bandwidth_per_node = reached * cluster.gpus_per_node
  end
  if row.id:find "^bigsci_" then -- that the cards of a node do not slow each other is assumed
    cluster.links.inter.bandwidth_per_gpu = jean_zay_card
    cluster.links.inter.bandwidth_per_node = row.nics_per_node * jean_zay_card
  end
  return cluster
end

local dtypes = { bf16 = "bf16", fp16 = "fp16", fp32 = "fp32", fp8 = "fp8", mxfp8 = "mxfp8", nvfp4 = "nvfp4" }

-- Defaults of frameworks for fields that rows do not state. The zero bubble pipelines' first script (sail-sg's
-- examples/pretrain_zero_bubble.sh, 1,024 tokens) sets --fp16 and neither flash attention nor untied embeddings;
-- dropout and the fused softmax are Megatron-LM's defaults, and so Megatron-DeepSpeed's.
local open = { ["megatron-lm-zero-bubble"] = { precision = "fp16", attention = "fused_softmax", dropout = true,
  tied_embeddings = true }, ["megatron-deepspeed"] = { dropout = true } }

-- Configurations of NeMo's launcher (gpt3/*.yaml) for GPT-3: biases (megatron_gpt_config.yaml), and dropout except in
-- 175B. Those of 2023 have no Transformer Engine: Megatron-Core's own layers run the fused softmax.
local function launched(row, field)
  local version = row.framework == "nemo" and row.model:find "^GPT" and row.framework_version or ""
  local early = version:find "^launcher" ~= nil
  if not (early or version == "24.07") then return nil end
  if field == "bias" then return true end
  if field == "dropout" then return not row.model:find "175B" end
  return field == "attention" and early and "fused_softmax" or nil
end

local function stated(row, field)
  -- In vTrain's rows "unfused" refers to the products; their note, and the model of that simulator, have the fused
  -- softmax.
  if field == "attention" and row.source:find "^VIA" then return "fused_softmax" end
  if row[field] ~= nil then return row[field] end
  -- Praxis without Transformer Engine stores the scores; JAX-Toolbox's table names the rows with it.
  if field == "attention" and row.framework == "paxml" and row.source:find "JAX%-Toolbox" then
    return not row.precision_detail:find "^TE" and "fused_softmax" or nil
  end
  local default = open[row.framework] and open[row.framework][field]
  if default == nil then default = launched(row, field) end
  return default
end

-- The parameters that the zero bubble rows state (1.5, 6.2, 14.6 billion) leave 25,500 to 33,500 tokens for a tied
-- embedding, not the 51,200 that they state, too. 32,000 is the size of SentencePiece vocabularies of that year.
-- vTrain's steps inside a node add up exactly from times of parts: they are of that simulator's own model, which cuts
-- the vocabulary by the tensor ranks and does not pad it (its src/model/gpt_model.py). Second: the unit of padding.
local function vocabulary(row, as_stated)
  local vocab, tp = integer(row.vocab), integer(row.tp or 1)
  if row.id:find "^vtrain_single" then return vocab // tp * tp, 1 end
  return row.framework == "megatron-lm-zero-bubble" and not as_stated and 32000 or vocab
end

-- Whether the copies of a row's configuration in its source differ in a setting. The row's value is then unknown.
local function copies_differ(row, setting)
  for _, note in ipairs(row.notes_v2 or {}) do
    local settings = note:match "copies of the config differ in (.*)"
    if settings and (" " .. settings):find("[ ,]" .. setting .. "[,:]") then return true end
  end
  return false
end

--- The data type of a row's products, or nil. Every MLPerf step that states it has 8 bits or fewer, since 2024.
-- If copies differ in FP4, the precision is unknown. The type with fewer bits is used, because MLPerf is a competition.
function published.dtype(row)
  if copies_differ(row, "FP4") then return "nvfp4" end
  local default = row.framework == "mlperf-other" and not row.device:find "^TPU" and "fp8" or "bf16"
  local known = dtypes[stated(row, "precision") or default]
  -- A source has the same words for mxfp8 and blocks of fp8 ("finer granularity"); Hopper has only the latter.
  if known == "mxfp8" and not (row.device:find "^G?B%d" or row.device:find "^MI35") then return "fp8_block" end
  return known
end

local tuning = { nemo = true, ["megatron-bridge"] = true }

-- Documents of SQuAD have about 200 tokens. The kernel's grid is that of a pack's longest, two to four times as long;
-- assumed.
local squad_tokens = 512

-- Whether a row is NVIDIA's fine-tuning, on SQuAD packed to the sequence length: attention stays inside its documents.
local function tunes_on_squad(row)
  return (row.category == "sft" or row.category == "lora") and tuning[row.framework] and row.packed_sequences ~= false
end

--- Architecture and hyper-parameters of a row; as_stated: with its stated vocabulary, also if that contradicts its
-- parameters.
function published.model(row, as_stated)
  local attention, vocab, vocab_multiple = stated(row, "attention"), vocabulary(row, as_stated)
  local hyper = {
    layers = integer(row.layers), hidden = integer(row.hidden), heads = integer(row.heads),
    kv_heads = integer(row.kv_heads), head_dim = integer(row.head_dim), ffn = integer(row.ffn or row.moe_ffn),
    vocab = vocab, vocab_multiple = vocab_multiple, gated_mlp = row.gated_mlp == true,
    attention = (attention == "unfused" or attention == "fused_softmax") and attention or "flash",
    norm = row.norm, position = row.position == "alibi" and "none" or row.position,
    rotary_fraction = row.rotary_fraction, parallel_block = row.parallel_block,
    tied_embeddings = stated(row, "tied_embeddings"), bias = stated(row, "bias"), dropout = stated(row, "dropout"),
    window = integer(row.attention_window), window_every = integer(row.attention_window_every),
  }
  if tunes_on_squad(row) and row.seq > squad_tokens then
    hyper.attention_chunk, hyper.layer_types = squad_tokens, { "chunked_attention" }
  end
  if row.mla_kv_lora_rank then
    hyper.q_lora_rank, hyper.kv_lora_rank = integer(row.mla_q_lora_rank), integer(row.mla_kv_lora_rank)
    hyper.qk_nope_head_dim = integer(row.mla_qk_nope_head_dim)
    hyper.qk_rope_head_dim = integer(row.mla_qk_rope_head_dim)
    hyper.v_head_dim, hyper.head_dim = integer(row.mla_v_head_dim), nil
  end
  hyper.qk_norm = row.model:find "^[Qq]wen3" ~= nil or nil
  local name = hyper.gated_mlp and "llama" or "gpt"
  if row.arch == "moe" then
    name = "mixtral"
    hyper.experts, hyper.top_k, hyper.moe_ffn = integer(row.experts), integer(row.top_k), integer(row.moe_ffn)
    -- If the width of all shared experts is not stated, each has the width of a routed expert.
    local shared = row.shared_ffn and row.moe_ffn and integer(row.shared_ffn / row.moe_ffn) or row.shared_experts
    hyper.shared_experts = shared and shared > 0 and integer(shared) or nil
    -- Primus' forced balance: the experts of a token are next to each other (moe_router_force_load_balancing_type).
    if (row.framework or ""):find("primus", 1, true) and row.balanced_routing and row.experts % row.top_k == 0 then
      hyper.expert_groups, hyper.top_groups = integer(row.experts / row.top_k), 1
    end
    hyper.moe_every = row.moe_every and row.moe_every > 1 and integer(row.moe_every) or nil
    hyper.first_dense_layers = row.dense_layers and row.dense_layers > 0 and integer(row.dense_layers) or nil
    hyper.parallel_block, hyper.dropout, hyper.rotary_fraction = nil, nil, nil
    hyper.norm, hyper.position = nil, nil
    hyper.mtp_layers = integer(row.mtp_layers)
    local gpt_oss = row.model:find "^GPT.OSS" ~= nil or nil
    hyper.attention_sinks, hyper.clamped_mlp, hyper.scaled_rope = gpt_oss, gpt_oss, gpt_oss
  end
  return name, hyper
end

local recomputes = { none = "none", full = "full", selective = "selective" }

local known_modules = require("ett.operator.modules").names
local remat = require "ett.import.trainer.remat"

-- The recomputation of a row, its modules of selective recomputation that ett has, and its first layers of full
-- recomputation.
local function recompute_of(row, unknown)
  if row.recompute == "unknown" then unknown[#unknown + 1] = "recompute" end
  local repeated = row.framework == "maxtext" and remat.repeated[row.recompute_detail or ""]
  if repeated then return "selective", repeated end
  -- MaxText's default recomputes all (remat_policy: full).
  if row.framework == "maxtext" and row.recompute ~= "none" then return "full" end
  -- vTrain's configurations state it for steps inside a node.
  if row.recompute == "unknown" and (row.recompute_detail or ""):find "^full" then return "full" end
  -- The launcher's 5B of spring 2023 recomputes the core of attention (activations_checkpoint_granularity of
  -- gpt3/5b.yaml). The row has the later configuration, without, which needs 134 GB or more of 85.
  if row.framework == "nemo" and (row.framework_version or ""):find "^launcher" then return "selective" end
  -- Megatron-Bridge's recipes of gpt-oss 120B, since the first with plans by device (gpt_oss/workload_base_configs.py);
  -- those of GB300 and B300 recompute nothing.
  if row.framework == "megatron-bridge" and row.model == "GPT OSS 120B" and row.recompute == "unknown"
    and not row.device:find "300" then
    return "selective", { "layernorm", "moe_act" }
  end
  -- Automodel's configuration of Qwen3-30B for its benchmark: activation_checkpointing: true. Half needs 125 GB of 85.
  if row.framework == "nemo-automodel" and row.model == "Qwen3 MoE 30B" and row.category == "pretrain" then
    return "full"
  end
  local said = recomputes[row.recompute] or "none"
  -- Paxml's 5B saves products of weights alone (scripts_gpu/configs.py: SAVE_DOT_WITH_NO_BATCH_DIM). Transformer
  -- Engine's quantised products are custom calls, which that policy does not save.
  if row.framework == "paxml" and row.recompute == "unknown" then
    if row.precision == "fp8" then return "full" end
    return "selective", { "core_attn", "layernorm" }
  end
  -- InternEvo repeats norms where it repeats no layers (modeling_internlm.py, dropout_selective_checkpoint).
  if row.framework == "internevo" and said == "none" then return "selective", { "layernorm" } end
  -- PyTorch's selective checkpointing keeps every second product, or every second layer.
  if said == "selective" and (row.framework == "torchtitan" or row.framework == "fms-fsdp") then return "policy" end
  if said == "selective" and row.recompute_modules and #row.recompute_modules > 0 then
    local modules = {}
    for _, name in ipairs(known_modules) do
      for _, module in ipairs(row.recompute_modules) do if module == name then modules[#modules + 1] = name end end
    end
    if #modules == 0 then return "none" end
    return said, modules
  end
  if said ~= "full" or type(row.recompute_layers) ~= "number" then return said end
  if row.recompute_layers == 0 then return "none" end
  if not (row.recompute_detail or ""):find("block", 1, true) then return said end
  return said, nil, row.recompute_layers -- as ett.import.megatron.plan_of reads --recompute-method block
end

local function is_custom(row) return row.framework == "maxtext" and (row.recompute_detail or ""):find "^custom" end

-- Operators whose outputs the policies named `custom` in tpu-recipes store beside the layers' inputs. v7x: the recipes
-- of Llama 70B store queries, keys, values and attention's output on the device (run_recipe.sh). v6e and v5p: queries,
-- keys and values go to the host; so do the projections' outputs, but not in Llama 70B
-- (maxtext_trillium_model_configs.py and maxtext_v5p_model_configs.py of MaxText's benchmarks). `save_qkv_proj` is as
-- ett.import.trainer.remat reads it.
local function stored_outputs(row)
  if row.framework == "maxtext" and (row.recompute_detail or ""):find "save_qkv_proj" then return { "linear_qkv" } end
  if not is_custom(row) then return nil end
  local large = row.model:lower():find "llama ?3.1[ -]70b"
  if row.device:find "^TPU7x" then return large and { "linear_qkv", "flash_attention" } or nil end
  return { "linear_qkv", not large and "linear_proj" or nil }
end

-- Share of the stored activations that go to the host: all under these policies, except in v7x's recipes of Llama 70B.
local function offloaded(row)
  if row.framework == "torchtune" and (row.recompute_detail or ""):find "offload" then return 1 end
  if row.activation_offload_layers then return row.activation_offload_layers / row.layers end
  if not is_custom(row) then return nil end
  return not (row.device:find "^TPU7x" and stored_outputs(row)) and 1 or nil
end

-- Layers of each slice, if the row states more than "uniform".
local function split_of(row, pp, vp)
  if row.framework == "nanotron" and pp > 1 then
    local split = require("ett.import.trainer.nanotron").split(row, row.layers, pp)
    if split then return split end
  end
  if row.split and #row.split == pp * vp then
    local split = {}
    for i, layers in ipairs(row.split) do split[i] = integer(layers) end
    return split
  end
  if row.pp_layout then return require("ett.import.megatron.layout")(row.pp_layout) end
  local slices = pp * vp
  if row.split_rule ~= "embedding_and_loss_count_as_layers" or slices < 2 or (row.layers + 2) % slices ~= 0 then
    return nil
  end
  local split = {}
  for i = 1, slices do split[i] = integer((row.layers + 2) // slices) - ((i == 1 or i == slices) and 1 or 0) end
  return split
end

-- The framework uses post-validation under both.
local schedules = { zb_1p = "zb_1p", zb_2p = "zb_2p" }

local function is_nemo(row) return row.framework == "nemo" or row.framework == "mlperf-nemo" end

-- Values for open fields, by the majority of the rows that state them: sharded weights (ZeRO-3) overlap, and so does
-- NeMo, which also reduces in bf16; a step that is one graph hides its all-to-alls; NeMo Automodel spreads experts over
-- all ranks, as its benchmark configurations do.
local function overlaps(row, field)
  if row[field] == nil then
    -- InternEvo's configurations overlap gradients alone.
    if row.framework == "internevo" then return field == "overlap_grad_reduce" end
    -- Paxml's and MaxText's scripts turn XLA's scheduler for overlap on (JAX-Toolbox's
    -- run_base_config_multinode.sh, gpu-recipes' values.yaml: xla_gpu_enable_latency_hiding_scheduler).
    if is_nemo(row) or row.framework == "megatron-bridge" or row.framework == "paxml" then return true end
    return row.zero == 3
  end
  return row[field] == true
end

-- NeMo overlaps the sends of virtual stages, as in all of its rows that state it.
local function overlaps_sends(row, pp)
  if pp == 1 then return nil end
  if row.overlap_p2p == nil then return is_nemo(row) and row.schedule == "interleaved" end
  return row.overlap_p2p
end

local function exchange_overlap(row)
  local said = row.alltoall_overlap or row.arch == "moe" and row.cuda_graphs == "full_iteration" and "batch"
  return said == "batch" and "batch" or nil
end

-- Whether the products of weight gradients also add them up. Megatron-LM adds inside the weight products since 2022
-- (arguments.py: --no-gradient-accumulation-fusion turns it off), and so does all of NeMo that states it.
local function fuses_accumulation(row)
  if row.fused_wgrad ~= nil then return row.fused_wgrad end
  local nemo = is_nemo(row)
  local old = row.framework_version and (tonumber(row.framework_version) or 2022) < 2022
  return nemo or row.framework == "megatron-lm" and not old
end

local stack_module = require "ett.operator.stack"
local get_stack = stack_module.get
local stacks = {
  ["llm-foundry"] = "llm_foundry", ["megatron-bridge"] = "megatron", nemo = "megatron", ["mlperf-nemo"] = "megatron",
  ["megatron-deepspeed"] = "megatron_deepspeed",
  ["megatron-lm"] = "megatron", ["megatron-lm-zero-bubble"] = "megatron_2021",
  torchtune = "fsdp_eager", maxtext = "maxtext", paxml = "maxtext", torchtitan = "torchtitan",
  ["fms-fsdp"] = "torchtitan",
  ["nemo-automodel"] = "fsdp_eager", ["gpt-neox"] = "gpt_neox", internevo = "internevo", nanotron = "nanotron",
}

-- Software whose own steps its stack describes. Others have the most similar stack.
local own_stacks = {}
for name in pairs(stacks) do own_stacks[name] = true end
for _, name in ipairs { "fms-fsdp", "nanotron", "torchtune" } do own_stacks[name] = nil end

-- The stack of a framework, or the most similar one by name, device and plan.
local function stack_name(row)
  local name = row.framework or ""
  if name == "torchtitan" and row.compile == false then return "torchtitan_eager" end
  if stacks[name] then return stacks[name] end
  for part, stack in pairs { megatron = "megatron", nemo = "megatron", primus = "megatron", jax = "maxtext" } do
    if name:find(part, 1, true) then return stack end
  end
  return row.device:find "^TPU" and "maxtext" or row.zero == 3 and "fsdp_eager" or "plain"
end

-- Tensor ranks. If only they are open: the number of GPUs divided by the other degrees.
local function tensor_ranks(row)
  if row.tp or not (row.dp and row.gpus) then return integer(row.tp or 1) end
  return math.max(1, integer(row.gpus // (row.dp * (row.pp or 1) * (row.cp or 1))))
end

-- Context ranks. If the whole layout is open: the GPUs per sequence.
local function context_ranks(row)
  if row.cp or not row.gpus then return integer(row.cp or 1) end
  if row.dp then return math.max(1, integer(row.gpus // (row.dp * (row.pp or 1) * tensor_ranks(row)))) end
  if row.tp or row.pp or not row.global_batch then return 1 end
  return math.max(1, integer(row.gpus // row.global_batch))
end

-- Replicas, sequences of a micro-batch and micro-batches. If the last two are open: micro-batches of one sequence.
local function batches(row)
  local dp = row.dp or math.max(1, row.gpus / (tensor_ranks(row) * (row.pp or 1) * context_ranks(row)))
  local size, count, each = row.micro_batch, row.micro_batches, row.global_batch and row.global_batch / dp
  if each and not (size and count) then
    size = size or count and math.max(1, each / count) or 1
    count = count or math.max(1, each / size)
  end
  return integer(dp), integer(size), integer(count)
end

-- Expert ranks. If a row does not state them: all ranks in NeMo Automodel's configurations, at most a node's in
-- Megatron's.
local function expert_ranks(row, dp)
  local automodel = row.framework == "nemo-automodel"
  if row.ep or not row.experts or not (automodel or stack_name(row) == "megatron") then return integer(row.ep or 1) end
  local most = math.min(automodel and row.gpus or 8, row.experts)
  while dp * context_ranks(row) % most ~= 0 do most = most - 1 end
  return integer(most)
end

-- If a row does not state them: NeMo's default, attention_qkv. NeMo Automodel's is every linear layer, as ett's.
local function lora_targets(row)
  return row.lora_targets or row.framework ~= "nemo-automodel" and { "linear_qkv" } or nil
end

-- Bytes of a reduction of DeepSpeed's: GPT-NeoX's configuration; MEMORY_OPT_ALLREDUCE_SIZE, 5e8 16-bit values.
-- InternEvo's reduce_bucket_size: 2^29 values.
local bucket_bytes = { ["gpt-neox"] = 2.52e9, ["megatron-deepspeed"] = 1e9, internevo = 2.0 ^ 30 }

-- Paxml's 5B shards weights inside a node: ICI_MESH_SHAPE of GPT5B (scripts_gpu/configs.py), and one node of its FSDP
-- (NVIDIA/dgxc-benchmarking, paxml/configure.sh).
local function paxml_shards(row) return row.framework == "paxml" and row.zero == nil end

-- Ranks that share optimizer states, where they are fewer than the replicas. MaxText shards inside a slice or a group
-- of nodes (ici_fsdp_parallelism times dcn_fsdp_parallelism).
local function shard_of(row, dp, zero)
  local states = zero == 1 and row.framework == "internevo" or zero == 3 and row.framework == "maxtext"
  local ranks = states and integer(row.shard_ranks) or paxml_shards(row) and integer(row.gpus_per_node) or dp
  return ranks < dp and dp % ranks == 0 and ranks or nil
end

-- Megatron-LM requires sequence parallelism beside tensor and expert parallelism (arguments.py, validate_args).
local function splits_sequence(row)
  if row.sequence_parallel ~= nil then return row.sequence_parallel end
  if row.framework == "nanotron" then return true end -- tp_mode of examples/config_tiny_llama.yaml: REDUCE_SCATTER
  if row.overlap_tp then return true end -- arguments.py: tp_comm_overlap needs sequence_parallel
  return row.arch == "moe" and (row.framework or ""):find "^megatron" ~= nil
end

-- The techniques of torchtune's table, each added to those before it (README.md, Optimization flags).
local techniques = {}
for i, name in ipairs { "packed", "compile", "chunked CE", "activation checkpointing", "optimizer in bwd",
  "activation offloading", "8-bit AdamW" } do techniques[name] = i end

-- Whether a row of torchtune has a technique.
local function has_technique(row, name)
  local last = row.framework == "torchtune" and techniques[(row.notes or ""):match "%+(.*)$" or ""] or 0
  return last >= techniques[name]
end

-- torchtune trains in pure bf16 (recipes/full_finetune_single_device.py): weights, gradients and both moments.
local function state_bytes(row)
  -- tpu-recipes on v6e-32 (trillium/Llama3.1-70B-MaxText): weight_dtype=bfloat16, as import/trainer/maxtext reads it.
  if (row.id or ""):find "v6e_Llama3_1_70B_MaxText_v6e_32$" then return 6 end
  -- Automodel casts the whole model to 16 bits (models/gpt_oss/model.py, initialize_weights); torch.optim.Adam follows.
  if row.framework == "nemo-automodel" and row.category == "pretrain" then return 4 end
  -- NeMo 1 shards states by Apex's distributed_fused_adam, which stores the lower halves of fp32 weights
  -- (megatron_base_model.py, setup_optimization). The launcher's peft/llama/sft.yaml and nemotron_340b.yaml have states
  -- in bf16 and no master weights (optim.dtype).
  local version = row.framework == "nemo" and row.framework_version or ""
  if version == "24.07" or version:find "^launcher" then
    return (row.category ~= "pretrain" or row.model:find "340B") and 4 or 10
  end
  if row.framework ~= "torchtune" then return nil end
  return (row.notes or ""):find "8%-bit" and 2 or 4
end

-- The capacity factor of MaxText's mixtures that drop tokens: mixtral_8x7b_dropped and mixtral_8x22b_dropped of
-- maxtext_trillium_model_configs.py, 1.25 without sparse_matmul.
local function capacity_of(row)
  if row.framework ~= "maxtext" then return nil end
  return (row.token_drop or (row.notes or ""):find "^dropping") and (row.capacity_factor or 1.25) or nil
end

--- Plan of a row, and the names of its unknown fields.
function published.plan(row, dtype)
  local unknown = {}
  for _, field in ipairs { "zero", "attention", "overlap_grad_reduce", "gradient_dtype" } do
    if row[field] == nil then unknown[#unknown + 1] = field end
  end
  local pp, vp = integer(row.pp or 1), integer(row.vp or 1)
  local dp, micro_batch, micro_batches = batches(row)
  local ep = expert_ranks(row, dp)
  local interleaved = row.schedule == "interleaved" and vp > 1 and pp > 1 and (micro_batches or 1) % pp == 0
  local neox = row.framework == "gpt-neox"
  local deepspeed = neox or row.framework == "megatron-deepspeed"
  local nemo, internevo = is_nemo(row), row.framework == "internevo"
  local zero, tp = paxml_shards(row) and 3 or integer(row.zero or 0), tensor_ranks(row)
  local shard = shard_of(row, dp, zero)
  local kept = zero == 2 and row.framework == "llm-foundry" -- SHARD_GRAD_OP
  if copies_differ(row, "FP4") then unknown[#unknown + 1] = "precision" end
  local recompute, modules, layers = recompute_of(row, unknown)
  local keeps = stored_outputs(row)
  return {
    tp = tp, pp = pp, cp = context_ranks(row),
    dp = dp, ep = ep,
    -- MaxText splits experts as it splits dense products.
    etp = row.etp and integer(row.etp) or row.arch == "moe" and (row.framework == "maxtext" and tp or 1) or nil,
    vp = interleaved and vp or 1,
    schedule = interleaved and "interleaved" or pp > 1 and schedules[row.schedule] or "1f1b",
    post_validation = pp > 1 and schedules[row.schedule] ~= nil,
    micro_batch = micro_batch, micro_batches = micro_batches, seq = integer(row.seq),
    recompute = keeps and "policy" or recompute, recompute_modules = modules, recompute_keeps = keeps,
    recompute_layers = layers, dtype = dtype,
    zero = kept and 3 or zero, reshard = not kept,
    gradient_dtype = (row.use == "memory" -- Korthikanti et al.: 18 bytes of states a parameter
        or (row.framework_version or ""):find "^launcher") and "fp32" -- its configurations state no grad_sync_dtype
      or dtypes[row.gradient_dtype or dtype == "fp16" and "fp16"
        or (zero == 3 or nemo or internevo or row.framework == "torchtune") and "bf16" or "fp32"],
    sequence_parallel = splits_sequence(row) and tp > 1,
    serial_sends = deepspeed and pp > 1, overlap_sends = overlaps_sends(row, pp),
    recipe = true, -- factors and mechanisms come from these sources
    gradient_all_reduce = neox or internevo and zero == 1 and dp > 1 and not shard, shard = shard,
    bucket_bytes = bucket_bytes[row.framework],
    overlap_gradients = overlaps(row, "overlap_grad_reduce"),
    overlap_parameters = overlaps(row, "overlap_param_gather"),
    overlap_all_to_all = ep > 1 and exchange_overlap(row) or nil,
    deduplicate_tokens = row.deduplicate_tokens or nil,
    overlap_tensor = row.overlap_tp == true and splits_sequence(row) and tp > 1 or row.overlap_tp == nil
      and row.sequence_parallel == true and nemo and row.precision ~= "nvfp4" or nil,
    fused_accumulation = fuses_accumulation(row),
    scatter_sends = tp > 1 and not splits_sequence(row),
    capacity_factor = capacity_of(row), pad_to_capacity = capacity_of(row) and true or nil,
    split = split_of(row, pp, interleaved and vp or 1),
    offload_activations = offloaded(row),
    optimizer_bytes = state_bytes(row),
    lora_rank = row.category == "lora" and integer(row.lora_rank or 16) or nil,
    lora_targets = row.category == "lora" and lora_targets(row) or nil,
  }, unknown
end

local dispatchers = { deepep = "megatron_moe", hybridep = "megatron_hybridep" }

-- The modules with CUDA graphs of their own, or "".
local function graphed(row)
  local graphs = row.cuda_graphs
  -- If a row does not state it: 41 of the 50 mixtures of Megatron-Bridge on NVL72 that state it run graphs.
  if graphs == nil and row.framework == "megatron-bridge" and row.arch == "moe" and row.device:find "^GB" then
    graphs = "transformer_engine:attn,moe_router,moe_preprocess"
  end
  return type(graphs) == "string" and graphs:match "^transformer_engine:(.*)" or ""
end

-- The loss kernel of NeMo's older releases. Transformer Engine has one since 2.1 (TransformerEngine#1456, February
-- 2025). NeMo's scripts choose it (helpers.py), from 25.04 on as assumed here. Before, its configurations have
-- Megatron-LM's fused one, and those of 2023 none (cross_entropy_loss_fusion).
local function loss_of_release(row)
  if not is_nemo(row) then return nil end
  local version = row.framework_version or ""
  if version:find "^launcher" then return "megatron" end
  local release = tonumber(version:match "^%d%d%.%d%d" or version:match "NeMo Framework Release (%d%d%.%d%d)")
  return release and release < 25.04 and "native" or nil
end

-- The attention kernel of NeMo's documentation from 24.03 to 24.07. The launcher turned cuDNN's attention off
-- (NeMo-Framework-Launcher, launcher_scripts/conf/config.yaml of 24.03.01: NVTE_FUSED_ATTN), and on again on 29 August
-- 2024 (NeMo-Framework-Launcher#422). Between them Transformer Engine ran FlashAttention 2.
local function attention_of_release(row)
  -- AITER's kernels are in Transformer Engine for ROCm since December 2024 (pull request 98).
  if row.device:find "^MI" and (row.framework_version or ""):find "2024" then return "flash2" end
  local documented = row.framework == "nemo" and (row.source or ""):find("NVIDIA/NeMo", 1, true) == 1
  local release = documented and tonumber((row.framework_version or ""):match "^%d%d%.%d%d")
  return release and release >= 24.03 and release <= 24.07 and "flash2" or nil
end

-- Whether a row's embedding is a product with one-hot rows. MaxText: use_iota_embed in configs/v5e and v5p, in
-- tpu-recipes (not of GPT-3, Qwen3, gpt-oss and Llama 4), in gpu-recipes' maxtext-configs, and in dgxc-benchmarking's
-- configure.sh. Paxml: EMBEDDING_LOOKUP_STYLE (tasks/lm/params/c4.py).
local function one_hot_embedding(row)
  if row.framework == "paxml" then return true end
  if row.framework ~= "maxtext" or row.device:find "v4" then return false end
  local model = row.model:lower()
  return not (model:find "gpt" or model:find "qwen" or model:find "maverick")
end

-- Fields of a stack that the code or the configurations of a row's framework set.
local of_framework = {}

function of_framework.torchtitan(row, stack)
  if not (row.framework_version or ""):find "2024" then return end
  -- torchtitan compiles its loss since 2025: "compiling loss function causes CUDA errors" (train.py of 2024).
  stack.cross_entropy = "torch"
  -- PyTorch's own RMS norm is one kernel since 2.9 (kernels/norm.lua).
  if stack.name == "torchtitan_eager" and row.framework_version:find "^torchtitan " then stack.norm = "composite" end
end

of_framework["nemo-automodel"] = function(row, stack)
  -- Its rows state Transformer Engine's kernels.
  stack.rope, stack.gated_mlp = 1.0, 1.0
  stack.defers_gradients = true -- unless defer_fsdp_grad_sync is off (NVIDIA-NeMo/Automodel#964)
  stack.weighs_activations = true -- components/moe/layers.py, GroupedExpertsDeepEP: expert_activation
  -- Its benchmarks have Transformer Engine's norms, and compute the loss in 16 bits (examples/benchmark/configs:
  -- rms_norm: te; fp32_upcast: false).
  if row.category == "pretrain" then stack.norm, stack.cross_entropy = "fused", "compiled" end
end

function of_framework.torchtune(row, stack)
  if has_technique(row, "compile") then stack.norm, stack.gated_mlp, stack.rope = "compiled", 1.0, 1.0 end
  if has_technique(row, "chunked CE") then stack.cross_entropy = "compiled" end
end

-- Its recipe of gpt-oss (recipes/gpt_oss: cross_entropy_fusion_impl); those of other models say Transformer Engine's.
of_framework["megatron-bridge"] = function(row, stack)
  if row.model:find "^GPT OSS" then stack.cross_entropy = "native" end
end

-- InternEvo copies all gradients into buckets and back; an update is of the parameters that a rank owns.
function of_framework.internevo(row, stack) stack.gradient_copy_bytes = 8 * (row.shard_ranks or row.dp or 1) end

-- Primus' experts run in one kernel, of Primus-Turbo or of grouped_gemm (moe_use_legacy_grouped_gemm). With delayed
-- scaling it is grouped_gemm's, in 16 bits; Primus-Turbo lacks that scaling (its issue 283).
local function set_primus(row, stack)
  stack.grouped = "kernel"
  if row.fused_swiglu == false then stack.gated_mlp = 5.6 end -- nemo.lua, primus-separate-activation
  local detail = row.precision_detail or ""
  if detail:find("delayed", 1, true) or detail:find("legacy", 1, true) then stack.quantised_products = "dense" end
end

--- The stack of a row: that of its framework, with the row's attention, compilation and graphs.
function published.stack(row)
  local name = stack_name(row)
  if name == "megatron" and row.zero == 3 then name = "megatron_fsdp" end
  local dispatcher = dispatchers[row.moe_dispatcher]
  local primus = (row.framework or ""):find("primus", 1, true)
  if name == "megatron" and dispatcher then
    name = primus and row.moe_dispatcher == "deepep" and "primus_moe" or dispatcher
  end
  local stack = published.factors.onto(copy(get_stack(name)))
  if name == "megatron_fsdp" and dispatcher then
    stack.routing_factor = published.factors.onto(copy(get_stack(dispatcher))).routing_factor
  end
  -- Megatron-Bridge's recipe of Llama 3 8B on a node of H100 (llama3_llm_pretrain.py: cfg.ddp.nccl_ub).
  if name == "megatron_fsdp" and row.framework == "megatron-bridge" and row.device:find "^H100" and row.gpus <= 8 then
    stack.registered_buffers = true
  end
  if row.attention == "flash_triton" then stack.attention = "flash1_triton" end
  -- Steps of 2024 and 2025: PyTorch took FlashAttention 2 on Hopper (pytorch#138522), as torchtitan asked (#1196).
  if stack.attention == "sdpa" then stack.attention = "flash2" end
  -- The FP8 runs of llm-foundry's benchmarks install flash-attn 1.0.7.
  if row.framework == "llm-foundry" and row.attention == "flash" then stack.attention = "flash1" end
  if row.attention == "te_cudnn" or row.attention == "cudnn" or row.attention == "aiter" then
    stack.attention = "cudnn"
  end
  stack.attention = attention_of_release(row) or stack.attention
  if primus then set_primus(row, stack) end
  if of_framework[row.framework] then of_framework[row.framework](row, stack) end
  if not own_stacks[row.framework] then stack.compared = "none" end
  -- torchtitan gathers in 16 bits with scales of rows (parallelize_llama: enable_float8_tensorwise_tp).
  if (row.precision_detail or ""):find "rowwise" then stack.quantised_gathers = "none" end
  if row.device:find "^TPU7x" then stack.attention = "tokamax" end -- tpu-recipes: use_tokamax_splash
  stack.one_hot_embedding = one_hot_embedding(row)
  -- Selective checkpointing of fms-fsdp, and torchtitan's by layer, recompute every second layer.
  if row.framework == "fms-fsdp" or (row.recompute_detail or ""):find "layer" then stack.operator_policy = false end
  -- Experts padded to a capacity are in the graph of their layer.
  if row.cuda_graphs == "local" and row.token_drop then stack.graphs = true end
  -- Megatron-Bridge pads dropped experts to their capacity (moe_pad_expert_input_to_capacity).
  if row.token_drop then stack.reads_counts = "none" end
  stack.graphed = graphed(row)
  stack.blocking = row.launch_blocking == true
  if (tonumber((row.framework_version or ""):match "^%d%d%d%d") or 2022) < 2022 then stack.hides_sums = false end
  local graphs = stack.graphs or row.cuda_graphs == "full_iteration" or row.cuda_graphs == "layer"
  if graphs then stack_module.capture(stack) end
  if row.attention_precision == "fp8" then stack.attention_dtype = "fp8" end
  -- fp8_param_gather of Megatron-Bridge's and NeMo's precision recipes (mixed_precision.py); nvfp4's lacks it.
  if (stack.quantised_weights == "beside" or stack.gathers_mxfp8) and row.precision ~= "nvfp4" then
    stack.quantised_weights = (row.precision_detail or ""):find("no transpose cache", 1, true) and "single" or "only"
  end
  stack.cross_entropy = loss_of_release(row) or stack.cross_entropy
  -- Megatron-Core's own linear layers sum the gradients of biases in a kernel of their own.
  if row.framework_version and row.framework_version:find "^launcher" then stack.fused_bias_gradients = false end
  return stack
end

--- A row's source: a repository without the files in it, or a paper.
---@return string
function published.source(row)
  return ((row.source:match("^[^%(,;]+") or row.source):gsub(" docs/.*", ""):gsub(" images/.*", ""):gsub("%s+$", ""))
end

--- Whether the in-step factors are fitted to a row.
function published.is_fitted(row)
  return (row.grade == "A" or row.grade == "A-") and row.use == "step" and not row.duplicate_of
    and row.step_seconds ~= nil and row.framework ~= "gpt-neox"
end

--- Fields that an answered row does not state; ett's defaults are used.
function published.unknown(row)
  local _, unknown = published.plan(row, published.dtype(row))
  return unknown
end

-- Fields without which no step can be described: ett has no default for them.
local required = { "id", "source", "model", "device", "gpus", "layers", "hidden", "heads", "vocab", "seq" }

--- The estimate of a row; raises with the reason if ett has none.
function published.estimate(row, as_stated)
  local raise = require("ett.base.error").raise
  for _, field in ipairs(required) do
    if row[field] == nil then raise("missing", "the row does not state %s", field) end
  end
  local cluster = published.cluster(row)
  if not cluster then raise("missing", "no bundled cluster of %s", tostring(row.device)) end
  local dtype = published.dtype(row)
  if not dtype then raise("missing", "precision %s is not modelled", tostring(row.precision)) end
  local model = require("ett.model").new(published.model(row, as_stated))
  local given = { model = model, plan = published.plan(row, dtype), cluster = cluster,
    times = require("ett.step.times").new(cluster):for_stack(published.stack(row)) }
  local estimate = require("ett.step.estimate").new
  local e = estimate(given)
  -- Fine-tuning with unknown recomputation recomputes if it does not fit otherwise.
  if row.category == "lora" and row.recompute == "unknown" and not e.fits then
    given.plan.recompute = "full"
    e = estimate(given)
  end
  return e
end

--- The measured bytes of a row. nanotron's "GB" are 2^30 (helpers.py, create_table_log), torchtune's table has GiB.
function published.memory_bytes(row)
  local binary = row.framework == "nanotron" or row.framework == "torchtune"
  return binary and row.memory_value * 2 ^ 30 or row.memory_bytes
end

--- The memory of an estimate that corresponds to a row: peak bytes that PyTorch allocated or reserved, bytes that the
-- device reports as used, or for a figure the states and activations of the layers, without embedding and head.
function published.memory(row, e)
  if row.memory_kind == "device_used" then return e.memory_bytes end
  -- nanotron writes the peaks of rank 0, in the first stage (helpers.py, log_throughput). It resets them after the
  -- passes (logging/base.py, log_memory), so only the reserved memory can exceed the states, as these rows do.
  if row.framework == "nanotron" then return e.stages[1].allocated_bytes + e.stages[1].fragment_bytes end
  if row.memory_kind == "reserved_peak" then return e.reserved_bytes end
  if row.use ~= "memory" then return e.allocated_bytes end
  local s, h = e.stages[1], e.model.hyper
  local embedding = (h.vocab + (h.max_positions and row.tp * h.max_positions or 0)) / row.tp * h.hidden
  local states = s.weight_bytes + s.gradient_bytes + s.optimizer_bytes
  return states * (1 - embedding / s.parameters) + s.activation_bytes
end

return published
