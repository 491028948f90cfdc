--- Converts Megatron-LM's flags to a plan.
local deepspeed = require "ett.import.export.deepspeed"
local error_module = require "ett.base.error"
local layout = require "ett.import.megatron.layout"
local modules_module = require "ett.operator.modules"
local plan_fields = require "ett.plan.fields"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"

--- Whether gradients next to weights in bf16 have their type: by either of two flags (arguments.py, validate_args).
--- In a YAML file of NeMo or Megatron-Bridge, the type of the optimizer's gradients does not set that of the buffers.
local function narrow_gradients(args)
  local narrow = args:choice("main-grads-dtype", "fp32", { fp32 = false, bf16 = true })
  return args:has "grad-reduce-in-bf16"
    or narrow and not args.nemo and not args:has "accumulate-allreduce-grads-in-fp32"
end

--- DeepSpeed's stage, and whether it is that of BF16_Optimizer: a file's stage 0 shards the states of bf16 as stage 1
--- does, with sums in fp32 (DeepSpeed of 2022, engine.py: get_data_types, _do_optimizer_sanity_check).
local function deepspeed_stage(args, given)
  if given.zero then return given.zero, false end
  local stage = math.tointeger(args:number("zero-stage", 1))
  local bf16_optimizer = stage == 0 and args:has "bf16"
  return bf16_optimizer and 1 or stage, bf16_optimizer
end

-- Notes two precisions, and raises for an unknown format of fp8, as arguments.py does (validate_args,
-- _add_transformer_engine_args).
local function check_precision(args)
  if args:has "bf16" and args:has "fp16" then
    args:note "--bf16 and --fp16 exclude each other in Megatron-LM; the estimate is of bf16"
  end
  local format = (args.given["fp8-format"] or {})[1]
  if format and not format:find("$", 1, true) then args:choice("fp8-format", nil, { e4m3 = true, hybrid = true }) end
end

local function set_precision(p, args, given)
  check_precision(args)
  p.dtype = args:has "bf16" and "bf16" or args:has "fp16" and "fp16" or "fp32"
  if args:has "deepspeed" then -- Megatron-LM's own replicas do not run
    local _, bf16_optimizer = deepspeed_stage(args, given)
    p.gradient_dtype = given.gradient_dtype or bf16_optimizer and "fp32" or p.dtype
    p.reduce_dtype = p.gradient_dtype ~= p.dtype and p.dtype or nil
  else
    p.gradient_dtype = (p.dtype == "bf16" and narrow_gradients(args)
      or p.dtype == "fp16" and not args:has "accumulate-allreduce-grads-in-fp32") and p.dtype or "fp32"
  end
  if args:has "fp4-format" then
    p.dtype = args:choice("fp4-recipe", "nvfp4", { nvfp4 = "nvfp4", mxfp4 = "mxfp4" }) -- mxfp4: Primus
  elseif args:has "fp8-format" then
    p.dtype = args:choice("fp8-recipe", "delayed", { delayed = "fp8", tensorwise = "fp8", blockwise = "fp8_block",
      mxfp8 = "mxfp8" })
  end
end

--- Whether the optimizer stores only the lower 16 bits of fp32 master weights, next to weights in bf16. That is the
--- default of Megatron-Core's optimizer_config.py. It is off under every fp8 recipe but delayed, also if nothing is in
--- fp8: then Megatron-Core makes the master weights itself. Master weights on the host, and those of fp8 weights, have
--- 32 bits.
local function stores_remainders(args)
  return args:has "use-precision-aware-optimizer" and args:has "bf16" and not args:has "no-store-param-remainders"
    and args:text("fp8-recipe", "delayed") == "delayed" and args:text("main-params-dtype", "fp32") == "fp32"
    and not args:has "optimizer-cpu-offload" and not args:has "fp8-param-gather"
end

-- The optimizer: adam, sgd or muon.
local function optimizer_of(args)
  local forks = args:text("optimizer", ""):lower():find("adam", 1, true) -- adamw, fusedadamw
  return forks and "adam"
    or args:choice("optimizer", "adam", { adam = "adam", sgd = "sgd", muon = "muon", dist_muon = "muon" })
