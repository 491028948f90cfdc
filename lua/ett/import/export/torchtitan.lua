--- Exports a plan as torchtitan's configuration (TOML). The user must choose the model's name and flavor; its
--- hyper-parameters are written as comments.
local pretty = require "ett.base.pretty"

local schedules = { gpipe = "GPipe", ["1f1b"] = "1F1B", interleaved = "Interleaved1F1B", zb_v = "ZBVZeroBubble" }

local function toml(value)
  if type(value) == "string" then return ('"%s"'):format(value) end
  if type(value) == "number" then return tostring(math.tointeger(value) or value) end
  return tostring(value)
end

local function section(lines, name, fields)
  lines[#lines + 1] = ("[%s]"):format(name)
  for _, field in ipairs(fields) do
    local value = field[2]
    if value ~= nil then lines[#lines + 1] = ("%s = %s"):format(field[1], field.plain and value or toml(value)) end
  end
  lines[#lines + 1] = ""
end

local torchtitan = {}

torchtitan.states = [[
  seq tp cp ep etp micro_batch sequence_parallel dtype gradient_dtype overlap_tensor pp dp vp schedule recompute zero
  micro_batches global_batch clip_gradients split overlap_gradients overlap_parameters bucket_bytes]]

function torchtitan.write(model, p, leave_out)
  local h, lines = model.hyper, {}
  local name = pretty.plain(model.name):gsub("\n", " ") -- one line of comment
  lines[1] = ("# %s: %d layers, width %d, %d heads (%d of keys and values), MLP %d, vocabulary %d"):format(name,
    h.layers, h.hidden, h.heads, h.kv_heads, h.ffn or 4 * h.hidden, h.vocab)
  local pipelined = p.pp > 1
  -- A pipeline splits the batch of a replica into micro-batches; without a pipeline, gradients are accumulated.
  section(lines, "training", { { "local_batch_size", pipelined and p.micro_batch * p.micro_batches or p.micro_batch },
    { "global_batch_size", p.global_batch }, { "seq_len", p.seq },
    { "max_norm", p.clip_gradients and "1.0" or "inf", plain = true },
    { "mixed_precision_param", p.dtype == "fp16" and "float16" or p.dtype == "fp32" and "float32" or "bfloat16" },
    { "mixed_precision_reduce", p.gradient_dtype == "bf16" and "bfloat16" or "float32" } })
  local sharded = p.zero > 0
  section(lines, "parallelism", { { "data_parallel_replicate_degree", sharded and 1 or p.dp },
    { "data_parallel_shard_degree", sharded and p.dp or 1 },
    { "fsdp_reshard_after_forward", p.zero == 3 and "always" or "never" },
    { "tensor_parallel_degree", p.tp }, { "enable_async_tensor_parallel", p.overlap_tensor },
    { "pipeline_parallel_degree", p.pp },
    { "pipeline_parallel_schedule", pipelined and schedules[p.schedule] or nil },
    { "pipeline_parallel_microbatch_size", pipelined and p.micro_batch or nil },
    { "pipeline_parallel_layers_per_stage", p.vp > 1 and h.layers // (p.pp * p.vp) or nil },
    { "context_parallel_degree", p.cp }, { "expert_parallel_degree", p.ep },
    { "expert_tensor_parallel_degree", h.experts and (p.etp or p.tp) or nil } })
  local mode = { none = "none", selective = "selective", half = "full", full = "full" }
  section(lines, "activation_checkpoint", { { "mode", mode[p.recompute] } })
  section(lines, "compile", { { "enable", true } })
  if p.dtype == "fp8" or p.dtype == "fp8_block" or p.dtype == "mxfp8" then
    local converter = p.dtype == "mxfp8" and "quantize.linear.mx" or "quantize.linear.float8"
    section(lines, "model", { { "converters", converter } })
  end
  if pipelined and not schedules[p.schedule] then leave_out("schedule = '%s'", p.schedule) end
  if p.recompute == "half" then leave_out "recompute = 'half': exported as full recomputation" end
  if p.tp > 1 and not p.sequence_parallel then
    leave_out "sequence_parallel = false: torchtitan's tensor parallelism always has it"
  end
  if p.zero == 1 then leave_out "zero = 1: torchtitan also shards gradients and weights; gathered weights stay" end
  if p.split then leave_out "split" end
  return lines
end

return torchtitan
