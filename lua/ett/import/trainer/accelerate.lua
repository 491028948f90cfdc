--- A plan from a YAML file of `accelerate config` (accelerate/commands/config/config_args.py, commands/launch.py). The
--- training script states the sizes of batches and sequences.
local compiled = require "ett.import.trainer.compiled"
local deepspeed = require "ett.import.trainer.deepspeed"
local error_module = require "ett.base.error"
local fsdp = require "ett.import.trainer.fsdp"
local meaning = require "ett.import.trainer.meaning"
local merged = require "ett.base.merged"
local reader = require "ett.import.trainer.reader"
local schema = require "ett.base.schema"

local accelerate = {}

--- Whether a text holds Accelerate's fields.
function accelerate.known(text)
  return ("\n" .. text):find "\n%s*[\"']?distributed_type[\"']?%s*:" ~= nil
end

function accelerate.fields(text) return error_module.must(require("ett.yaml").decode(text)) end

local types = { no = "fp32", bf16 = "bf16", fp16 = "fp16", fp8 = "fp8" }
local methods = { allgather = "all_gather", alltoall = "ring" }

-- Whether a switch is on: YAML's true, or a word.
local function is_on(value) return value == true or tostring(value):lower() == "true" end

--- Degrees of `parallelism_config` and `tp_config`: tp, cp, and replicas of shards.
local function set_degrees(p, config, given)
  local function degree(section, name)
    local own = config(section, name, 0)
    return own > 0 and own or nil
  end
  local section = "parallelism_config"
  p.tp = given.tp or degree(section, section .. "_tp_size") or degree("tp_config", "tp_size")
  p.cp = given.cp or degree(section, section .. "_cp_size")
  local method = config(section, section .. "_cp_comm_strategy", "allgather")
  if (p.cp or 1) > 1 then p.cp_method = meaning(section .. "_cp_comm_strategy", methods, method) end
  local replicas, shard = degree(section, section .. "_dp_replicate_size"), degree(section, section .. "_dp_shard_size")
  if (replicas or 1) > 1 and shard and not given.shard then p.shard = shard * (p.cp or 1) end
  return replicas and shard and replicas * shard
end

--- DeepSpeed's fields of `deepspeed_config`, by their names in its JSON (commands/launch.py, dataclasses.py:
--- DeepSpeedPlugin).
local function set_deepspeed(p, config, given, model, note)
  local own = "deepspeed_config"
  local file = config(own, "deepspeed_config_file", "")
  if file ~= "" and file ~= "none" then
    error_module.raise("format", "deepspeed_config_file names '%s', which holds the plan: give that file to --plan%s",
      file, p.dp and (", with dp=%d"):format(p.dp) or "")
  end
  local function device(name) return { device = tostring(config(own, name, "none")) } end
  local stage, _, is_absent = config(own, "zero_stage", 0)
  local steps, is_open = config(own, "gradient_accumulation_steps", 1, "string")
  local clip = config(own, "gradient_clipping", "auto", "number")
  local document = { train_micro_batch_size_per_gpu = "auto",
    gradient_accumulation_steps = not is_open and math.tointeger(steps) or "auto",
    gradient_clipping = tonumber(clip) or "auto",
    bf16 = { enabled = p.dtype == "bf16" or p.dtype == "fp8" }, fp16 = { enabled = p.dtype == "fp16" },
    zero_optimization = { stage = is_absent and 2 or stage, offload_optimizer = device "offload_optimizer_device",
      offload_param = device "offload_param_device" } }
  local read = reader(document, {})
  local q = deepspeed(read, merged(given, { dp = p.dp, stack = given.stack or "transformers",
    recompute = given.recompute or "none" }), model, note, function() end)
  q.micro_batch = given.micro_batch
  return merged(p, q, { dtype = p.dtype,
    stack = "transformers" .. (q.zero == 0 and ":copies_gradients=false" or "") }) -- no DDP
end