end

--- Muon. Its distributed form all-reduces gradients, updates whole matrices on their owners and gathers weights
--- (layer_wise_optimizer.py). `distributed` of --muon-tp-mode sums small products instead of gathering matrices.
local function set_muon(p, args, given)
  if optimizer_of(args) ~= "muon" then return end
  p.optimizer, p.muon_steps = "muon", args:number("muon-num-ns-steps", 5)
  local mode = args:choice("muon-tp-mode", "blockwise", { blockwise = "blockwise", duplicated = "duplicated",
    distributed = "blockwise" })
  if (given.tp or p.tp) > 1 then p.muon_tensor = mode end
  if args:text("muon-tp-mode", "") == "distributed" then
    args:note "--muon-tp-mode distributed is modelled as blockwise, without its sums over tensor ranks"
  end
  if p.zero < 2 and (args:text("optimizer", "") == "dist_muon" or p.zero == 1) then
    p.zero, p.gradient_all_reduce = 1, given.zero ~= 0 or nil
  end
end

--- Bytes of optimizer state per parameter: master weight and moments. Those of Muon are the bytes of the weights that
--- Adam updates.
local function optimizer_bytes(args, dtype)
  local kind = optimizer_of(args)
  local master = dtype == "fp32" and 0 or 4
  if args:has "apex-bf16-states" then -- both moments; master weights beside weights of another type alone
    return args:has "bf16" and not args:has "fp8-param-gather" and 4 or 6
  end
  if kind == "muon" then return master + 8 end
  if kind ~= "adam" then return master + 4 end
  local of = schema.dtype_bytes
  local widths = { fp32 = of.fp32, fp16 = of.fp16, bf16 = of.bf16, fp8 = of.fp8 }
  local first = args:choice("exp-avg-dtype", "fp32", widths)
  local second = args:choice("exp-avg-sq-dtype", "fp32", widths)
  if args:has "use-precision-aware-optimizer" and master > 0 then
    master = stores_remainders(args) and 2 or args:choice("main-params-dtype", "fp32", widths)
  end
  return master + first + second
end

local shards = { no_shard = 0, optim = 1, optim_grads = 2, optim_grads_params = 3 }

--- Ranks of one instance of the distributed optimizer: instances are replicas (param_and_grad_buffer.py).
local function set_instances(p, args)
  local instances, ranks = args:number("num-distributed-optimizer-instances", 1), p.dp * p.cp
  if instances == 1 or p.zero == 0 then return end
  if instances < 1 or instances % 1 ~= 0 or ranks % instances ~= 0 then
    error_module.raise("format", "--num-distributed-optimizer-instances = %s must divide the %d data-parallel ranks",
      tostring(instances), ranks)
  end
  p.shard = ranks // instances
end

local function set_sharding(p, args, given)
  p.zero = args:has "use-distributed-optimizer" and 1 or 0
  if args:has "use-megatron-fsdp" or args:has "use-custom-fsdp" then -- others do not read the strategy
    p.zero = math.max(p.zero, args:choice("data-parallel-sharding-strategy", "no_shard", shards))
    if not args:has "data-parallel-sharding-strategy" then
      args:note "--use-megatron-fsdp without --data-parallel-sharding-strategy shards no weights: no_shard"
    end
  end
  local strategy = args:text "fsdp-sharding-strategy" -- of NeMo
  if strategy == "grad" then p.reshard = false end -- PyTorch's SHARD_GRAD_OP
  if strategy == "hybrid" then
    args:note "fsdp_sharding_strategy: hybrid counts as full. The plan field shard states the ranks that share weights"
  end
  if args:has "use-torch-fsdp2" then p.zero = 3 end
  if args:has "deepspeed" then
    local bf16_optimizer
    p.zero, bf16_optimizer = deepspeed_stage(args, given)
    p.gradient_all_reduce = deepspeed.all_reduces(p.zero)
    if bf16_optimizer then
      args:note "--zero-stage 0 in bf16: DeepSpeed shards the optimizer states all the same, as zero=1"
    end
  end
  set_instances(p, args)
  if args:has "optimizer-cpu-offload" then p.offload_optimizer = args:number("optimizer-offload-fraction", 1) end
  p.overlap_gradients, p.overlap_parameters = args:has "overlap-grad-reduce", args:has "overlap-param-gather"
  if p.zero == 3 then p.overlap_gradients, p.overlap_parameters = true, true end
  if p.overlap_gradients and p.pp > 1 and args:has "deepspeed" then -- PipelineEngine: enable_backward_allreduce
    p.overlap_gradients = false
    args:note "DeepSpeed's pipelines do not overlap reductions of gradients"
  end
  if p.overlap_parameters and p.zero < 3 and args:has "deepspeed" then -- stage_1_and_2.py: step
    p.overlap_parameters = false
    args:note "DeepSpeed gathers weights during computing at stage 3 only"
  end
  if p.overlap_parameters and not p.overlap_gradients and not args.nemo then -- arguments.py, validate_args
    args:note "Megatron-LM refuses --overlap-param-gather without --overlap-grad-reduce"
  end
  if args:text "megatron-amp-O2" == "false" and p.dtype ~= "fp32" then
    args:note("megatron_amp_O2: false keeps weights in fp32. The estimate counts their lower halves as optimizer "
      .. "states%s, and no copies in 16 bits", p.zero > 0 and ", which it shards" or "")
  end
  return p.zero == 3 and not args:has "deepspeed"
