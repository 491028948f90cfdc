--- Exports a model and a plan as Megatron-LM launch flags, one per line; ett.import.megatron reads them back.
local devices = require("ett.plan").devices
local even_split = require("ett.step").split
local plan_fields = require "ett.plan.fields"
local schedules = require "ett.plan.schedules"
local stacks = require "ett.operator.stack"

--- Returns a function that appends "--name value", or "--name" for true; it ignores nil and false.
local function adder(lines)
  return function(name, value)
    if value == nil or value == false then return end
    if type(value) == "number" then value = math.tointeger(value) or value end
    lines[#lines + 1] = value == true and "--" .. name or ("--%s %s"):format(name, tostring(value))
  end
end

-- A list of the layers with a window for the shell, or nil if there are other kinds of layers.
local function windows_of(h)
  local digits = { sliding_attention = 1, full_attention = 0 }
  local list = {}
  for i = 1, h.window and h.layer_types and h.layers or 0 do
    list[i] = digits[h.layer_types[(i - 1) % #h.layer_types + 1]]
    if not list[i] then return nil end
  end
  return #list > 0 and "'[" .. table.concat(list, ",") .. "]'" or nil
end

local function attention(h, add, leave_out)
  if h.kv_lora_rank then
    add("multi-latent-attention", true)
    add("q-lora-rank", h.q_lora_rank)
    add("kv-lora-rank", h.kv_lora_rank)
    add("qk-head-dim", h.qk_nope_head_dim)
    add("qk-pos-emb-head-dim", h.qk_rope_head_dim)
    add("v-head-dim", h.v_head_dim)
    add("qk-layernorm", true) -- gpt_layer_specs.py: norms of the compressed vectors
  else
    if h.kv_heads ~= h.heads then
      add("group-query-attention", true)
      add("num-query-groups", h.kv_heads)
    end
    if h.head_dim * h.heads ~= h.hidden then add("kv-channels", h.head_dim) end
    for _, name in ipairs { "q_lora_rank", "v_head_dim" } do
      if h[name] then leave_out("%s without kv_lora_rank: not exported", name) end
    end
    add("qk-layernorm", h.qk_norm)
    add("qk-l2-norm", h.qk_l2_norm)
    add("attention-output-gate", h.attention_gate)
  end
  if (h.attention or "flash") ~= "flash" then add("attention-backend", "unfused") end
  if h.window then
    add("window-size", ('"(%d,0)"'):format(h.window - 1)) -- for the shell
    add("window-attn-skip-freq", windows_of(h) or h.window_every)
  end
  add("softmax-type", h.attention_sinks and "learnable")
end

local function experts(h, add)
  if not h.experts then return end
  add("num-experts", h.experts)
  add("moe-router-topk", h.top_k)
  add("moe-ffn-hidden-size", h.moe_ffn)
  add("moe-latent-size", h.moe_latent)
  add("moe-shared-expert-intermediate-size", h.shared_ffn or (h.shared_experts or 0) > 0
    and h.shared_experts * (h.moe_ffn or h.ffn) or nil)
  add("moe-shared-expert-gate", h.shared_gate)
  add("moe-router-num-groups", h.expert_groups)
  add("moe-router-group-topk", h.expert_groups and (h.top_groups or h.expert_groups))
  local first, every = h.first_dense_layers or 0, h.moe_every or 1
  if first > 0 or every > 1 or h.dense_layers then
    local list = {}
    for i = 1, h.layers do list[i] = i > first and (i - first - 1) % every == every - 1 and 1 or 0 end
    for _, i in ipairs(h.dense_layers or {}) do list[i] = 0 end
    add("moe-layer-freq", "'[" .. table.concat(list, ",") .. "]'") -- else a pattern of file names
  end
end

-- Megatron-LM requires the number of positions with any kind of them, and not below the sequence (validate_args).
local function positions_flag(h, seq, add, leave_out)
  local learned = h.position == "learned"
  if learned and not h.max_positions then
    leave_out "max_positions: unknown; Megatron-LM requires --max-position-embeddings"
  elseif learned and h.max_positions < seq then
    leave_out("seq = %d: Megatron-LM refuses sequences above %d learned positions", seq, h.max_positions)
  end
  add("max-position-embeddings", not learned and seq or h.max_positions)
end

-- Architectures that the flags can describe.
local decoders = { gpt = true, llama = true, mixtral = true }

local positions = { rope = "rope", learned = "learned_absolute", none = "none" }

local letters = { mamba2 = "M", mlp = "-", full_attention = "*", moe = "E" }

-- The layer pattern of a hybrid, one letter per layer, or nil.
local function pattern_of(model)
  local h, parts = model.hyper, {}
  if model.architecture ~= "hybrid" then return nil end
  for i = 1, h.layers do
    parts[i] = letters[h.layer_types[(i - 1) % #h.layer_types + 1]]
    if not parts[i] then return nil end
  end
  return table.concat(parts)
end

local function hybrid(h, pattern, add, leave_out)
  local chunk = h.scan_chunk or 256
  if pattern:find "M" and chunk ~= 128 then leave_out("scan_chunk = %d: Megatron-LM's is 128", chunk) end
  local head_dim = h.ssm_head_dim or 64
  add("is-hybrid-model", true)
  add("hybrid-override-pattern", ("'%s'"):format(pattern))
  add("mamba-state-dim", h.ssm_state or 128)
  add("mamba-head-dim", head_dim)
  add("mamba-num-groups", h.ssm_groups or 1)
  add("mamba-num-heads", h.ssm_heads or (h.ssm_inner or 2 * h.hidden) // head_dim)
end

local function model_flags(model, add, leave_out)
  local h, pattern = model.hyper, pattern_of(model)
  if pattern then
    hybrid(h, pattern, add, leave_out)
  elseif not decoders[model.architecture] then
    leave_out("architecture = '%s': the flags describe a decoder of attention and MLPs", model.architecture)
  end
  local ffn = h.ffn or 4 * h.hidden
  add("num-layers", h.layers)
  add("hidden-size", h.hidden)
  add("ffn-hidden-size", ffn)
  add("num-attention-heads", h.heads)
  attention(h, add, leave_out)
  experts(h, add)
  local position = positions[h.position or "rope"]
  if not position then leave_out("position = '%s': Megatron-LM has no flag for it", h.position) end
  local scaled = h.scaled_rope and position == "rope" and not h.kv_lora_rank -- there the two scale factors cancel
  if h.scaled_rope and not scaled then leave_out "scaled_rope: not exported" end
  add("position-embedding-type", scaled and "yarn" or position or "none")
  if (h.rotary_fraction or 1) < 1 then add("rotary-percent", h.rotary_fraction) end
  add("normalization", h.norm == "rms_norm" and "RMSNorm" or "LayerNorm")
  if h.clamped_mlp and h.gated_mlp then -- the values of gpt-oss; older releases clamp only quick-geglu
    add("quick-geglu", true)
    add("glu-linear-offset", "1.0")
    add("activation-func-clamp-value", "7.0")
  else
    add(h.activation == "geglu" and "quick-geglu" or "swiglu", h.gated_mlp)
  end
  if h.activation == "geglu" then leave_out "activation = 'geglu': Megatron-LM's quick-geglu is written" end
  if h.norm_bias == false and h.norm ~= "rms_norm" then
    leave_out "norm_bias = false: Megatron-LM's layer norms have biases"
  end
  if h.gainless then leave_out "gainless: Megatron-LM's norms have gains" end
  add("disable-bias-linear", not h.bias)
  add("add-qkv-bias", not h.bias and h.qkv_bias)
  add("untie-embeddings-and-output-weights", not h.tied_embeddings)
  add("vocab-size", h.vocab)
  add("make-vocab-size-divisible-by", h.vocab_multiple)
  add("hidden-dropout", h.dropout and 0.1 or 0.0)
  add("attention-dropout", h.dropout and 0.1 or 0.0)
  if (h.mtp_layers or 0) > 0 then add("mtp-num-layers", h.mtp_layers) end
  for _, name in ipairs { "parallel_block", "post_norms", "embedding_norm", "qk_norm_whole",
    "attention_chunk", "index_heads", "layer_types", "layer_fields",
    "mixer", "parallel_mixer", "head_gate", "encoder_function_list", "head_bias" } do
    local stated = name == "layer_types" and (pattern or windows_of(h))
    if h[name] and not stated then leave_out("%s: not exported", name) end
  end
  if (h.attention_bias ~= nil and h.attention_bias or h.bias or false) ~= (h.bias or false)
    or (h.mlp_bias ~= nil and h.mlp_bias or h.bias or false) ~= (h.bias or false) then
    leave_out "biases of only attention or only the MLP: Megatron-LM has one flag for all linears"
  end
end

local precisions = { fp8 = { "hybrid", "tensorwise" }, fp8_block = { "hybrid", "blockwise" },
  mxfp8 = { "hybrid", "mxfp8" } }

-- Bytes of the optimizer. optimizer_config.py (__post_init__): other types of states need the precision-aware
-- optimizer, and that one the distributed optimizer. arguments.py: states on the host need it, too.
---@param short boolean whether it stores 2 bytes of a master weight, next to weights in bf16
local function states(p, short, add, leave_out)
  local usual = p.dtype == "fp32" and 8 or 12 -- two moments, and a master weight
  local narrow = usual == 12 and (p.optimizer_bytes == 8 or short and p.optimizer_bytes == 6)
  if narrow and (p.zero == 0 or p.optimizer == "muon") then
    leave_out("optimizer_bytes = %g: Megatron-LM needs the distributed optimizer (zero = 1)%s", p.optimizer_bytes,
      p.zero > 0 and ", which it refuses with Muon" or "")
  elseif narrow then
    add("use-precision-aware-optimizer", true)
    if not (short and p.optimizer_bytes == 8) then add("exp-avg-dtype", "bf16") end
    add("exp-avg-sq-dtype", "bf16")
  else
    add("use-precision-aware-optimizer", p.offload_optimizer > 0 and p.zero > 0)
    if p.optimizer_bytes ~= usual then
      leave_out("optimizer_bytes = %g: the flags mean Adam's %d bytes", p.optimizer_bytes, usual)
    end
  end
end

local function precision(p, add, leave_out)
  local fp8 = precisions[p.dtype]
  add(p.dtype == "fp16" and "fp16" or "bf16", p.dtype ~= "fp32")
  if fp8 then
    add("fp8-format", fp8[1])
    add("fp8-recipe", fp8[2])
  elseif p.dtype == "nvfp4" or p.dtype == "mxfp4" then
    add("fp4-format", "e2m1")
    add("fp4-recipe", p.dtype == "mxfp4" and p.dtype or nil)
  elseif p.dtype ~= "bf16" and p.dtype ~= "fp16" and p.dtype ~= "fp32" then
    leave_out("dtype = '%s': bf16 is written", p.dtype)
  end
  if p.dtype == "fp16" then
    add("accumulate-allreduce-grads-in-fp32", p.gradient_dtype == "fp32")
  else
    add("grad-reduce-in-bf16", p.gradient_dtype == "bf16")
  end
  local gradient = p.gradient_dtype == "fp32" and 4 or 2
  if p.overlap_gradients then
    add("ddp-bucket-size", math.max(1, p.bucket_bytes // gradient))
  elseif p.bucket_bytes ~= plan_fields.schema.bucket_bytes.default then
    leave_out("bucket_bytes = %g: Megatron-LM has one bucket if gradients do not overlap", p.bucket_bytes)
  end
  states(p, not fp8 and p.dtype ~= "fp16" and p.offload_optimizer == 0, add, leave_out)
end

-- Layers of the slices, in model order, in the syntax of --pipeline-model-parallel-layout: 'Et*4|(t*4|)*14t*2|mL'.
---@param predicted integer layers of multi-token prediction
---@param slice integer that has them
local function layout_of(slices, predicted, slice)
  local parts, text, at = {}, {}, 1
  for i, n in ipairs(slices) do
    parts[i] = (i == 1 and "E" or "") .. (n == 0 and "" or n == 1 and "t" or "t*" .. n)
      .. (i == slice and ("m"):rep(predicted) or "") .. (i == #slices and "L" or "|")
  end
  while at <= #parts do
    local last = at
    while parts[last + 1] == parts[at] do last = last + 1 end
    text[#text + 1] = last == at and parts[at] or ("(%s)*%d"):format(parts[at], last - at + 1)
    at = last + 1
  end
  return "'" .. table.concat(text) .. "'"
end

-- The slice of multi-token prediction. Megatron-LM allows it only in the last virtual stage, and not on the first rank
-- (pipeline_parallel_layer_layout.py, validate_layer_layout; multi_token_prediction.py).
local function predicted_slice(p, h, leave_out)
  local slices = p.pp * p.vp
  local slice = (h.mtp_layers or 0) > 0 and p.mtp_slice or slices
  if slice < slices and (slice <= slices - p.pp or (slice - 1) % p.pp == 0) then
    leave_out("mtp_slice = %d: Megatron-LM refuses multi-token prediction before the last chunks, and on the first "
      .. "stage", slice)
  end
  return slice
end

-- Flags of slices with unlike numbers of layers; returns whether they also state the number of slices.
local function unlike_slices(p, h, add, leave_out)
  local slices, slice = p.split or even_split(h.layers, p.pp * p.vp), predicted_slice(p, h, leave_out)
  local even, alike = slice == p.pp * p.vp, p.vp == 1 and slice == p.pp
  for i, n in ipairs(slices) do
    even = even and n == slices[1]
    alike = alike and (i == 1 or i == #slices or n == slices[2])
  end
  if even then return false end
  if alike then
    add("decoder-first-pipeline-num-layers", slices[1])
    add("decoder-last-pipeline-num-layers", slices[#slices])
  elseif h.layer_types and not windows_of(h) then
    leave_out "split: Megatron-LM has no flag for different stages of a hybrid"
  else
    add("pipeline-model-parallel-layout", layout_of(slices, h.mtp_layers or 0, slice))
  end
  return not alike and (not h.layer_types or windows_of(h) ~= nil)
end

local function pipeline(p, h, add, leave_out)
  local stated = p.pp > 1 and unlike_slices(p, h, add, leave_out)
  if p.schedule == "interleaved" then
    add("num-virtual-stages-per-pipeline-rank", not stated and p.vp)
    add("no-overlap-p2p-communication", not p.overlap_sends)
    if p.pp == 2 and not p.overlap_sends then -- arguments.py, validate_args
      leave_out "overlap_sends = false: Megatron-LM refuses it with two interleaved stages"
    end
    add("microbatch-group-size-per-virtual-pipeline-stage", p.interleave_group)
  elseif p.schedule ~= "1f1b" and p.pp > 1 then
    leave_out("schedule = '%s': Megatron-LM has no flag for it", p.schedule)
    -- module/linear.py, _Linear.backward: by default the reduce-scatter is in bulk beside the weight gradient.
    local orders = p.overlap_tensor and schedules.orders(p)
    if orders and select(2, orders:properties()) then -- weight gradients are units of their own
      leave_out("overlap_tensor: Transformer Engine refuses it beside delayed weight gradients, unless with "
        .. "--tp-comm-overlap-rs-dgrad")
    end
  end
end

-- Modules that are not recomputed beside a graph of another. transformer_config.py (__post_init__): releases with the
-- first lists of --cuda-graph-scope refuse all of these, later ones only `moe` beside the router's.
local captured = { attn = { core_attn = true, mla_up_proj = true }, mlp = { mlp = true },
  moe_router = { moe = true, shared_experts = true } }

-- A graphed part and a module that is recomputed, if they exclude each other. parts: nil for whole layers.
local function conflict(parts, modules)
  if not parts then return "whole layers", table.concat(modules, " ") end
  local graphed = {}
  for part in parts:gmatch "[%w_]+" do graphed[part] = true end
  for _, module in ipairs(modules) do
    for _, part in ipairs(stacks.graph_parts) do
      if graphed[part] and captured[part] and captured[part][module] then return part, module end
    end
    if module == "layernorm" and graphed.attn and graphed.mlp and graphed.moe_router then
      return "attn mlp moe_router", module
    end
  end
end

-- CUDA graphs of layers or modules; stacks of other software have graphs that no flag of Megatron-LM states.
-- transformer_config.py (__post_init__) refuses graphs with full recomputation, and of experts without padding to a
-- capacity.
local function graphs(p, h, stack, add, leave_out)
  local parts = not stack.graphs and stack.graphed ~= "" and stack.graphed
  if not ((stack.graphs or parts) and stack.name:find "^megatron") then return end
  local selective = p.recompute == "selective"
  local reason = not selective and p.recompute ~= "none" and "full recomputation"
    or not parts and h.experts and not p.pad_to_capacity and "unpadded experts"
  if reason then
    leave_out("graphs: Megatron-LM has no CUDA graphs of %s with %s", parts and "modules" or "whole layers", reason)
    return
  end
  local part, module
  if selective then part, module = conflict(parts or nil, p.recompute_modules or plan_fields.recompute_modules) end
  if part then
    leave_out("graphs: older releases of Megatron-LM have no CUDA graphs of %s with recomputation of %s", part, module)
  else
    add("cuda-graph-impl", "transformer_engine")
    add("cuda-graph-scope", parts and parts:gsub("[^%w_]+", " "))
  end
end

-- The number of first layers of each slice, if recompute_layer_ids lists exactly these; else nil.
local function first_layers(p, layers)
  local split = p.split or even_split(layers, p.pp * p.vp)
  local ids = table.move(p.recompute_layer_ids, 1, #p.recompute_layer_ids, 1, {})
  table.sort(ids)
  for n = 1, math.max(table.unpack(split)) do
    local list, at = {}, 0
    for _, count in ipairs(split) do
      for id = at, at + math.min(n, count) - 1 do list[#list + 1] = id end
      at = at + count
    end
    if table.concat(list, " ") == table.concat(ids, " ") then return n end
  end
end

local function recompute(p, h, add, leave_out)
  local modules = p.recompute_modules and {}
  for _, name in ipairs(p.recompute_modules or {}) do
    if name == "mlp_act" then
      leave_out "recompute_modules: Megatron-LM has no module mlp_act"
    else
      modules[#modules + 1] = name
    end
  end
  if modules and #modules == 0 then return end
  add("recompute-granularity", p.recompute ~= "none" and (p.recompute == "selective" and "selective" or "full"))
  add("recompute-modules", modules and table.concat(modules, " "))
  if p.recompute ~= "full" and p.recompute ~= "policy" then return end
  local first = p.recompute_layer_ids and first_layers(p, h.layers)
  if first or p.recompute_layers and p.recompute_method ~= "every" then
    add("recompute-method", first and "block" or p.recompute_method)
    add("recompute-num-layers", first or p.recompute_layers)
    if p.recompute_method == "uniform" and (p.recompute_layers or 1) > 1 and (h.mtp_layers or 0) > 0 then
      leave_out("recompute_layers = %d: Megatron-LM refuses groups of several layers with multi-token prediction",
        p.recompute_layers)
    end
    return
  elseif p.recompute_layer_ids then
    leave_out "recompute_layer_ids: not the first layers of each slice, exported as full recomputation"
  elseif p.recompute_layers then
    leave_out "recompute_method = 'every': exported as full recomputation"
  end
  local half = p.recompute == "policy" and h.layers / (p.pp * p.vp * 2)
  if half and (half % 1 ~= 0 or p.split or stacks.get(p.stack).operator_policy) then
    leave_out "recompute = 'policy': exported as full recomputation"
    half = nil
  end
  add("recompute-method", half and "block" or "uniform")
  add("recompute-num-layers", half or 1)
end

local sharding = { [0] = "no_shard", "optim", "optim_grads", "optim_grads_params" }
local context = { ring = "p2p", ulysses = "a2a", all_gather = "all_gather" }

-- Muon. arguments.py refuses it with the distributed optimizer and with FSDP; dist_muon shards its states.
local function muon_flags(p, add, leave_out)
  add("optimizer", p.zero == 1 and "dist_muon" or "muon")
  add("muon-num-ns-steps", p.muon_steps)
  add("muon-tp-mode", p.tp > 1 and p.muon_tensor)
  if p.zero == 1 and not p.gradient_all_reduce and p.dp * p.cp > 1 then
    leave_out "gradient_all_reduce = false: Megatron-LM all-reduces gradients with dist_muon"
  elseif p.zero > 1 then
    leave_out("zero = %d: Megatron-LM refuses it with Muon", p.zero)
  end
  if p.overlap_gradients or p.overlap_parameters then
    leave_out "overlap_gradients or overlap_parameters: older releases of Megatron-LM refuse them with Muon"
  end
end

-- Sharded states, their place, and the overlap of their messages.
local function shards(p, add, leave_out)
  local muon = p.optimizer == "muon"
  if muon then muon_flags(p, add, leave_out) end
  if p.gradient_all_reduce and not (muon and p.zero == 1) then
    leave_out "gradient_all_reduce = true: Megatron-LM does so with dist_muon alone"
  end
  -- arguments.py: older releases also require the distributed optimizer with FSDP.
  add("use-distributed-optimizer", p.zero > 0 and not muon)
  local ranks = p.dp * p.cp
  if p.zero > 0 and p.shard and p.shard < ranks then add("num-distributed-optimizer-instances", ranks // p.shard) end
  if p.zero > 1 then
    add("use-megatron-fsdp", true)
    add("data-parallel-sharding-strategy", sharding[p.zero])
    add("ckpt-format", "fsdp_dtensor")
  end
  if p.offload_optimizer > 0 and p.zero == 0 then
    leave_out("offload_optimizer = %g: Megatron-LM needs the distributed optimizer (zero = 1)", p.offload_optimizer)
  elseif p.offload_optimizer > 0 then
    add("optimizer-cpu-offload", true)
    add("optimizer-offload-fraction", p.offload_optimizer)
  end
  if p.zero == 3 and not (p.overlap_gradients and p.overlap_parameters) then
    leave_out "overlap_gradients or overlap_parameters = false: Megatron FSDP overlaps both when it shards parameters"
  end
  add("overlap-grad-reduce", p.overlap_gradients)
  add("overlap-param-gather", p.overlap_parameters and p.overlap_gradients and p.zero > 0)
  if (p.zero == 1 or p.zero == 2) and p.overlap_parameters and not p.overlap_gradients then
    leave_out "overlap_parameters: Megatron-LM gathers beside computing only with overlap_gradients"
  end
end

-- arguments.py: grouped products need bf16, and expert parallelism excludes fp16. moe_layer.py (forward): tensor ranks
-- train experts with sequence parallelism only.
local function expert_flags(p, stack, add, leave_out)
  local once = plan_fields.sends_once(p, stack)
  local own = once and (stack.name:find "^megatron_hybridep" or stack.name:find "^megatron_bridge") ~= nil
  add("moe-grouped-gemm", p.dtype ~= "fp16" and p.dtype ~= "fp32")
  if p.dtype == "fp16" and p.ep > 1 then
    leave_out "dtype = 'fp16': Megatron-LM refuses it with expert parallelism"
  elseif p.dtype == "fp16" or p.dtype == "fp32" then
    leave_out("dtype = '%s': Megatron-LM has grouped products of experts in bf16 only", p.dtype)
  end
  if p.tp > 1 and not p.sequence_parallel then
    leave_out "sequence_parallel = false: Megatron-LM refuses experts with tensor parallelism without it"
  end
  add("moe-token-dispatcher-type", once and "flex" or "alltoall")
  add("moe-enable-deepep", once and not own)
  add("moe-flex-dispatcher-backend", own and "hybridep")
  add("moe-expert-capacity-factor", p.capacity_factor)
  add("moe-pad-expert-input-to-capacity", p.pad_to_capacity)
end

local function plan_flags(p, h, add, leave_out)
  local stack = stacks.get(p.stack)
  add("tensor-model-parallel-size", p.tp)
  add("pipeline-model-parallel-size", p.pp)
  add("context-parallel-size", p.cp)
  if p.cp_ulysses > 1 and p.cp_ulysses < p.cp then
    add("cp-comm-type", "a2a+p2p")
    add("hierarchical-context-parallel-sizes", ("%d %d"):format(p.cp_ulysses, p.cp // p.cp_ulysses))
  elseif p.cp > 1 then
    add("cp-comm-type", p.cp_ulysses > 1 and "a2a" or context[plan_fields.context_method(p, stack)])
  end
  add("expert-model-parallel-size", p.ep)
  add("expert-tensor-parallel-size", p.etp)
  add("use-tp-pp-dp-mapping", p.rank_order == "tp-cp-ep-pp-dp")
  if p.rank_order ~= "tp-cp-ep-dp-pp" and p.rank_order ~= "tp-cp-ep-pp-dp" then
    leave_out("rank_order = '%s': Megatron-LM has no flag for it", p.rank_order)
  end
  add("sequence-parallel", p.sequence_parallel)
  add("seq-length", p.seq)
  positions_flag(h, p.seq, add, leave_out)
  add("micro-batch-size", p.micro_batch)
  add("global-batch-size", p.global_batch)
  pipeline(p, h, add, leave_out)
  recompute(p, h, add, leave_out)
  shards(p, add, leave_out)
  add("tp-comm-overlap", p.overlap_tensor and p.sequence_parallel and p.tp > 1)
  add("moe-shared-expert-overlap", p.overlap_all_to_all == "shared_experts")
  add("overlap-moe-expert-parallel-comm", p.overlap_all_to_all == "batch")
  if h.experts then expert_flags(p, stack, add, leave_out) end
  if not p.clip_gradients then add("clip-grad", "0.0") end
  add("no-gradient-accumulation-fusion", not plan_fields.fuses_accumulation(p, stack))
  local quantised = p.dtype:find "fp8" and stack.quantised_weights
  add("fp8-param-gather", quantised == "only" or quantised == "single")
  if quantised == "single" then
    leave_out "quantised_weights=single: set disable_parameter_transpose_cache of TransformerConfig"
  end
  local loss = stack.cross_entropy
  add("cross-entropy-loss-fusion", loss == "fused" or loss == "native" or loss == "recomputed")
  add("cross-entropy-fusion-impl", loss == "fused" and "te" or loss == "recomputed" and "linear")
  if loss == "linear" then leave_out "cross_entropy=linear: Megatron-LM has no loss in chunks" end
  add("no-bias-swiglu-fusion", h.gated_mlp and stack.gated_mlp > 1)
  graphs(p, h, stack, add, leave_out)
  precision(p, add, leave_out)
  if p.overlap_sends and p.schedule ~= "interleaved" then
    leave_out "overlap_sends: Megatron-LM overlaps sends of the interleaved schedule only"
  end
end

local megatron = {}

--- Plan fields that the flags state, or that are reported if they cannot be stated.
megatron.states = [[
  capacity_factor cp_ulysses deduplicate_tokens fused_accumulation gradient_all_reduce interleave_group mtp_slice
  muon_steps muon_tensor offload_optimizer optimizer overlap_all_to_all overlap_sends overlap_tensor pad_to_capacity
  rank_order recompute_layer_ids recompute_layers recompute_method recompute_modules shard split vp]]

function megatron.write(model, p, leave_out)
  local lines = {}
  local add = adder(lines)
  model_flags(model, add, leave_out)
  plan_flags(p, model.hyper, add, leave_out)
  lines[#lines + 1] = ("# ett: %d devices, %s"):format(devices(p), p.stack and "stack " .. p.stack or "no stack")
  return lines
end

return megatron
