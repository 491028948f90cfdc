--- The fields of a plan, each declared once. The checks, help texts, sweep axes, the table that C reads and the table
--- of README.md are derived from this list.
---
--- { name, kind (ett.base.schema), default =, optional =, one_of =, least =, most =, help =, c =, program = }
---   c        true: C reads it under its own name; { name, function(value, plan) }: under that name, converted
---   after    neither the program nor C depends on it; only runs, money and variation of an estimate do
---   needs    { text, function(plan, context) }: condition under which a value other than the default has an effect
---   software decided by the training software; an estimate lists it if the plan leaves it open
---   also     names of the field in Megatron-LM, DeepSpeed, torchtitan and Transformers, or of its value (fsdp=3)
---   program  the step program depends on it: true, or a function of value and plan that returns the relevant part
---            (a list: as text)
---
--- Fields that the program depends on come first. A sweep varies the last field fastest, so all plans of one program
--- are evaluated before the next program is lowered.
local quantised = require "ett.operator.quantised"
local ranks_module = require "ett.plan.ranks"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"
local schedules = require "ett.plan.schedules"
local built_in = schedules.built_in

-- Largest degrees and sizes: larger than any real system; counts of devices, tokens and bytes fit in 64 bits.
local stages, ranks, replicas = 1 << 12, 1 << 14, 1 << 20

-- A list as text. Its values are checked later, so they may be anything.
local function as_text(list)
  if not list then return nil end
  local words = {}
  for i, value in ipairs(list) do words[i] = tostring(value) end
  return table.concat(words, ",")
end

-- Conditions of fields. The context of an estimate tells whether the model has experts, and whether failure rates and
-- device power are known.
local function staged(p) return p.pp > 1 end
-- Tensor ranks hold the same weights of experts if these are not split over them. A schedule of several ways has copies
-- on other stages.
local function replicated(p)
  local data = p.dp * p.cp
  return data > 1 or data * p.tp > p.ep * (p.etp or p.tp) or p.pp > 1 and schedules.ways(p.schedule) > 1
end
local copies = "several ranks with the same weights (dp * cp above 1, or a schedule of several ways)"
local function sharded(p) return p.zero > 0 and replicated(p) end
-- Whether the weights and gradients of a stage stay whole between its micro-batches, as ett_messages_whole tells. Such
-- gradients are reduced after the last backward pass (PyTorch, _PipelineStageBase._post_backward).
local function stay_whole(p)
  return p.pp > 1 and p.zero >= 2 and p.stack ~= nil and stacks.value(p.stack, "whole_stages")
end
-- Whether the software takes time of the host to gather each weight in each pass (lua/ett/step/host_waits.lua).
local function gathers_by_host(p)
  return p.zero == 3 and p.stack ~= nil and replicated(p) and stacks.value(p.stack, "gather_seconds") > 0
end
-- Whether only the gradients stay whole between micro-batches (ett_messages_whole_gradients).
local function defers_gradients(p)
  return (p.micro_batches or 2) > 1 and p.zero >= 2 and p.stack ~= nil and stacks.value(p.stack, "defers_gradients")
end
-- Whether ZeRO-2 or 3 reduces gradients in each backward pass. If so: the stage, "sharded" and the type in messages.
-- Else "3 whole" for ZeRO-3, and false for other plans. Programs differ in this (lower.lua, add_accumulation), and
-- those of ZeRO-3 in Times:of_plan.
local function sharded_gradients(p)
  if (p.zero or 0) < 2 or not replicated(p) then return false end
  if stay_whole(p) or defers_gradients(p) then return p.zero == 3 and "3 whole" end
  return p.zero .. " sharded " .. (p.reduce_dtype or p.gradient_dtype)
end
local function uneven(p) return p.expert_skew > 0 or p.expert_shares ~= nil end
-- A field of sends between stages: as the plan says, else as its stack does (`serial_sends`, `scatter_sends`). A single
-- stage sends nothing; pp is nil for plans whose stages a search chooses.
local function sends_of(p, name)
  if p[name] ~= nil then return p[name] end
  return p.stack ~= nil and p.pp ~= 1 and stacks.value(p.stack, name)
end
local function sends_serially(_, p) return sends_of(p, "serial_sends") end
local failures = { "a rate of failures (failures_per_device_day)", function(_, context) return context.failures end }
local power = { "devices of known power", function(_, context) return context.power end }
local busiest = { "ep above 1 or a capacity_factor", function(p) return p.ep > 1 or p.capacity_factor ~= nil end }

