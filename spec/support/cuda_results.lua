--- Runs an operator's kernels on a GPU or the stand-in, and returns every tensor before and after; gradients by finite
--- differences.
local cuda_results = {}

--- The reason why nothing can run, or nil.
function cuda_results.missing()
  local ok, cuda = pcall(require, "ett.cuda")
  if not ok then return "the CUDA back end is not built here: no toolkit headers" end
  if (cuda.available() or 0) > 0 then return nil end
  return "no CUDA device here; gpu_results_slow_spec.lua runs this file on the stand-in"
end

--- Deterministic values in about [-1, 1], different for every tensor.
local function values_of(spec, tensor, count)
  local values, state = {}, 12345 + 7919 * tensor
  for i = 1, count do
    state = (state * 1103515245 + 12345) % 2 ^ 31 // 1 | 0
    local u = state / 2 ^ 31
    if spec.fill == "zero" then values[i] = 0
    elseif spec.fill == "index" then values[i] = math.floor(u * spec.high)
    elseif spec.fill == "uniform" then values[i] = 0.25 + 0.75 * u
    else values[i] = 2 * u - 1 end
  end
  return values
end

---@param set table<integer, number[]>? values instead of the generated ones, by tensor number
---@param precision string? default fp32
---@return { before: number[][], after: number[][] }
function cuda_results.run(backend, op, s, pass, set, precision)
  local device <close> = assert(require("ett.cuda").open(0))
  precision = precision or "fp32"
  local work <close> = assert(device:work(precision == "fp8" and "bf16" or precision))
  local tensors = {}
  local sink = {}
  function sink.tensor(_, spec)
    local number, err = work:tensor(spec)
    if not number then return nil, err end
    local count = 1
    for _, dimension in ipairs(spec) do count = count * dimension end
    tensors[#tensors + 1] = { spec = spec, number = number, count = count }
    return number
  end
  function sink.kernel(_, launch) return work:kernel(launch) end
  function sink.gemm(_, g) return work:gemm(g) end
  function sink.attention(_, a) return work:attention(a) end
  backend.record(sink, op, s, pass, precision)
  local result = { before = {}, after = {} }
  for i, tensor in ipairs(tensors) do
    local dtype = tensor.spec.dtype
    if dtype ~= "fp8" and dtype ~= "fp16" then
      assert(work:write(tensor.number, set and set[i] or values_of(tensor.spec, i, tensor.count)))
    end
    result.before[i] = assert(work:read(tensor.number))
    -- Masks are bytes, not numbers.
    if dtype == "fp8" and precision ~= "fp8" then for j in ipairs(result.before[i]) do result.before[i][j] = 0 end end
  end
  assert(work:ready { graph = false })
  for i, tensor in ipairs(tensors) do
    result.after[i] = assert(work:read(tensor.number))
    if tensor.spec.dtype == "fp8" and precision ~= "fp8" then -- 1/512 is the byte 1
      for j, value in ipairs(result.after[i]) do result.after[i][j] = value * 512 end
    end
  end
  return result
end

--- Compares both passes of an operator with ett.operator.doubles, element by element.
function cuda_results.right(op, s, precision, tolerance)
  local session <close> = setmetatable(assert(require("ett.base.find").load("samplers", "cuda").open {
    precision = precision }), { __close = function(session) session.close() end })
  local check = require "ett.sampling.check"
  for _, pass in ipairs(op.passes) do
    local list = assert(session.check(op, s, pass))
    assert(#list > 1 and not list.skipped, list.skipped)
    for _, each in ipairs(list) do
      local error_, at = check.worst(each.want, each.got)
      assert(error_ <= tolerance, ("%s: %s, element %d is %.6g, must be %.6g"):format(pass, each.name, at, each.got[at],
        each.want[at]))
    end
  end
end

function cuda_results.map(n, f)
  local list = {}
  for i = 1, n do list[i] = f(i) end
  return list
end

--- Gradient of sum(dy * f(x, i)) with respect to x[i], by central differences; f may omit terms that do not depend on
-- x[i].
function cuda_results.gradient(x, dy, f)
  local result, h = {}, 1e-5
  for i = 1, #x do
    local kept = x[i]
    local function loss(value)
      x[i] = value
      local y, sum = f(x, i), 0
      for j = 1, #dy do if y[j] then sum = sum + dy[j] * y[j] end end
      return sum
    end
    result[i] = (loss(kept + h) - loss(kept - h)) / (2 * h)
    x[i] = kept
  end
  return result
end

return cuda_results
