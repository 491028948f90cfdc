-- Every configuration that crashed the reference gets a refusal, or an answer where ett has one.
local json = require "ett.json"
local refusal = require "refusal"
local folder, refused, run, write = refusal.folder, refusal.refused, refusal.run, refusal.write

local reference = (os.getenv("ETT_REFERENCE") or "") .. "/estimate-train-time"

describe("every configuration that crashed the reference", function()
  local golden = json.read(reference .. "/golden.json")
  if not golden or not package.searchpath("ett.profile", package.path) then
    it("is skipped", function() pending("reference data are not at " .. reference) end)
    return
  end
  -- These the reference crashed on for want of samples, or because its YAML reader takes 1.26e9 for a string: they may
  -- also be answered.
  local answerable = { ["x_bucket_string_1.26e9"] = true, x_vista_dp16_no_generic = true, x_vista_gpn4 = true,
    x_vista_p2p_intranode = true, x_unknown_operator = true }
  for name, case in pairs(golden.configs) do
    if name:match("^x_") then
      it(name, function()
        write("reference/" .. name .. ".yml", json.encode(case.config))
        os.execute(("ln -sfn '%s/regressors' %s/reference/regressors"):format(reference, folder))
        local words = ("predict --config reference/%s.yml --composition reference --quiet"):format(name)
        local status, out = run(words)
        if answerable[name] and status == 0 then
          local seconds = tonumber(out)
          assert.is_true(seconds ~= nil and seconds > 0 and seconds < math.huge, out)
        else
          refused(words, "^reference/" .. name:gsub("%p", "%%%0"))
        end
      end)
    end
  end
end)

teardown(refusal.clean)
