--- The few factors that published steps determine: in-step factors of kernels and host costs of stacks.
--
-- Each has a physical meaning, a prior value from tables or textbooks (`prior`) and the width of the prior (`spread`,
-- of its logarithm). factors.apply sets values in ett's own tables; reset restores them.
local in_step = require "ett.profile.in_step"
local stack_module = require "ett.operator.stack"

local factors = {}

-- A number of in_step, by its path of names.
local function place(...)
  local names = { ... }
  local t, field = in_step, names[#names]
  for i = 1, #names - 1 do t = t[names[i]] end
  return { names = names, get = function() return t[field] end, set = function(v) t[field] = v end }
end

-- A field of the named stacks, and of those whose base they are.
local overrides = {}
local function of_stacks(field, ...)
  local stacks = { ... }
  return { field = field, stacks = stacks, get = function() return stack_module.get(stacks[1])[field] end,
    set = function(v)
      for _, name in ipairs(stacks) do
        overrides[name] = overrides[name] or {}
        overrides[name][field] = v
      end
    end }
end

-- Both passes of an attention kernel on a generation.
local function attention(kernel, generation)
  local pair = in_step.attention[kernel][generation]
  return { names = { "attention", kernel, generation }, pair = pair, get = function() return pair[1] end,
    set = function(v)
      pair[2] = pair[2] * v / pair[1]
      pair[1] = v
    end }
end

-- Rows that a factor affects; all others need no derivative.
local function on(...)
  local patterns = { ... }
  return function(row)
    for _, pattern in ipairs(patterns) do if row.device:find(pattern) then return true end end
    return false
  end
end
local ampere, hopper, blackwell = on "^A100", on("^H%d", "^GH"), on("^B[23]", "^GB")
local function moe(row) return row.arch == "moe" end

factors.list = {
  { "products.hopper.bf16", place("products", "hopper", "bf16"), prior = 1.13, spread = 0.06, on = hopper },
  { "products.hopper.other", place("products", "hopper", "other"), prior = 1.03, spread = 0.06, on = hopper },
  { "products.blackwell.bf16", place("products", "blackwell", "bf16"), prior = 1.13, spread = 0.10, on = blackwell },
  { "products.blackwell.other", place("products", "blackwell", "other"), prior = 1.03, spread = 0.10, on = blackwell },
  { "products.blackwell.mxfp8", place("products", "blackwell", "mxfp8"), prior = 1.25, spread = 0.15, on = blackwell },
  { "products.blackwell.nvfp4", place("products", "blackwell", "nvfp4"), prior = 1.03, spread = 0.10, on = blackwell },
  { "grouped.streams", place("grouped", "streams"), prior = 1.1, spread = 0.15, on = moe },
  { "grouped.kernel", place("grouped", "kernel"), prior = 1.1, spread = 0.15, on = moe },
  { "power_exponent", place("power_exponent"), prior = 0.5, spread = 0.3, on = on("^B[23]", "^GB", "96GB") },
  { "communication_share", of_stacks("communication_share", "megatron", "megatron_fsdp", "megatron_2021",
    "megatron_deepspeed", "fsdp_eager", "llm_foundry", "torchtitan", "internevo", "maxtext"),
    prior = 0.15, spread = 0.5 },
  { "apart", place("apart"), prior = 0.5, spread = 0.5, on = moe },
  { "attention.flash1_triton.ampere", attention("flash1_triton", "ampere"), prior = 1.6, spread = 0.3, on = ampere },
  { "attention.flash1.hopper", attention("flash1", "hopper"), prior = 3.5, spread = 0.2, on = hopper },
  { "attention.cudnn.hopper", attention("cudnn", "hopper"), prior = 1.0, spread = 0.10, on = hopper },
  { "attention.cudnn.blackwell", attention("cudnn", "blackwell"), prior = 1.1, spread = 0.15, on = blackwell },
  { "launch_seconds, Megatron", of_stacks("launch_seconds", "megatron", "megatron_fsdp"), prior = 45e-6, spread = 0.4 },
  { "launch_seconds, FSDP", of_stacks("launch_seconds", "fsdp_eager", "torchtitan_eager", "llm_foundry", "internevo"),
    prior = 40e-6, spread = 0.4 },
  { "moe_launches", of_stacks("moe_launches", "megatron", "megatron_fsdp", "fsdp_eager", "torchtitan_eager"), prior = 7,
    spread = 0.5, on = moe },
  { "expert_seconds", of_stacks("expert_seconds", "megatron", "megatron_fsdp"), prior = 12e-6, spread = 0.5, on = moe },
  { "batch_launches", of_stacks("batch_launches", "megatron"), prior = 1.4, spread = 0.2, on = moe },
  { "exchange", of_stacks("routing_factor", "megatron", "megatron_fsdp", "fsdp_eager", "torchtitan_eager"), prior = 1.5,
    spread = 0.4, on = moe },
  { "exchange, DeepEP", of_stacks("routing_factor", "megatron_moe"), prior = 1.0, spread = 0.4,
    on = moe },
  { "sharded.ampere", place("sharded", "ampere"), prior = 1.1, spread = 0.06, on = ampere },
  { "sharded.hopper", place("sharded", "hopper"), prior = 1.15, spread = 0.08, on = hopper },
  { "sharded.blackwell", place("sharded", "blackwell"), prior = 1.1, spread = 0.06, on = blackwell },
  { "host.grace", place("host", "grace"), prior = 2.6, spread = 0.3, on = on "^GB" },
  { "streams_start", place("streams_start"), prior = 1e-4, spread = 2, on = moe },
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

-- Replaces the number behind a pattern that ends in "()[%d.e-]+()".
local function replace(path, pattern, value)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  local from, to = text:match(pattern)
  assert(from, path .. ": no number behind " .. pattern)
  file = assert(io.open(path, "w"))
  file:write(text:sub(1, from - 1), ("%.3g"):format(value), text:sub(to))
  file:close()
end

--- Writes the applied values into in_step.lua and the stacks.
function factors.write()
  local root, number = require("ett.host").root, "()[%d.e-]+()"
  for _, factor in ipairs(factors.list) do
    local f = factor[2]
    for _, name in ipairs(f.stacks or {}) do
      replace(("%s/lua/stacks/%s.lua"):format(root, name), f.field .. " = " .. number, overrides[name][f.field])
    end
    if f.names then
      local path, pattern = root .. "/lua/ett/profile/in_step.lua", "in_step%." .. table.concat(f.names, " = {.-%f[%w]")
      if f.pair then
        replace(path, pattern .. " = { [%d.]+, " .. number, f.pair[2])
        replace(path, pattern .. " = { " .. number, f.pair[1])
      else
        replace(path, pattern .. " = " .. number, f.get())
      end
    end
  end
end

--- Copies the fields of a stack that `apply` changed to its copy.
function factors.onto(stack)
  local names, base = { stack.name }, stack.base
  while base do
    table.insert(names, 1, base)
    base = stack_module.get(base).base
  end
  for _, name in ipairs(names) do
    for field, value in pairs(overrides[name] or {}) do stack[field] = value end
  end
  return stack
end

return factors
