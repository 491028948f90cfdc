--- Shared by the specs of CUDA results: the place where kernels run, and gradients by finite differences.
local cuda_on_device = require "cuda_on_device"
local cuda_on_host = require "cuda_on_host"
local find = require "ett.base.find"

local cuda_results = {}

--- Whether there is a device or the stand-in.
cuda_results.on_device = cuda_on_device.available()

local runner = cuda_results.on_device and cuda_on_device or cuda_on_host

--- Runs a pass there (see spec/support/cuda_on_host.lua).
cuda_results.run = runner.run

--- Registers a pass, so that all are compiled together.
function cuda_results.expect(op, s, pass)
  if not cuda_results.on_device and not cuda_results.missing then
    cuda_on_host.expect(find.load("samplers", "cuda"), op, s, pass)
  end
end

--- The reason why nothing can run, or nil.
cuda_results.missing = not pcall(require, "ett.cuda") and "the CUDA back end is not built here: no toolkit headers"
  or not runner.available() and "no C++ compiler on this machine" or nil

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
