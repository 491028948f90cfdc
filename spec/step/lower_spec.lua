--- Lowering: what an operator is comes from the fields of its file, not from its name.
local command = require "command"
local estimate = require "ett.step.estimate"
local find = require "ett.base.find"
local host = require "ett.host"
local lfs = require "lfs"
local model_module = require "ett.model"
local timeline = require "ett.step.timeline"

local copies = { expert_linear1 = "my_moe_up", expert_linear2 = "my_moe_down" }

local function mixture()
  return model_module.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1000, experts = 8,
    top_k = 2 })
end

local function run(model, profile, plan)
  plan.seq, plan.micro_batches = 512, 4
  return estimate.new { model = model, cluster = "perlmutter", profile = profile, plan = plan }
end

describe("a backward pass in two", function()
  it("leaves products' weights, lookups and accumulations for later, and norms not", function()
    local cost = { rms_norm = 1, residual_add = 16, embedding = 2, linear_qkv = 4 } -- accumulation: as residual_add
    local profile = {
      operator = function(_, name, _, _, pass)
        local seconds = pass == "backward" and (cost[name] or 0) or 0
        return { seconds = seconds, low_seconds = seconds, high_seconds = seconds, provenance = "measured" }
      end,
      collective = function() return { seconds = 0, low_seconds = 0, high_seconds = 0, provenance = "measured" } end,
    }
    local model = model_module.new("llama", { layers = 2, hidden = 512, heads = 8, ffn = 1024, vocab = 1000 })
    local e = estimate.new { model = model, cluster = "perlmutter", profile = profile, units = true,
      plan = { seq = 512, micro_batches = 4, pp = 2, schedule = "zb_h1" } }
    local seconds = { F = 0, B = 0, W = 0 }
    for _, unit in ipairs(e.units[1]) do
      if unit[2] == 1 then seconds[unit[1]] = seconds[unit[1]] + unit.seconds end
    end
    assert.near(2 + 16 + 4 / 2 + 16, seconds.W, 1e-9) -- embedding with its accumulation, one layer with its own
    assert.near(2 * 1 + 4 / 2 + 2 * 16, seconds.B, 1e-9)
    local kept
    for _, unit in ipairs(timeline.of(e).stages[1].units) do
      local sum = 0
      for _, part in ipairs(unit.parts) do sum = sum + part.seconds end
      assert.near(unit.seconds, sum, 1e-9)
      for _, part in ipairs(unit.parts) do kept = kept or unit.kind == "W" and part.name == "gradient_accumulation" end
    end
    assert.is_true(kept)
  end)
end)

describe("expert operators under other names", function()
  local folder
  setup(function()
    folder = command.folder()
    lfs.mkdir(folder .. "/operators")
    for name, copy in pairs(copies) do
      local text = command.read(host.root, "operators/" .. name .. ".lua")
      command.write(folder, "operators/" .. copy .. ".lua",
        (text:gsub('name = "[^"]+", aliases = {[^}]*}', ('name = "%s"'):format(copy))))
    end
    find.set_script_folder(folder)
  end)
  teardown(function()
    find.set_script_folder(nil)
    command.remove(folder)
  end)

  it("give the same parameters, memory and step", function()
    local own, renamed = mixture(), mixture()
    local replaced = 0
    for _, layer in ipairs(renamed.layers) do
      for _, entry in ipairs(layer.ops) do
        if copies[entry.op] then entry.op, replaced = copies[entry.op], replaced + 1 end
      end
    end
    assert.equal(2, replaced)
    for _, plan in ipairs { { ep = 4, dp = 4 }, { ep = 8, dp = 8, zero = 1 }, { pp = 2, ep = 2, dp = 2 } } do
      local a, b = run(own, false, plan), run(renamed, false, plan)
      assert.is_true(a.stages[1].expert_parameters > 0)
      assert.same(a.stages, b.stages)
      assert.equal(a.memory_bytes, b.memory_bytes)
      assert.equal(a.step_seconds, b.step_seconds)
      assert.equal(run(own, nil, plan).step_seconds, run(renamed, nil, plan).step_seconds)
    end
  end)
end)
