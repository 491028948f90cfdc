--- What kernels, products and attention compute when they go the whole way of a GPU: recorded, compiled, loaded and
--- launched through the stand-in driver, cuBLASLt and cuDNN. cuda_results_slow_spec.lua holds the formulas.
local host = require "ett.host"
local stand_in = require "stand_in"

describe("results on the stand-in GPU", function()
  it("agree with double precision", function()
    local reason = stand_in.missing()
    if reason then pending(reason) return end
    local folder = stand_in.folder()
    finally(function() os.execute(("rm -rf '%s'"):format(folder)) end)
    local out, status = stand_in.run(folder, ("spec '%s/spec/samplers/cuda_results_slow_spec.lua'"):format(host.root), {
      ETT_GPU_EXECUTE = folder, ETT_GPU_HOST_HEADER = host.root .. "/spec/support/cuda_host.h" })
    assert.equal(0, status, out)
    assert.matches("%d+ successes / 0 failures / 0 errors / 0 pending", out)
  end)
end)