-- Two fp32 moments, and an fp32 weight if the weight itself has fewer bits.
local function adam_bytes(p) return schema.wide_bytes(p.dtype) < 4 and 12 or 8 end

-- The same for a matrix that Muon updates: it lacks one of the two moments, of 4 bytes. Moments of 2 bytes have fewer
-- than 8 bytes beside fp32 weights, and at most 8 beside 16-bit weights, whose master weight may be stored, too.
local function matrix_bytes(optimizer, p)
  local bytes = p.optimizer_bytes or adam_bytes(p)
  if optimizer ~= "muon" then return bytes end
  local short = schema.wide_bytes(p.dtype) < 4 and bytes <= 8 or bytes < 8
  return bytes - math.min(short and 2 or 4, bytes / 2)
end

local fields = {
  recompute_modules = { "core_attn" },
  -- Default products with adapters: all of attention and of a dense MLP (Dettmers et al. 2023, arXiv 2305.14314).
  lora_targets = { "linear_qkv", "linear_proj", "linear_up", "linear_down" },
  list = {
    { "seq", "count", most = 1 << 24, program = true, also = "seq_length seq_len seqlen sequence_length max_seq_len "
      .. "context_length",
      help = "tokens of a sequence" },
    { "tp", "degree", default = 1, most = ranks, c = true, program = true, also = "tensor_parallel",
      help = "tensor-parallel ranks" },
    { "cp", "degree", default = 1, most = ranks, c = true, program = true, also = "context_parallel",
      help = "context-parallel ranks" },
    { "cp_method", "string", software = true, optional = true, one_of = { "all_gather", "ring", "ulysses" },
      program = true, needs = { "cp above 1", function(p) return p.cp > 1 end },
      help = "all_gather: gathers keys and values; ring: passes them on during attention; ulysses: all-to-all from "
        .. "tokens to heads (default: as in the stack)" },
    { "cp_balanced", "boolean", default = true, program = true,
      needs = { "cp above 1 without ulysses", function(p) return p.cp > 1 and p.cp_method ~= "ulysses" end },
      help = "each context rank has an early and a late chunk of the sequence (false: one chunk, and the last rank "
        .. "computes most)" },
    { "cp_ulysses", "degree", default = 1, most = ranks, c = true, program = true,
      needs = { "cp above 1", function(p) return p.cp > 1 end },
      help = "neighbouring context ranks that exchange tokens for heads; cp / cp_ulysses of them form a ring (USP)" },
    { "ep", "degree", default = 1, most = replicas, c = true, program = true, also = "expert_parallel",
      help = "expert-parallel ranks, inside dp * cp" },
    { "etp", "degree", optional = true, most = ranks, program = true, also = "expert_tensor_parallel",
      c = { "etp", function(etp, p) return etp or p.tp end },
      needs = { "a model with experts", function(_, context) return context.experts end },
      help = "tensor-parallel ranks of experts (default tp)" },
    { "expert_skew", "nonnegative", default = 0, most = 16, program = true,
      needs = busiest,
      help = "the i-th busiest expert gets tokens in proportion to i^-skew; 0: all get the same" },
    { "expert_shares", "list", optional = true,
      program = as_text,
      needs = busiest,
      help = "measured shares of the tokens, one for each expert" },
    { "capacity_factor", "positive", optional = true, program = true,
      needs = { "expert_skew, expert_shares or pad_to_capacity, or to be below 1",
        function(p) return uneven(p) or p.pad_to_capacity or p.capacity_factor < 1 end },
      help = "an expert takes at most this many times the mean number of tokens; it drops the others" },
    { "pad_to_capacity", "boolean", default = false, program = true,
      help = "experts compute as many tokens as capacity_factor allows, padding included (GShard, MaxText)" },
    { "micro_batch", "count", default = 1, most = 1 << 14, program = true,
      also = "mbs per_device_train_batch train_micro_batch_size_per_gpu",
      help = "sequences of one micro-batch" },
    { "sequence_parallel", "boolean", software = true, default = false, program = true, also = "sp",
      needs = { "tp above 1", function(p) return p.tp > 1 end },
      help = "norms and residuals split over tp (Korthikanti et al. 2022)" },
    { "dtype", "dtype", default = "bf16", program = true, also = "torch_dtype precision fp8=fp8 bf16=bf16",
      help = "type of weights and activations",
      c = { "weight_bytes", schema.wide_bytes } },
    { "gradient_dtype", "training_dtype", software = true, default = "fp32", program = true,
      help = "type of reduced gradients, and of stored gradients unless the stack shards fp32 weights (FSDP)",
      c = { "gradient_bytes", function(dtype) return schema.dtype_bytes[dtype] end } },
    { "fused_accumulation", "boolean", software = true, optional = true, program = true,
      also = "gradient_accumulation_fusion",
      help = "products of weight gradients also add to the stored gradients (false: a separate kernel does; default: "
        .. "as in the stack)" },
    { "scatter_sends", "boolean", software = true, optional = true,
      program = function(_, p) return sends_of(p, "scatter_sends") end,
      needs = { "pp and tp above 1 without sequence_parallel",
        function(p) return p.pp > 1 and p.tp > 1 and not p.sequence_parallel end },
      help = "each tensor rank sends only its part of the activations to the next stage (DeepSpeed, Megatron "
        .. "scatter-gather; default: as in the stack)" },
    { "deduplicate_tokens", "boolean", software = true, optional = true, program = true,
      needs = { "ep above 1", function(p) return p.ep > 1 end },
      help = "a token is sent once to each node that holds its experts, not once to each expert (DeepEP; default: "
        .. "as in the stack)" },
    { "overlap_all_to_all", "string", software = true, default = "none", one_of = { "none", "shared_experts", "batch" },
      c = true,
      program = function(how, p) return p.stack and how or how ~= "none" end, -- only a stack's launches depend on it
      help = "none, shared_experts (overlaps the layer's shared experts), batch (overlaps another micro-batch)" },
    { "overlap_tensor", "boolean", software = true, default = false, program = true,
      needs = { "tp above 1 and sequence_parallel", function(p) return p.tp > 1 and p.sequence_parallel end },
      also = "tp_comm_overlap enable_async_tensor_parallel",
      help = "tensor-parallel gathers and reduce-scatters overlap products in chunks (userbuffers, async TP)" },
    { "lora_rank", "count", optional = true, most = 1 << 14, program = true, also = "lora lora_r",
      help = "rank of LoRA adapters; all other weights are frozen" },
    { "lora_targets", "list", software = true, optional = true,
      program = as_text,
      needs = { "a lora_rank", function(p) return p.lora_rank ~= nil end },
      help = "products that get adapters (default linear_qkv, linear_proj, linear_up, linear_down)" },
    { "lora_dropout", "fraction", default = 0,
      program = function(share) return (share or 0) > 0 end, also = "adapter_dropout",
      needs = { "a lora_rank", function(p) return p.lora_rank ~= nil end },
      help = "share of an adapter's inputs that is dropped; above 0 each adapter has a mask and inputs of its own" },
    { "frozen_weights", "string", optional = true, one_of = { "none", table.unpack(quantised.formats) }, program = true,
      also = "quantization_bit load_in_4bit load_in_8bit bnb_4bit qlora",
      needs = { "a lora_rank", function(p) return p.lora_rank ~= nil end },
      help = "format of the frozen weights of products (QLoRA, bitsandbytes): nf4, nf4_double (quantised scales), "
        .. "int8; embedding, head and norms keep the dtype (none, the default: all frozen weights have the dtype)" },
    { "frozen_layers", "natural", default = 0, most = 1 << 20, program = true,
      help = "number of first layers that are not trained; above 0, the embedding is not trained either" },
    { "stack", "string", software = true, optional = true, program = true, also = "framework software",
      help = "software that runs the step: a file of lua/stacks. Colons change fields of it: "
        .. "megatron:norm=torch. Without one: fused kernels, no launch cost" },
    { "recompute_modules", "list", optional = true,
      program = as_text,
      help = "modules that selective recomputation repeats: core_attn (default), layernorm, mla_up_proj, mlp, "
        .. "moe, moe_act, shared_experts (Megatron-LM), mlp_act" },
    { "recompute_keeps", "list", optional = true,
      program = as_text,
      help = "with recompute = policy: operators (linear_qkv, flash_attention, …) whose outputs are stored, beside a "
        .. "layer's input; all others are repeated. A product's output is stored after the sum over its ranks. mla_q "
        .. "and mla_kv, compressed queries and keys after their norms (MaxText), are stored and also repeated "
        .. "(default: as in the stack)" },
    { "recompute_layers", "count", optional = true, most = 1000000, program = true,
      needs = { "recompute = full", function(p) return p.recompute == "full" end },
      also = "recompute_num_layers activations_checkpoint_num_layers",
      help = "number of layers for recompute_method (default: recompute = full repeats all layers)" },
    { "recompute_method", "string", default = "block", one_of = { "block", "every", "uniform" },
      program = function(method, p) return p.recompute_layers and method end,
      needs = { "recompute_layers", function(p) return p.recompute_layers ~= nil end },
      help = "with recompute = full and recompute_layers = N: layers of each slice that are repeated: block (the "
        .. "first N), every (each N-th), uniform (all; N layers store one input)" },
    { "recompute_layer_ids", "list", optional = true,
      program = as_text,
      needs = { "recompute = full", function(p) return p.recompute == "full" end },
      help = "the layers of the model that recompute = full repeats, counted from 0 (Primus), in place of "
        .. "recompute_layers" },
    { "rank_order", "string", default = ranks_module.default, c = { "rank_order", ranks_module.code },
      program = ranks_module.inner,
      help = "order of the parallel axes in the rank numbers, the innermost first; axes with one rank are optional" },
    { "rank_map", "list", optional = true, c = { "rank_map", ranks_module.map }, program = true,
      help = "device of each rank, both counted from 0 (default: rank i is on device i)" },
    { "pp", "degree", default = 1, most = stages, c = true, program = function(pp) return pp == 1 end,
      also = "pipeline_parallel pipeline pipeline_stages",
      help = "pipeline stages" },
    { "dp", "degree", default = 1, most = replicas, c = true, also = "data_parallel data_parallel_shard replicas",
      help = "data-parallel replicas" },
    { "vp", "degree", default = 1, most = 1 << 10, c = true, also = "vpp virtual_pipeline_parallel virtual_pipeline",
      help = "model chunks of each stage; in bidirectional schedules, of each direction" },
    { "schedule", "string", software = true, default = "1f1b",
      help = "gpipe, 1f1b, interleaved, or a file of schedules/",
      c = { "schedule", function(name) return built_in[name] and name or "custom" end } },
    { "interleave_group", "count", optional = true, most = 1 << 24,
      c = { "interleave_group", function(group, p)
        if p.schedule ~= "interleaved" then return p.pp end -- without effect
        return group or schedules.interleave_group(p.pp, p.micro_batches or p.pp)
      end },
      help = "interleaved: number of micro-batches that run through one chunk before the next chunk (default pp, or "
        .. "the next valid number)" },
    { "recompute", "string", software = true, default = "none", one_of = { "none", "selective", "policy", "full" },
      c = true, also = "recompute_granularity gradient_checkpointing activation_checkpointing recomputation",
      help = "operators that the backward pass repeats: none, selective (attention's core), policy (a "
        .. "checkpoint policy of JAX or PyTorch: recompute_keeps or the stack say what is stored; else every second "
        .. "layer is repeated), full" },
    { "zero", "natural", software = true, default = 0, one_of = { 0, 1, 2, 3 }, c = true, also = "zero_stage fsdp=3",
      needs = { copies, replicated },
      program = function(_, p) return sharded_gradients(p) end,
      help = "0: none, 1: optimizer sharded over dp, 2: gradients too, 3: weights too" },
    { "shard", "degree", optional = true, most = replicas, also = "hsdp",
      c = { "shard", function(shard) return shard or 0 end },
      help = "ranks over which ZeRO shards; groups of this size are replicas (HSDP; default: all, dp * cp)" },
    { "prefetch", "natural", default = 1, most = 1024, c = true,
      needs = { "zero = 3 and overlap_parameters", function(p) return p.zero == 3 and p.overlap_parameters end },
      help = "number of layers that ZeRO-3 with overlap_parameters gathers ahead; 0: none" },
    { "reshard", "boolean", default = true, c = true,
      needs = { "zero = 3", function(p) return p.zero == 3 end },
      program = function(reshard, p) return reshard or not gathers_by_host(p) end,
      help = "ZeRO-3 frees weights after the forward pass (false: they stay whole until the backward pass)" },
    { "offload_activations", "fraction", default = 0, c = true, also = "cpu_offloading",
      help = "share of the activations in the host's memory" },
    { "offload_gradients", "fraction", default = 0, c = true,
      help = "share of the gradients in the host's memory" },
    { "offload_optimizer", "fraction", default = 0, c = true, also = "cpu_offload optimizer_cpu_offload",
      help = "share of the optimizer states in the host's memory, and of the weights that the host updates" },
    { "offload_weights", "fraction", default = 0, c = true, help = "share of the weights in the host's memory" },
    { "micro_batches", "count", optional = true, most = 1 << 24, c = true,
      also = "gradient_accumulation_steps gradient_accumulation grad_accum",
      help = "micro-batches per step (or give global_batch)" },
    { "global_batch", "count", optional = true, most = 1 << 58, also = "gbs batch train_batch",
      help = "sequences per step, over all replicas" },
    { "optimizer_bytes", "nonnegative", software = true, optional = true, most = 1024,
      c = { "optimizer_bytes", function(bytes, p) return bytes or adam_bytes(p) end },
      help = "bytes of optimizer state per parameter, master weight included (default: Adam's 12; 8 with fp32 "
        .. "weights). With a 4-byte master weight: Lion and SGD with momentum 8, 8-bit Adam 6, Adafactor 4. A "
        .. "moving average of the weights has 4 more" },
    { "optimizer", "string", default = "adam", one_of = { "adam", "muon" }, program = true,
      c = { "matrix_bytes", matrix_bytes }, also = "optim dist_muon",
      help = "adam, or muon: Newton-Schulz iterations on the matrices between embedding and head, which have one "
        .. "moment instead of two; Adam for other weights (optimizer_bytes)" },
    { "muon_steps", "count", default = 5, most = 100, program = true,
      needs = { "optimizer = muon", function(p) return p.optimizer == "muon" end },
      help = "Newton-Schulz iterations of Muon" },
    { "muon_tensor", "string", default = "blockwise", one_of = { "blockwise", "duplicated" }, program = true,
      needs = { "optimizer = muon and tp above 1", function(p) return p.optimizer == "muon" and p.tp > 1 end },
      help = "blockwise: each tensor rank orthogonalises its part of a matrix; duplicated: it gathers the whole "
        .. "matrix" },
    { "bucket_bytes", "positive", default = 500e6, least = 10000, unit = "bytes", c = true,
      needs = { copies .. " and zero below 3", function(p) return replicated(p) and p.zero < 3 end },
      help = "bytes of one gradient or weight message" },
    { "gradient_all_reduce", "boolean", default = false, c = true,
      needs = { "zero of at least 1 and " .. copies, sharded },
      help = "ZeRO all-reduces gradients instead of reduce-scattering them (DeepSpeed, stages 1 and 2)" },
    { "reduce_dtype", "training_dtype", optional = true,
      c = { "message_bytes", function(dtype, p) return schema.dtype_bytes[dtype or p.gradient_dtype] end },
      needs = { copies, replicated },
      help = "type of gradients in messages (default gradient_dtype)" },
    { "overlap_gradients", "boolean", software = true, default = false,
      c = true, also = "overlap_grad_reduce",
      needs = { copies .. ", and no stages of FSDP2 with zero 2 or 3",
        function(p) return replicated(p) and not stay_whole(p) end },
      help = "gradient buckets are reduced during the last backward pass (default: as in the stack)" },
    { "overlap_parameters", "boolean", software = true, default = false, c = true,
      needs = { "zero of at least 1 and " .. copies, sharded }, also = "overlap_param_gather",
      help = "weights are gathered during the next forward pass (default: as in the stack)" },
    { "overlap_sends", "boolean", software = true, default = false, c = true, needs = { "pp above 1", staged },
      help = "sends between stages overlap computing (default: as in the stack)" },
    { "serial_sends", "boolean", optional = true, c = { "serial_sends", sends_serially }, program = sends_serially,
      needs = { "pp above 1", staged },
      help = "a stage computes nothing while it receives a message; with scatter_sends it also gathers its own output "
        .. "for the backward pass (DeepSpeed pipelines; default: as in the stack)" },
    { "clip_gradients", "boolean", default = true, c = true, needs = { "pp above 1", staged },
      help = "all stages wait for one global gradient norm" },
    { "post_validation", "boolean", default = false, c = true,
      needs = { "pp above 1 and clip_gradients", function(p) return p.pp > 1 and p.clip_gradients end },
      help = "the gradient norm is checked after the update: stages start the next step immediately (zero bubble)" },
    { "data_seconds", "nonnegative", default = 0, most = 1e6, c = true,
      also = "dataloader data_loader_seconds data_loading num_workers",
      help = "seconds in which data loaders make the batch of a step, while the devices compute the step before; a "
        .. "step takes at least this long" },
    { "stall_seconds", "nonnegative", default = 0, most = 1e6, c = true, also = "host_stall_seconds logging_seconds",
      help = "seconds of each step in which all devices wait for their hosts: loading without prefetching, logging, "
        .. "garbage collection" },
    { "tokens", "positive", optional = true, most = 1e18, after = true,
      help = "tokens of a whole run; adds its days, price and energy" },
    { "price_per_device_hour", "nonnegative", optional = true, most = 1e6, after = true, also = "price_per_gpu_hour",
      help = "price of a device per hour, in US dollars (default the cluster's)" },
    { "pue", "positive", optional = true, least = 1, most = 10, after = true,
      needs = power,
      help = "power usage effectiveness of the facility (default the cluster's, or 1.56)" },
    { "grams_co2_per_kwh", "nonnegative", optional = true, most = 1e4, after = true,
      needs = power,
      help = "grams of carbon dioxide per kWh of the grid (default the cluster's, or 480)" },
    { "failures_per_device_day", "fraction", optional = true, after = true,
      help = "failures per device and day that stop the run (default the cluster's)" },
    { "restart_seconds", "nonnegative", optional = true, most = 1e7, after = true,
      needs = failures,
      help = "seconds from a failure to the first repeated step (default the cluster's, or 600)" },
    { "checkpoint_every_seconds", "positive", optional = true, least = 1, most = 1e9, after = true,
      needs = failures, also = "checkpoint_interval save_interval checkpoint_seconds",
      help = "seconds of work between checkpoints, rounded up to whole steps (default: the best)" },
    { "device_storage_bandwidth", "positive", default = 122e6, least = 10000, unit = "bytes/s", most = 1e17,
      after = true, needs = failures, also = "checkpoint_bandwidth storage_bandwidth",
      help = "bytes/s of a device to storage (Llama 3: 2 TB/s over 16,384 devices)" },
    { "jitter", "fraction", default = 0, after = true,
      help = "relative standard deviation of a device's computing time, independent in each step" },
    { "slow_share", "fraction", default = 0, after = true, help = "share of the devices that are slow" },
    { "slow_factor", "positive", default = 1.1, least = 1, most = 1e3, after = true,
      needs = { "a slow_share", function(p) return p.slow_share > 0 end },
      help = "time of a slow device as a multiple of the others'" },
    { "recipe", "boolean", default = false, after = true, needs = {
        "a stack whose software was compared on this generation of devices, and times that are no samples",
        function(_, context) return context.recipe end },
      help = "the makers of the software or device tuned and published this run; it changes only the interval: other "
        .. "runs are often slower" },
    { "rank_slowdown", "list", optional = true, after = true,
      help = "time of each rank as a multiple of the estimate's, in rank_order: known stragglers" },
    { "split", "list", optional = true, c = true,
      help = "number of layers in each of the pp * vp slices, without embedding and head" },
    { "mtp_slice", "count", optional = true, most = 1 << 22,
      c = { "prediction", function(slice) return (slice or 0) - 1 end },
      needs = { "a model with multi-token prediction", function(_, context) return context.predictions end },
      help = "slice, counted from 1, that holds the layers of multi-token prediction; later slices of split have no "
        .. "layers (default: the last)" },
  },
}

