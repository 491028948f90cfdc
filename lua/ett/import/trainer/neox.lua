--- A plan from GPT-NeoX' configuration (configs/neox_arguments.md, megatron/neox_arguments/arguments.py): fields of
--- DeepSpeed's configuration, and its own. The file also describes the model, which is not read.
local compare_sizes = require "ett.import.trainer.compare_sizes"
local deepspeed = require "ett.import.trainer.deepspeed"
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local schema = require "ett.base.schema"

local neox = {}

--- Whether a text holds GPT-NeoX' degrees.
function neox.known(text)
  text = "\n" .. text
  return text:find "[\n,{]%s*[\"']?pipe[-_]parallel[-_]size[\"']?%s*:" ~= nil
    or text:find "[\n,{]%s*[\"']?model[-_]parallel[-_]size[\"']?%s*:" ~= nil
end

--- The fields of a text. Names may be written with '-' for '_'; gas and precision are other names of DeepSpeed's.
function neox.fields(text)
  local document, fields = error_module.must(require("ett.yaml").decode(text)), {}
  if type(document) ~= "table" then return document end
  for _, name in ipairs(schema.keys(document)) do fields[tostring(name):gsub("-", "_")] = document[name] end
  fields.gradient_accumulation_steps = fields.gradient_accumulation_steps or fields.gas
  local half = type(fields.fp16) == "table" and fields.fp16.type == "bfloat16"
  if half then fields.fp16 = nil end
  if (half or fields.precision == "bfloat16") and fields.bf16 == nil then fields.bf16 = { enabled = true } end
  if fields.precision == "fp16" and fields.fp16 == nil then fields.fp16 = { enabled = true } end
  fields.gas, fields.precision = nil, nil
  return fields
end

--- Devices that the file states: of all nodes, or of each.
local function devices_of(config)
  local whole, nodes, each = config("", "global_num_gpus"), config("", "num_nodes"), config("", "num_gpus")
  return whole or nodes and each and nodes * each
end

--- Layers are repeated in chunks, each with one stored input (deepspeed/runtime/activation_checkpointing).
local function set_recompute(p, config, given, note)
  local enabled, chunk = config("", "checkpoint_activations", false), config("", "checkpoint_num_layers", 1)
  local partitions, on_host = config("", "partition_activations", false), config("", "checkpoint_in_cpu", false)
  if given.recompute then return end
  p.recompute = enabled and "full" or "none"
  if not enabled then return end
  if chunk > 1 then p.recompute_layers, p.recompute_method = chunk, "uniform" end
  if on_host then p.offload_activations = 1 end
  if partitions and p.tp > 1 then
    note("partition_activations is not modelled: each rank stores whole inputs of layers, %d times those of the run",
      p.tp)
  end
end

-- Fused kernels in place of single operators.
local function stack_of(config)
  local norm = config("", "layernorm_fusion", false) or config("", "rms_norm_fusion", false)
  return "gpt_neox" .. (norm and ":norm=fused" or "") .. (config("", "rope_fusion", false) and ":rope=1" or "")
end

-- Whether some layers have attention other than FlashAttention.
local function lacks_flash(config)
  local types, found = config("", "attention_config", {}), false
  for _, group in ipairs(types) do
    for _, name in ipairs(type(group) == "table" and type(group[1]) == "table" and group[1] or {}) do
      found = found or name ~= "flash"
    end
  end
  return found or types[1] == nil
end

function neox.plan(config, given, model, note, assume)
  local stages, tensor = config("", "pipe_parallel_size", 0), config("", "model_parallel_size", 0)
  local degrees = { pp = given.pp or math.max(1, stages), tp = given.tp or math.max(1, tensor) }
  local devices, ranks = devices_of(config), degrees.pp * degrees.tp * (given.cp or 1)
  if devices and devices % ranks ~= 0 then
    error_module.raise("format", "pp * tp * cp = %s must divide the file's %s devices", ranks, devices)
  end
  if not (config("", "seq_length") or given.seq) then
    error_module.raise("format", "missing field 'seq_length'; or give seq=N")
  end
  if not (config("", "train_micro_batch_size_per_gpu") or config("", "train_batch_size") or given.micro_batch
    or given.global_batch) then
    error_module.raise("format", "missing field 'train_micro_batch_size_per_gpu'; or give micro_batch=N")
  end
  local own = merged(degrees, { stack = given.stack or stack_of(config) }, given)
  own.dp = given.dp or devices and devices // ranks
  local p = merged(deepspeed(config, own, model, note, assume), degrees, { stack = own.stack })
  if select(3, config("", "gradient_clipping", 0)) then p.clip_gradients = true end -- 1.0 by default
  p.seq = config("", "seq_length")
  local experts = config("", "moe_expert_parallel_size", 1)
  if model.hyper.experts then p.ep = given.ep or experts end
  p.sequence_parallel = p.tp > 1 and config("", "sequence_parallel", false)
  if p.sequence_parallel then p.scatter_sends = nil end
  set_recompute(p, config, given, note)
  local method = config("", "pipe_partition_method", "type:transformer|mlp")
  if p.pp > 1 and method == "uniform" and not given.split then
    p.split = plan_module.deepspeed_split(plan_rules.middle_layers(model), p.pp)
  elseif p.pp > 1 and method == "parameters" then
    note "pipe_partition_method = parameters is modelled as an even split of the layers"
  end
  if lacks_flash(config) and not given.stack then
    note "attention_config is not flash in all layers; the stack gpt_neox computes FlashAttention 2 in all layers"
  end
  compare_sizes({ num_layers = "layers", hidden_size = "hidden", num_attention_heads = "heads" },
    function(name) return (config("", name)) end, model, note)
  return p
end

return neox
