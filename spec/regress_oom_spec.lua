-- Serving regressors with every allocation failing in turn. Fitting is left out: it runs inside
-- XGBoost, whose threads end the process when they cannot be made.
local oom = require "oom"
local regressor = require "ett.regressor"

local there, reason = regressor.fitting()
if not there then
  describe("with failing allocations", function() it("are left out", function() pending(reason) end) end)
  return
end

describe("with failing allocations", function()
  local rows, seconds = {}, {}
  for i = 1, 40 do
    rows[i] = { 1, 64 * i, 256 * (1 + i % 4), 512 }
    seconds[i] = 1e-6 * (1 + i * (1 + i % 4))
  end
  local fitted = regressor.fit { family = "gemm", rows = rows, seconds = seconds, rounds = 5 }
  local bytes = fitted:bytes()

  it("ett.regress opens, predicts and writes", function()
    oom.every_allocation(function()
      local r, err = regressor.open(bytes)
      if not r then return nil, err end
      local one = r:predict(rows[3])
      local values = r:predict_rows { rows[1], rows[2] }
      local text = r:text()
      local again, why = regressor.from_text(text)
      if not again then return nil, why end
      local facts = again:facts()
      r:close()
      again:close()
      return one.value + #values + facts.dims + #r:__tostring()
    end)
  end)

  it("ett.regress refuses damaged models", function()
    oom.every_allocation(function()
      local r, err = regressor.open(bytes:sub(1, #bytes // 2))
      if r then error "a half is no model" end
      if err.kind == "memory" then return nil, err end
      return err.kind
    end)
  end)
end)
