--- Both programs against every recorded run of the public ones (golden.json).
local json = require "ett.json"
local host = require "ett.host"
local folder = os.getenv("ETT_REFERENCE") or "../shared/reference"

local quote = require("ett.base.shell").quote
local read = require("ett.io").read

--- Runs `ett ...`: standard output, exit status, standard error.
local function ett(words)
  local err = os.tmpname()
  for i, word in ipairs(words) do words[i] = quote(word) end
  local pipe = io.popen(("%s %s 2>%s"):format(quote(host.prefix .. "/bin/ett"), table.concat(words, " "), err), "r")
  local out = pipe:read("a")
  local _, _, status = pipe:close()
  local errors = read(err)
  os.remove(err)
  return out, status, errors
end

describe("the recorded runs of the public programs", function()
  local text = read(folder .. "/ml-par-sim/golden.json")
  if not text then
    pending("no reference data: golden.json is not there (set ETT_REFERENCE)")
    return
  end
  for _, case in ipairs(json.decode(text).cases) do
    local command = case.script == "transformer.py" and "transformer" or "simple-transformer"
    it(("%s --as %s, %s: exit %d"):format(command, case.version, case.id, case.exit_code), function()
      local words = { command, "--as", case.version }
      for _, word in ipairs(case.argv) do words[#words + 1] = word end
      local out, status, errors = ett(words)
      assert.equal(math.tointeger(case.exit_code), status)
      assert.equal(case.stdout, out)
      if status == 0 then
        assert.equal("", errors)
      else -- a sentence instead of a traceback or a bare tuple
        assert.equal("ett: " .. command .. ": ", errors:sub(1, #command + 7))
        assert.is_true(#errors > #command + 20)
        assert.falsy(errors:find("traceback", 1, true))
      end
    end)
  end
end)

describe("the README's examples", function()
  it("prints 118.8 days for the first", function()
    local out = ett { "transformer", "--cluster_flop_rate", "156e12", "--num_experts", "8", "--batch_size", "8192",
      "--seq_len", "8192", "--dataset_size", "13e12", "--num_layers", "120", "--d_model", "15360", "--p_pipe", "15",
      "--p_data", "16", "--p_seq", "1", "--p_exp", "8", "--p_tensor_int", "8", "--p_tensor_ext", "1" }
    assert.truthy(out:find("      FLOP      8.198e+24      1.640e+25      2.460e+25\n"
      .. "        Tx      1.923e+20      2.308e+20      4.231e+20\n"
      .. "        Rx      3.746e+20      3.746e+20      7.492e+20\n"
      .. "       net      5.669e+20      6.054e+20      1.172e+21\n", 1, true))
    assert.truthy(out:find("\nRuntime:             118.8 days\n", 1, true))
  end)

  it("prints 101.8 days for the second", function()
    local out = ett { "simple-transformer", "--as", "readme", "--chip", "A100_40GB", "--n_layers", "120", "--d_model",
      "12288", "--batch_size", "30720", "--microbatch_size", "48", "--n_experts", "16", "--n_routed_experts", "2",
      "--pp", "15", "--pipeline_interleaving", "8", "--tp", "8", "--dp", "12" }
    assert.truthy(out:find("Pipeline full time:      9.5150 secs\n", 1, true))
    assert.truthy(out:find("TOTAL RUN TIME\n 101.8 days\n", 1, true))
  end)
end)