end

-- The names of a list that are in a set, each once, in the order of the list, and whether there are others.
local function kept(list, names)
  local open, found, others = {}, {}, false
  for _, name in ipairs(names) do open[name] = true end
  for _, name in ipairs(list) do
    others = others or open[name] == nil
    if open[name] then found[#found + 1] = name end
    open[name] = open[name] and false
  end
  return found, others
end

--- Full recomputation of some layers of each slice, or of several layers from one stored input (transformer_block.py,
--- _checkpointed_forward).
local function set_layers(p, args)
  local count = args:number "recompute-num-layers"
  local method = args:choice("recompute-method", "uniform", { block = "block", uniform = "uniform" })
  if method == "block" and count and count <= 0 then
    p.recompute = "none"
  elseif count and count < 1 then -- Megatron-LM's loop over the layers would not end
    error_module.raise("format", "--recompute-num-layers: must be at least 1 with --recompute-method uniform, got %g",
      count)
  elseif count and not (method == "uniform" and count == 1) then
    p.recompute_layers, p.recompute_method = count, method
  end
end

-- The ids of Primus' recompute_layer_ids, as a set. They count from 0 over the whole model; those of multi-token
-- prediction follow (mtp_depth_to_layer_id).
local function layer_ids(args, layers)
  local text, ids, behind = table.concat(args.given["recompute-layer-ids"], ","), {}, false
  for word in text:gmatch "[^%s,]+" do
    local id = math.tointeger(tonumber(word))
    if not id or id < 0 then
      error_module.raise("format", "--recompute-layer-ids: must be layers, counted from 0, got '%s'", text)
    end
    behind = behind or id >= layers
    ids[id] = true
  end
  if behind then
    args:note("--recompute-layer-ids %s: the model has %d layers, so those from %d on are left out", text, layers,
      layers)
  end
  return ids
end

--- Full recomputation of listed layers (Primus' recompute_layer_patches.py, _checkpointed_forward).
local function set_listed_layers(p, args, layers)
  local ids, list = layer_ids(args, layers), {}
  for id = 0, layers - 1 do
    if ids[id] then list[#list + 1] = id end
  end
  if #list == 0 then
    p.recompute = "none"
  elseif #list < layers then
    p.recompute_layer_ids = list
  end
end

local function set_recompute(p, args, layers, given)
  local full_in_older_names = args:has "checkpoint-activations" or args:has "activations-checkpoint-method"
  p.recompute = args:has "recompute-activations" and "selective" or full_in_older_names and "full" or "none"
  p.recompute = args:choice("recompute-granularity", nil, { full = "full", selective = "selective" }) or p.recompute
  p.recompute = given.recompute or p.recompute
  local modules = args.given["recompute-modules"]
  -- The older name (transformer_config.py, __post_init__) adds the module to those of selective recomputation.
  if args:has "moe-layer-recompute" and p.recompute ~= "full" then
    modules = { "moe", table.unpack(modules or plan_fields.recompute_modules) }
    p.recompute = given.recompute or "selective"
  end
  if p.recompute == "selective" and modules then
    local others
    p.recompute_modules, others = kept(modules, modules_module.names)
    if others then
      args:note("--recompute-modules %s: ett recomputes %s of them", table.concat(modules, " "),
        #p.recompute_modules > 0 and table.concat(p.recompute_modules, " ") or "none")
    end
    if #p.recompute_modules == 0 then p.recompute, p.recompute_modules = "none", nil end
  end
  if p.recompute ~= "full" or given.recompute then return end
  if given.recompute_layer_ids then return end
  if not args.given["recompute-layer-ids"] then
    set_layers(p, args)
  elseif not given.recompute_layers then
    set_listed_layers(p, args, layers)
  end
end

-- 1 if the embedding, and the loss, count as a layer of the pipeline; else 0.
local function accounted(args)
  return args:has "account-for-embedding-in-pipeline-split" and 1 or 0,
    args:has "account-for-loss-in-pipeline-split" and 1 or 0
end

--- Layers of the stages in model order, if the first or the last stage differs.
local function split_of(p, args, layers)
  local first, last = args:number "decoder-first-pipeline-num-layers", args:number "decoder-last-pipeline-num-layers"
  local embedding, loss = accounted(args)
  if not (first or last) and embedding + loss == 0 or p.pp == 1 then return nil end
  local slices, list = p.pp * p.vp, {}
  if slices < 1 or slices % 1 ~= 0 or slices > layers + 2 then return nil end -- the plan will be refused
  if embedding + loss > 0 then
    if (layers + embedding + loss) % slices ~= 0 then -- transformer_block.py, get_num_layers_to_build
      error_module.raise("format", "--account-for-%s-in-pipeline-split: the %d chunks of the pipeline must divide %d "
        .. "layers (%d of the model)", embedding == 0 and "loss" or loss == 0 and "embedding"
        or "embedding-in-pipeline-split and --account-for-loss", slices, layers + embedding + loss, layers)
    end
    for i = 1, slices do list[i] = (layers + embedding + loss) // slices end
    list[1], list[slices] = list[1] - embedding, list[slices] - loss
    return list
  end
  local middle = p.pp - (first and 1 or 0) - (last and 1 or 0)
  local each = middle > 0 and (layers - (first or 0) - (last or 0)) // middle or 0
  for i = 1, slices do
    local stage = (i - 1) % p.pp + 1
    list[i] = (stage == 1 and first or stage == p.pp and last or each) // p.vp
  end
  return list
end

--- Layers of the slices in --pipeline-model-parallel-layout, or nil; the slice with multi-token prediction if it is not
--- the last.
local function stated_slices(p, args, layers)
  local text, slices, predicted, sum = args:text "pipeline-model-parallel-layout", nil, nil, 0
  if text then slices, predicted = layout(text) end
  for _, n in ipairs(slices or {}) do sum = sum + n end
  if slices and #slices % p.pp == 0 and sum == layers then
    return slices, predicted and predicted < #slices and predicted or nil
  end
  if text then
    args:note("--pipeline-model-parallel-layout %s does not place %s layers on %s stages; it is ignored", text, layers,
      p.pp)
  end
end

local function set_pipeline(p, args, layers, given)
  p.vp, p.schedule = 1, "1f1b"
  local per_chunk, chunks = args:number "num-layers-per-virtual-pipeline-stage",
    args:number "num-virtual-stages-per-pipeline-rank"
  local embedding, loss = accounted(args)
  if per_chunk and per_chunk > 0 then chunks = (layers + embedding + loss) // p.pp // per_chunk end
  local slices, predicted = stated_slices(p, args, layers)
  if slices then chunks = #slices // p.pp end
  if p.pp > 1 and args:has "deepspeed" then
    deepspeed.set_sends(p, given)
    if chunks and chunks > 1 then args:note "DeepSpeed's pipelines have no virtual stages: the plan has vp = 1" end
  elseif chunks and chunks > 1 and p.pp > 1 then
    p.vp, p.schedule = chunks, "interleaved"
    p.overlap_sends = not args:has "no-overlap-p2p-communication"
    p.interleave_group = args:number "microbatch-group-size-per-virtual-pipeline-stage"
  end
  p.split = p.pp > 1 and slices or split_of(p, args, layers)
  p.mtp_slice = p.pp > 1 and slices and given.split == nil and predicted or nil
end

--- Notes layers that the file leaves to ett to place. Megatron-Core refuses such numbers (get_num_layers_to_build), and
--- Megatron-LM a stage that is no multiple of a virtual one (arguments.py, validate_args).
local function note_uneven(args, p, layers)
  local slices = p.pp * p.vp
  if p.pp == 1 or p.split or args:has "deepspeed" or slices <= 0 then return end
  local per_chunk, embedding, loss = args:number "num-layers-per-virtual-pipeline-stage", accounted(args)
  local stage = (layers + embedding + loss) // p.pp
  if layers % slices ~= 0 then
    args:note("%s layers do not divide into %s slices, which Megatron-LM refuses without a layout; ett places them as "
      .. "evenly as it can, or by split=N,N,...", layers, slices)
  elseif per_chunk and (per_chunk <= 0 or stage % per_chunk ~= 0) then
    args:note("--num-layers-per-virtual-pipeline-stage %s does not divide the %s layers of a stage, which Megatron-LM "
      .. "refuses; ett takes vp = %s", per_chunk, stage, p.vp)
  end
end

--- LoRA adapters of NeMo's section peft. Those of experts' products are not modelled.
local function set_adapters(p, args, has_experts)
  p.lora_rank, p.lora_dropout = args:number "peft-rank", args:number "peft-dropout"
  local targets = p.lora_rank and args.given["peft-targets"]
  if not targets then return end
  local list = table.concat(targets, ",")
  if list ~= table.concat(plan_fields.lora_targets, ",") then p.lora_targets = targets end
  if has_experts and list:find "linear_[ud]" then args:note "peft: adapters of experts are not modelled" end
end

--- Tokens that an expert takes at most, and whether its input is padded to them.
local function set_capacity(p, args, has_experts)
  local capacity = args:number "moe-expert-capacity-factor"
  if capacity and capacity > 0 then -- negative: no capacity limit
    p.capacity_factor, p.pad_to_capacity = capacity, args:has "moe-pad-expert-input-to-capacity"
  end
  -- Megatron-DeepSpeed drops tokens by default, and pads.
  capacity = args:number("moe-train-capacity-factor", args:has "deepspeed" and 1.0 or nil)
  if capacity and has_experts and not args:has "disable-moe-token-dropping" then
    p.capacity_factor, p.pad_to_capacity = capacity, true
  end
end

--- The dispatcher with kernels of its own that the flags choose: "deepep", "hybridep" or nil.
local function own_dispatcher(args)
  if args:has "moe-enable-deepep" then return "deepep" end
  local backend = args:text("moe-flex-dispatcher-backend", "deepep")
  local flex = args:text "moe-token-dispatcher-type" == "flex"
  return flex and (backend == "deepep" or backend == "hybridep") and backend or nil
end

local function set_dispatcher(p, args, has_experts)
  p.deduplicate_tokens = own_dispatcher(args) ~= nil
  local kind = args:text("moe-token-dispatcher-type", not (args.nemo or args:has "deepspeed") and "allgather" or nil)
  if kind == "allgather" and has_experts and p.ep > 1 and not p.deduplicate_tokens then
    args:note("--moe-token-dispatcher-type allgather%s is modelled as alltoall",
      args:has "moe-token-dispatcher-type" and "" or ", the default,")
  end
end

local function set_overlaps(p, args)
  p.overlap_tensor = args:has "tp-comm-overlap"
  p.overlap_all_to_all = args:has "overlap-moe-expert-parallel-comm" and "batch"
    or args:has "moe-shared-expert-overlap" and "shared_experts" or "none"
  if p.ep == 1 then p.overlap_all_to_all = "none" end
  if p.cp > 1 then
    p.cp_method = args:choice("cp-comm-type", "p2p", { p2p = "ring", a2a = "ulysses", all_gather = "all_gather",
      ["a2a+p2p"] = "ring" })
    local types = args.given["cp-comm-type"] or {}
    -- Transformer Engine exchanges tokens for heads on the first level (context_parallel.py, cp_group[0]).
    if types[1] == "a2a+p2p" then
      local sizes = args.given["hierarchical-context-parallel-sizes"] or {}
      p.cp_ulysses = math.tointeger(tonumber(sizes[1]))
      if not p.cp_ulysses or #sizes ~= 2 or p.cp_ulysses * (tonumber(sizes[2]) or 0) ~= p.cp then
        error_module.raise("format", "--cp-comm-type a2a+p2p needs --hierarchical-context-parallel-sizes: two degrees "
          .. "with the product %d, got '%s'", p.cp, table.concat(sizes, " "))
      end
    end
    for _, kind in ipairs(types) do -- one for all layers, or one for each
      if kind ~= types[1] then
        args:note("--cp-comm-type %s is modelled as %s", table.concat(types, " "), types[1])
        break
      end
    end
  end
end

--- Sets the number of replicas: as given, or from the number of devices in the file.
local function set_replicas(p, args, given)
  if given.dp then
    p.dp = given.dp
    return
  end
  local ranks = 1.0 * p.tp * p.pp * p.cp
  local world = args:number "world-size"
  local each = args:number "nproc-per-node" or args:number "num-gpus"
  local nodes = args:number "nnodes" or args:number "num-nodes"
  if not world and each then world, args.one_node = 1.0 * each * (nodes or 1), nodes == nil end
  if not world then
    error_module.raise("format", "does not give the number of devices (--nnodes, --nproc-per-node); give dp=N")
  elseif world % ranks ~= 0 then
    error_module.raise("format", "tp * pp * cp = %.14g must divide its %.14g devices; give dp=N for another number",
      ranks, world)
  else
    p.dp = math.tointeger(world // ranks) or world // ranks
  end
end

--- The loss's kernel; nil for a NeMo file that does not state it.
local function cross_entropy(args)
  if not args:has "cross-entropy-loss-fusion" then return not args.nemo and "megatron" or nil end
  return args:choice("cross-entropy-fusion-impl", "native", { native = "native", te = "fused",
    linear = "recomputed" })
end

local whole_graphs = { full = true, full_iteration = true }

--- The part of a stack's text that states CUDA graphs: of a whole layer or step, or of modules. Notes other modules.
--- Without a flag there are none (arguments.py). That is stated if the file has every flag or sets none.
--- Releases of 2026 name the modules --cuda-graph-modules, and a graph of the step is --cuda-graph-impl full_iteration.
--- There an empty list stands for whole layers, too (transformer_config.py).
local function graphs_of(args, stack, has_experts)
  local impl = args:choice("cuda-graph-impl", "none", { none = "none", ["local"] = "local",
    transformer_engine = "transformer_engine", full_iteration = "full_iteration" })
  if impl == "none" and not (args:has "enable-cuda-graph" or args:has "external-cuda-graph") then
    local states = has_experts and (args.without_graphs or args:has "cuda-graph-impl")
    return states and (stack.other_graphs or "") ~= "" and ":graphed=" or ""
  end
  local flag = args:has "cuda-graph-modules" and "cuda-graph-modules" or "cuda-graph-scope"
  local scope = args.given[flag] or {}
  if impl == "full_iteration" or #scope == 0 or #scope == 1 and whole_graphs[scope[1]] then return ":graphs" end
  local parts, others = kept(scope, stacks.graph_parts)
  if others then
    args:note("flags that change the step and are not modelled: --%s %s", flag, table.concat(scope, " "))
  end
  return #parts > 0 and ":graphed=" .. table.concat(parts, "+") or ""
end

--- Changed fields of the stack, from the kernels of the experts.
local function experts_of(args, p, stack)
  local legacy = args:has "moe-use-legacy-grouped-gemm" -- experts.py, GroupedMLP: gg.ops.gmm, in 16 bits
  -- Primus without either has Transformer Engine's products.
  local how = args.apart and ((args:has "primus-grouped-kernel" or legacy) and "kernel" or "streams") or stack.grouped
  return (stack.grouped ~= how and ":grouped=" .. how or "")
    .. (legacy and schema.dtype_bytes[p.dtype or "bf16"] < 2 and ":quantised_products=dense" or "")
    .. (args:has "primus-separate-activation" and ":gated_mlp=5.6" or "")
end

--- The stack that the flags choose, with changed fields where they name other kernels.
local function stack_of(args, p, sharded, has_experts)
  local deepep = args.apart and "primus_moe" or "megatron_moe"
  local name = sharded and "megatron_fsdp"
    or own_dispatcher(args) == "hybridep" and "megatron_hybridep"
    or p.deduplicate_tokens and deepep or args:has "deepspeed" and "megatron_deepspeed" or "megatron"
  local loss, stack = cross_entropy(args), stacks.get(name)
  local graphs = graphs_of(args, stack, has_experts)
  if loss and loss ~= stack.cross_entropy then name = name .. ":cross_entropy=" .. loss end
  -- Without fusion PyTorch splits, activates and multiplies in kernels of its own (mlp.py, glu). Backward it also joins
  -- both gradients. For 4096 x 6144 values on H100 they take 77, 80, 80, 91, 49 and 94 us. That is 3.1 times the fused
  -- kernels' (BastiaanGroot/ML-Infrastructure-Engineer, training/profiles/q8b-baseline-cuda_gpu_kern_sum.txt).
  local apart = args:has "swiglu" and args:has "no-bias-swiglu-fusion" and stack.gated_mlp == 1
    and not args:has "primus-separate-activation"
  if apart then name = name .. ":gated_mlp=3.1" end
  if has_experts then name = name .. experts_of(args, p, stack) end
  local single = args:has "disable-parameter-transpose-cache" -- of TransformerConfig
  if args:has "fp8-param-gather" then
    if (stack.quantised_weights == "beside" or sharded) and (p.dtype or ""):find "fp8" then
      name = name .. ":quantised_weights=" .. (single and "single" or "only")
    else
      args:note "--fp8-param-gather is not modelled"
    end
  elseif single and (p.dtype or ""):find "fp8" then
    args:note "disable_parameter_transpose_cache without fp8_params is not modelled"
  end
  local stage = args:number("turbo-sync-free-moe-stage", 0) -- of Primus
  if stage > 0 then args:note "--turbo-sync-free-moe-stage: its larger buffers are not modelled" end
  -- From 2 on DeepEP returns no numbers to the host (AMD-AGI/Primus#203).
  if stack.name == deepep and stage >= 2 then name = name .. ":reads_counts=none" end
  if args:number "moe-expert-rank-capacity-factor" then
    args:note "--moe-expert-rank-capacity-factor: its additional rows are not modelled"
    -- The host knows the number of rows (token_dispatcher.py, _HybridEPManager.setup_metadata: num_permuted_tokens).
    if stack.name == "megatron_hybridep" then name = name .. ":reads_counts=none" end
  end
  local padding = args:has "moe-router-padding-for-fp8" and "fp8"
    or args:has "moe-router-padding-for-quantization" and "quantization"
  if has_experts and padding then
    args:note("--moe-router-padding-for-%s: its additional rows are not modelled", padding)
    -- The host needs the number of padded rows to permute (token_dispatcher.py, MoEAlltoAllTokenDispatcher.preprocess).
    if stack.reads_counts == "beside_permute" then name = name .. ":reads_counts=before_permute" end
  end
  if args:has "use-nccl-ub" or args:has "nccl-ub" then
    args:note("--use-nccl-ub: where the data-parallel ranks share NVLink, state stack=%s:registered_buffers", name)
  end
  -- In one graph the products of the experts are one kernel anyway.
  if has_experts and args:has "use-transformer-engine-op-fuser" and graphs ~= ":graphs" then
    args:note("--use-transformer-engine-op-fuser: on Blackwell, in mxfp8 or nvfp4 and with "
      .. "NVTE_CUTEDSL_FUSED_GROUPED_MLP=1, state stack=%s:grouped=kernel", name .. graphs)
  end
  -- transformer_config.py: attention in fp8, inside the context of the fp8 recipe.
  local fp8 = args:has "fp8-dot-product-attention" and (p.dtype or ""):find "fp8"
  return name .. graphs .. (fp8 and ":attention_dtype=fp8" or "")
end

local fields_of_primus = { seq_length = "seq", micro_batch_size = "micro_batch", global_batch_size = "global_batch" }

--- Notes settings that no flag and no word states, with the values taken: a script may get them from another file.
--- Without a global batch, Megatron-LM takes one micro-batch for each replica (arguments.py, validate_args).
local function note_missing(args, p, given)
  local list = {}
  local function add(...) list[#list + 1] = (...):format(select(2, ...)) end
  for _, text in ipairs(args.given["primus-defaults"] or {}) do
    local field = fields_of_primus[text:match "^%S+"]
    if not (given[field] or field == "global_batch" and given.micro_batches) then add("%s", text) end
  end
  if not args:has "micro-batch-size" then add("--micro-batch-size (%s)", p.micro_batch) end
  if not (args:has "global-batch-size" or given.micro_batches) then
    add "--global-batch-size (one micro-batch for each replica)"
  end
  if args.one_node then add "--nnodes (1)" end
  if p.dtype == "fp32" and not args.precise then
    add "--bf16 and --fp16 (fp32; if another file sets bf16, give dtype=bf16)"
  end
  if list[1] then args:note("not in the file: %s", table.concat(list, ", ")) end
end

--- The plan, overridden by the given fields.
---@param args table of ett.import.megatron
---@param stack string|boolean|nil the stack that the file states; false: none; nil: Megatron-LM's
return function(args, hyper, given, stack)
  local p = { tp = args:number("tensor-model-parallel-size", 1), pp = args:number("pipeline-model-parallel-size", 1),
    cp = args:number("context-parallel-size", 1),
    ep = args:number "expert-model-parallel-size" or args:number("moe-expert-parallel-size", 1),
    etp = args:number "expert-tensor-parallel-size", seq = args:number "seq-length",
    micro_batch = args:number("micro-batch-size", 1), sequence_parallel = args:has "sequence-parallel" }
  if p.tp == 1 then p.sequence_parallel = false end
  if args:has "use-tp-pp-dp-mapping" then p.rank_order = "tp-cp-ep-pp-dp" end
  if not p.seq then error_module.raise("format", "missing --seq-length; give seq=N") end
  set_precision(p, args, given)
  set_replicas(p, args, given)
  p.global_batch = not given.micro_batches and args:number("global-batch-size", p.dp * p.micro_batch) or nil
  set_pipeline(p, args, hyper.layers, given)
  set_recompute(p, args, hyper.layers + (hyper.mtp_layers or 0), given)
  local sharded = set_sharding(p, args, given)
  set_muon(p, args, given)
  set_dispatcher(p, args, hyper.experts ~= nil)
  set_adapters(p, args, hyper.experts ~= nil)
  set_overlaps(p, args)
  set_capacity(p, args, hyper.experts ~= nil)
  p.optimizer_bytes = optimizer_bytes(args, p.dtype)
  p.fused_accumulation = not args:has "no-gradient-accumulation-fusion"
  p.clip_gradients = args:number("clip-grad", 1.0) > 0
  local width = (p.reduce_dtype or p.gradient_dtype) == "fp32" and 4 or 2
  -- Megatron's default bucket: the larger of 40 million elements and a million per replica.
  if args:has "deepspeed" then
    p.bucket_bytes = deepspeed.bucket_numbers * width
  elseif p.overlap_gradients and p.zero < 3 then -- the messages of stage 3 are those of layers
    p.bucket_bytes = args:number("ddp-bucket-size", math.max(40000000, 1000000 * p.dp)) * width
  end
  if stack == nil then stack = stack_of(args, p, sharded, hyper.experts ~= nil) end
  p.stack = stack or nil
  if p.ep == 1 then p.deduplicate_tokens = nil end
  for name, value in pairs(given) do p[name] = value end
  note_missing(args, p, given)
  note_uneven(args, p, hyper.layers)
  return p
end
