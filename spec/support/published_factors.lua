--- The few factors that published steps determine: in-step factors of kernels and host costs of stacks.
--
-- Each has a physical meaning, the value that it is pulled to (`prior`, from tables or text books) and how far the pull
-- lets it go (`spread`, of its logarithm). factors.apply sets values in ett's own tables; reset restores them.
local in_step = require "ett.profile.in_step"
local stack_module = require "ett.operator.stack"

local factors = {}

local function place(t, field) return { get = function() return t[field] end, set = function(v) t[field] = v end } end

-- A field of the named stacks.
local overrides = {}
local function of_stacks(field, ...)
  local names = { ... }
  return { get = function() return stack_module.get(names[1])[field] end, set = function(v)
    for _, name in ipairs(names) do
      overrides[name] = overrides[name] or {}
      overrides[name][field] = v
    end
  end }
end

-- Both passes of an attention kernel on a generation.
local function attention(kernel, generation)
  local pair = in_step.attention[kernel][generation]
  return { get = function() return pair[1] end, set = function(v)
    pair[2] = pair[2] * v / pair[1]
    pair[1] = v
  end }
end

-- Rows that a factor acts on; the others need no derivative.
local function on(...)
  local patterns = { ... }
  return function(row)
    for _, pattern in ipairs(patterns) do
      if row.device:find(pattern) then return true end
    end
    return false
  end
end
local ampere, hopper, blackwell, tpu = on "^A100", on("^H%d", "^GH"), on("^B[23]", "^GB"), on "^TPU"
local function moe(row) return row.arch == "moe" end

local products = in_step.products
factors.list = {
  { "products.hopper.bf16", place(products.hopper, "bf16"), prior = 1.13, spread = 0.06, on = hopper },
  { "products.hopper.other", place(products.hopper, "other"), prior = 1.03, spread = 0.06, on = hopper },
  { "products.blackwell.bf16", place(products.blackwell, "bf16"), prior = 1.13, spread = 0.10, on = blackwell },
  { "products.blackwell.other", place(products.blackwell, "other"), prior = 1.03, spread = 0.10, on = blackwell },
  { "products.blackwell.nvfp4", place(products.blackwell, "nvfp4"), prior = 1.03, spread = 0.10, on = blackwell },
  { "products.tpu.bf16", place(products.tpu, "bf16"), prior = 1.13, spread = 0.10, on = tpu },
  { "grouped.streams", place(in_step.grouped, "streams"), prior = 1.1, spread = 0.15, on = moe },
  { "grouped.kernel", place(in_step.grouped, "kernel"), prior = 1.1, spread = 0.15, on = moe },
  { "apart", place(in_step, "apart"), prior = 0.5, spread = 0.5, on = moe },
  { "attention.flash1_triton.ampere", attention("flash1_triton", "ampere"), prior = 1.6, spread = 0.3, on = ampere },
  { "attention.flash1.hopper", attention("flash1", "hopper"), prior = 2.7, spread = 0.3, on = hopper },
  { "attention.flash2.hopper", attention("flash2", "hopper"), prior = 1.65, spread = 0.15, on = hopper },
  { "attention.cudnn.hopper", attention("cudnn", "hopper"), prior = 1.0, spread = 0.10, on = hopper },
  { "attention.cudnn.blackwell", attention("cudnn", "blackwell"), prior = 1.1, spread = 0.15, on = blackwell },
  { "launch_seconds, Megatron", of_stacks("launch_seconds", "megatron", "megatron_moe", "megatron_fsdp"),
    prior = 45e-6, spread = 0.4 },
  { "launch_seconds, Megatron of 2021", of_stacks("launch_seconds", "megatron_2021", "megatron_deepspeed"),
    prior = 60e-6, spread = 0.4 },
  { "launch_seconds, FSDP", of_stacks("launch_seconds", "fsdp_eager", "llm_foundry"), prior = 40e-6, spread = 0.4 },
  { "moe_launches", of_stacks("moe_launches", "megatron", "megatron_moe", "megatron_fsdp", "fsdp_eager"), prior = 8,
    spread = 0.5, on = moe },
  { "expert_seconds", of_stacks("expert_seconds", "megatron", "megatron_moe", "megatron_fsdp"), prior = 12e-6,
    spread = 0.5, on = moe },
  { "exchange", of_stacks("exchange", "megatron", "megatron_fsdp", "fsdp_eager"), prior = 1.5, spread = 0.4,
    on = moe },
  { "exchange, DeepEP", of_stacks("exchange", "megatron_moe"), prior = 1.0, spread = 0.4, on = moe },
  { "sharded.ampere", place(in_step.sharded, "ampere"), prior = 1.1, spread = 0.06, on = ampere },
  { "sharded.hopper", place(in_step.sharded, "hopper"), prior = 1.15, spread = 0.08, on = hopper },
  { "sharded.blackwell", place(in_step.sharded, "blackwell"), prior = 1.1, spread = 0.06, on = blackwell },
}

--- Values that ett ships.
function factors.shipped()
  local values = {}
  for i, factor in ipairs(factors.list) do values[i] = factor.shipped end
  return values
end

for _, factor in ipairs(factors.list) do factor.shipped = factor[2].get() end

--- Sets values, in the order of factors.list.
function factors.apply(values)
  for i, factor in ipairs(factors.list) do factor[2].set(values[i]) end
end

--- Fields of a stack that apply changed, onto its copy.
function factors.onto(stack)
  for field, value in pairs(overrides[stack.name] or {}) do
    stack[field] = value
  end
  return stack
end

return factors