--- The fields as a schema of ett.base.schema, and the position of each in the list.
fields.schema, fields.position = {}, {}
for i, field in ipairs(fields.list) do
  local name = field[1]
  fields.schema[name] = { field[2], default = field.default, optional = field.optional, one_of = field.one_of,
    least = field.least, most = field.most, unit = field.unit, help = field.help, also = field.also }
  fields.position[name] = i
end

--- Raises for values that no plan has, in some fields of a plan. Other names are left to the check of the whole plan.
function fields.check_some(given)
  local known, rules = {}, {}
  for name, value in pairs(given) do
    if fields.schema[name] then known[name], rules[name] = value, fields.schema[name] end
  end
  schema.check(known, rules, "plan", "plan")
end

--- Whether the conversion of a field for C reads other fields of the plan.
function fields.reads_others(field)
  return type(field.c) == "table" and debug.getinfo(field.c[2], "u").nparams > 1
end

fields.sends_of, fields.replicated, fields.stay_whole, fields.adam_bytes = sends_of, replicated, stay_whole, adam_bytes
fields.defers_gradients, fields.sharded_gradients = defers_gradients, sharded_gradients

--- Messages on fields of a clean plan that differ from their default but have no effect.
---@param context table { experts =, predictions =, failures =, power = }: booleans
function fields.idle(p, context)
  local found = {}
  for _, field in ipairs(fields.list) do
    local name, needs = field[1], field.needs
    if needs and p[name] ~= field.default and not needs[2](p, context) then
      found[#found + 1] = ("%s has no effect: it needs %s"):format(name, needs[1])
    end
  end
  return found
end

-- Conditions under which communication fields have an effect.
local matters = { schedule = staged, overlap_all_to_all = function(p) return p.ep > 1 end }

--- Whether the products of weight gradients also add to the stored gradients: as the plan says, else as the stack does.
function fields.fuses_accumulation(p, stack)
  if p.fused_accumulation == nil then return stack.fused_accumulation == true end
  return p.fused_accumulation
end

--- Whether a token is sent once to each node or rank that holds its experts: as the plan says, else as the stack does.
function fields.sends_once(p, stack)
  if p.deduplicate_tokens == nil then return stack.deduplicate_tokens == true end
  return p.deduplicate_tokens
end

--- How context ranks exchange keys and values: as the plan says, else as the stack does.
function fields.context_method(p, stack) return p.cp_method or stack.cp_method end

--- "zero = 3: the stack megatron has only ZeRO 0, 1; stack=megatron_fsdp has it"; nil if the stack has the stage.
--- PyTorch's SHARD_GRAD_OP is often called ZeRO-2.
function fields.foreign_stage(p, stack)
  if p.zero == 0 or stacks.has_stage(stack, p.zero, p.pp) or not replicated(p) then return nil end
  if stacks.has_stage(stack, p.zero) then
    return ("zero = %d: the stack %s has only ZeRO %s in pipelines"):format(p.zero, stack.name,
      (stack.pipeline_zero_stages:gsub(" ", ", ")))
  end
  local kept = p.zero == 2 and stacks.has_stage(stack, 3)
    and "; SHARD_GRAD_OP of PyTorch FSDP is zero=3 reshard=false"
  return ("zero = %d: the stack %s has only ZeRO %s%s"):format(p.zero, stack.name, stack.zero_stages:gsub(" ", ", "),
    kept or stack.sharding_stack and ("; stack=%s has it"):format(stack.sharding_stack) or "")
end

--- Whether kernels run while weights are gathered, which slows those of stacks with `gathers_slow`.
function fields.gathers_weights(p) return p.zero == 3 and replicated(p) end

-- The fields decided by software that a given plan leaves open, each with the value in use.
local function open_fields(given, p, stack)
  local found, of_stack = {}, { stack = stack.name, fused_accumulation = fields.fuses_accumulation(p, stack),
    cp_method = fields.context_method(p, stack), scatter_sends = sends_of(p, "scatter_sends"),
    deduplicate_tokens = fields.sends_once(p, stack),
    lora_targets = table.concat(fields.lora_targets, ",") }
  for _, field in ipairs(fields.list) do
    local name, test = field[1], field.needs and field.needs[2] or matters[field[1]]
    local by_stack = name == "sequence_parallel" and stack.splits_stream
    if field.software and given[name] == nil and not by_stack and not (test and not test(p, {})) then
      local value = of_stack[name]
      if value == nil then value = p[name] end
      found[#found + 1] = { field = field, value = value }
    end
  end
  return found
end

-- Other CUDA graphs, as words that the text of the stack adds. In dense layers few launches are waited for, so graphs
-- count only with experts. Megatron-Core has none with full recomputation (transformer_config.py, __post_init__).
local function open_graphs(p, stack, experts)
  return experts and p.recompute ~= "full" and stacks.other_graphs(stack, p.stack) or {}
end

--- Fields decided by software that a given plan leaves open, as "name value" of the clean plan, and CUDA graphs.
---@param p table the clean plan
---@param stack table the stack in use
---@param experts integer? of the model
function fields.left_open(given, p, stack, experts)
  local found = {}
  for i, open in ipairs(open_fields(given, p, stack)) do
    found[i] = ("%s %s"):format(open.field[1], tostring(open.value))
  end
  if open_graphs(p, stack, experts)[1] then found[#found + 1] = "graphs " .. (stack.graphed or "none") end
  return found
end

-- Fields whose value is chosen by what fits in memory, or by the plan itself.
local by_memory = { recompute = true, zero = true }

local function other_schedules(given, p, stack, layers)
  local list = {}
  local has = stack.pipeline_schedules:find("interleaved", 1, true)
  if not (layers and has) or given.vp or given.split then return list end
  for vp = 2, layers // p.pp do
    if layers % (p.pp * vp) == 0 then list[#list + 1] = { schedule = "interleaved", vp = vp } end
  end
  return list
end

--- Other values of the fields that a given plan leaves open, as changes of that plan: a list for each field. Rules and
--- the software may refuse some of them. What the stack does itself is not open, nor are fields that memory decides.
---@param p table the clean plan
---@param stack table the stack in use
---@param layers integer? of the model
---@param experts integer? of the model
---@param generation string? of the devices
function fields.other_values(given, p, stack, layers, experts, generation)
  local lists = {}
  for _, open in ipairs(open_fields(given, p, stack)) do
    local field, list = open.field, {}
    local name = field[1]
    if name == "schedule" then
      list = other_schedules(given, p, stack, layers)
    elseif name == "gradient_dtype" then
      list[1] = { [name] = p[name] ~= "fp32" and "fp32" or p.dtype == "fp16" and "fp16" or "bf16" }
    elseif field.one_of and not by_memory[name] then
      for _, value in ipairs(field.one_of) do
        if value ~= open.value then list[#list + 1] = { [name] = value } end
      end
    elseif field[2] == "boolean" and stack[name] ~= true then
      list[1] = { [name] = not open.value }
    end
    lists[#lists + 1] = #list > 0 and list or nil
  end
  local kernels, graphs = {}, {}
  for i, kernel in ipairs(stacks.other_attention(stack, p.stack, generation)) do
    kernels[i] = { stack = ("%s:attention=%s"):format(p.stack, kernel) }
  end
  lists[#lists + 1] = #kernels > 0 and kernels or nil
  for i, words in ipairs(open_graphs(p, stack, experts)) do graphs[i] = { stack = p.stack .. words } end
  lists[#lists + 1] = #graphs > 0 and graphs or nil
  return lists
end

--- "seq = 8000; 8Ki is 8192" for each number of tokens that is a multiple of 1000: `k` is 1000, often 1024 is meant.
---@param seqs integer[] values of seq
---@param hyper table hyper-parameters of the model
function fields.decimals(seqs, hyper)
  local found, seen = {}, {}
  local function add(name, value)
    if not value or value % 1000 ~= 0 or seen[name .. value] then return end
    local mega = value % 1000000 == 0
    local number = value // (mega and 1000000 or 1000)
    found[#found + 1], seen[name .. value] = ("%s = %d; %d%s is %d"):format(name, value, number, mega and "Mi" or "Ki",
      number << (mega and 20 or 10)), true
  end
  for _, seq in ipairs(seqs) do add("seq", seq) end
  add("window", hyper.window)
  return found
end

-- The fields that place groups of ranks.
local placing = {}
for _, name in ipairs { "tp", "cp", "cp_ulysses", "ep", "etp", "rank_order", "rank_map", "pp", "dp" } do
  placing[#placing + 1] = fields.list[fields.position[name]]
end

--- Fills `c` with the plan fields that C reads, or with those that place groups alone.
function fields.to_c(p, c, places)
  for _, field in ipairs(places and placing or fields.list) do
    local to, name = field.c, field[1]
    if to == true then
      c[name] = p[name]
    elseif to then
      c[to[1]] = to[2](p[name], p)
    end
  end
  return c
end

local of_program = {}
for _, field in ipairs(fields.list) do
  if field.program then of_program[#of_program + 1] = { field[1], field.program ~= true and field.program } end
end

--- The key of the step program as a function of a plan, for many plans that differ only in some fields: plans with
--- equal keys share a program.
---@param p table a plan with the other fields
---@param changing table<string, any> its keys are the fields that may differ
---@param without string? a field to be ignored
function fields.program_keys(p, changing, without)
  local fixed, open, words = {}, {}, {}
  for _, field in ipairs(of_program) do
    local name, of = field[1], field[2]
    if name ~= without and (changing[name] or of and debug.getinfo(of, "u").nparams > 1) then
      open[#open + 1] = field
    elseif name ~= without then
      fixed[#fixed + 1] = tostring(of and of(p[name], p) or not of and p[name])
    end
  end
  words[1] = table.concat(fixed, " ")
  return function(q)
    for i = 1, #open do
      local name, of = open[i][1], open[i][2]
      local value = q[name]
      if of then value = of(value, q) end
      words[i + 1] = tostring(value)
    end
    return table.concat(words, " ")
  end
end

return fields
