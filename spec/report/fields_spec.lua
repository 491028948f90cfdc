--- The fields of an estimate in JSON, and their tables in lua/ett/report/README.md.
local architecture = require "ett.model"
local estimate = require "ett.step.estimate"
local json = require "ett.json"
local search = require "ett.search.search"
local tree = require "tree"

local lists = { operators = "line", collectives = "line", stages = "stage", memory = "memory" }
local opaque = { plan = true, ["model.hyper"] = true, provenance_seconds = true }

-- Adds the names of the fields of a decoded record to `found[of]`.
local function collect(found, of, record, prefix)
  for key, value in pairs(record) do
    local name = prefix .. key
    local list = type(value) == "table" and value[1] ~= nil
    if lists[key] and prefix == "" and of == "estimate" then
      for _, each in ipairs(value) do collect(found, lists[key], each, "") end
    elseif list and type(value[1]) == "table" then
      for _, each in ipairs(value) do collect(found, of, each, name .. "[].") end
    elseif type(value) == "table" and not list and next(value) and not opaque[name] then
      collect(found, of, value, name .. ".")
    else
      found[of][name] = true
    end
  end
end

-- The names in the first column of the tables.
local function documented()
  local found, of = { estimate = {}, line = {}, stage = {}, memory = {} }, nil
  local heads = { ["| field | meaning |"] = "estimate",
    ["| field of `operators[]` and `collectives[]` | meaning |"] = "line",
    ["| field of `stages[]` | meaning |"] = "stage", ["| field of `memory[]` | meaning |"] = "memory" }
  for row in (tree.read "lua/ett/report/README.md" .. "\n"):gmatch "([^\n]*)\n" do
    of = heads[row] or row:find "^|" and of or nil
    for name in (of and row:match "^| (`[^|]*)|" or ""):gmatch "`([^`]+)`" do found[of][name] = true end
  end
  return found
end

local both = { name = "both", summary = "two kinds", source = "spec",
  parts = { { cluster = "dgx_h100", nodes = 1 }, { cluster = "dgx_a100", nodes = 1 } },
  links = { inter = { bandwidth_per_gpu = 20e9, bandwidth_per_node = 160e9, source = "spec" } } }

describe("the page of lua/ett/search", function()
  it("names every field of a search in JSON", function()
    local model = architecture.new("llama", { layers = 2, hidden = 512, heads = 8, vocab = 1000 })
    local s = search.new { model = model, cluster = "dgx_h100", devices = 2, plan = { seq = 512, global_batch = 4 } }
    local page, whole = tree.read "lua/ett/search/README.md", json.decode(json.encode(s))
    for name in pairs(whole) do assert.matches("`s." .. name .. "`", page, 1, true) end
    for _, record in ipairs { whole.best, whole.sure } do
      for name in pairs(record) do assert.is_truthy(page:find("[`.]" .. name .. "`"), name) end
    end
  end)
end)

describe("the page of lua/ett/report", function()
  it("lists every field of an estimate in JSON, and no other", function()
    local dense = architecture.new("llama", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 })
    local mixture = architecture.new("mixtral", { layers = 4, hidden = 1024, heads = 8, vocab = 32000, experts = 8,
      moe_ffn = 512, top_k = 2 })
    local function plan(own)
      own.seq, own.micro_batches = 2048, own.micro_batches or 4
      return own
    end
    local found = { estimate = {}, line = {}, stage = {}, memory = {} }
    for _, given in ipairs {
      { model = dense, cluster = "llama3_24k", plan = plan { pp = 2, dp = 8, tp = 2, zero = 3, shard = 4, jitter = 0.1,
        tokens = 1e9, price_per_device_hour = 2, failures_per_device_day = 0.01, sequence_parallel = true } },
      { model = mixture, cluster = "dgx_h100", plan = plan { dp = 16, ep = 8, zero = 1, dtype = "fp8",
        stack = "megatron" } },
      { model = dense, cluster = "perlmutter", plan = plan { dp = 2, dtype = "fp16", micro_batches = 1 } },
      { model = dense, cluster = both, plan = plan { pp = 2, tp = 8 } },
    } do
      collect(found, "estimate", json.decode(json.encode(estimate.new(given))), "")
    end
    local page, source = documented(), tree.read "lua/ett/step/estimate.lua"
    for of, names in pairs(found) do
      for name in pairs(names) do assert.is_true(page[of][name], of .. ": " .. name .. " has no row") end
      for name in pairs(page[of]) do
        local known = names[name] or of == "line" and source:find("line." .. name, 1, true)
        assert.is_truthy(known, of .. ": " .. name .. " is no field")
      end
    end
  end)
end)
