--- Runs an operator's kernels on a GPU and returns every tensor before and after, as cuda_on_host does.
local cuda_on_host = require "cuda_on_host"

local cuda_on_device = {}

--- Whether there is a device or the stand-in.
function cuda_on_device.available()
  local ok, cuda = pcall(require, "ett.cuda")
  local count = ok and cuda.available()
  return count ~= nil and count ~= false and count > 0
end

---@param set table<integer, number[]>? values instead of the generated ones, by tensor number
---@param precision string? default fp32
---@return { before: number[][], after: number[][] }
function cuda_on_device.run(backend, op, s, pass, set, precision)
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
      assert(work:write(tensor.number, set and set[i] or cuda_on_host.values_of(tensor.spec, i, tensor.count)))
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

return cuda_on_device