--- Megatron-LM's fields. Absent switches are off (utils/dataclasses.py: MegatronLMPlugin); `accelerate config`
--- proposes and writes them as on.
local function set_megatron(p, config, given)
  local own = "megatron_lm_config"
  local function option(name, default) return (config(own, "megatron_lm_" .. name, default, "string")) end
  p.tp, p.pp = given.tp or option("tp_degree", 1), given.pp or option("pp_degree", 1)
  p.micro_batches = option("num_micro_batches", 1)
  p.sequence_parallel = p.tp > 1 and is_on(option("sequence_parallelism", false))
  if is_on(option("use_distributed_optimizer", false)) then p.zero = 1 end
  p.recompute = is_on(option("recompute_activations", false)) and "selective" or "none"
  p.clip_gradients = (tonumber(option("gradient_clipping", 1)) or 1) > 0
  p.stack = "megatron"
end

--- Replicas: those of `parallelism_config`, else the processes that other degrees leave.
local function set_replicas(p, config, given, stated, assume)
  local processes = config("", "num_processes", -1)
  if processes ~= -1 and (processes < 1 or not math.tointeger(processes)) then
    error_module.raise("format", "num_processes must be a positive integer, got %s", schema.describe(processes))
  end
  local ranks = (p.tp or 1) * (p.pp or 1) * (p.cp or 1)
  if processes > 0 and processes % ranks ~= 0 then
    error_module.raise("format", "tp * pp * cp = %s must divide num_processes = %s", ranks, processes)
  end
  p.dp = given.dp or processes > 0 and processes // ranks or stated
  if not p.dp then assume "num_processes (dp = 1: give dp=N)" end
end

--- Compiled layers. The backends eager and aot_eager fuse no kernels (torch/_dynamo/backends/debugging.py).
local function set_compiled(p, config, given, note)
  local backend = config("dynamo_config", "dynamo_backend", "no")
  local kind = backend:lower()
  if kind == "inductor" then
    p.stack = p.stack .. compiled(note, "dynamo_backend = " .. backend, given)
  elseif kind ~= "no" and kind ~= "eager" and kind ~= "aot_eager" then
    note("dynamo_backend = %s is not modelled; the stack transformers runs single operators", backend)
  end
end

--- The devices of a node; nil: not stated.
local function node_of(config)
  local processes, machines = config("", "num_processes", -1), config("", "num_machines", 1)
  return processes > 0 and processes % machines == 0 and processes // machines or nil
end

function accelerate.plan(config, given, model, note, assume)
  local kind = config("", "distributed_type", "NO"):upper()
  local precision = config("", "mixed_precision", "no", "boolean")
  local p = { dtype = given.dtype or meaning("mixed_precision", types, precision or "no"), stack = "transformers" }
  local stated = set_degrees(p, config, given)
  if kind == "MEGATRON_LM" then set_megatron(p, config, given) end
  set_replicas(p, config, given, stated, assume)
  if kind == "FSDP" then
    fsdp(p, function(name, ...) return config("fsdp_config", "fsdp_" .. name, ...) end, given, node_of(config), note)
  elseif kind == "DEEPSPEED" then
    p = set_deepspeed(p, config, given, model, note)
  elseif kind == "MULTI_GPU" or kind == "TP" or kind == "NO" then
    p.overlap_gradients = kind ~= "NO" and (p.dp or 1) > 1 or nil -- DistributedDataParallel
    local has_zero = (given.zero or 0) > 0
    -- accelerator.py, native_amp and prepare_model: weights in fp32, and the forward pass under torch.autocast.
    if (p.dtype == "bf16" or p.dtype == "fp16") and not (has_zero or given.lora_rank) then
      p.stack = p.stack .. ":autocast"
    end
  elseif kind ~= "MEGATRON_LM" then
    error_module.raise("format", "distributed_type: '%s' is not read; known are DEEPSPEED, FSDP, MEGATRON_LM, "
      .. "MULTI_GPU, NO and TP", kind)
  end
  if kind ~= "MEGATRON_LM" then set_compiled(p, config, given, note) end
  if not given.seq then
    error_module.raise("format", "the training script states the length of sequences, not this file: give seq=N")
  end
  if not given.micro_batch then assume "the batch of a device (1: give micro_batch=N)" end
  if not (given.micro_batches or given.global_batch or p.micro_batches) then
    assume "gradient accumulation (1 micro-batch: give micro_batches=N)"
    p.micro_batches = 1
  end
  if not given.recompute and not p.recompute then
    note "the file does not state which layers are recomputed; add recompute=full if the script does"
  end
  return p
end

return accelerate
