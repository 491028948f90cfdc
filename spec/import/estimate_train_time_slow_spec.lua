-- Every configuration that crashed the reference gets a refusal, or an answer where ett has one.
local files = require "ett.io"
local json = require "ett.json"
local lfs = require "lfs"
local refusal = require "refusal"
local folder, refused, run, write = refusal.folder, refusal.refused, refusal.run, refusal.write

local reference = (os.getenv("ETT_REFERENCE") or "") .. "/estimate-train-time"

--- Copies a folder of sample tables: of each table about 30 rows, evenly spread, so that fits take little time.
local function copy_rows(from, to)
  assert(files.make_folder(to))
  for name in lfs.dir(from) do
    local source, target = from .. "/" .. name, to .. "/" .. name
    if lfs.attributes(source, "mode") == "directory" then
      if not name:match "^%." then copy_rows(source, target) end
    else
      local lines, kept = {}, {}
      for line in io.lines(source) do lines[#lines + 1] = line end
      for i = 2, #lines, math.max(1, #lines // 30) do kept[#kept + 1] = lines[i] end
      assert(files.write(target, table.concat({ lines[1], table.unpack(kept) }, "\n") .. "\n"))
    end
  end
end

describe("every configuration that crashed estimate-train-time", function()
  local golden = json.read(reference .. "/golden.json")
  if not golden or not package.searchpath("ett.profile", package.path) then
    it("is skipped", function() pending("reference data are not at " .. reference) end)
    return
  end
  -- These the reference crashed on for want of samples, or because its YAML reader takes 1.26e9 for a string: they may
  -- also be answered.
  local answerable = { ["x_bucket_string_1.26e9"] = true, x_vista_dp16_no_generic = true, x_vista_gpn4 = true,
    x_vista_p2p_intranode = true, x_unknown_operator = true }
  setup(function() copy_rows(reference .. "/regressors", folder .. "/reference/regressors") end)
  for name, case in pairs(golden.configs) do
    if name:match("^x_") then
      it(name, function()
        write("reference/" .. name .. ".yml", json.encode(case.config))
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
