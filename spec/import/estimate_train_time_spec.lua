--- Every recorded run of estimate-train-time, composed from its own model calls.
local json = require "ett.json"
local raised = require "raised"
local reference = require "ett.import.estimate_train_time"

local path = (os.getenv("ETT_REFERENCE") or "../shared/reference") .. "/estimate-train-time/golden.json"

local function golden()
  local file = io.open(path)
  if not file then return nil end
  file:close()
  return json.read(path).configs
end

local function near(expected, actual, where)
  if type(expected) == "table" then
    assert.equal("table", type(actual), where)
    for key, value in pairs(expected) do near(value, actual[key], where .. "." .. tostring(key)) end
    return
  end
  assert.is_truthy(type(actual) == "number", where .. ": missing")
  local scale = math.max(math.abs(expected), 1e-300)
  assert.is_true(math.abs(actual - expected) <= 1e-9 * scale,
    ("%s: wanted %.17g, got %.17g"):format(where, expected, actual))
end

local compared = { "total_us", "run_time", "parameters", "layers_head_middle_tail", "afab_stage_fwd_with_p2p",
  "afab_stage_bwd_with_p2p", "pipeline_us", "head_dp_allreduce_us", "max_update_us" }

describe("reference composition", function()
  local configs = golden()
  if not configs then
    pending("skipped: the recorded runs are not at " .. path)
    return
  end
  local names, working = {}, 0
  for name in pairs(configs) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local run = configs[name]
    if run.status == "ok" then
      working = working + 1
      it("equals the recorded run " .. name, function()
        local config = reference.check(run.config, name .. ".yml")
        local result = reference.predict(config, reference.timings(run.model_calls, "calls.json"))
        for _, key in ipairs(compared) do near(run[key], result[key], key) end
        -- nothing recorded is left out of run_time, nothing is made up
        local count = 0
        for key in pairs(result.run_time) do
          count = count + 1
          assert.is_truthy(run.run_time[key], key)
        end
        for _ in pairs(run.run_time) do count = count - 1 end
        assert.equal(0, count)
        assert.same(run.out_of_range_models, result.out_of_range_models)
      end)
    end
  end

  it("includes the working configurations", function() assert.equal(16, working) end)

  it("reports the layers that the tool loses", function()
    local run = configs.q01_pp16_negative_tail
    local result = reference.predict(reference.check(run.config, "q01"),
      reference.timings(run.model_calls, "calls.json"))
    assert.equal("the tail stage has -1 layers", result.warnings[1])
    assert.equal("this composition times 28 layers for a model of 32", result.warnings[2])
    local text = require "ett.import.estimate_train_time.text"(result)
    assert.matches(("\npipeline +%.3f +%.1f\n"):format(result.pipeline_us / 1e3,
      100 * result.pipeline_us / result.total_us), text)
    assert.matches(("\ntail +%%-1 +%.3f +%.3f\nwarning: the tail stage has %%-1 layers\n"):format(
      result.afab_stage_fwd_with_p2p[3] / 1e3, result.afab_stage_bwd_with_p2p[3] / 1e3), text)
  end)

  --- What each crashing configuration is told; those not listed here read data folders or
  --- work (their times are looked up by a profile, not by the composition).
  local refused = {
    x_8_elements = "field 'training_config' must hold 9 numbers (pp, mp, dp, b, h, l, dim, steps_per_update, "
      .. "gpus_per_node), got 8; add gpus_per_node, the GPUs of one node",
    x_gpn0 = "field 'training_config[9]' (gpus_per_node) must be an integer from 1 to 10000000, got 0",
    x_mp0 = "field 'training_config[2]' (mp) must be an integer from 1 to 10000000, got 0",
    x_bucket0_infinite_loop = "field 'comm_bucket' must be a positive integer, got 0",
    x_missing_key_fwd_syncs = "missing field 'fwd_syncs' (an integer of at least 0)",
    x_missing_embedding = "field 'function_list': lacks 'embedding', which the first stage needs; add it",
    x_p_p2p_ok_but_missing_layernorm_fn = "field 'function_list': lacks 'layernorm', which layernorm_name needs; "
      .. "add it; did you mean 'RMSlayernorm'?",
    x_encoder_fn_not_in_function_list = "field 'function_list': lacks 'softmax', which encoder_function_list[12] "
      .. "needs; add it",
  }
  for name, message in pairs(refused) do
    it("refuses " .. name, function()
      assert.equal("plan.yml: " .. message, raised(reference.check, configs[name].config, "plan.yml"))
    end)
  end

  it("reads 1.26e9 as a number", function()
    local config = reference.check(configs["x_bucket_string_1.26e9"].config, "plan.yml")
    assert.equal(1260000000, config.plan.comm_bucket)
  end)

  it("names a call missing from a list of times", function()
    local run = configs.llemma_7b_4_2_2_P
    local calls = table.move(run.model_calls, 2, #run.model_calls, 1, {})
    assert.equal("calls.json: has no call of operator 'embedding_fp16_fwd'", raised(reference.predict,
      reference.check(run.config, "a.yml"), reference.timings(calls, "calls.json")))
  end)

  it("keeps a recorded negative time and reports it", function()
    local run = configs.p17_mp3_dp3_nondivisible
    local result = reference.predict(reference.check(run.config, "p17"),
      reference.timings(run.model_calls, "calls.json"))
    assert.matches("^the time of '[%w_]+' is negative: %-%d+", result.warnings[1])
  end)

  it("refuses times that are not numbers", function()
    for _, us in ipairs { 0 / 0, math.huge, "12" } do
      local why = raised(reference.timings, { { kind = "operator", model = "a", us = us } }, "calls.json")
      assert.matches("^calls.json: call 1: field 'us' must be a finite time, got ", why)
    end
  end)
end)

describe("a configuration without a cluster", function()
  local clusters = require "ett.profile.cluster"
  local get = clusters.get
  local folder = require("command").folder()
  teardown(function() require("command").remove(folder) end)
  after_each(function() clusters.get = get end)

  local function source(gpu_name, gpus_per_node)
    require("command").write(folder, gpu_name .. "_gelu_fp16.csv", "b,l,dim,F_dur(us)\n1,8,8,5\n")
    return require("ett.import.estimate_train_time.source").source({ operator_data_folder = folder,
      nccl_data_folder = folder, gpu_name = gpu_name, plan = { gpus_per_node = gpus_per_node } }, folder .. "/c.yml")
  end

  it("has that of its device, and checks no cluster and no device of another name", function()
    local asked, devices = {}, require "ett.profile.device"
    local get_device = devices.get
    finally(function() devices.get = get_device end)
    devices.get = function(name)
      local device = get_device(name)
      assert.equal("NVIDIAA100-SXM4-80GB", device.name)
      return device
    end
    clusters.get = function(name)
      local cluster = get(name)
      if type(name) == "string" then asked[#asked + 1] = cluster.device.name end
      return cluster
    end
    local cluster = source("NVIDIAA100-SXM4-80GB", 4)
    assert.same({ "perlmutter", 4 }, { cluster.name, cluster.gpus_per_node })
    assert.is_true(#asked > 0)
    for _, name in ipairs(asked) do assert.equal(cluster.device.name, name) end
  end)

  it("names the known devices if no cluster has its device", function()
    assert.matches("no cluster has the device 'NVIDIAA101'.*known are .*H100.*; name a cluster with %-%-cluster",
      raised(source, "NVIDIAA101", 4))
  end)
end)
