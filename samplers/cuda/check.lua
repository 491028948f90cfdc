--- Runs one pass of an operator on small tensors and returns the device's results beside those of the same calls in
--- double precision (ett.sampling.check): products and attention by ett.doubles, launches by the operator's `doubles`.
local doubles = require "ett.operator.doubles"
local error_module = require "ett.base.error"
local outside = require("ett.sampling.limit").outside
local must = error_module.must

local check = {}

--- Names of a kernel's parameters, as its source declares them.
local function parameters(source, name)
  local list, declared = {}, source:match("%f[%w_]" .. name .. "%s*(%b())")
  for word in (declared or ""):sub(2, -2):gmatch("[^,]+") do list[#list + 1] = word:match("([%w_]+)%s*$") end
  return list
end

--- A sink for backend.record that records the calls and passes them to the work list.
function check.recorder(work)
  local kept = { tensors = {}, calls = {} }
  local sink = {}
  local function name(tensor, text)
    local one = kept.tensors[tensor + 1]
    one.name = one.name or text
  end
  function sink.tensor(_, spec)
    local tensor, err = work:tensor(spec)
    if not tensor then return nil, err end
    kept.tensors[tensor + 1] = { number = tensor, dtype = spec.dtype, bytes = spec.bytes }
    return tensor
  end
  function sink.kernel(_, launch)
    local named = parameters(launch.source, launch.name)
    for i, arg in ipairs(launch.args) do
      if type(arg) == "table" then name(arg.tensor, ("'%s' of %s"):format(named[i] or i, launch.name)) end
    end
    kept.calls[#kept.calls + 1] = { kind = "kernel", name = launch.name, args = launch.args,
      doubles = launch.doubles }
    return work:kernel(launch)
  end
  function sink.gemm(_, g)
    for _, operand in ipairs { "a", "b", "c" } do name(g[operand], ("'%s' of a product"):format(operand)) end
    kept.calls[#kept.calls + 1] = { kind = "gemm", args = g }
    return work:gemm(g)
  end
  function sink.attention(_, a)
    for _, operand in ipairs { "q", "k", "v", "out", "stats", "dout", "dq", "dk", "dv" } do
      if a[operand] then name(a[operand], ("'%s' of attention"):format(operand)) end
    end
    kept.calls[#kept.calls + 1] = { kind = "attention", args = a }
    return work:attention(a)
  end
  return sink, kept
end

-- Bytes are read and written as fp8 numbers with the same bits: byte 1 is 1/512.
local BYTE = 512

local function read(work, one)
  local values = must(work:read(one.number))
  if one.bytes then for i, v in ipairs(values) do values[i] = v * BYTE end end
  return values
end

local function write(work, one, values)
  local bits = values
  if one.bytes then
    bits = {}
    for i, v in ipairs(values) do bits[i] = v / BYTE end
  end
  must(work:write(one.number, bits))
  one.values = read(work, one) -- rounded to the dtype
end

local function set(to, from) for i, v in ipairs(from) do to[i] = v end end

--- Evaluates one call of the list on the tensors' values. false and the reason if it has no reference.
local function replay(call, values)
  local args = call.args
  if call.kind == "gemm" then
    outside(doubles.gemm, values[args.a], values[args.b], values[args.c], args)
  elseif call.kind == "attention" then
    local q, k, v = values[args.q], values[args.k], values[args.v]
    if args.pass == "backward" then
      local dq, dk, dv = outside(doubles.attention_backward, q, k, v, values[args.out], values[args.stats],
        values[args.dout], args)
      set(values[args.dq], dq)
      set(values[args.dk], dk)
      set(values[args.dv], dv)
    else
      local out, stats = outside(doubles.attention, q, k, v, args)
      set(values[args.out], out)
      set(values[args.stats], stats)
    end
  else
    local reference = call.doubles
    if not reference then
      return false, ("kernel '%s' has no reference in double precision (field 'doubles')"):format(call.name)
    end
    local given = {}
    for i, arg in ipairs(args) do given[i] = type(arg) == "table" and values[arg.tensor] or arg end
    local ok, raised = pcall(reference, table.unpack(given))
    if not ok then
      return false, ("the reference of kernel '%s' failed: %s"):format(call.name, error_module.from(raised).message)
    end
  end
  return true
end

--- Sets operands that must be consistent: output and statistics for the backward pass of attention, and a mask with
--- both values.
local function prepare(work, kept)
  for _, one in ipairs(kept.tensors) do
    one.values = read(work, one)
    if one.bytes then
      for i in ipairs(one.values) do one.values[i] = i % 10 == 3 and 0 or 1 end
      write(work, one, one.values)
    end
  end
  for _, call in ipairs(kept.calls) do
    local a = call.args
    if call.kind == "attention" and a.pass == "backward" then
      local function of(name) return kept.tensors[a[name] + 1] end
      local out, stats = outside(doubles.attention, of("q").values, of("k").values, of("v").values, a)
      write(work, of("out"), out)
      write(work, of("stats"), stats)
    end
  end
end

local function round(values, dtype)
  for number, list in pairs(values) do
    for i, v in ipairs(list) do list[i] = doubles.round(v, dtype[number]) end
  end
end

--- Runs a recorded list once; kept: the calls of check.recorder.
---@return table|nil comparisons, string? why there is no comparison
function check.run(work, kept, time_limit_seconds)
  prepare(work, kept)
  local values, dtype = {}, {}
  for _, one in ipairs(kept.tensors) do values[one.number], dtype[one.number] = one.values, one.dtype end
  for _, call in ipairs(kept.calls) do
    local ok, why = replay(call, values)
    if not ok then return nil, why end
    outside(round, values, dtype) -- rounded as the device stores them between two launches
  end
  must(work:ready { graph = false, time_limit_seconds = time_limit_seconds })
  local list = {}
  for i, one in ipairs(kept.tensors) do
    list[i] = { name = ("tensor %d %s"):format(i, one.name or "(unused)"), want = values[one.number],
      got = read(work, one) }
  end
  return list
end

return check
