--- Runs the compiled kinds of one pass of an operator on small operands and returns their results beside those of
--- samplers/cpu/doubles.lua (ett.sampling.check).
local cpu = require "ett.cpu"
local find = require "ett.base.find"
local merged = require "ett.base.merged"
local sample = require "ett.sample"

local kinds = find.part("samplers/cpu", "doubles")

local function is_bytes(operand) return operand.name == "mask" end
local function is_index(operand) return operand.role == "x" or operand.name == "experts" end

--- The values of an operand in the form that the reference of its kind takes.
local function read(operand, tensor, count)
  local list = {}
  if is_bytes(operand) then
    for i = 0, count - 1 do list[i + 1] = tensor:integer(i // 4 + 1) >> 8 * (i % 4) & 255 end
  else
    for i = 1, operand.count do
      if is_index(operand) then list[i] = tensor:integer(i) else list[i] = tensor:get(i) end
    end
  end
  return list
end

local function write(operand, tensor, list)
  if is_bytes(operand) then
    local words = {}
    for i = 1, operand.count do words[i] = 0 end
    for i, byte in ipairs(list) do words[(i - 1) // 4 + 1] = words[(i - 1) // 4 + 1] | byte << 8 * ((i - 1) % 4) end
    tensor:integers(words)
  elseif is_index(operand) then
    tensor:integers(list)
  else
    for i, value in ipairs(list) do tensor:set(i, value) end
  end
end

local function made(operand, seed)
  local tensor = sample.tensor(operand.count)
  if operand.role == "x" then
    local index = {}
    for i = 1, operand.count do index[i] = (i * 7 + seed) % operand.limit end
    tensor:integers(index)
  elseif operand.role == "u" then
    tensor:fill(0)
  else
    tensor:normal(seed, 0.5)
  end
  return tensor
end

--- Operands of a pass: tensors in order, and their values by name. known: values set before.
local function operands(call, pass, known, seed)
  local described, tensors, values = cpu.operands(call.kind, pass, call), {}, {}
  local elements = (call.rows or 1) * (call.cols or 1) -- a byte mask
  for i, operand in ipairs(described) do
    local tensor = made(operand, seed + i)
    if known[operand.name] then
      write(operand, tensor, known[operand.name])
    elseif call.kind == "rope" and operand.role == "u" then -- modified in place
      tensor:normal(seed, 0.5)
    elseif call.kind == "adam" then -- a state as after earlier steps
      for j = 1, operand.count do tensor:set(j, 0.01 + (j * (i + 36) % 100) / 100) end
    end
    tensors[i], values[operand.name] = tensor, read(operand, tensor, elements)
  end
  return described, tensors, values, elements
end

---@param calls table[] of backend.calls
---@return table|nil comparisons, string? why there are none
return function(calls)
  local list, left = {}, {}
  for number, call in ipairs(calls) do
    local reference, pass = kinds[call.kind], call.pass == "backward" and "backward" or "forward"
    if not reference then
      left[#left + 1] = ("kind '%s' has no reference in double precision"):format(call.kind)
    else
      local known = {}
      if pass == "backward" then -- results of the forward pass are operands
        local _, _, values = operands(call, "forward", {}, 10 * number)
        known = merged(values, reference(call, values, "forward"))
      end
      local described, tensors, values, elements = operands(call, pass, known, 10 * number + 5)
      local wanted = reference(call, values, pass)
      cpu.run(call.kind, pass, call, tensors)
      for i, operand in ipairs(described) do
        local want = wanted[operand.name]
        if want then
          list[#list + 1] = { name = ("operand %d '%s' of kind %s"):format(i, operand.name, call.kind), want = want,
            got = read(operand, tensors[i], elements) }
        end
      end
    end
  end
  if #list == 0 then return nil, left[1] end
  list.skipped = left[1]
  return list
end
