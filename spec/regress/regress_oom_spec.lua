local oom = require "oom"
local regress = require "ett.regress"
local regressor = require "ett.profile.regressor"

local there, reason = regressor.fitting()
if not there then
  describe("bindings of runtime/regress", function() it("are skipped", function() pending(reason) end) end)
  return
end

local rows, seconds = {}, {}
for i = 1, 40 do
  local m = 128 * i
  for _, value in ipairs { 1, m, 1024, 512 } do rows[#rows + 1] = value end
  seconds[i] = 5e-6 + 2.0 * m * 1024 * 512 / 2e14 * (i % 2 == 0 and 1.05 or 1)
end

local function fit(kind)
  return regressor.fit { kind = kind, family = "gemm", dims = 4, rows = rows, seconds = seconds, rounds = 2,
    threads = 1 }
end

describe("bindings of runtime/regress with failing allocations:", function()
  local model = assert(regress.open(fit("hybrid"):bytes()))
  local bytes, text, design = model:bytes(), model:text(), { family = "gemm", dims = 4, multiprocessors = 108 }
  local path = os.tmpname()
  assert(require("ett.io").write(path, bytes .. " tail"))
  for name, fn in pairs {
    ["regress.open"] = function() return regress.open(bytes) end,
    ["regress.open of damage"] = function()
      local ok, err = regress.open(bytes:sub(1, -20))
      if ok then return ok end
      return err.kind == "format" or nil, err
    end,
    ["regress.load"] = function() return regress.load(path, " tail") end,
    ["regress.load of damage"] = function()
      local ok, err = regress.load(path, "tail")
      if ok then return ok end
      return err.kind == "format" or nil, err
    end,
    ["regress.from_text"] = function() return regress.from_text(text) end,
    ["model:predict"] = function() return model:predict { 1, 2000, 1024, 512 } end,
    ["model:predict_rows"] = function() return model:predict_rows(rows) end,
    ["model:facts and text"] = function() return model:facts(), model:text(), model:bytes(), tostring(model) end,
    ["regress.kernels and sizes"] = function() return regress.kernels(design, rows), regress.sizes(design, rows) end,
    ["a model's whole life"] = function()
      local one, err = regressor.open(bytes)
      if not one then return nil, err end
      local value = one:predict { 1, 2000, 1024, 512 }
      local values = one:predict_rows { { 1, 64, 256, 512 }, { 1, 128, 512, 512 } }
      local again, why = regressor.from_text(one:text())
      if not again then return nil, why end
      local facts = again:facts()
      one:close()
      again:close()
      return value.value + #values + facts.dims + #one:__tostring()
    end,
    ["regressor.open of a half"] = function()
      local one, err = regressor.open(bytes:sub(1, #bytes // 2))
      if one then error "a half is no model" end
      if err.kind == "memory" then return nil, err end
      return err.kind
    end,
    -- Without trees: the library's own allocations are not ours to fail.
    ["regress_fit.fit of a base"] = function() return fit "robust_linear" end,
  } do
    it(name, function() assert.is_true(oom.every_allocation(fn) > 0) end)
  end
  teardown(function()
    model:close()
    os.remove(path)
  end)
end)
