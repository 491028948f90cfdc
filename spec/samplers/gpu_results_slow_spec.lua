--- Results of kernels, products and attention on the whole path of a GPU: recorded, compiled, loaded and
--- launched through the stand-in driver, cuBLASLt and cuDNN. The specs named here hold the formulas.
local host = require "ett.host"
local stand_in = require "stand_in"

describe("results on the stand-in GPU", function()
  for what, spec in pairs { ["of operators' kernels"] = "cuda_results",
    ["of products and attention"] = "cuda_products" } do
    it(what .. " agree with double precision", function()
      local reason = stand_in.missing()
      if reason then pending(reason) return end
      local folder = stand_in.folder()
      finally(function() os.execute(("rm -rf '%s'"):format(folder)) end)
      local out, status = stand_in.run(folder, ("spec '%s/spec/samplers/%s_slow_spec.lua'"):format(host.root, spec),
        stand_in.computing())
      assert.equal(0, status, out)
      assert.matches("%d+ successes / 0 failures / 0 errors / 0 pending", out)
    end)
  end
end)
